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

#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version, about)]
struct Args {
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    traced: TracedArgs,
}

fn main() -> common::Result<std::process::ExitCode> {
    let args = Args::parse();
    common::init(&args.run)?;
    let mut memory = std::mem::MaybeUninit::uninit();

    // OPEN: parse the compiled BPF object, which is part of this binary.
    let mut open_skel = bpf::PagecacheTraceSkelBuilder::default().open(&mut memory)?;
    common::page::prepare(open_skel.open_object_mut())?;
    preflight::check(open_skel.open_object())?;
    let process = Traced::new(&args.traced)?;

    // LOAD: hand it to the kernel, whose verifier checks it and whose JIT compiles it.
    let mut skel = open_skel.load()?;
    let mut pipe = TracePipe::open(&args.run, skel.object())?;
    skel.maps.pid_filter_map.update(&process.kernel_pid()?.to_ne_bytes(), &[1], MapFlags::ANY)?;
    report::print_filter(process.pid())?;

    // ATTACH: from here on the kernel runs it at every call.
    skel.attach()?;

    // READ: print what it writes, until the run ends.
    pipe.follow_process(&process)?;
    let skipped = report::skipped_calls(skel.object())?;
    skel.links = Default::default(); // detach
    pipe.drain()?;

    // REPORT: pages read have the key 0, pages added the key 1.
    let count = |key: u32| skel.maps.count_map.lookup(&key.to_ne_bytes(), MapFlags::ANY);
    report::print(PageCache::of(count(0)?, count(1)?, skipped)?.of_process(process.pid()))?;
    process.end()
}
