//! Bad situations: each gives one clear error with cause, evidence and fix, and leaves nothing behind.

use common::preflight::Need;
use machine::kernels::Trait;

use crate::guest::{has, instances, io, is_in, quiet, refused, sh, start};
use crate::{Case, cases};

pub const CASES: &[Case] = cases![
    without_locked_memory,
    without_tracefs_it_is_mounted(Once),
    functions_that_cannot_be_probed(Outer),
    kinds_of_probes_that_came_later,
    a_program_that_the_verifier_refuses,
    lockdown(Alone, Once),
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

/// A kernel that was booted in this way reports the same.
fn lockdown() {
    let lockdown = "/sys/kernel/security/lockdown";
    sh(&format!("echo integrity > {lockdown}"));
    let stage = start("stage03 --lines 3");
    io("write /dev/scratch");
    assert_eq!(stage.wait().unwrap().lines().len(), 3, "integrity forbids nothing that we need");
    sh(&format!("echo confidentiality > {lockdown}"));
    assert_eq!(
        refused("stage03"),
        "Error: this kernel is locked down: it allows no kprobes and hides tracefs\n  \
         evidence: /sys/kernel/security/lockdown: none integrity [confidentiality]\n  \
         fix:      boot without lockdown=confidentiality (integrity is enough for us), or: cargo lab run 03\n"
    );
}
