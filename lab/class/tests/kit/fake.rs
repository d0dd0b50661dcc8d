//! A kit with fake kernels, and a fake emulator that only records how it was called.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// All programs that the launcher calls. A plain laptop has no more.
const PLAIN: &str = "cat chmod cp date df dirname grep ls mkdir mktemp mv rm sed setsid sh sha256sum sleep stty tail tr uname wc";

/// A guest that prints, and ends with status 3.
pub const GUEST: &str = "echo out; echo 'exit 3' >status";

/// The probe of a workshop's port and its lock, for a fake emulator.
const PROBE: &str = r#"
port=${*##*hostfwd=tcp:127.0.0.1:}; port=${port%%-*}
case " ${TAKEN-} " in *" $port "*) echo "qemu: Could not set up host forwarding rule 'tcp:127.0.0.1:$port-:$port'" >&2; exit 1 ;; esac
case $* in
*'-M none'*)
	[ ! -e pid ] || { echo 'qemu: cannot create PID file: Cannot lock pid file: busy' >&2; exit 1; }
	exit ;;
esac
"#;

/// A kit with fake kernels, in a folder with a space in its name, and a PATH with a plain system and our fake
/// emulator.
pub struct Fake {
    folder: tempfile::TempDir,
}

impl Fake {
    /// With emulators for both architectures that do this after they record how they were called.
    pub fn new(guest: &str) -> Self {
        let fake = Self { folder: tempfile::tempdir().unwrap() };
        for name in ["kit stick/x86_64", "kit stick/arm64", "bin", "tmp", "cache"] {
            fs::create_dir_all(fake.at(name)).unwrap();
        }
        for file in ["lab", "keep"] {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kit").join(file);
            fs::copy(source, fake.at("kit stick").join(file)).unwrap();
        }
        for (name, text) in [
            ("x86_64/vmlinuz-6.12", "a kernel"),
            ("x86_64/vmlinuz-7.2", "another one"),
            ("x86_64/default", "6.12\n"),
            ("x86_64/initramfs", "a root"),
            ("arm64/vmlinuz-6.12", "a third kernel"),
            ("arm64/default", "6.12\n"),
            ("arm64/initramfs", "a root for arm64"),
            ("README.md", "how to use it"),
            ("LICENSES.txt", "whose work it is"),
        ] {
            fs::write(fake.at("kit stick").join(name), text).unwrap();
        }
        for tool in PLAIN.split(' ') {
            let found = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(tool));
            let found = found.into_iter().find(|path| path.exists()).expect(tool);
            symlink(found, fake.at("bin").join(tool)).unwrap();
        }
        fake.memory(4000);
        fake.pretend("Linux", "x86_64");
        for name in ["qemu-system-x86_64", "qemu-system-aarch64"] {
            fake.emulator(name, "7.2.22", guest);
        }
        fake.sum_up();
        fake
    }

    /// With the workshop in its guests.
    pub fn with_workshop(guest: &str) -> Self {
        let fake = Self::new(&format!("{PROBE}{guest}"));
        for arch in ["x86_64", "arm64"] {
            let root = fake.at("kit stick").join(arch);
            fs::rename(root.join("initramfs"), root.join("workshop")).unwrap();
        }
        fake.sum_up();
        fake.program("xdg-open", &format!("echo \"$@\" >>'{}'", fake.at("opened").display()));
        fake
    }

    pub fn sum_up(&self) {
        let sums = "find * -type f ! -name SHA256SUMS | sort | xargs sha256sum >SHA256SUMS";
        let status = Command::new("sh").args(["-c", sums]).current_dir(self.at("kit stick")).status();
        assert!(status.unwrap().success());
    }

    pub fn emulator(&self, name: &str, version: &str, guest: &str) {
        let calls = self.at("calls");
        self.program(
            name,
            &format!(
                "[ $1 != --version ] || {{ echo 'QEMU emulator version {version} (Debian)'; exit; }}\n\
                 for word; do printf '%s\\n' \"$word\"; done >>'{}'\n{guest}",
                calls.display()
            ),
        );
    }

    /// Makes the machine look like one of this system and this processor, as uname(1) calls them.
    pub fn pretend(&self, system: &str, processor: &str) {
        self.program("uname", &format!("case $1 in -s) echo {system} ;; *) echo {processor} ;; esac"));
        if system == "Darwin" {
            self.program("sysctl", "echo 8589934592");
            self.program("shasum", "[ \"$1 $2\" = '-a 256' ] && shift 2 && exec /usr/bin/sha256sum \"$@\"");
            for name in ["meminfo", "bin/setsid", "bin/sha256sum"] {
                fs::remove_file(self.at(name)).unwrap();
            }
        }
    }

    pub fn memory(&self, mib: u32) {
        fs::write(self.at("meminfo"), format!("MemTotal: 1 kB\nMemAvailable: {} kB\n", mib * 1024)).unwrap();
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file of the work.
    pub fn kept(&self, name: &str) -> PathBuf {
        self.at("cache/bpf-storage-workbook/workshop").join(name)
    }

    /// Puts our program into the PATH, in place of the system's.
    pub fn program(&self, name: &str, script: &str) {
        let path = self.at("bin").join(name);
        let _ = fs::remove_file(&path);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The launcher.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.other_command(self.at("kit stick/lab"));
        command.args(arguments).current_dir("/");
        command
    }

    /// Another program, such as a shell that starts the launcher.
    pub fn other_command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("PATH", self.at("bin")).env("TMPDIR", self.at("tmp")).env("TERM", "xterm");
        command.env("XDG_CACHE_HOME", self.at("cache")).env("LAB_MEMINFO", self.at("meminfo"));
        command.env("LAB_KVM", self.at("kvm")).env("DISPLAY", ":0");
        command
    }

    /// Runs the launcher to its end; returns what it printed, and its status.
    pub fn run(&self, arguments: &[&str]) -> String {
        self.finish(&mut self.command(arguments))
    }

    pub fn finish(&self, command: &mut Command) -> String {
        self.printed(command.spawn().unwrap())
    }

    /// Waits for the end; returns what was printed, and the status.
    pub fn printed(&self, launcher: Child) -> String {
        let output = launcher.wait_with_output().unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        // No file may remain.
        assert_eq!(fs::read_dir(self.at("tmp")).unwrap().count(), 0, "{stderr}");
        self.plain(&format!("{stdout}--- stderr\n{stderr}--- status {}", output.status.code().unwrap()))
    }

    /// How the emulator was called, word by word.
    pub fn calls(&self) -> String {
        self.plain(&fs::read_to_string(self.at("calls")).unwrap_or_default())
    }

    /// Removes what differs from run to run.
    pub fn plain(&self, text: &str) -> String {
        text.replace(&self.folder.path().display().to_string(), "[folder]")
    }
}

/// Checks that all of these words are in a text, and a status at its end.
#[track_caller]
pub fn has(text: &str, words: &[&str]) {
    let has = |words: &str| match words.starts_with("--- status ") {
        true => text.ends_with(words),
        false => text.contains(words),
    };
    let lacks: Vec<_> = words.iter().filter(|words| !has(words)).collect();
    assert!(lacks.is_empty(), "{lacks:?} is not in {text}");
}

/// Waits until something is true. The limit only exists so that an event that never happens gets reported.
pub fn within(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(300), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
