//! Bad situations: each gives one clear error with cause, evidence and fix, and leaves nothing behind.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use common::preflight::{self, Need};
use guest::running::Running;
use machine::kernels::Trait;

use crate::guest::{AtEnd, has, instances, io, is_in, programs, quiet, sh};
use crate::{Case, cases};

pub const CASES: &[Case] = cases![
    without_root(Once),
    without_one_capability(Once),
    shared_pipe_while_tracing_is_off(Once),
    without_capabilities(Once),
    without_locked_memory,
    without_btf(Once),
    without_kprobes(Once),
    without_tracefs_it_is_mounted(Once),
    looking_mounts_nothing,
    without_a_place_for_tracefs(Once),
    a_function_that_does_not_exist(Once),
    a_function_that_cannot_be_probed(Once),
    a_function_of_which_only_parts_exist(Outer),
    programs_whose_function_is_missing(Outer),
    none_of_several_functions(Once),
    fentry_of_a_function_that_cannot_be_probed(Outer),
    kinds_of_probes_that_came_later,
    a_tracepoint_that_does_not_exist(Once),
    a_program_that_the_verifier_refuses,
    verbose_shows_libbpfs_log(Once),
    lockdown_at_run_time(Alone, Once),
    lockdown_at_boot(Alone, Once),
];

/// Runs a command that must fail with an error, returns the error, and checks that nothing is left.
fn error(command: &mut Command) -> String {
    let before = programs();
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("Error: "), "{stderr}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "", "an error goes to stderr");
    if std::path::Path::new("/sys/kernel/tracing/instances").exists() {
        assert_eq!(instances(), [""; 0]);
    }
    assert!(programs().is_subset(&before));
    stderr
}

/// A stage that can't see a part of /sys.
fn with_hidden(place: &str, stage: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &format!("mount -t tmpfs hidden {place} && exec {stage}")]);
    command
}

fn without_root() {
    assert_eq!(
        error(Command::new("stage03").uid(65534)),
        "Error: only root may trace the kernel\n  evidence: this runs as user id 65534\n  \
         fix:      use sudo, or run it in the lab, which needs no root: cargo lab run 03\n"
    );
}

/// Capabilities without being root, and root without capabilities that count.
fn without_one_capability() {
    let user = |capabilities: &str| {
        let [inherited, ambient] = ["inh", "ambient"].map(|set| format!("--{set}-caps=-all,{capabilities}"));
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=1000",
            "--clear-groups",
            &inherited,
            &ambient,
            "stage03",
            "--duration",
            "0.1",
        ]);
        command
    };
    let text = error(&mut user("+bpf,+perfmon,+sys_admin"));
    assert!(text.contains("this runs as user id 1000, without CAP_DAC_OVERRIDE\n"), "{text}");
    let text = error(&mut user("+bpf,+dac_override"));
    assert!(text.contains("this runs as user id 1000, without CAP_PERFMON\n"), "{text}");
    let output = user("+bpf,+perfmon,+sys_admin,+dac_override").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = error(Command::new("unshare").args(["-Ur", "stage03"]));
    assert!(text.starts_with("Error: root of a user namespace may not trace the kernel\n"), "{text}");
}

fn shared_pipe_while_tracing_is_off() {
    let _on = AtEnd("echo 1 > /sys/kernel/tracing/tracing_on");
    fs::write("/sys/kernel/tracing/tracing_on", "0").unwrap();
    let text = error(Command::new("stage01").args(["--shared-pipe", "--duration", "0.1"]));
    assert!(
        text.starts_with("Error: tracing is off, so nothing gets into the shared trace pipe\n"),
        "{text}"
    );
    assert!(text.contains("echo 1 > /sys/kernel/tracing/tracing_on"), "{text}");
}

/// Root in a plain container: user ID 0, but without the capabilities that matter.
fn without_capabilities() {
    let text = error(Command::new("setpriv").args(["--bounding-set", "-all", "--inh-caps=-all", "stage03"]));
    assert!(text.contains("CAP_SYS_ADMIN no, CAP_PERFMON no, CAP_BPF no"), "{text}");
    assert!(!text.contains("ulimit"), "libbpf's guess is wrong here: {text}");
    assert!(text.contains("cargo lab run 03"), "{text}");
}

