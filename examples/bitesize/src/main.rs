//! bitesize: how large are the I/Os of each process?

use clap::Parser;
use common::traced::Traced;
use common::{preflight, report};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use toolkit::interval::IntervalArgs;
use toolkit::output::Output;

use crate::process::{Interval, Processes};

mod bpf {
    include!(concat!(env!("OUT_DIR"), "/bitesize.skel.rs"));
}
common::record!(bpf::types::process { slots, comm, uid, __pad_196 });
mod process;

/// Show the sizes of the block I/O of each process, in KiB, as histograms
#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version)]
struct Args {
    #[command(flatten)]
    intervals: IntervalArgs,
    /// Trace only this process, with all its threads
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    pid: Option<u32>,
    /// Show only the N processes with the most I/O in each interval
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Count the I/O of up to N processes; at the end, a warning reports how many I/Os of others were left out
    #[arg(long, value_name = "N", default_value_t = 10240, value_parser = clap::value_parser!(u32).range(1..))]
    processes: u32,
    #[command(flatten)]
    output: Output,
}

fn main() -> common::Result<()> {
    let args = Args::parse();
    let process = args.pid.map(Traced::of_pid).transpose()?;
    common::init(&args.intervals)?;

    let mut memory = std::mem::MaybeUninit::uninit();
    let mut open_skel = bpf::BitesizeSkelBuilder::default().open(&mut memory)?;
    preflight::check(open_skel.open_object())?;
    open_skel.maps.process_map.set_max_entries(args.processes)?;
    if let (Some(process), Some(rodata)) = (process, open_skel.maps.rodata_data.as_deref_mut()) {
        rodata.only_pid = process.kernel_pid()?;
    }
    let mut skel = open_skel.load()?;
    skel.attach()?;

    let mut before = Processes::default();
    args.intervals.each(args.output.between(), || {
        let now = process::read(&skel.maps.process_map)?;
        let interval = Interval::new(report::time_stamp(), &before, &now, args.top);
        before = now;
        Ok(args.output.render(&interval, || interval.text(report::columns())))
    })?;
    report::warn_skipped(skel.object())?;
    let dropped = report::globals(skel.maps.bss_data.as_deref())?.dropped;
    if dropped > 0 {
        eprintln!(
            "warning: {dropped} I/Os are not counted: there was room for only {0} processes; try --processes {1}",
            args.processes,
            u64::from(args.processes) * 4
        );
    }
    Ok(())
}
