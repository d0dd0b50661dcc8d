//! Attach: probe the entry and the return of all functions.
//!
//! If the kernel has `kprobe.session`, one link attaches one program to all functions, and the probe's cookie identifies
//! the function. On other kernels each function gets a kprobe and a kretprobe. The program then knows an entry by its
//! address. A return event doesn't say which function it belongs to, so we match it to its entry by stack pointer: both
//! have the same one.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::mem;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::thread;

use common::stop::Stop;
use common::{Error, OrCause, Result, libbpf_log};
use indicatif::{ProgressBar, ProgressStyle};
use libbpf_rs::btf::{self, Btf};
use libbpf_rs::libbpf_sys::{bpf_kprobe_multi_opts, bpf_program__attach_kprobe_multi_opts};
use libbpf_rs::{AsRawLibbpf, Link, ProgramMut};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use perf_event::Builder;
use perf_event::events::KProbe;

/// How many threads detach probes in parallel.
const THREADS: usize = 16;

/// A function to probe.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its number in the recording.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// Which of the argument registers holds the object, counted from 0. There are six on x86_64, and eight
    /// on arm64.
    pub register: usize,
    /// Its address in the kernel's code; 0 if the kernel hides it.
    pub address: u64,
}

impl Target {
    /// The function's number and the register of its object, in the form that the programs expect.
    pub fn cookie(&self) -> u32 {
        u32::from(self.id) | (self.register as u32) << 16
    }
}

/// A function that the kernel refused to probe, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub name: String,
    /// The error message of the kernel or libbpf.
    pub why: String,
}

/// Whether one link can attach to all functions on this kernel: it has `kprobe.session` (Linux 6.10 and newer, with
/// `CONFIG_FPROBE`, which arm64 has since 6.14).
pub fn has_session(btf: &Btf<'_>) -> bool {
    let has = |function| btf.type_by_name::<btf::types::Func<'_>>(function).is_some();
    // Without CONFIG_FPROBE, the kernel has the first one, and refuses the link.
    has("bpf_session_is_return") && has("register_fprobe_ips")
}

/// Whether a session follows the calls of `bio_endio()` in tasks, such as those for a disk in memory.
///
/// A preemptible kernel, such as 7.2, can switch to another task in the middle of an fentry program, and then skips the
/// program for that task (`kernel/bpf/trampoline.c`, `__bpf_prog_enter_recur()`). In the middle of a session's program it
/// does not switch. Before 6.14, a session for one function has only a few slots for returns; it has no such type.
pub fn has_session_end(btf: &Btf<'_>) -> bool {
    has_session(btf) && btf.type_by_name::<btf::types::Struct<'_>>("fprobe_hlist").is_some()
}

/// The probes. Dropping this detaches them.
#[derive(Debug, Default)]
pub struct Links(pub Vec<Link>);

impl Drop for Links {
    /// For each probe the kernel waits until no CPU can be running it. Waiting in parallel takes less time.
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
            for _ in 1..THREADS {
                // If we can't start a thread, the others do its work.
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        bar.finish_and_clear();
    }
}

/// Attaches to all functions with one link. If the kernel refuses, tries each half, until we know which functions it
/// refuses.
pub fn session(
    program: &ProgramMut<'_>,
    targets: &[Target],
    links: &mut Links,
    refused: &mut Vec<Refused>,
) -> Result<()> {
    if targets.is_empty() {
        return Ok(());
    }
    match (attach_session(program, targets)?, targets) {
        (Ok(link), _) => links.0.push(link),
        (Err(error), [target]) => {
            refused.push(Refused { name: target.name.clone(), why: error.to_string() });
        }
        (Err(_), _) => {
            let (left, right) = targets.split_at(targets.len() / 2);
            session(program, left, links, refused)?;
            session(program, right, links, refused)?;
        }
    }
    Ok(())
}

