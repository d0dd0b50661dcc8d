//! biolatency: how long does block I/O take?

use clap::Parser;
use common::preflight::{self, Need};
use common::{Error, record, report};
use libbpf_rs::MapCore;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use toolkit::disks;
use toolkit::flags::Flags;
use toolkit::interval::IntervalArgs;

mod latency;

use latency::{Form, Kind, Latencies, Readings};

mod bpf {
    include!(concat!(env!("OUT_DIR"), "/biolatency.skel.rs"));
}
use bpf::types::{hist, io_kind};
common::record!(hist { slots, total_ns, unmatched, disk });
common::record!(io_kind { disk, flags });

/// Show how long block I/O takes, as histograms
#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version, mut_arg("json", |arg| arg.short('j')))]
struct Args {
    /// Include the time that a request waits in the kernel before the driver gets it
    #[arg(short = 'Q', long)]
    queued: bool,

    /// Print a histogram for each disk
    #[arg(short = 'D', long)]
    disks: bool,

    /// Print a histogram for each kind of I/O: the operation and its flags
    #[arg(short = 'F', long)]
    flags: bool,

    /// Trace only this disk, such as nvme0n1
    #[arg(short, long, value_name = "DISK")]
    disk: Option<String>,

    #[command(flatten)]
    form: Form,

    #[command(flatten)]
    intervals: IntervalArgs,
}

fn main() -> common::Result<()> {
    let args = Args::parse();
    common::init(&args.intervals)?;

    let mut memory = std::mem::MaybeUninit::uninit();
    let mut open_skel = bpf::BiolatencySkelBuilder::default().open(&mut memory)?;

    // With -Q the time starts at this tracepoint, if the kernel has it.
    let io_start = args.queued && Need::Tracepoint("block_io_start".to_owned()).check().is_ok();
    open_skel.progs.block_io_start.set_autoload(io_start);
    open_skel.progs.blk_mq_start_request_entry.set_autoload(!io_start);
    preflight::check(open_skel.open_object())?;

    let flags = if args.flags { Flags::of_this_kernel()? } else { Flags::default() };
    let form = args.form;
    let options = open_skel.maps.rodata_data.as_deref_mut();
    let options = options.ok_or_else(|| Error::new("the programs have no options"))?;
    let only_disk = args.disk.as_deref().map(disks::of_requests).transpose()?;
    options.by_disk = args.disks || only_disk.is_some();
    options.flags_kept = flags.kept();
    options.queued = args.queued;
    options.unit_ns = form.unit_ns();

    let mut skel = open_skel.load()?;
    skel.attach()?;

    let mut readings = Readings::default();
    let mut unmatched = 0;
    args.intervals.each(form.output.between(), || {
        let map = &skel.maps.hist_map;
        let mut now = Latencies::new();
        unmatched = 0;
        for key in map.keys() {
            let Some(hist) = record::lookup::<hist>(map, &key)? else { continue };
            let disk = common::events::text(&hist.disk);
            if only_disk.as_ref().is_some_and(|only| *only != disk) {
                continue;
            }
            unmatched += hist.unmatched;
            let kept = record::read::<io_kind>(&key)?.flags;
            let kind = Kind { disk: args.disks.then_some(disk), flags: args.flags.then(|| flags.name(kept)) };
            *now.entry(kind).or_default() += hist.into(); // two kinds may have the same name
        }
        let interval = readings.next(now);
        Ok(form.render(&interval, &report::time_stamp()))
    })?;
    latency::warn_uncounted(unmatched, report::globals(skel.maps.bss_data.as_deref())?);
    report::warn_skipped(skel.object())
}
