//! `blkbook doctor`: what this machine has for each tool, and its disks.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use common::preflight::{self, Need};
use common::{Error, Result, report};
use toolkit::disks::{self, Disk};

use crate::Tool;
use crate::tools::TOOLS;

/// What we found of something: `None` if this user can't know.
type Found = Option<std::result::Result<(), Error>>;

/// Prints what this machine has and lacks. The exit status is 1 if a tool can't run.
pub fn run(with_report: bool) -> Result<ExitCode> {
    let mut known = HashMap::new();
    let mut look = |need: Need| known.entry(need.to_string()).or_insert_with(|| need.look()).clone();
    let machine =
        [Need::Root, Need::NoLockdown, Need::Btf, Need::Tracefs].map(|need| (need.to_string(), look(need)));
    let features = [
        ("kprobe", look(Need::Kprobes)),
        ("fentry and fexit", Some(preflight::fentry_can_attach())),
        ("kprobe.multi", look(Need::KprobeMulti(None))),
        ("kprobe.session", look(Need::KprobeSession(None))),
        ("control groups, version 2", Some(cgroups())),
    ];
    let tools: Vec<_> = TOOLS.iter().map(|tool| (tool.name.to_owned(), missing(tool, &mut look))).collect();

    let mut said = HashSet::new();
    let mut text = format!(
        "Linux {} on {}; {}\n\nThis machine:\n",
        preflight::release(),
        std::env::consts::ARCH,
        preflight::capabilities()
    );
    machine.iter().for_each(|(name, found)| text += &line(name, found, "MISSING", &mut said));
    // A kernel without one of these has other ways to do the same.
    text += "\nThe ways to attach a program, and what biowhere's --cgroup needs:\n";
    features.iter().for_each(|(name, found)| text += &line(name, found, "no", &mut said));
    text += "\nThe tools, on this kernel:\n";
    tools.iter().for_each(|(name, found)| text += &line(name, found, "MISSING", &mut said));
    let _ =
        write!(text, "\nThe disks:\n{}", disks(disks::all().iter().filter(|disk| has_blocks(&disk.name))));
    if with_report {
        let _ = write!(text, "\n{}", details());
    }
    report::print_text(text.trim_end())?;
    let works = |(_, found): &(String, Found)| !matches!(found, Some(Err(_)));
    let all_work = machine.iter().chain(&tools).all(works);
    Ok(if all_work { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The first thing that this kernel lacks for a tool, besides what all tools need.
fn missing(tool: &Tool, look: &mut impl FnMut(Need) -> Found) -> Found {
    let needs = preflight::needs(tool.sections.iter().map(|section| (*section).to_owned()));
    let of_all = [Need::Root, Need::NoLockdown, Need::Btf, Need::Tracefs];
    let mut found: Vec<_> = needs.into_iter().filter(|need| !of_all.contains(need)).map(look).collect();
    // First what is missing, then what nobody knows.
    found.sort_by_key(|found| match found {
        Some(Err(_)) => 0,
        None => 1,
        Some(Ok(())) => 2,
    });
    found.into_iter().next().unwrap_or(Some(Ok(())))
}

fn cgroups() -> std::result::Result<(), Error> {
    let file = Path::new("/sys/fs/cgroup/cgroup.controllers");
    if file.exists() {
        return Ok(());
    }
    Err(Error::new("there is no hierarchy of control groups of version 2")
        .evidence(format!("{} is missing", file.display()))
        .fix("boot with systemd.unified_cgroup_hierarchy=1, or leave out --cgroup"))
}

/// One line for what is there. For what is not, the cause, and the first time also the evidence and the fix.
fn line(name: &str, found: &Found, lacks: &str, said: &mut HashSet<String>) -> String {
    match found {
        Some(Ok(())) => format!("  ok       {name}\n"),
        Some(Err(error)) => {
            let whole = error.to_string();
            let text = if said.insert(whole.clone()) {
                whole.replace('\n', "\n         ")
            } else {
                error.cause().to_owned()
            };
            format!("  {lacks:<8} {name}: {text}\n")
        }
        None => format!("  ?        {name}: unknown without root, or without tracefs\n"),
    }
}

/// Whether a disk has blocks. A loop device that nobody uses has none.
fn has_blocks(name: &str) -> bool {
    fs::read_to_string(Path::new("/sys/block").join(name).join("size")).is_ok_and(|size| size.trim() != "0")
}

fn disks<'a>(all: impl Iterator<Item = &'a Disk>) -> String {
    let line = |Disk { name, makes_requests, beneath }: &Disk| {
        let sees = if *makes_requests { "bios and requests" } else { "bios only" };
        let beneath = if *makes_requests { String::new() } else { beneath.join(" ") };
        format!("  {name:<16} {sees:<18} {beneath}").trim_end().to_owned() + "\n"
    };
    let mut text = format!("  {:<16} {:<18} {}\n", "DISK", "GETS", "REQUESTS GO TO");
    all.for_each(|disk| text += &line(disk));
    text
}

/// What somebody else must know of this machine to find out why a tool does not work.
fn details() -> String {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default().trim().to_owned();
    let os = read("/etc/os-release");
    let os = os.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("unknown");
    let mut text =
        format!("Details:\n  blkbook {}\n  {os}\n  {}\n", env!("CARGO_PKG_VERSION"), read("/proc/version"));
    let settings = [
        "kernel/unprivileged_bpf_disabled",
        "kernel/bpf_stats_enabled",
        "kernel/perf_event_paranoid",
        "kernel/kptr_restrict",
        "debug/kprobes-optimization",
        "net/core/bpf_jit_enable",
    ];
    for name in settings {
        if let Ok(value) = fs::read_to_string(Path::new("/proc/sys").join(name)) {
            let _ = writeln!(text, "  {} = {}", name.replace('/', "."), value.trim());
        }
    }
    let config = read(&format!("/boot/config-{}", preflight::release()));
    let is_ours = |line: &&str| {
        ["BPF", "BTF", "KPROBE", "FPROBE", "FTRACE", "FUNCTION_TRACER", "BLK_CGROUP", "LOCKDOWN", "LOCK_DOWN"]
            .iter()
            .any(|word| line.starts_with("CONFIG_") && line.contains(word))
    };
    match config.is_empty() {
        true => text += "  no configuration of the kernel in /boot\n",
        false => config.lines().filter(is_ours).for_each(|line| {
            let _ = writeln!(text, "  {line}");
        }),
    }
    text
}
