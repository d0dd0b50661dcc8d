//! Programs of this machine that the lab calls.

use std::path::PathBuf;
use std::process::{Command, Output};

use common::{Error, Result};
use wire::arch::Arch;
use wire::command;

use crate::host::interrupt;

/// A program, and the Debian package that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    pub name: &'static str,
    /// Debian's package.
    pub package: &'static str,
    /// What the lab does with it.
    pub purpose: &'static str,
}

/// The emulator of x86_64.
pub const QEMU: Tool =
    Tool { name: "qemu-system-x86_64", package: "qemu-system-x86", purpose: "emulates the guest's machine" };
/// The emulator of arm64.
const QEMU_ARM: Tool =
    Tool { name: "qemu-system-aarch64", package: "qemu-system-arm", purpose: "emulates the guest's machine" };
/// The emulator of an architecture.
pub const fn emulator(arch: Arch) -> Tool {
    match arch {
        Arch::X86 => QEMU,
        Arch::Arm => QEMU_ARM,
    }
}

/// The guest's shell and small programs.
pub const BUSYBOX: Tool =
    Tool { name: "busybox", package: "busybox-static", purpose: "the guest's shell and small programs" };
/// Makes the guest's file system.
pub const MKE2FS: Tool =
    Tool { name: "mke2fs", package: "e2fsprogs", purpose: "makes the guest's file system" };
/// Fetches the compiler for another architecture.
pub const APT_GET: Tool = Tool { name: "apt-get", package: "apt", purpose: "fetches packages of Debian" };
/// Reads what a package of Debian says about itself.
pub const DPKG_DEB: Tool = Tool { name: "dpkg-deb", package: "dpkg", purpose: "reads packages of Debian" };
/// Fetches kernels where there is no apt.
pub const CURL: Tool = Tool { name: "curl", package: "curl", purpose: "fetches kernels" };
/// Unpacks kernels.
pub const AR: Tool = Tool { name: "ar", package: "binutils", purpose: "unpacks kernel packages" };
/// Unpacks kernel modules.
pub const XZ: Tool = Tool { name: "xz", package: "xz-utils", purpose: "unpacks kernel modules" };
/// Computes in which order modules are loaded.
pub const DEPMOD: Tool =
    Tool { name: "depmod", package: "kmod", purpose: "finds out which modules need which" };
/// Finds the libraries of the guest's programs.
pub const READELF: Tool =
    Tool { name: "readelf", package: "binutils", purpose: "finds the libraries that a program needs" };
/// Ends the emulator when the lab is killed.
pub const SETPRIV: Tool =
    Tool { name: "setpriv", package: "util-linux", purpose: "ends the emulator when the lab is killed" };
/// Makes a file system on a zoned disk, in the guest of the tests.
pub const MKFS_BTRFS: Tool =
    Tool { name: "mkfs.btrfs", package: "btrfs-progs", purpose: "makes a file system on a zoned disk" };
/// Others' tools that measure I/O, in the guest of the tests: by the clock of a program, and of the kernel's own tracer,
/// whose records the last two read.
pub const PEERS: [Tool; 4] = [
    Tool { name: "fio", package: "fio", purpose: "measures I/O by its own clock" },
    Tool { name: "blktrace", ..BTT },
    Tool { name: "blkparse", ..BTT },
    BTT,
];
const BTT: Tool = Tool { name: "btt", package: "blktrace", purpose: "divides the time of an I/O" };
/// Shows loaded BPF programs and maps. The guest of `cargo lab shell` has it if this machine has it.
pub const BPFTOOL: Tool =
    Tool { name: "bpftool", package: "bpftool", purpose: "shows loaded BPF programs and maps" };
/// The compiler for BPF.
pub const CLANG: Tool = Tool { name: "clang", package: "clang", purpose: "compiles the BPF programs" };

/// Compresses the room kit's initramfs. Kernels unpack zstd's output much faster than xz's. Also unpacks a kernel's image
/// to read its types.
pub const ZSTD: Tool = Tool { name: "zstd", package: "zstd", purpose: "compresses the room kit" };
/// Unpacks a kernel's image to read its types.
pub const LZ4: Tool = Tool { name: "lz4", package: "lz4", purpose: "unpacks the images of older kernels" };
/// The same.
pub const GZIP: Tool = Tool { name: "gzip", package: "gzip", purpose: "unpacks kernel images" };
/// Packs sources.
pub const GIT: Tool = Tool { name: "git", package: "git", purpose: "collects the room kit's sources" };
/// Unpacks kernels, and packs the build kit.
pub const TAR: Tool = Tool { name: "tar", package: "tar", purpose: "packs and unpacks files" };
/// Computes the checksums by which a room kit can be verified.
pub const SHA256SUM: Tool =
    Tool { name: "sha256sum", package: "coreutils", purpose: "computes the room kit's checksums" };

/// Everything that the lab needs to run, besides a kernel.
pub const TO_RUN: [Tool; 6] = [emulator(Arch::HERE), BUSYBOX, MKE2FS, READELF, SETPRIV, CLANG];
/// Everything that it needs to fetch a kernel.
pub const TO_FETCH: [Tool; 4] = [AR, TAR, XZ, DEPMOD];

impl Tool {
    /// Where it is.
    ///
    /// # Errors
    /// If it is missing; the error names the package to install.
    pub fn find(self) -> Result<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        // mke2fs and depmod are in sbin, which is not in every user's PATH.
        let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
        folders.map(|folder| folder.join(self.name)).find(|file| file.is_file()).ok_or_else(|| {
            Error::new(format!("{} is missing ({})", self.name, self.purpose))
                .evidence(format!("it is not in PATH: {}", path.to_string_lossy()))
                .fix(format!(
                    "install it: {} (Debian, Ubuntu: apt install {})",
                    self.installer(),
                    self.package
                ))
        })
    }

    /// The command that installs it.
    fn installer(self) -> &'static str {
        if self == QEMU_ARM && Arch::HERE != Arch::Arm { "make arm64" } else { "make setup" }
    }

    /// The program as a command.
    pub fn command(self) -> Result<Command> {
        self.find().map(Command::new)
    }
}

/// Runs a command to its end and returns what it printed.
///
/// # Errors
/// Those of [`command::output`], or if we are to end: Ctrl-C ends the command, too.
pub fn output(command: &mut Command) -> Result<Output> {
    unless_interrupted(command::output(command))
}

/// The result of a command. If it failed because Ctrl-C ended it, the error is that.
fn unless_interrupted(done: Result<Output>) -> Result<Output> {
    if done.is_err() {
        interrupt::check()?;
    }
    done
}
