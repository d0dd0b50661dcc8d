//! hello_clone: prints a line in the trace pipe for each new process.

use clap::Parser;
use common::args::RunArgs;
use common::trace_pipe::TracePipe;
use common::{preflight, record, report};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};

mod bpf {
    include!(concat!(env!("OUT_DIR"), "/hello_clone.skel.rs"));
}

/// Print "Hello, World!" whenever a process or thread is started, except for the threads of io_uring and vhost
#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version)]
struct Args {
    /// Also count them in a map, and print the count
    #[arg(long)]
    count: bool,

    #[command(flatten)]
    run: RunArgs,
}

fn main() -> common::Result<()> {
    let args = Args::parse();
    common::init(&args.run)?;

    let mut memory = std::mem::MaybeUninit::uninit();
    let mut open_skel = bpf::HelloCloneSkelBuilder::default().open(&mut memory)?;
    preflight::check(open_skel.open_object())?;
    if let Some(constants) = &mut open_skel.maps.rodata_data {
        constants.counting = args.count;
    }
    let mut skel = open_skel.load()?;
    let mut pipe = TracePipe::open(&args.run, skel.object())?;
    skel.attach()?;
    pipe.follow()?;
    report::warn_skipped(skel.object())?;
    skel.links = Default::default(); // detach
    pipe.drain()?;
    if args.count {
        let count: u64 = record::lookup(&skel.maps.count_map, &0_u32.to_ne_bytes())?.unwrap_or_default();
        report::print(format!("New processes and threads: {count}"))?;
    }
    Ok(())
}
