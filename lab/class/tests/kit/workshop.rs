//! `./lab workshop`, with a fake emulator whose guest is up immediately.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::pty::openpty;
use nix::sys::signal::{Signal, kill};
use nix::sys::termios;
use nix::unistd::Pid;

use crate::{Fake, tests, within};

/// Tests that take seconds.
pub const QUICK: &[(&str, fn())] = tests![
    the_workshop_gets_a_network_and_a_file_for_the_work,
    the_address_is_shown_and_only_ctrl_c_reaches_the_guest,
    another_kernel_continues_with_the_work,
    a_fresh_start_discards_the_work,
    a_port_that_is_taken_is_left_to_who_has_it,
    a_second_start_finds_the_first,
    a_launcher_that_was_killed_is_not_found,
    a_folder_may_have_commas_and_blanks,
    a_kit_without_a_workshop_or_with_a_damaged_one_is_refused,
    a_workshop_that_does_not_start_is_reported,
    only_an_address_of_the_workshop_is_opened,
    what_the_workshop_needs_is_checked,
];

/// Reports its address, and ends when it gets a byte, which it keeps.
const SERVER: &str = r#"
port=${*##*hostfwd=tcp:127.0.0.1:}; port=${port%%-*}
case " $TAKEN " in *" $port "*) echo "qemu: Could not set up host forwarding rule 'tcp:127.0.0.1:$port-:$port'" >&2; exit 1 ;; esac
case $* in *'-M none'*) exit ;; esac
umask >mask
[ -x kept/keep ] || exit
echo 'ready 6.12.0-fake' >>status
printf 'url http://127.0.0.1:%s/#token=secret' "$port" >>status
echo >>status
head -c 1 >"$KEY"
echo 'exit 0' >>status
"#;

impl Fake {
    fn with_workshop(guest: &str) -> Self {
        let fake = Self::new(guest);
        fs::write(fake.at("kit stick/x86_64/workshop"), "a root with a compiler").unwrap();
        fake.sum_up();
        fs::write(fake.at("meminfo"), "MemAvailable: 3000000 kB\n").unwrap();
        fake.program("head", "exec /usr/bin/head \"$@\"");
        fake.program("xdg-open", &format!("echo \"$@\" >>'{}'", fake.at("opened").display()));
        fake
    }

    fn kept(&self, name: &str) -> PathBuf {
        self.at("cache/bpf-storage-workbook/workshop").join(name)
    }

    fn keep(&self, name: &str, text: &str) {
        fs::create_dir_all(self.kept("")).unwrap();
        fs::write(self.kept(name), text).unwrap();
    }

