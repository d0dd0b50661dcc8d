//! `cargo lab run` and its guest, from the outside.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use lab::exercise;
use libtest_mimic::Trial;
use machine::host::tools::QEMU;
use machine::kernels::DEFAULT;
use machine::vm::Machine;
use machine::workbook::Workbook;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use upkeep::publish::record;

use crate::guest::wait_until;
use crate::{BOOT_LIMIT, Case, cases, trial};

/// Tests of the driver, which boot their own guests.
pub fn trials() -> Vec<Trial> {
    let tests: &[Case] = cases![
        a_stages_output_comes_back,
        a_guest_that_hangs_at_boot,
        an_emulator_that_fails_is_started_again,
        ctrl_c_is_for_the_stage_and_its_report_is_printed,
        a_file_that_a_program_writes_comes_out,
        the_recorded_outputs_look_like_what_the_stages_print,
        each_saved_file_is_checked,
        a_shell_runs_what_is_typed,
        a_mystery_is_played_in_a_shell,
        a_kernel_that_does_not_boot,
        a_guest_that_dies_while_a_program_runs,
        no_qemu,
        no_room,
        ctrl_c_while_booting,
        when_the_lab_is_killed_the_emulator_ends,
    ];
    let one = |(name, test, _): &Case| {
        let (name, test) = (*name, *test);
        trial(format!("lab::{name}"), move || {
            test(name);
            Ok(())
        })
    };
    tests.iter().map(one).collect()
}

/// [`BOOT_LIMIT`], as one types it.
fn limit() -> String {
    BOOT_LIMIT.as_secs().to_string()
}

/// The driver itself, `cargo lab`, with as much time for a boot as it needs on a busy machine.
fn lab(arguments: &[&str]) -> Command {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
    let words = if arguments[0] == "mystery" { 2 } else { 1 };
    let (command, arguments) = arguments.split_at(words);
    lab.args(command);
    if !arguments.contains(&"--boot-limit") {
        lab.args(["--boot-limit", &limit()]);
    }
    lab.args(arguments);
    lab
}

/// Runs `cargo lab` to its end: status, stdout, stderr.
fn run(arguments: &[&str]) -> (i32, String, String) {
    finish(&mut lab(arguments))
}

