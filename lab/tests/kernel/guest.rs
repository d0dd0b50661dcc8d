//! Helpers for cases: what a guest offers.

use std::collections::BTreeSet;
use std::fs;
use std::panic::panic_any;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use common::preflight::release;
use common::trace_pipe::Line;
pub use guest::running::Killed;
use guest::running::{Observation, Running};
use guest::system::{mount_fs, queue, unmount_fs};
use guest::truth::{self, Event};
use libbpf_rs::query::ProgInfoIter;
use machine::kernels::{Series, Trait};
use nix::mount::{MsFlags, mount};
use nix::sys::signal::Signal;
use wire::disks::FS_MOUNT;
use wire::workload::{Done, Io};

/// Whether something is different on the running kernel.
pub fn has(what: Trait) -> bool {
    Series::all().find(|series| series.is(&release())).expect("the kernel is in the table").has(what)
}

/// Whether the running kernel's version is in a range, such as `..6.12`, `6.5..`, or `6.12..7.0`, which has 6.12 and not
/// 7.0. Every kernel is in an empty one.
pub fn is_in(range: &str) -> bool {
    let version = |text: &str| {
        let mut numbers =
            text.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().unwrap());
        [numbers.next(), numbers.next()]
    };
    let (first, end) = range.split_once("..").unwrap_or_default();
    let now = version(&release());
    (first.is_empty() || now >= version(first)) && (end.is_empty() || now < version(end))
}

/// Unmounts ext4, so there is no I/O but the case's own.
pub fn quiet() {
    unmount_fs().unwrap();
}

/// Mounts ext4, so it and the kernel write when a case asks for it, and not after some seconds.
pub fn with_ext4() {
    let mounts = || fs::read_to_string("/proc/mounts").unwrap();
    if !mounts().contains(&format!(" {FS_MOUNT} ext4 ")) {
        mount_fs().unwrap();
    }
    if !mounts().contains(",commit=3600") {
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_NOATIME;
        mount(None::<&str>, FS_MOUNT, None::<&str>, flags, Some("commit=3600")).unwrap();
        // An hour. With 0, a disk's first dirty page wakes the writer at once, which writes if little was written lately.
        fs::write("/proc/sys/vm/dirty_writeback_centisecs", "360000").unwrap();
    }
}

