//! The room kit's launcher, with a fake emulator that only records how it was called. `whole.rs` tests whole kits.

mod fake;
mod same;
mod workshop;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use machine::image;
use machine::workbook::Workbook;
use nix::pty::openpty;
use nix::sys::signal::{Signal, killpg};
use nix::sys::termios;
use nix::unistd::Pid;

use crate::fake::{Fake, GUEST, has, within};

/// A text in which each number is `#`, because this machine's numbers have any number of digits.
fn numbers(text: &str) -> String {
    let mut text = text.replace(|c: char| c.is_ascii_digit(), "#");
    while text.contains("##") {
        text = text.replace("##", "#");
    }
    text
}

#[test]
fn shellcheck_finds_no_fault_in_the_scripts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let scripts = ["kit/lab", "kit/keep", "../setup", "../distro-test", "../release", "../release-test"]
        .map(|script| root.join(script));
    let output = Command::new("shellcheck").args(scripts).output();
    let output = output.expect("shellcheck is there: lab/setup test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_emulator_is_called_as_it_should_be() {
    for (name, arguments) in
        [("called", &["shell"][..]), ("called_arm64", &["--arch", "arm64", "--kernel=6.12", "demo"])]
    {
        let fake = Fake::new(GUEST);
        has(&fake.run(arguments), &["out\n--- stderr\nBooting Linux 6.12 for ", "--- status 3"]);
        insta::assert_snapshot!(name, fake.calls().replace(|c: char| !c.is_ascii(), ""));
    }
}

/// bash is `/bin/sh` on Fedora, Arch and macOS. Somebody has set CDPATH, or uses another language.
#[test]
fn the_launcher_works_wherever_it_is_called() {
    let fake = Fake::new(GUEST);
    let df = "case ${LC_ALL-$LANG} in\n\
         de*) echo 'Dateisystem 1K-Blöcke Benutzt Verfügbar Verw% Eingehängt auf'; echo '/dev/x 1,0M 9 1.000.000 1% /' ;;\n\
         *) exec /usr/bin/df \"$@\" ;;\nesac";
    fake.program("df", df);
    for shell in ["/bin/sh", "/bin/bash"] {
        let mut command = fake.other_command(shell);
        command.args(["kit stick/lab", "shell"]).current_dir(fake.at("")).env("CDPATH", ".:/srv");
        let text = fake.finish(command.env("LANG", "de_DE.UTF-8").env("TERM", "a b"));
        assert_eq!(text, "out\n--- stderr\nBooting Linux 6.12 for x86_64 ...\n--- status 3");
    }
    assert_eq!(fake.calls().matches(" -- dumb 24 80 sh\n").count(), 2, "{}", fake.calls());
}

/// QEMU may be killed before it gives the terminal back.
#[test]
fn the_terminal_is_as_it_was() {
    let fake = Fake::new("stty raw rows 33 cols 111; kill -9 $$");
    let pty = openpty(None, None).unwrap();
    let size = rustix::termios::Winsize { ws_row: 33, ws_col: 111, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&pty.slave, size).unwrap();
    let before = termios::tcgetattr(&pty.slave).unwrap();
    let mut command = fake.command(&["shell"]);
    let output = command.stdin(Stdio::from(pty.slave.try_clone().unwrap())).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    has(&fake.calls(), &[" -- xterm 33 111 sh\n"]);
    assert!(termios::tcgetattr(&pty.slave).unwrap() == before);
}