fn finish(command: &mut Command) -> (i32, String, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The folder for the guest's files may have any name, and nothing is left in it.
fn a_stages_output_comes_back() {
    let folder = tempfile::Builder::new().prefix("a,b=c,").tempdir().unwrap();
    let script = format!("{} run 03 --boot-limit {} | head -n 3", env!("CARGO_BIN_EXE_lab"), limit());
    let (status, stdout, stderr) =
        finish(Command::new("sh").args(["-c", &script]).env("TMPDIR", folder.path()));
    assert_eq!((status, stdout.lines().count()), (0, 3), "a closed pipe ends the stage: {stdout}{stderr}");
    let is_release = |line: &str| line.starts_with("Kernel 6.12.");
    assert!(stderr.lines().any(is_release), "the exact release is always shown: {stderr}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

/// Runs each README's command again. It must print no kind of trace line that is not recorded, and everything else as
/// recorded. On a busy machine, what happens within a given time may need a longer run.
fn the_recorded_outputs_look_like_what_the_stages_print() {
    let workbook = Workbook::read().unwrap();
    let machine = Machine { limit: BOOT_LIMIT, ..Machine::new(&workbook, DEFAULT).unwrap() };
    let mut guest = machine.boot().unwrap();
    for program in workbook.catalog.programs() {
        let recorded = record::shape(&record::of(program).unwrap());
        let what = format!("{0}: record it again: cargo upkeep record {0}", program.name());
        for times in [1, 4, 16] {
            let printed = record::shape(&record::capture(&mut guest, program, times).unwrap());
            let new: Vec<_> = printed.traced.difference(&recorded.traced).collect();
            assert!(new.is_empty(), "{what}\nnew lines: {new:?}");
            let [printed, recorded] =
                [&printed, &recorded].map(|shape| (shape.traced.is_empty(), &shape.rest));
            if printed == recorded {
                break;
            }
            assert!(times < 16, "{what}\nprinted {printed:?}\nrecorded {recorded:?}");
        }
    }
}

/// In one guest: the starting point fails, what does not compile is reported, and the solution passes. Then Ctrl-C.
fn each_saved_file_is_checked() {
    let workbook = Workbook::read().unwrap();
    // A folder for working copies, which is not there yet.
    let mine = workbook.target.join("test-watched");
    let _ = fs::remove_dir_all(&mine);
    let exercise = |command: &str| {
        let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
        lab.args(["exercise", command, "03.1"]).env("LAB_MINE", &mine);
        lab
    };
    assert_eq!(finish(&mut exercise("start")).0, 0);
    let mut watch = exercise("watch");
    watch.args(["--boot-limit", &limit()]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut watch = watch.spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut verdict = || {
        let lines = lines.by_ref().take_while(|line| !line.ends_with("Ctrl-C ends this."));
        lines.collect::<Vec<_>>().join("\n")
    };
    let begins = |text: String, begin: &str| assert!(text.starts_with(begin), "{text}");

    let text = verdict();
    assert!(text.contains("\n03.1 is not right yet\n  expected: "), "{text}");
    let exercise = exercise::find(&workbook, "03.1").unwrap();
    let solution = exercise.solved(&exercise.binary()).unwrap();
    let [(bpf, bpf_text), (main, main_text), ..] = &solution[..] else { panic!("{solution:?}") };
    let copy = mine.join("03.1");
    fs::write(copy.join(main), "not Rust").unwrap();
    begins(verdict(), "your 03.1 does not compile");
    fs::write(copy.join(bpf), bpf_text).unwrap();
    begins(verdict(), "your 03.1 does not compile");
    // As some editors save: they rename another file.
    fs::write(copy.join("new"), main_text).unwrap();
    fs::rename(copy.join("new"), copy.join(main)).unwrap();
    begins(verdict(), "03.1 is right: ");

    kill(Pid::from_raw(watch.id() as i32), Signal::SIGINT).unwrap();
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}

fn a_file_that_a_program_writes_comes_out() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = "run ctracer -- --max-events 4 --functions submit_bio --perfetto bio.json -o bio.rec";
    let arguments: Vec<_> = arguments.split(' ').collect();
    let (status, ..) = finish(lab(&arguments).current_dir(&folder));
    assert_eq!(status, 0);
    let names: BTreeSet<_> =
        folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["bio.json", "bio.rec"].map(Into::into).into());
    let trace = fs::read_to_string(folder.path().join("bio.json")).unwrap();
    assert!(trace.starts_with('{') && trace.ends_with('}') && trace.contains("submit_bio"), "{trace}");
}

fn ctrl_c_is_for_the_stage_and_its_report_is_printed() {
    let mut child = lab(&["run", "stage03"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("submit_bio(bio=0x"));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let rest: Vec<_> = lines.map_while(Result::ok).collect();
    assert!(rest.iter().any(|line| line.starts_with("Durations missing or too short: ")), "{rest:?}");
    assert!(child.wait().unwrap().success());
}

/// Each command of a case does what it should, and nothing in the guest gives the answer away.
fn a_mystery_is_played_in_a_shell() {
    let typed = "look\nnote it is \"odd\"\nfix || echo too early\nsolution || echo too early\nhint\n\
        answer slow-disk /dev/vdh 100 || echo half\nanswer busy-neighbor orders 80 % && fix\nfix\nstatus\n\
        cat /proc/*/cmdline | tr '\\0' '\\n' | grep -c -e '^prices$' -e '^orders$'; ls /sys/kernel/config | wc -l\n\
        grep -rilE 'busy.?neighbor|slow.?disk' /tmp /root /etc /proc/cmdline /proc/*/cmdline /proc/*/environ | wc -l\nexit 7\n";
    let (status, text, _) = type_into(&["mystery", "start", "01", "--seed", "1"], typed);
    assert_eq!(status, 7, "{text}");
    for expected in [
        "Case 01, seed 1. 0:00 of 10:00.",
        "it is odd",
        "you don't know yet what to fix",
        "no answer was right yet",
        "\ntoo early\r\n",
        "1 of 3: Where does a slow write",
        "cause   wrong\r\nplace   wrong. For slow-disk, this is the disk.\r\nnumber  not compared",
        "A wrong answer costs a minute: ",
        "\nhalf\r\n",
        "cause   right\r\nplace   right. For busy-neighbor, this is that process.\r\nnumber  right. For",
        "; before the fix: ",
        "the cure was tried already",
        "Hints: 1 of 3",
        "busy-neighbor orders 80 %: 3 of 3",
        "\n2\r\n0\r\n",
        "\n0\r\n",
    ] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
    assert!(!text.contains("Solved after 0:"), "{text}");
    let complaints = text.matches("Tuesday").count();
    assert_eq!(complaints, 2, "at the start and in `status`, but not in `look`: {text}");
}

/// Types into the shell that a command opens, which must end on its own, and returns its exit status, stdout and stderr.
fn type_into(command: &[&str], text: &str) -> (i32, String, String) {
    let mut shell = lab(command);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    // Held open, because the shell would end at the end of its input.
    let mut input = child.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(input);
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code().unwrap(), stdout, stderr)
}

fn a_shell_runs_what_is_typed() {
    // The shell must end even if it leaves a program behind that has its terminal open.
    let (status, text, _) = type_into(&["shell"], "sleep 1000 & echo $((6*7)); stty size; tty; exit 5\n");
    assert_eq!(status, 5, "{text}");
    for expected in ["This is a real kernel", "\n42\r\n", "\n24 80\r\n", "/dev/pts/0"] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
}

/// The error that `cargo lab run` gives.
fn error(arguments: &[&str]) -> String {
    let (status, stdout, stderr) = run(arguments);
    assert_eq!((status, &*stdout), (1, ""), "{stderr}");
    stderr
}

fn a_kernel_that_does_not_boot() {
    for (option, value, parts) in [
        ("--kernel", "/bin/sh", ["/bin/sh is no kernel for x86", "HdrS"]),
        (
            "--append",
            "rdinit=/nothing root=/dev/nothing",
            ["the guest's kernel panicked", "Kernel panic - not syncing: VFS: Unable to mount root fs"],
        ),
        (
            "--append",
            "initcall_blacklist=nvme_init",
            ["the guest is up, but has no disks", "CONFIG_BLK_DEV_NVME=y"],
        ),
    ] {
        let text = error(&["run", "01", option, value]);
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}

/// Its first process does nothing.
fn a_guest_that_hangs_at_boot() {
    let text = error(&["run", "01", "--boot-limit", "5", "--append", "rdinit=/bin/busybox -- sleep 1000"]);
    assert!(text.contains("the guest hangs: it has not answered for 5 s"), "{text}");
    // How far it gets within this time depends on the machine.
    assert!(text.contains("the console's last lines") || text.contains("the console is empty"), "{text}");
}

fn a_guest_that_dies_while_a_program_runs() {
    let (status, _, text) = type_into(&["shell"], "echo c > /proc/sysrq-trigger\n");
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("the guest's kernel panicked") && text.contains("sysrq triggered crash"), "{text}");
}

/// A PATH with everything that Cargo needs, but without the emulator.
fn no_qemu() {
    let folder = tempfile::tempdir().unwrap();
    for tool in ["clang", "readelf", "busybox", "mke2fs", "setpriv", "cc", "ld", "ar", "sh", "rustc", "cargo"]
    {
        let path = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output().unwrap().stdout;
        let path = String::from_utf8(path).unwrap();
        if !path.is_empty() {
            std::os::unix::fs::symlink(path.trim(), folder.path().join(tool)).unwrap();
        }
    }
    let (status, _, text) = finish(lab(&["run", "01"]).env("PATH", folder.path()));
    assert_eq!(status, 1);
    assert!(text.contains("qemu-system-x86_64 is missing"), "{text}");
    assert!(text.contains("apt install qemu-system-x86"), "{text}");
}

/// One that was built without seccomp, whose guest then ends with a double fault.
fn an_emulator_that_fails_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let (qemu, log) = (folder.path().join(QEMU.name), folder.path().join("log"));
    let script = format!(
        r#"#!/bin/sh
echo start >> {log}
case "$(wc -l < {log}) $*" in
*-sandbox*) echo 'qemu-system-x86_64: -sandbox support is not enabled in this QEMU binary' >&2; exit 1 ;;
2*) console=$(echo "$*" | sed 's/.*id=console,path=\([^ ]*\).*/\1/')
	echo 'traps: PANIC: double fault, error_code: 0x0' > "$console"; exit 1 ;;
esac
exec {real} "$@"
"#,
        log = log.display(),
        real = QEMU.find().unwrap().display(),
    );
    fs::write(&qemu, script).unwrap();
    fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    // A first guest with KVM would be one start more.
    let arguments = ["run", "01", "--accel", "tcg", "--", "--lines", "1"];
    let (status, stdout, stderr) = finish(lab(&arguments).env("PATH", path));
    let starts = fs::read_to_string(log).unwrap().lines().count();
    assert_eq!((status, stdout.lines().count(), starts), (0, 1, 3), "{stderr}");
    assert!(stderr.contains("Booting it again"), "{stderr}");
}

