//! `make compare-peers`: compares well-known tools with ours under the same load. It writes the tables of three
//! READMEs: stage 08 against cachestat and the disk, the example biolatency against the tool of the same name, and
//! stage 10 against trace-cmd.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use common::report::print_text;
use common::{Error, OrCause, Result};

use crate::machine::fetch;
use crate::machine::kernels::{DEFAULT, MATRIX};
use crate::machine::vm::{Accel, Machine};
use crate::publish::blocks;
use crate::publish::sync::COMPARED;
use crate::shared::measure::{PEER_LOADER, PEER_PAGES};
use crate::workbook::Workbook;

/// The Debian packages of the tools. They need the libraries of their own Debian release, because the guest has this
/// machine's.
const PACKAGES: [&str; 2] = ["libbpf-tools", "trace-cmd"];
const PROGRAMS: [&str; 4] =
    ["sbin/cachestat-libbpf", "sbin/biolatency-libbpf", "sbin/bitesize-libbpf", "bin/trace-cmd"];
const LIBRARIES: [&str; 6] =
    ["libelf.so.1", "libz.so.1", "libzstd.so.1", "libtraceevent.so.1", "libtracefs.so.1", "libc.so.6"];

/// What ctracer may cost at most on each kernel, as a multiple of what trace-cmd costs for the same calls.
const GOALS: [(&str, f64); 4] = [("5.10", 1.5), ("6.1", 1.5), ("6.12", 1.2), ("7.2", 1.2)];

/// How long a comparison may take in the guest.
const LIMIT: Duration = Duration::from_secs(300);

/// On the host: boots guests, compares the tools there, and writes the tables.
///
/// # Errors
/// If a package is not available, if a comparison fails in a guest, or if ctracer costs more than [`GOALS`].
pub fn run(workbook: &Workbook) -> Result<ExitCode> {
    let folder = tempfile::tempdir().or_cause("cannot make a folder")?;
    let [version, trace_cmd] = PACKAGES.map(|name| fetch::unpack_package("sid", name, folder.path()));
    let (version, trace_cmd) = (version?, trace_cmd?);
    let libraries = folder.path().join("usr/lib/x86_64-linux-gnu");
    let mut peers: Vec<PathBuf> =
        [PEER_LOADER].iter().chain(&LIBRARIES).map(|name| libraries.join(name)).collect();
    peers.extend(PROGRAMS.map(|name| folder.path().join("usr").join(name)));
    let compare = |kernel: &str, accel, what| {
        let mut machine = Machine { accel, ..Machine::new(workbook, kernel)? };
        machine.binaries.extend(peers.iter().cloned());
        let seen = machine.boot()?.output(&["guest", "peers", what], LIMIT)?;
        let rows = String::from_utf8_lossy(&seen.stdout).lines().map(|row| format!("| {row} |\n")).collect();
        match seen.status {
            0 => Ok(rows),
            _ => Err(Error::new(format!("{kernel} can't compare")).evidence(seen.stderr)),
        }
    };
    let write = |program: &str, table: &str| {
        print_text(table)?;
        blocks::replace(&workbook.program(program)?.folder().join("README.md"), "peers", table, true)
    };

    let mut table = format!(
        "| kernel | read of {PEER_PAGES} pages | the disk read | stage 08: Hit / miss | cachestat {version}: HITS / MISSES |\n\
         |---|---|---|---|---|\n"
    );
    for series in MATRIX {
        let rows: String = compare(series.name, Accel::Auto, "pages")?;
        table.extend(rows.lines().map(|row| format!("| {} {row}\n", series.name)));
    }
    write(COMPARED[0], &table)?;

    let mut table =
        format!("| microseconds | biolatency | that of libbpf-tools {version} |\n|---|---|---|\n");
    table += &compare(DEFAULT, Accel::Auto, "latency")?;
    let costs: String = compare(DEFAULT, Accel::Icount, "costs")?;
    let _ = write!(table, "\n| guest instructions a call | ours | libbpf-tools |\n|---|---|---|\n{costs}");
    write(COMPARED[1], &table)?;

    let mut table = format!(
        "| kernel | functions called | nothing | trace-cmd {trace_cmd} | ctracer, the ends of a life | ctracer |\n\
         |---|---|---|---|---|---|\n"
    );
    let mut missed = Vec::new();
    for series in MATRIX {
        let row: String = compare(series.name, Accel::Icount, "calls")?;
        table.extend(row.lines().map(|row| format!("| {} {row}\n", series.name)));
        let (_, goal) = GOALS.iter().find(|(name, _)| *name == series.name).unwrap_or(&("", f64::INFINITY));
        missed.extend(ratio(&row).filter(|ratio| ratio > goal).map(|ratio| {
            format!("{}: {ratio:.2} times as much as trace-cmd, and the goal is {goal}", series.name)
        }));
    }
    write(COMPARED[2], &table)?;
    if missed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Error::new("ctracer costs more than it should")
        .evidence(missed.join("\n"))
        .fix("find out what an event costs now, and in which commit that changed"))
}

/// What ctracer adds to a write, as a multiple of what trace-cmd adds, from a row of the table: the functions called,
/// the write alone, under trace-cmd, with the ends only, under ctracer.
fn ratio(row: &str) -> Option<f64> {
    let numbers: Vec<f64> = row.split('|').filter_map(|cell| cell.trim().parse().ok()).collect();
    let [_, nothing, peer, _, ours] = numbers[..] else { return None };
    Some((ours - nothing) / (peer - nothing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_of_what_each_tool_adds() {
        assert_eq!(ratio("| 24 | 100 | 300 | 150 | 340 |\n"), Some(1.2));
        assert_eq!(ratio("| 24 | 100 |\n"), None);
        assert!(MATRIX.iter().all(|series| GOALS.iter().any(|(name, _)| *name == series.name)));
    }
}
