//! Sends the same event through each channel from the kernel to user space, and prints the overhead or the lost events.
//! `cargo upkeep channels` runs it in a guest that counts instructions.
//!
//! We run the programs with `BPF_PROG_TEST_RUN`, so they run exactly as often as we want, and for no other events.

use std::cell::RefCell;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use common::trace_pipe::Line;
use common::{Error, OrCause, Result, record, report, tracefs};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, PerfBufferBuilder, ProgramInput, ProgramMut, RingBufferBuilder};
use nix::fcntl::OFlag;
use nix::time::{ClockId, clock_gettime};

mod bpf {
    include!(concat!(env!("OUT_DIR"), "/channels.skel.rs"));
}
use bpf::types::event;
common::record!(event { ns, pid, number, comm });

/// Send events through each channel, and print a line for each
#[derive(Parser)]
enum Channels {
    /// Print what an event costs in ns: to send it when all earlier ones have been read; to send it when none has been
    /// read; to read it
    Cost,
    /// Send 4,096 events that nobody reads in time, and print: how many can be read then; the first and the last of
    /// them; the value of the counter; how many events the kernel refused to the program, and its error; how many lost
    /// events the reader learns of
    Loss,
}

/// The number of events to measure costs with. All channels have room for them.
const FEW: u32 = 64;
/// More events than any channel has room for.
const MANY: u32 = 4096;
/// The size of the perf buffer, the same as that of the other channels.
const PAGES: usize = 16;

/// A channel's name, the program that sends, and a function that reads everything.
type Channel<'a> = (&'a str, &'a ProgramMut<'a>, &'a dyn Fn() -> Result<()>);

fn main() -> Result<()> {
    let command = Channels::parse();
    let mut memory = MaybeUninit::uninit();
    let skel = bpf::ChannelsSkelBuilder::default().open(&mut memory)?.load()?;
    let (maps, programs) = (&skel.maps, &skel.progs);

    if let Channels::Cost = command {
        fs::write("/proc/sys/kernel/bpf_stats_enabled", "1").or_cause("cannot switch on BPF statistics")?;
    }

    let seen = RefCell::new(Seen::default());
    let see = |event: &[u8]| seen.borrow_mut().see(event);
    let perf = PerfBufferBuilder::new(&maps.perf_buffer)
        .pages(PAGES)
        .sample_cb(|_, event: &[u8]| see(event))
        .lost_cb(|_, lost| seen.borrow_mut().lost += lost)
        .build()?;
    let mut ring = RingBufferBuilder::new();
    ring.add(&maps.ring_buffer, |event: &[u8]| {
        see(event);
        0
    })?;
    let ring = ring.build()?;
    let pipe = Pipe::new()?;

    let nothing = || Ok(());
    let read_pipe = || pipe.read(&mut seen.borrow_mut());
    let read_perf = || perf.consume().map_err(Error::from);
    let read_ring = || ring.consume().map_err(Error::from);
    let read_hash = || -> Result<()> {
        for key in maps.hash_map.keys() {
            see(&maps.hash_map.lookup(&key, MapFlags::ANY)?.unwrap_or_default());
            maps.hash_map.delete(&key)?;
        }
        Ok(())
    };
    let read_count = || -> Result<()> {
        let count = record::lookup(&maps.count_map, &0_u32.to_ne_bytes())?;
        seen.borrow_mut().count = count.unwrap_or_default();
        Ok(())
    };
    let channels: [Channel<'_>; 8] = [
        ("empty", &programs.empty, &nothing),
        ("unsent", &programs.unsent, &nothing),
        ("trace pipe", &programs.trace_pipe, &read_pipe),
        ("perf buffer", &programs.perf, &read_perf),
        ("ring buffer", &programs.ring, &read_ring),
        ("ring buffer, nobody woken", &programs.ring_quiet, &read_ring),
        ("hash map", &programs.hash, &read_hash),
        ("counter", &programs.count, &read_count),
    ];
    for (name, program, read) in channels {
        let send =
            |events: u32| (0..events).try_for_each(|_| program.test_run(ProgramInput::default()).map(drop));
        match command {
            Channels::Cost => {
                // This warms up: the first run does some things that later runs don't.
                send(FEW)?;
                read()?;
                let before = cost(program)?;
                for _ in 0..FEW {
                    send(1)?;
                    read()?;
                }
                let awaited = cost(program)? - before;
                send(FEW)?;
                let alone = cost(program)? - before - awaited;
                seen.take();
                let clock = time(&nothing)?;
                let to_read = time(read)?.saturating_sub(clock);
                let each = |ns: u64| ns / u64::from(FEW);
                let one = to_read / seen.take().numbers.len().max(1) as u64;
                report::print_text(format_args!("{name}\t{}\t{}\t{one}", each(awaited), each(alone)))?;
            }
            Channels::Loss => {
                let counts = || {
                    report::globals(maps.bss_data.as_deref())
                        .map(|data| (data.sent, data.refused, data.error))
                };
                let before = counts()?;
                seen.take();
                send(MANY)?;
                let after = counts()?;
                read()?;
                let first = seen.take();
                // Some channels report lost events only with the next event.
                send(1)?;
                read()?;
                let lost = first.lost + seen.borrow().lost;
                let number = |number: Option<&u32>| number.map_or(0, |number| number - before.0);
                report::print_text(format_args!(
                    "{name}\t{}\t{}\t{}\t{}\t{}\t{}\t{lost}",
                    first.numbers.len(),
                    number(first.numbers.iter().min()),
                    number(first.numbers.iter().max()),
                    first.count,
                    after.1 - before.1,
                    if after.1 == before.1 { 0 } else { after.2 },
                ))?;
            }
        }
    }
    Ok(())
}

