//! `./lab workshop`, with a fake emulator whose guest is up immediately.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Child;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::fake::{Fake, has, within};

/// Has the lock, reports its address, and waits for its end.
const SERVER: &str = r#"
: >pid
printf 'url http://127.0.0.1:%s/#token=secret\n' "$port" >status
until [ -e go ]; do sleep 0.1; done
rm pid
echo 'exit 0' >>status
"#;

impl Fake {
    /// Starts it, and waits until it has shown its address.
    fn started(&self, arguments: &[&str]) -> Child {
        let _ = fs::remove_file(self.kept("port"));
        let child = self.command(arguments).spawn().unwrap();
        within("the address", || self.kept("port").exists());
        child
    }

    /// Ends it as the guest does after Ctrl-C; returns what it printed.
    fn end(&self, child: Child) -> String {
        fs::write(self.kept("go"), "").unwrap();
        let text = self.printed(child);
        fs::remove_file(self.kept("go")).unwrap();
        text
    }
}

#[test]
fn the_address_is_shown_and_the_guest_may_keep_the_work() {
    for arch in ["x86_64", "arm64"] {
        let fake = Fake::with_workshop(SERVER);
        let child = fake.started(&["--arch", arch]);
        within("the browser", || fake.at("opened").exists());
        assert_eq!(fs::read_to_string(fake.at("opened")).unwrap(), "http://127.0.0.1:8017/#token=secret\n");
        // Before the launcher shows anything, others could have read its files.
        for (file, mode) in [("", 0o700), ("status", 0o600), ("port", 0o600), ("keep", 0o700)] {
            assert_eq!(fs::metadata(fake.kept(file)).unwrap().permissions().mode() & 0o777, mode, "{file}");
        }
        insta::assert_snapshot!(format!("workshop_{arch}"), fake.end(child));
        insta::assert_snapshot!(format!("workshop_called_{arch}"), fake.calls());
    }
}

#[test]
fn another_kernel_continues_with_the_work() {
    // The first guest asks for the next kernel, as the page does.
    let next = |next: &str, status: u8| {
        let ends = format!(
            "[ -e second ] || {{ : >second; printf '{next}\\nexit {status}\\n' >>status; rm pid; exit; }}; until"
        );
        Fake::with_workshop(&SERVER.replace("until", &ends))
    };
    let fake = next("next 7.2", 0);
    let child = fake.command(&[]).spawn().unwrap();
    within("the second guest", || fake.calls().contains("/vmlinuz-7.2\n") && fake.kept("pid").exists());
    let text = fake.end(child);
    has(&text, &["Booting Linux 7.2 for x86_64", "--- status 0"]);
    has(&fake.calls(), &[" guest workshop --port 8017 --kernel 7.2 --kernels 6.12,7.2\n"]);
    // It did not ask for one, the server has failed, or there is no such kernel.
    for (words, status, end) in
        [("", 0, "--- status 0"), ("next 7.2", 1, "--- status 1"), ("next ../7.2", 0, "--- status 1")]
    {
        let fake = next(words, status);
        let text = fake.run(&["--no-browser"]);
        assert!(text.ends_with(end) && !fake.calls().contains("vmlinuz-7.2"), "{words} {text}");
    }
}

#[test]
fn a_port_that_is_taken_is_left_to_who_has_it() {
    let fake = Fake::with_workshop("echo 'exit 0' >status");
    let text = fake.finish(fake.command(&["--no-browser"]).env("TAKEN", "8017 8018"));
    has(&text, &["--- status 0"]);
    has(&fake.calls(), &[" --port 8019 "]);
    // The last one is used again, or the one that somebody names.
    fs::write(fake.kept("port"), "9000\n").unwrap();
    fake.run(&[]);
    fake.run(&["--port=9001"]);
    has(&fake.calls(), &[" --port 9000 ", " --port 9001 "]);
    let text = fake.finish(fake.command(&["--port", "9001"]).env("TAKEN", "9001"));
    has(&text, &["Error: port 9001 can't be used\n  evidence: qemu: Could not set up"]);
    let all = (8017..9001).map(|port| port.to_string()).collect::<Vec<_>>().join(" ");
    fs::remove_file(fake.kept("port")).unwrap();
    let text = fake.finish(fake.command(&[]).env("TAKEN", all));
    has(&text, &["Error: port 8037 can't be used\n"]);
    let fake = Fake::with_workshop("");
    let lacks = "echo \"qemu: network backend 'user' is not compiled in\" >&2; exit 1";
    fake.emulator("qemu-system-x86_64", "7.2", lacks);
    has(&fake.run(&[]), &["Error: this QEMU has no network for the workshop\n"]);
}

#[test]
fn a_second_start_finds_the_first_and_a_killed_one_is_not_found() {
    let fake = Fake::with_workshop(SERVER);
    let first = fake.started(&["--no-browser"]);
    // It needs no memory for that.
    fake.memory(1);
    let text = fake.run(&[]);
    let shown = "The workshop: http://127.0.0.1:8017/#token=secret\nIt runs in another window. Ctrl-C there ends it.\n";
    assert!(text.starts_with(shown) && text.ends_with("--- status 0"), "{text}");
    has(&fake.run(&["--fresh"]), &["Error: the workshop is running, so its work can't be discarded\n"]);
    fake.memory(4000);
    // A signal to the launcher ends the emulator, and the kernel gives its lock back.
    kill(Pid::from_raw(first.id() as i32), Signal::SIGTERM).unwrap();
    has(&fake.printed(first), &["--- status 130"]);
    fs::remove_file(fake.kept("pid")).unwrap();
    fs::write(fake.kept("work.zip"), "work").unwrap();
    fs::write(fake.kept("work.new.1"), "a part").unwrap();
    let second = fake.started(&[]);
    assert!(fake.end(second).ends_with("--- status 0"));
    assert!(fake.kept("work.zip").exists() && !fake.kept("work.new.1").exists());
    let third = fake.started(&["--fresh"]);
    let discarded = "Discarded the work that was in [folder]/cache/bpf-storage-workbook/workshop\n";
    has(&fake.end(third), &[discarded]);
    assert!(!fake.kept("work.zip").exists());
}

/// The guest is not the user's machine: it must not open whatever it names.
#[test]
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
            "printf '%s\\n' 'url {address}' >status; sleep 2; echo 'exit 0' >>status"
        ));
        let text = fake.run(&[]);
        assert!(text.ends_with("--- status 0") && !text.contains(address), "{text}");
        assert!(!fake.at("opened").exists());
    }
}

#[test]
fn what_the_workshop_lacks_is_an_error() {
    has(&Fake::new("").run(&["workshop"]), &["Error: this kit has no workshop\n"]);
    let fake = Fake::with_workshop("exit 1");
    let text = fake.finish(fake.command(&[]).env("XDG_CACHE_HOME", fake.at("meminfo")));
    has(&text, &["Error: the folder for your work can't be made\n"]);
    has(&fake.run(&[]), &["Error: the machine ended before its program\n"]);
    fake.memory(2000);
    has(&fake.run(&[]), &["2000 MiB are free, and it needs 2300 MiB\n"]);
}
