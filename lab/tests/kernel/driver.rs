//! `cargo lab run` and its guest, from the outside.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
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
        a_stages_status_and_output_come_back,
        ctrl_c_is_for_the_stage_and_its_report_is_printed,
        a_file_that_a_program_writes_comes_out,
        the_recorded_outputs_look_like_what_the_stages_print,
        a_closed_pipe_ends_the_stage,
        each_saved_file_is_checked,
        two_exercises_are_checked_at_the_same_moment,
        a_shell_runs_what_is_typed,
        a_shell_ends_with_its_input,
        a_mystery_is_played_in_a_shell,
        a_kernel_that_does_not_boot,
        a_kernel_that_is_only_a_header,
        a_guest_that_hangs_at_boot,
        a_guest_that_dies_while_a_program_runs,
        no_qemu,
        a_qemu_without_a_sandbox,
        a_double_fault_while_booting,
        a_first_program_that_cannot_run,
        no_room,
        a_comma_in_the_folder_for_the_guests_files,
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

fn a_stages_status_and_output_come_back() {
    let (status, stdout, stderr) =
        run(&["run", "03", "--io", "write --count 2 /dev/scratch", "--", "--lines", "6"]);
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(stdout.lines().count(), 7, "six lines and the report: {stdout}");
    assert!(
        stderr.lines().any(|line| line.starts_with("Kernel 6.12.")),
        "the exact release is always shown: {stderr}"
    );
    let (status, stdout, stderr) = run(&["run", "01", "--", "--duration", "0"]);
    assert_eq!((status, &*stdout), (2, ""), "clap's status for a bad argument comes through: {stderr}");
    assert!(stderr.contains("greater than 0"), "{stderr}");
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

/// A folder for working copies, which is not there yet.
fn own_folder(name: &str) -> PathBuf {
    let mine = Workbook::read().unwrap().target.join(name);
    let _ = fs::remove_dir_all(&mine);
    mine
}

/// `cargo lab exercise`, with this folder for working copies.
fn exercise_in(mine: &Path, arguments: &[&str]) -> Command {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
    lab.arg("exercise").args(arguments).env("LAB_MINE", mine);
    lab
}

/// In one guest: the starting point fails, what does not compile is reported, and the solution passes. Then Ctrl-C.
fn each_saved_file_is_checked() {
    let (workbook, mine) = (Workbook::read().unwrap(), own_folder("test-watched"));
    assert_eq!(finish(&mut exercise_in(&mine, &["start", "03.1"])).0, 0);
    let mut watch = exercise_in(&mine, &["watch", "03.1", "--boot-limit", &limit()]);
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
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

/// Both are built in one folder, in one target folder, and boot a guest; both passes are remembered.
/// Not 03.1, which another test builds in a folder of its own, but with the same target folder.
fn two_exercises_are_checked_at_the_same_moment() {
    let (workbook, mine) = (Workbook::read().unwrap(), own_folder("test-together"));
    std::thread::scope(|scope| {
        for id in ["04.1", "05.1"] {
            let (workbook, mine) = (&workbook, &mine);
            scope.spawn(move || {
                assert_eq!(finish(&mut exercise_in(mine, &["start", id])).0, 0, "{id}");
                let exercise = exercise::find(workbook, id).unwrap();
                for (path, text) in exercise.solved(&exercise.binary()).unwrap() {
                    fs::write(mine.join(id).join(path), text).unwrap();
                }
                let (status, stdout, stderr) =
                    finish(&mut exercise_in(mine, &["check", id, "--boot-limit", &limit()]));
                assert_eq!(status, 0, "{id}: {stderr}");
                assert!(stdout.starts_with(&format!("{id} is right: ")), "{stdout}");
            });
        }
    });
    let done = exercise::done(&Workbook { mine, ..workbook }).unwrap();
    assert_eq!(done, ["04.1", "05.1"].map(str::to_owned).into());
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

fn a_closed_pipe_ends_the_stage() {
    let script = format!("{} run 02 --boot-limit {} | head -n 3", env!("CARGO_BIN_EXE_lab"), limit());
    let (status, stdout, _) = finish(Command::new("sh").args(["-c", &script]));
    assert_eq!((status, stdout.lines().count()), (0, 3), "{stdout}");
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

fn a_shell_ends_with_its_input() {
    let (status, stdout, _) = run(&["shell"]);
    assert_eq!(status, 0, "{stdout}");
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

/// A header that looks right, and nothing after it.
fn a_kernel_that_is_only_a_header() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut bytes = vec![0; 4096];
    bytes[0x1f1] = 1;
    bytes[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    bytes[0x202..0x208].copy_from_slice(b"HdrS\x0d\x02");
    fs::write(file.path(), bytes).unwrap();
    let text = error(&["run", "01", "--boot-limit", "1", "--kernel", file.path().to_str().unwrap()]);
    assert!(text.contains("the emulator ended") || text.contains("the guest hangs"), "{text}");
}

fn a_guest_that_hangs_at_boot() {
    // How far it gets within a given time depends on the machine.
    for limit in ["5", "20", "80", "320"] {
        // Its first process does nothing.
        let text =
            error(&["run", "01", "--boot-limit", limit, "--append", "rdinit=/bin/busybox -- sleep 1000"]);
        assert!(text.contains(&format!("the guest hangs: it has not answered for {limit} s")), "{text}");
        assert!(text.contains("the console's last lines") || text.contains("the console is empty"), "{text}");
        if text.contains("Run /bin/busybox as init process") {
            return;
        }
    }
    panic!("it never came to its first process");
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

/// An emulator that was built without seccomp reports that, and the lab starts it once more.
fn a_qemu_without_a_sandbox() {
    let (status, stdout, stderr, starts) = run_with_qemu(
        "case \"$*\" in *-sandbox*)\n\
         echo 'qemu-system-x86_64: -sandbox support is not enabled in this QEMU binary' >&2\nexit 1\nesac",
    );
    assert_eq!((status, stdout.lines().count(), starts), (0, 1, 2), "{stderr}");
}

/// A guest that ends with a double fault boots once more, and not forever.
fn a_double_fault_while_booting() {
    let fault = &ends_with("traps: PANIC: double fault, error_code: 0x0");
    let (status, stdout, stderr, starts) =
        run_with_qemu(&format!("if [ \"$(wc -l < \"$log\")\" = 1 ]; then\n{fault}\nfi"));
    assert_eq!((status, stdout.lines().count(), starts), (0, 1, 2), "{stderr}");
    assert!(stderr.contains("Booting it again"), "{stderr}");
    let (status, _, stderr, starts) = run_with_qemu(fault);
    assert_eq!((status, starts), (1, 2), "{stderr}");
    assert!(stderr.contains("the emulator ended") && stderr.contains("PANIC: double fault"), "{stderr}");
}

/// An emulator that ends after the guest's kernel has printed this.
fn ends_with(last: &str) -> String {
    format!(
        "console=$(echo \"$*\" | sed 's/.*id=console,path=\\([^ ]*\\).*/\\1/')\necho '{last}' > \"$console\"\nexit 1"
    )
}

fn a_first_program_that_cannot_run() {
    for (last, reason, fix) in [
        ("0x00007f00", "a library is missing", "LD_LIBRARY_PATH"),
        ("0x00000004", "compiled for another processor", "-march=native"),
    ] {
        let last = format!("Kernel panic - not syncing: Attempted to kill init! exitcode={last}");
        let (status, _, stderr, _) = run_with_qemu(&ends_with(&last));
        assert_eq!(status, 1, "{stderr}");
        for words in ["the guest can't run its first program", reason, &last, fix] {
            assert!(stderr.contains(words), "{words}: {stderr}");
        }
    }
}

/// Runs stage 01 with an emulator that does this first: status, stdout, stderr, and how often the emulator was started.
fn run_with_qemu(first: &str) -> (i32, String, String, usize) {
    let folder = tempfile::tempdir().unwrap();
    let (qemu, log) = (folder.path().join(QEMU.name), folder.path().join("log"));
    let (log_path, real) = (log.display(), QEMU.find().unwrap());
    let real = real.display();
    let script = format!("#!/bin/sh\nlog={log_path}\necho start >> \"$log\"\n{first}\nexec {real} \"$@\"\n");
    fs::write(&qemu, script).unwrap();
    fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    // A first guest with KVM would be one start more.
    let arguments = ["run", "01", "--accel", "tcg", "--", "--lines", "1"];
    let (status, stdout, stderr) = finish(lab(&arguments).env("PATH", path));
    (status, stdout, stderr, fs::read_to_string(log).unwrap().lines().count())
}

fn no_room() {
    // Any file system without free blocks is too small for the guest's disks, and procfs has none.
    let (status, _, text) = finish(lab(&["run", "01"]).env("TMPDIR", "/proc"));
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("there is no room for the guest's disks"), "{text}");
}

fn a_comma_in_the_folder_for_the_guests_files() {
    let folder = tempfile::Builder::new().prefix("a,b=c,").tempdir().unwrap();
    let arguments = ["run", "01", "--", "--lines", "1"];
    let (status, stdout, stderr) = finish(lab(&arguments).env("TMPDIR", folder.path()));
    assert_eq!((status, stdout.lines().count()), (0, 1), "{stderr}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "nothing is left");
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

/// The process ID of the emulator that a lab has started, as soon as it has.
fn emulator_of(lab: u32) -> u32 {
    let mut emulator = None;
    wait_until("the lab has started an emulator", || {
        emulator = children(lab).find(|(_, stat)| stat.contains("(qemu-system")).map(|(pid, _)| pid);
        emulator.is_some()
    });
    emulator.unwrap()
}

/// The processes that a process has started, and the kernel's status of each.
fn children(parent: u32) -> impl Iterator<Item = (u32, String)> {
    fs::read_dir("/proc").unwrap().flatten().filter_map(move |entry| {
        let pid = entry.file_name().to_str()?.parse::<u32>().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let of = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()?;
        (of == parent).then_some((pid, stat))
    })
}

fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
