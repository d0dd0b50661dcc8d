//! In the guest: makes known I/O for a tool to see. It doesn't look at what the tool says; `cargo lab prove` does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use common::{Error, OrCause, Result};
use libbpf_rs::query::ProgInfoIter;
use nix::libc;
use nix::sys::signal::{Signal, killpg};
use nix::sys::stat::{major, minor, stat};
use wire::command::output;
use wire::prove::{Counted, Disk, Op, Played, Process, Scene, Tool};
use wire::workload::{Done, Io, Kind};

use crate::device_mapper::Linear;
use crate::null_blk::{self, NullBlk};
use crate::running::Killed;
use crate::system::{Cgroup, WithoutFs};
use crate::workload::prepare;

/// Where the tool's output goes. A pipe could be full while nobody reads it.
const STDOUT: &str = "/tmp/proved";
const STDERR: &str = "/tmp/proved-errors";

/// Starts the tool, makes the scene's I/O when the tool watches, and ends it.
///
/// # Errors
/// If the scene can't be made, or if the kernel's counters don't agree that it was: then the tool is not to blame.
pub fn play(scene: &Scene, tool: &Tool) -> Result<Played> {
    let stage = Stage::new(scene)?;
    // Whatever looked at the new disks has read them.
    let before = stage.counted()?;
    let known = programs();
    let argv: Vec<_> = tool.argv.iter().map(|word| stage.filled(word, "", false)).collect();
    let mut played = Played::default();
    let mut child = Group(Killed(spawn(&argv, tool.root.as_deref())?));
    if is_attached(&mut child.0, tool) {
        played.done = stage.run()?;
        // A bio ends a moment before the kernel counts its request.
        let mut planned = Ok(());
        until(
            || {
                let counted = stage.counted().map(|now| since(now, &before));
                planned = counted.and_then(|disks| {
                    played.disks = disks;
                    is_as_planned(scene, &played)
                });
                planned.is_ok()
            },
            SOON,
        );
        planned?;
        thread::sleep(Duration::from_secs(tool.behind));
        let its = ProgInfoIter::default().filter(|program| !known.contains(&program.id));
        played.skipped = its.map(|program| program.recursion_misses).sum();
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
        SOON,
    );
    Ok(played)
}

/// A scene's disks, and whatever else it needs.
struct Stage<'a> {
    scene: &'a Scene,
    above: Vec<Option<Linear>>,
    /// An open disk keeps its page cache.
    _open: Vec<File>,
    disks: Vec<NullBlk>,
    limited: Option<Cgroup>,
    _without: Option<WithoutFs>,
}

/// A process that runs.
struct Started<'a> {
    line: &'a str,
    /// What `io` does; `None` for a discard.
    kind: Option<Kind>,
    /// The file that says which process it is.
    pid: PathBuf,
    begun: Instant,
    child: Child,
}

impl<'a> Stage<'a> {
    fn new(scene: &'a Scene) -> Result<Self> {
        let without = (!scene.disks.is_empty()).then(WithoutFs::new).transpose()?;
        let disks = scene.disks.iter().map(disk).collect::<Result<Vec<_>>>()?;
        let above = scene.disks.iter().zip(&disks).map(|(planned, disk)| {
            let whole = [(&*disk.device, 64 << 11)];
            planned.mapped.then(|| Linear::new("above", &whole)).transpose()
        });
        let above = above.collect::<Result<Vec<_>>>()?;
        let limited = scene.limit.map(|_| Cgroup::new("limited")).transpose()?;
        let opened = |disk: &NullBlk| File::open(&disk.device).or_cause("cannot open a disk");
        let open = disks.iter().map(opened).collect::<Result<_>>()?;
        let this = Self { scene, above, _open: open, disks, limited, _without: without };
        for line in &scene.io {
            if let Some(kind) = this.io(line)? {
                prepare(kind.parts().1)?;
            }
        }
        if let (Some(limit), Some(group)) = (scene.limit, &this.limited) {
            for disk in &this.disks {
                let (major, minor) = number(&disk.device)?;
                group.set("io.max", &format!("{major}:{minor} riops={limit} wiops={limit}"))?;
            }
        }
        Ok(this)
    }

    /// A word, or what the kernel calls the disk that it names, such as `@slow` or `/dev/@slow`.
    fn filled(&self, word: &str, folder: &str, of_io: bool) -> String {
        let mut all = self.scene.disks.iter().zip(self.disks.iter().zip(&self.above));
        let named = all.find_map(|(planned, (disk, above))| {
            let before = word.strip_suffix(&*planned.name)?.strip_suffix('@')?;
            let device = above.as_ref().filter(|_| of_io).map_or(&disk.device, |above| &above.device);
            ["", "/dev/"].contains(&before).then(|| format!("{before}{folder}{}", name_of(device)))
        });
        named.unwrap_or_else(|| word.to_owned())
    }

    /// The words of a process of the scene.
    fn words(&self, line: &str) -> Vec<String> {
        line.split(' ').map(|word| self.filled(word, "/dev/", true)).collect()
    }

