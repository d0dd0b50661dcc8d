//! `make compare-peers`: what a well-known tool says of the same reads, beside stage 08 and the disk. It writes the table
//! of stage 08's README.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Error, OrCause, Result};
use nix::sys::signal::Signal;

use crate::guest::FS_MOUNT;
use crate::kernels::{self, MATRIX};
use crate::observe::{Stage as Running, io};
use crate::vm::Machine;
use crate::workbook::Workbook;
use crate::{sync, truth};

/// cachestat of Debian's libbpf-tools, with the libraries of its own Debian: the guest has this machine's.
const PACKAGE: &str = "libbpf-tools";
const PROGRAM: &str = "cachestat-libbpf";
const LOADER: &str = "ld-linux-x86-64.so.2";
const LIBRARIES: [&str; 4] = ["libelf.so.1", "libz.so.1", "libzstd.so.1", "libc.so.6"];

/// What the table is about.
const PAGES: u64 = 2000;

/// On the host: boots each kernel of the matrix, compares there, and writes the table.
///
/// # Errors
/// If the package can't be had, or a guest can't compare.
pub fn run(workbook: &Workbook) -> Result<ExitCode> {
    let folder = tempfile::tempdir().or_cause("cannot make a folder")?;
    let version = kernels::unpack_package("sid", PACKAGE, folder.path())?;
    let libraries = folder.path().join("usr/lib/x86_64-linux-gnu");
    let mut peer: Vec<PathBuf> = [LOADER].iter().chain(&LIBRARIES).map(|name| libraries.join(name)).collect();
    peer.push(folder.path().join("usr/sbin").join(PROGRAM));

    let mut table = format!(
        "| kernel | read of {PAGES} pages | the disk read | stage 08: Hit / miss | cachestat {version}: HITS / MISSES |\n\
         |---|---|---|---|---|\n"
    );
    for series in MATRIX {
        let mut machine = Machine::new(workbook, series.name)?;
        machine.binaries.extend(peer.iter().cloned());
        let seen = machine.boot()?.output(&["guest", "peers"], Duration::from_secs(120))?;
        if seen.status != 0 {
            return Err(Error::new(format!("{} can't compare", series.name)).evidence(seen.stderr));
        }
        for line in String::from_utf8_lossy(&seen.stdout).lines() {
            table += &format!("| {} | {line} |\n", series.name);
        }
    }
    print!("{table}");
    let readme = workbook.stage("08")?.folder.join("README.md");
    sync::replace(&readme, "peers", &table, true)?;
    Ok(ExitCode::SUCCESS)
}

/// In the guest: reads a file that is not in the page cache, then again, with both watching. Gives the lines of the table.
///
/// # Errors
/// If one of them can't be run.
pub fn compare() -> Result<Vec<String>> {
    let file = format!("{FS_MOUNT}/peers");
    let count = PAGES.to_string();
    // Makes the file, and leaves it out of the page cache.
    io(&["read-cold", &file, "--count", &count])?;
    nix::unistd::sync();
    let mut lines = Vec::new();
    for (kind, what) in [("read-cold", "cold"), ("read", "warm")] {
        let stage = Running::start(&["stage08"])?;
        let peer = start_peer()?;
        let done = io(&[kind, &file, "--count", &count])?;
        let told = match peer {
            Some(peer) => end_peer(peer)?,
            None => "does not start".to_owned(),
        };
        let seen = stage.end(Signal::SIGINT)?;
        let [_, hit, miss, _] = truth::page_cache(&seen)?;
        lines.push(format!("{what} | {} | {hit} / {miss} | {told}", done.read_bytes / 4096));
    }
    Ok(lines)
}

/// Starts cachestat for a few intervals of a second and waits until it is attached: then it sleeps. `None` if the kernel
/// refuses its programs.
fn start_peer() -> Result<Option<Child>> {
    let mut command = Command::new(format!("/bin/{LOADER}"));
    command.args(["--library-path", "/bin", &format!("/bin/{PROGRAM}"), "1", "4"]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().or_cause("cannot start cachestat")?;
    let deadline = Instant::now() + Duration::from_secs(20);
    let wchan = format!("/proc/{}/wchan", child.id());
    while !fs::read_to_string(&wchan).is_ok_and(|function| function.contains("nanosleep")) {
        if child.try_wait().or_cause("cannot wait for cachestat")?.is_some() {
            let output = child.wait_with_output().or_cause("cannot wait for cachestat")?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return match said.contains("BPF program load failed") {
                true => Ok(None),
                false => Err(Error::new("cachestat does not run").evidence(said)),
            };
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            return Err(Error::new("cachestat does not begin"));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(Some(child))
}

/// Adds its intervals up.
fn end_peer(mut peer: Child) -> Result<String> {
    if peer.try_wait().or_cause("cannot wait for cachestat")?.is_some() {
        return Err(Error::new("cachestat ended before the reads did"));
    }
    let output = peer.wait_with_output().or_cause("cannot wait for cachestat")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let sum = |nth: usize| -> u64 {
        let column = |line: &str| line.split_whitespace().nth(nth)?.parse::<u64>().ok();
        text.lines().filter_map(column).sum()
    };
    Ok(format!("{} / {}", sum(0), sum(1)))
}
