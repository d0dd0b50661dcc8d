//! Stage 05: which sector did the slowest bio touch?

use clap::Parser;
use common::args::RunArgs;
use common::preflight;
use common::record;
use common::report::{self, MaxLatency, SlowBio, Unpaired};
use common::trace_pipe::TracePipe;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};

mod bpf {
    include!(concat!(env!("OUT_DIR"), "/bio_trace.skel.rs"));
}
use bpf::types::bio_info;
common::record!(bio_info { bio, start, end, sector });

/// Print how long every bio takes, from submit_bio() to bio_endio(), and the slowest with its sector
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
    let mut object = std::mem::MaybeUninit::uninit();
    let open_skel = bpf::BioTraceSkelBuilder::default().open(&mut object)?;
    preflight::check(open_skel.open_object())?;
    let mut pipe =
        TracePipe::open(&args.run, &["submit_bio(bio=*", "bio_endio (bio=*", "submit_bio() -> *"])?;

    // LOAD: hand it to the kernel, whose verifier checks it and whose JIT compiles it.
    let mut skel = open_skel.load()?;

    // ATTACH: from here on the kernel runs it at every call.
    skel.attach()?;

    // CALLBACK: print what it writes.
    pipe.follow()?;
    let missed = report::missed_calls(skel.object())?;
    skel.links = Default::default(); // detach
    pipe.drain()?;

    // REPORT: each CPU's slowest bio, and the slowest of these.
    let records: Vec<bio_info> = record::of_each_cpu(&skel.maps.slowest_map, 0)?;
    let bio = |r: &bio_info| SlowBio::new(r.bio, r.start, r.end).at_sector(r.sector);
    report::print(MaxLatency::of(records.iter().map(bio)))?;

    // REPORT: what stayed in the map, and what never got there.
    let counts = report::globals(skel.maps.bss_data.as_deref())?;
    let unpaired = Unpaired::count(&skel.maps.start_map, counts.dropped, missed);
    report::print(unpaired.with_early(counts.early))
}
