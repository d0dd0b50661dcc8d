//! Bad situations: each gives one clear error with cause, evidence and fix, and leaves nothing behind.

use std::fs;

use common::preflight::{self, Need};
use machine::kernels::Trait;

use crate::guest::{has, instances, io, is_in, quiet, refused, sh, start};
use crate::{Case, cases};

pub const CASES: &[Case] = cases![
    without_locked_memory,
    without_tracefs_it_is_mounted(Once),
    looking_mounts_nothing,
    functions_that_cannot_be_probed(Outer),
    none_of_several_functions(Once),
    kinds_of_probes_that_came_later,
    a_program_that_the_verifier_refuses,
    verbose_shows_libbpfs_log(Once),
    lockdown_at_run_time(Alone, Once),
    lockdown_at_boot(Alone, Once),
];

/// A process that may trace, but may not raise its limit on locked memory.
fn without_locked_memory() {
    let limited = |arguments: &str| {
        format!(
            "exec /bin/setpriv --bounding-set -sys_resource sh -c 'ulimit -l 64 && exec stage03 {arguments}'"
        )
    };
    if is_in("..5.11") {
        let text = refused(&limited(""));
        let cause = "Error: this process may not lock enough memory for the map start_map\n";
        assert!(text.starts_with(cause), "{text}");
        assert!(text.contains("map 'start_map': failed to create: -EPERM"), "{text}");
        assert!(text.contains("ulimit -l unlimited"), "{text}");
    } else {
        // It removed the limit.
        sh(&limited("--duration 0.1"));
    }
}

fn without_tracefs_it_is_mounted() {
    quiet();
    sh("umount /sys/kernel/tracing");
    let stage = start("stage01 --lines 4");
    io("write /dev/scratch --count 4");
    assert_eq!(stage.wait().unwrap().lines().len(), 4);
    assert_eq!(instances(), [""; 0], "it is mounted, and nothing is left in it");
}

/// What `cargo lab doctor` does as root on a machine where tracefs is not mounted.
fn looking_mounts_nothing() {
    quiet();
    sh("umount /sys/kernel/tracing");
    // The kernel would mount it there at the first access.
    sh("mount -t debugfs debugfs /sys/kernel/debug");
    let sections =
        ["kprobe/submit_bio", "fentry/bio_endio", "tp_btf/block_rq_complete", "tracer/function_graph"];
    let needs = preflight::needs(sections.map(str::to_owned));
    let looked: Vec<_> = needs.iter().map(|need| (need.to_string(), need.look())).collect();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    sh("umount /sys/kernel/debug && mount -t tracefs tracefs /sys/kernel/tracing");
    assert!(!mounts.contains("tracefs"), "{mounts}");
    for (need, found) in looked {
        let is_known = [
            "root",
            "no kernel lockdown of confidentiality",
            "tracefs",
            "kprobes",
            "tracepoint block_rq_complete",
        ]
        .contains(&&*need);
        assert_eq!(found, is_known.then_some(Ok(())), "{need}");
    }
    for need in needs {
        assert_eq!(need.look(), Some(Ok(())), "{need}, with tracefs mounted");
    }
}

/// A function that doesn't exist, and one that is in kallsyms and in BTF on each of the four kernels, but is declared
/// `inline`, which includes `notrace`. A check says the same as a program in which libbpf finds out, and of a kprobe the same
/// as of fentry and fexit.
fn functions_that_cannot_be_probed() {
    for (function, said, programs) in [
        (
            "generic_make_request",
            "this kernel has no function generic_make_request\n",
            vec!["stage01-gone", "stage02-gone", "stage08-gone"],
        ),
        (
            "__blk_mq_end_request",
            "__blk_mq_end_request cannot be probed on this kernel\n",
            vec!["stage01-notrace", "stage02-notrace"],
        ),
    ] {
        let why = Need::Kprobe(function.into()).check().unwrap_err();
        assert!(why.to_string().starts_with(said), "{why}");
        for program in programs {
            assert_eq!(refused(program), format!("Error: {why}\n"), "{program}");
        }
        for need in [Need::Fentry(function.into()), Need::Fexit(function.into())] {
            assert_eq!(need.check(), Err(why.clone()));
        }
    }
    let gone = Need::Kprobe("generic_make_request".into()).check().unwrap_err().to_string();
    assert!(gone.contains("fix:      search for its new name by a part of the old one"), "{gone}");
    // The end point of stage 07 in the 2019 tutorial: missing on 5.10, and split into parts later.
    for (need, parts) in [
        (Need::Kprobe as fn(String) -> Need, "change the program's SEC() line to kprobe/"),
        (Need::Fentry, "SEC(\"kprobe/"),
    ] {
        let text = need("blk_account_io_completion".into()).check().unwrap_err().to_string();
        assert!(text.starts_with("this kernel has no function blk_account_io_completion"), "{text}");
        let parts = format!("{parts}blk_account_io_completion.part.0");
        assert_eq!(text.contains(&parts), is_in("6.0.."), "{text}");
    }
}

