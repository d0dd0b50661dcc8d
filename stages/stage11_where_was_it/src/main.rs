use clap::Parser;
use common::args::EventArgs;
use common::events::{Lines, task_name};
use common::{preflight, report};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, RingBufferBuilder};

mod bpf {
    include!(concat!(env!("OUT_DIR"), "/bio_trace.skel.rs"));
}
common::record!(bpf::types::io { times, sector, bytes, comm });

#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version, about)]
struct Args {
    #[command(flatten)]
    run: EventArgs,
}

/// The line of an I/O. Each part is the difference of two times in whole microseconds, so the parts add up.
fn line(bpf::types::io { times, sector, bytes, comm }: bpf::types::io) -> String {
    let us = times.map(|ns| ns / 1000);
    let [before, queue, disk, end] = [0, 1, 2, 3].map(|nth| us[nth + 1].saturating_sub(us[nth]));
    let (task, total) = (task_name(comm), us[4].saturating_sub(us[0]));
    format!("{task:<16} {sector:>10} {bytes:>8} {total:>8} {before:>8} {queue:>8} {disk:>8} {end:>8}")
}

fn main() -> common::Result<()> {
    let args = Args::parse();
    common::init(&args.run)?;
    let mut memory = std::mem::MaybeUninit::uninit();

    // OPEN: parse the compiled BPF object, which is part of this binary.
    let open_skel = bpf::BioTraceSkelBuilder::default().open(&mut memory)?;
    preflight::check(open_skel.open_object())?;

    // LOAD: hand it to the kernel, whose verifier checks it and whose JIT compiles it.
    let mut skel = open_skel.load()?;
    let (lines, mut ring) = (Lines::new(args.run.lines), RingBufferBuilder::new());
    ring.add(&skel.maps.ring, lines.printing(line))?;
    let ring = ring.build()?;

    // ATTACH: from here on the kernel runs it at every call.
    skel.attach()?;

    // READ: print the records that it sends, until the run ends.
    report::print("TASK                 SECTOR    BYTES    TOTAL   BEFORE    QUEUE     DISK      END")?;
    lines.follow(args.run.duration, |timeout| ring.poll(timeout))?;
    let skipped = report::skipped_calls(skel.object())?;
    skel.links = Default::default(); // detach
    lines.drain(|| ring.consume())?;

    // REPORT: the I/Os still in the map, those that the program counts, and the calls that the kernel skipped.
    let left = skel.maps.io_map.keys().count() as u64;
    let globals = report::globals(skel.maps.bss_data.as_deref())?;
    report::print_not_measured(left + globals.not_measured, 0, skipped)
}
