//! Checks what a stage needs before it starts. Anything missing is one error with cause, evidence and fix, instead of
//! an error number from deep inside the kernel.

use std::env::consts::ARCH;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, FuncProto, Typedef};
use libbpf_rs::{OpenObject, OpenProgram};
use nix::unistd::{Uid, geteuid};

pub use crate::kernel_types::first_argument;
use crate::lab::in_the_lab;
use crate::probe::{Function, Functions, has_symbol, older_name};
use crate::{Error, OrCause, Result, kernel, section, tracefs};

pub use crate::kernel::release;

/// Something that a stage needs on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// Root, or a user with `CAP_BPF` and `CAP_PERFMON`.
    Root,
    /// The kernel's types, `/sys/kernel/btf/vmlinux`. CO-RE uses them to adjust the program's field accesses to this
    /// kernel.
    Btf,
    /// A kernel that is not locked down to `confidentiality`, which forbids kprobes and hides tracefs.
    NoLockdown,
    /// The file system that holds the trace pipe.
    Tracefs,
    /// `CONFIG_KPROBES`.
    Kprobes,
    /// This function, where we can put a kprobe.
    Kprobe(String),
    /// `kprobe.multi`, one link with many kprobes; and this function.
    KprobeMulti(Option<String>),
    /// `kprobe.session`, the same with one program for entry and return; and this function.
    KprobeSession(Option<String>),
    /// This function, where a program can attach to the entry.
    Fentry(String),
    /// This function, where a program can attach to the return.
    Fexit(String),
    /// `fsession`, one program for entry and return like fentry and fexit together; and this function.
    Fsession(String),
    /// This tracepoint, with or without its group.
    Tracepoint(String),
    /// This ftrace tracer.
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
            Self::Fsession(function) => write!(f, "fsession {function}"),
            Self::Tracepoint(name) => write!(f, "tracepoint {name}"),
            Self::Tracer(name) => write!(f, "tracer {name}"),
            Self::OneOf(needs) => {
                f.write_str(&needs.iter().map(Self::to_string).collect::<Vec<_>>().join(" or "))
            }
        }
    }
}

/// What the run's programs need. [`check`] fills it, [`missing`] reads it.
static NEEDS: Mutex<Vec<Need>> = Mutex::new(Vec::new());

/// The sections of the object that [`check`] was asked about. A file with several tools has more objects.
pub(crate) static SECTIONS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Checks what the programs of an opened object need, before we load anything. It skips programs that will not be
/// loaded.
///
/// It doesn't check whether the kernel has the functions. For that we would have to read a list of some 50,000
/// functions, which takes longer than all the rest of a stage's start. If one is missing, libbpf fails, and then
/// [`missing`] finds out.
///
/// # Errors
/// Returns an error for the first thing that is missing.
pub fn check(object: &OpenObject) -> Result<()> {
    let section = |program: OpenProgram<'_>| Some(program.section().to_str()?.to_owned());
    let all: Vec<_> = object.progs().filter_map(section).collect();
    *SECTIONS.lock().unwrap_or_else(PoisonError::into_inner) = all;
    let loaded = object.progs().filter(|program| program.autoload());
    let sections: Vec<_> = loaded.filter_map(section).collect();
    sections.iter().try_for_each(|name| section::check(name))?;
    let needs = needs(sections);
    needs.iter().try_for_each(Need::check_quickly)?;
    remember(needs);
    Ok(())
}

fn remember(needs: impl IntoIterator<Item = Need>) {
    NEEDS.lock().unwrap_or_else(PoisonError::into_inner).extend(needs);
}

/// Checks that fentry and fexit programs can attach on this kernel at all, for programs that attach them without a fixed
/// function.
pub fn fentry_can_attach() -> Result<()> {
    kernel::direct_calls(ARCH, &release())
}

/// The first thing that the programs need and this kernel lacks, functions included. `None` if nothing is missing.
pub(crate) fn missing() -> Option<Error> {
    let needs = NEEDS.lock().unwrap_or_else(PoisonError::into_inner);
    if needs.is_empty() {
        return None;
    }
    needs.iter().find_map(|need| need.check().err())
}

