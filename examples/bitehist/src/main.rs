//! bitehist: how large are the I/Os that reach the disks?

use clap::Parser;
use common::histogram::Histogram;
use common::{preflight, record, report};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use serde_json::json;
use toolkit::interval::IntervalArgs;
use toolkit::output::Output;

mod bpf {
    include!(concat!(env!("OUT_DIR"), "/bitehist.skel.rs"));
}
use bpf::types::hist;
common::record!(hist { slots });

/// Show the sizes of block I/O, in KiB, as a histogram
#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version)]
struct Args {
    #[command(flatten)]
    intervals: IntervalArgs,
    #[command(flatten)]
    output: Output,
}

fn main() -> common::Result<()> {
    let args = Args::parse();
    common::init(&args.intervals)?;

    let mut memory = std::mem::MaybeUninit::uninit();
    let open_skel = bpf::BitehistSkelBuilder::default().open(&mut memory)?;
    preflight::check(open_skel.open_object())?;
    let mut skel = open_skel.load()?;
    skel.attach()?;

    let mut before = Histogram::default();
    args.intervals.each(args.output.between(), || {
        let cpus: Vec<hist> = record::of_each_cpu(&skel.maps.hist_map, 0)?;
        let now: Histogram = cpus.into_iter().map(|hist| Histogram::from(hist.slots)).sum();
        let histogram = &now.since(&before);
        before = now;
        let (time, unit) = (report::time_stamp(), "kbytes");
        let json = json!({ "time": time, "unit": unit, "count": histogram.count(), "histogram": histogram });
        Ok(args.output.render(&json, || histogram.table(unit).to_string()))
    })?;
    report::warn_skipped(skel.object())
}
