//! hello_perf_output: sends an event through a buffer for each new process.

use std::time::Duration;

use clap::Parser;
use common::events::{Lines, task_name};
use common::{OrCause, args, preflight, report};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{PerfBufferBuilder, RingBufferBuilder};
use nix::time::{ClockId, clock_gettime};

mod bpf {
    include!(concat!(env!("OUT_DIR"), "/hello_perf_output.skel.rs"));
}
use bpf::types::event;
common::record!(event { ns, pid, comm });

/// Say hello for every new process and thread, through a perf event array
#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version)]
struct Args {
    /// Send the events through a ring buffer instead
    #[arg(long)]
    ringbuf: bool,

    /// Set the size of the buffer in pages of 4 KiB, for each CPU; with --ringbuf, for all CPUs together
    #[arg(long, value_name = "N", default_value = "16", value_parser = pages)]
    pages: usize,

    #[command(flatten)]
    events: args::EventArgs,
}

fn pages(text: &str) -> Result<usize, String> {
    let pages = text.parse().ok().filter(|pages: &usize| pages.is_power_of_two() && *pages <= 4096);
    pages.ok_or_else(|| "give a power of two, 4096 at most".to_owned())
}

fn main() -> common::Result<()> {
    let args = Args::parse();
    common::init(&args.events)?;

    let mut memory = std::mem::MaybeUninit::uninit();
    let mut open_skel = bpf::HelloPerfOutputSkelBuilder::default().open(&mut memory)?;
    preflight::check(open_skel.open_object())?;
    if let Some(constants) = &mut open_skel.maps.rodata_data {
        constants.ringbuf = args.ringbuf;
    }
    open_skel.maps.ring_buffer.set_max_entries(args.pages as u32 * 4096)?;
    let mut skel = open_skel.load()?;

    // This is the clock of bpf_ktime_get_ns().
    let start = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).or_cause("cannot read the clock")?);
    let lines = Lines::new(args.events.lines);
    let message = if args.ringbuf { "Hello, ringbuf!" } else { "Hello, perf_output!" };
    let print = |event: &[u8]| {
        lines.add_event(event, |event { ns, pid, comm }| {
            let seconds = Duration::from_nanos(ns).saturating_sub(start).as_secs_f64();
            format!("{seconds:<18.9} {:<16} {pid:<7} {message}", task_name(comm))
        });
    };
    report::print(format!("{:<18} {:<16} {:<7} MESSAGE", "TIME(s)", "COMM", "PID"))?;

    if args.ringbuf {
        let mut ring = RingBufferBuilder::new();
        ring.add(&skel.maps.ring_buffer, |event| {
            print(event);
            0
        })?;
        let ring = ring.build()?;
        skel.attach()?;
        lines.follow(args.events.duration, |timeout| ring.poll(timeout))?;
        skel.links = Default::default(); // detach, and then read the events that are still in the buffer
        ring.consume()?;
    } else {
        let perf = PerfBufferBuilder::new(&skel.maps.perf_buffer);
        let perf = perf.pages(args.pages).sample_cb(|_, event: &[u8]| print(event)).build()?;
        skel.attach()?;
        lines.follow(args.events.duration, |timeout| perf.poll(timeout))?;
        skel.links = Default::default();
        perf.consume()?;
    }
    lines.print()?;
    report::warn_skipped(skel.object())?;

    let not_sent = report::globals(skel.maps.bss_data.as_deref())?.not_sent;
    report::print(format!("Events received: {}, not sent: {not_sent}", lines.count()))
}
