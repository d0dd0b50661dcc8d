//! Tests of whole kits with the real emulator: their size; that a second kit, and a workshop made in another folder, have
//! the same bytes; an empty Debian without a network; the shell; the build kit. They need root, debootstrap, and a
//! Debian mirror, and take some 20 minutes. To run them, type `make bundle-test`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::LazyLock;

use machine::host::folders::size;
use machine::kernels::{DEFAULT, MATRIX, Trait};
use machine::workbook::Workbook;
use nix::poll::{PollFd, PollFlags, poll};
use nix::pty::{Winsize, openpty};

const PROMPT: &str = "lab:/workbook# ";

static TARGET: LazyLock<PathBuf> = LazyLock::new(|| Workbook::read().unwrap().target.join("tmp"));

/// A kit with all kernels of both architectures and the build kit. `LAB_KIT` names an existing one.
static KIT: LazyLock<PathBuf> = LazyLock::new(|| {
    let there = std::env::var_os("LAB_KIT").map(PathBuf::from);
    there.unwrap_or_else(|| bundle("room-kit", &["--arch", "arm64,x86_64", "--with-sources"]))
});

fn bundle(name: &str, arguments: &[&str]) -> PathBuf {
    let out = TARGET.join(name);
    let mut command = Command::new(env!("CARGO_BIN_EXE_class"));
    must(command.arg("bundle").args(arguments).arg("--out").arg(&out));
    out
}

/// Runs a command that must succeed, and returns its stdout.
fn must(command: &mut Command) -> String {
    let output =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; install it: lab/setup test"));
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{command:?}\n{stdout}\n{stderr}");
    stdout
}

/// Checks that two kits have the same files with the same bytes.
fn assert_alike(one: &Path, other: &Path) {
    let [one, other] = [one, other].map(|kit| fs::read_to_string(kit.join("SHA256SUMS")).unwrap());
    let [one, other] = [&one, &other].map(|sums| sums.lines().collect::<BTreeSet<_>>());
    let different: Vec<_> = one.symmetric_difference(&other).collect();
    assert!(different.is_empty(), "not the same bytes: {different:#?}");
}

#[test]
fn kits_are_small_and_made_alike() {
    let without_the_rest = |kit: &Path| {
        let rest = ["book", "build-kit.tar.xz", "sources.tar.xz", "arm64"].map(|part| size(&kit.join(part)));
        size(kit) - rest.iter().sum::<u64>()
    };
    let all = without_the_rest(&KIT);
    assert!(all <= 60_000_000, "{all} bytes with all kernels");
    let arm64 = size(&KIT.join("arm64"));
    assert!(arm64 <= 55_000_000, "{arm64} bytes for arm64");
    assert_alike(&KIT, &bundle("room-kit-again", &["--arch", "arm64,x86_64", "--with-sources"]));
    // Only the largest kernel.
    let largest =
        MATRIX.iter().max_by_key(|series| size(&KIT.join(format!("x86_64/vmlinuz-{}", series.name))));
    let one = without_the_rest(&bundle("room-kit-one", &["--kernels", largest.unwrap().name]));
    assert!(one <= 22_000_000, "{one} bytes with {}", largest.unwrap().name);
}

#[test]
fn a_workshop_is_made_alike_in_another_folder() {
    let here = bundle("room-kit-workshop", &["--kernels", DEFAULT, "--with-workshop"]);
    let folder = tempfile::tempdir_in(&*TARGET).unwrap();
    let copy = folder.path().join("workbook");
    // The copy has our uncommitted changes, too.
    const COPY: &str = r#"git clone --quiet . "$1" &&
        git diff --binary HEAD | git -C "$1" apply --index --allow-empty"#;
    let mut shell = Command::new("sh");
    must(shell.args(["-c", COPY, "sh"]).arg(&copy).current_dir(&Workbook::read().unwrap().root));
    let mut make = Command::new("make");
    make.args(["workshop", &format!("KERNEL={DEFAULT}")]).current_dir(&copy);
    must(make.env_remove("CARGO_TARGET_DIR").env_remove("CARGO").env_remove("MAKEFLAGS").env_remove("ARGS"));
    assert_alike(&here, &copy.join("target/workshop"));
}

