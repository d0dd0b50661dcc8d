//! A guest: a kernel booted in QEMU, and the connection over which we run programs in it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use common::{Error, OrCause, Result};
use nix::sys::statvfs::statvfs;
use nix::time::clock_getcpuclockid;
use wire::arch::Arch;
use wire::disks::{PART_DISK, RAW_DEVICE, partition_table};
use wire::files;
use wire::protocol::{FromGuest, Terminal, ToGuest, receive};

use crate::emulator::Emulator;
use crate::host::folders;
use crate::host::tools::{SETPRIV, emulator, output};
use crate::image;
use crate::kernels::{self, Kernel};
use crate::line::Line;
use crate::qemu::{self, CommandLine, DISKS, MEMORY, RAW_BYTES};
use crate::signals;
use crate::workbook::{Cross, Workbook};

/// How long a guest may take to boot, unless the user chooses another limit.
pub const BOOT_LIMIT: Duration = Duration::from_secs(60);

/// How long a guest may take to boot with KVM before we emulate it instead. Where KVM works, it takes one or two seconds.
const KVM_LIMIT: Duration = Duration::from_secs(15);

/// How often we look whether somebody wants us to end while we wait for the guest.
const LOOK_UP: Duration = Duration::from_millis(100);

/// After how much silence a guest counts as hung. It reports once per second that it is alive, but on a busy machine
/// the emulator may get no CPU for a while.
const SILENCE: Duration = Duration::from_secs(120);

/// Whether this machine's QEMU has refused its sandbox: QEMU or this machine's kernel was built without seccomp.
static NO_SANDBOX: AtomicBool = AtomicBool::new(false);

/// How to run the guest's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Accel {
    /// KVM where it works, else emulation
    #[default]
    Auto,
    /// The processor's own virtualization
    Kvm,
    /// Emulation, which works everywhere
    Tcg,
    /// Emulation with a clock that counts instructions, so measurements are the same on every machine
    Icount,
}

impl Accel {
    fn processors(self, arch: Arch) -> Vec<String> {
        match (self, arch) {
            (Self::Kvm, _) => qemu::hardware("kvm"),
            (Self::Auto | Self::Tcg, Arch::X86) => qemu::emulation("max"),
            (Self::Auto | Self::Tcg, Arch::Arm) => qemu::emulation_of_arm(),
            (Self::Icount, _) => qemu::counted(arch),
        }
    }
}

/// What to boot, and how. [`Machine::boot`] turns it into a [`Vm`].
#[derive(Clone, Debug)]
pub struct Machine {
    pub kernel: Kernel,
    /// The programs in the guest's `PATH`; see [`image::write`].
    pub binaries: Vec<PathBuf>,
    pub accel: Accel,
    pub append: String,
    pub limit: Duration,
    /// Its memory in MiB.
    pub memory: u32,
    /// More arguments for QEMU, such as those for another disk.
    pub arguments: Vec<String>,
    /// Where its libraries are, if it is of another architecture than this machine.
    pub cross: Option<Cross>,
    /// More files of this machine, and their paths in the guest.
    pub copies: Vec<(PathBuf, PathBuf)>,
    /// The folder in which to remember whether KVM works here.
    pub state: PathBuf,
}

/// A running guest, from the host's side; the code that runs inside is in the crate `guest`. Dropping this ends the
/// guest.
#[derive(Debug)]
pub struct Vm {
    pub release: String,
    /// What runs its instructions; never [`Accel::Auto`].
    pub accel: Accel,
    /// How long it took until it answered, including the time to make its files.
    pub boot_time: Duration,
    line: Line,
    events: Receiver<FromGuest>,
    emulator: Emulator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Its stdout, or its terminal.
    Stdout,
    Stderr,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    pub stdout: Vec<u8>,
    pub stderr: String,
    /// Its exit status; 128 + signal if a signal ended it.
    pub status: i32,
}

impl Machine {
    /// A kernel with all of the workbook's programs, with the fastest acceleration that works.
    pub fn new(workbook: &Workbook, kernel: &str) -> Result<Self> {
        Self::with(workbook, kernel, workbook.build()?)
    }

    /// A kernel with these programs. [`Workbook::build_tools`] builds the ones that every guest needs.
    pub fn with(workbook: &Workbook, kernel: &str, binaries: Vec<PathBuf>) -> Result<Self> {
        Ok(Self {
            kernel: kernels::get(workbook.arch(), kernel)?,
            binaries,
            accel: Accel::Auto,
            append: String::new(),
            limit: BOOT_LIMIT,
            memory: MEMORY,
            arguments: Vec::new(),
            cross: workbook.cross().cloned(),
            copies: Vec::new(),
            state: workbook.state_dir(),
        })
    }

