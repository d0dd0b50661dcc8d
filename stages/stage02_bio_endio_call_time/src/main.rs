use clap::Parser;
use common::args::RunArgs;
use common::preflight;
use common::trace_pipe::TracePipe;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};

mod bpf {
    include!(concat!(env!("OUT_DIR"), "/bio_trace.skel.rs"));
}

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
    skel.links = Default::default(); // detach
    pipe.drain()?;
    Ok(())
}