#[test]
fn no_program_of_a_kit_names_a_folder_of_its_maker() {
    let mut zstd = Command::new("zstd");
    let root = zstd.args(["-dcq", "--long=27"]).arg(KIT.join("x86_64/initramfs")).output().unwrap();
    let root = String::from_utf8_lossy(&root.stdout);
    assert!(root.contains("target/kit/build/stage01_submit_bio_call_time-"), "panics have their places");
    let workbook = Workbook::read().unwrap();
    for folder in
        [workbook.root.to_str().unwrap(), workbook.target.to_str().unwrap(), "/.cargo/", "/.rustup/"]
    {
        let near = root.find(folder).map(|at| root.get(at.saturating_sub(40)..at + 80));
        assert_eq!(near, None, "{folder}");
    }
}

#[test]
fn a_kit_runs_in_an_empty_debian_without_a_network() {
    // Only Debian's smallest system and the emulator. We keep it for the next run.
    let system = TARGET.join("room-debian");
    if !system.join("usr/bin/qemu-system-aarch64").exists() {
        let mut debootstrap = Command::new("debootstrap");
        debootstrap
            .args(["--variant=minbase", "--include=qemu-system-x86,qemu-system-arm", "bookworm"])
            .arg(&system);
        must(debootstrap.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"));
    }
    fs::create_dir_all(system.join("mnt/USB stick")).unwrap();
    const INSIDE: &str = r#"
        kit=$1 system=$2; shift 2
        mount --bind "$kit" "$system/mnt/USB stick" && mount -o remount,bind,ro "$system/mnt/USB stick" &&
        mount -t proc proc "$system/proc" &&
        exec chroot --userspec=1000:1000 "$system" env -i PATH=/usr/bin:/bin "/mnt/USB stick/lab" "$@""#;
    let run = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "sh", "-c", INSIDE, "sh"]).arg(&*KIT).arg(&system).args(arguments);
        must(&mut command)
    };
    // Without fentry, stages 01, 07 and 10 work, and the demo says so of the others.
    let workbook = Workbook::read().unwrap();
    for arch in ["x86_64", "arm64"] {
        assert!(run(&["--arch", arch, "check"]).ends_with("All is well: ./lab\n"));
        for series in MATRIX {
            let text = run(&["--arch", arch, "--kernel", series.name, "demo"]);
            let has_fentry = arch == "x86_64" || series.has(Trait::FentryOnArm64);
            let (all, true_ones) = (workbook.catalog.stages.len(), text.matches("  TRUE: ").count());
            assert!(if has_fentry { true_ones >= all } else { true_ones >= 3 }, "{text}");
            assert_eq!(text.contains(" programs can't run on this kernel."), !has_fentry, "{text}");
        }
    }
}

/// The launcher in its own terminal.
struct Window {
    child: Child,
    terminal: File,
    seen: String,
}

