//! Programs of this machine that the lab calls.

use std::path::PathBuf;
use std::process::{Command, Output};

use common::{Error, Result};
use wire::arch::Arch;
use wire::command;

use crate::signals;

/// A program, and the Debian package that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    pub name: &'static str,
    pub package: &'static str,
    /// What the lab does with it.
    pub purpose: &'static str,
}

const fn tool(name: &'static str, package: &'static str, purpose: &'static str) -> Tool {
    Tool { name, package, purpose }
}

pub const QEMU: Tool = tool("qemu-system-x86_64", "qemu-system-x86", "emulates the guest's machine");
const QEMU_ARM: Tool = tool("qemu-system-aarch64", "qemu-system-arm", "emulates the guest's machine");
pub const fn emulator(arch: Arch) -> Tool {
    match arch {
        Arch::X86 => QEMU,
        Arch::Arm => QEMU_ARM,
    }
}

pub const BUSYBOX: Tool = tool("busybox", "busybox-static", "the guest's shell and small programs");
pub const MKE2FS: Tool = tool("mke2fs", "e2fsprogs", "makes the guest's file system");
pub const APT_GET: Tool = tool("apt-get", "apt", "fetches packages of Debian");
pub const DPKG_DEB: Tool = tool("dpkg-deb", "dpkg", "reads packages of Debian");
/// Where there is no apt.
pub const CURL: Tool = tool("curl", "curl", "fetches kernels");
pub const AR: Tool = tool("ar", "binutils", "unpacks kernel packages");
pub const XZ: Tool = tool("xz", "xz-utils", "unpacks kernel modules");
pub const DEPMOD: Tool = tool("depmod", "kmod", "finds out which modules need which");
pub const READELF: Tool = tool("readelf", "binutils", "finds the libraries that a program needs");
pub const SETPRIV: Tool = tool("setpriv", "util-linux", "ends the emulator when the lab is killed");
/// For the tests.
pub const MKFS_BTRFS: Tool = tool("mkfs.btrfs", "btrfs-progs", "makes a file system on a zoned disk");
pub const FIO: Tool = tool("fio", "fio", "measures I/O by its own clock");
/// The guest of `cargo lab shell` has it if this machine has it.
pub const BPFTOOL: Tool = tool("bpftool", "bpftool", "shows loaded BPF programs and maps");
pub const CLANG: Tool = tool("clang", "clang", "compiles the BPF programs");
/// Kernels unpack its output much faster than xz's. It also unpacks a kernel's image, to read its types.
pub const ZSTD: Tool = tool("zstd", "zstd", "compresses the room kit");
pub const LZ4: Tool = tool("lz4", "lz4", "unpacks the images of older kernels");
pub const GZIP: Tool = tool("gzip", "gzip", "unpacks kernel images");
pub const GIT: Tool = tool("git", "git", "collects the room kit's sources");
pub const TAR: Tool = tool("tar", "tar", "packs and unpacks files");
pub const SHA256SUM: Tool = tool("sha256sum", "coreutils", "computes the room kit's checksums");

/// Everything that the lab needs to run, besides a kernel.
pub const TO_RUN: [Tool; 6] = [emulator(Arch::HERE), BUSYBOX, MKE2FS, READELF, SETPRIV, CLANG];
/// Everything that it needs to fetch a kernel.
pub const TO_FETCH: [Tool; 4] = [AR, TAR, XZ, DEPMOD];

impl Tool {
    /// Where it is. If it is missing, the error names the package to install.
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

    fn installer(self) -> &'static str {
        if self == QEMU_ARM && Arch::HERE != Arch::Arm { "make arm64" } else { "make setup" }
    }

    pub fn command(self) -> Result<Command> {
        self.find().map(Command::new)
    }
}

/// Runs a command to its end and returns what it printed. Ctrl-C ends the command, too, and is then the error.
pub fn output(command: &mut Command) -> Result<Output> {
    let done = command::output(command);
    if done.is_err() {
        signals::check()?;
    }
    done
}
