//! Looks before a stage leaps: each thing that is missing is one error with cause, evidence and fix, instead of an
//! error number from deep inside.

use std::fmt;
use std::fs;
use std::path::Path;

use libbpf_rs::OpenObject;
use nix::unistd::{Uid, geteuid};

use crate::lab::in_the_lab;
use crate::probe::{Function, Functions};
use crate::{Error, OrCause, Result, tracefs};

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
    /// One of these functions, and that it can be probed, for fentry and fexit.
    Fexit(Vec<String>),
    /// This tracepoint, with or without the group it is in.
    Tracepoint(String),
    /// This tracer of ftrace.
    Tracer(String),
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("root"),
            Self::Btf => f.write_str("the kernel's types (BTF)"),
            Self::NoLockdown => f.write_str("no kernel lockdown of confidentiality"),
            Self::Tracefs => f.write_str("tracefs"),
            Self::Kprobes => f.write_str("kprobes"),
            Self::Kprobe(function) => write!(f, "kprobe {function}"),
            Self::Fexit(functions) => write!(f, "fexit {}", functions.join(" or ")),
            Self::Tracepoint(name) => write!(f, "tracepoint {name}"),
            Self::Tracer(name) => write!(f, "tracer {name}"),
        }
    }
}

/// Checks all that the programs of an opened object need, before anything is loaded.
///
/// # Errors
/// The first thing that is missing.
pub fn check(object: &OpenObject) -> Result<()> {
    let sections = object.progs().filter_map(|program| {
        // libbpf takes the ? away.
        let mark = if program.autoload() { "" } else { "?" };
        Some(format!("{mark}{}", program.section().to_str()?))
    });
    let mut functions = None;
    needs(sections).iter().try_for_each(|need| need.check_with(&mut functions))
}

/// What programs with these section names need, such as `kprobe/submit_bio`. Of those that begin with `?` one is needed.
/// An example without BPF programs names a tracer of ftrace in the same way: `tracer/function_graph`.
pub fn needs(sections: impl IntoIterator<Item = String>) -> Vec<Need> {
    let mut needs = vec![Need::Root, Need::Btf, Need::NoLockdown, Need::Tracefs];
    let mut alternatives = Vec::new();
    for section in sections {
        let Some((kind, name)) = section.split_once('/') else { continue };
        let name = name.to_owned();
        match kind {
            "kprobe" | "kretprobe" => {
                if !needs.contains(&Need::Kprobes) {
                    needs.push(Need::Kprobes);
                }
                needs.push(Need::Kprobe(name));
            }
            "fentry" | "fexit" => needs.push(Need::Fexit(vec![name])),
            "tp_btf" | "tracepoint" | "tp" => needs.push(Need::Tracepoint(name)),
            "?fentry" | "?fexit" => alternatives.push(name),
            "tracer" => {
                needs.retain(|need| *need != Need::Btf);
                needs.push(Need::Tracer(name));
            }
            _ => {}
        }
    }
    needs.extend((!alternatives.is_empty()).then_some(Need::Fexit(alternatives)));
    needs
}

impl Need {
    /// Looks whether this machine has it.
    ///
    /// # Errors
    /// If it has not: why, how we know, and what to do.
    pub fn check(&self) -> Result<()> {
        self.check_with(&mut None)
    }

    /// As [`Need::check`], with the kernel's functions, which are read when first needed.
    fn check_with(&self, functions: &mut Option<Option<Functions>>) -> Result<()> {
        match self {
            Self::Root => root(geteuid()),
            Self::Btf => btf(Path::new("/sys/kernel/btf/vmlinux")),
            Self::NoLockdown => no_lockdown(Path::new("/sys/kernel/security/lockdown")),
            Self::Tracefs => tracefs::path().map(drop),
            Self::Kprobes => kprobes(Path::new("/sys/bus/event_source/devices/kprobe/type")),
            Self::Kprobe(function) => read(functions)?.map_or(Ok(()), |all| kprobe(function, all)),
            Self::Fexit(names) => read(functions)?.map_or(Ok(()), |all| {
                let names: Vec<_> = names.iter().map(String::as_str).collect();
                all.first_attachable(&names).map(drop)
            }),
            Self::Tracepoint(name) => tracepoint(name, &tracefs::path()?.join("events")),
            Self::Tracer(name) => tracer(name, &tracefs::path()?.join("available_tracers")),
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

fn kprobe(name: &str, functions: &Functions) -> Result<()> {
    let list = "/sys/kernel/tracing/available_filter_functions";
    // `kprobe/NAME+OFFSET` is a kprobe too.
    let function = name.split('+').next().unwrap_or(name);
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
            Err(Error::new(format!("this kernel has no function {function}, only parts of it"))
                .evidence(format!("{list} has {} (kernel {})", relatives.join(", "), release()))
                .fix(format!("change the program's SEC() line to kprobe/{}", relatives[0])))
        }
    }
}

/// The running kernel's release, as `uname -r` prints it.
pub fn release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
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

    /// With the types of a kernel before that change and after it, as clang writes them.
    #[test]
    fn programs_need_what_their_sections_say() {
        let of = |sections: &[&str]| needs(sections.iter().map(|section| (*section).to_owned()));
        assert_eq!(
            of(&["kprobe/submit_bio", "kretprobe/vfs_read"])[4..],
            [Need::Kprobes, Need::Kprobe("submit_bio".into()), Need::Kprobe("vfs_read".into())]
        );
        assert_eq!(
            of(&["?fexit/filemap_read", "?fexit/generic_file_buffered_read", "tracepoint/filemap/x"])[4..],
            [
                Need::Tracepoint("filemap/x".into()),
                Need::Fexit(vec!["filemap_read".into(), "generic_file_buffered_read".into()])
            ]
        );
        assert_eq!(of(&["tp_btf/block_rq_complete"])[4..], [Need::Tracepoint("block_rq_complete".into())]);
        let tracer = Need::Tracer("function_graph".into());
        assert_eq!(of(&["tracer/function_graph"]), [Need::Root, Need::NoLockdown, Need::Tracefs, tracer]);
    }
}
