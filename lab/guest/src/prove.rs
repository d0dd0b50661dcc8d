//! In the guest: makes known I/O for a tool to see. It doesn't look at what the tool says; `cargo lab prove` does.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use common::{Error, OrCause, Result};
use libbpf_rs::query::ProgInfoIter;
use nix::libc;
use nix::sys::signal::{Signal, killpg};
use wire::prove::{Counted, Disk, Played, Process, Scene, Tool};
use wire::workload::Io;

use crate::null_blk::NullBlk;
use crate::running::{Killed, io};
use crate::system::WithoutFs;

/// Where the tool's output goes. A pipe could be full while nobody reads it.
const STDOUT: &str = "/tmp/proved";
const STDERR: &str = "/tmp/proved-errors";

/// Starts the tool, makes the scene's I/O when the tool watches, and ends it.
///
/// # Errors
/// If the scene can't be made, or if the kernel's counters don't agree that it was: then the tool is not to blame.
pub fn play(scene: &Scene, tool: &Tool) -> Result<Played> {
    let _without = WithoutFs::new()?;
    let disks = scene.disks.iter().map(disk).collect::<Result<Vec<_>>>()?;
    // Whatever looked at the new disks has read them.
    let before = scene.disks.iter().zip(&disks).map(counted).collect::<Result<Vec<_>>>()?;
    let devices: Vec<_> = scene.disks.iter().map(|disk| &*disk.name).zip(&disks).collect();
    let known = programs();
    let argv: Vec<_> = tool.argv.iter().map(|word| filled(word, &devices, "")).collect();
    let mut played = Played {
        disks: Vec::new(),
        done: Vec::new(),
        stdout: String::new(),
        stderr: String::new(),
        failed: None,
        left: 0,
    };
    let mut child = Group(Killed(spawn(&argv)?));
    if is_attached(&mut child.0, tool) {
        for line in &scene.io {
            played.done.push(process(line, &devices)?);
        }
        let since = |(now, before): (Result<Counted>, Counted)| {
            let now = now?;
            let [reads, writes] = [now.reads - before.reads, now.writes - before.writes];
            Ok(Counted { reads, writes, bytes: now.bytes - before.bytes, ..now })
        };
        // A bio ends a moment before the kernel counts its request.
        let mut planned = Ok(());
        until(
            || {
                let counted = scene.disks.iter().zip(&disks).map(counted).zip(before.clone()).map(since);
                planned = counted.collect::<Result<_>>().and_then(|disks| {
                    played.disks = disks;
                    is_as_planned(scene, &played)
                });
                planned.is_ok()
            },
            LIMIT,
        );
        planned?;
        thread::sleep(Duration::from_secs(tool.behind));
        if child.0.is_running() {
            child.signal(Signal::SIGINT);
        } else {
            played.failed = Some("it ended before it was told to".to_owned());
        }
    } else {
        played.failed = Some("it ended, or had five minutes, before it watched anything".to_owned());
    }
    let is_over = until(|| !child.0.is_running(), LIMIT);
    if !is_over {
        played.failed.get_or_insert("it did not end within five minutes of Ctrl-C".to_owned());
    }
    child.signal(Signal::SIGKILL);
    let status = child.0.0.wait().or_cause("cannot wait for the tool")?;
    if let Some(signal @ (libc::SIGSEGV | libc::SIGABRT | libc::SIGBUS | libc::SIGILL)) = status.signal() {
        played.failed = Some(format!("it crashed: signal {signal}"));
    }
    let text = |file| fs::read(file).or_cause("cannot read what the tool printed");
    played.stdout = String::from_utf8_lossy(&text(STDOUT)?).into_owned();
    played.stderr = String::from_utf8_lossy(&text(STDERR)?).into_owned();
    // The kernel frees a program some time after nobody holds it any more.
    until(
        || {
            played.left = programs().difference(&known).count() as u64;
            played.left == 0
        },
        Duration::from_secs(30),
    );
    Ok(played)
}

fn disk(disk: &Disk) -> Result<NullBlk> {
    let depth = disk.depth.map(|depth| ("hw_queue_depth", u128::from(depth)));
    NullBlk::with(&disk.name, Duration::from_micros(disk.us), depth.as_slice())
}

/// A word, or what the kernel calls the disk that it names, such as `@slow` or `/dev/@slow`.
fn filled(word: &str, disks: &[(&str, &NullBlk)], folder: &str) -> String {
    let named = disks.iter().find_map(|(name, disk)| {
        let before = word.strip_suffix(name)?.strip_suffix('@')?;
        ["", "/dev/"].contains(&before).then(|| format!("{before}{folder}{}", name_of(disk)))
    });
    named.unwrap_or_else(|| word.to_owned())
}

