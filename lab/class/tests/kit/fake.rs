//! A kit with fake kernels, and a fake emulator that only records how it was called.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// All programs that the launcher calls. A plain laptop has no more.
const PLAIN: [&str; 26] = [
    "sh",
    "cat",
    "chmod",
    "cp",
    "date",
    "dd",
    "df",
    "dirname",
    "find",
    "grep",
    "id",
    "ln",
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
pub const GUEST: &str = r#"
echo 'ready 6.12.0-fake' >>status
printf 'out\n'
case $* in *' lab.stderr=apart'*) printf 'err\n' >&9 ;; esac
echo 'exit 3' >>status
"#;

/// A kit with fake kernels, in a folder with a space in its name, and a PATH with a plain system and our fake
/// emulator.
pub struct Fake {
    folder: tempfile::TempDir,
}

impl Fake {
    /// With an emulator that does this after it records how it was called.
    pub fn new(guest: &str) -> Self {
        let fake = Self { folder: tempfile::tempdir().unwrap() };
        for name in ["kit stick/x86_64", "kit stick/parts", "bin", "tmp", "cache"] {
            fs::create_dir_all(fake.at(name)).unwrap();
        }
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("kit");
        for file in ["lab", "parts/look.sh", "parts/machine.sh", "parts/workshop.sh", "parts/keep"] {
            fs::copy(sources.join(file), fake.at("kit stick").join(file)).unwrap();
        }
        for (name, text) in [
            ("x86_64/vmlinuz-6.12", "a kernel"),
            ("x86_64/vmlinuz-7.2", "another one"),
            ("x86_64/default", "6.12\n"),
            ("x86_64/initramfs", "a root"),
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
    pub fn with_arm(self, guest: &str) -> Self {
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

    pub fn sum_up(&self) {
        let sums = "find * -type f ! -name SHA256SUMS | sort | xargs sha256sum >SHA256SUMS";
        let status = Command::new("sh").args(["-c", sums]).current_dir(self.at("kit stick")).status();
        assert!(status.unwrap().success());
    }

    /// Installs an emulator for x86_64 that does this after it records how it was called.
    pub fn guest(&self, guest: &str) {
        self.emulator("qemu-system-x86_64", guest);
    }

    pub fn emulator(&self, name: &str, guest: &str) {
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
    pub fn pretend(&self, system: &str, processor: &str) {
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

    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Puts our program into the PATH, in place of the system's.
    pub fn program(&self, name: &str, script: &str) {
        let path = self.at("bin").join(name);
        let _ = fs::remove_file(&path);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.other_command(self.at("kit stick/lab"));
        command.args(arguments).current_dir("/");
        command
    }

    /// A second caller of the launcher, on the same machine.
    pub fn other_command(&self, program: impl AsRef<OsStr>) -> Command {
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
    pub fn processes(&self) -> Vec<String> {
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
    pub fn run(&self, arguments: &[&str]) -> String {
        self.finish(&mut self.command(arguments))
    }

    pub fn finish(&self, command: &mut Command) -> String {
        let output = command.output().unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        // No file may remain.
        assert_eq!(fs::read_dir(self.at("tmp")).unwrap().count(), 0, "{stderr}");
        self.plain(&format!("{stdout}--- stderr\n{stderr}--- status {}", output.status.code().unwrap()))
    }

    /// How the emulator was called, word by word.
    pub fn calls(&self) -> String {
        self.plain(&fs::read_to_string(self.at("calls")).unwrap_or_default())
    }

    pub fn words(&self) -> Vec<String> {
        self.calls().lines().map(str::to_owned).collect()
    }

    /// Waits until the launcher's folder has this file.
    pub fn wait_for_file(&self, name: &str) {
        let folders = || fs::read_dir(self.at("tmp")).unwrap().flatten();
        within(name, || folders().any(|entry| entry.path().join(name).exists()));
    }

    /// Removes what differs from run to run.
    pub fn plain(&self, text: &str) -> String {
        let mut text = text.replace(&self.folder.path().display().to_string(), "[folder]");
        while let Some(at) = text.find("lab-kit.") {
            text.replace_range(at..at + "lab-kit.XXXXXX".len(), "[scratch]");
        }
        text
    }
}

/// Waits until something is true. The limit only exists so that an event that never happens gets reported.
pub fn within(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(300), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
