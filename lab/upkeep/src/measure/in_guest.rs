//! In the guest: compares well-known tools with ours, under the same load.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::histogram::Histogram;
use common::{Error, OrCause, Result, tracefs};
use guest::null_blk::NullBlk;
use guest::running::{Running, io};
use guest::truth;
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use toolkit::ftrace;
use wire::command::output;
use wire::disks::FS_MOUNT;

use crate::measure::helpers;
use crate::measure::peers::PAGES;
use machine::apt::LOADER;

/// The tracepoints of ctracer that every write passes.
const MOMENTS: [&str; 3] = ["block:block_getrq", "block:block_rq_issue", "block:block_rq_complete"];

/// How many writes [`calls`] makes under each tracer: enough for it to read its buffer several times, and few enough for
/// the buffer to hold all events if it falls behind.
const WRITES: u64 = 10_000;

/// Makes the rows of a table, without their first and last bar.
pub fn measure(what: &str) -> Result<Vec<String>> {
    match what {
        "helpers" => Ok(helpers::measure()?.iter().map(|row| row.join("\t")).collect()),
        "pages" => pages(),
        "latency" => latency(),
        "costs" => costs(),
        "calls" => calls(),
        "lines" => lines(),
        "jited" => jited(),
        _ => Err(Error::new(format!("nobody knows how to measure {what}"))),
    }
}