/// Runs a shell command that must succeed, and returns its stdout.
pub fn sh(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a shell command that must end with an error and leave nothing behind. Returns the error.
pub fn refused(command: &str) -> String {
    let before = programs();
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!((output.status.code(), &*stdout), (Some(1), ""), "{command}: {stderr}");
    assert!(stderr.starts_with("Error: "), "{command}: {stderr}");
    // If tracefs is hidden, there are none.
    assert_eq!(sh("ls /sys/kernel/tracing/instances || true"), "", "{command}");
    assert!(programs().is_subset(&before), "{command}");
    stderr
}

/// What `io` did with these arguments.
pub fn io(arguments: &str) -> Done {
    guest::running::io(&arguments.split(' ').collect::<Vec<_>>()).unwrap()
}

/// Starts a program with arguments that have no blanks in them, and waits until it is attached.
pub fn start(command: &str) -> Running {
    Running::start(&command.split_whitespace().collect::<Vec<_>>()).unwrap()
}

/// Starts a program with arguments that have no blanks in them, which ends with the case. What it prints is lost.
pub fn killed(command: &str) -> Killed {
    let command = Command::new("sh").args(["-c", &format!("exec {command}")]).stdout(Stdio::null()).spawn();
    Killed(command.unwrap())
}

/// What the kernel calls a disk or a partition.
pub fn name(device: impl AsRef<Path>) -> String {
    fs::canonicalize(device).unwrap().file_name().unwrap().to_str().unwrap().to_owned()
}

/// The numbers that the kernel has counted for a disk: see its `Documentation/block/stat.rst`.
pub fn stat(device: &str) -> Vec<u64> {
    let text = fs::read_to_string(queue(device, "../stat").unwrap()).unwrap();
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// What a stage's lines and its report say.
pub struct Trace<'a> {
    pub events: Vec<(Line<'a>, Event)>,
    pub submits: usize,
    pub ends: usize,
    /// Requests that were started, and that completed.
    pub started: usize,
    pub completed: usize,
    pub durations: Vec<u64>,
    /// Of a stage that reports it.
    pub not_measured: Option<u64>,
}

pub fn trace(seen: &Observation) -> Trace<'_> {
    let events = truth::events(seen).unwrap();
    let count = |is: fn(&Event) -> bool| events.iter().filter(|(_, event)| is(event)).count();
    Trace {
        submits: count(|event| matches!(event, Event::Submit { .. })),
        ends: count(|event| matches!(event, Event::End { .. })),
        started: count(|event| matches!(event, Event::Start { .. })),
        completed: count(|event| matches!(event, Event::Complete { .. })),
        durations: truth::durations(&events),
        not_measured: truth::not_measured(seen).ok(),
        events,
    }
}

/// What a stage printed while `io` ran, until Ctrl-C.
pub fn watch(stage: &str, arguments: &str) -> (Observation, Done) {
    watch_while(stage, || io(arguments))
}

/// Like [`watch`], for a stage that counts exactly. If it reports that the kernel did not show it some calls, the
/// case starts over; see [`Missed`].
pub fn watch_exact(stage: &str, arguments: &str) -> (Observation, Done) {
    let (seen, done) = watch(stage, arguments);
    if truth::skipped(&seen).is_some_and(|skipped| skipped > 0) {
        eprintln!("{stage}: {}", seen.stdout.lines().last().unwrap_or_default());
        panic_any(Missed);
    }
    (seen, done)
}

/// What a stage printed while `work` ran, until Ctrl-C.
pub fn watch_while<T>(name: &str, work: impl FnOnce() -> T) -> (Observation, T) {
    let stage = start(name);
    let done = work();
    let seen = stage.end(Signal::SIGINT).unwrap();
    assert!(seen.status.success(), "{seen:?}");
    assert!(!seen.stderr.contains("lost"), "{}", seen.stderr);
    if ["stage03", "stage04", "stage05", "stage06"].iter().any(|stage| name.starts_with(stage)) {
        truth::balance(&seen).unwrap();
    }
    (seen, done)
}

/// Why a case starts over: the program reported that the kernel had not shown it some calls, or the kernel did in
/// another order what the case needs in this one.
pub struct Missed;

/// The newest line of the kernel's log about an I/O that an NVMe disk did not complete in time.
///
/// On a busy machine, QEMU's disk now and then overlooks one, with QEMU 7.2 about once in thirty minutes of writes. After
/// 30 s, the driver aborts the I/O. After 60 s, it resets the disk, with commands whose bios end but were never
/// submitted with submit_bio(). So a case that fails meanwhile proves nothing.
pub fn lost_io() -> Option<String> {
    let log = sh("dmesg");
    log.lines().rfind(|line| line.contains("nvme") && line.contains("timeout")).map(str::to_owned)
}

/// Ends a program that counts exactly, and returns what it printed.
///
/// A kernel does not run a program inside itself, nor a kprobe's or `tracepoint/...` program inside another one of
/// these. So it skips the program for an interrupt that comes in the middle of one. A preemptible kernel such as 7.2
/// also skips it for another task. It counts these calls, and the program reports them; then the case starts over.
pub fn end_exact(stage: Running) -> Observation {
    let seen = stage.end(Signal::SIGINT).unwrap();
    assert!(seen.status.success(), "{seen:?}");
    if seen.stderr.contains("too low") {
        eprintln!("{seen:?}");
        panic_any(Missed);
    }
    seen
}

/// IDs of all loaded BPF programs.
pub fn programs() -> BTreeSet<u32> {
    ProgInfoIter::default().map(|info| info.id).collect()
}

/// Names of the existing private trace pipes.
pub fn instances() -> Vec<String> {
    let entries = fs::read_dir("/sys/kernel/tracing/instances").unwrap().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// Waits for something that happens a little later, such as the kernel freeing a program. How much later depends on
/// the machine. The limit only exists so that an event that never happens gets reported.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    const LIMIT: Duration = Duration::from_secs(300);
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LIMIT, "waited {} s until {what}", LIMIT.as_secs());
        thread::sleep(Duration::from_millis(10));
    }
}

/// Does I/Os here, one after the other, and returns what each was. No program can truthfully report one as longer
/// than the time around it, which [`around`] returns.
pub fn one_by_one(arguments: &str, count: usize) -> Vec<Done> {
    let io = Io::try_parse_from(["io"].into_iter().chain(arguments.split(' ')).chain(["--count", "1"]));
    let io = io.unwrap();
    (0..count).map(|_| guest::workload::run(&io).unwrap()).collect()
}

/// The time in ns from before the first I/O to after the last one, by the clock of the task that waited for them.
pub fn around(done: &Done) -> u64 {
    done.last_ns - done.first_ns
}

/// A shell command that runs at the end, even if the case fails.
pub struct AtEnd(pub &'static str);

impl Drop for AtEnd {
    fn drop(&mut self) {
        // Its errors are not the case's.
        let _ = Command::new("sh").args(["-c", self.0]).output();
    }
}