fn no_room() {
    // Any file system without free blocks is too small for the guest's disks, and procfs has none.
    let (status, _, text) = finish(lab(&["run", "01"]).env("TMPDIR", "/proc"));
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("there is no room for the guest's disks"), "{text}");
}

fn ctrl_c_while_booting() {
    // A guest that boots slowly.
    let child = lab(&["run", "01", "--append", "rdinit=/bin/busybox -- sleep 1000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let emulator = emulator_of(child.id());
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("Error: interrupted"), "it did not wait for the guest: {text}");
    assert!(!is_alive(emulator), "the emulator is gone with the lab");
}

fn when_the_lab_is_killed_the_emulator_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut run_01 = lab(&["run", "01"]);
    run_01.env("TMPDIR", folder.path());
    let mut child = run_01.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let emulator = emulator_of(child.id());
    let status = fs::read_to_string(format!("/proc/{emulator}/status")).unwrap();
    assert!(status.contains("\nSeccomp:\t2\n"), "it runs in QEMU's sandbox: {status}");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the emulator is gone", || !is_alive(emulator));
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "nothing is left");
}

/// The process ID of the emulator that a thread of a lab has started, as soon as it has.
fn emulator_of(lab: u32) -> u32 {
    // What is gone meanwhile is empty.
    let cat = |files: &str| {
        let output = Command::new("sh").args(["-c", &format!("cat {files} 2> /dev/null")]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let is_emulator = |pid: &u32| cat(&format!("/proc/{pid}/comm")).starts_with("qemu-system");
    let mut emulator = None;
    wait_until("the lab has started an emulator", || {
        let children = cat(&format!("/proc/{lab}/task/*/children"));
        emulator = children.split_whitespace().map(|pid| pid.parse().unwrap()).find(is_emulator);
        emulator.is_some()
    });
    emulator.unwrap()
}

fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
