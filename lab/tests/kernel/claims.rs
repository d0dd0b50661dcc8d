//! What the pages claim about the kernel's ways to run a program.

use common::report::skipped_calls;
use libbpf_rs::{MapCore, MapFlags, ObjectBuilder};
use nix::sys::signal::Signal;

use crate::guest::{AtEnd, io, quiet, sh, start};
use crate::{Case, cases};

pub const CASES: &[Case] = cases![
    a_kprobe_at_a_functions_entry_is_an_ftrace_call(X86),
    a_tracepoint_program_is_skipped_within_any_other_and_a_tp_btf_program_is_not,
];

/// Stage 01's page: in the kernel's list of probes, an ftrace call has `[FTRACE]`, and a breakpoint has nothing, or
/// `[OPTIMIZED]` if it became a jump.
fn a_kprobe_at_a_functions_entry_is_an_ftrace_call() {
    const DEBUGFS: &str = "/sys/kernel/debug";
    sh(&format!("mount -t debugfs debugfs {DEBUGFS}"));
    let _mounted = AtEnd("umount /sys/kernel/debug");
    let stage = start("stage01");
    let list = sh(&format!("cat {DEBUGFS}/kprobes/list"));
    stage.end(Signal::SIGINT).unwrap();
    assert_eq!(list.lines().count(), 1, "{list}");
    assert!(list.contains("  k  submit_bio+0x") && list.contains("[FTRACE]"), "{list}");

    // The same address after the call of ftrace, which takes five bytes: the next instruction is a breakpoint.
    let offset = list.split("submit_bio+0x").nth(1).unwrap().split(' ').next().unwrap();
    let offset = u64::from_str_radix(offset, 16).unwrap();
    let stage = start("stage01");
    let trace = "/sys/kernel/tracing";
    let _removed = AtEnd(
        "cd /sys/kernel/tracing; echo 0 > events/kprobes/middle/enable; echo -:middle >> kprobe_events",
    );
    sh(&format!("echo p:middle submit_bio+{:#x} >> {trace}/kprobe_events", offset + 5));
    sh(&format!("echo 1 > {trace}/events/kprobes/middle/enable"));
    let both = sh(&format!("cat {DEBUGFS}/kprobes/list"));
    stage.end(Signal::SIGINT).unwrap();
    assert_eq!(both.lines().count(), 2, "{both}");
    assert_eq!(both.lines().filter(|line| line.contains("[FTRACE]")).count(), 1, "{both}");
}

/// Stages 07, 08 and 09: the kernel skips a program on `tracepoint/...` on a CPU that runs another program of this
/// kind or of a kprobe. It does not skip one on `tp_btf/...`.
fn a_tracepoint_program_is_skipped_within_any_other_and_a_tp_btf_program_is_not() {
    const WRITES: u64 = 16;
    quiet();
    let nested = ObjectBuilder::default().open_file("/bin/nested.bpf.o").unwrap().load().unwrap();
    let links: Vec<_> = nested.progs_mut().map(|program| program.attach().unwrap()).collect();
    io(&format!("write /dev/scratch --count {WRITES}"));
    let missed = skipped_calls(&nested).unwrap();
    drop(links);
    let counts = nested.maps().find(|map| map.name() == "counts").unwrap();
    let count = |key: u32| {
        let bytes = counts.lookup(&key.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
        u64::from_ne_bytes(bytes.try_into().unwrap())
    };
    let [outer, tracepoint, tp_btf] = [0, 1, 2].map(count);
    assert_eq!((outer, tracepoint, tp_btf), (WRITES, 0, WRITES));
    // The kernel counts the calls that it skipped since 6.7.
    assert!(missed.is_none_or(|missed| missed == WRITES), "{missed:?}");
}
