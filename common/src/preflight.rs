//! Looks before a stage leaps: each thing that is missing is one error with cause, evidence and fix, instead of an
//! error number from deep inside.

use std::env::consts::ARCH;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use libbpf_rs::OpenObject;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Func;
use nix::unistd::{Uid, geteuid};

use crate::lab::in_the_lab;
use crate::probe::{Function, Functions};
use crate::{Error, OrCause, Result, kernel, tracefs};

pub use crate::kernel::release;

/// Something that a stage needs from the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// User id 0.
    Root,
    /// The kernel's types, `/sys/kernel/btf/vmlinux`: CO-RE moves the program's field accesses to where they are.
    Btf,
    /// A kernel that is not locked down to `confidentiality`, which forbids kprobes and hides tracefs.
    NoLockdown,
    /// Where the trace pipe is.
    Tracefs,
    /// `CONFIG_KPROBES`.
    Kprobes,
    /// This function, and that it can be probed.
    Kprobe(String),
    /// A link that holds many kprobes, `kprobe.multi`; and this function.
    KprobeMulti(Option<String>),
    /// The same with one program for a function's entry and its return, `kprobe.session`; and this function.
    KprobeSession(Option<String>),
    /// This function, and that a program can be attached to its entry.
    Fentry(String),
    /// This function, and that a program can be attached to its return.
    Fexit(String),
    /// This tracepoint, with or without the group it is in.
    Tracepoint(String),
    /// This tracer of ftrace.
    Tracer(String),
    /// At least one of these.
    OneOf(Vec<Need>),
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind_of = |kind: &str, name: &Option<String>| match name {
            Some(name) => format!("{kind} {name}"),
            None => kind.to_owned(),
        };
        match self {
            Self::Root => f.write_str("root"),
            Self::Btf => f.write_str("the kernel's types (BTF)"),
            Self::NoLockdown => f.write_str("no kernel lockdown of confidentiality"),
            Self::Tracefs => f.write_str("tracefs"),
            Self::Kprobes => f.write_str("kprobes"),
            Self::Kprobe(function) => write!(f, "kprobe {function}"),
            Self::KprobeMulti(function) => f.write_str(&kind_of("kprobe.multi", function)),
            Self::KprobeSession(function) => f.write_str(&kind_of("kprobe.session", function)),
            Self::Fentry(function) => write!(f, "fentry {function}"),
            Self::Fexit(function) => write!(f, "fexit {function}"),
            Self::Tracepoint(name) => write!(f, "tracepoint {name}"),
            Self::Tracer(name) => write!(f, "tracer {name}"),
            Self::OneOf(needs) => {
                f.write_str(&needs.iter().map(Self::to_string).collect::<Vec<_>>().join(" or "))
            }
        }
    }
}

/// What the programs need that the run is about to load, see [`check`] and [`missing`].
static NEEDS: Mutex<Vec<Need>> = Mutex::new(Vec::new());

/// Checks what the programs of an opened object need, before anything is loaded. Programs that are not to be loaded need
/// nothing. Whether the kernel has the functions is not checked here, since that means to read its list of some 50,000, which
/// takes longer than all the rest of a stage's start: if one is missing, libbpf fails, and then [`missing`] looks.
///
/// # Errors
/// The first thing that is missing.
pub fn check(object: &OpenObject) -> Result<()> {
    let loaded = object.progs().filter(|program| program.autoload());
    let needs = needs(loaded.filter_map(|program| Some(program.section().to_str()?.to_owned())));
    needs.iter().try_for_each(Need::check_quickly)?;
    remember(needs);
    Ok(())
}

fn remember(needs: impl IntoIterator<Item = Need>) {
    NEEDS.lock().unwrap_or_else(PoisonError::into_inner).extend(needs);
}

/// The first thing that the programs need and this kernel lacks, functions included. `None` if it lacks nothing, or does not
/// tell which functions it has.
pub(crate) fn missing() -> Option<Error> {
    let needs = NEEDS.lock().unwrap_or_else(PoisonError::into_inner);
    if needs.is_empty() {
        return None;
    }
    let mut functions = Some(Functions::read().ok().flatten());
    needs.iter().find_map(|need| need.check_with(&mut functions).err())
}