#[test]
fn the_processor_helps_only_a_guest_of_its_kind() {
    for (system, processor, arch, other, accel, cpu) in [
        ("Linux", "x86_64", "x86_64", "arm64", "kvm", "max,-erms,-fsrm"),
        ("Linux", "aarch64", "arm64", "x86_64", "kvm", "max"),
        ("Darwin", "arm64", "arm64", "x86_64", "hvf", "max"),
        ("Darwin", "x86_64", "x86_64", "arm64", "hvf", "max,-erms,-fsrm"),
    ] {
        let fake = Fake::new(GUEST);
        fake.pretend(system, processor);
        fs::write(fake.at("kvm"), "").unwrap();
        has(&fake.run(&["demo"]), &["--- status 3"]);
        let words = format!("\n-accel\n{accel}\n-accel\ntcg,thread=single\n-cpu\n{cpu}\n");
        has(&fake.calls(), &[&words, &format!("/{arch}/vmlinuz-6.12\n")]);
        fake.run(&["--arch", other, "demo"]);
        fake.run(&["--emulate", "demo"]);
        assert_eq!(fake.calls().matches(&format!("\n{accel}\n")).count(), 1, "{}", fake.calls());
    }
}

#[test]
fn an_old_emulator_gets_a_plain_processor_or_is_refused() {
    let fake = Fake::new(GUEST);
    for (version, cpu) in [("5.2.0", "qemu64"), ("6.2.0", "qemu64"), ("7.2.22", "max"), ("10.0.2", "max")] {
        fake.emulator("qemu-system-x86_64", version, GUEST);
        fake.run(&["demo"]);
        has(&fake.calls(), &[&format!("-cpu\n{cpu},-erms,-fsrm\n")]);
        fs::remove_file(fake.at("calls")).unwrap();
    }
    fake.emulator("qemu-system-x86_64", "4.2.1", GUEST);
    has(&fake.run(&["demo"]), &["this QEMU is too old", "is 4.2; the kit needs 5.2"]);
    let broken = "echo 'error while loading shared libraries: libfoo.so' >&2; exit 127";
    fake.program("qemu-system-x86_64", broken);
    has(&fake.run(&["demo"]), &["QEMU does not run", "libfoo.so"]);
}

#[test]
fn a_file_that_is_not_as_it_was_made_is_refused() {
    for file in ["x86_64/vmlinuz-6.12", "x86_64/initramfs", "x86_64/default", "keep"] {
        for damage in [Some("damage"), None] {
            let fake = Fake::new(GUEST);
            let path = fake.at("kit stick").join(file);
            damage.map_or_else(|| fs::remove_file(&path), |text| fs::write(&path, text)).unwrap();
            if file.ends_with("vmlinuz-6.12") && damage.is_some() {
                insta::assert_snapshot!("flipped", fake.run(&["demo"]));
                // Another one can be used.
                has(&fake.run(&["--kernel", "7.2", "demo"]), &["--- status 3"]);
                fs::remove_file(fake.at("calls")).unwrap();
            }
            for command in ["demo", "check"] {
                has(&fake.run(&["--arch", "x86_64", command]), &["kit", "--- status 1"]);
            }
            assert_eq!(fake.calls(), "", "nothing was started");
        }
    }
    // The list itself may be damaged.
    let fake = Fake::new(GUEST);
    let sums = fake.at("kit stick/SHA256SUMS");
    let whole = fs::read_to_string(&sums).unwrap();
    for lost in ["  x86_64/initramfs\n", "  lab\n", ""] {
        let damaged: String = whole.split_inclusive('\n').filter(|line| !line.ends_with(lost)).collect();
        fs::write(&sums, damaged).unwrap();
        has(&fake.run(&["check"]), &["the kit is damaged", "--- status 1"]);
    }
}

#[test]
fn what_a_machine_lacks_is_reported() {
    let fake = Fake::new("echo 'exit 0' >status");
    insta::assert_snapshot!("check", numbers(&fake.run(&["check"])));
    fs::remove_file(fake.at("bin/qemu-system-x86_64")).unwrap();
    insta::assert_snapshot!("check_no_qemu", numbers(&fake.run(&["check"])));
    let fake = Fake::new(GUEST);
    fake.memory(300);
    insta::assert_snapshot!("little_memory", fake.run(&["demo"]));
    fake.memory(4000);
    let df = "echo 'Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/x y 9 9 1024 99% /mnt/USB stick'";
    fake.program("df", df);
    insta::assert_snapshot!("little_room", fake.run(&["demo"]));
    fs::remove_file(fake.at("bin/sha256sum")).unwrap();
    fake.program("df", "printf 'Filesystem\\nx - - - - /\\n'");
    has(&fake.run(&["demo"]), &["Error: this machine has no program to check the kit with\n"]);
}

