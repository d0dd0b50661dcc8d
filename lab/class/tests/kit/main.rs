//! The room kit. These tests run its launcher with a fake emulator that only records how it was called. With
//! `LAB_SOAK=1`, they also test whole kits, see [`whole`].

mod fake;
mod same;
mod whole;
mod workshop;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, SystemTime};

use fake::{Fake, GUEST, within};
use libtest_mimic::{Arguments, Failed, Trial};
use machine::image;
use machine::workbook::Workbook;
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::termios;
use nix::unistd::Pid;
use same::both_start_the_same_machine;

fn main() -> ExitCode {
    let trial = |(name, test): &(&str, fn())| {
        let test = *test;
        Trial::test(*name, move || {
            test();
            Ok::<_, Failed>(())
        })
    };
    let mut trials: Vec<_> = QUICK.iter().chain(workshop::QUICK).map(trial).collect();
    if std::env::var_os("LAB_SOAK").is_some() {
        trials.extend(whole::LONG.iter().map(trial));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Makes tests from functions, and names them after the functions.
#[macro_export]
macro_rules! tests {
    ($($test:path),* $(,)?) => { &[$((stringify!($test), $test as fn())),*] };
}

const QUICK: &[(&str, fn())] = tests![
    shellcheck_finds_no_fault_in_the_launcher,
    the_emulator_is_called_as_it_should_be,
    output_and_status_come_back_unchanged,
    a_signal_for_the_whole_group_does_not_lose_the_last_words,
    a_check_that_is_interrupted_leaves_nothing,
    a_launcher_that_is_killed_leaves_nothing_running,
    a_machine_that_dies_leaves_the_terminal_as_it_was,
    closed_files_are_like_empty_ones,
    bash_prints_nothing_of_its_own,
    a_shells_words_are_passed_on,
    the_guest_gets_a_windows_size,
    another_language_changes_nothing,
    a_relative_folder_for_scratch_files_works,
    the_processor_helps_only_a_guest_of_its_kind,
    a_broken_hvf_is_reported_and_not_tried_again,
    a_guest_for_arm64_is_called_as_it_should_be,
    an_old_emulator_gets_a_plain_processor,
    a_broken_kvm_is_reported_and_tried_again_after_an_hour,
    a_file_that_is_not_as_it_was_made_is_refused,
    what_a_machine_lacks_is_reported,
    a_machine_that_fails_is_reported,
    a_machine_that_hangs_is_reported,
    what_does_not_exist_is_an_error,
    what_cant_be_written_is_an_error,
    both_start_the_same_machine,
    the_same_content_gives_the_same_image,
    a_kit_is_verified_by_its_own_launcher,
    a_kit_that_is_not_finished_is_cleared_away,
];

/// A text in which each number is `#`, because this machine's numbers have any number of digits.
fn numbers(text: &str) -> String {
    let mut text = text.replace(|c: char| c.is_ascii_digit(), "#");
    while text.contains("##") {
        text = text.replace("##", "#");
    }
    text
}

/// An old QEMU's best processor does not boot all kernels, so the launcher chooses another one.
fn an_old_emulator_gets_a_plain_processor() {
    for (version, cpu) in [("5.2.0", "qemu64"), ("6.2.0", "qemu64"), ("7.2.22", "max"), ("10.0.2", "max")] {
        let fake = Fake::new(GUEST);
        let emulator = fake.at("bin/qemu-system-x86_64");
        let script = fs::read_to_string(&emulator).unwrap().replace("7.2.22", version);
        fs::write(emulator, script).unwrap();
        let text = fake.run(&["run", "01"]);
        assert!(text.ends_with("--- status 3"), "{text}");
        assert!(fake.calls().contains(&format!("-cpu\n{cpu},-erms,-fsrm\n")), "{version}");
    }
}

fn shellcheck_finds_no_fault_in_the_launcher() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Together with its parts, which it sources.
    let mut shellcheck = Command::new("shellcheck");
    shellcheck.args(["--external-sources", "--source-path=SCRIPTDIR"]);
    let output = shellcheck.args([root.join("kit/lab"), root.join("../setup")]).output();
    let output = output.expect("shellcheck is there: lab/setup test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn the_emulator_is_called_as_it_should_be() {
    let fake = Fake::new(GUEST);
    fake.run(&["run", "03", "--io", "write --count 4 /dev/scratch", "--", "--lines", "9", "100%,\"\n"]);
    insta::assert_snapshot!("called", fake.calls());
    let fake = Fake::new(GUEST);
    fake.run(&["--kernel", "7.2"]);
    let called = fake.calls();
    assert!(
        called.contains("/x86_64/vmlinuz-7.2") && called.contains(" lab.argv=shell lab.term="),
        "{called}"
    );
    assert!(!called.contains("lab.stderr"), "{called}");
}

fn output_and_status_come_back_unchanged() {
    let fake = Fake::new(GUEST);
    let text = fake.run(&["run", "03", "--kernel=7.2"]);
    assert!(text.starts_with("out\n--- stderr\n") && text.contains("\nerr\n"), "{text}");
    assert!(text.ends_with("--- status 3") && text.contains("Kernel 6.12.0-fake under emulation"), "{text}");
    // Ctrl-C reaches the program as the byte that a terminal sends, and the program's status comes back.
    let fake = Fake::new(
        "echo 'ready 1' >>status; echo up; [ \"$(head -c 1)\" != \"$(printf '\\003')\" ] || echo 'exit 4' >>status",
    );
    fake.program("head", "exec /usr/bin/head \"$@\"");
    let mut command = fake.command(&["run", "03"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    fake.wait_for_file("up");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(4));
    // When the reader goes away, the launcher asks the program to end.
    let fake = Fake::new(
        "echo 'ready 1' >>status; echo one; echo two; head -c 1 >/dev/null; echo 'exit 0' >>status",
    );
    fake.program("head", "exec /usr/bin/head \"$@\"");
    let mut command = fake.command(&["run", "03"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Sent by `timeout`, by a service manager, or when a Makefile ends.
fn a_signal_for_the_whole_group_does_not_lose_the_last_words() {
    let fake = Fake::new(
        "exec 9>stderr.out; echo 'ready 1' >>status; echo up; head -c 1 >/dev/null; echo report; echo warning >&9\n\
         echo 'exit 4' >>status",
    );
    fake.program("head", "exec /usr/bin/head \"$@\"");
    let mut command = fake.command(&["run", "03"]);
    let child = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    fake.wait_for_file("up");
    killpg(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "up\nreport\n", "{stderr}");
    assert!(stderr.contains("warning\n") && output.status.code() == Some(4), "{stderr}");
}

fn a_check_that_is_interrupted_leaves_nothing() {
    let fake = Fake::new("exec sleep 60");
    let mut command = fake.command(&["check"]);
    let child = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    fake.wait_for_file("pid");
    killpg(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    assert!(!child.wait_with_output().unwrap().status.success());
    within("its folder is gone", || fs::read_dir(fake.at("tmp")).unwrap().next().is_none());
}

/// Sent by the system when it runs out of memory, or by Ctrl-\ where the launcher is its terminal's first process.
/// The emulator and the process that reads keys must end, too.
fn a_launcher_that_is_killed_leaves_nothing_running() {
    let leader = |fake: &Fake, terminal: Option<&OwnedFd>, arguments: &[&str]| {
        let copy = || terminal.map_or(Stdio::null(), |terminal| terminal.try_clone().unwrap().into());
        // Our caller may ignore Ctrl-\, as a job in the background does, and a shell can't trap what it inherits ignored.
        let mut setsid = fake.other_command("/usr/bin/env");
        setsid
            .args(["--default-signal=INT,QUIT", "/usr/bin/setsid"])
            .arg(if terminal.is_some() { "-c" } else { "-w" })
            .arg(fake.at("kit stick/lab"))
            .args(arguments);
        setsid.process_group(0);
        setsid.stdin(copy()).stdout(copy()).stderr(copy()).spawn().unwrap()
    };
    let none = |fake: &Fake| {
        within("all have ended", || fake.processes().is_empty());
    };
    let launcher = |fake: &Fake| {
        let folder = fs::read_dir(fake.at("tmp")).unwrap().flatten().next().unwrap().path();
        let id = fs::read_to_string(folder.join(".launcher")).unwrap();
        Pid::from_raw(id.trim().parse().unwrap())
    };
    for (with_terminal, arguments) in [(true, &[][..]), (true, &["run", "01"]), (false, &[])] {
        let fake = Fake::new("echo 'ready 1' >>status; exec sleep 1000");
        let pty = openpty(None, None).unwrap();
        let mut child = leader(&fake, with_terminal.then_some(&pty.slave), arguments);
        fake.wait_for_file("ready");
        kill(launcher(&fake), Signal::SIGKILL).unwrap();
        none(&fake);
        child.wait().unwrap();
    }
    // During the boot.
    let fake = Fake::new("exec sleep 1000");
    let pty = openpty(None, None).unwrap();
    let mut child = leader(&fake, Some(&pty.slave), &[]);
    fake.wait_for_file("pid");
    (&std::fs::File::from(pty.master.try_clone().unwrap())).write_all(b"\x1c").unwrap();
    none(&fake);
    assert_eq!(fs::read_dir(fake.at("tmp")).unwrap().count(), 0);
    child.wait().unwrap();
}

/// The error must be readable.
fn a_machine_that_dies_leaves_the_terminal_as_it_was() {
    let fake = Fake::new(
        "echo 'ready 1' >>status; until [ -e ready ]; do :; done; echo 'Kernel panic - Oops' >console",
    );
    let pty = openpty(None, None).unwrap();
    let before = termios::tcgetattr(&pty.slave).unwrap();
    let copy = || Stdio::from(pty.slave.try_clone().unwrap());
    let mut child = fake.command(&[]).stdin(copy()).stdout(copy()).stderr(copy()).spawn().unwrap();
    child.wait().unwrap();
    assert!(termios::tcgetattr(&pty.slave).unwrap() == before);
    drop(pty.slave);
    let mut said = Vec::new();
    // Without its other end, the launcher fails at the end.
    let _ = std::fs::File::from(pty.master).read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("panicked\r\n  evidence: Kernel panic - Oops\r\n"), "{said:?}");
}

fn closed_files_are_like_empty_ones() {
    for (close, out) in [("<&-", "out\n"), (">&-", ""), ("<&- >&-", "")] {
        let fake = Fake::new(GUEST);
        let mut shell = fake.other_command("/bin/sh");
        shell.arg("-c").arg(format!("exec \"$0\" run 01 {close}")).arg(fake.at("kit stick/lab"));
        let text = fake.finish(&mut shell);
        assert!(text.starts_with(&format!("{out}--- stderr\nBooting")), "{close}: {text}");
        assert!(text.ends_with("--- status 3"), "{close}: {text}");
    }
}

/// bash is `/bin/sh` on Fedora, Arch and macOS, and likes to report which processes were killed.
fn bash_prints_nothing_of_its_own() {
    let fake = Fake::new(GUEST);
    let launcher = fake.at("kit stick/lab");
    let script = fs::read_to_string(&launcher).unwrap().replacen("#!/bin/sh", "#!/bin/bash", 1);
    fs::write(&launcher, script).unwrap();
    let pty = openpty(None, None).unwrap();
    for stdin in [Stdio::from(pty.slave), Stdio::null()] {
        let text = fake.finish(fake.command(&["run", "01"]).stdin(stdin));
        let said: Vec<_> = text.lines().skip_while(|line| *line != "--- stderr").collect();
        assert!(said.len() == 5 && said[4] == "--- status 3", "{text}");
    }
}

fn the_guest_gets_a_windows_size() {
    let fake = Fake::new(
        "exec 8<>stderr.in; echo 'ready 1' >>status; timeout 300 head -n 1 <&8; timeout 300 head -n 1 <&8; echo 'exit 0' >>status",
    );
    fake.program("timeout", "exec /usr/bin/timeout \"$1\" /usr/bin/\"$2\" \"$3\" \"$4\"");
    let size = Winsize { ws_row: 33, ws_col: 111, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&size), None).unwrap();
    let mut command = fake.command(&["run", "01"]);
    command.stdin(pty.slave.try_clone().unwrap()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "1 33 111");
    let other = rustix::termios::Winsize { ws_row: 44, ws_col: 99, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&pty.master, other).unwrap();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGWINCH).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "1 44 99");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// The tools that the launcher calls use the locale, too. Here is one whose output the launcher parses.
fn another_language_changes_nothing() {
    let fake = Fake::new(GUEST);
    fake.program(
        "df",
        "case ${LC_ALL-$LANG} in\n\
         de*) echo 'Dateisystem 1K-Blöcke Benutzt Verfügbar Verw% Eingehängt auf'; echo '/dev/x 1,0M 9 1.000.000 1% /' ;;\n\
         *) exec /usr/bin/df \"$@\" ;;\nesac",
    );
    fake.program(
        "sha256sum",
        "case ${LC_ALL-$LANG} in\n\
         de*) /usr/bin/sha256sum \"$@\" | sed 's/FAILED/FEHLSCHLAG/' ;;\n\
         *) exec /usr/bin/sha256sum \"$@\" ;;\nesac",
    );
    let german = |fake: &Fake, arguments: &[&str]| {
        let mut command = fake.command(arguments);
        fake.finish(command.env("LANG", "de_DE.UTF-8").env("LC_ALL", "de_DE.UTF-8").env("LANGUAGE", "de"))
    };
    let text = german(&fake, &["run", "03", "--io", "write é"]);
    assert!(text.starts_with("out\n") && text.ends_with("--- status 3"), "{text}");
    assert!(fake.calls().contains("lab.argv=run,03,--io,write%20é "), "{}", fake.calls());
    fs::write(fake.at("kit stick/x86_64/initramfs"), "a roof").unwrap();
    let text = german(&fake, &["check"]);
    assert!(text.contains("initramfs: FAILED") && text.ends_with("--- status 1"), "{text}");
}

fn a_relative_folder_for_scratch_files_works() {
    // And a launcher called from the folder above its own, by somebody who has set CDPATH.
    let fake = Fake::new(GUEST);
    let mut shell = fake.other_command("/bin/sh");
    shell.args(["kit stick/lab", "run", "01"]).current_dir(fake.at("")).env("CDPATH", ".:/srv");
    let text = fake.finish(&mut shell);
    assert!(text.starts_with("out\n") && text.ends_with("--- status 3"), "{text}");

    for folder in ["tmp", "./tmp", "kit stick/../tmp"] {
        let fake = Fake::new(GUEST);
        let mut command = fake.command(&["run", "01"]);
        let text = fake.finish(command.current_dir(fake.at("")).env("TMPDIR", folder));
        assert!(text.starts_with("out\n") && text.ends_with("--- status 3"), "{text}");
    }
}

fn a_shells_words_are_passed_on() {
    let fake = Fake::new("echo 'ready 1' >>status; read word; echo \"$word\"; echo 'exit 0' >>status");
    let mut child =
        fake.command(&[]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"hello\n");
}

/// What a kit for both architectures does on each kind of laptop, and what a kit without its own guest does.
fn the_processor_helps_only_a_guest_of_its_kind() {
    const TCG: &str = "tcg,thread=single";
    let (x86, arm) = ("max,-erms,-fsrm", "cortex-a76");
    for (system, processor, kvm, asked, guest, accel, cpu) in [
        ("Linux", "x86_64", true, "", "x86_64", "kvm", "host"),
        ("Linux", "x86_64", false, "", "x86_64", TCG, x86),
        ("Linux", "x86_64", true, "arm64", "arm64", TCG, arm),
        ("Linux", "aarch64", true, "", "arm64", "kvm", "host"),
        ("Linux", "aarch64", true, "amd64", "x86_64", TCG, x86),
        ("Darwin", "x86_64", false, "", "x86_64", "hvf", "host"),
        ("Darwin", "arm64", false, "", "arm64", "hvf", "host"),
        ("Darwin", "arm64", false, "x86_64", "x86_64", TCG, x86),
        ("Linux", "riscv64", true, "", "x86_64", TCG, x86),
    ] {
        let fake = Fake::new(GUEST).with_arm(GUEST);
        fake.pretend(system, processor);
        if kvm {
            fs::write(fake.at("kvm"), "").unwrap();
        }
        let arch = format!("--arch={asked}");
        let arguments = ["run", "01", &arch];
        let text = fake.run(if asked.is_empty() { &arguments[..2] } else { &arguments });
        assert!(text.ends_with("--- status 3"), "{text}");
        assert!(text.contains(&format!("Booting Linux 6.12 for {guest} ...")), "{text}");
        let called = fake.calls();
        let found = called.lines().skip_while(|word| *word != "-accel").nth(1);
        assert_eq!(found, Some(accel), "{system} {processor} {called}");
        assert_eq!(called.matches("-accel").count(), 1);
        assert!(called.contains(&format!("-cpu\n{cpu}\n")), "{called}");
        assert!(called.contains(&format!("/{guest}/initramfs\n")), "{called}");
    }
    let fake = Fake::new(GUEST);
    fake.pretend("Darwin", "arm64");
    let text = fake.run(&["run", "01"]);
    assert!(text.contains("Booting Linux 6.12 for x86_64 ...") && text.ends_with("--- status 3"), "{text}");
}

/// HVF has failed on a Mac with a recent processor and an old guest. Then the kit goes on with emulation.
fn a_broken_hvf_is_reported_and_not_tried_again() {
    let guest = format!("case $* in *'-accel hvf'*) echo 'hvf: error' >&2; exit 1 ;; esac\n{GUEST}");
    let fake = Fake::new(GUEST).with_arm(&guest);
    fake.pretend("Darwin", "arm64");
    let text = fake.run(&["run", "01"]);
    assert!(text.contains("hvf does not work on this machine") && text.contains("hvf: error"), "{text}");
    assert!(text.ends_with("--- status 3"), "{text}");
    assert_eq!(fake.calls().matches("-accel").count(), 2);
    let text = fake.run(&["run", "01"]);
    assert!(!text.contains("hvf") && text.ends_with("--- status 3"), "{text}");
}

fn a_guest_for_arm64_is_called_as_it_should_be() {
    let fake = Fake::new(GUEST).with_arm(GUEST);
    fake.run(&["--arch", "arm64", "run", "03"]);
    insta::assert_snapshot!("called_arm64", fake.calls());
    // What to install is for this guest.
    fs::remove_file(fake.at("bin/qemu-system-aarch64")).unwrap();
    insta::assert_snapshot!("no_qemu_arm64", fake.run(&["--arch", "arm64", "run", "03"]));
    fake.program("qemu-system-aarch64", "echo 'QEMU emulator version 6.2.0 (Debian 1:6.2)'");
    let text = fake.run(&["--arch", "arm64", "run", "03"]);
    assert!(text.contains("this QEMU is too old") && text.contains("is 6.2; the kit needs 7.2"), "{text}");
    // A check looks at both guests' files, but boots the one that is asked for.
    fake.emulator("qemu-system-aarch64", GUEST);
    let text = fake.run(&["--arch", "arm64", "check"]);
    assert!(text.contains("for arm64, x86_64;") && text.contains("Linux 6.12 for arm64 was up"), "{text}");
    fs::write(fake.at("kit stick/x86_64/initramfs"), "a roof").unwrap();
    let text = fake.run(&["--arch", "arm64", "check"]);
    assert!(text.contains("x86_64/initramfs: FAILED"), "{text}");
    let text = fake.run(&["--arch", "arm64", "run", "03"]);
    assert!(text.ends_with("--- status 3"), "the other guest's files are not needed: {text}");
}

fn a_broken_kvm_is_reported_and_tried_again_after_an_hour() {
    let hangs = format!(
        "case $* in *kvm*) echo 'KVM internal error. Suberror: 1' >&2; exec sleep 1000 ;; esac\n{GUEST}"
    );
    let fake = Fake::new(&hangs);
    fs::write(fake.at("kvm"), "").unwrap();
    let text = fake.run(&["run", "01"]);
    let (before, after) = text.split_once(", up after ").unwrap();
    let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
    let text = format!("{before}, up after [N]{after}");
    insta::assert_snapshot!("kvm_hangs", text.replace("\nerr\n", "\n"));
    assert_eq!(fake.calls().matches("-accel").count(), 2);
    let text = fake.run(&["run", "01"]);
    assert!(!text.contains("kvm") && text.ends_with("--- status 3"), "{text}");
    assert_eq!(fake.calls().matches("-accel\nkvm").count(), 1, "it is remembered");
    let memory = fs::File::options().write(true).open(fake.at("cache/bpf-storage-workbook/kit")).unwrap();
    memory.set_modified(SystemTime::now() - Duration::from_secs(61 * 60)).unwrap();
    assert!(fake.run(&["run", "01"]).contains("kvm does not work"));
    assert_eq!(fake.calls().matches("-accel\nkvm").count(), 2, "but not for ever");
    let text = numbers(&fake.run(&["check"]));
    insta::assert_snapshot!("check_kvm_hangs", text);
    assert_eq!(fake.calls().matches("-accel\nkvm").count(), 3, "a check tries it again");
    // After a repair, it is used again.
    fake.guest(GUEST);
    let text = fake.run(&["check"]);
    assert!(text.contains(" with kvm\n") && text.ends_with("--- status 0"), "{text}");
    assert!(fake.run(&["run", "01"]).contains(" with kvm, up after"));
}

fn a_file_that_is_not_as_it_was_made_is_refused() {
    let fake = Fake::new(GUEST);
    let kernel = fake.at("kit stick/x86_64/vmlinuz-6.12");
    fs::write(&kernel, "a kernfl").unwrap();
    insta::assert_snapshot!("flipped", fake.run(&["run", "01"]));
    assert_eq!(fake.calls(), "", "nothing was started");
    let text = fake.run(&["run", "01", "--kernel", "7.2"]);
    assert!(text.ends_with("--- status 3"), "another kernel can be used: {text}");
    let text = fake.run(&["check"]);
    assert!(text.contains("x86_64/vmlinuz-6.12: FAILED") && text.ends_with("--- status 1"), "{text}");
    let fake = Fake::new(GUEST);
    fs::remove_file(fake.at("kit stick/x86_64/initramfs")).unwrap();
    let text = fake.run(&["run", "01"]);
    assert!(text.contains("the kit is damaged") && text.contains("initramfs"), "{text}");
    // The file that names the default kernel must match its checksum like the others.
    for (file, content) in
        [("default", Some("6.13\n")), ("default", Some("")), ("default", None), ("vmlinuz-6.12", None)]
    {
        let fake = Fake::new(GUEST);
        let path = fake.at("kit stick/x86_64").join(file);
        content.map_or_else(|| fs::remove_file(&path), |content| fs::write(&path, content)).unwrap();
        for arguments in [&["check"][..], &["run", "01"]] {
            let text = fake.run(arguments);
            assert!(
                text.contains("the kit is ") && text.contains(file) && text.ends_with("--- status 1"),
                "{text}"
            );
        }
    }
    // The list itself may be damaged.
    let fake = Fake::new(GUEST);
    let sums = fake.at("kit stick/SHA256SUMS");
    let whole = fs::read_to_string(&sums).unwrap();
    let without = |file: &str| -> String {
        whole.split_inclusive('\n').filter(|line| !line.ends_with(&format!("  {file}\n"))).collect()
    };
    for damaged in
        [without("x86_64/initramfs"), without("lab"), whole.replacen(|c: char| c.is_ascii_hexdigit(), "?", 1)]
    {
        fs::write(&sums, damaged).unwrap();
        let text = fake.run(&["check"]);
        assert!(text.contains("the kit is damaged") && text.ends_with("--- status 1"), "{text}");
    }
}

fn what_a_machine_lacks_is_reported() {
    let fake = Fake::new(GUEST);
    insta::assert_snapshot!("check", numbers(&fake.run(&["check"])));
    fs::remove_file(fake.at("bin/qemu-system-x86_64")).unwrap();
    insta::assert_snapshot!("no_qemu", fake.run(&["run", "01"]));
    insta::assert_snapshot!("check_no_qemu", numbers(&fake.run(&["check"])));
    fake.program("qemu-system-x86_64", "echo 'QEMU emulator version 4.2.1 (Debian 1:4.2)'");
    let text = fake.run(&["run", "01"]);
    assert!(text.contains("this QEMU is too old") && text.contains("is 4.2; the kit needs 5.2"), "{text}");
    fake.program(
        "qemu-system-x86_64",
        "echo 'error while loading shared libraries: libfoo.so' >&2; exit 127",
    );
    let text = fake.run(&["run", "01"]);
    assert!(text.contains("QEMU does not run") && text.contains("libfoo.so"), "{text}");

    let fake = Fake::new(GUEST);
    fs::write(fake.at("meminfo"), "MemAvailable: 300000 kB\n").unwrap();
    insta::assert_snapshot!("little_memory", fake.run(&["run", "01"]));
    let fake = Fake::new(GUEST);
    fake.program(
        "df",
        "echo 'Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/x y 9 9 1024 99% /mnt/USB stick'",
    );
    insta::assert_snapshot!("little_room", fake.run(&["run", "01"]));
    let text = fake.finish(fake.command(&["run", "01"]).env("TMPDIR", fake.at("nowhere")));
    assert!(text.contains("can't be made\n") && text.contains("nowhere/lab-kit-"), "{text}");
    // FAT has no pipes.
    fake.program("mkfifo", "echo \"mkfifo: cannot create fifo: Operation not permitted\" >&2; exit 1");
    insta::assert_snapshot!("no_pipes", fake.run(&["run", "01"]));
    let text = fake.run(&["check"]);
    assert!(text.contains("MISSING  room") && text.ends_with("--- status 1"), "{text}");

    let fake = Fake::new(GUEST);
    fs::remove_file(fake.at("bin/sha256sum")).unwrap();
    insta::assert_snapshot!("no_sums", fake.run(&["run", "01"]));
    // If the system does not report a value, the launcher goes on.
    let fake = Fake::new(GUEST);
    fs::write(fake.at("meminfo"), "MemTotal: 4000000 kB\n").unwrap();
    fake.program("df", "printf 'Filesystem\\nx - - - - /\\n'");
    let text = fake.run(&["check"]);
    assert!(text.ends_with("All is well: ./lab\n--- stderr\n--- status 0"), "{text}");
}

fn a_machine_that_fails_is_reported() {
    for (guest, words) in [
        ("echo \"qemu: cannot set up guest memory 'pc.ram'\" >&2; exit 1", "there is too little memory"),
        ("echo 'qemu: No space left on device' >&2; exit 1", "there is no room for the guest's disks"),
        ("echo 'qemu: no such device' >&2; exit 1", "the emulator ended\n  evidence: qemu: no such device"),
        (
            "echo 'Kernel panic - not syncing: VFS' >console; exit 0",
            "the guest's kernel panicked\n  evidence: Kernel panic",
        ),
        (
            "echo 'failed no disk\nfailed   evidence: none' >>status; exit 0",
            "Error: no disk\n  evidence: none",
        ),
        ("echo 'ready 1' >>status; echo 'Kernel panic - Oops' >console", "the guest's kernel panicked"),
    ] {
        let text = Fake::new(guest).run(&["run", "01"]);
        assert!(text.contains(words) && text.ends_with("--- status 1"), "{words}: {text}");
    }
}

fn a_machine_that_hangs_is_reported() {
    for (guest, words) in [
        (
            "echo 'Booting' >console; exec sleep 1000",
            "  evidence: the console's last lines:\n            Booting",
        ),
        ("echo 'qemu: warning: no AVX' >&2; exec sleep 1000", "  evidence: QEMU: qemu: warning: no AVX"),
    ] {
        // How soon it prints something depends on the machine.
        let is_reported = ["1", "4", "16", "64", "256"].into_iter().any(|limit| {
            let fake = Fake::new(guest);
            let text = fake.finish(fake.command(&["run", "01"]).env("LAB_BOOT_LIMIT", limit));
            let hangs = format!("the guest hangs: it has not answered for {limit} s\n");
            assert!(text.contains(&hangs) && text.ends_with("--- status 1"), "{text}");
            text.contains(&format!("{hangs}{words}"))
        });
        assert!(is_reported, "{words}");
    }
}

fn what_does_not_exist_is_an_error() {
    let fake = Fake::new(GUEST);
    insta::assert_snapshot!("help", fake.run(&["--help"]));
    for (arguments, words) in [
        (&["swim"][..], "there is no command swim"),
        (&["--kernel", "4.19"], "this kit has no kernel 4.19 for x86_64\n  evidence: it has 6.12, 7.2"),
        (&["--kernel", "6.1"], "this kit has no kernel 6.1 for x86_64\n  evidence: it has 6.12, 7.2"),
        (&["--kernel", "6.1", "check"], "this kit has no kernel 6.1 for x86_64"),
        (&["--kernel"], "--kernel needs a version"),
        (&["--arch", "arm64"], "this kit has no guest for arm64\n  evidence: it has x86_64"),
        (&["--arch", "riscv64"], "this kit has no guest for riscv64"),
        (&["--arch"], "--arch needs an architecture"),
        (&["run", "42"], "there is no stage or example 42\n  evidence: there are 01 03 bitehist"),
        (&["run", "bitehits", "--", "1"], "there is no stage or example bitehits\n"),
        (&["attach"], "there is no running machine to attach to"),
        (&["attach", "--now", "x"], "attach takes no arguments\n  evidence: it was called with --now x"),
    ] {
        let text = fake.run(arguments);
        assert!(text.contains(words) && text.ends_with("--- status 1"), "{text}");
    }
    assert_eq!(fake.calls(), "", "no machine was started");
    for program in ["3", "03", "stage03", "stage03_bio_latency_map", "bitehist"] {
        let text = fake.run(&["run", program]);
        assert!(text.ends_with("--- status 3"), "{text}");
    }
}

fn what_cant_be_written_is_an_error() {
    let fake = Fake::new(GUEST);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = fake.command(&["run", "03"]).stdout(full).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("Error: cannot write what the program printed\n"), "{stderr}");
    assert!(stderr.contains("No space left on device") && output.status.code() == Some(1), "{stderr}");
}

fn the_same_content_gives_the_same_image() {
    let workbook = Workbook::read().unwrap();
    let binaries = workbook.build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let images = ["a", "b"].map(|name| {
        let files = vec![("etc/motd", b"hello".to_vec())];
        let copies = vec![(binaries[0].clone(), "usr/bin/copy".into())];
        let content =
            image::Content { binaries: binaries.clone(), files, copies, ..image::Content::default() };
        let path = folder.path().join(name);
        image::write(&path, &content).unwrap();
        fs::read(path).unwrap()
    });
    assert!(images[0] == images[1] && !images[0].is_empty());
}

/// This must also work from a stick that is mounted without execute permission.
fn a_kit_is_verified_by_its_own_launcher() {
    for (guest, verdict) in [
        (
            "echo 'ready 1' >>status; echo 'exit 0' >>status",
            "\nEvery stage and example that a kernel can run ran on kernel 6.12 for x86_64, kernel 7.2 for x86_64, kernel 6.12 for arm64.\n",
        ),
        (
            GUEST,
            "failed: kernel 6.12 for x86_64, kernel 7.2 for x86_64, kernel 6.12 for arm64; see their errors above",
        ),
    ] {
        let fake = Fake::new(guest).with_arm(guest);
        fs::set_permissions(fake.at("kit stick/lab"), fs::Permissions::from_mode(0o644)).unwrap();
        let mut verify = fake.other_command(env!("CARGO_BIN_EXE_class"));
        verify.args(["bundle", "--verify"]).arg(fake.at("kit stick"));
        let text = fake.finish(&mut verify);
        assert!(text.contains(verdict) && fake.calls().matches("lab.argv=demo").count() == 3, "{text}");
        assert_eq!(text.ends_with("--- status 0"), guest != GUEST, "{text}");
    }
}

fn a_kit_that_is_not_finished_is_cleared_away() {
    let folder = tempfile::tempdir().unwrap();
    let cargo = folder.path().join("cargo");
    let compiles = folder.path().join("compiles");
    let real = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let script = format!(
        "#!/bin/sh\n[ $1 != build ] || {{ : >'{}'; exec sleep 100000; }}\nexec {real} \"$@\"\n",
        compiles.display()
    );
    fs::write(&cargo, script).unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    let stick = folder.path().join("stick");
    let mut bundle = Command::new(env!("CARGO_BIN_EXE_class"));
    bundle.args(["bundle", "--kernels", "6.12", "--out"]).arg(stick.join("kit")).env("CARGO", &cargo);
    let child = bundle.process_group(0).stderr(Stdio::piped()).spawn().unwrap();
    within("it compiles", || compiles.exists());
    killpg(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    // Wait until the processes that it started have ended, too: they have its stderr.
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("Error: interrupted") && output.status.code() == Some(1), "{stderr}");
    assert_eq!(fs::read_dir(&stick).unwrap().count(), 0, "{stderr}");
}
