//! Help for cases: what a guest offers.

use std::collections::BTreeSet;
use std::fs;
use std::panic::panic_any;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use lab::guest::running::{Observation, Running};
use lab::guest::system::{mount_fs, unmount_fs};
use lab::guest::truth;
use lab::shared::disks::FS_MOUNT;
use lab::shared::workload::{Done, Io};
use libbpf_rs::query::ProgInfoIter;
use nix::mount::{MsFlags, mount};
use nix::sys::signal::Signal;

/// Unmounts ext4, so that no I/O happens but the case's own.
pub fn quiet() {
    unmount_fs().unwrap();
}

/// Mounts ext4, so that it and the kernel write when a case asks for it, and not after so many seconds.
pub fn with_ext4() {
    let mounts = || fs::read_to_string("/proc/mounts").unwrap();
    if !mounts().contains(&format!(" {FS_MOUNT} ext4 ")) {
        mount_fs().unwrap();
    }
    if !mounts().contains(",commit=3600") {
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_NOATIME;
        mount(None::<&str>, FS_MOUNT, None::<&str>, flags, Some("commit=3600")).unwrap();
        fs::write("/proc/sys/vm/dirty_writeback_centisecs", "0").unwrap();
    }
}

/// Runs a shell command that must succeed and gives its stdout.
pub fn sh(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What `io` did with these arguments.
pub fn io(arguments: &str) -> Done {
    lab::guest::running::io(&arguments.split(' ').collect::<Vec<_>>()).unwrap()
}

/// What a stage printed while `io` ran; ended by Ctrl-C.
pub fn watch(stage: &str, arguments: &str) -> (Observation, Done) {
    watch_while(stage, || io(arguments))
}

/// As [`watch`], of a stage that counts exactly. If it reports that the kernel did not show it some calls, the case begins anew;
/// see [`Missed`].
pub fn watch_exact(stage: &str, arguments: &str) -> (Observation, Done) {
    let (seen, done) = watch(stage, arguments);
    if truth::missed(&seen).is_some_and(|missed| missed > 0) {
        eprintln!("{stage}: {}", seen.stdout.lines().last().unwrap_or_default());
        panic_any(Missed);
    }
    (seen, done)
}

/// What a stage printed while something was done; ended by Ctrl-C.
pub fn watch_while<T>(stage: &str, work: impl FnOnce() -> T) -> (Observation, T) {
    let stage = Running::start(&[stage]).unwrap();
    let done = work();
    let seen = stage.end(Signal::SIGINT).unwrap();
    assert!(seen.status.success(), "{seen:?}");
    assert!(!seen.stderr.contains("lost"), "{}", seen.stderr);
    (seen, done)
}

/// Why a case that compares exact counts begins anew: the program said that the kernel had not shown it some calls.
pub struct Missed;

/// Ends a program that counts exactly, and gives what it printed.
///
/// A kernel does not run a program within itself; nor does it run that of a kprobe or of `tracepoint/...` within another of
/// these. So it skips an interrupt that comes in the middle of one, and a preemptible kernel, as 7.2 is, another task as well. It
/// counts these calls and the program tells them; then the case begins anew.
pub fn end_exact(stage: Running) -> Observation {
    let seen = stage.end(Signal::SIGINT).unwrap();
    assert!(seen.status.success(), "{seen:?}");
    if seen.stderr.contains("too low") {
        eprintln!("{seen:?}");
        panic_any(Missed);
    }
    seen
}

/// Ids of all BPF programs that are loaded.
pub fn programs() -> BTreeSet<u32> {
    ProgInfoIter::default().map(|info| info.id).collect()
}

/// Names of the private trace pipes that exist.
pub fn instances() -> Vec<String> {
    let entries = fs::read_dir("/sys/kernel/tracing/instances").unwrap().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// Waits for something that happens a little later, such as the kernel freeing a program. How much later depends on the
/// machine; the limit is there only so that what never happens has a name.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    const LIMIT: Duration = Duration::from_secs(300);
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LIMIT, "waited {} s until {what}", LIMIT.as_secs());
        thread::sleep(Duration::from_millis(10));
    }
}

/// What each of so many I/Os was, done here one after the other. No program can truly see one take longer than the time around
/// it, which [`around`] gives.
pub fn one_by_one(arguments: &str, count: usize) -> Vec<Done> {
    let io = Io::try_parse_from(["io"].into_iter().chain(arguments.split(' ')).chain(["--count", "1"]));
    let io = io.unwrap();
    (0..count).map(|_| io.run().unwrap()).collect()
}

/// The time in ns from before the first I/O to after the last one, by the clock of who waited for them.
pub fn around(done: &Done) -> u64 {
    done.last_ns - done.first_ns
}

/// The numbers of the stages that this guest has.
pub fn stages() -> Vec<u32> {
    let names =
        fs::read_dir("/bin").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    // stage03, and not stage03-tiny.
    let mut numbers: Vec<_> = names.filter_map(|name| name.strip_prefix("stage")?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// A shell command that is run at the end, also of a case that fails.
pub struct AtEnd(pub &'static str);

impl Drop for AtEnd {
    fn drop(&mut self) {
        // Its errors are not the case's.
        let _ = Command::new("sh").args(["-c", self.0]).output();
    }
}