/// A process that may trace, but may not raise its limit on locked memory.
fn without_locked_memory() {
    let limited = |arguments: &str| {
        let limit = format!("ulimit -l 64 && exec stage03 {arguments}");
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-sys_resource", "sh", "-c", &limit]);
        command
    };
    if is_in("..5.11") {
        let text = error(&mut limited(""));
        let cause = "Error: this process may not lock enough memory for the map start_map\n";
        assert!(text.starts_with(cause), "{text}");
        assert!(text.contains("map 'start_map': failed to create: -EPERM"), "{text}");
        assert!(text.contains("ulimit -l unlimited"), "{text}");
    } else {
        let output = limited("--duration 0.1").output().unwrap();
        assert!(output.status.success(), "5.11 removed the limit: {output:?}");
    }
}

fn without_btf() {
    let text = error(&mut with_hidden("/sys/kernel/btf", "stage03"));
    assert!(text.starts_with("Error: this kernel has no type information (BTF)\n"), "{text}");
}

fn without_kprobes() {
    let text = error(&mut with_hidden("/sys/bus/event_source/devices", "stage03"));
    assert!(text.starts_with("Error: this kernel has no kprobes\n"), "{text}");
    assert!(text.contains("cargo lab run 03"), "{text}");
}

fn without_tracefs_it_is_mounted() {
    quiet();
    sh("umount /sys/kernel/tracing");
    let stage = Running::start(&["stage01", "--lines", "4"]).unwrap();
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
        let is_known =
            ["root", "no kernel lockdown of confidentiality", "tracefs", "kprobes"].contains(&&*need);
        assert_eq!(found, is_known.then_some(Ok(())), "{need}");
    }
    for need in needs {
        assert_eq!(need.look(), Some(Ok(())), "{need}, with tracefs mounted");
    }
}

fn without_a_place_for_tracefs() {
    // A fresh /sys/kernel with BTF, but without the folder to mount tracefs on.
    let script = "mount -t tmpfs hidden /tmp && mkdir /tmp/kernel /tmp/kernel/btf && touch /tmp/kernel/btf/vmlinux && \
                  mount --bind /tmp/kernel /sys/kernel && exec stage03";
    let text = error(Command::new("unshare").args(["-m", "sh", "-c", script]));
    assert!(
        text.starts_with("Error: tracefs, the file system of the trace pipe, cannot be mounted\n"),
        "{text}"
    );
    assert!(text.contains("fix: "), "{text}");
}

fn a_function_that_does_not_exist() {
    let text = Need::Kprobe("generic_make_request".into()).check().unwrap_err().to_string();
    assert!(text.starts_with("this kernel has no function generic_make_request\n"), "{text}");
    assert!(text.contains("fix:      search for its new name by a part of the old one"), "{text}");
}

/// On each of the four kernels it is in kallsyms and in BTF, but it is declared `inline`, which includes `notrace`.
fn a_function_that_cannot_be_probed() {
    let text = Need::Kprobe("__blk_mq_end_request".into()).check().unwrap_err().to_string();
    assert!(text.starts_with("__blk_mq_end_request cannot be probed on this kernel\n"), "{text}");
}

/// The end point of stage 07 in the 2019 tutorial: missing on 5.10, and split into parts later.
fn a_function_of_which_only_parts_exist() {
    let text = Need::Kprobe("blk_account_io_completion".into()).check().unwrap_err().to_string();
    let parts = "change the program's SEC() line to kprobe/blk_account_io_completion.part.0";
    assert_eq!(text.contains(parts), is_in("6.0.."), "{text}");
    assert!(text.starts_with("this kernel has no function blk_account_io_completion"), "{text}");
}

/// libbpf finds out when it loads or attaches them. The reader gets the same error as from a check.
fn programs_whose_function_is_missing() {
    for (function, programs) in [
        ("generic_make_request", ["stage01-gone", "stage02-gone"]),
        ("__blk_mq_end_request", ["stage01-notrace", "stage02-notrace"]),
    ] {
        let why = Need::Kprobe(function.into()).check().unwrap_err();
        for program in programs {
            assert_eq!(error(&mut Command::new(program)), format!("Error: {why}\n"), "{program}");
        }
    }
    // Of its two programs, the stage chooses one.
    let is_session = preflight::runs_sessions().unwrap();
    let function = if is_session { "blk_account_io_completion" } else { "generic_make_request" };
    let why = Need::Kprobe(function.into()).check().unwrap_err();
    assert_eq!(error(&mut Command::new("stage08-gone")), format!("Error: {why}\n"));
}

