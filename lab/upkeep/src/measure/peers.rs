//! `make compare-peers`: compares well-known tools with ours under the same load. It writes the tables of four READMEs:
//! stage 08 against cachestat and the disk, the example biolatency against the tool of the same name, biowhere against
//! biosnoop, and ctracer against trace-cmd.

use std::path::PathBuf;
use std::process::ExitCode;

use common::{Error, OrCause, Result};
use machine::kernels::{DEFAULT, MATRIX};
use machine::vm::{Accel, Machine};
use machine::workbook::Workbook;

use crate::measure::cost::{self, STATED};
use crate::{measure, publish};
use machine::apt::{LOADER, unpack_whole};

/// How many pages of a file the comparison of stage 08 and cachestat reads.
pub const PAGES: u64 = 2000;

/// The Debian packages of the tools. They need the libraries of their own Debian release, because the guest has this
/// machine's.
const PACKAGES: [&str; 3] = ["libbpf-tools", "trace-cmd", "blktrace"];
const PROGRAMS: [&str; 8] = [
    "sbin/cachestat-libbpf",
    "sbin/biolatency-libbpf",
    "sbin/bitesize-libbpf",
    "sbin/biosnoop-libbpf",
    "bin/trace-cmd",
    "sbin/blktrace",
    "bin/blkparse",
    "bin/btt",
];
const LIBRARIES: [&str; 6] =
    ["libelf.so.1", "libz.so.1", "libzstd.so.1", "libtraceevent.so.1", "libtracefs.so.1", "libc.so.6"];

/// What the programs of these commands may cost together, as a multiple of what those of libbpf-tools cost: on 6.1, where
/// a program can't read a bio without a helper, and later.
const GOALS: [(&str, [f64; 2]); 3] =
    [("`biolatency`", [0.65, 0.65]), ("`biolatency -D -F`", [0.5, 0.5]), ("`bitesize`", [0.95, 0.8])];

/// What ctracer may cost at most, as a multiple of what trace-cmd costs for the same calls.
const CTRACER_GOAL: f64 = 1.0;

/// What biowhere may cost at most, as a multiple of what biosnoop costs: without lines, and with them.
const BIOWHERE_GOALS: [(&str, f64); 3] = [("--slower-than", 0.7), ("--summary", 0.7), ("lines", 1.0)];

/// The rows of a kernel's guest: its name, how to run its instructions, and what it compares.
type Compare<'a> = dyn Fn(&str, Accel, &str) -> Result<Vec<String>> + 'a;

/// On the host: boots guests, compares the tools there, and writes the tables: those of one program, or of all.
///
/// # Errors
/// If a package is not available, if a comparison fails in a guest, or if a program of ours costs more than its goal.
pub fn run(workbook: &Workbook, only: Option<&str>) -> Result<ExitCode> {
    let folder = tempfile::tempdir().or_cause("cannot make a folder")?;
    let versions = unpack_whole("sid", &PACKAGES, folder.path())?;
    let [version, trace_cmd, blktrace] = &versions[..] else {
        return Err(Error::new("a tool has no version"));
    };
    let libraries = folder.path().join("usr/lib/x86_64-linux-gnu");
    let mut peers: Vec<PathBuf> =
        [LOADER].iter().chain(&LIBRARIES).map(|name| libraries.join(name)).collect();
    peers.extend(PROGRAMS.map(|name| folder.path().join("usr").join(name)));
    let compare = |kernel: &str, accel, what: &str| {
        let mut machine = Machine { accel, ..measure::machine(workbook, kernel)? };
        machine.binaries.extend(peers.iter().cloned());
        measure::ask_guest(&machine, what)
    };
    let mut missed = Vec::new();
    for (program, _) in STATED.iter().filter(|(program, _)| only.is_none_or(|only| only == *program)) {
        let table = match *program {
            "biolatency" => latencies(&compare, version, &mut missed)?,
            "biowhere" => lines(&compare, [version, blktrace], &mut missed)?,
            "ctracer" => calls(&compare, trace_cmd, &mut missed)?,
            _ => pages(&compare, version)?,
        };
        let table = table + &cost::line(workbook, program)?;
        let page = workbook.catalog.program(program)?.folder.join("README.md");
        publish::blocks::replace(&page, "peers", &table, true)?;
    }
    if missed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Error::new("our programs cost more than they should")
        .evidence(missed.join("\n"))
        .fix("find out which of them costs more than before, and in which commit that changed"))
}

