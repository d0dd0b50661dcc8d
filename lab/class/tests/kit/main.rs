//! The room kit. These tests run its launcher with a fake emulator that only records how it was called. With
//! `LAB_SOAK=1`, they also test whole kits, see [`whole`].

mod whole;
mod workshop;

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime};

use libtest_mimic::{Arguments, Failed, Trial};
use machine::image;
use machine::workbook::Workbook;
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::termios;
use nix::unistd::Pid;

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
    all_three_start_the_same_machine,
    the_same_content_gives_the_same_image,
    a_kit_is_verified_by_its_own_launcher,
    a_kit_that_is_not_finished_is_cleared_away,
];

/// An old QEMU's best processor does not boot all kernels, so the launcher chooses another one.
/// A text in which each number is `#`, because this machine's numbers have any number of digits.
fn numbers(text: &str) -> String {
    let mut text = text.replace(|c: char| c.is_ascii_digit(), "#");
    while text.contains("##") {
        text = text.replace("##", "#");
    }
    text
}

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

/// All programs that the launcher calls. A plain laptop has no more.
const PLAIN: [&str; 24] = [
    "sh",
    "cat",
    "chmod",
    "date",
    "dd",
    "df",
    "dirname",
    "find",
    "grep",
    "id",
    "ls",
    "mkdir",
    "mkfifo",
    "mktemp",
    "mv",
    "rm",
    "sed",
    "setsid",
    "sha256sum",
    "sleep",
    "stty",
    "tail",
    "tr",
    "uname",
];

/// A guest that is up immediately, prints, and ends with status 3.
const GUEST: &str = r#"
echo 'ready 6.12.0-fake' >>status
printf 'out\n'
case $* in *' lab.stderr=apart'*) printf 'err\n' >&9 ;; esac
echo 'exit 3' >>status
"#;

/// A kit with fake kernels, in a folder with a space in its name, and a PATH with a plain system and our fake
/// emulator.
struct Fake {
    folder: tempfile::TempDir,
}

