//! What is right for this stage and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::histogram::Histogram;
use common::{Error, OrCause, Result};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use wire::disks::RAW_DEVICE;
use wire::workload::{Clock, Done};

use crate::check::{Check, Judged, Program, expect_number, succeeded};
use crate::null_blk::NullBlk;
use crate::running::{Killed, Observation, Running};
use crate::truth;
use crate::verdict::{Checked, expect, expect_line, wrong};

/// See [`Check`].
pub const CHECK: Check = Check {
    program: Some(Program::Own(program)),
    exercises: &[("12.1", threads), ("12.2", on_disks), ("12.3", requests)],
    ..Check::NONE
};

/// How long each I/O of the slow disk takes: just as long as the shortest time in a row of the histograms.
const SLOW: Duration = Duration::from_micros(1 << 15);

/// A process that the program has watched from its first read on.
struct Watched {
    seen: Observation,
    done: Done,
    /// How many calls of read() and write() the kernel has counted for it meanwhile: `syscr` and `syscw`.
    calls: [u64; 2],
}

impl Watched {
    fn clock(&self) -> Result<&Clock> {
        self.done.clock.as_ref().ok_or_else(|| Error::new("`io` did not report its times"))
    }

    /// How many calls may be missing, because the kernel did not run the program.
    fn skipped(&self) -> u64 {
        truth::skipped(&self.seen).unwrap_or_default()
    }

    /// The histogram of these calls.
    fn of(&self, call: &str) -> Checked<Histogram> {
        let expected = || format!("a line `{call}: N`, and below it a histogram of N calls");
        truth::histogram_below(call, &self.seen.stdout)
            .ok_or_else(|| wrong(expected(), "no such line", &self.seen))
    }
}

/// What the program says about a shell that does something `first`, and then becomes `io`. It begins when the program
/// watches it. Tries again if a preemptible kernel did not run the program at some calls.
fn watch(binary: &str, first: &str, io: &[&str]) -> Result<Watched> {
    const TRIES: usize = 5;
    for _ in 1..TRIES {
        let watched = watch_once(binary, first, io)?;
        if watched.skipped() == 0 {
            return Ok(watched);
        }
    }
    watch_once(binary, first, io)
}

fn watch_once(binary: &str, first: &str, io: &[&str]) -> Result<Watched> {
    let mut shell = Command::new("sh");
    let script = format!(r#"kill -STOP $$; {first} exec io "$@""#);
    shell.args(["-c", &script, "io"]).args(io).stdout(Stdio::piped());
    let mut process = Killed(shell.spawn().or_cause("cannot start the shell")?);
    let pid = process.pid();
    wait(pid, WaitPidFlag::WSTOPPED)?;
    let before = calls(pid)?;
    let program = Running::start(&[binary, &pid.to_string()])?;
    kill(pid, Signal::SIGCONT).or_cause("cannot let the process run")?;
    let mut said = String::new();
    let stdout = process.0.stdout.take();
    stdout.map(|mut pipe| pipe.read_to_string(&mut said)).transpose().or_cause("cannot read what it says")?;
    wait(pid, WaitPidFlag::WEXITED)?;
    let after = calls(pid)?;
    drop(process);
    let seen = program.wait()?;
    succeeded(&seen)?;
    Ok(Watched { seen, done: said.parse()?, calls: [after[0] - before[0], after[1] - before[1]] })
}

/// Waits until a child has stopped or ended. It stays, so the kernel still has its numbers.
fn wait(pid: Pid, what: WaitPidFlag) -> Result<()> {
    waitid(Id::Pid(pid), what | WaitPidFlag::WNOWAIT).or_cause("cannot wait for the process").map(drop)
}

/// `syscr` and `syscw` of a process.
fn calls(pid: Pid) -> Result<[u64; 2]> {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).or_cause("cannot read a process's counts")?;
    let number = |name: &str| io.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    let both = number("syscr:").zip(number("syscw:"));
    both.map(|(read, write)| [read, write]).ok_or_else(|| Error::new("malformed counts").evidence(&io))
}

/// Fails unless the program saw all calls. The kernel also counts what it reads itself, when the process becomes `io`.
fn expect_all(watched: &Watched) -> Checked {
    let Clock { reads, fsyncs, .. } = *watched.clock()?;
    let [read, write] = watched.calls;
    expect_calls(watched, "read", reads, read)?;
    expect_calls(watched, "write", write, write)?;
    expect_calls(watched, "fsync", fsyncs, fsyncs)
}

/// Fails unless the program saw as many calls as `io` and the kernel.
fn expect_calls(watched: &Watched, call: &str, least: u64, most: u64) -> Checked {
    let found = watched.of(call)?.count();
    let range = if least == most { least.to_string() } else { format!("{least} to {most}") };
    let expected = format!("{range} calls of {call}, as `io` and the kernel have counted");
    let is_right = found <= most && found + watched.skipped() >= least;
    expect(is_right, expected, found.to_string(), &watched.seen)
}

