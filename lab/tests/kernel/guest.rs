//! Help for cases: what a guest offers.

use std::collections::BTreeSet;
use std::fs;
use std::panic::panic_any;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use lab::guest::running::{Observation, Running};
use lab::guest::system::{mount_fs, unmount_fs};
use lab::shared::disks::FS_MOUNT;
use lab::shared::workload::Done;
use libbpf_rs::query::ProgInfoIter;
use nix::sys::signal::Signal;

/// Unmounts ext4, so that no I/O happens but the case's own.
pub fn quiet() {
    unmount_fs().unwrap();
}

/// Mounts ext4.
pub fn with_ext4() {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    if !mounts.contains(&format!(" {FS_MOUNT} ext4 ")) {
        mount_fs().unwrap();
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

/// Waits, in bounded time, for something that the kernel does a little later, such as freeing a program.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < deadline, "waited 10 s until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A shell command that is run at the end, also of a case that fails.
pub struct AtEnd(pub &'static str);

impl Drop for AtEnd {
    fn drop(&mut self) {
        // Its errors are not the case's.
        let _ = Command::new("sh").args(["-c", self.0]).output();
    }
}