impl Fake {
    /// With an emulator that does this after it records how it was called.
    fn new(guest: &str) -> Self {
        let fake = Self { folder: tempfile::tempdir().unwrap() };
        for name in ["kit stick/x86_64", "kit stick/parts", "bin", "tmp", "cache"] {
            fs::create_dir_all(fake.at(name)).unwrap();
        }
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("kit");
        for file in ["lab", "parts/look.sh", "parts/machine.sh", "parts/workshop.sh"] {
            fs::copy(sources.join(file), fake.at("kit stick").join(file)).unwrap();
        }
        for (name, text) in [
            ("x86_64/vmlinuz-6.12", "a kernel"),
            ("x86_64/vmlinuz-7.2", "another one"),
            ("x86_64/default", "6.12\n"),
            ("x86_64/initramfs", "a root"),
            ("lab.cmd", "another launcher"),
            ("README.md", "how to use it"),
            ("LICENSES.txt", "whose work it is"),
            ("parts/programs", "01\n03\nbitehist\n"),
        ] {
            fs::write(fake.at("kit stick").join(name), text).unwrap();
        }
        fake.sum_up();
        for tool in PLAIN {
            let found = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(tool));
            let found = found.into_iter().find(|path| path.exists()).expect(tool);
            symlink(found, fake.at("bin").join(tool)).unwrap();
        }
        fs::write(fake.at("meminfo"), "MemTotal: 4000000 kB\nMemAvailable: 2000000 kB\n").unwrap();
        fake.guest(guest);
        fake
    }

    /// Adds a guest for arm64, and an emulator for it that does this.
    fn with_arm(self, guest: &str) -> Self {
        fs::create_dir_all(self.at("kit stick/arm64")).unwrap();
        for (name, text) in
            [("vmlinuz-6.12", "a third kernel"), ("default", "6.12\n"), ("initramfs", "a root for arm64")]
        {
            fs::write(self.at("kit stick/arm64").join(name), text).unwrap();
        }
        self.sum_up();
        self.emulator("qemu-system-aarch64", guest);
        self
    }

    fn sum_up(&self) {
        let sums = "find * -type f ! -name SHA256SUMS | sort | xargs sha256sum >SHA256SUMS";
        let status = Command::new("sh").args(["-c", sums]).current_dir(self.at("kit stick")).status();
        assert!(status.unwrap().success());
    }

    /// Installs an emulator for x86_64 that does this after it records how it was called.
    fn guest(&self, guest: &str) {
        self.emulator("qemu-system-x86_64", guest);
    }

    fn emulator(&self, name: &str, guest: &str) {
        self.program(
            name,
            &format!(
                "[ $1 != --version ] || {{ echo 'QEMU emulator version 7.2.22 (Debian 1:7.2)'; exit; }}\n\
                 [ ! -p stderr.out ] || exec 9>stderr.out\n\
                 for word; do printf '%s\\n' \"$word\"; done >>'{}'\n{guest}",
                self.at("calls").display()
            ),
        );
    }

    /// Makes the machine look like one of this system and this processor, as uname(1) calls them.
    fn pretend(&self, system: &str, processor: &str) {
        self.program(
            "uname",
            &format!("case $1 in -s) echo {system} ;; -m) echo {processor} ;; *) echo 1 ;; esac"),
        );
        if system == "Darwin" {
            self.program("sysctl", "echo 8589934592");
            fs::remove_file(self.at("meminfo")).unwrap();
            fs::remove_file(self.at("bin/setsid")).unwrap();
            fs::remove_file(self.at("bin/sha256sum")).unwrap();
            self.program("shasum", "[ \"$1 $2\" = '-a 256' ] && shift 2 && exec /usr/bin/sha256sum \"$@\"");
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Puts our program into the PATH, in place of the system's.
    fn program(&self, name: &str, script: &str) {
        let path = self.at("bin").join(name);
        let _ = fs::remove_file(&path);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.other_command(self.at("kit stick/lab"));
        command.args(arguments).current_dir("/");
        command
    }

    /// A second caller of the launcher, on the same machine.
    fn other_command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().stdin(Stdio::null());
        command.env("PATH", self.at("bin")).env("TMPDIR", self.at("tmp")).env("TERM", "xterm");
        command.env("XDG_CACHE_HOME", self.at("cache")).env("LAB_MEMINFO", self.at("meminfo"));
        command.env("LAB_KVM", self.at("kvm"));
        // Our fake emulator acts immediately, but a busy machine may delay it.
        for limit in ["LAB_BOOT_LIMIT", "LAB_HELP_LIMIT", "LAB_PATIENCE"] {
            command.env(limit, "600");
        }
        command
    }

    /// The processes with this one's PATH: the launcher, and everything that it started.
    fn processes(&self) -> Vec<String> {
        let path = format!("PATH={}\0", self.at("bin").display());
        let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let ours = all.filter(|process| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&path)
        });
        let words = ours.map(|process| fs::read_to_string(process.join("cmdline")).unwrap_or_default());
        words.map(|words| words.replace('\0', " ")).collect()
    }

    /// Runs the launcher to its end; returns what it printed, and its status.
    fn run(&self, arguments: &[&str]) -> String {
        self.finish(&mut self.command(arguments))
    }

    fn finish(&self, command: &mut Command) -> String {
        let output = command.output().unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        // No file may remain.
        assert_eq!(fs::read_dir(self.at("tmp")).unwrap().count(), 0, "{stderr}");
        self.plain(&format!("{stdout}--- stderr\n{stderr}--- status {}", output.status.code().unwrap()))
    }

    /// How the emulator was called, word by word.
    fn calls(&self) -> String {
        self.plain(&fs::read_to_string(self.at("calls")).unwrap_or_default())
    }

    fn words(&self) -> Vec<String> {
        self.calls().lines().map(str::to_owned).collect()
    }

    /// Waits until the launcher's folder has this file.
    fn wait_for_file(&self, name: &str) {
        let folders = || fs::read_dir(self.at("tmp")).unwrap().flatten();
        within(name, || folders().any(|entry| entry.path().join(name).exists()));
    }

    /// Removes what differs from run to run.
    fn plain(&self, text: &str) -> String {
        let mut text = text.replace(&self.folder.path().display().to_string(), "[folder]");
        while let Some(at) = text.find("lab-kit.") {
            text.replace_range(at..at + "lab-kit.XXXXXX".len(), "[scratch]");
        }
        text
    }
}