    fn workshop(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&["workshop"]);
        command.args(arguments).env("DISPLAY", ":0").env("KEY", self.at("key"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts it, and waits until it has shown its address.
    fn started(&self, command: &mut Command) -> Child {
        let written = || fs::metadata(self.kept("port")).and_then(|file| file.modified()).ok();
        let before = written();
        let child = command.spawn().unwrap();
        within("the address", || written() != before);
        child
    }

    /// Ends it as Ctrl-C does; returns what it printed.
    fn end(&self, child: Child) -> String {
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(fs::read(self.at("key")).unwrap(), b"\x03");
        assert_eq!(fs::read_dir(self.at("tmp")).unwrap().count(), 0);
        assert!(!self.kept("running").exists());
        self.is_idle();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        self.plain(&format!("{stdout}--- stderr\n{stderr}--- status {}", output.status.code().unwrap()))
    }

    /// A second after the end, a last sleep has ended, too.
    fn is_idle(&self) {
        within("all have ended", || self.processes().is_empty());
    }

    /// One session from its start to its end.
    fn session(&self, arguments: &[&str]) -> String {
        let child = self.started(&mut self.workshop(arguments));
        self.end(child)
    }
}

fn the_workshop_gets_a_network_and_a_file_for_the_work() {
    let fake = Fake::with_workshop(SERVER);
    let text = fake.session(&[]);
    let said = "The workshop has ended. Your work is in [folder]/cache/bpf-storage-workbook/workshop, and";
    assert!(text.contains(said), "{text}");
    let text = text.split_once(", up after ").map(|(before, _)| before.to_owned()).unwrap_or(text);
    assert!(text.contains("The workshop: http://127.0.0.1:8017/#token=secret\n"), "{text}");
    insta::assert_snapshot!("workshop_called", fake.calls());
    // If the guest could not hand over the work, it says so itself.
    let fake = Fake::with_workshop(&SERVER.replace("exit 0", "exit 1"));
    let text = fake.session(&[]);
    assert!(text.ends_with("--- status 1") && !text.contains("Your work is in"), "{text}");
    // A guest for arm64 has the same.
    let fake = Fake::with_workshop(SERVER).with_arm(SERVER);
    fs::write(fake.at("kit stick/arm64/workshop"), "a root").unwrap();
    fake.sum_up();
    let child = fake.started(fake.workshop(&["--arch", "arm64"]).args(["--kernel", "6.12"]));
    assert!(fake.end(child).ends_with("--- status 0"));
    assert!(
        fake.calls().contains("/arm64/workshop\n") && fake.calls().contains(",guestfwd="),
        "{}",
        fake.calls()
    );
}

fn the_address_is_shown_and_only_ctrl_c_reaches_the_guest() {
    let fake = Fake::with_workshop(SERVER);
    let pty = openpty(None, None).unwrap();
    let before = termios::tcgetattr(&pty.slave).unwrap();
    let copy = || Stdio::from(pty.slave.try_clone().unwrap());
    let mut command = fake.workshop(&[]);
    let mut child = fake.started(command.stdin(copy()).stdout(copy()).stderr(copy()));
    // Before the launcher shows anything, others could have read its files.
    for file in ["running", "port"] {
        assert_eq!(fs::metadata(fake.kept(file)).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
    }
    assert_eq!(fs::metadata(fake.kept("")).unwrap().permissions().mode() & 0o777, 0o700);
    within("the browser", || fake.at("opened").exists());
    (&File::from(pty.master.try_clone().unwrap())).write_all(b"a\r\x04\x1a\n\x03").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(fs::read(fake.at("key")).unwrap(), b"\x03");
    assert_eq!(fs::read_to_string(fake.at("opened")).unwrap(), "http://127.0.0.1:8017/#token=secret\n");
    assert!(termios::tcgetattr(&pty.slave).unwrap() == before);
    fake.is_idle();
    assert_eq!(fs::read_dir(fake.at("tmp")).unwrap().count(), 0);
    // Ctrl-], which the terminal turns into a signal, ends the machine, even if the server is busy.
    let fake = Fake::with_workshop(&SERVER.replace("head -c 1", "exec sleep 1000; head -c 1"));
    let pty = openpty(None, None).unwrap();
    let copy = || Stdio::from(pty.slave.try_clone().unwrap());
    let mut command = fake.workshop(&["--no-browser"]);
    let mut child = fake.started(command.stdin(copy()).stdout(copy()).stderr(copy()));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    fake.is_idle();
    assert!(!fake.at("opened").exists() && !fake.kept("running").exists());
    drop(command);
    drop(pty.slave);
    let mut said = Vec::new();
    let _ = File::from(pty.master).read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said);
    let shown = "The workshop: http://127.0.0.1:8017/#token=secret\r\nCtrl-C ends it. Your work is kept in /";
    assert!(said.contains(shown), "{said}");
}

fn another_kernel_continues_with_the_work() {
    // The first guest asks for the next kernel, as the page does, and the second one waits for a key.
    let guest = |next: &str, status: u8| {
        SERVER
            .replace(
                "echo 'ready",
                "first=; [ -e \"$KEY.first\" ] || { first=yes; : >\"$KEY.first\"; }\necho 'ready",
            )
            .replace(
                "head -c 1",
                &format!(
                    "[ -z \"$first\" ] || {{ printf '{next}\\nexit {status}\\n' >>status; exit; }}; head -c 1"
                ),
            )
    };
    let fake = Fake::with_workshop(&guest("next 7.2", 0));
    let child = fake.started(&mut fake.workshop(&[]));
    within("the second guest", || fake.calls().contains("vmlinuz-7.2\n"));
    within("its address", || {
        let folder = fs::read_dir(fake.at("tmp")).unwrap().flatten().next();
        folder.is_some_and(|folder| folder.path().join("ready").exists())
    });
    let text = fake.end(child);
    assert!(text.ends_with("--- status 0"), "{text}");
    assert!(
        text.contains("Booting Linux 6.12 for x86_64 ...\n") && text.contains("Booting Linux 7.2 for"),
        "{text}"
    );
    assert_eq!(text.matches("The workshop: http://127.0.0.1:8017/#token=secret\n").count(), 2, "{text}");
    assert_eq!(fs::read_to_string(fake.at("opened")).unwrap().lines().count(), 1, "the page is open already");
    let called = fake.calls();
    for kernel in ["6.12", "7.2"] {
        let argv = format!("lab.argv=workshop,--port,8017,--kernel,{kernel},--kernels,6.12%2C7.2 ");
        assert!(called.contains(&argv), "{called}");
    }
    // It did not ask for one, the server has failed, or there is no such kernel.
    for (next, status, end) in [
        ("", 0, "--- status 0"),
        ("next ../7.2", 0, "--- status 0"),
        ("next 7.2", 1, "--- status 1"),
        ("next 5.4", 0, "--- status 1"),
    ] {
        let fake = Fake::with_workshop(&guest(next, status));
        let text = fake.finish(&mut fake.workshop(&["--no-browser"]));
        assert!(text.ends_with(end) && !fake.calls().contains("vmlinuz-7.2"), "{next} {text}");
    }
}

fn a_fresh_start_discards_the_work() {
    let fake = Fake::with_workshop(SERVER);
    fake.keep("work.zip", "older");
    let text = fake.session(&["--fresh"]);
    let said = "Discarded the work that was in [folder]/cache/bpf-storage-workbook/workshop\n";
    assert!(text.contains(said), "{text}");
    assert!(!fake.kept("work.zip").exists());
    assert!(!fake.session(&[]).contains("Discarded"));
}

fn a_port_that_is_taken_is_left_to_who_has_it() {
    // The first ones are taken.
    let fake = Fake::with_workshop(SERVER);
    let child = fake.started(fake.workshop(&[]).env("TAKEN", "8017 8018"));
    let text = fake.end(child);
    assert!(text.contains("The workshop: http://127.0.0.1:8019/"), "{text}");
    assert!(fake.calls().contains(" lab.argv=workshop,--port,8019,"), "{}", fake.calls());
    // The last one is used again.
    let text = fake.finish(fake.workshop(&["--port=9000"]).env("TAKEN", "9000"));
    insta::assert_snapshot!("workshop_port", text.split_once("--- stderr\n").unwrap().1);
    assert!(fs::read_to_string(fake.kept("port")).unwrap() == "8019\n" && !fake.kept("running").exists());
    assert!(fake.session(&[]).contains("The workshop: http://127.0.0.1:8019/"));
    // Not the one that somebody named in between.
    assert!(fake.session(&["--port", "9000"]).contains("The workshop: http://127.0.0.1:9000/"));
    let child = fake.started(fake.workshop(&[]).env("TAKEN", "9000"));
    assert!(fake.end(child).contains("The workshop: http://127.0.0.1:8017/"));
    // Somebody takes it in the last moment.
    let fake = Fake::with_workshop(
        "case $* in *'-M none'*) exit ;; esac; echo 'qemu: host forwarding rule' >&2; exit 1",
    );
    let text = fake.finish(&mut fake.workshop(&[]));
    assert!(text.contains("Error: port 8017 can't be used\n") && text.ends_with("--- status 1"), "{text}");
    // None is free, and it is not about ports.
    let fake = Fake::with_workshop("echo 'qemu: host forwarding rule' >&2; exit 1");
    let text = fake.finish(&mut fake.workshop(&[]));
    assert!(text.contains("Error: no port is free for the workshop\n"), "{text}");
    assert_eq!(fake.calls().matches("-netdev").count(), 21);
    let fake = Fake::with_workshop("echo \"qemu: network backend 'user' is not compiled in\" >&2; exit 1");
    let text = fake.finish(&mut fake.workshop(&[]));
    assert!(text.contains("Error: this QEMU has no network for the workshop\n"), "{text}");
    for port in ["", "x", "80x", "-1"] {
        let text = fake.finish(&mut fake.workshop(&["--port", port]));
        assert!(text.contains("Error: --port needs a number\n"), "{text}");
    }
    let text = fake.finish(&mut fake.workshop(&["--port", "6000"]));
    assert!(text.contains("Error: port 6000 can't be used\n  evidence: browsers block it\n"), "{text}");
    assert!(fake.finish(&mut fake.workshop(&["--port"])).contains("Error: --port needs a number\n"));
    let text = fake.finish(&mut fake.workshop(&["--prot", "1"]));
    assert!(text.contains("Error: there is no option --prot of ./lab workshop\n"), "{text}");
}

fn a_second_start_finds_the_first() {
    let fake = Fake::with_workshop(SERVER);
    let first = fake.started(fake.workshop(&["--no-browser"]).env("LAB_URL_LIMIT", "600"));
    let other = |arguments: &[&str]| {
        let output = fake.workshop(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        format!("{}{}", String::from_utf8(text).unwrap(), output.status.code().unwrap())
    };
    // It needs no memory for that.
    fs::write(fake.at("meminfo"), "MemAvailable: 1000 kB\n").unwrap();
    let shown = "The workshop: http://127.0.0.1:8017/#token=secret\nIt runs in another window. Ctrl-C there ends it.\n0";
    assert_eq!(other(&[]), shown);
    within("the browser", || fake.at("opened").exists());
    let text = other(&["--fresh"]);
    assert!(text.contains("Error: the workshop is running, so its work can't be discarded\n"), "{text}");
    // Its second port is no console.
    let text = String::from_utf8(fake.command(&["attach"]).output().unwrap().stderr).unwrap();
    assert!(text.contains("there is no running machine to attach to"), "{text}");
    assert!(fake.calls().matches("\n-kernel\n").count() == 1 && fake.kept("running").exists());
    fake.end(first);

    // One that boots yet.
    let fake = Fake::with_workshop(
        &SERVER.replace("printf 'url", "until [ -e go ]; do /usr/bin/sleep 0.1; done; printf 'url"),
    );
    fs::write(fake.at("meminfo"), "MemAvailable: 3000000 kB\n").unwrap();
    let first = fake.workshop(&["--no-browser"]).spawn().unwrap();
    fake.wait_for_file("up");
    let mut second = fake.workshop(&["--no-browser"]).spawn().unwrap();
    let mut said = String::new();
    let mut stderr = second.stderr.take().unwrap();
    let mut byte = [0];
    while !said.contains("boots in another window") && stderr.read(&mut byte).unwrap() > 0 {
        said.push(char::from(byte[0]));
    }
    let folder = fs::read_dir(fake.at("tmp")).unwrap().flatten().next().unwrap().path();
    fs::write(folder.join("go"), "").unwrap();
    let output = second.wait_with_output().unwrap();
    assert_eq!(format!("{}0", String::from_utf8_lossy(&output.stdout)), shown, "{said}");
    assert!(fake.end(first).ends_with("--- status 0"));
}

fn a_launcher_that_was_killed_is_not_found() {
    let fake = Fake::with_workshop(SERVER);
    let mut child = fake.started(&mut fake.workshop(&[]));
    child.kill().unwrap();
    child.wait().unwrap();
    fake.is_idle();
    // Since then, the laptop was off, and another process has the launcher's number.
    let folder = fs::read_to_string(fake.kept("running")).unwrap();
    fs::write(Path::new(folder.trim()).join(".launcher"), std::process::id().to_string()).unwrap();
    assert!(fake.session(&[]).ends_with("--- status 0"));
    // The file is empty, or names something else.
    for text in ["", "\n", "/nowhere\n", "/\n"] {
        fake.keep("running", text);
        assert!(fake.session(&[]).ends_with("--- status 0"));
    }
}

fn a_folder_may_have_commas_and_blanks() {
    let fake = Fake::with_workshop(SERVER);
    let cache = fake.at("my, own,,cache");
    let kept = cache.join("bpf-storage-workbook/workshop");
    let mut command = fake.workshop(&["--no-browser"]);
    let child = command.env("XDG_CACHE_HOME", &cache).spawn().unwrap();
    within("the address", || kept.join("port").exists());
    assert!(fake.end(child).ends_with("--- status 0"));
    assert!(kept.join("keep").exists());
    // No cache folder can be made.
    let mut command = fake.workshop(&[]);
    let text = fake.finish(command.env("XDG_CACHE_HOME", fake.at("meminfo")));
    assert!(text.contains("Error: the folder for your work can't be made\n"), "{text}");
}

fn a_kit_without_a_workshop_or_with_a_damaged_one_is_refused() {
    let fake = Fake::with_workshop(SERVER);
    fs::write(fake.at("kit stick/x86_64/workshop"), "a roof").unwrap();
    for command in [&mut fake.workshop(&[]), &mut fake.command(&["check"])] {
        let text = fake.finish(command);
        assert!(text.contains("x86_64/workshop: FAILED") && text.ends_with("--- status 1"), "{text}");
    }
    // It is not in the list.
    let sums = fs::read_to_string(fake.at("kit stick/SHA256SUMS")).unwrap();
    let sums: String = sums.split_inclusive('\n').filter(|line| !line.contains("/workshop\n")).collect();
    fs::write(fake.at("kit stick/SHA256SUMS"), sums).unwrap();
    for command in [&mut fake.workshop(&[]), &mut fake.command(&["check"])] {
        let text = fake.finish(command);
        assert!(text.contains("x86_64/workshop: it is not in SHA256SUMS"), "{text}");
    }
    assert_eq!(fake.calls(), "");
    let fake = Fake::new(SERVER);
    insta::assert_snapshot!("workshop_none", fake.finish(&mut fake.workshop(&[])));
    // A shell needs no workshop.
    let fake = Fake::with_workshop(crate::GUEST);
    fs::write(fake.at("kit stick/x86_64/workshop"), "a roof").unwrap();
    assert!(fake.run(&["run", "03"]).ends_with("--- status 3"));
    assert!(!fake.calls().contains("-netdev"));
}

fn a_workshop_that_does_not_start_is_reported() {
    let server = |end: &str| format!("case $* in *'-M none'*) exit ;; esac\necho 'ready 1' >>status\n{end}");
    for (end, words) in [
        (
            "echo 'no room' >console; exec sleep 1000",
            "has not answered for 1 s\n  evidence: the console's last lines: no room",
        ),
        ("echo 'qemu: ouch' >&2", "Error: the emulator ended\n  evidence: qemu: ouch"),
        ("echo 'failed no memory' >>status", "Error: no memory\n"),
    ] {
        let fake = Fake::with_workshop(&server(end));
        let text = fake.finish(fake.workshop(&[]).env("LAB_URL_LIMIT", "1"));
        assert!(text.contains(words) && text.ends_with("--- status 1"), "{text}");
        assert!(!fake.kept("running").exists() && !fake.kept("port").exists());
    }
    let fake = Fake::with_workshop(&server("echo 'Error: no book'; echo 'exit 2' >>status"));
    let text = fake.finish(&mut fake.workshop(&[]));
    assert!(text.starts_with("Error: no book\n") && text.ends_with("--- status 2"), "{text}");
    // Its emulator dies later.
    let fake = Fake::with_workshop(&SERVER.replace("head -c 1", "exit; head"));
    let text = fake.finish(&mut fake.workshop(&[]));
    assert!(text.contains("Error: the emulator ended\n") && text.ends_with("--- status 1"), "{text}");
    fs::write(fake.at("meminfo"), "MemAvailable: 2000000 kB\n").unwrap();
    let text = fake.finish(&mut fake.workshop(&[]));
    assert!(text.contains("and it needs 2300 MiB\n") && text.contains("; or work in a shell"), "{text}");
}

/// The guest is not the user's machine: it must not open whatever it names.
fn only_an_address_of_the_workshop_is_opened() {
    for address in [
        "file:///etc/passwd",
        "http://127.0.0.1.example.org/",
        "--help",
        "http://127.0.0.1:80/ x",
        "http://127.0.0.1:80/$(id)",
        "http://127.0.0.1:80/\x1b[2J",
    ] {
        let fake = Fake::with_workshop(&format!(
            "case $* in *'-M none'*) exit ;; esac\necho 'ready 1' >>status\nprintf '%s\\n' 'url {address}' >>status; exec sleep 1000"
        ));
        let text = fake.finish(fake.workshop(&[]).env("LAB_URL_LIMIT", "1"));
        assert!(text.contains("has not answered") && !text.contains(address), "{text}");
        assert!(!fake.at("opened").exists());
    }
    // Without a display or without a program, it is only shown.
    let fake = Fake::with_workshop(SERVER);
    let child = fake.started(fake.workshop(&[]).env_remove("DISPLAY"));
    assert!(fake.end(child).contains("No program to open a browser was found"));
    fs::remove_file(fake.at("bin/xdg-open")).unwrap();
    assert!(fake.session(&[]).contains("No program to open a browser was found"));
    assert!(!fake.session(&["--no-browser"]).contains("No program"));
    assert!(!fake.at("opened").exists());
}

fn what_the_workshop_needs_is_checked() {
    let fake = Fake::with_workshop(&format!("case $* in *'-M none'*) exit ;; esac\n{}", crate::GUEST));
    let check = || fake.run(&["check"]);
    let text = check();
    insta::assert_snapshot!("workshop_check", crate::numbers(&text));
    assert!(text.contains("8017 is free\n"), "{text}");
    for (program, version, words) in [
        (
            "firefox",
            "Mozilla Firefox 128.3.0esr",
            "ok       its browser   Mozilla Firefox 128.3.0esr (firefox)\n",
        ),
        ("firefox", "Mozilla Firefox 115.0", "ok       its browser   Mozilla Firefox 115.0 (firefox)\n"),
        (
            "firefox",
            "Mozilla Firefox 114.9",
            "too old, or of an unknown version: Mozilla Firefox 114.9; the workshop needs",
        ),
        ("chromium", "Chromium 111.0.1 built on Debian", "Mozilla Firefox 114.9"),
        (
            "google-chrome",
            "Google Chrome 110.0.1",
            "ok       its browser   Chromium 111.0.1 built on Debian (chromium)\n",
        ),
        (
            "chromium",
            "who knows",
            "unknown version: Mozilla Firefox 114.9, who knows, Google Chrome 110.0.1; the",
        ),
    ] {
        fake.program(program, &format!("echo '{version}'"));
        let text = check();
        assert!(text.ends_with("--- status 0"), "{text}");
        let is_newest = program == "chromium" && version.starts_with("Chromium");
        assert!(text.contains(words) != is_newest, "{words}: {text}");
    }
    fs::write(fake.at("meminfo"), "MemAvailable: 2000000 kB\n").unwrap();
    let text = check();
    assert!(text.contains("MISSING  the workshop  there is too little memory"), "{text}");
    assert!(text.contains("ok       memory") && text.ends_with("--- status 1"), "{text}");
    let fake = Fake::with_workshop(&format!(
        "case $* in *'-M none'*) echo 'host forwarding rule' >&2; exit 1 ;; esac\n{}",
        crate::GUEST
    ));
    let text = fake.run(&["check"]);
    assert!(
        text.contains("MISSING  its port      no port is free") && text.ends_with("--- status 1"),
        "{text}"
    );
}
