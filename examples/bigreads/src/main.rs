//! bigreads: which processes read a lot in one call?

use clap::Parser;
use common::args::RunArgs;
use common::events::{Lines, task_name};
use common::trace_pipe::TracePipe;
use common::{preflight, report};
use libbpf_rs::PerfBufferBuilder;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use serde_json::json;
use toolkit::output::Output;

mod bpf {
    include!(concat!(env!("OUT_DIR"), "/bigreads.skel.rs"));
}
use bpf::types::event;
common::record!(event { bytes, pid, comm });

/// Print every read of 1 MiB or more: the process, and how many bytes it got
#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version, mut_arg("shared_pipe", |arg| arg.requires("printk")))]
#[command(mut_arg("json", |arg| arg.conflicts_with("printk")))]
struct Args {
    /// Print reads of at least N bytes
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = clap::value_parser!(i64).range(1..), allow_negative_numbers = true)]
    min_bytes: i64,

    /// Use a kretprobe and the trace pipe, like the first version of bigreads
    #[arg(long)]
    printk: bool,

    #[command(flatten)]
    output: Output,

    #[command(flatten)]
    run: RunArgs,
}

fn main() -> common::Result<()> {
    let args = Args::parse();
    common::init(&args.run)?;

    let mut memory = std::mem::MaybeUninit::uninit();
    let mut open_skel = bpf::BigreadsSkelBuilder::default().open(&mut memory)?;
    open_skel.progs.vfs_read_exit.set_autoload(!args.printk);
    open_skel.progs.vfs_read_return.set_autoload(args.printk);
    preflight::check(open_skel.open_object())?;
    if let Some(constants) = &mut open_skel.maps.rodata_data {
        constants.min_bytes = args.min_bytes;
    }

    if args.printk {
        let mut skel = open_skel.load()?;
        let mut pipe = TracePipe::open(&args.run, skel.object())?;
        skel.attach()?;
        pipe.follow()?;
        report::warn_skipped(skel.object())?;
        skel.links = Default::default(); // detach
        return pipe.drain();
    }

    let mut skel = open_skel.load()?;
    let lines = Lines::new(args.run.lines);
    let print = |_, event: &[u8]| {
        lines.add_event(event, |event { bytes, pid, comm }| {
            let comm = task_name(comm);
            let json = json!({ "comm": comm, "pid": pid, "bytes": bytes });
            args.output.render(&json, || format!("{comm:<16} {pid:<7} {bytes:>10}"))
        });
    };
    let perf = PerfBufferBuilder::new(&skel.maps.perf_buffer).sample_cb(print).build()?;
    if !args.output.json {
        report::print(format!("{:<16} {:<7} {:>10}", "COMM", "PID", "BYTES"))?;
    }
    skel.attach()?;
    lines.follow(args.run.duration, |timeout| perf.poll(timeout))?;
    report::warn_skipped(skel.object())?;
    skel.links = Default::default(); // detach, and then read the events that are still in the buffer
    perf.consume()?;
    lines.print()?;
    let not_sent = report::globals(skel.maps.bss_data.as_deref())?.not_sent;
    let end = format!("Events received: {}, not sent: {not_sent}", lines.count());
    if args.output.json {
        eprintln!("{end}");
        return Ok(());
    }
    report::print(end)
}