    /// With two processors whose clock counts instructions. So however busy this machine is, a disk's delay is as long as in
    /// any other run. See [`kernels::Trait::CountsOnTwo`].
    #[must_use]
    pub fn counting(mut self) -> Self {
        self.accel = Accel::Icount;
        self.arguments.extend(["-smp", "2"].map(str::to_owned));
        self
    }

    /// Boots it and waits until it answers.
    ///
    /// That `/dev/kvm` exists proves little: another hypervisor may be using it, or it may belong to one under which a guest
    /// hangs forever. If the same machine boots only without KVM, we don't try it again for a while.
    ///
    /// # Errors
    /// If it does not come up; with the reason and the last lines of its console.
    pub fn boot(&self) -> Result<Vm> {
        if self.accel != Accel::Auto {
            return self.boot_with(self.accel, self.limit);
        }
        let kvm = fs::OpenOptions::new().read(true).write(true).open("/dev/kvm");
        if self.kernel.arch != Arch::HERE || kvm.is_err() || kvm_has_failed(&self.state) {
            return self.boot_with(Accel::Tcg, self.limit);
        }
        if let Ok(guest) = self.boot_with(Accel::Kvm, self.limit.min(KVM_LIMIT)) {
            return Ok(guest);
        }
        let guest = self.boot_with(Accel::Tcg, self.limit)?;
        eprintln!("KVM does not work on this machine now, so the lab uses emulation for the next hour.");
        // If we can't save that, we try again next time.
        let _ = fs::create_dir_all(&self.state).and_then(|()| fs::write(self.state.join(KVM), ""));
        Ok(guest)
    }

