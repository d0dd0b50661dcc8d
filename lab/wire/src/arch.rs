//! The architectures of processors for which there are guests.
//!
//! Another architecture needs these parts:
//!
//! - QEMU's machine and the console's name (`lab/machine/src/qemu.rs`), and its kernels in the lock: `cargo upkeep kernels
//!   --arch ARCH`;
//! - its own `vmlinux.h`, from a guest (`cargo upkeep vmlinux --arch ARCH`) or from a machine whose kernel has BTF
//!   (`cargo upkeep vmlinux --this-machine`);
//! - what a program must know of its stack and its registers (`common/build/include/arch.bpf.h`), and how functions get
//!   their arguments (ctracer's `find.rs`). A stage has one source for all architectures.
//!
//! `make test-arm64` runs the kernels' cases in guests of arm64. `lab/tests/kernel/main.rs` marks those that can't be right
//! there, and why. `make test` has no such guest; `cargo lab demo --arch arm64` runs most stages once in one.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// An architecture. Everybody has another word for each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
pub enum Arch {
    /// What Intel and AMD make.
    #[serde(rename = "x86_64")]
    #[value(name = "x86_64", alias = "amd64", alias = "x86-64")]
    X86,
    /// What is in Apple's computers, in many small ones, and in some servers.
    #[serde(rename = "arm64")]
    #[value(name = "arm64", alias = "aarch64")]
    Arm,
}

impl Arch {
    /// The one that this program was compiled for.
    pub const HERE: Self = if cfg!(target_arch = "aarch64") { Self::Arm } else { Self::X86 };

    /// Its name for `--arch` and in our texts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86 => "x86_64",
            Self::Arm => "arm64",
        }
    }

    /// What to append to a command of the lab so that it is for this architecture; nothing for the one here.
    pub fn option(self) -> &'static str {
        match self {
            here if here == Self::HERE => "",
            Self::X86 => " --arch x86_64",
            Self::Arm => " --arch arm64",
        }
    }

    /// Debian's word, which packages have in their names.
    pub const fn debian(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
            Self::Arm => "arm64",
        }
    }

    /// What `uname -m`, rustc and QEMU call it.
    pub const fn machine(self) -> &'static str {
        match self {
            Self::X86 => "x86_64",
            Self::Arm => "aarch64",
        }
    }
}

impl std::fmt::Display for Arch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
