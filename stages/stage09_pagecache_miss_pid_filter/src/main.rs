//! Stage 09: does one process find its pages in the page cache?

use clap::Parser;
use common::args::RunArgs;
use common::preflight;
use common::report::{self, PageCache};
use common::trace_pipe::TracePipe;
use common::traced::{Traced, TracedArgs};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};

mod bpf {
    include!(concat!(env!("OUT_DIR"), "/pagecache_trace.skel.rs"));
}

/// Count the pages that one process reads, and those that were added to the page cache for it
#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version)]
struct Args {
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    traced: TracedArgs,
}

fn main() -> common::Result<std::process::ExitCode> {
    let args = Args::parse();
    common::init(&args.run)?;

    // OPEN: parse the compiled BPF object, which is part of this binary.
    let mut object = std::mem::MaybeUninit::uninit();
    let mut open_skel = bpf::PagecacheTraceSkelBuilder::default().open(&mut object)?;
    preflight::check(open_skel.open_object())?;
    preflight::adapt(open_skel.open_object_mut())?;
    let process = Traced::new(&args.traced)?;
    let mut pipe = TracePipe::open(&args.run, &["* (retval=*", "mm_filemap_add_* (pages=*"])?;

    // LOAD: hand it to the kernel, whose verifier checks it and whose JIT compiles it.
    let mut skel = open_skel.load()?;
    skel.maps.pid_filter_map.update(&process.kernel_pid()?.to_ne_bytes(), &[1], MapFlags::ANY)?;
    report::print_filter(process.pid())?;

    // ATTACH: from here on the kernel runs it at every call.
    skel.attach()?;

    // CALLBACK: print what it writes.
    pipe.follow_process(&process)?;
    let missed = report::missed_calls(skel.object())?;
    skel.links = Default::default(); // detach
    pipe.drain()?;

    // REPORT: walk the map by its keys, which are 0 and 1: pages read and pages added.
    let value = |key: Vec<u8>| common::record::lookup::<u64>(&skel.maps.count_map, &key);
    let counts = skel.maps.count_map.keys().map(value).collect::<common::Result<Vec<_>>>()?;
    report::print(PageCache::of(&counts, missed).of_process(process.pid()))?;
    process.end()
}