/// If any of several functions would do, the error lists what is wrong with each.
fn none_of_several_functions() {
    let one_of = |names: [&str; 2]| Need::OneOf(names.map(|name| Need::Fexit(name.to_owned())).into());
    let text = one_of(["generic_make_request", "__blk_mq_end_request"]).check().unwrap_err().to_string();
    assert!(
        text.starts_with(
            "this kernel has none of the probe points that this program can use\n  \
             evidence: fexit generic_make_request: this kernel has no function generic_make_request\n            \
             fexit __blk_mq_end_request: __blk_mq_end_request cannot be probed on this kernel\n"
        ),
        "{text}"
    );
    assert_eq!(one_of(["generic_make_request", "submit_bio"]).check(), Ok(()));
}

/// The error is the same as for a kprobe.
fn fentry_of_a_function_that_cannot_be_probed() {
    for name in ["generic_make_request", "__blk_mq_end_request"] {
        let kprobe = Need::Kprobe(name.into()).check().unwrap_err();
        for need in [Need::Fentry(name.into()), Need::Fexit(name.into())] {
            assert_eq!(need.check(), Err(kprobe.clone()));
        }
    }
    let text = Need::Fentry("blk_account_io_completion".into()).check().unwrap_err().to_string();
    let parts = "SEC(\"kprobe/blk_account_io_completion.part.0\") and BPF_KPROBE";
    assert_eq!(text.contains(parts), is_in("6.0.."), "{text}");
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
    assert_eq!(Need::Tracepoint("sched_cpu_capacity_tp".into()).check(), Ok(()), "it has no event of ftrace");
}

fn a_tracepoint_that_does_not_exist() {
    let text = error(&mut with_hidden("/sys/kernel/tracing/events/filemap", "stage08"));
    let name = "filemap/mm_filemap_add_to_page_cache";
    assert!(text.starts_with(&format!("Error: this kernel has no tracepoint {name}\n")), "{text}");
    assert!(text.contains(&format!("there is no /sys/kernel/tracing/events/{name}")), "{text}");
}

fn a_program_that_the_verifier_refuses() {
    let text = error(&mut Command::new("stage03-unchecked"));
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let verdict = "Error: the kernel's verifier refused a BPF program: `start_time` may be NULL";
    assert_eq!(lines[0], verdict, "{text}");
    // The line's number is from the object if this kernel does not print it.
    assert!(lines[1].starts_with("evidence: in bio_endio_entry, bio_trace.bpf.c line "), "{text}");
    assert!(lines[2].contains("end_time - *start_time"), "{text}");
    assert!(lines[3].ends_with(" invalid mem access 'map_value_or_null'"), "{text}");
    assert!(lines.contains(&"+if (!start_time)"), "the cure: {text}");
    assert!(lines.ends_with(&["to read more: cargo lab clinic show 01"]), "{text}");
    assert!(!text.contains("processed"), "the log itself is for --verbose: {text}");

    let output = Command::new("stage03-unchecked").arg("--verbose").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("processed"), "the verifier's log: {text}");
}

fn verbose_shows_libbpfs_log() {
    let run = |arguments: &[&str]| {
        let mut command = Command::new("stage01");
        let stage = Running::spawn(command.args(["--duration", "0.1"]).args(arguments)).unwrap();
        stage.wait().unwrap().stderr
    };
    assert_eq!(run(&[]).lines().next(), Some("Tracing. Ctrl-C to end."));
    assert!(!run(&[]).contains("libbpf: "));
    assert!(run(&["--verbose"]).contains("libbpf: "));
}

fn lockdown_at_run_time() {
    let lockdown = "/sys/kernel/security/lockdown";
    sh(&format!("echo integrity > {lockdown}"));
    let stage = Running::start(&["stage03", "--lines", "3"]).unwrap();
    io("write /dev/scratch");
    assert_eq!(stage.wait().unwrap().lines().len(), 3, "integrity forbids nothing that we need");
    sh(&format!("echo confidentiality > {lockdown}"));
    lockdown_at_boot();
}

fn lockdown_at_boot() {
    let output = Command::new("stage03").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(
        text,
        "Error: this kernel is locked down: it allows no kprobes and hides tracefs\n  \
         evidence: /sys/kernel/security/lockdown: none integrity [confidentiality]\n  \
         fix:      boot without lockdown=confidentiality (integrity is enough for us), or: cargo lab run 03\n"
    );
}
