//! Stage 06: which code path issued the slowest bio?

use clap::Parser;
use common::args::RunArgs;
use common::preflight;
use common::report::{self, MaxLatency, SlowBio};
use common::trace_pipe::TracePipe;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};

mod bpf {
    include!(concat!(env!("OUT_DIR"), "/bio_trace.skel.rs"));
}
use bpf::types::bio_info;
common::record!(bio_info { bio, start, end, sector, stack_id, caller });

/// Print how long every bio takes, from submit_bio() to bio_endio(), and the slowest with the stack that issued it
#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version)]
struct Args {
    #[command(flatten)]
    run: RunArgs,
}

fn main() -> common::Result<()> {
    let args = Args::parse();
    common::init(&args.run)?;

    // OPEN: parse the compiled BPF object, which is part of this binary.
    let mut memory = std::mem::MaybeUninit::uninit();
    let open_skel = bpf::BioTraceSkelBuilder::default().open(&mut memory)?;
    preflight::check(open_skel.open_object())?;

    // LOAD: hand it to the kernel, whose verifier checks it and whose JIT compiles it.
    let mut skel = open_skel.load()?;
    let mut pipe = TracePipe::open(&args.run, skel.object())?;

    // ATTACH: from here on the kernel runs it at every call.
    skel.attach()?;

    // CALLBACK: the kernel calls it. Print what it writes.
    pipe.follow()?;
    let skipped = report::skipped_calls(skel.object())?;
    skel.links = Default::default(); // detach
    pipe.drain()?;

    // REPORT: each CPU's slowest bio, and the slowest of these.
    let cpus = skel.maps.slowest_map.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)?;
    let bio =
        |r: bio_info| SlowBio::new(r.bio, r.start, r.end).at_sector(r.sector).by_stack(r.stack_id, r.caller);
    let stack = |id: u32| skel.maps.stack_map.lookup(&id.to_ne_bytes(), MapFlags::ANY);
    report::print(MaxLatency::of(&cpus, bio)?.with_stack(stack)?)?;

    // REPORT: the bios still in the map, those that the programs count, and the calls that the kernel skipped.
    let left = skel.maps.start_map.keys().count() as u64;
    let globals = report::globals(skel.maps.bss_data.as_deref())?;
    report::print_not_measured(left + globals.not_measured, skipped)
}
