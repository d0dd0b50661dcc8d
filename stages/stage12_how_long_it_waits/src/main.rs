use clap::Parser;
use common::args::ReportArgs;
use common::histogram::Histogram;
use common::traced::{Traced, TracedArgs};
use common::{preflight, report};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};

mod bpf {
    include!(concat!(env!("OUT_DIR"), "/wait_trace.skel.rs"));
}

#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version, about)]
struct Args {
    #[command(flatten)]
    run: ReportArgs,
    #[command(flatten)]
    traced: TracedArgs,
}

fn main() -> common::Result<std::process::ExitCode> {
    let args = Args::parse();
    common::init(&args.run)?;
    let mut memory = std::mem::MaybeUninit::uninit();

    // OPEN: parse the compiled BPF object, which is part of this binary.
    let mut open_skel = bpf::WaitTraceSkelBuilder::default().open(&mut memory)?;
    preflight::check(open_skel.open_object())?;
    common::task_storage::choose(open_skel.open_object_mut())?;
    let process = Traced::new(&args.traced)?;

    // LOAD: hand it to the kernel, whose verifier checks it and whose JIT compiles it.
    let mut skel = open_skel.load()?;
    skel.maps.pid_filter_map.update(&process.kernel_pid()?.to_ne_bytes(), &[1], MapFlags::ANY)?;
    report::print_filter(process.pid())?;

    // ATTACH: from here on the kernel runs it at every call.
    skel.attach()?;

    // READ: nothing. It counts until the process ends.
    process.follow(args.run.duration)?;
    let skipped = report::skipped_calls(skel.object())?;
    skel.links = Default::default(); // detach

    // REPORT: a histogram for each kind of call.
    let globals = report::globals(skel.maps.bss_data.as_deref())?;
    for (call, counts) in ["read", "write", "fsync"].into_iter().zip(&globals.hists[1..]) {
        let hist = Histogram::from(*counts);
        report::print(format_args!("{call}: {}\n{}", hist.count(), hist.table("usecs")))?;
    }
    report::print_skipped(skipped)?;
    process.end()
}
