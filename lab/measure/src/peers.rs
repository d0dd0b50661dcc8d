//! Compares well-known tools with ours, under the same load.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Error, OrCause, Result, tracefs};
use guest::null_blk::NullBlk;
use guest::running::{Attached, Running, WRITES, cost_of_writes, io};
use guest::truth;
use libbpf_rs::query::ProgInfoIter;
use nix::sys::signal::Signal;
use toolkit::ftrace;
use toolkit::histogram::Histogram;
use wire::command::output;
use wire::disks::FS_MOUNT;
use wire::measure::{PEER_LOADER, PEER_PAGES};

/// The comparisons that a guest can make, by the word after `measure peers`.
const COMPARISONS: [(&str, Comparison); 4] =
    [("pages", pages), ("latency", latency), ("costs", costs), ("calls", calls)];
type Comparison = fn() -> Result<Vec<String>>;

/// In the guest: makes a comparison and returns the rows of its table, without their first and last bar.
///
/// # Errors
/// If there is no such comparison, or a tool can't run.
pub fn compare(what: &str) -> Result<Vec<String>> {
    let found = COMPARISONS.iter().find(|(name, _)| *name == what);
    found.ok_or_else(|| Error::new(format!("there is no comparison {what}")))?.1()
}

/// Reads a file that is not in the page cache, then again, with stage 08 and cachestat watching.
fn pages() -> Result<Vec<String>> {
    let file = format!("{FS_MOUNT}/peers");
    let count = PEER_PAGES.to_string();
    // Make the file, and remove it from the page cache.
    io(&["read-cold", &file, "--count", &count])?;
    nix::unistd::sync();
    let mut lines = Vec::new();
    for (kind, what) in [("read-cold", "cold"), ("read", "warm")] {
        let stage = Running::start(&["stage08"])?;
        let peer = Peer::start(&["cachestat-libbpf", "1", "4"])?;
        let done = io(&[kind, &file, "--count", &count])?;
        let counted = match peer {
            Some(peer) => {
                let text = peer.wait()?;
                // Add up the intervals.
                let sum = |nth: usize| -> u64 {
                    let column = |line: &str| line.split_whitespace().nth(nth)?.parse::<u64>().ok();
                    text.lines().filter_map(column).sum()
                };
                format!("{} / {}", sum(0), sum(1))
            }
            None => "does not start".to_owned(),
        };
        let seen = stage.end(Signal::SIGINT)?;
        let [_, hit, miss, _] = truth::page_cache(&seen)?;
        lines.push(format!("{what} | {} | {hit} / {miss} | {counted}", done.read_bytes / 4096));
    }
    Ok(lines)
}

/// Direct I/O on the scratch disk, and on disks that take 2 and 20 ms, with both biolatencies watching.
///
/// The programs read the clock one after the other, so an I/O near the edge of a bucket can be in two different ones.
/// The totals are the same.
fn latency() -> Result<Vec<String>> {
    let disks = [("two", 2), ("twenty", 20)].map(|(name, ms)| NullBlk::new(name, Duration::from_millis(ms)));
    let disks = disks.into_iter().collect::<Result<Vec<_>>>()?;
    let ours = Running::start(&["biolatency"])?;
    let peer =
        Peer::start(&["biolatency-libbpf"])?.ok_or_else(|| Error::new("their biolatency does not start"))?;
    for device in disks.iter().map(|disk| disk.device.as_path()).chain([Path::new("/dev/scratch")]) {
        io(&["write", &device.to_string_lossy(), "--count", "100"])?;
        io(&["read-direct", &device.to_string_lossy(), "--count", "100"])?;
    }
    let theirs = truth::histogram(&peer.end(Signal::SIGINT)?);
    let ours = truth::histogram(&ours.end(Signal::SIGINT)?.stdout);
    if ours.count() != theirs.count() {
        return Err(Error::new(format!("they count {} I/Os, and ours {}", theirs.count(), ours.count())));
    }
    let slots = 0..ours.counts().len().max(theirs.counts().len());
    let count = |histogram: &Histogram, slot: usize| histogram.counts().get(slot).copied().unwrap_or(0);
    let rows = slots.map(|slot| (Histogram::range(slot), count(&ours, slot), count(&theirs, slot)));
    let rows = rows.skip_while(|(_, ours, theirs)| ours + theirs == 0);
    let rows = rows.map(|((from, to), ours, theirs)| format!("{from} to {to} | {ours} | {theirs}"));
    Ok(rows.chain([format!("all | {} | {}", ours.count(), theirs.count())]).collect())
}

