//! The stack of the slowest bio is the one that submitted it.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use guest::null_blk::{NullBlk, long_enough};
use guest::running::Observation;
use guest::system::Setting;
use guest::truth::{self, stack};

use crate::guest::{AtEnd, io, quiet, sh, watch, watch_while, with_ext4};
use crate::{Case, cases};

pub const CASES: &[Case] = cases![
    stage06_shows_what_the_kernels_own_tracer_shows,
    stage06_names_the_module_of_a_function,
    stage06_gives_no_names_when_the_kernel_hides_addresses(Outer),
    stage06_reports_a_stack_that_is_cut(Outer),
    stage06_reports_stacks_that_collide,
    stage06_does_not_notice_when_places_are_reused(Outer),
];

/// The stack of the slowest bio, outermost first. Each frame has a name, from the kernel's entry to `submit_bio()`.
fn whole_stack(seen: &Observation) -> Vec<&str> {
    truth::slowest(seen).unwrap();
    let stack = stack(seen);
    assert!(stack.iter().all(|function| function.ends_with("()")), "a frame without a name: {}", seen.stdout);
    let entries =
        ["entry_SYSCALL_64_after_hwframe()", "el0t_64_sync()", "ret_from_fork()", "ret_from_fork_asm()"];
    assert!(stack.first().is_some_and(|first| entries.contains(first)), "{}", seen.stdout);
    assert_eq!(stack.last(), Some(&"submit_bio()"));
    stack
}

/// An independent truth: an ftrace kprobe event with the trigger `stacktrace`, which the kernel prints itself. On arm64,
/// its stack may lack the caller, too, so there the event also prints the register with the caller's address.
fn stage06_shows_what_the_kernels_own_tracer_shows() {
    const TRACING: &str = "/sys/kernel/tracing";
    const CALLER: &str = if cfg!(target_arch = "aarch64") { "caller=%lr:symbol" } else { "" };
    with_ext4();
    let cold = || drop(io("read-cold /mnt/read --count 64"));
    // `sync` of a dirty file writes its data, the journal and the file system's metadata, each on a different path.
    let sync = || drop(io("sync /mnt/dirty --count 64"));
    let direct = || drop(io("write /mnt/file --count 8"));
    let raw = || drop(io("write /dev/scratch --count 4"));
    for work in [&cold as &dyn Fn(), &sync, &direct, &raw] {
        work();
        sh(&format!(
            "sync; cd {TRACING}; echo > trace; echo 1408 > buffer_size_kb; \
             echo 'p:truth submit_bio {CALLER}' > kprobe_events; \
             echo stacktrace > events/kprobes/truth/trigger; echo 1 > events/kprobes/truth/enable"
        ));
        let off = AtEnd(
            "cd /sys/kernel/tracing; echo 0 > events/kprobes/truth/enable; echo '!stacktrace' > \
             events/kprobes/truth/trigger; echo > kprobe_events; echo > trace",
        );
        let (seen, ()) = watch_while("stage06", work);
        let trace = fs::read_to_string(format!("{TRACING}/trace")).unwrap();
        drop(off);
        // Innermost first. Skip what the probe itself called.
        let stacks: BTreeSet<Vec<String>> = trace
            .split("<stack trace>")
            .skip(1)
            .map(|text| {
                let lines = text.lines().skip(1).map_while(|line| line.strip_prefix(" => "));
                lines.skip_while(|name| *name != "submit_bio").map(|name| format!("{name}()")).collect()
            })
            .collect();
        let mut ours = whole_stack(&seen);
        ours.reverse();
        if !CALLER.is_empty() && !stacks.iter().any(|stack| *stack == ours) {
            let caller = ours.remove(1).trim_end_matches("()");
            assert!(trace.contains(&format!("caller={caller}+")), "{caller} is no caller\n{trace}");
        }
        assert!(stacks.iter().any(|stack| *stack == ours), "{ours:?} is none of {stacks:?}\n{trace}");
    }
}

/// FAT is a module on these kernels.
fn stage06_names_the_module_of_a_function() {
    quiet();
    sh("modprobe -a nls_cp437 nls_ascii vfat && mkdosfs /dev/scratch && mkdir -p /tmp/fat && \
        mount -t vfat -o codepage=437,iocharset=ascii /dev/scratch /tmp/fat");
    let _unmount = AtEnd("umount /tmp/fat");
    io("write /tmp/fat/file --count 4");
    sh("sync");
    let (seen, _) = watch("stage06", "write /tmp/fat/file --count 4");
    let stack = stack(&seen);
    assert!(stack.contains(&"fat_direct_IO() [fat]"), "{}", seen.stdout);
    assert_eq!(stack.last(), Some(&"submit_bio()"));
}

fn stage06_gives_no_names_when_the_kernel_hides_addresses() {
    quiet();
    let hidden = Setting::new("/proc/sys/kernel/kptr_restrict", "2").unwrap();
    let (seen, _) = watch("stage06", "write /dev/scratch --count 4");
    drop(hidden);
    let stack = stack(&seen);
    assert!(stack.len() > 5 && stack.iter().all(|frame| frame.starts_with("0xffff")), "{}", seen.stdout);
    let reason = "the functions have no names here: the kernel hides their addresses\n  \
                  evidence: all addresses in /proc/kallsyms are 0; kernel.kptr_restrict is 2\n  \
                  fix:      sudo sysctl kernel.kptr_restrict=1, then run it again\n";
    assert!(seen.stdout.contains(reason), "{}", seen.stdout);
}

fn stage06_reports_a_stack_that_is_cut() {
    quiet();
    let (seen, _) = watch("stage06-short", "write /dev/scratch --count 4");
    let stack = stack(&seen);
    // On arm64, the caller is not from the map.
    let frames = if cfg!(target_arch = "aarch64") { 5 } else { 4 };
    assert_eq!(stack.len(), 1 + frames, "{stack:?}");
    assert_eq!((stack[0], stack[frames]), ("... (the map keeps 4 frames of a stack)", "submit_bio()"));
}

/// A map with room for one stack: the first one gets it.
fn stage06_reports_stacks_that_collide() {
    quiet();
    let seen = long_enough(Duration::from_millis(500), |time| {
        let disk = NullBlk::new("slow", time)?;
        let (seen, writes) = watch_while("stage06-one", || {
            let writes = io("write /dev/scratch --count 4");
            io(&format!("read-cold {} --count 1", disk.device.display()));
            writes
        });
        // On a busy machine, one of the writes may take longer than the read.
        let is_the_read = truth::slowest(&seen)?.start > writes.last_ns;
        Ok(is_the_read.then_some(seen))
    })
    .unwrap();
    let reason = "another stack has its place in the map (EEXIST)\n";
    assert!(seen.stdout.contains(&format!(" ns\nStack not recorded: {reason}=====")), "{}", seen.stdout);
}

/// As the README explains: with BPF_F_REUSE_STACKID, one stack replaces another without a notice.
fn stage06_does_not_notice_when_places_are_reused() {
    with_ext4();
    let (seen, _) = watch("stage06-reuse", "sync /mnt/dirty --count 64");
    assert!(!seen.stdout.contains("not recorded"), "{}", seen.stdout);
}