/// If any of several functions would do, the error lists what is wrong with each.
fn none_of_several_functions() {
    let one_of = |names: [&str; 2]| Need::OneOf(names.map(|name| Need::Fexit(name.to_owned())).into());
    let text = one_of(["generic_make_request", "__blk_mq_end_request"]).check().unwrap_err().to_string();
    let why = "this kernel has none of the probe points that this program can use\n  \
               evidence: fexit generic_make_request: this kernel has no function generic_make_request\n            \
               fexit __blk_mq_end_request: __blk_mq_end_request cannot be probed on this kernel\n";
    assert!(text.starts_with(why), "{text}");
    assert_eq!(one_of(["generic_make_request", "submit_bio"]).check(), Ok(()));
}

/// `kprobe.multi` exists since Linux 5.18, `kprobe.session` since 6.10.
fn kinds_of_probes_that_came_later() {
    let fprobe = has(if cfg!(target_arch = "aarch64") { Trait::FprobeOnArm64 } else { Trait::Fprobe });
    let is_there = |need: Need, is_new: bool| {
        let found = need.check();
        assert_eq!(found.is_ok(), is_new && fprobe, "{found:?}");
        found.err().map(|error| error.to_string()).unwrap_or_default()
    };
    // 6.1 has it, but Debian builds it without CONFIG_FPROBE, and so does 6.12 for arm64.
    let text = is_there(Need::KprobeMulti(Some("submit_bio".into())), is_in("5.18.."));
    assert!(text.is_empty() || text.starts_with("this kernel has no kprobe.multi\n"), "{text}");
    let text = is_there(Need::KprobeSession(Some("submit_bio".into())), is_in("6.10.."));
    assert!(text.is_empty() || text.starts_with("this kernel has no kprobe.session\n"), "{text}");
    // It has no event of ftrace. On 5.10, no BPF program can attach to such a tracepoint.
    assert_eq!(Need::Tracepoint("sched_cpu_capacity_tp".into()).check().is_ok(), is_in("6.1.."));
}

fn a_program_that_the_verifier_refuses() {
    let text = refused("stage03-unchecked");
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let verdict = "Error: the kernel's verifier refused a BPF program: `info` may be NULL";
    assert_eq!(lines[0], verdict, "{text}");
    // The line's number is from the object if this kernel does not print it.
    assert!(lines[1].starts_with("evidence: in bio_endio_entry, bio_trace.bpf.c line "), "{text}");
    assert!(lines[2].contains("end_time - info->start"), "{text}");
    assert!(lines[3].ends_with(" invalid mem access 'map_value_or_null'"), "{text}");
    assert!(lines.contains(&"+if (!info)"), "the cure: {text}");
    assert!(lines.ends_with(&["to read more: cargo lab clinic show 01"]), "{text}");
    assert!(!text.contains("processed"), "the log itself is for --verbose: {text}");

    let text = sh("stage03-unchecked --verbose 2>&1 || true");
    assert!(text.contains("processed"), "the verifier's log: {text}");
}

fn verbose_shows_libbpfs_log() {
    let run = |arguments: &str| start(&format!("stage01 --duration 0.1 {arguments}")).wait().unwrap().stderr;
    assert_eq!(run("").lines().next(), Some("Tracing. Ctrl-C to end."));
    assert!(!run("").contains("libbpf: "));
    assert!(run("--verbose").contains("libbpf: "));
}

fn lockdown_at_run_time() {
    let lockdown = "/sys/kernel/security/lockdown";
    sh(&format!("echo integrity > {lockdown}"));
    let stage = start("stage03 --lines 3");
    io("write /dev/scratch");
    assert_eq!(stage.wait().unwrap().lines().len(), 3, "integrity forbids nothing that we need");
    sh(&format!("echo confidentiality > {lockdown}"));
    lockdown_at_boot();
}

fn lockdown_at_boot() {
    assert_eq!(
        refused("stage03"),
        "Error: this kernel is locked down: it allows no kprobes and hides tracefs\n  \
         evidence: /sys/kernel/security/lockdown: none integrity [confidentiality]\n  \
         fix:      boot without lockdown=confidentiality (integrity is enough for us), or: cargo lab run 03\n"
    );
}
