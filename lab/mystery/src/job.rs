//! The processes of a case. Each is this program under another name, and gets its orders through a pipe, so neither its
//! command line nor its environment shows what it does.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write, stdin};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use clap::Parser;
use common::report::print_text;
use common::{Error, OrCause, Result};
use fastrand::Rng;
use guest::engine::{Op, Queue};
use nix::fcntl::{OFlag, PosixFadviseAdvice, posix_fadvise};
use serde::{Deserialize, Serialize};
use wire::workload::Io;

/// Where this program is in the guest.
pub(crate) const PROGRAM: &str = "/bin/mystery";

/// What one thread of a job does, again and again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stream {
    /// A device or a file; for [`Access::Touch`] and [`Access::List`], a folder; for [`Access::Compute`], any.
    pub target: PathBuf,
    /// What it does there.
    pub access: Access,
    /// How many I/Os it has in flight by libaio, if it writes past the page cache. With 0, it waits in the system call that
    /// writes. With 1, it waits for the end of each I/O. With more, the last I/Os of a round end in the next one.
    pub depth: u32,
    /// Bytes of each I/O.
    pub size: u64,
    /// The first byte of its part of the target.
    pub from: u64,
    /// How many I/Os long this part is.
    pub blocks: u64,
    /// Whether it goes to any of them, and not from the first to the last.
    pub random: bool,
    /// How many I/Os make a round, whose time it reports.
    pub round: u64,
    /// How long it rests between the I/Os of a round.
    pub rest: Duration,
    /// How long it rests after a round.
    pub pause: Duration,
}

impl Stream {
    /// Writes of 4 KiB past the page cache, to random places in the first 32 MiB. Each is a round.
    pub fn writes(target: &Path) -> Self {
        Self {
            target: target.to_owned(),
            access: Access::Write,
            depth: 0,
            size: 4096,
            from: 0,
            blocks: 8192,
            random: true,
            round: 1,
            rest: Duration::ZERO,
            pause: Duration::ZERO,
        }
    }
}

/// What a stream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// It writes past the page cache.
    Write,
    /// It reads through the page cache.
    Read,
    /// It writes through the page cache, and waits until that is on the disk.
    Save,
    /// It changes the times of files, which are named `0`, `1` and so on. It is no I/O until somebody else waits for it.
    Touch,
    /// It lists folders, which are named `0`, `1` and so on. What it reads belongs to the file system, and to no file.
    List,
    /// It writes a file anew, from an empty one on, through the page cache. That is no I/O, either, until somebody waits.
    Anew,
    /// It computes for this long, and longer if its last rest was longer than its pause, so its share of the time is the
    /// same on a busy machine.
    Compute(Duration),
}

/// How long to wait for a round. It only exists so that a round that never ends gets reported.
const LIMIT: Duration = Duration::from_secs(300);
/// How many rounds to remember.
const ROUNDS: usize = 6;
const ALIGNMENT: usize = 4096;

/// The times of the last rounds.
#[derive(Debug, Default)]
struct Rounds {
    /// How many orders there were. A round that began before the last one is of no interest.
    orders: u32,
    streams: Vec<VecDeque<Duration>>,
}

impl Rounds {
    fn of(&self, stream: usize) -> impl ExactSizeIterator<Item = &Duration> + DoubleEndedIterator {
        self.streams.get(stream).map(VecDeque::iter).unwrap_or_default()
    }
}

/// A process of a case. Dropping this ends it.
#[derive(Debug)]
pub struct Job {
    /// Its name, for `ps`.
    pub name: String,
    child: Child,
    orders: Option<ChildStdin>,
    /// The times of the last rounds of each stream, since the last order.
    rounds: Arc<(Mutex<Rounds>, Condvar)>,
}