/// Fails unless at least so many calls took as long as the slow disk, and not longer than `io` says.
fn expect_slow(watched: &Watched, call: &str, right: u64, disk: Duration) -> Checked {
    let clock = watched.clock()?;
    let longest = if call == "fsync" { clock.fsync_max_us } else { clock.max_us };
    let (least, most) = (disk.as_micros() as u64, longest as u64);
    let histogram = watched.of(call)?;
    let slow: u64 = histogram.rows().filter(|row| row.1 >= least && row.0 <= most).map(|row| row.2).sum();
    let expected = format!("{right} calls of {call} that took {least} to {most} us");
    expect(slow + watched.skipped() >= right, expected, slow.to_string(), &watched.seen)
}

/// Beside reads and writes of four threads, each of which waits for a disk whose time is set.
fn program(binary: &str) -> Checked<Judged> {
    let disk = NullBlk::new(binary, SLOW)?;
    let device = disk.device.display().to_string();
    let mixed = ["--threads", "4", "--count", "8", "--rwmixread", "50", "--fsync", "2", "--engine", "sync"];
    let watched = watch(binary, "", &[&["write", &device], &mixed[..]].concat())?;
    expect_all(&watched)?;
    let Clock { reads, writes, .. } = watched.clock()?;
    expect_slow(&watched, "read", *reads, SLOW)?;
    expect_slow(&watched, "write", *writes, SLOW)?;
    // From the page cache to the disk.
    let synced =
        watch(binary, "", &["write-cached", &device, "--count", "8", "--fsync", "2", "--engine", "sync"])?;
    let fsyncs = synced.clock()?.fsyncs;
    expect_all(&synced)?;
    expect_slow(&synced, "fsync", fsyncs, SLOW)?;
    let shown = format!(
        "{reads} reads, {writes} writes and {fsyncs} fsyncs waited for a disk that takes {} ms, as `io` says, too",
        SLOW.as_millis()
    );
    Ok((watched.seen, shown))
}

fn threads(binary: &str) -> Checked<String> {
    // So slow that all threads read at the same time.
    const SLOW: Duration = Duration::from_micros(1 << 19);
    let disk = NullBlk::new(binary, SLOW)?;
    let device = disk.device.display().to_string();
    let read = ["read-direct", &device, "--threads", "16", "--count", "4", "--engine", "sync"];
    let watched = watch(binary, "", &read)?;
    expect_all(&watched)?;
    let reads = watched.clock()?.reads;
    expect_slow(&watched, "read", reads, SLOW)?;
    Ok(format!("{reads} reads of 16 threads waited for a disk that takes {} ms", SLOW.as_millis()))
}

fn on_disks(binary: &str) -> Checked<String> {
    const PIPE: Duration = Duration::from_secs(5);
    let disk = NullBlk::new(binary, SLOW)?;
    let device = disk.device.display().to_string();
    let io = ["write", &device, "--rwmixread", "50", "--fsync", "4", "--count", "16", "--engine", "sync"];
    let watched = watch(binary, &format!("x=$(sleep {});", PIPE.as_secs()), &io)?;
    let Clock { reads, fsyncs, .. } = *watched.clock()?;
    let [read, write] = watched.calls;
    let (from, to, _) = watched.of("read")?.rows().last().unwrap_or_default();
    let is_disk = u128::from(to) < PIPE.as_micros() || from as f64 <= watched.clock()?.max_us;
    expect(is_disk, "no read as long as that of the pipe", format!("{to} us"), &watched.seen)?;
    expect_calls(&watched, "read", reads, read)?;
    // `io` writes its report to a pipe.
    expect_calls(&watched, "write", write - 1, write - 1)?;
    expect_calls(&watched, "fsync", fsyncs, fsyncs)?;
    Ok(format!("{reads} reads of a disk are there, and the {} s for a pipe are not", PIPE.as_secs()))
}

fn requests(binary: &str) -> Checked<String> {
    const COUNT: &str = "32";
    let uring = ["--engine", "io_uring", "--iodepth", "4", "--threads", "2", "--count", COUNT];
    let disk = NullBlk::new(binary, SLOW)?;
    let device = disk.device.display().to_string();
    let mut other = Command::new("io");
    other.args(["read-direct", RAW_DEVICE, "--count", "4096"]).args(&uring[..4]).stdout(Stdio::null());
    let _other = Killed(other.spawn().or_cause("cannot start a process that nobody watches")?);
    let watched = watch(binary, "", &[&["write", &device, "--rwmixread", "50"], &uring[..]].concat())?;
    let Clock { reads, writes, .. } = *watched.clock()?;
    let all = reads + writes;
    let entered = watched.of("io_uring_enter")?.count();
    let expected = format!("{all} to {} calls of io_uring_enter: for each I/O, and to wait", 3 * all);
    expect((all..=3 * all).contains(&entered), expected, entered.to_string(), &watched.seen)?;
    expect_calls(&watched, "io_uring", all, all)?;
    expect_slow(&watched, "io_uring", all, SLOW)?;
    expect_line(&watched.seen, "Punted: ", 0, "a disk takes direct I/Os without waiting")?;
    let cached = watch(binary, "", &[&["write-cached", "/mnt/punted"], &uring[..]].concat())?;
    let writes = cached.clock()?.writes;
    expect_calls(&cached, "io_uring", writes, writes)?;
    let is_right = |punted| punted <= writes && punted + cached.skipped() >= writes;
    expect_number(&cached.seen, "Punted: ", writes, "ext4 may wait in a write to the page cache", is_right)?;
    Ok(format!("{all} requests took as long as the disk; a worker did {writes} others"))
}
