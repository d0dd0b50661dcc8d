//! Counts bios and adds up their times, in the way that you choose. `cargo upkeep ways` compares the ways.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use clap::{Parser, ValueEnum};
use common::args::{RunArgs, Verbose};
use common::report;
use common::stop::{Stop, Wake};
use common::trace_pipe::{Line, TracePipe};
use common::{Result, preflight};
use libbpf_rs::MapCore;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};

mod bpf {
    include!(concat!(env!("OUT_DIR"), "/ways.skel.rs"));
}

/// Count bios and add up their times until Ctrl-C
#[derive(Parser)]
struct Args {
    /// How to attach
    way: Way,
    /// Show libbpf's log and, when the kernel refuses a program, the verifier's
    #[arg(long)]
    verbose: bool,
}

impl Verbose for Args {
    fn verbose(&self) -> bool {
        self.verbose
    }
}

/// The names of a way's programs begin with its own.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Way {
    /// Kprobes that print lines, which user space pairs
    Printk,
    /// Kprobes and a map
    Kprobe,
    /// Fentry programs and a map
    Fentry,
    /// Typed raw tracepoints and a map
    TpBtf,
    /// Raw tracepoints and a map
    RawTp,
    /// Kprobe.multi and a map
    Multi,
    /// Kprobe.session: times the call of submit_bio()
    Session,
    /// Fsession: times the call of submit_bio()
    Fsession,
}

fn main() -> Result<()> {
    let args = Args::parse();
    common::init(&args)?;
    let way = args.way.to_possible_value().map(|value| format!("{}_", value.get_name())).unwrap_or_default();

    let mut memory = MaybeUninit::uninit();
    let mut open_skel = bpf::WaysSkelBuilder::default().open(&mut memory)?;
    for mut program in open_skel.open_object_mut().progs_mut() {
        let chosen = program.name().to_str().is_some_and(|name| name.starts_with(&way));
        program.set_autoload(chosen);
    }
    if matches!(args.way, Way::Printk | Way::Session | Way::Fsession) {
        open_skel.maps.in_flight.set_autocreate(false)?;
    }
    preflight::check(open_skel.open_object())?;
    let mut pipe = match args.way {
        Way::Printk => Some(TracePipe::matching(&RunArgs::default(), &["ways: *".to_owned()])?),
        _ => None,
    };
    let mut skel = open_skel.load()?;
    skel.attach()?;
    eprintln!("Tracing. Ctrl-C to end.");

    let stop = Stop::new(None)?;
    let mut pairs = Pairs::default();
    match &mut pipe {
        Some(pipe) => {
            while stop.wait(pipe.as_fd(), None)? == Wake::Readable {
                pairs.read(pipe)?;
            }
        }
        None => drop(stop.wait_until(None)?),
    }
    let missed = report::skipped_calls(skel.object())?;
    skel.links = Default::default(); // detach

    let counts = report::globals(skel.maps.bss_data.as_deref())?;
    let lost = match &mut pipe {
        Some(pipe) => {
            pairs.read(pipe)?;
            format!(", trace lines lost: {}", pipe.lost())
        }
        None => String::new(),
    };
    let unpaired = match args.way {
        Way::Printk => [pairs.in_flight.len() as u64, 0, pairs.unmatched],
        Way::Session | Way::Fsession => [0; 3],
        _ => [skel.maps.in_flight.keys().count() as u64, counts.dropped, counts.unmatched],
    };
    let [open, dropped, unmatched] = unpaired;
    let missed = missed.map_or("not known".to_owned(), |missed| missed.to_string());
    let (bios, ns) = (counts.bios + pairs.bios, counts.ns + pairs.ns);
    report::print(format_args!(
        "Bios: {bios}, ns: {ns}{lost}. Starts without an end: {open}, starts not recorded: {dropped}, ends without a start: {unmatched}, calls missed: {missed}"
    ))
}

/// The starts and ends from the trace pipe, as we pair them.
#[derive(Default)]
struct Pairs {
    in_flight: HashMap<u64, u64>,
    bios: u64,
    ns: u64,
    unmatched: u64,
}

impl Pairs {
    /// Reads everything that is in the pipe.
    fn read(&mut self, pipe: &mut TracePipe) -> Result<()> {
        while let Some(lines) = pipe.read()? {
            for line in lines.lines() {
                self.see(line);
            }
        }
        Ok(())
    }

    /// Takes a line, such as `ways: starts ffff8a32 1234`, with the bio and the time.
    fn see(&mut self, line: &str) -> Option<()> {
        let mut words = Line::parse(line)?.message.split(' ').skip(1);
        let (what, bio) = (words.next()?, u64::from_str_radix(words.next()?, 16).ok()?);
        let now: u64 = words.next()?.parse().ok()?;
        if what == "starts" {
            self.in_flight.insert(bio, now);
            return Some(());
        }
        match self.in_flight.remove(&bio) {
            Some(start) => {
                self.bios += 1;
                self.ns += now.saturating_sub(start);
            }
            None => self.unmatched += 1,
        }
        Some(())
    }
}