fn name_of(disk: &NullBlk) -> String {
    disk.device.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn programs() -> BTreeSet<u32> {
    ProgInfoIter::default().map(|program| program.id).collect()
}

fn spawn(argv: &[String]) -> Result<Child> {
    let [name, args @ ..] = argv else { return Err(Error::new("no tool was named")) };
    // New ones, whatever an earlier tool has left running.
    let file = |path| {
        let _ = fs::remove_file(path);
        File::create(path).or_cause("cannot make a file")
    };
    let mut command = Command::new(name);
    command.args(args).stdin(Stdio::null()).stdout(file(STDOUT)?).stderr(file(STDERR)?);
    command.process_group(0).spawn().or_cause(format!("cannot start {name}"))
}

/// A tool and what it starts. All of them end with this.
struct Group(Killed);

impl Group {
    fn signal(&self, signal: Signal) {
        // It may have ended already.
        let _ = killpg(self.0.pid(), signal);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

/// How long a tool may take until it watches, and until it ends.
const LIMIT: Duration = Duration::from_secs(300);

/// Looks again and again. `false` if it is not so within this time.
fn until(mut is_so: impl FnMut() -> bool, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    while !is_so() {
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Waits until the tool says that it is attached, or until it sleeps because it has nothing else to do. `false` if it ends
/// before that, or takes too long.
fn is_attached(child: &mut Killed, tool: &Tool) -> bool {
    // Not its wchan, which is 0 on 5.10.
    let call = format!("/proc/{}/syscall", child.pid());
    let says = |text: &str| {
        let printed = |file| fs::read_to_string(file).is_ok_and(|printed| printed.contains(text));
        [STDERR, STDOUT].into_iter().any(printed)
    };
    let sleeps = || {
        let now = fs::read_to_string(&call).unwrap_or_default();
        now.split(' ').next().and_then(|call| call.parse().ok()).is_some_and(|call| SLEEPS.contains(&call))
    };
    let mut watches = false;
    until(
        || {
            watches = tool.attached.as_deref().map_or_else(sleeps, says);
            watches || !child.is_running()
        },
        LIMIT,
    );
    watches && child.is_running()
}

/// The system calls in which a tool waits for its buffer, or for the time to print.
#[cfg(target_arch = "x86_64")]
const SLEEPS: [libc::c_long; 7] = [
    libc::SYS_clock_nanosleep,
    libc::SYS_epoll_pwait,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_nanosleep,
    libc::SYS_epoll_wait,
    libc::SYS_poll,
];
#[cfg(not(target_arch = "x86_64"))]
const SLEEPS: [libc::c_long; 4] =
    [libc::SYS_clock_nanosleep, libc::SYS_epoll_pwait, libc::SYS_ppoll, libc::SYS_pselect6];

/// Runs an `io`.
fn process(line: &str, disks: &[(&str, &NullBlk)]) -> Result<Process> {
    let words: Vec<_> = line.split(' ').map(|word| filled(word, disks, "/dev/")).collect();
    let io_of = Io::try_parse_from(["io"].into_iter().chain(words.iter().map(String::as_str)));
    let kind = io_of.or_cause("a scene has an `io` that doesn't exist")?.kind;
    let (_, what) = kind.parts();
    let is_its = |disk: &&(&str, &NullBlk)| disk.1.device == what.target;
    let disk = disks.iter().find(is_its).ok_or_else(|| Error::new("a scene's `io` is for no disk of it"))?.0;
    let done = io(&words)?;
    Ok(Process {
        disk: disk.to_owned(),
        is_write: kind.writes(),
        pid: done.pid,
        count: done.count,
        size: done.bytes / done.count,
        max_us: done.clock.map_or(f64::MAX, |clock| clock.max_us),
    })
}

/// What the kernel says of a disk that exists only for this scene.
fn counted((planned, disk): (&Disk, &NullBlk)) -> Result<Counted> {
    let device = name_of(disk);
    let stat = fs::read_to_string(Path::new("/sys/block").join(&device).join("stat"));
    let stat = stat.or_cause("cannot read a disk's counts")?;
    let numbers: Vec<u64> = stat.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let [reads, _, read, _, writes, _, written, ..] = numbers[..] else {
        return Err(Error::new("a disk's counts are malformed").evidence(stat));
    };
    let bytes = 512 * (read + written);
    Ok(Counted { name: planned.name.clone(), device, us: planned.us, reads, writes, bytes })
}

/// Fails unless the kernel's own counters say the same as `io`.
fn is_as_planned(scene: &Scene, played: &Played) -> Result<()> {
    for disk in &played.disks {
        let of = |is_write: bool| {
            let its = played.done.iter().filter(move |io| io.disk == disk.name && io.is_write == is_write);
            its.fold((0, 0), |(count, bytes), io| (count + io.count, bytes + io.count * io.size))
        };
        let ((reads, read), (writes, written)) = (of(false), of(true));
        if (disk.reads, disk.writes, disk.bytes) != (reads, writes, read + written) {
            return Err(Error::new(format!("the scene {} did not happen as it should", scene.name)).evidence(
                format!(
                    "io read {reads} times and wrote {writes} times on {}, and /sys/block/{}/stat says {} and {}",
                    disk.name, disk.device, disk.reads, disk.writes
                ),
            ));
        }
    }
    Ok(())
}
