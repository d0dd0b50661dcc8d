//! Stage 08: does a read find its pages in the page cache?

use clap::Parser;
use common::args::RunArgs;
use common::preflight;
use common::report::{self, PageCache};
use common::trace_pipe::TracePipe;
use libbpf_rs::MapCore;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};

mod bpf {
    include!(concat!(env!("OUT_DIR"), "/pagecache_trace.skel.rs"));
}

/// Count the pages that reads touch, and those that had to be added to the page cache
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
    let mut open_skel = bpf::PagecacheTraceSkelBuilder::default().open(&mut object)?;
    preflight::check(open_skel.open_object())?;
    preflight::adapt(open_skel.open_object_mut())?;
    let mut pipe = TracePipe::open(&args.run, &["* (retval=*", "mm_filemap_add_* (pages=*"])?;

    // LOAD: hand it to the kernel, whose verifier checks it and whose JIT compiles it.
    let mut skel = open_skel.load()?;

    // ATTACH: from here on the kernel runs it at every call.
    skel.attach()?;

    // CALLBACK: print what it writes.
    pipe.follow()?;
    let missed = report::missed_calls(skel.object())?;
    skel.links = Default::default(); // detach
    pipe.drain()?;

    // REPORT: walk the map by its keys, which are 0 and 1: pages read and pages added.
    let value = |key: Vec<u8>| common::record::lookup::<u64>(&skel.maps.count_map, &key);
    let counts = skel.maps.count_map.keys().map(value).collect::<common::Result<Vec<_>>>()?;
    report::print(PageCache::of(&counts, missed))
}