/// Of the programs that are not loaded unless asked for, those whose `SEC()` begins with `?fexit/` or `?fentry/`, loads the
/// first whose function this kernel has.
///
/// # Errors
/// If there are such programs, but no such function, or the kernel can't attach them to any.
pub fn load_first(object: &mut OpenObject) -> Result<()> {
    let function = |section: &OsStr| match Need::of(section.to_str()?) {
        Some(Need::Fentry(name) | Need::Fexit(name)) => Some(name),
        _ => None,
    };
    let optional = object.progs().filter(|program| !program.autoload());
    let names: Vec<_> = optional.filter_map(|program| function(program.section())).collect();
    if names.is_empty() {
        return Ok(());
    }
    kernel::direct_calls(ARCH, &release())?;
    let btf = Btf::from_vmlinux().or_cause("cannot read the kernel's types")?;
    let first = names.iter().find(|name| btf.type_by_name::<Func<'_>>(name.as_str()).is_some());
    let Some(first) = first else {
        let needs: Vec<_> = names.into_iter().map(Need::Fexit).collect();
        return one_of(&needs, Need::check);
    };
    for mut program in object.progs_mut() {
        if function(program.section()).as_ref() == Some(first) {
            program.set_autoload(true);
        }
    }
    remember([Need::Fexit(first.clone())]);
    Ok(())
}

/// What programs with these section names need, such as `kprobe/submit_bio`. Of those that begin with `?` one is needed.
/// An example without BPF programs names a tracer of ftrace in the same way: `tracer/function_graph`.
pub fn needs(sections: impl IntoIterator<Item = String>) -> Vec<Need> {
    let mut needs = vec![Need::Root, Need::Btf, Need::NoLockdown, Need::Tracefs];
    let mut alternatives = Vec::new();
    for section in sections {
        let (optional, section) = match section.strip_prefix('?') {
            Some(section) => (true, section),
            None => (false, &*section),
        };
        let Some(need) = Need::of(section) else { continue };
        if matches!(need, Need::Tracer(_)) {
            needs.retain(|need| *need != Need::Btf);
        }
        let list = if optional { &mut alternatives } else { &mut needs };
        if matches!(need, Need::Kprobe(_)) && !optional && !list.contains(&Need::Kprobes) {
            list.push(Need::Kprobes);
        }
        if !list.contains(&need) {
            list.push(need);
        }
    }
    match alternatives.len() {
        0 | 1 => needs.append(&mut alternatives),
        _ => needs.push(Need::OneOf(alternatives)),
    }
    needs
}

impl Need {
    /// What a program with this section name needs besides what all need, if anything.
    fn of(section: &str) -> Option<Self> {
        let (kind, name) = match section.split_once('/') {
            Some((kind, name)) => (kind, Some(name.to_owned())),
            None => (section, None),
        };
        // Those of programs that may sleep, and of raw tracepoints that may write.
        let kind = kind.strip_suffix(".s").or_else(|| kind.strip_suffix(".w")).unwrap_or(kind);
        match (kind, name) {
            ("kprobe" | "kretprobe", Some(name)) => Some(Self::Kprobe(name)),
            // The program itself says at which functions.
            ("kprobe" | "kretprobe", None) => Some(Self::Kprobes),
            ("kprobe.multi" | "kretprobe.multi", name) => Some(Self::KprobeMulti(name)),
            ("kprobe.session", name) => Some(Self::KprobeSession(name)),
            ("fentry", Some(name)) => Some(Self::Fentry(name)),
            ("fexit", Some(name)) => Some(Self::Fexit(name)),
            ("tp_btf" | "raw_tp" | "raw_tracepoint" | "tracepoint" | "tp", Some(name)) => {
                Some(Self::Tracepoint(name))
            }
            ("tracer", Some(name)) => Some(Self::Tracer(name)),
            _ => None,
        }
    }

    /// Looks whether this machine has it, for a run: it mounts tracefs if nobody has.
    ///
    /// # Errors
    /// If it has not: why, how we know, and what to do.
    pub fn check(&self) -> Result<()> {
        self.check_with(&mut None)
    }

    /// As [`Need::check`], but takes it that the kernel has all functions.
    fn check_quickly(&self) -> Result<()> {
        match self {
            Self::Kprobe(_) => Self::Kprobes.check(),
            Self::Fentry(_) | Self::Fexit(_) => kernel::direct_calls(ARCH, &release()),
            Self::KprobeMulti(_) | Self::KprobeSession(_) => Ok(()),
            Self::OneOf(needs) => one_of(needs, Self::check_quickly),
            _ => self.check(),
        }
    }

    /// Looks whether this machine has it, and changes nothing. `None` if that can't be known, because tracefs is not mounted.
    pub fn look(&self) -> Option<Result<()>> {
        match self {
            Self::Tracefs => Some(tracefs::look()),
            Self::Root | Self::Btf | Self::NoLockdown | Self::Kprobes => Some(self.check()),
            _ => tracefs::mounted().map(|_| self.check()),
        }
    }

    /// As [`Need::check`], with the kernel's functions, which are read when first needed.
    fn check_with(&self, functions: &mut Option<Option<Functions>>) -> Result<()> {
        match self {
            Self::Root => root(geteuid()),
            Self::Btf => btf(Path::new("/sys/kernel/btf/vmlinux")),
            Self::NoLockdown => no_lockdown(Path::new("/sys/kernel/security/lockdown")),
            Self::Tracefs => tracefs::path().map(drop),
            Self::Kprobes => kprobes(Path::new("/sys/bus/event_source/devices/kprobe/type")),
            Self::Kprobe(name) => {
                Self::Kprobes.check()?;
                with(functions, |all| function(Probe::Kprobe, name, all))
            }
            Self::KprobeMulti(name) => with(functions, |all| {
                has(all, self, "register_fprobe_ips", "5.18")?;
                name.as_ref().map_or(Ok(()), |name| function(Probe::Kprobe, name, all))
            }),
            Self::KprobeSession(name) => with(functions, |all| {
                has(all, self, "bpf_session_is_return", "6.10")?;
                name.as_ref().map_or(Ok(()), |name| function(Probe::Kprobe, name, all))
            }),
            Self::Fentry(name) => {
                kernel::direct_calls(ARCH, &release())?;
                with(functions, |all| function(Probe::Fentry, name, all))
            }
            Self::Fexit(name) => {
                kernel::direct_calls(ARCH, &release())?;
                with(functions, |all| function(Probe::Fexit, name, all))
            }
            Self::Tracepoint(name) => {
                let found = tracepoint(name, &tracefs::path()?.join("events"));
                // Some are for programs only: the kernel has the tracepoint, but no event of that name.
                let symbol = format!("__tracepoint_{name}");
                match found {
                    Err(_) if read(functions)?.is_some_and(|all| all.has_symbol(&symbol)) => Ok(()),
                    found => found,
                }
            }
            Self::Tracer(name) => tracer(name, &tracefs::path()?.join("available_tracers")),
            Self::OneOf(needs) => one_of(needs, |need| need.check_with(functions)),
        }
    }
}

/// The kernel's functions, read at the first call; `None` if it does not tell them.
fn read(functions: &mut Option<Option<Functions>>) -> Result<Option<&Functions>> {
    let functions = match functions {
        Some(functions) => functions,
        None => functions.insert(Functions::read()?),
    };
    Ok(functions.as_ref())
}

/// Looks at the kernel's functions, if it tells them.
fn with(
    functions: &mut Option<Option<Functions>>,
    look: impl FnOnce(&Functions) -> Result<()>,
) -> Result<()> {
    read(functions)?.map_or(Ok(()), look)
}

/// Whether one of several things is there. If none is, what became of each is the evidence.
fn one_of(needs: &[Need], mut check: impl FnMut(&Need) -> Result<()>) -> Result<()> {
    let mut missing: Vec<(&Need, Error)> = Vec::new();
    for need in needs {
        match check(need) {
            Ok(()) => return Ok(()),
            Err(error) => missing.push((need, error)),
        }
    }
    match missing.first() {
        // They are missing for the same reason.
        Some((_, first)) if missing.iter().all(|(_, error)| error == first) => Err(first.clone()),
        _ => {
            let fates: Vec<_> =
                missing.iter().map(|(need, error)| format!("{need}: {}", error.cause())).collect();
            Err(Error::new("this kernel has nothing to attach to for this")
                .evidence(format!("{}\n(kernel {})", fates.join("\n"), release()))
                .fix(format!("boot another kernel, or: {}", in_the_lab())))
        }
    }
}

fn root(user: Uid) -> Result<()> {
    if user.is_root() {
        return Ok(());
    }
    Err(Error::new("only root may trace the kernel")
        .evidence(format!("this runs as user id {user}"))
        .fix(format!("use sudo, or run it in the lab, which needs no root: {}", in_the_lab())))
}

fn btf(path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    Err(Error::new("this kernel does not tell its types (BTF)")
        .evidence(format!("{} is missing (kernel {})", path.display(), release()))
        .fix(format!(
            "boot a kernel built with CONFIG_DEBUG_INFO_BTF, as all large distributions do, or: {}",
            in_the_lab()
        )))
}

fn no_lockdown(path: &Path) -> Result<()> {
    let lockdown = fs::read_to_string(path).unwrap_or_default();
    if !lockdown.contains("[confidentiality]") {
        return Ok(());
    }
    Err(Error::new("this kernel is locked down: it allows no kprobes and hides tracefs")
        .evidence(format!("{}: {}", path.display(), lockdown.trim()))
        .fix(format!(
            "boot without lockdown=confidentiality (integrity is enough for us), or: {}",
            in_the_lab()
        )))
}

fn kprobes(path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    Err(Error::new("this kernel has no kprobes")
        .evidence(format!("{} is missing (kernel {})", path.display(), release()))
        .fix(format!("boot a kernel built with CONFIG_KPROBE_EVENTS, or: {}", in_the_lab())))
}

/// A kind of kernel feature that came with a version, known by a function that the kernel has since then.
fn has(functions: &Functions, need: &Need, symbol: &str, since: &str) -> Result<()> {
    if functions.has_symbol(symbol) {
        return Ok(());
    }
    let kind = need.to_string();
    let kind = kind.split(' ').next().unwrap_or_default();
    Err(Error::new(format!("this kernel has no {kind}"))
        .evidence(format!("{symbol} is not in /proc/kallsyms (kernel {})", release()))
        .fix(format!("boot Linux {since} or newer, built with CONFIG_FPROBE, or: {}", in_the_lab())))
}

/// How a program is attached to a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    Kprobe,
    Fentry,
    Fexit,
}