/// The table of stage 08.
fn pages(compare: &Compare<'_>, version: &str) -> Result<String> {
    let mut table = format!(
        "| kernel | read of {PAGES} pages | the disk read | stage 08: Hit / miss | cachestat {version}: HITS / MISSES |\n\
         |---|---|---|---|---|\n"
    );
    for series in MATRIX {
        let rows = compare(series.name, Accel::Auto, "pages")?;
        table.extend(rows.iter().map(|row| format!("| {} | {row} |\n", series.name)));
    }
    Ok(table)
}

/// The tables of biolatency and bitesize.
fn latencies(compare: &Compare<'_>, version: &str, missed: &mut Vec<String>) -> Result<String> {
    let mut table =
        format!("| microseconds | biolatency | that of libbpf-tools {version} |\n|---|---|---|\n");
    table.extend(compare(DEFAULT, Accel::Auto, "latency")?.iter().map(|row| format!("| {row} |\n")));
    table += "\n| kernel | guest instructions a call | ours | libbpf-tools |\n|---|---|---|---|\n";
    for series in MATRIX {
        for row in compare(series.name, Accel::Icount, "costs")? {
            table += &format!("| {} | {row} |\n", series.name);
            let Some((command, ratio)) = cost_ratio(&row) else { continue };
            let goals = GOALS.iter().find(|(name, _)| *name == command);
            let goal = goals.map_or(f64::INFINITY, |(_, goals)| goals[usize::from(series.name != "6.1")]);
            missed.extend(too_much(series.name, command, ratio, goal));
        }
    }
    Ok(table)
}

/// The table of ctracer.
fn calls(compare: &Compare<'_>, version: &str, missed: &mut Vec<String>) -> Result<String> {
    let mut table = format!(
        "| kernel | functions called | nothing | trace-cmd {version} | ctracer, the ends of a life | ctracer |\n\
         |---|---|---|---|---|---|\n"
    );
    for series in MATRIX {
        for row in compare(series.name, Accel::Icount, "calls")? {
            table += &format!("| {} | {row} |\n", series.name);
            let too_much = |ratio| too_much(series.name, "ctracer", ratio, CTRACER_GOAL);
            missed.extend(ratio(&row).and_then(too_much));
        }
    }
    Ok(table)
}

/// The table of biowhere.
fn lines(compare: &Compare<'_>, [biosnoop, blktrace]: [&str; 2], missed: &mut Vec<String>) -> Result<String> {
    let mut table = format!(
        "| kernel | nothing | blktrace {blktrace}, and btt | biosnoop -Q {biosnoop} | biowhere --slower-than | biowhere --summary \
         | biowhere |\n|---|---|---|---|---|---|---|\n"
    );
    for series in MATRIX {
        for row in compare(series.name, Accel::Icount, "lines")? {
            table += &format!("| {} | {row} |\n", series.name);
            // Where the peer does not start, there is no goal.
            let numbers: Option<Vec<f64>> = row.split(" | ").map(|cell| cell.parse().ok()).collect();
            let [nothing, _, peer, ours @ ..] = &numbers.unwrap_or_default()[..] else { continue };
            for ((what, goal), cost) in BIOWHERE_GOALS.iter().zip(ours) {
                let ratio = (cost - nothing) / (peer - nothing);
                missed.extend(too_much(series.name, &format!("biowhere, {what},"), ratio, *goal));
            }
        }
    }
    Ok(table)
}

/// What to report if a command costs more than its goal.
fn too_much(kernel: &str, command: &str, ratio: f64, goal: f64) -> Option<String> {
    let told =
        || format!("{kernel}: {command} costs {ratio:.2} times what the peer costs, and the goal is {goal}");
    (ratio > goal).then(told)
}

/// A command and what its programs cost together, as a multiple of the peer's, from a row of the table: the command,
/// then our programs, then theirs, each with its name in backticks and its cost.
fn cost_ratio(row: &str) -> Option<(&str, f64)> {
    let mut cells = row.trim_matches(['|', ' ']).split(" | ");
    let command = cells.next()?;
    let mut sum = || {
        let costs = cells.next()?.split(", ").map(|program| program.rsplit(' ').next()?.parse::<f64>().ok());
        costs.sum::<Option<f64>>()
    };
    let (ours, theirs) = (sum()?, sum()?);
    Some((command, ours / theirs))
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
        assert_eq!(cost_ratio("| `a -D` | `start` 100, `end` 300 | `x` 500 |"), Some(("`a -D`", 0.8)));
        assert_eq!(cost_ratio("| `a` | `start` 100 | does not start |"), None);
        assert_eq!(too_much("6.12", "`a`", 0.8, 0.8), None);
        assert!(too_much("6.12", "`a`", 0.81, 0.8).is_some());
    }
}