impl Job {
    /// Starts a process that does nothing yet, in a cgroup if one is named.
    pub fn start(name: &str, cgroup: Option<&Path>) -> Result<Self> {
        let mut child = Command::new(PROGRAM)
            .arg0(name)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Not Ctrl-C's.
            .process_group(0)
            .spawn()
            .or_cause("cannot start a job")?;
        if let Some(cgroup) = cgroup {
            fs::write(cgroup.join("cgroup.procs"), child.id().to_string())
                .or_cause("cannot move a job into its cgroup")?;
        }
        let orders = child.stdin.take();
        let rounds = Arc::new((Mutex::new(Rounds::default()), Condvar::new()));
        let (told, stdout) = (rounds.clone(), child.stdout.take());
        thread::spawn(move || {
            for line in wire::command::lines(stdout) {
                let Ok((order, stream, ns)) = serde_json::from_str::<(u32, usize, u64)>(&line) else {
                    continue;
                };
                let (rounds, changed) = &*told;
                let mut rounds = rounds.lock().unwrap_or_else(PoisonError::into_inner);
                if rounds.orders == order
                    && let Some(rounds) = rounds.streams.get_mut(stream)
                {
                    rounds.push_back(Duration::from_nanos(ns));
                    if rounds.len() > ROUNDS {
                        rounds.pop_front();
                    }
                }
                changed.notify_all();
            }
        });
        Ok(Self { name: name.to_owned(), child, orders, rounds })
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Gives it other work, and forgets the rounds so far.
    pub fn order(&mut self, streams: &[Stream]) -> Result<()> {
        let line = serde_json::to_string(streams).or_cause("cannot write JSON")?;
        let orders = self.orders.as_mut().ok_or_else(|| Error::new("a job has no orders"))?;
        writeln!(orders, "{line}").or_cause(format!("the job {} has ended", self.name))?;
        let mut rounds = self.locked();
        rounds.orders += 1;
        rounds.streams = vec![VecDeque::new(); streams.len()];
        Ok(())
    }

    fn locked(&self) -> MutexGuard<'_, Rounds> {
        self.rounds.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the last rounds of a stream took on average.
    pub fn lately(&self, stream: usize) -> Duration {
        mean(self.locked().of(stream).copied())
    }

    /// Waits for the first round of a stream.
    pub fn first(&self, stream: usize) -> Result<()> {
        self.wait(self.locked(), |rounds| rounds.of(stream).len() > 0).map(drop)
    }

    fn wait<'a>(
        &'a self,
        rounds: MutexGuard<'a, Rounds>,
        is_enough: impl Fn(&Rounds) -> bool,
    ) -> Result<MutexGuard<'a, Rounds>> {
        let waited = self.rounds.1.wait_timeout_while(rounds, LIMIT, |rounds| !is_enough(rounds));
        let (rounds, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        match waited.timed_out() {
            true => Err(Error::new(format!("the job {} makes no progress", self.name))),
            false => Ok(rounds),
        }
    }

    /// Waits for new rounds of a stream. The first may have begun before something changed, so it doesn't count.
    fn fresh(&self, stream: usize) -> Result<Vec<Duration>> {
        let mut rounds = self.locked();
        let none = || Error::new(format!("the job {} has no such stream", self.name));
        rounds.streams.get_mut(stream).ok_or_else(none)?.clear();
        let rounds = self.wait(rounds, |rounds| rounds.of(stream).len() == ROUNDS)?;
        Ok(rounds.of(stream).skip(1).copied().collect())
    }

    /// How long rounds take from now on, on average. Some are quick because another one was slow.
    pub fn mean(&self, stream: usize) -> Result<Duration> {
        self.fresh(stream).map(|rounds| mean(rounds.into_iter()))
    }

    /// How long half of the rounds take from now on, which a hiccup of the emulation doesn't change.
    pub fn median(&self, stream: usize) -> Result<Duration> {
        let mut rounds = self.fresh(stream)?;
        rounds.sort_unstable();
        Ok(rounds[rounds.len() / 2])
    }
}

