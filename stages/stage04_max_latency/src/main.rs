use clap::Parser;
use common::args::RunArgs;
use common::preflight;
use common::record::read_each;
use common::report::{self, MaxLatency, SlowBio};
use common::trace_pipe::TracePipe;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};

mod bpf {
    include!(concat!(env!("OUT_DIR"), "/bio_trace.skel.rs"));
}
use bpf::types::bio_info;
common::record!(bio_info { bio, start, end });

#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version, about)]
struct Args {
    #[command(flatten)]
    run: RunArgs,
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
    let mut pipe = TracePipe::open(&args.run, skel.object())?;

    // ATTACH: from here on the kernel runs it at every call.
    skel.attach()?;

    // READ: print what it writes, until the run ends.
    pipe.follow()?;
    let skipped = report::skipped_calls(skel.object())?;
    skel.links = Default::default(); // detach
    pipe.drain()?;

    // REPORT: each CPU's slowest bio, and the slowest of these.
    let cpus = skel.maps.slowest_map.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)?;
    let slowest = read_each::<bio_info>(cpus)?.into_iter().max_by_key(|bio| bio.end - bio.start);
    report::print(MaxLatency::of(slowest.map(|bio| SlowBio::new(bio.bio, bio.start, bio.end))))?;

    // REPORT: the bios still in the map, those that the kernel split, and the calls that it skipped.
    let left = skel.maps.start_map.keys().count() as u64;
    report::print_not_measured(left, pipe.splits(), skipped)
}