    /// What `io` would do. `None` for a discard, which is not its business.
    fn io(&self, line: &str) -> Result<Option<Kind>> {
        if line.starts_with("discard ") {
            return Ok(None);
        }
        let io = Io::try_parse_from(["io".to_owned()].into_iter().chain(self.words(line)));
        io.or_cause("a scene has an `io` that doesn't exist").map(|io| Some(io.kind))
    }

    /// Runs the processes, one after the other or all together.
    fn run(&self) -> Result<Vec<Process>> {
        let numbered = self.scene.io.iter().enumerate();
        if self.scene.together {
            let started = numbered.map(|(nth, line)| self.start(nth, line)).collect::<Result<Vec<_>>>()?;
            return started.into_iter().map(|started| self.end(started)).collect();
        }
        numbered.map(|(nth, line)| self.end(self.start(nth, line)?)).collect()
    }

    /// Starts a process.
    fn start(&self, nth: usize, line: &'a str) -> Result<Started<'a>> {
        let words = self.words(line);
        let kind = self.io(line)?;
        let argv = match (&kind, &self.scene.called) {
            (None, _) => {
                let [_, device, _, size] = &words[..] else {
                    return Err(Error::new("a scene has a wrong discard"));
                };
                ["blkdiscard", "-o", "0", "-l", size, device].map(str::to_owned).into()
            }
            (Some(_), None) => [&["io".to_owned()][..], &words].concat(),
            (Some(_), Some(name)) => {
                let file = Path::new("/tmp").join(name);
                let _ = symlink("/bin/io", &file);
                [&[file.to_string_lossy().into_owned()][..], &words].concat()
            }
        };
        let pid = PathBuf::from(format!("/tmp/proved-pid-{nth}"));
        let child = self.command(&pid, &argv).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Ok(Started {
            line,
            kind,
            pid,
            begun: Instant::now(),
            child: child.or_cause("cannot start a process")?,
        })
    }

    /// Waits for its end, and asks it what it did.
    fn end(&self, started: Started<'_>) -> Result<Process> {
        let Started { line, kind, pid, begun, child } = started;
        let seen = child.wait_with_output().or_cause("cannot wait for a process")?;
        if !seen.status.success() {
            let why = String::from_utf8_lossy(&seen.stderr).into_owned();
            return Err(Error::new(format!("a process of the scene failed: {line}")).evidence(why));
        }
        let number = "a process did not say which one it is";
        let pid = fs::read_to_string(pid).or_cause(number)?.trim().parse().or_cause(number)?;
        let disk = line.split(' ').find_map(|word| word.strip_prefix('@')).unwrap_or_default().to_owned();
        let Some(kind) = kind else {
            let size =
                line.rsplit(' ').next().unwrap_or_default().parse().or_cause("a discard has no size")?;
            let max_us = begun.elapsed().as_secs_f64() * 1e6;
            return Ok(Process { disk, op: Op::Discard, pid, count: 1, size, max_us, ..Process::default() });
        };
        let done: Done = String::from_utf8_lossy(&seen.stdout).parse()?;
        let clock = done.clock.ok_or_else(|| Error::new("an `io` of a scene has no --engine"))?;
        Ok(Process {
            disk,
            op: if kind.writes() { Op::Write } else { Op::Read },
            pid,
            count: done.count,
            size: done.bytes / done.count,
            // Before it drops what is in the page cache, it writes that.
            fsyncs: clock.fsyncs + u64::from(matches!(kind, Kind::ReadCold(_))),
            cached: matches!(kind, Kind::Read(_)),
            max_us: clock.max_us.max(clock.fsync_max_us),
            mean_us: clock.mean_us,
            ns: done.last_ns - done.first_ns,
        })
    }

    /// A command that writes into a file which process it is, in the cgroup and the namespace that it belongs to.
    fn command(&self, pid: &Path, argv: &[String]) -> Command {
        // The shell's own number, by the /proc of the namespace that the tool is in.
        const SCRIPT: &str = r#"[ -z "$1" ] || echo 0 > "$1"
            read -r pid rest < /proc/self/stat; echo "$pid" > "$0"; shift; exec "$@""#;
        let procs = self.limited.as_ref().map(|group| group.folder.join("cgroup.procs"));
        let begin: &[&str] = if self.scene.container { &["unshare", "-p", "-f", "sh"] } else { &["sh"] };
        let mut command = Command::new(begin[0]);
        command.args(&begin[1..]).args(["-c", SCRIPT]).arg(pid).arg(procs.unwrap_or_default()).args(argv);
        command
    }

    /// What the kernel says of the disks, which exist only for this scene.
    fn counted(&self) -> Result<Vec<Counted>> {
        let all = self.scene.disks.iter().zip(&self.disks).zip(&self.above);
        all.map(|((planned, disk), above)| {
            let device = name_of(&disk.device);
            let file = Path::new("/sys/block").join(&device).join("stat");
            let text = fs::read_to_string(file).or_cause("cannot read a disk's counts")?;
            let numbers: Vec<u64> =
                text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
            // Its time follows each, and three numbers of the whole disk follow those of the writes.
            let [reads, rm, rs, _, writes, wm, ws, _, _, _, _, discards, dm, ds, _, flushes, ..] =
                numbers[..]
            else {
                return Err(Error::new("a disk's counts are malformed").evidence(text));
            };
            let above = match above {
                Some(above) => Some((name_of(&above.device), number(&above.device)?)),
                None => None,
            };
            Ok(Counted {
                name: planned.name.clone(),
                device,
                number: number(&disk.device)?,
                above,
                us: planned.us,
                stat: BTreeMap::from([
                    (Op::Read, [reads, rm, 512 * rs]),
                    (Op::Write, [writes, wm, 512 * ws]),
                    (Op::Discard, [discards, dm, 512 * ds]),
                    (Op::Flush, [flushes, 0, 0]),
                ]),
            })
        })
        .collect()
    }
}

/// What was counted since then.
fn since(mut now: Vec<Counted>, before: &[Counted]) -> Vec<Counted> {
    for (now, before) in now.iter_mut().zip(before) {
        for (now, before) in now.stat.values_mut().zip(before.stat.values()) {
            now.iter_mut().zip(before).for_each(|(now, before)| *now -= before);
        }
    }
    now
}

fn disk(disk: &Disk) -> Result<NullBlk> {
    let settings: Vec<_> = disk.set.iter().map(|(key, value)| (&**key, u128::from(*value))).collect();
    let files: Vec<_> = disk.queue.iter().map(|(file, value)| (&**file, &**value)).collect();
    null_blk::disk(&disk.name, Duration::from_micros(disk.us), &settings, &files)
}

fn name_of(device: &Path) -> String {
    device.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn number(device: &Path) -> Result<(u64, u64)> {
    let number = stat(device).or_cause("cannot find out a disk's number")?.st_rdev;
    Ok((major(number), minor(number)))
}

fn programs() -> BTreeSet<u32> {
    ProgInfoIter::default().map(|program| program.id).collect()
}

fn spawn(argv: &[String], root: Option<&str>) -> Result<Child> {
    let argv = match root {
        Some(root) => [&["/bin/chroot".to_owned(), with_system(root)?][..], argv].concat(),
        None => argv.to_vec(),
    };
    let [name, args @ ..] = &argv[..] else { return Err(Error::new("no tool was named")) };
    // New ones, whatever an earlier tool has left running.
    let file = |path| {
        let _ = fs::remove_file(path);
        File::create(path).or_cause("cannot make a file")
    };
    let mut command = Command::new(name);
    if root.is_some() {
        command.env("PATH", "/usr/sbin:/usr/bin");
    }
    command.args(args).stdin(Stdio::null()).stdout(file(STDOUT)?).stderr(file(STDERR)?);
    command.process_group(0).spawn().or_cause(format!("cannot start {name}"))
}

/// Lets a folder that will be a tool's root have what the kernel shows.
fn with_system(root: &str) -> Result<String> {
    const MOUNT: &str = r#"[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
        grep -q " /sys/kernel/debug " /proc/mounts || mount -t debugfs debugfs /sys/kernel/debug || exit
        for i in proc sys dev; do
        mkdir -p "$0/$i"; grep -q " $0/$i " /proc/mounts || mount --rbind "/$i" "$0/$i" || exit; done
        mkdir -p "$0/tmp""#;
    output(Command::new("sh").args(["-c", MOUNT, root]))?;
    Ok(root.to_owned())
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

/// How long the kernel may take to count what has ended, or to free what nobody holds.
const SOON: Duration = Duration::from_secs(30);

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
const SLEEPS: [libc::c_long; 9] = [
    libc::SYS_clock_nanosleep,
    libc::SYS_pause,
    libc::SYS_rt_sigsuspend,
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

/// Fails unless the kernel's own counters say the same as the processes.
fn is_as_planned(scene: &Scene, played: &Played) -> Result<()> {
    for (planned, disk) in scene.disks.iter().zip(&played.disks) {
        let its = || played.done.iter().filter(|it| it.disk == planned.name && !it.cached);
        let fsyncs: u64 = its().map(|it| it.fsyncs).sum();
        for (op, [ios, merged, bytes]) in &disk.stat {
            let of = its().filter(|it| it.op == *op);
            let (count, size) = of.fold((0, 0), |(n, bytes), it| (n + it.count, bytes + it.count * it.size));
            let counted = match op {
                // Without a write cache, there is nothing to flush.
                Op::Flush => *ios == if planned.set.contains_key("cache_size") { fsyncs } else { 0 },
                // A flush without data counts as a write, too.
                Op::Write if fsyncs > 0 => [count, count + fsyncs].contains(ios),
                _ if planned.merges => ios + merged == count && (*merged > 0 || count == 0),
                _ => [*ios, *merged] == [count * planned.pieces, 0],
            };
            if !counted || *bytes != size {
                return Err(Error::new(format!("the scene {} did not happen as it should", scene.name)).evidence(
                    format!(
                        "{count} times {op:?} and {size} bytes on {}, {fsyncs} fsyncs, and /sys/block/{}/stat \
                         says {ios}, {merged} of them merged, and {bytes} bytes",
                        disk.name, disk.device
                    ),
                ));
            }
        }
    }
    Ok(())
}