impl Window {
    fn open(arguments: &[&str]) -> Self {
        let size = Winsize { ws_row: 33, ws_col: 111, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        // A copy is closed in children. If the launcher inherited one of these, its terminal would stay open when
        // this window closes.
        let terminal = File::from(pty.master).try_clone().unwrap();
        let copy = || pty.slave.try_clone().unwrap();
        // Somebody may have started the tests with nohup, or behind a shell's &.
        let mut command = Command::new("env");
        command
            .args(["--default-signal", "setsid", "-c", "-w"])
            .arg(KIT.join("lab"))
            .args(arguments)
            .env("TERM", "xterm");
        command.stdin(copy()).stdout(copy()).stderr(copy()).process_group(0);
        let child = command.spawn().unwrap();
        Self { child, terminal, seen: String::new() }
    }

    /// Reads until this text comes, and returns what came before it.
    fn wait_for(&mut self, text: &str) -> String {
        // The limit in milliseconds is for silence; there is none for the whole.
        const PATIENCE: u16 = u16::MAX;
        let mut chunk = [0; 4096];
        while !self.seen.contains(text) {
            let mut ready = [PollFd::new(self.terminal.as_fd(), PollFlags::POLLIN)];
            let came = poll(&mut ready, PATIENCE).unwrap() > 0;
            let read = if came { self.terminal.read(&mut chunk).unwrap_or(0) } else { 0 };
            assert!(read > 0, "no {text:?} in {}", self.seen);
            // The guest ends a line with \r\n, and this terminal may make \r\r\n of that.
            self.seen += &String::from_utf8_lossy(&chunk[..read]).replace('\r', "");
        }
        let (before, after) = self.seen.split_once(text).unwrap();
        let (before, after) = (before.to_owned(), after.to_owned());
        self.seen = after;
        before
    }

    /// Types, and waits for what comes then, again and again.
    fn talk(&mut self, dialog: &[(&str, &[&str])]) {
        for (keys, answers) in dialog {
            self.terminal.write_all(keys.as_bytes()).unwrap();
            answers.iter().for_each(|answer| drop(self.wait_for(answer)));
        }
    }

    /// Waits for the end, and returns the status.
    fn end(mut self) -> i32 {
        // It would block if nobody read its output.
        let _ = self.terminal.read_to_end(&mut Vec::new());
        self.child.wait().unwrap().code().unwrap()
    }
}

#[test]
fn the_shell_runs_stages_asks_questions_and_plays_a_mystery() {
    LazyLock::force(&KIT);
    let mut window = Window::open(&["shell"]);
    window.wait_for(PROMPT);
    const CASE: &str = "case 01:/workbook# ";
    window.talk(&[
        ("stty size; run 03 --io none -- --lines 3 &\r", &["33 111", "Tracing."]),
        ("io write --count 1 /dev/scratch\r", &["submit_bio() -> bio_endio() time duration: "]),
        // Ctrl-C is for the guest. A program that prints shows that it runs.
        ("sh -c 'echo begun; exec sleep 1000'\r", &["\nbegun\n"]),
        ("\x03", &[]),
        ("echo status $?\r", &["status 130"]),
        // An editor that uses the whole screen.
        ("vi /tmp/x\r", &["/tmp/x 1/1"]),
        ("ihello\x1b", &["- /tmp/x"]),
        (":wq\r", &[PROMPT]),
        ("cat /tmp/x\r", &["hello\n"]),
        // As the book has it.
        ("cargo lab ask 01\r", &["A number: "]),
        ("8\r", &["Right. ", "Then press Enter. "]),
        ("\x04", &["1 of 4 answered, 1 at the first try.", PROMPT]),
        ("mystery start 01 --seed 7\r", &["You have ten minutes", CASE]),
        ("answer slow-disk nowhere 1\r", &["place   wrong.", CASE]),
        ("fix\r", &["you don't know yet what to fix", CASE]),
        ("solution --peek\r", &[]),
    ]);
    // An expert's way ends in `CAUSE: WHAT. Place: PLACE or PLACE. Number: WHICH, from LOW to HIGH.`
    let cause = window.wait_for(". Place: ");
    let cause = cause.rsplit_once("\n\n").unwrap().1.split(':').next().unwrap().to_owned();
    let place = window.wait_for(". Number: ");
    let place = place.split_whitespace().next().unwrap();
    window.wait_for("from");
    let [low, high] = ["to", ".\n"].map(|end| window.wait_for(end).trim().parse::<u32>().unwrap());
    window.wait_for(CASE);
    let answer = format!("answer {cause} {place} {}\r", low.midpoint(high));
    window.talk(&[
        (&answer, &["Solved after ", CASE]),
        ("fix\r", &["; before the fix: ", CASE]),
        ("exit\r", &[PROMPT]),
        ("exit 5\r", &[]),
    ]);
    assert_eq!(window.end(), 5);
}

#[test]
fn the_build_kit_builds_without_a_network() {
    let folder = tempfile::tempdir_in(&*TARGET).unwrap();
    must(Command::new("tar").arg("-xf").arg(KIT.join("build-kit.tar.xz")).arg("-C").arg(folder.path()));
    // Rust is installed, but no libraries have been downloaded.
    let home = folder.path().join("cargo");
    let mut make = Command::new("unshare");
    make.args(["--net", "make", "build"]).current_dir(folder.path().join("workbook")).env("CARGO_HOME", home);
    must(make.env_remove("CARGO_TARGET_DIR").env_remove("CARGO"));
    assert!(folder.path().join("workbook/target/debug/stage01").exists());
}