/// What our programs and theirs take for each call, one tool after the other, for the same direct writes. This is for
/// a guest whose clock counts instructions, where the kernel's `run_time_ns` are instructions.
fn costs() -> Result<Vec<String>> {
    fs::write("/proc/sys/kernel/bpf_stats_enabled", "1")
        .or_cause("cannot enable the kernel's BPF statistics")?;
    // The clock jumps when there is nothing to do, and then an NVMe disk's I/O times out.
    let disk = NullBlk::new("fast", Duration::from_micros(10))?;
    let device = disk.device.to_string_lossy().into_owned();
    let known: BTreeSet<_> = ProgInfoIter::default().map(|program| program.id).collect();
    // In the order in which they were loaded, which is their order in the source: a request is issued before it
    // completes.
    let measure = || -> Result<Vec<String>> {
        io(&["write", &device, "--count", "200"])?;
        let programs = ProgInfoIter::default().filter(|program| !known.contains(&program.id));
        let shown = programs.filter_map(|program| {
            let cost = program.run_time_ns.checked_div(program.run_cnt)?;
            Some(format!("`{}` {cost}", program.name.to_string_lossy()))
        });
        Ok(shown.collect())
    };
    let mut rows = Vec::new();
    for command in ["biolatency", "biolatency -D -F", "bitesize"] {
        let running = Running::start(&command.split(' ').collect::<Vec<_>>())?;
        let ours = measure()?;
        running.end(Signal::SIGINT)?;
        let (name, options) = command.split_once(' ').unwrap_or((command, ""));
        let peer = format!("{name}-libbpf {options}");
        let theirs = match Peer::start(&peer.split_whitespace().collect::<Vec<_>>())? {
            Some(running) => {
                let theirs = measure()?;
                running.end(Signal::SIGINT)?;
                theirs.join(", ")
            }
            None => "does not start".to_owned(),
        };
        rows.push(format!("`{command}` | {} | {theirs}", ours.join(", ")));
    }
    Ok(rows)
}

/// What it takes to follow bios through their functions: guest instructions for each direct write to a disk that
/// completes immediately, with nothing attached and under each tracer. A tracer's cost includes reading its events
/// and writing its file. trace-cmd has ftrace's `function_graph` record the functions that ctracer probes. This is
/// for a guest like that of [`costs`].
fn calls() -> Result<Vec<String>> {
    let disk = NullBlk::with("fast", Duration::ZERO, &[("irqmode", 0)])?;
    let write = || cost_of_writes(&disk.device.to_string_lossy());

    let list = output(Command::new("ctracer").arg("list"))?;
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let prototypes = list.lines().filter_map(|line| line.strip_suffix(';')?.split_once('('));
    let names: BTreeSet<_> = prototypes.filter_map(|(head, _)| head.rsplit([' ', '*']).next()).collect();
    // We set the filter for trace-cmd, which would have the kernel search all names for each function.
    let tracefs = tracefs::path()?;
    let list = fs::read_to_string(tracefs.join("available_filter_functions"))
        .or_cause("cannot read the kernel's list of functions")?;
    let choose = |functions: &str| {
        fs::write(tracefs.join("set_ftrace_filter"), functions).or_cause("ftrace refuses the functions")
    };
    choose(&ftrace::numbers(&list, |name| names.contains(name)))?;
    let peer = Peer::start(&["trace-cmd", "record", "-q", "-p", "function_graph", "-o", "/tmp/trace.dat"])?
        .ok_or_else(|| Error::new("trace-cmd does not start"))?;
    let graph = write()?;
    let stats = fs::read_to_string(tracefs.join("per_cpu/cpu0/stats"))
        .or_cause("cannot read what ftrace has counted")?;
    let fields = stats.lines().filter_map(|line| line.split_once(": "));
    let stats: BTreeMap<_, u64> =
        fields.filter_map(|(name, count)| Some((name, count.parse().ok()?))).collect();
    let count = |names: [&str; 2]| names.iter().filter_map(|name| stats.get(name)).sum::<u64>();
    // A call and its return are one event each.
    let calls = count(["entries", "read events"]) / 2 / WRITES;
    let lost = count(["overrun", "dropped events"]);
    peer.end(Signal::SIGINT)?;
    choose("")?;

    let ours = |options: &[&str]| {
        let argv = [&["ctracer", "--lines", "0", "--output", "/tmp/recording"], options].concat();
        let running = Running::start(&argv)?;
        let cost = write()?;
        running.end(Signal::SIGINT).map(|seen| (cost, seen.stdout))
    };
    let (ends, _) = ours(&["--functions", "bio_endio"])?;
    let (all, report) = ours(&[])?;
    let nothing = write()?;
    let number = |name: &str| report.rsplit_once(name)?.1.split([',', ' ', '\n']).next()?.parse::<u64>().ok();
    match (number("Calls: "), number("events lost: "), lost) {
        (Some(ours), Some(0), 0) if ours / WRITES == calls => {
            Ok(vec![format!("{calls} | {nothing} | {graph} | {ends} | {all}")])
        }
        _ => Err(Error::new(format!("trace-cmd saw {calls} calls for each write, and lost {lost} events"))
            .evidence(format!("of {WRITES} writes: {report}"))),
    }
}

/// Somebody else's tool, running.
struct Peer(Running);

impl Peer {
    /// Starts a tool and waits until it is attached, which is when it sleeps. `None` if the kernel rejects its
    /// programs.
    fn start(argv: &[&str]) -> Result<Option<Self>> {
        let name = argv[0];
        let mut command = Command::new(format!("/bin/{PEER_LOADER}"));
        command.args(["--library-path", "/bin", &format!("/bin/{name}")]).args(&argv[1..]);
        match Running::spawn_until(command.stdout(Stdio::piped()), Attached::Sleeps) {
            Ok(running) => Ok(Some(Self(running))),
            Err(error) if error.to_string().contains("BPF program load failed") => Ok(None),
            Err(error) => Err(error.with_cause(format!("{name} does not run"))),
        }
    }

    /// Sends a signal and returns what it printed.
    fn end(self, signal: Signal) -> Result<String> {
        Ok(self.0.end(signal)?.stdout)
    }

    /// Waits for its end and returns what it printed. It must still run at this point.
    fn wait(mut self) -> Result<String> {
        if !self.0.is_running()? {
            return Err(Error::new("a peer ended before the workload did"));
        }
        Ok(self.0.wait()?.stdout)
    }
}