/// One link for the entries and the returns of these functions. `libbpf-rs` 0.27 has no `kprobe.session`, so we call
/// libbpf.
#[allow(unsafe_code)]
fn attach_session(program: &ProgramMut<'_>, targets: &[Target]) -> Result<std::result::Result<Link, Errno>> {
    let names = targets.iter().map(|target| CString::new(target.name.as_str()));
    let names: Vec<_> =
        names.collect::<std::result::Result<_, _>>().or_cause("a function's name has a zero byte")?;
    let symbols: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
    let cookies: Vec<u64> = targets.iter().map(|target| target.cookie().into()).collect();
    let options = bpf_kprobe_multi_opts {
        sz: size_of::<bpf_kprobe_multi_opts>() as u64,
        syms: symbols.as_ptr().cast_mut(),
        cookies: cookies.as_ptr(),
        cnt: targets.len() as u64,
        session: true,
        ..bpf_kprobe_multi_opts::default()
    };
    // SAFETY: the program is loaded, and all arrays have `cnt` elements and live until the call returns. libbpf copies
    // what it keeps.
    let link = unsafe {
        bpf_program__attach_kprobe_multi_opts(
            program.as_libbpf_object().as_ptr(),
            std::ptr::null(),
            &raw const options,
        )
    };
    Ok(match NonNull::new(link) {
        // SAFETY: the link is new, and nobody else has it.
        Some(link) => Ok(unsafe { Link::from_ptr(link) }),
        None => {
            let error = Errno::last();
            // The recording goes on without some functions.
            libbpf_log::forget();
            Err(error)
        }
    })
}

/// Attaches to one function after another, until `stop`.
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

/// Attaches to a function by its address, because 5.10 searches all its symbols to find a name.
fn probe(program: &ProgramMut<'_>, is_return: bool, address: u64) -> Result<Link, String> {
    // Without a name, the kernel takes the offset as the address. KProbe::for_addr() would make a uprobe.
    let event = KProbe::for_function(is_return, CString::default(), address);
    // perf_event_open(2) wants a CPU, but the program of a kprobe runs on all of them.
    let event = event.and_then(|event| Builder::new(event).any_pid().one_cpu(0).build());
    let event = event.map_err(|error| error.to_string())?;
    let link = program.attach_perf_event(event.as_raw_fd()).map_err(|error| error.to_string())?;
    // From now on the link owns the file descriptor and closes it.
    let _ = event.into_raw_fd();
    Ok(link)
}

/// A progress bar on stderr, if that is a terminal.
fn progress(what: &str, length: usize) -> ProgressBar {
    let style = ProgressStyle::with_template(&format!("{what} {{bar:40}} {{pos}} of {{len}} {{eta}} left"));
    ProgressBar::new(length as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Each entry and each return takes one open file on 5.10, and two since 5.15: the perf event and its link.
fn raise_limit(functions: u64) -> Result<()> {
    let cannot = "cannot open as many probes as there are functions";
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).or_cause(cannot)?;
    let needed = 4 * functions + 64;
    if soft >= needed {
        return Ok(());
    }
    // Root can raise the hard limit, too.
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed)).map_err(|error| {
        Error::new(cannot)
            .evidence(format!("{needed} files are needed, {hard} are allowed: {error}"))
            .fix(format!("choose fewer functions: --functions GLOB; or sysctl -w fs.nr_open={needed}"))
    })
}

/// Chooses the functions to probe: those that match a glob in `only`, or all if it is empty, except those that match a
/// glob in `except`.
pub fn choose(names: &[String], only: &[String], except: &[String]) -> Result<BTreeSet<String>> {
    let parse = |globs: &[String]| -> Result<Vec<glob::Pattern>> {
        let parse =
            |glob: &String| glob::Pattern::new(glob).or_cause(format!("this is not a valid glob: {glob}"));
        globs.iter().map(parse).collect()
    };
    let (only, except) = (parse(only)?, parse(except)?);
    let is_in = |name: &str| only.is_empty() || only.iter().any(|glob| glob.matches(name));
    let is_out = |name: &str| except.iter().any(|glob| glob.matches(name));
    let chosen: BTreeSet<_> = names.iter().filter(|name| is_in(name) && !is_out(name)).cloned().collect();
    if chosen.is_empty() {
        return Err(Error::new("no function is left to trace")
            .evidence(format!(
                "{} functions can be probed, but --functions and --exclude leave out all of them",
                names.len()
            ))
            .fix("choose from their names: ctracer list"));
    }
    Ok(chosen)
}
