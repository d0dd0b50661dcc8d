//! QEMU's command line for the lab's guests. The room kit's launcher starts the same machine, and a test of the
//! kit compares them.

use std::path::Path;

use wire::arch::Arch;
use wire::disks::{FS_DISK, PART_DISK, RAW_DISK};

/// Bytes of the disk with the file system. Every disk is sparse: only what the guest writes takes space on the host.
pub const FS_BYTES: u64 = 256 << 20;
/// Bytes of each other disk.
pub(crate) const RAW_BYTES: u64 = 64 << 20;

/// The disks: QEMU's name for each, its serial, its bytes.
pub(crate) const DISKS: [(&str, &str, u64); 3] =
    [("fs", FS_DISK, FS_BYTES), ("raw", RAW_DISK, RAW_BYTES), ("part", PART_DISK, RAW_BYTES)];

pub const MEMORY: u32 = 1024;

/// What QEMU is not allowed to do, in case a guest ever breaks out of its machine: start programs, gain privileges,
/// or change its share of the machine. It needs none of these.
const SANDBOX: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

/// The machine's model. On x86_64 we use q35 because under emulation, a guest on the slimmer microvm occasionally hangs
/// ("could not calculate TSC khz"). `virt` is the one for arm64 that is no copy of a real board.
const fn model(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 => "q35",
        Arch::Arm => "virt",
    }
}

/// What differs from guest to guest.
pub struct CommandLine<'a> {
    pub arch: Arch,
    /// See [`emulation`] and [`hardware`].
    pub processors: &'a [String],
    pub kernel: &'a str,
    pub initramfs: &'a str,
    /// The words of the kernel's command line that follow the ones every guest has.
    pub append: &'a str,
    /// The folder with the files of its disks, which have the names of [`DISKS`], and with what the kernel writes to its
    /// console.
    pub folder: &'a Path,
    pub memory: &'a str,
    /// Whether QEMU restricts itself, see [`SANDBOX`]. A QEMU that was built without seccomp can't.
    pub sandbox: bool,
}

/// The kernel's command line, for every guest.
///
/// A kernel for x86_64 counts clock interrupts for a moment, and panics if there are too few ("IO-APIC + timer doesn't
/// work!"). On a busy machine, the emulator may get no CPU for so long; that happened once in two runs of all tests. So we
/// have the kernel skip this test, which is meant for hardware.
const fn append(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 => "console=ttyS0 panic=-1 norandmaps no_timer_check",
        Arch::Arm => "console=ttyAMA0 panic=-1 norandmaps",
    }
}

/// Two processors that QEMU emulates.
///
/// One thread runs both. With a thread for each (`thread=multi`), 1 of 40 boots of 6.12 died on an int3 that the
/// kernel had already patched away: QEMU 7.2 has a race with self-modifying code, which kprobes use.
///
/// The processor doesn't say that it copies strings of bytes fast (`erms`, `fsrm`). A kernel that hears so copies and
/// clears memory one byte at a time, as the fastest way on real hardware, but TCG really does it byte by byte: half of
/// what a guest did when it started stage 03 was `clear_page_erms()`.
pub fn emulation(cpu: &str) -> Vec<String> {
    words(["-smp", "2", "-accel", "tcg,thread=single", "-cpu", &format!("{cpu},-erms,-fsrm")])
}

/// The same for arm64. Debian's kernels run on this processor, an early one of its architecture. `max` has more features,
/// which cost: a boot took 8 s with it, and 5.8 s with this one.
pub fn emulation_of_arm() -> Vec<String> {
    words(["-smp", "2", "-accel", "tcg,thread=single", "-cpu", "cortex-a76"])
}

/// Two processors that the host's processor runs, through its system's interface.
pub fn hardware(accel: &str) -> Vec<String> {
    words(["-smp", "2", "-accel", accel, "-cpu", "host"])
}

/// One emulated processor whose clock counts instructions, 1 ns each. When there is nothing to do, the clock jumps to
/// the next event.
///
/// On x86_64 it does not copy bytes fast, see [`emulation`]: each byte would count as an instruction.
pub(crate) fn counted(arch: Arch) -> Vec<String> {
    let cpu = if arch == Arch::Arm { "cortex-a76" } else { "max,-erms,-fsrm" };
    words(["-smp", "1", "-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-cpu", cpu])
}

impl CommandLine<'_> {
    pub fn words(&self) -> Vec<String> {
        let mut line = words(["-M", model(self.arch), "-m", self.memory]);
        line.extend_from_slice(self.processors);
        line.extend(words(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]));
        if self.sandbox {
            line.extend(words(["-sandbox", SANDBOX]));
        }
        line.extend(words(["-kernel", self.kernel, "-initrd", self.initramfs]));
        // On a panic, QEMU ends immediately: panic=-1 asks for a reboot, and -no-reboot refuses it. With norandmaps, a
        // program has the same addresses each time it starts. QEMU keeps what it has translated by its address, so it
        // need not translate the program again: to start and end stage 03 takes a third less time.
        line.extend(words(["-append", format!("{} {}", append(self.arch), self.append).trim_end()]));
        let console = format!("file,id=console,path={}", value(&self.folder.join("console")));
        line.extend(words(["-chardev", &console, "-serial", "chardev:console"]));
        line.extend(words(["-chardev", "stdio,id=line,signal=off"]));
        line.extend(match self.arch {
            Arch::X86 => words(["-serial", "chardev:line"]),
            // There is only one port on the board.
            Arch::Arm => words(["-device", "pci-serial,chardev=line"]),
        });
        for (name, serial, _) in DISKS {
            // cache=unsafe: the disk is gone with the guest, so the host need not flush it.
            let file = value(&self.folder.join(name));
            line.extend(words(["-drive", &format!("if=none,id={name},format=raw,cache=unsafe,file={file}")]));
            line.extend(words(["-device", &format!("nvme,serial={serial},drive={name}")]));
        }
        line
    }
}

fn words<const N: usize>(line: [&str; N]) -> Vec<String> {
    line.map(str::to_owned).into()
}

/// A path in a list of options, where a comma would end it. The values of `-kernel`, `-initrd` and `-append` are not
/// lists.
fn value(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_a_path_ends_no_option() {
        let folder = Path::new("/tmp/a, b");
        let line = CommandLine {
            arch: Arch::X86,
            processors: &emulation("max"),
            kernel: "/tmp/a, b/kernel",
            initramfs: "/tmp/a, b/initramfs",
            append: "",
            folder,
            memory: "1024",
            sandbox: false,
        };
        let line = line.words();
        let with: Vec<_> = line.iter().filter(|word| word.contains("/tmp")).collect();
        assert_eq!(
            with,
            [
                "/tmp/a, b/kernel",
                "/tmp/a, b/initramfs",
                "file,id=console,path=/tmp/a,, b/console",
                "if=none,id=fs,format=raw,cache=unsafe,file=/tmp/a,, b/fs",
                "if=none,id=raw,format=raw,cache=unsafe,file=/tmp/a,, b/raw",
                "if=none,id=part,format=raw,cache=unsafe,file=/tmp/a,, b/part",
            ]
        );
        assert!(line.contains(&append(Arch::X86).to_owned()));
    }
}
