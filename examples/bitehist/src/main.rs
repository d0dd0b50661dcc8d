//! bitehist: how large are the I/Os that disks get?

use clap::Parser;
use common::histogram::Histogram;
use common::interval::IntervalArgs;
use common::{preflight, report};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};

mod bpf {
    include!(concat!(env!("OUT_DIR"), "/bitehist.skel.rs"));
}

/// Show the sizes of block I/O, in KiB, as a histogram
#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version)]
struct Args {
    #[command(flatten)]
    intervals: IntervalArgs,
}

fn main() -> common::Result<()> {
    let args = Args::parse();
    common::init(&args.intervals)?;

    let mut object = std::mem::MaybeUninit::uninit();
    let open_skel = bpf::BitehistSkelBuilder::default().open(&mut object)?;
    preflight::check(open_skel.open_object())?;
    let mut skel = open_skel.load()?;
    skel.attach()?;

    let mut before = Histogram::default();
    args.intervals.each(|| {
        let cpus = skel.maps.hist_map.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)?;
        let now: Histogram = cpus.iter().flatten().map(|record| Histogram::of_record(record)).sum();
        let table = now.since(&before).table("kbytes").to_string();
        before = now;
        Ok(table)
    })?;
    report::warn_missed(skel.object())
}
