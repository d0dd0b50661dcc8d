//! Measures the ways to count and time bios, see [`Way`].

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Error, OrCause, Result, tracefs};
use guest::null_blk::NullBlk;
use guest::running::{Running, cost_of_writes, io};
use guest::system::{RCU_EXPEDITED, WithoutFs};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use wire::command::output;
use wire::disks::RAW_DEVICE;
use wire::measure::WRITERS_COUNT;
use wire::ways::{Attached, DISK, Way, named};

use crate::toolbox;

/// What a way counted, and what it reports as missed, if it reports that.
pub type Counted = (u64, Option<u64>);

/// A way that is attached to a disk.
pub struct Watching {
    way: &'static Way,
    disk: String,
    running: Running,
    /// The trace buffers' memory before it started.
    buffers: u64,
    /// How long it took to start.
    pub start: Duration,
}

/// Starts a way, and waits until it is attached.
///
/// # Errors
/// If this kernel does not have it.
pub fn start(way: &'static Way, disk: &str) -> Result<Watching> {
    let disk = fs::canonicalize(disk).or_cause(format!("there is no disk {disk}"))?;
    let disk = disk.to_string_lossy().into_owned();
    let buffers = buffers()?;
    let before = Instant::now();
    let running = Running::spawn_until(&mut command(way.argv, &disk), way.attached)?;
    Ok(Watching { way, disk, running, buffers, start: before.elapsed() })
}

fn command(argv: &[&str], disk: &str) -> Command {
    let (name, arguments) = argv.split_first().unwrap_or((&"false", &[]));
    let mut command = Command::new(name);
    command.stdout(Stdio::piped()).args(arguments.iter().map(|word| word.replace(DISK, disk)));
    command
}

impl Watching {
    /// Its process.
    pub fn pid(&self) -> Pid {
        self.running.pid()
    }

    /// How many KiB of memory it takes: the most that was resident so far, in its process and those that it started; and
    /// in the kernel, for its maps and its trace buffers.
    ///
    /// # Errors
    /// If the kernel doesn't report it.
    pub fn memory(&self) -> Result<[u64; 2]> {
        let process = format!("/proc/{}", self.pid());
        let children = fs::read_to_string(format!("{process}/task/{}/children", self.pid()));
        let children = children.or_cause("cannot list its children")?;
        let mut peak = 0;
        for pid in children.split_whitespace().chain([&*self.pid().to_string()]) {
            let status =
                fs::read_to_string(format!("/proc/{pid}/status")).or_cause("cannot read its status")?;
            let most = field(&status, "VmHWM:");
            peak += most.ok_or_else(|| Error::new("the kernel reports no peak").evidence(&status))?;
        }
        let mapped = fs::read_to_string(format!("{process}/maps")).or_cause("cannot read its memory map")?;
        let perf: u64 = mapped.lines().filter(|line| line.ends_with("[perf_event]")).filter_map(bytes).sum();
        let mut maps = 0;
        for file in fs::read_dir(format!("{process}/fdinfo")).or_cause("cannot list its files")?.flatten() {
            // Some of them may be closed meanwhile.
            let info = fs::read_to_string(file.path()).unwrap_or_default();
            if info.contains("map_type:") {
                maps += field(&info, "memlock:").unwrap_or_default();
            }
        }
        Ok([peak, (maps + perf) / 1024 + buffers()?.saturating_sub(self.buffers)])
    }

    /// Ends it, and returns all that it printed.
    ///
    /// # Errors
    /// If it does not end well.
    pub fn end(mut self) -> Result<String> {
        if let Attached::SleepsIn(calls) = self.way.attached {
            // perf trace drops what it has not read when Ctrl-C comes.
            self.running.sleeps(calls)?;
        }
        let seen = self.running.end(Signal::SIGINT)?;
        let printed = seen.stdout + &seen.stderr;
        if self.way.report.is_empty() {
            return Ok(printed);
        }
        let report = output(&mut command(self.way.report, &self.disk))?;
        Ok(printed + &String::from_utf8_lossy(&report.stdout))
    }

    /// Ends it, and returns what it counted.
    ///
    /// # Errors
    /// If it reports no count.
    pub fn counted(self) -> Result<Counted> {
        let way = self.way;
        let text = self.end()?;
        let counted = (way.counted)(&text);
        let counted =
            counted.ok_or_else(|| Error::new(format!("{} reports no count", way.name)).evidence(&text))?;
        Ok((counted, (way.missed)(&text)))
    }
}

/// The bytes of a line of `/proc/PID/maps`, which begins with `FROM-TO`.
fn bytes(line: &str) -> Option<u64> {
    let (from, to) = line.split(' ').next()?.split_once('-')?;
    Some(u64::from_str_radix(to, 16).ok()? - u64::from_str_radix(from, 16).ok()?)
}

