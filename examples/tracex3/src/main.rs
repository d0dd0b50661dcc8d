//! tracex3: how do latencies change over time?

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use common::args::seconds;
use common::histogram::Histogram;
use common::{Error, OrCause, preflight, record, report};
use heatmap::{Form, Row, Scale};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use toolkit::interval::IntervalArgs;
use toolkit::output::Output;

mod heatmap;
mod bpf {
    include!(concat!(env!("OUT_DIR"), "/tracex3.skel.rs"));
}
use bpf::types::counts;
common::record!(counts { slots });

/// Show the latencies of block I/O as a heat map: time goes down, latency goes right
#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version)]
struct Args {
    /// Print a row every SECS seconds
    #[arg(long, value_name = "SECS", default_value = "1", value_parser = seconds, allow_negative_numbers = true)]
    interval: Duration,

    /// End after N rows [default: at Ctrl-C]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    rows: Option<u64>,

    /// Use a logarithmic scale, with four steps for each power of two; this is the default
    #[arg(long, conflicts_with = "linear")]
    log: bool,

    /// Use a linear scale, with steps of USECS microseconds (100 by default)
    #[arg(long, value_name = "USECS", num_args = 0..=1, default_missing_value = "100", value_parser = clap::value_parser!(u64).range(1..))]
    linear: Option<u64>,

    /// At the end, write the last 1,000 rows as an SVG picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    #[command(flatten)]
    output: Output,

    /// Show libbpf's log and, when the kernel refuses a program, the verifier's
    #[arg(long)]
    verbose: bool,
}

fn main() -> common::Result<()> {
    let args = Args::parse();
    let intervals = IntervalArgs { interval: Some(args.interval), count: args.rows, verbose: args.verbose };
    common::init(&intervals)?;

    let mut memory = std::mem::MaybeUninit::uninit();
    let mut open_skel = bpf::Tracex3SkelBuilder::default().open(&mut memory)?;
    preflight::check(open_skel.open_object())?;
    let options = open_skel.maps.rodata_data.as_deref_mut();
    options.ok_or_else(|| Error::new("the programs have no options"))?.width = args.linear.unwrap_or(0);
    let mut skel = open_skel.load()?;
    skel.attach()?;

    let scale = args.linear.map_or(Scale::Log, Scale::Linear);
    let form = Form { scale, columns: report::columns(), colour: std::io::stdout().is_terminal() };
    let mut head = Some(form.head()).filter(|_| !args.output.json);
    let (mut before, mut rows) = (Histogram::default(), VecDeque::new());
    intervals.each("", || {
        let cpus: Vec<counts> = record::of_each_cpu(&skel.maps.counts_map, 0)?;
        let now: Histogram = cpus.into_iter().map(|counts| Histogram::from(counts.slots)).sum();
        let counts = now.since(&before).counts().to_vec();
        before = now;
        let row = Row { time: report::time_stamp(), counts };
        let head = head.take().map(|head| head + "\n").unwrap_or_default();
        let text = args.output.render(&row.json(scale), || head + &form.row(&row));
        rows.push_front(row);
        rows.truncate(if args.svg.is_some() { 1000 } else { 0 });
        Ok(text)
    })?;
    if let Some(path) = &args.svg {
        let svg = heatmap::svg("Latency of block I/O", scale, &rows.into_iter().rev().collect::<Vec<_>>());
        std::fs::write(path, svg).or_cause(format!("cannot write {}", path.display()))?;
    }
    let counts = report::globals(skel.maps.bss_data.as_deref())?;
    if counts.unmatched + counts.dropped > 0 {
        let (early, many) = (counts.unmatched, counts.dropped);
        eprintln!(
            "warning: not counted: {early} requests that began before tracing, {many} that found no room in the map"
        );
    }
    report::warn_skipped(skel.object())
}