/// Whether this kernel runs a `kprobe.session` program at every call of its function.
///
/// Linux 6.10 has them, but until 6.13 it can follow only a few calls at a time. Linux 7.0 gave their functions an
/// argument, and our programs are compiled for that.
pub(crate) fn runs_sessions() -> Result<bool> {
    let btf = kernel_types()?;
    let is_return = btf.type_by_name::<Func<'_>>("bpf_session_is_return").and_then(|found| found.next_type());
    let has_argument =
        is_return.map(FuncProto::try_from).is_some_and(|proto| proto.is_ok_and(|proto| proto.len() == 1));
    Ok(has_argument && btf.type_by_name::<Func<'_>>("register_fprobe_ips").is_some())
}

/// The name that a function of today's kernel has on this one.
pub(crate) fn name_here(function: &str) -> Result<String> {
    let btf = kernel_types()?;
    let exists = |name: &&str| btf.type_by_name::<Func<'_>>(name).is_some();
    Ok([function].into_iter().chain(older_name(function)).find(exists).unwrap_or(function).to_owned())
}

pub(crate) fn kernel_types() -> Result<Btf<'static>> {
    Btf::from_vmlinux().or_cause("cannot read the kernel's types")
}

/// What programs with these section names need, such as `kprobe/submit_bio`. Programs whose names begin with `?` are
/// alternatives, so one of their needs is enough. An example without BPF programs names an ftrace tracer in the same
/// way: `tracer/function_graph`.
pub fn needs(sections: impl IntoIterator<Item = String>) -> Vec<Need> {
    let mut needs = vec![Need::Root, Need::Btf, Need::NoLockdown];
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
        if need.is_in_tracefs() && !needs.contains(&Need::Tracefs) {
            needs.push(Need::Tracefs);
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
    /// What a program with this section name needs in addition to what all programs need.
    fn of(section: &str) -> Option<Self> {
        let (kind, name) = match section.split_once('/') {
            Some((kind, name)) => (kind, Some(name.to_owned())),
            None => (section, None),
        };
        // `.s` marks a program that may sleep, `.w` a raw tracepoint that may write.
        let kind = kind.strip_suffix(".s").or_else(|| kind.strip_suffix(".w")).unwrap_or(kind);
        match (kind, name) {
            ("kprobe" | "kretprobe", Some(name)) => Some(Self::Kprobe(name)),
            // User space chooses the functions.
            ("kprobe" | "kretprobe", None) => Some(Self::Kprobes),
            ("kprobe.multi" | "kretprobe.multi", name) => Some(Self::KprobeMulti(name)),
            ("kprobe.session", name) => Some(Self::KprobeSession(name)),
            ("fentry", Some(name)) => Some(Self::Fentry(name)),
            ("fexit", Some(name)) => Some(Self::Fexit(name)),
            ("fsession", Some(name)) => Some(Self::Fsession(name)),
            ("tp_btf" | "raw_tp" | "raw_tracepoint" | "tracepoint" | "tp", Some(name)) => {
                Some(Self::Tracepoint(name))
            }
            ("tracer", Some(name)) => Some(Self::Tracer(name)),
            _ => None,
        }
    }

    /// Whether libbpf or the program itself reads a file of tracefs for it. A tracepoint with its group is an event there,
    /// and one without is a type in BTF.
    fn is_in_tracefs(&self) -> bool {
        match self {
            Self::Tracefs | Self::Tracer(_) => true,
            Self::Tracepoint(name) => name.contains('/'),
            _ => false,
        }
    }

    /// Checks whether this machine has it, and mounts tracefs if nobody has.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Root => {
                no_user_namespace(&uid_map())?;
                root(geteuid(), &effective())
            }
            Self::Btf => btf(Path::new("/sys/kernel/btf/vmlinux")),
            Self::NoLockdown => no_lockdown(Path::new("/sys/kernel/security/lockdown")),
            Self::Tracefs => tracefs::path().and_then(|path| tracefs::may_read(&path)),
            Self::Kprobes => kprobes(Path::new("/sys/bus/event_source/devices/kprobe/type")),
            Self::Kprobe(name) => {
                Self::Kprobes.check()?;
                with(|all| function(Probe::Kprobe, name, all))
            }
            Self::KprobeMulti(name) => {
                has(self, "register_fprobe_ips", "5.18 or newer, built with CONFIG_FPROBE")?;
                name.as_ref().map_or(Ok(()), |name| with(|all| function(Probe::Kprobe, name, all)))
            }
            Self::KprobeSession(name) => {
                has(self, "register_fprobe_ips", "6.10 or newer, built with CONFIG_FPROBE")?;
                has(self, "bpf_session_is_return", "6.10 or newer, built with CONFIG_FPROBE")?;
                name.as_ref().map_or(Ok(()), |name| with(|all| function(Probe::Kprobe, name, all)))
            }
            Self::Fentry(name) => {
                fentry_can_attach()?;
                with(|all| function(Probe::Fentry, name, all))
            }
            Self::Fexit(name) => {
                fentry_can_attach()?;
                with(|all| function(Probe::Fexit, name, all))
            }
            Self::Fsession(name) => {
                has(self, "bpf_jit_supports_fsession", "7.0 or newer")?;
                with(|all| function(Probe::Fentry, name, all))
            }
            Self::Tracepoint(name) if has_type_of(name)? => arguments(name),
            Self::Tracepoint(name) => tracepoint(name, &tracefs::path()?.join("events")),
            Self::Tracer(name) => tracer(name, &tracefs::path()?.join("available_tracers")),
            Self::OneOf(needs) => one_of(needs, Self::check),
        }
    }

    /// Like [`Need::check`], but assumes that the kernel has all functions.
    fn check_quickly(&self) -> Result<()> {
        match self {
            Self::Kprobe(_) => Self::Kprobes.check(),
            Self::Fentry(_) | Self::Fexit(_) => fentry_can_attach(),
            Self::KprobeMulti(_) | Self::KprobeSession(_) | Self::Fsession(_) => Ok(()),
            Self::Tracepoint(name) if !self.is_in_tracefs() => arguments(name),
            Self::OneOf(needs) => one_of(needs, Self::check_quickly),
            _ => self.check(),
        }
    }

    /// Checks whether this machine has it, and changes nothing. `None` if this user can't know, because tracefs is not
    /// mounted or can't be read.
    pub fn look(&self) -> Option<Result<()>> {
        let is_readable = || tracefs::mounted().is_some_and(|path| tracefs::may_read(&path).is_ok());
        match self {
            Self::Tracefs => {
                Some(tracefs::mounted().map_or_else(tracefs::look, |path| tracefs::may_read(&path)))
            }
            Self::Root | Self::Btf | Self::NoLockdown | Self::Kprobes => Some(self.check()),
            // /proc/kallsyms tells that to everybody.
            Self::KprobeMulti(None) | Self::KprobeSession(None) => Some(self.check()),
            Self::Tracepoint(name) if has_type_of(name).is_ok_and(|has| has) => Some(self.check()),
            _ => is_readable().then(|| self.check()),
        }
    }
}