fn function(probe: Probe, name: &str, functions: &Functions) -> Result<()> {
    let list = "/sys/kernel/tracing/available_filter_functions";
    // `kprobe/NAME+OFFSET` is a kprobe too.
    let function = name.split('+').next().unwrap_or(name);
    if function.contains(['*', '?']) {
        // `kprobe.multi/PATTERN`: libbpf looks for what matches.
        return Ok(());
    }
    match functions.find(function) {
        Function::Attachable => Ok(()),
        Function::NotTraceable => Err(Error::new(format!("{function} cannot be probed on this kernel"))
            .evidence(format!("it is in /proc/kallsyms but not in {list} (kernel {})", release()))
            .fix(format!("probe a function that calls it: grep NAME {list}"))),
        Function::Absent { relatives } if relatives.is_empty() => {
            Err(Error::new(format!("this kernel has no function {function}"))
                .evidence(format!("it is neither in {list} nor in /proc/kallsyms (kernel {})", release()))
                .fix(format!(
                    "look whether it has another name here, by a part of this one: grep PART {list}"
                )))
        }
        Function::Absent { relatives } => {
            let part = &relatives[0];
            // fentry and fexit need the types of the arguments, which the kernel does not have for a part.
            let fix = match probe {
                Probe::Kprobe => format!("change the program's SEC() line to kprobe/{part}"),
                Probe::Fentry => format!("probe a part with a kprobe: SEC(\"kprobe/{part}\") and BPF_KPROBE"),
                Probe::Fexit => {
                    format!("probe a part with a kretprobe: SEC(\"kretprobe/{part}\") and BPF_KRETPROBE")
                }
            };
            Err(Error::new(format!("this kernel has no function {function}, only parts of it"))
                .evidence(format!("{list} has {} (kernel {})", relatives.join(", "), release()))
                .fix(fix))
        }
    }
}

