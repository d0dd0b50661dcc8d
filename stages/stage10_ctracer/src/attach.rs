//! Attach: one program for the entries of all functions, and one for their returns.
//!
//! Where the kernel has fprobe, one link holds all functions and the probe's cookie says which one it was. Elsewhere each
//! function gets a kprobe and a kretprobe, and an entry is known by its address; a return is not known at all, but the
//! entry that it belongs to has the same place on the stack.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::mem;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::sync::Mutex;
use std::thread;

use common::stop::Stop;
use common::{Error, OrCause, Result, libbpf_log};
use indicatif::{ProgressBar, ProgressStyle};
use libbpf_rs::{KprobeMultiOpts, Link, ProgramMut};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use perf_event::Builder;
use perf_event::events::KProbe;

use crate::find::Names;

/// How far into the kernel's `struct pt_regs` the registers of the arguments are, on x86_64: di, si, dx, cx, r8, r9.
const REGISTERS: [u64; 6] = [112, 104, 96, 88, 72, 64];

/// So many probes are taken away at the same time.
const AT_ONCE: usize = 16;

/// A function to probe.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its number in the recording.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Which of the registers for arguments holds the object, the first one is 0.
    pub register: usize,
    /// Where it is in the kernel's code; 0 if the kernel hides that.
    pub address: u64,
}

impl Target {
    /// Its number, and where its object is, as the programs take it.
    pub fn cookie(&self) -> u64 {
        u64::from(self.id) | REGISTERS.get(self.register).unwrap_or(&0) << 32
    }
}

/// A function that the kernel did not let us probe, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub name: String,
    /// The kernel's or libbpf's words.
    pub why: String,
}

/// Whether the kernel can hold all functions by one link.
pub fn has_fprobe(names: &Names) -> bool {
    names.contains("register_fprobe_ips")
}

/// What holds the probes; without it they are gone.
#[derive(Debug, Default)]
pub struct Links(pub Vec<Link>);

impl Drop for Links {
    /// For each, the kernel waits until no CPU can be in it. Together they wait less long.
    fn drop(&mut self) {
        let bar = progress("Detaching", self.0.len());
        let links = Mutex::new(mem::take(&mut self.0));
        let next = || links.lock().ok()?.pop();
        let work = || {
            while let Some(link) = next() {
                drop(link);
                bar.inc(1);
            }
        };
        thread::scope(|scope| {
            for _ in 1..AT_ONCE {
                // Where no thread can be had, the others do its work.
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        bar.finish_and_clear();
    }
}

/// Attaches to all of them at once; where the kernel refuses, to halves of them, until those are found that it refuses.
pub fn multi(
    entries: &ProgramMut<'_>,
    returns: &ProgramMut<'_>,
    targets: &[Target],
    links: &mut Links,
    refused: &mut Vec<Refused>,
) {
    if targets.is_empty() {
        return;
    }
    let options = |retprobe| KprobeMultiOpts {
        symbols: targets.iter().map(|target| target.name.clone()).collect(),
        cookies: targets.iter().map(Target::cookie).collect(),
        retprobe,
        ..KprobeMultiOpts::default()
    };
    let both = returns
        .attach_kprobe_multi_with_opts(options(true))
        .and_then(|first| Ok([first, entries.attach_kprobe_multi_with_opts(options(false))?]));
    if both.is_err() {
        // Without some functions, the recording goes on.
        libbpf_log::forget();
    }
    match (both, targets) {
        (Ok(both), _) => links.0.extend(both),
        (Err(error), [target]) => {
            refused.push(Refused { name: target.name.clone(), why: error.to_string() });
        }
        (Err(_), _) => {
            let (left, right) = targets.split_at(targets.len() / 2);
            multi(entries, returns, left, links, refused);
            multi(entries, returns, right, links, refused);
        }
    }
}

/// Attaches to one after another, until `stop`.
///
/// # Errors
/// If so many files can't be open, or `stop` can't be asked.
pub fn single(
    entry: &ProgramMut<'_>,
    exit: &ProgramMut<'_>,
    targets: &[Target],
    links: &mut Links,
    refused: &mut Vec<Refused>,
    stop: &Stop,
) -> Result<()> {
    raise_limit(targets.len() as u64)?;
    let bar = progress("Attaching", targets.len());
    for target in targets {
        if stop.is_over()? {
            break;
        }
        let both = probe(exit, true, target.address)
            .and_then(|first| Ok([first, probe(entry, false, target.address)?]));
        match both {
            Ok(both) => links.0.extend(both),
            Err(why) => {
                libbpf_log::forget();
                refused.push(Refused { name: target.name.clone(), why });
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Attaches to a function by its address: to find a name, 5.10 reads through all its symbols.
fn probe(program: &ProgramMut<'_>, is_return: bool, address: u64) -> Result<Link, String> {
    // Of no name, the kernel takes the offset as the address. KProbe::for_addr() would make a uprobe of it.
    let event = KProbe::for_function(is_return, CString::default(), address);
    // perf_event_open(2) wants a CPU, but the program of a kprobe runs on all of them.
    let event = event.and_then(|event| Builder::new(event).any_pid().one_cpu(0).build());
    let event = event.map_err(|error| error.to_string())?;
    let link = program.attach_perf_event(event.as_raw_fd()).map_err(|error| error.to_string())?;
    // The link closes it.
    let _ = event.into_raw_fd();
    Ok(link)
}

/// A bar on stderr, if that is a terminal.
fn progress(what: &str, length: usize) -> ProgressBar {
    let style = ProgressStyle::with_template(&format!("{what} {{bar:40}} {{pos}} of {{len}} {{eta}} left"));
    ProgressBar::new(length as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// The entry and the return of each are an open file on 5.10, and two from 5.15 on: the perf event and its link.
fn raise_limit(functions: u64) -> Result<()> {
    let cannot = "cannot open as many probes as there are functions";
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).or_cause(cannot)?;
    let needed = 4 * functions + 64;
    if soft >= needed {
        return Ok(());
    }
    // Root may raise the hard limit, too.
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed)).map_err(|error| {
        Error::new(cannot)
            .evidence(format!("{needed} files are needed, {hard} are allowed: {error}"))
            .fix(format!("name fewer functions: --functions GLOB; or sysctl -w fs.nr_open={needed}"))
    })
}

/// Which functions to probe: those that one of the globs lets in, or all without any, and none keeps out.
///
/// # Errors
/// If a glob is none, or nothing is left.
pub fn choose(names: &[String], only: &[String], except: &[String]) -> Result<BTreeSet<String>> {
    let parse = |globs: &[String]| -> Result<Vec<glob::Pattern>> {
        let parse = |glob: &String| glob::Pattern::new(glob).or_cause(format!("this is no glob: {glob}"));
        globs.iter().map(parse).collect()
    };
    let (only, except) = (parse(only)?, parse(except)?);
    let is_in = |name: &str| only.is_empty() || only.iter().any(|glob| glob.matches(name));
    let is_out = |name: &str| except.iter().any(|glob| glob.matches(name));
    let chosen: BTreeSet<_> = names.iter().filter(|name| is_in(name) && !is_out(name)).cloned().collect();
    if chosen.is_empty() {
        return Err(Error::new("none of the functions is to be traced")
            .evidence(format!("{} can be probed; --functions and --exclude leave none", names.len()))
            .fix("see their names: stage10 list"));
    }
    Ok(chosen)
}