/// The number in a line of a file below `/proc`.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// How many KiB all trace buffers take.
fn buffers() -> Result<u64> {
    let tracefs = tracefs::path()?;
    let instances = fs::read_dir(tracefs.join("instances")).or_cause("cannot list the trace instances")?;
    let folders = instances.flatten().map(|entry| entry.path()).chain([tracefs]);
    // The kernel allocates a buffer when it is first used, and until then reports how large it is, and in brackets
    // how large it will be.
    let size = |text: String| text.split_whitespace().next()?.parse::<u64>().ok();
    let sizes =
        folders.filter_map(|folder| size(fs::read_to_string(folder.join("buffer_total_size_kb")).ok()?));
    // blktrace's buffers are those of the kernel's relay interface.
    let mapped = fs::read_to_string("/proc/vmallocinfo").or_cause("cannot list the kernel's own memory")?;
    let relay = mapped.lines().filter(|line| line.contains(" relay_"));
    let relay: u64 = relay.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum();
    Ok(sizes.sum::<u64>() + relay / 1024)
}

/// Measures ways, by the word after `measure ways`: `costs` or `writers`. Returns a row for each: its name and the
/// numbers, with `-` for what it does not report, or for everything if this kernel does not have it.
///
/// # Errors
/// If there is no such way, or it does not work although it starts.
pub fn measure(what: &str, names: &[String]) -> Result<Vec<String>> {
    let ways =
        names.iter().map(|name| named(name).ok_or_else(|| Error::new(format!("there is no way {name}"))));
    let ways = ways.collect::<Result<Vec<_>>>()?;
    if ways.iter().any(|way| way.is_peer) {
        toolbox::warm_up()?;
    }
    let measured = match what {
        "costs" => costs(&ways)?,
        "writers" => writers(&ways)?,
        _ => return Err(Error::new(format!("there is no measurement {what}"))),
    };
    let cell = |number: &Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
    let rows = ways.iter().zip(measured).map(|(way, numbers)| {
        [vec![way.name.to_owned()], numbers.iter().map(cell).collect()].concat().join("\t")
    });
    Ok(rows.collect())
}

/// Two numbers for each way, in a guest whose clock counts instructions: what it adds to a direct write, and how long
/// it takes to start, in ns.
fn costs(ways: &[&'static Way]) -> Result<Vec<Vec<Option<u64>>>> {
    let _quiet = WithoutFs::new()?;
    // To start takes as long as on a machine that is not the lab's.
    fs::write(RCU_EXPEDITED, "0").or_cause("cannot let the kernel wait for RCU")?;
    let disk = NullBlk::with("fast", Duration::ZERO, &[("irqmode", 0)])?;
    let device = disk.device.to_string_lossy();
    // In its first seconds, 7.2 takes three times as long for a write. To wait costs nothing: when the guest has nothing
    // to do, its clock jumps.
    thread::sleep(Duration::from_secs(10));
    let median = || -> Result<u64> {
        let mut costs = [cost_of_writes(&device)?, cost_of_writes(&device)?, cost_of_writes(&device)?];
        costs.sort_unstable();
        Ok(costs[1])
    };
    median()?;
    let measure = |way: &&'static Way| {
        let Some(running) = attach(way, &device)? else { return Ok(vec![None; 2]) };
        // Once more, because a tool may have read files from its disk for the first time, and meanwhile the clock jumps.
        let first = running.start;
        running.end()?;
        let Some(running) = attach(way, &device)? else { return Ok(vec![None; 2]) };
        let start = first.min(running.start).as_nanos() as u64;
        let with = median()?;
        running.counted()?;
        Ok(vec![Some(with.saturating_sub(median()?)), Some(start)])
    };
    ways.iter().map(measure).collect()
}

/// Four numbers for each way: how many writes of four threads it counted, in the worst of several runs; how many it
/// reports as missed in this run; and the memory of its process and in the kernel, in KiB.
fn writers(ways: &[&'static Way]) -> Result<Vec<Vec<Option<u64>>>> {
    // It takes long to start a tool that compiles its program.
    let runs = |way: &Way| if way.is_peer { 2 } else { 5 };
    let _quiet = WithoutFs::new()?;
    let each = (WRITERS_COUNT / 4).to_string();
    let measure = |way: &&'static Way| {
        let mut worst: Option<Vec<_>> = None;
        for _ in 0..runs(way) {
            let Some(running) = attach(way, RAW_DEVICE)? else { return Ok(vec![None; 4]) };
            io(&["write", RAW_DEVICE, "--size", "512", "--threads", "4", "--count", &each])?;
            let [peak, kernel] = running.memory()?;
            let (counted, missed) = running.counted()?;
            if worst.as_ref().is_none_or(|worst| Some(counted) < worst[0]) {
                worst = Some(vec![Some(counted), missed, Some(peak), Some(kernel)]);
            }
        }
        Ok(worst.unwrap_or_default())
    };
    ways.iter().map(measure).collect()
}

/// Starts a way; `None` if this kernel does not have it.
fn attach(way: &'static Way, disk: &str) -> Result<Option<Watching>> {
    eprintln!("{} ...", way.name);
    match start(way, disk) {
        Ok(running) => Ok(Some(running)),
        Err(error) => {
            // Ours is refused only where its kernel lacks something, as the tests check.
            if way.is_peer {
                eprintln!("{}: {error}", way.name);
            }
            Ok(None)
        }
    }
}
