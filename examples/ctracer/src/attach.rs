//! Attach: probe the entry and the return of all functions.
//!
//! If the kernel has `kprobe.session`, one link attaches one program to all functions, and the probe's cookie identifies
//! the function. On other kernels each function gets two programs of its own (fentry and fexit), which are copies of
//! two that libbpf has loaded, with the function's numbers in them.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{NonNull, null};
use std::sync::Mutex;
use std::thread;

use common::stop::Stop;
use common::{Error, OrCause, Result, libbpf_log};
use indicatif::{ProgressBar, ProgressStyle};
use libbpf_rs::btf::{self, Btf};
use libbpf_rs::libbpf_sys::{
    BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, BPF_TRACE_FEXIT, bpf_attach_type, bpf_insn,
    bpf_kprobe_multi_opts, bpf_link_create, bpf_prog_load, bpf_prog_load_opts,
    bpf_program__attach_kprobe_multi_opts,
};
use libbpf_rs::{AsRawLibbpf, Link, Program, ProgramMut};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

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
    /// Which word after those of its arguments' registers is what it returns: as many as its arguments have; `None`
    /// if we don't show what it returns.
    pub result: Option<usize>,
    /// Its number in the kernel's types.
    pub btf_id: u32,
}

impl Target {
    /// The function's number and the register of its object, in the form that the programs expect.
    pub fn cookie(&self) -> u32 {
        u32::from(self.id)
            | (self.register as u32) << 16
            | self.result.map_or(NO_RESULT, |word| word as u32) << 24
    }
}

/// In place of [`Target::result`], if there is none: on 5.10, the verifier lets no program read what a `void` function
/// returns.
const NO_RESULT: u32 = 0xff;

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
pub struct Links {
    probes: Vec<OwnedFd>,
    /// The numbers of the functions' own programs.
    pub programs: Vec<u32>,
}

impl Links {
    /// Keeps a link of libbpf's, which the kernel detaches when nobody has it open.
    pub fn keep(&mut self, link: &Link) -> Result<()> {
        self.probes.push(link.as_fd().try_clone_to_owned().or_cause("cannot keep a probe")?);
        Ok(())
    }
}

impl Drop for Links {
    /// For each probe the kernel waits until no CPU can be running it. Waiting in parallel takes less time.
    fn drop(&mut self) {
        let bar = progress("Detaching", self.probes.len());
        let links = Mutex::new(mem::take(&mut self.probes));
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
        (Ok(link), _) => links.keep(&link)?,
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

/// Attaches own programs to one function after another, until `stop`: copies of `entry` and `exit`.
pub fn own(
    entry: &Program<'_>,
    exit: &Program<'_>,
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
        // The return first: there is no entry then whose return we don't see.
        let both = attach_own(exit, BPF_TRACE_FEXIT, target)
            .and_then(|first| Ok([first, attach_own(entry, BPF_TRACE_FENTRY, target)?]));
        match both {
            Ok(both) => {
                for (program, link) in both {
                    links.programs.push(Program::id_from_fd(program.as_fd())?);
                    links.probes.push(link);
                }
            }
            Err(error) => {
                let why = format!("the kernel takes no fentry program for it ({error})");
                refused.push(Refused { name: target.name.clone(), why });
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// The upper half of the number in whose place a program gets the function's numbers, see `own_cookie()` in its source.
const OWN: i32 = 0x6354_7261;

/// Loads a copy of a program that libbpf has loaded, for one function, and attaches it. libbpf can load a program only
/// once.
#[allow(unsafe_code)]
fn attach_own(
    program: &Program<'_>,
    kind: bpf_attach_type,
    target: &Target,
) -> io::Result<(OwnedFd, OwnedFd)> {
    let mut insns: Vec<bpf_insn> = program.insns().to_vec();
    for at in 1..insns.len() {
        if insns[at].code == 0 && insns[at].imm == OWN {
            insns[at - 1].imm = target.cookie() as i32;
        }
    }
    let mut options = bpf_prog_load_opts {
        sz: size_of::<bpf_prog_load_opts>() as u64,
        expected_attach_type: kind,
        attach_btf_id: target.btf_id,
        ..bpf_prog_load_opts::default()
    };
    let (name, license) = (c"own", c"GPL");
    let owned = |fd: i32| match fd {
        // SAFETY: the descriptor is new, and nobody else has it.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::from_raw_os_error(-fd)),
    };
    // SAFETY: all pointers are to what lives until the call returns. The kernel copies it.
    let loaded = owned(unsafe {
        bpf_prog_load(
            BPF_PROG_TYPE_TRACING,
            name.as_ptr(),
            license.as_ptr(),
            insns.as_ptr(),
            insns.len() as u64,
            &raw mut options,
        )
    })?;
    // SAFETY: no options.
    let link = owned(unsafe { bpf_link_create(loaded.as_raw_fd(), 0, kind, null()) })?;
    Ok((loaded, link))
}

/// A progress bar on stderr, if that is a terminal.
fn progress(what: &str, length: usize) -> ProgressBar {
    let style = ProgressStyle::with_template(&format!("{what} {{bar:40}} {{pos}} of {{len}} {{eta}} left"));
    ProgressBar::new(length as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Each entry and each return takes one open file: the link, which keeps its program.
fn raise_limit(functions: u64) -> Result<()> {
    let cannot = "cannot open as many probes as there are functions";
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).or_cause(cannot)?;
    // Two links for each function, and what blkbook holds to count their cost.
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
            .fix(format!("choose from their names: {} list", common::lab::called())));
    }
    Ok(chosen)
}
