//! biowhere: where was an I/O all that time?

use std::cell::RefCell;
use std::thread;
use std::time::Duration;

use clap::Parser;
use common::events::Lines;
use common::traced::Traced;
use common::{Error, preflight, report};
use libbpf_rs::RingBufferBuilder;
use libbpf_rs::btf::{Btf, types::Func};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use toolkit::disks;
use toolkit::flags::Flags;

mod args;
mod io;
mod names;
mod summary;
mod watch;
mod bpf {
    include!(concat!(env!("OUT_DIR"), "/biowhere.skel.rs"));
}
use args::Args;
use summary::By;
use watch::Watch;

/// How often to look for events. Meanwhile, the ring buffer has room for thousands.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

fn main() -> common::Result<()> {
    let args = Args::parse();
    let process = args.pid.map(Traced::of_pid).transpose()?;
    common::init(&args.events)?;
    let flags = Flags::all_of_this_kernel()?;

    let mut memory = std::mem::MaybeUninit::uninit();
    let mut open_skel = bpf::BiowhereSkelBuilder::default().open(&mut memory)?;
    let has_clone = Btf::from_vmlinux()?.type_by_name::<Func<'_>>("bio_alloc_clone").is_some();
    open_skel.progs.bio_alloc_clone_exit.set_autoload(has_clone);
    open_skel.progs.bio_clone_fast_entry.set_autoload(!has_clone);
    preflight::check(open_skel.open_object())?;

    let options = open_skel.maps.rodata_data.as_deref_mut();
    let options = options.ok_or_else(|| Error::new("the programs have no options"))?;
    options.only_disk = args.disk.as_deref().map_or(Ok(0), disks::number)?;
    options.only_pid = process.map_or(Ok(0), |process| process.kernel_pid())?;
    options.only_operation = args.op.as_deref().map_or(Ok(u32::MAX), |name| flags.number(name))?;
    options.slower_than_ns = args.slower_than.map_or(0, |time| time.as_nanos() as u64);
    options.wants_files = args.summary.is_none() || args.by == By::File;

    let mut skel = open_skel.load()?;
    let watch = RefCell::new(Watch::new(&args, flags)?);
    let lines = Lines::new(args.events.lines);
    let mut ring = RingBufferBuilder::new();
    ring.add(&skel.maps.events, |event| {
        watch.borrow_mut().see(event, &lines);
        0
    })?;
    let ring = ring.build()?;
    watch.borrow().head().map_or(Ok(()), report::print)?;
    skel.attach()?;
    watch.borrow_mut().begin()?;
    if let Some(globals) = skel.maps.bss_data.as_deref_mut() {
        globals.is_attached = 1;
    }
    lines.follow(args.events.duration, |timeout| {
        // The programs wake nobody: looking now and then costs less.
        thread::sleep(timeout.min(LOOK_AGAIN));
        ring.consume()?;
        watch.borrow_mut().tick(&lines);
        Ok(())
    })?;
    watch.borrow_mut().end()?;
    report::warn_skipped(skel.object())?;
    skel.links = Default::default(); // detach, and then read the events that are still in the buffer
    ring.consume()?;
    watch.borrow_mut().finish(&lines)?;
    lines.print()?;
    let lost = report::globals(skel.maps.bss_data.as_deref())?.lost;
    if lost > 0 {
        eprintln!("warning: {lost} I/Os are not shown: there was no room for them, or their end was missed");
    }
    Ok(())
}