/// Whether the kernel's types have a tracepoint, named without its group. Those of modules are elsewhere.
fn has_type_of(tracepoint: &str) -> Result<bool> {
    Ok(!tracepoint.contains('/')
        && kernel_types()?.type_by_name::<Typedef<'_>>(&format!("btf_trace_{tracepoint}")).is_some())
}

/// Checks that a tracepoint has the arguments that the workbook's programs expect. Until Linux 5.11 and 5.10.137, the first
/// one of `block_rq_issue` was the queue (commit a54895fa057c). libbpf would load a program that takes it for the request.
fn arguments(tracepoint: &str) -> Result<()> {
    if tracepoint != "block_rq_issue" || kernel::version(&release()) >= (5, 11) {
        return Ok(());
    }
    first_is_request(first_argument(tracepoint)?)
}

fn first_is_request(first: Option<String>) -> Result<()> {
    match first {
        Some(first) if first != "request" => {
            Err(Error::new("block_rq_issue has other arguments on this kernel")
                .evidence(format!("the first one is a struct {first} (kernel {})", release()))
                .fix(format!("boot Linux 5.11 or newer, or 5.10.137 or newer of 5.10, or: {}", in_the_lab())))
        }
        _ => Ok(()),
    }
}

/// Looks at the kernel's functions, if we can read their list.
fn with(look: impl FnOnce(&Functions) -> Result<()>) -> Result<()> {
    Functions::here().map_or(Ok(()), look)
}

/// Checks that this machine has at least one of several things. If not, the evidence lists the cause for each.
fn one_of(needs: &[Need], mut check: impl FnMut(&Need) -> Result<()>) -> Result<()> {
    let mut missing: Vec<(&Need, Error)> = Vec::new();
    for need in needs {
        match check(need) {
            Ok(()) => return Ok(()),
            Err(error) => missing.push((need, error)),
        }
    }
    match missing.first() {
        // All are missing for the same reason.
        Some((_, first)) if missing.iter().all(|(_, error)| error == first) => Err(first.clone()),
        _ => {
            let fates: Vec<_> =
                missing.iter().map(|(need, error)| format!("{need}: {}", error.cause())).collect();
            Err(Error::new("this kernel has none of the probe points that this program can use")
                .evidence(format!("{}\n(kernel {})", fates.join("\n"), release()))
                .fix(format!("boot another kernel, or: {}", in_the_lab())))
        }
    }
}

fn root(user: Uid, effective: &[(&'static str, bool)]) -> Result<()> {
    let has = |name| effective.contains(&(name, true));
    let missing: Vec<_> = ["CAP_BPF", "CAP_PERFMON"].into_iter().filter(|name| !has(name)).collect();
    if user.is_root() || has("CAP_SYS_ADMIN") || missing.is_empty() {
        return Ok(());
    }
    let without = match effective.iter().any(|(_, is_set)| *is_set) {
        true => format!(", without {}", missing.join(", ")),
        false => String::new(),
    };
    Err(Error::new("only root may trace the kernel")
        .evidence(format!("this runs as user id {user}{without}"))
        .fix(format!("use sudo, or run it in the lab, which needs no root: {}", in_the_lab())))
}

/// Whether user IDs, and so capabilities, are those of the machine.
fn is_initial(uid_map: &str) -> bool {
    uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn no_user_namespace(uid_map: &str) -> Result<()> {
    // A kernel without user namespaces doesn't have the file.
    if uid_map.is_empty() || is_initial(uid_map) {
        return Ok(());
    }
    let ids = uid_map.split_whitespace().collect::<Vec<_>>().join(" ");
    Err(Error::new("root of a user namespace may not trace the kernel")
        .evidence(format!("/proc/self/uid_map: {ids}; capabilities in such a namespace don't count"))
        .fix(format!("run it as root outside of the rootless container, or in the lab: {}", in_the_lab())))
}

fn btf(path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    Err(Error::new("this kernel has no type information (BTF)")
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

/// Checks for a feature of the Linux `since`, such as `7.0 or newer`, by a function that only such a kernel has.
fn has(need: &Need, symbol: &str, since: &str) -> Result<()> {
    if has_symbol(symbol) {
        return Ok(());
    }
    let kind = need.to_string();
    let kind = kind.split(' ').next().unwrap_or_default();
    Err(Error::new(format!("this kernel has no {kind}"))
        .evidence(format!("{symbol} is not in /proc/kallsyms (kernel {})", release()))
        .fix(format!("boot Linux {since}, or: {}", in_the_lab())))
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
    // `adapt` attaches these to the older name.
    let older = older_name(function).filter(|_| probe != Probe::Kprobe);
    let older = older.filter(|older| functions.find(older) == Function::Attachable);
    match functions.find(older.unwrap_or(function)) {
        Function::Attachable => Ok(()),
        Function::NotTraceable => Err(Error::new(format!("{function} cannot be probed on this kernel"))
            .evidence(format!("it is in /proc/kallsyms but not in {list} (kernel {})", release()))
            .fix(format!("probe a function that calls it: grep NAME {list}"))),
        Function::Absent { relatives } if relatives.is_empty() => {
            Err(Error::new(format!("this kernel has no function {function}"))
                .evidence(format!("it is neither in {list} nor in /proc/kallsyms (kernel {})", release()))
                .fix(format!("search for its new name by a part of the old one: grep PART {list}")))
        }
        Function::Absent { relatives } => {
            let part = &relatives[0];
            // fentry and fexit need the types of the arguments, and BTF doesn't have them for a part.
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
        .fix(format!("search for another one by a part of the name: ls -d {}/*/*PART*", events.display())))
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

/// The capabilities for BPF, and whether this process has them, such as `CAP_SYS_ADMIN yes, CAP_PERFMON no`.
pub fn capabilities() -> String {
    effective().map(|(name, is_set)| format!("{name} {}", if is_set { "yes" } else { "no" })).join(", ")
}

/// Whether this process may do everything with BPF: it has `CAP_SYS_ADMIN` on this machine, and not only in a container's
/// user namespace.
pub(crate) fn may_trace() -> bool {
    is_initial(&uid_map()) && effective()[0].1
}

fn uid_map() -> String {
    fs::read_to_string("/proc/self/uid_map").unwrap_or_default()
}

/// The capabilities for BPF, and which this process has.
fn effective() -> [(&'static str, bool); 3] {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    // The numbers are from the kernel's include/uapi/linux/capability.h.
    [("CAP_SYS_ADMIN", 21), ("CAP_PERFMON", 38), ("CAP_BPF", 39)]
        .map(|(name, bit)| (name, mask >> bit & 1 == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_text(result: Result<()>) -> String {
        result.unwrap_err().to_string().replace(&release(), "[release]")
    }

    #[test]
    fn each_missing_thing_is_one_error_with_cause_evidence_and_fix() {
        insta::assert_snapshot!(error_text(root(Uid::from_raw(1000), &[("CAP_BPF", false)])), @r"
        only root may trace the kernel
          evidence: this runs as user id 1000
          fix:      use sudo, or run it in the lab, which needs no root: cargo lab run STAGE
        ");
        insta::assert_snapshot!(error_text(no_user_namespace("         0       1000          1\n")), @r"
        root of a user namespace may not trace the kernel
          evidence: /proc/self/uid_map: 0 1000 1; capabilities in such a namespace don't count
          fix:      run it as root outside of the rootless container, or in the lab: cargo lab run STAGE
        ");
        insta::assert_snapshot!(error_text(btf(Path::new("/nowhere/vmlinux"))), @r"
        this kernel has no type information (BTF)
          evidence: /nowhere/vmlinux is missing (kernel [release])
          fix:      boot a kernel built with CONFIG_DEBUG_INFO_BTF, as all large distributions do, or: cargo lab run STAGE
        ");
        insta::assert_snapshot!(error_text(kprobes(Path::new("/nowhere/type"))), @r"
        this kernel has no kprobes
          evidence: /nowhere/type is missing (kernel [release])
          fix:      boot a kernel built with CONFIG_KPROBE_EVENTS, or: cargo lab run STAGE
        ");
    }

    #[test]
    fn a_tracer_that_the_kernel_lacks_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("available_tracers");
        fs::write(&list, "function_graph nop\n").unwrap();
        assert_eq!(tracer("function_graph", &list), Ok(()));
        fs::write(&list, "blk function nop\n").unwrap();
        let error = error_text(tracer("function_graph", &list));
        insta::assert_snapshot!(error.replace(folder.path().to_str().unwrap(), "[tracefs]"), @r"
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
        assert!(error_text(tracepoint("block/x", events.path())).contains("/block/x (kernel"));
        let error = error_text(tracepoint("block_io_done", events.path()));
        insta::assert_snapshot!(error.replace(events.path().to_str().unwrap(), "[events]"), @r"
        this kernel has no tracepoint block_io_done
          evidence: there is no [events]/*/block_io_done (kernel [release])
          fix:      search for another one by a part of the name: ls -d [events]/*/*PART*
        ");
    }

    #[test]
    fn programs_need_what_their_sections_say() {
        let of = |sections: &[&str]| needs(sections.iter().map(|section| (*section).to_owned())).split_off(3);
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
        assert_eq!(of(&["fsession/vfs_read"]), [Need::Fsession("vfs_read".into())]);
        // If the section has no name, user space chooses where to attach the program, or runs it.
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
        let of = |sections: &[&str]| needs(sections.iter().map(|section| (*section).to_owned())).split_off(3);
        let shown = |sections: &[&str]| of(sections).iter().map(Need::to_string).collect::<Vec<_>>();
        assert_eq!(
            of(&["?kprobe.session/filemap_read", "?fexit/filemap_read", "tracepoint/filemap/x"]),
            [
                Need::Tracefs,
                Need::Tracepoint("filemap/x".into()),
                Need::OneOf(vec![
                    Need::KprobeSession(Some("filemap_read".into())),
                    Need::Fexit("filemap_read".into())
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
    fn the_evidence_lists_why_each_alternative_fails() {
        let needs = [Need::Fexit("vfs_read".into()), Need::Kprobe("vfs_read".into())];
        assert_eq!(
            one_of(&needs, |need| if *need == needs[1] { Ok(()) } else { Err(Error::new("no")) }),
            Ok(())
        );
        let error = error_text(one_of(&needs, |need| Err(Error::new(format!("there is no {need}")))));
        insta::assert_snapshot!(error, @r"
        this kernel has none of the probe points that this program can use
          evidence: fexit vfs_read: there is no fexit vfs_read
                    kprobe vfs_read: there is no kprobe vfs_read
                    (kernel [release])
          fix:      boot another kernel, or: cargo lab run STAGE
        ");
        let same = || kernel::direct_calls("aarch64", "6.1.0");
        assert_eq!(one_of(&needs, |_| same()), same(), "the same reason appears once");
    }

    #[test]
    fn a_tracepoint_with_other_arguments_is_an_error() {
        let of = |first: &str| first_is_request(Some(first.to_owned()));
        assert_eq!(of("request"), Ok(()));
        let error = of("request_queue").unwrap_err().to_string();
        assert!(
            error.contains("the first one is a struct request_queue") && error.contains("5.10.137"),
            "{error}"
        );
    }
}