/// Reads a file that is not in the page cache, then again, with stage 08 and cachestat watching.
fn pages() -> Result<Vec<String>> {
    let file = format!("{FS_MOUNT}/peers");
    let count = PAGES.to_string();
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
/// and writing its file. trace-cmd has ftrace's `function_graph` record the functions that ctracer probes, and the same
/// moments of the request. This is for a guest like that of [`costs`].
fn calls() -> Result<Vec<String>> {
    let disk = NullBlk::with("fast", Duration::ZERO, &[("irqmode", 0)])?;
    let device = disk.device.to_string_lossy().into_owned();
    // The clock counts instructions.
    let write = || {
        let done = io(&["write", &device, "--count", &WRITES.to_string()])?;
        Ok::<_, Error>((done.last_ns - done.first_ns) / WRITES)
    };

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
    let events = MOMENTS.iter().flat_map(|moment| ["-e", *moment]);
    let record = ["trace-cmd", "record", "-q", "-p", "function_graph", "-o", "/tmp/trace.dat"];
    let peer = Peer::start(&record.into_iter().chain(events).collect::<Vec<_>>())?
        .ok_or_else(|| Error::new("trace-cmd does not start"))?;
    let graph = write()?;
    let stats = fs::read_to_string(tracefs.join("per_cpu/cpu0/stats"))
        .or_cause("cannot read what ftrace has counted")?;
    let fields = stats.lines().filter_map(|line| line.split_once(": "));
    let stats: BTreeMap<_, u64> =
        fields.filter_map(|(name, count)| Some((name, count.parse().ok()?))).collect();
    let count = |names: [&str; 2]| names.iter().filter_map(|name| stats.get(name)).sum::<u64>();
    // A call and its return are one event each, and so is each moment.
    let calls = (count(["entries", "read events"]) / WRITES - MOMENTS.len() as u64) / 2;
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

/// What it takes to show each I/O, or to watch all and show none, or their percentiles: guest instructions for each direct
/// write, as in [`calls`].
fn lines() -> Result<Vec<String>> {
    let disk = NullBlk::with("fast", Duration::ZERO, &[("irqmode", 0)])?;
    let device = disk.device.to_string_lossy().into_owned();
    let cost = |tool: Option<u32>| {
        let ran = || tool.map_or(Ok(0), time_on_cpu);
        let done = io(&["write", &device, "--count", &WRITES.to_string()])?;
        let before = ran()?;
        // What is in its buffer, it reads at most 100 ms later.
        thread::sleep(Duration::from_secs(2));
        Ok::<_, Error>((done.last_ns - done.first_ns + ran()? - before) / WRITES)
    };
    let btt = blktrace_and_btt(&device, |pid| cost(Some(pid)))?;
    let shown = |text: &str| text.lines().filter(|line| line.contains(" io ")).count() as u64;
    let is = |tool: &str, is_right: bool, text: &str| match is_right {
        true => Ok(()),
        false => Err(Error::new(format!("{tool} does not show {WRITES} writes")).evidence(text)),
    };
    let theirs = match Peer::start(&["biosnoop-libbpf", "-Q"])? {
        Some(running) => {
            let cost = cost(Some(running.0.id()))?;
            let text = running.end(Signal::SIGINT)?;
            is("biosnoop", shown(&text) == WRITES, &text)?;
            cost.to_string()
        }
        None => "does not start".to_owned(),
    };
    let ours = |options: &[&str]| {
        let command = format!("exec biowhere {} > {PRINTED}", options.join(" "));
        let running = Running::start(&["sh", "-c", &command])?;
        let cost = cost(Some(running.pid().as_raw() as u32))?;
        running.end(Signal::SIGINT)?;
        let text = fs::read_to_string(PRINTED).or_cause("cannot read the lines")?;
        Ok::<_, Error>((cost, text))
    };
    let (slow, text) = ours(&["--slower-than", "10000"])?;
    is("biowhere --slower-than", shown(&text) == 0, &text)?;
    let (summary, text) = ours(&["--summary"])?;
    is("biowhere --summary", text.contains(&format!("{WRITES} I/Os")), &text)?;
    let (all, text) = ours(&[])?;
    is("biowhere", shown(&text) == WRITES, &text)?;
    Ok(vec![format!("{} | {btt} | {theirs} | {slow} | {summary} | {all}", cost(None)?)])
}

/// What it takes to record all that happens to each write, and then to sum it up.
fn blktrace_and_btt(device: &str, cost: impl Fn(u32) -> Result<u64>) -> Result<u64> {
    output(
        Command::new("sh")
            .args(["-c", "mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug"]),
    )?;
    // Its buffers hold all that comes while it does not look, twice a second.
    let mut blktrace = Peer::spawn(&["blktrace", "-d", device, "-b", "4096", "-o", "-"])?;
    // It does not say when it has begun.
    while fs::metadata(PRINTED).is_ok_and(|printed| printed.len() == 0) {
        io(&["read-direct", device, "--count", "1"])?;
    }
    let cost = cost(blktrace.id())?;
    kill(Pid::from_raw(blktrace.id() as i32), Signal::SIGINT).or_cause("cannot signal a peer")?;
    blktrace.wait().or_cause("cannot wait for a peer")?;
    let [parse, sum] =
        ["blkparse", "btt"].map(|name| format!("/bin/{LOADER} --library-path /bin /bin/{name}"));
    let command = format!("{parse} -q -O -a write -i - -d /tmp/run < {PRINTED} && {sum} -i /tmp/run");
    let begin = Instant::now();
    let text = output(Command::new("sh").args(["-c", &command]))?;
    let took = begin.elapsed().as_nanos() as u64;
    let text = String::from_utf8_lossy(&text.stdout);
    if text.lines().any(|line| line.starts_with("D2C") && line.ends_with(&format!(" {WRITES}"))) {
        Ok(cost + took / WRITES)
    } else {
        Err(Error::new(format!("btt has not seen {WRITES} writes")).evidence(text))
    }
}

/// How long the threads of a process have run, in nanoseconds.
fn time_on_cpu(pid: u32) -> Result<u64> {
    let cannot = "cannot read how long a tool ran";
    let mut all = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).or_cause(cannot)? {
        let times = fs::read_to_string(thread.or_cause(cannot)?.path().join("schedstat")).or_cause(cannot)?;
        let first = times.split(' ').next().and_then(|time| time.parse::<u64>().ok());
        all += first.ok_or_else(|| Error::new(cannot).evidence(times))?;
    }
    Ok(all)
}

/// Writes the processor's instructions that the kernel made of stage 01's program into a file. The bpftool that the
/// transcripts use can't.
fn jited() -> Result<Vec<String>> {
    let options = ProgInfoQueryOptions::default().include_jited_prog_insns(true);
    // The kernel cuts a name after 15 characters.
    let mut programs = ProgInfoIter::with_query_opts(options);
    let program = programs.find(|program| program.name.to_string_lossy() == "submit_bio_entr");
    let program = program.ok_or_else(|| Error::new("stage 01 does not run"))?;
    fs::write("jited", program.jited_prog_insns).or_cause("cannot write the instructions")?;
    Ok(Vec::new())
}

/// Where a tool's lines go. A pipe would be full while nobody reads it.
const PRINTED: &str = "/tmp/printed";

/// Somebody else's tool, running.
struct Peer(Child);

impl Peer {
    /// Starts a tool and waits until it is attached, which is when it sleeps in `clock_nanosleep(2)` or `epoll_wait(2)`: its
    /// lines stay in a buffer. `None` if the kernel rejects its programs, or lacks a function that they need.
    fn start(argv: &[&str]) -> Result<Option<Self>> {
        const SLEEPS: [&str; 2] = ["230", "232"];
        let name = argv[0];
        let mut child = Self::spawn(argv)?;
        // We don't look at its wchan, which is 0 on 5.10.
        let call = format!("/proc/{}/syscall", child.id());
        while child.try_wait().or_cause("cannot wait for a peer")?.is_none() {
            let now = fs::read_to_string(&call).unwrap_or_default();
            if now.split(' ').next().is_some_and(|call| SLEEPS.contains(&call)) {
                return Ok(Some(Self(child)));
            }
            thread::sleep(Duration::from_millis(5));
        }
        let said = child.wait_with_output().or_cause("cannot read what a peer says")?.stderr;
        let said = String::from_utf8_lossy(&said);
        if ["BPF program load failed", "failed to find kernel BTF type ID"]
            .iter()
            .any(|why| said.contains(why))
        {
            return Ok(None);
        }
        Err(Error::new(format!("{name} does not run")).evidence(said))
    }

    fn spawn(argv: &[&str]) -> Result<Child> {
        let name = argv[0];
        let mut command = Command::new(format!("/bin/{LOADER}"));
        command.args(["--library-path", "/bin", &format!("/bin/{name}")]).args(&argv[1..]);
        command.stdout(File::create(PRINTED).or_cause("cannot make a file")?).stderr(Stdio::piped());
        command.spawn().or_cause(format!("cannot start {name}"))
    }

    /// Sends a signal and returns what it printed.
    fn end(self, signal: Signal) -> Result<String> {
        kill(Pid::from_raw(self.0.id() as i32), signal).or_cause("cannot signal a peer")?;
        self.printed()
    }

    /// Waits for its end and returns what it printed. It must still run at this point.
    fn wait(mut self) -> Result<String> {
        if self.0.try_wait().or_cause("cannot wait for a peer")?.is_some() {
            return Err(Error::new("a peer ended before the workload did"));
        }
        self.printed()
    }

    fn printed(mut self) -> Result<String> {
        self.0.wait().or_cause("cannot wait for a peer")?;
        fs::read_to_string(PRINTED).or_cause("cannot read what a peer printed")
    }
}