/// Waits until something is true. The limit only exists so that an event that never happens gets reported.
fn within(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(300), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
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

/// Compares the lab, the launcher, and the Windows launcher, which can't run here.
fn all_three_start_the_same_machine() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let windows = fs::read_to_string(root.join("kit/lab.cmd")).unwrap();
    for arch in ["x86_64", "arm64"] {
        let fake = Fake::new(GUEST).with_arm(GUEST);
        let arguments = ["--arch", arch, "run", "03", "--io", "sync", "--", "--lines", "9"];
        fake.run(&arguments);
        let launcher = fake.words();
        let expected = machine(&launcher);
        assert!(expected.contains(&"nvme,serial=lab-fs,drive=fs".to_owned()), "{expected:?}");

        // Without its cross compiler, the lab can't prepare a guest for another architecture.
        if arch == "x86_64" {
            let fake = Fake::new("exit 1");
            let path = std::env::var("PATH").unwrap();
            let workbook = Workbook::read().unwrap();
            let built = workbook.cargo_build().args(["--quiet", "--package", "lab"]).status();
            assert!(built.unwrap().success());
            let mut lab = Command::new(workbook.binaries().join("lab"));
            lab.args(["run", "01", "--accel", "tcg"]).env("TMPDIR", fake.at("tmp"));
            let output = lab.env("PATH", format!("{}:{path}", fake.at("bin").display())).output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(stderr.contains("Error: the emulator ended"), "{stderr}");
            assert_eq!(machine(&fake.words()), expected);
        }

        let of_arch =
            windows.split_once(&format!("\n:{arch}\n")).unwrap().1.split_once("\ngoto ended").unwrap().0;
        // Text in quotes has odd indices.
        let command = of_arch.replace(" ^\n", "");
        let split = command.split('"').enumerate().flat_map(|(nth, part)| match nth % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        });
        // As they are without the workshop.
        let set =
            |name: &str| windows.split_once(&format!("\nset {name}=")).unwrap().1.split_once('\n').unwrap().0;
        let variables =
            ["MIB", "ROOT", "SECOND", "STATUS", "MORE"].map(|name| (format!("%{name}%"), set(name)));
        let expanded = |word: &str| {
            variables.iter().fold(word.to_owned(), |word, (name, value)| word.replace(name, value))
        };
        let words: Vec<_> = split.skip(1).map(expanded).filter(|word| !word.is_empty()).collect();
        assert_eq!(machine(&words), expected);
        // It also has the same disks, and passes its request in the same way.
        let after = |words: &[String], option: &str| -> Vec<String> {
            words.windows(2).filter(|pair| pair[0] == option).map(|pair| pair[1].clone()).collect()
        };
        assert_eq!(after(&words, "-drive"), after(&launcher, "-drive"));
        let append = after(&launcher, "-append").concat();
        let (begin, argv) = append.split_once(" lab.argv=").unwrap();
        assert_eq!(after(&words, "-append"), [format!("{begin} lab.argv=%ARGV% lab.term=xterm,24,80")]);
        assert_eq!(argv.split(' ').next(), Some(&*arguments[2..].join(",")));
    }
    // The Windows launcher writes a comma for each blank.
    assert!(windows.contains("\nset ARGV=%*\n") && windows.contains("\nset ARGV=%ARGV: =,%\n"));
    let blocks = |c| windows.matches(c).count();
    assert_eq!(blocks('('), blocks(')'));
    assert_eq!(blocks('"') % 2, 0);
}

/// The part of QEMU's arguments that describes the machine: all but its files, its serial ports, the content of its
/// disks, and the guest's request.
fn machine(words: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match &**word {
            // Only the lab's emulator restricts itself, because a laptop's may be built without that.
            "-kernel" | "-initrd" | "-chardev" | "-serial" | "-sandbox" => drop(rest.next()),
            "-append" => found.extend(rest.next().unwrap().split(' ').take(2).map(str::to_owned)),
            "-drive" => {
                let parts = rest.next().unwrap().split(',');
                let is_content =
                    |part: &&str| ["file", "snapshot=", "cache="].iter().any(|key| part.starts_with(key));
                let parts = parts.filter(|part| !is_content(part));
                found.push(parts.collect::<Vec<_>>().join(","));
            }
            "-device" => {
                found.extend(rest.next().filter(|device| !device.starts_with("pci-serial")).cloned())
            }
            _ => found.push(word.clone()),
        }
    }
    found
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