fn mean(times: impl ExactSizeIterator<Item = Duration>) -> Duration {
    let count = times.len().max(1) as u32;
    times.sum::<Duration>() / count
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The other side: does what it is ordered to do, until whoever gave the orders ends.
pub fn run(name: &str) -> Result<ExitCode> {
    fs::write("/proc/self/comm", name).or_cause("cannot set the process's name")?;
    let mut stop = Arc::new(AtomicBool::new(false));
    let mut threads: Vec<thread::JoinHandle<()>> = Vec::new();
    for (order, line) in (1..).zip(BufReader::new(stdin()).lines()) {
        let line = line.or_cause("cannot read the orders")?;
        let streams: Vec<Stream> = serde_json::from_str(&line).or_cause("cannot parse the orders")?;
        stop.store(true, Ordering::Relaxed);
        for thread in threads.drain(..) {
            let _ = thread.join();
        }
        stop = Arc::new(AtomicBool::new(false));
        threads.extend(streams.into_iter().enumerate().map(|(nth, stream)| {
            let stop = stop.clone();
            thread::spawn(move || {
                if let Err(error) = repeat((order, nth), &stream, &stop) {
                    eprintln!("Error: {error}");
                }
            })
        }));
    }
    Ok(ExitCode::SUCCESS)
}

fn repeat((order, nth): (u32, usize), stream: &Stream, stop: &AtomicBool) -> Result<()> {
    let Stream { target, access, depth, size, from, blocks, random, round, rest, pause } = stream;
    let mut queue = (*access == Access::Write).then(|| writer(stream)).transpose()?;
    let open = |target: &Path| {
        let file = OpenOptions::new().read(true).write(true).open(target);
        file.or_cause(format!("cannot open {}", target.display()))
    };
    let files: Vec<_> = match access {
        Access::Touch => {
            (0..*blocks).map(|nth| open(&target.join(nth.to_string()))).collect::<Result<_>>()?
        }
        Access::Write | Access::List => Vec::new(),
        _ => vec![open(target)?],
    };
    if let (true, Some(file)) = (*random, files.first()) {
        // Otherwise the kernel may read ahead around a page that it finds in its cache.
        posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_RANDOM)
            .or_cause("cannot advise the kernel")?;
    }
    let mut buffer = vec![0; *size as usize + ALIGNMENT];
    let start = buffer.as_ptr().align_offset(ALIGNMENT);
    let buffer = &mut buffer[start..start + *size as usize];
    let mut seed = Rng::with_seed(nth as u64);
    let mut next = 0;
    let mut rested = *pause;
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        for nth in 0..*round {
            if nth > 0 {
                thread::sleep(*rest);
            }
            let block = if *random { seed.u64(..*blocks) } else { next % blocks };
            next += 1;
            let at = from + block * size;
            if let Some(queue) = &mut queue {
                queue.submit(Op::Write, at)?;
                if *depth == 1 {
                    queue.drain()?;
                }
                continue;
            }
            match access {
                Access::Write => Ok(()),
                Access::Read => files[0].read_exact_at(buffer, at),
                Access::Save => files[0].write_all_at(buffer, at).and_then(|()| files[0].sync_all()),
                Access::Anew => files[0].set_len(0).and_then(|()| files[0].write_all_at(buffer, 0)),
                Access::List => fs::read_dir(target.join(block.to_string())).map(|all| all.for_each(drop)),
                Access::Touch => files[block as usize].set_modified(SystemTime::now()),
                Access::Compute(time) => {
                    let time = time.as_nanos() * rested.as_nanos() / pause.as_nanos().max(1);
                    while begin.elapsed().as_nanos() < time {}
                    Ok(())
                }
            }
            .or_cause("an I/O failed")?;
        }
        print_text(format_args!("[{order},{nth},{}]", begin.elapsed().as_nanos()))?;
        let rest = Instant::now();
        thread::sleep(*pause);
        rested = rest.elapsed();
    }
    Ok(())
}

/// Opens the target of a stream that writes past the page cache.
fn writer(stream: &Stream) -> Result<Queue> {
    let Stream { target, depth, size, .. } = stream;
    let engine = if *depth == 0 { "sync" } else { "libaio" };
    let options = format!("--engine={engine} --iodepth={} --size={size}", depth.max(&1));
    let args =
        ["io", "write"].into_iter().chain(options.split(' ')).map(OsStr::new).chain([target.as_os_str()]);
    let io = Io::try_parse_from(args).or_cause("cannot write past the page cache")?;
    Queue::open(io.kind.parts().1, OFlag::O_DIRECT)
}