fn tracepoint(name: &str, events: &Path) -> Result<()> {
    let mut groups = fs::read_dir(events).or_cause(format!("cannot list {}", events.display()))?.flatten();
    if events.join(name).is_dir() || groups.any(|group| group.path().join(name).is_dir()) {
        return Ok(());
    }
    let place = if name.contains('/') { name.to_owned() } else { format!("*/{name}") };
    Err(Error::new(format!("this kernel has no tracepoint {name}"))
        .evidence(format!("there is no {}/{place} (kernel {})", events.display(), release()))
        .fix(format!("look for another, by a part of the name: ls -d {}/*/*PART*", events.display())))
}

fn tracer(name: &str, list: &Path) -> Result<()> {
    let tracers = fs::read_to_string(list).or_cause(format!("cannot read {}", list.display()))?;
    if tracers.split_whitespace().any(|tracer| tracer == name) {
        return Ok(());
    }
    Err(Error::new(format!("this kernel has no tracer {name}"))
        .evidence(format!("{}: {} (kernel {})", list.display(), tracers.trim(), release()))
        .fix(format!(
            "boot a kernel built with CONFIG_{}_TRACER, as the large distributions do, or: {}",
            name.to_uppercase(),
            in_the_lab()
        )))
}

/// Which of the capabilities that tracing needs this process has, such as `CAP_SYS_ADMIN yes, CAP_BPF no`.
pub(crate) fn capabilities() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    // Numbers of the kernel's include/uapi/linux/capability.h.
    [("CAP_SYS_ADMIN", 21), ("CAP_PERFMON", 38), ("CAP_BPF", 39)]
        .map(|(name, bit)| format!("{name} {}", if mask >> bit & 1 == 1 { "yes" } else { "no" }))
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tell(result: Result<()>) -> String {
        result.unwrap_err().to_string().replace(&release(), "[release]")
    }

    #[test]
    fn each_missing_thing_is_one_error_with_cause_evidence_and_fix() {
        insta::assert_snapshot!(tell(root(Uid::from_raw(1000))), @r"
        only root may trace the kernel
          evidence: this runs as user id 1000
          fix:      use sudo, or run it in the lab, which needs no root: cargo lab run STAGE
        ");
        insta::assert_snapshot!(tell(btf(Path::new("/nowhere/vmlinux"))), @r"
        this kernel does not tell its types (BTF)
          evidence: /nowhere/vmlinux is missing (kernel [release])
          fix:      boot a kernel built with CONFIG_DEBUG_INFO_BTF, as all large distributions do, or: cargo lab run STAGE
        ");
        insta::assert_snapshot!(tell(kprobes(Path::new("/nowhere/type"))), @r"
        this kernel has no kprobes
          evidence: /nowhere/type is missing (kernel [release])
          fix:      boot a kernel built with CONFIG_KPROBE_EVENTS, or: cargo lab run STAGE
        ");
    }

    #[test]
    fn a_tracer_that_the_kernel_has_not_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("available_tracers");
        fs::write(&list, "function_graph nop\n").unwrap();
        assert_eq!(tracer("function_graph", &list), Ok(()));
        fs::write(&list, "blk function nop\n").unwrap();
        let told = tell(tracer("function_graph", &list));
        insta::assert_snapshot!(told.replace(folder.path().to_str().unwrap(), "[tracefs]"), @r"
        this kernel has no tracer function_graph
          evidence: [tracefs]/available_tracers: blk function nop (kernel [release])
          fix:      boot a kernel built with CONFIG_FUNCTION_GRAPH_TRACER, as the large distributions do, or: cargo lab run STAGE
        ");
    }

    #[test]
    fn a_tracepoint_is_in_one_of_the_groups() {
        let events = tempfile::tempdir().unwrap();
        fs::create_dir_all(events.path().join("block/block_rq_complete")).unwrap();
        assert_eq!(tracepoint("block_rq_complete", events.path()), Ok(()));
        assert_eq!(tracepoint("block/block_rq_complete", events.path()), Ok(()));
        assert!(tell(tracepoint("block/x", events.path())).contains("/block/x (kernel"));
        let told = tell(tracepoint("block_io_done", events.path()));
        insta::assert_snapshot!(told.replace(events.path().to_str().unwrap(), "[events]"), @r"
        this kernel has no tracepoint block_io_done
          evidence: there is no [events]/*/block_io_done (kernel [release])
          fix:      look for another, by a part of the name: ls -d [events]/*/*PART*
        ");
    }

    #[test]
    fn programs_need_what_their_sections_say() {
        let of = |sections: &[&str]| needs(sections.iter().map(|section| (*section).to_owned())).split_off(4);
        assert_eq!(
            of(&["kprobe/submit_bio", "kretprobe/vfs_read"]),
            [Need::Kprobes, Need::Kprobe("submit_bio".into()), Need::Kprobe("vfs_read".into())]
        );
        assert_eq!(
            of(&["fentry/bio_endio", "fexit/vfs_read", "fentry.s/vfs_open"]),
            [
                Need::Fentry("bio_endio".into()),
                Need::Fexit("vfs_read".into()),
                Need::Fentry("vfs_open".into())
            ]
        );
        for section in
            ["tp_btf/block_rq_complete", "raw_tp/block_rq_complete", "raw_tracepoint.w/block_rq_complete"]
        {
            assert_eq!(of(&[section]), [Need::Tracepoint("block_rq_complete".into())], "{section}");
        }
        assert_eq!(
            of(&["kprobe.multi/ext4_*", "kretprobe.multi/ext4_*", "kprobe.session/vfs_read"]),
            [Need::KprobeMulti(Some("ext4_*".into())), Need::KprobeSession(Some("vfs_read".into()))]
        );
        // Without a name, the program itself says where it attaches, or runs when user space asks it to.
        assert_eq!(of(&["raw_tp", "fentry", "license"]), []);
        assert_eq!(of(&["kprobe", "kprobe.multi"]), [Need::Kprobes, Need::KprobeMulti(None)]);
        let tracer = Need::Tracer("function_graph".into());
        assert_eq!(
            needs(["tracer/function_graph".to_owned()]),
            [Need::Root, Need::NoLockdown, Need::Tracefs, tracer]
        );
    }

    #[test]
    fn of_optional_programs_one_is_needed() {
        let of = |sections: &[&str]| needs(sections.iter().map(|section| (*section).to_owned())).split_off(4);
        let shown = |sections: &[&str]| of(sections).iter().map(Need::to_string).collect::<Vec<_>>();
        assert_eq!(
            of(&["?fexit/filemap_read", "?fexit/generic_file_buffered_read", "tracepoint/filemap/x"]),
            [
                Need::Tracepoint("filemap/x".into()),
                Need::OneOf(vec![
                    Need::Fexit("filemap_read".into()),
                    Need::Fexit("generic_file_buffered_read".into())
                ])
            ]
        );
        assert_eq!(
            shown(&["?tp_btf/block_io_start", "?kprobe/blk_mq_start_request"]),
            ["tracepoint block_io_start or kprobe blk_mq_start_request"]
        );
        assert_eq!(shown(&["?fexit/vfs_read", "?kretprobe/vfs_read"]), ["fexit vfs_read or kprobe vfs_read"]);
        assert_eq!(
            shown(&["?kprobe.multi", "?kretprobe.multi", "?kprobe", "?kretprobe", "fentry/submit_bio"]),
            ["fentry submit_bio", "kprobe.multi or kprobes"]
        );
        assert_eq!(of(&["?fentry/submit_bio"]), [Need::Fentry("submit_bio".into())]);
    }

    #[test]
    fn what_became_of_each_alternative_is_told() {
        let needs = [Need::Fexit("vfs_read".into()), Need::Kprobe("vfs_read".into())];
        assert_eq!(
            one_of(&needs, |need| if *need == needs[1] { Ok(()) } else { Err(Error::new("no")) }),
            Ok(())
        );
        let told = tell(one_of(&needs, |need| Err(Error::new(format!("there is no {need}")))));
        insta::assert_snapshot!(told, @r"
        this kernel has nothing to attach to for this
          evidence: fexit vfs_read: there is no fexit vfs_read
                    kprobe vfs_read: there is no kprobe vfs_read
                    (kernel [release])
          fix:      boot another kernel, or: cargo lab run STAGE
        ");
        let same = || kernel::direct_calls("aarch64", "6.1.0");
        assert_eq!(one_of(&needs, |_| same()), same(), "one reason is told once");
    }
}
