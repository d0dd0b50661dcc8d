use clap::Parser;
use common::args::RunArgs;
use common::trace_pipe::TracePipe;
use common::{functions, libbpf_log, preflight, report};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};

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
    let skel = open_skel.load()?;
    let mut pipe = TracePipe::open(&args.run, skel.object())?;

    // ATTACH: to each function that takes a bio, by the kernel's types. From here on the kernel runs it at every call.
    let programs = [&skel.progs.bio_is_first, &skel.progs.bio_is_second, &skel.progs.bio_is_third];
    let all = functions::taking("bio")?;
    let mut links = Vec::new();
    for function in &all {
        for address in function.addresses() {
            skel.maps.name_map.update(&address.to_ne_bytes(), &function.text::<64>(), MapFlags::ANY)?;
        }
        let program = function.argument.and_then(|nth| programs.get(nth));
        if let Some(Ok(link)) = program.map(|program| program.attach_kprobe(false, &function.name)) {
            links.push(link);
        }
    }
    libbpf_log::forget();
    report::print(format_args!("Attached to {} of {} functions", links.len(), all.len()))?;

    // READ: print what it writes, until the run ends.
    pipe.follow()?;
    let skipped = report::skipped_calls(skel.object())?;
    drop(links); // detach
    pipe.drain()?;
    report::print_skipped(skipped)
}