/// What we have read.
#[derive(Default)]
struct Seen {
    /// The events' numbers.
    numbers: Vec<u32>,
    /// Events that the channel reports as lost.
    lost: u64,
    /// The value of the counter.
    count: u64,
}

impl Seen {
    /// Adds an event. An event of the wrong length has no number, so it is missing in the output.
    fn see(&mut self, event: &[u8]) {
        self.numbers.extend(record::read_rounded(event).map(|event { number, .. }| number));
    }
}

/// How long a program has run so far, in ns.
fn cost(program: &ProgramMut<'_>) -> Result<u64> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_fd().as_raw_fd()));
    let info = info.or_cause("cannot read the program's statistics")?;
    let ns = info.lines().find_map(|line| line.strip_prefix("run_time_ns:")?.trim().parse().ok());
    ns.ok_or_else(|| Error::new("the kernel does not report how long a program runs").evidence(info))
}

/// How much CPU time something takes, in ns. CPU time doesn't include time in which we wait or another process runs.
fn time(what: &dyn Fn() -> Result<()>) -> Result<u64> {
    let now = || {
        clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from).or_cause("cannot read the clock")
    };
    let start = now()?;
    what()?;
    Ok((now()? - start).as_nanos() as u64)
}

/// A private trace pipe, as large as the other channels.
struct Pipe {
    path: PathBuf,
    file: Option<File>,
}

impl Pipe {
    fn new() -> Result<Self> {
        let path = tracefs::path()?.join("instances/channels");
        fs::create_dir(&path).or_cause(format!("cannot make the trace instance {}", path.display()))?;
        let mut pipe = Self { path, file: None };
        let event = Path::new("events/bpf_trace/bpf_trace_printk");
        let room = (PAGES * 4).to_string();
        for (file, value) in [
            (Path::new("buffer_size_kb"), &*room),
            (&event.join("filter"), "bpf_string ~ \"channels: *\""),
            (&event.join("enable"), "1"),
        ] {
            let file = pipe.path.join(file);
            fs::write(&file, value).or_cause(format!("cannot write {value:?} to {}", file.display()))?;
        }
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(pipe.path.join("trace_pipe"));
        pipe.file = Some(file.or_cause("cannot open the trace pipe")?);
        Ok(pipe)
    }

    /// Reads everything that is in the pipe.
    fn read(&self, seen: &mut Seen) -> Result<()> {
        let mut text = Vec::new();
        if let Some(mut file) = self.file.as_ref()
            && let Err(error) = file.read_to_end(&mut text)
            && error.kind() != ErrorKind::WouldBlock
        {
            return Err(error).or_cause("cannot read the trace pipe");
        }
        for line in String::from_utf8_lossy(&text).lines() {
            if let Some(line) = Line::parse(line) {
                let number = line.message.split(' ').nth(1).and_then(|number| number.parse().ok());
                seen.numbers.extend::<Option<u32>>(number);
            } else if let Some((_, lost)) = line.split_once("[LOST ") {
                seen.lost += lost.split(' ').next().and_then(|lost| lost.parse::<u64>().ok()).unwrap_or(0);
            }
        }
        Ok(())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.file = None;
        // If the programs are still loaded, this may fail, but the guest ends soon anyway.
        let _ = fs::remove_dir(&self.path);
    }
}