    /// Boots it in QEMU's sandbox, or without one if QEMU refuses the sandbox, which it does before it runs anything.
    ///
    /// We have seen a kernel end with a double fault in its first second, under emulation, that boots every other time.
    /// So after a double fault, it boots once more.
    fn boot_with(&self, accel: Accel, limit: Duration) -> Result<Vm> {
        let mut has_faulted = false;
        loop {
            let (start, sandbox) = (Instant::now(), !NO_SANDBOX.load(Ordering::Relaxed));
            let mut guest = self.start(accel, sandbox)?;
            match guest.wait_until_ready(limit) {
                Ok(()) => {
                    guest.boot_time = start.elapsed();
                    guest.emulator.remove_folder();
                    return Ok(guest);
                }
                Err(_) if sandbox && guest.emulator.refused_sandbox() => {
                    NO_SANDBOX.store(true, Ordering::Relaxed);
                }
                Err(_) if !has_faulted && guest.emulator.console().contains("PANIC: double fault") => {
                    has_faulted = true;
                    eprintln!("The guest ended with a double fault while it booted. Booting it again ...");
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn start(&self, accel: Accel, sandbox: bool) -> Result<Vm> {
        free_space()?;
        let folder = folders::private(&std::env::temp_dir(), "bpf-lab-");
        let folder = folder.or_cause("cannot make a folder for the guest")?;
        let at = |name: &str| folder.path().join(name);
        let content = image::Content {
            kernels: vec![&self.kernel],
            modules: image::MODULES.into_iter().chain(image::FOR_TESTS.split(' ')).collect(),
            binaries: self.binaries.clone(),
            cross: self.cross.as_ref(),
            profile: image::PROFILE,
            copies: self.copies.clone(),
            ..image::Content::default()
        };
        image::write(&at("initramfs"), &content)?;
        for (name, serial, bytes) in DISKS {
            let table = if serial == PART_DISK { partition_table(bytes) } else { Vec::new() };
            fs::write(at(name), table)
                .and_then(|()| fs::File::options().write(true).open(at(name))?.set_len(bytes))
                .or_cause("cannot make a disk for the guest")?;
        }
        output(image::mke2fs()?.arg(at("fs")))?;

        let line = CommandLine {
            arch: self.kernel.arch,
            processors: &accel.processors(self.kernel.arch),
            kernel: &self.kernel.image.display().to_string(),
            initramfs: &at("initramfs").display().to_string(),
            append: &self.append,
            folder: folder.path(),
            memory: &self.memory.to_string(),
            sandbox,
        };
        let mut command = SETPRIV.command()?;
        // If somebody kills the lab, the emulator must end, too.
        command.args(["--pdeathsig", "KILL"]).arg(emulator(self.kernel.arch).find()?);
        command.args(line.words()).args(&self.arguments);
        // In its own process group: Ctrl-C is for the program in the guest, not for QEMU.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());

        let (mut child, emulator) = Emulator::start(command, folder)?;
        let (Some(input), Some(mut answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::new("the emulator has no pipes"));
        };
        // Bounded, so a guest that prints faster than we read has to wait.
        let (sender, events) = mpsc::sync_channel(64);
        thread::spawn(move || {
            while let Ok(Some(message)) = receive(&mut answers) {
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let (release, boot_time) = (String::new(), Duration::ZERO);
        Ok(Vm { release, accel, boot_time, line: Line::new(input), events, emulator })
    }
}

const KVM: &str = "kvm-failed";

/// For how long we don't try KVM again.
const KVM_REST: Duration = Duration::from_secs(60 * 60);

/// Whether KVM has failed a while ago, as a file in this folder says.
pub fn kvm_has_failed(folder: &Path) -> bool {
    let file = fs::metadata(folder.join(KVM)).and_then(|file| file.modified());
    // A time in the future says nothing.
    file.is_ok_and(|then| then.elapsed().is_ok_and(|age| age < KVM_REST))
}

/// Checks that the folder for the guest's files has room for its disks, and returns the free bytes there. Later, a full disk
/// would look like a broken one.
pub fn free_space() -> Result<u64> {
    check_free_space(&std::env::temp_dir(), DISKS.iter().map(|(_, _, bytes)| bytes).sum())
}

fn check_free_space(folder: &Path, needed: u64) -> Result<u64> {
    let disk = statvfs(folder).or_cause(format!("cannot find out how much room {} has", folder.display()))?;
    let free = disk.blocks_available() * disk.fragment_size();
    if free >= needed {
        return Ok(free);
    }
    Err(Error::new("there is no room for the guest's disks")
        .evidence(format!("{} has {} MiB, they may take {} MiB", folder.display(), free >> 20, needed >> 20))
        .fix("make room there, or name another folder: TMPDIR=FOLDER cargo lab ..."))
}

impl Vm {
    pub fn line(&self) -> Line {
        self.line.clone()
    }

    /// How much CPU time its emulator has taken; `None` if it is gone.
    pub fn cpu_time(&self) -> Option<Duration> {
        let clock = clock_getcpuclockid(self.emulator.pid).ok()?;
        clock.now().ok().map(Duration::from)
    }

    /// Starts a program. What we send over [`Vm::line`] from here on is for this program.
    pub fn start(&mut self, argv: &[&str], terminal: Option<Terminal>) -> Result<()> {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        self.line.send(&ToGuest::Run { argv, terminal })
    }

    /// Waits for the end of the program that was started, and passes on its output as it comes.
    pub fn finish(
        &mut self,
        limit: Option<Duration>,
        mut print: impl FnMut(Stream, &[u8]) -> Result<()>,
    ) -> Result<i32> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        loop {
            match self.next(SILENCE)? {
                Some(FromGuest::Stdout(bytes)) => {
                    signals::progress();
                    print(Stream::Stdout, &bytes)?;
                }
                Some(FromGuest::Stderr(bytes)) => print(Stream::Stderr, &bytes)?,
                Some(FromGuest::Exit(status)) => return Ok(status),
                Some(FromGuest::Failed(why)) => return Err(Error::new(why)),
                Some(_) => {}
                None => return Err(self.emulator.hang_error(SILENCE)),
            }
            if let (Some(deadline), Some(limit)) = (deadline, limit)
                && Instant::now() > deadline
            {
                return Err(Error::new(format!("the program did not end within {} s", limit.as_secs()))
                    .evidence(self.emulator.console_tail()));
            }
        }
    }

    /// Runs a program to its end and returns what it printed.
    pub fn output(&mut self, argv: &[&str], limit: Duration) -> Result<Output> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        self.start(argv, None)?;
        let status = self.finish(Some(limit), |stream, bytes| {
            match stream {
                Stream::Stdout => stdout.extend_from_slice(bytes),
                Stream::Stderr => stderr.extend_from_slice(bytes),
            }
            Ok(())
        })?;
        Ok(Output { stdout, stderr: String::from_utf8_lossy(&stderr).into_owned(), status })
    }

    /// Copies files from the guest's working folder into a folder of the host, if they exist; see [`files`].
    pub fn fetch(&mut self, names: Vec<String>, folder: &Path) -> Result<()> {
        let mut found = BTreeMap::<String, Vec<u8>>::new();
        self.line.send(&ToGuest::Fetch(names.clone()))?;
        loop {
            match self.next(SILENCE)? {
                // The guest can only write files that we asked for, whatever runs in it.
                Some(FromGuest::File { name, part }) if names.contains(&name) => {
                    signals::progress();
                    found.entry(name).or_default().extend(part);
                }
                Some(FromGuest::Fetched) => return files::unpack(&found, folder),
                // The earlier files are complete.
                Some(FromGuest::Failed(why)) => {
                    return files::unpack(&found, folder).and(Err(Error::new(why)));
                }
                Some(_) => {}
                None => return Err(self.emulator.hang_error(SILENCE)),
            }
        }
    }

    pub fn rest(&mut self, time: Duration) -> Result<()> {
        self.next(time).map(drop)
    }

    /// Puts a program into the guest, in place of one with the same name. It goes through the end of the scratch disk,
    /// because the serial line would take a minute.
    pub fn install(&mut self, program: &Path) -> Result<()> {
        const ROOM: u64 = 16 << 20;
        const BLOCK: u64 = 64 << 10;
        let name = program.file_name().unwrap_or_default().display();
        let cannot = || format!("cannot put {name} into the guest");
        let bytes = fs::read(program).or_cause(cannot())?;
        let size = bytes.len() as u64;
        if size > ROOM {
            return Err(Error::new(cannot()).evidence(format!(
                "it has {} MiB, and there is room for {} MiB",
                size >> 20,
                ROOM >> 20
            )));
        }
        let from = RAW_BYTES - ROOM;
        self.emulator.raw_disk.write_all_at(&bytes, from).or_cause(cannot())?;
        // Past the page cache, which may have what was there before.
        let copy = format!(
            "dd if={RAW_DEVICE} of=/bin/.new iflag=direct bs={BLOCK} skip={} count={} && \
             truncate -s {size} /bin/.new && chmod 755 /bin/.new && mv /bin/.new /bin/{name}",
            from / BLOCK,
            size.div_ceil(BLOCK)
        );
        let copied = self.output(&["sh", "-c", &copy], SILENCE)?;
        if copied.status != 0 {
            return Err(Error::new(cannot()).evidence(copied.stderr));
        }
        Ok(())
    }

    pub fn describe(&self) -> String {
        let how = if self.accel == Accel::Kvm { "with KVM" } else { "under emulation (TCG)" };
        format!("Kernel {} {how}, up after {:.1} s", self.release, self.boot_time.as_secs_f64())
    }

    fn wait_until_ready(&mut self, limit: Duration) -> Result<()> {
        match self.next(limit)? {
            Some(FromGuest::Ready { release, complaint: None }) => {
                self.release = release;
                Ok(())
            }
            Some(FromGuest::Ready { complaint: Some(complaint), .. }) => Err(Error::new(
                "the guest is up, but has no disks",
            )
            .evidence(complaint)
            .fix(
                "use a kernel with CONFIG_BLK_DEV_NVME=y and CONFIG_EXT4_FS=y, such as those of the matrix",
            )),
            Some(other) => Err(Error::new("the guest's first message is not the expected one")
                .evidence(format!("{other:?}"))),
            None => Err(self.emulator.hang_error(limit)),
        }
    }

    /// The next message; `None` if there is none within `limit`.
    fn next(&mut self, limit: Duration) -> Result<Option<FromGuest>> {
        let deadline = Instant::now() + limit;
        loop {
            signals::check()?;
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left.min(LOOK_UP)) {
                Ok(message) => return Ok(Some(message)),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.emulator.exit_error()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_an_error_before_the_guest_runs() {
        let error = check_free_space(Path::new("/"), u64::MAX).unwrap_err();
        insta::with_settings!({filters => [(r"\d+ MiB", "[N] MiB")]}, {
            insta::assert_snapshot!(error, @r"
            there is no room for the guest's disks
              evidence: / has [N] MiB, they may take [N] MiB
              fix:      make room there, or name another folder: TMPDIR=FOLDER cargo lab ...
            ");
        });
    }

    #[test]
    fn kvm_is_tried_again_after_an_hour() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!kvm_has_failed(folder.path()));
        let file = fs::File::create(folder.path().join(KVM)).unwrap();
        assert!(kvm_has_failed(folder.path()));
        for (age, failed) in [(50, true), (70, false)] {
            file.set_modified(std::time::SystemTime::now() - Duration::from_secs(60 * age)).unwrap();
            assert_eq!(kvm_has_failed(folder.path()), failed, "{age} minutes");
        }
    }
}