#[test]
fn a_machine_that_fails_is_reported() {
    let fake = Fake::new("echo 'qemu: no such device' >&2; exit 1");
    has(&fake.run(&["demo"]), &["qemu: no such device\nError: the machine ended before its program\n"]);
    let fake = Fake::new(&format!("case $* in *kvm*) exit 134 ;; esac\n{GUEST}"));
    fs::write(fake.at("kvm"), "").unwrap();
    has(&fake.run(&["demo"]), &["out\n", "kvm does not work on this laptop"]);
    // KVM may hang, which a check reports.
    let fake = Fake::new("echo 'KVM internal error'; exec sleep 1000");
    fs::write(fake.at("kvm"), "").unwrap();
    let text = fake.finish(fake.command(&["check"]).env("LAB_BOOT_LIMIT", "2"));
    has(&text, &["the guest does not boot with kvm\n", "--emulate check", "evidence: KVM internal error\n"]);
    has(&text, &["--- status 1"]);
}

#[test]
fn what_does_not_exist_is_an_error() {
    let fake = Fake::new(GUEST);
    insta::assert_snapshot!("help", fake.run(&["--help"]));
    for (arguments, words) in [
        (&["swim"][..], "there is no command or option swim"),
        (&["run", "03"], "there is no command or option run"),
        (&["--kernel", "4.19"], "this kit has no kernel 4.19 for x86_64\n  evidence: it has 6.12, 7.2"),
        (&["--kernel", "6.1", "check"], "this kit has no kernel 6.1 for x86_64"),
        (&["--kernel"], "--kernel needs a value"),
        (&["--arch", "riscv64"], "this kit has no guest for riscv64\n  evidence: it has arm64, x86_64"),
        (&["--port", "80x"], "--port needs a number"),
        (&["--port="], "--port needs a number"),
    ] {
        has(&fake.run(arguments), &[words, "--- status 1"]);
    }
    assert_eq!(fake.calls(), "", "no machine was started");
}

#[test]
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
#[test]
fn each_kernel_of_a_kit_is_verified() {
    let kernels = ", kernel 6.12 for arm64, check for x86_64, kernel 6.12 for x86_64, kernel 7.2 for x86_64;";
    for (guest, words) in [
        ("echo 'exit 0' >status", ["ran on it, for arm64, x86_64.\n", "--- status 0"]),
        (GUEST, [kernels, "--- status 1"]),
    ] {
        let fake = Fake::new(guest);
        fs::set_permissions(fake.at("kit stick/lab"), fs::Permissions::from_mode(0o644)).unwrap();
        let mut of_kit = fake.other_command("/bin/sh");
        let mut of_clone = fake.other_command(env!("CARGO_BIN_EXE_class"));
        of_kit.arg(fake.at("kit stick/lab")).arg("verify");
        of_clone.args(["bundle", "--verify"]).arg(fake.at("kit stick"));
        has(&fake.finish(&mut of_kit), &words);
        has(&fake.finish(&mut of_clone), &words);
        assert_eq!(fake.calls().matches(" guest demo\n").count(), 6, "{}", fake.calls());
    }
    let fake = Fake::new(GUEST);
    let text =
        fake.finish(fake.other_command(env!("CARGO_BIN_EXE_class")).args(["bundle", "--verify", "bin"]));
    has(&text, &["Error: bin is no kit\n", "--- status 1"]);
}

#[test]
fn a_kit_that_is_not_finished_is_cleared_away() {
    let folder = tempfile::tempdir().unwrap();
    let [cargo, compiles, stick] = ["cargo", "compiles", "stick"].map(|name| folder.path().join(name));
    let real = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let waits = format!("[ $1 != build ] || {{ : >'{}'; exec sleep 100000; }}", compiles.display());
    fs::write(&cargo, format!("#!/bin/sh\n{waits}\nexec {real} \"$@\"\n")).unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
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
