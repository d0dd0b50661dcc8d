//! The options with which a command boots a guest.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use common::Result;
use wire::arch::Arch;

use crate::cross;
use crate::kernels::{DEFAULT, Series};
use crate::vm::{Accel, BOOT_LIMIT, Machine, Vm};
use crate::workbook::Workbook;

#[derive(Args, Clone, Debug)]
pub struct Boot {
    #[arg(long, value_name = "VERSION or PATH", default_value = DEFAULT,
          help = format!("The kernel: {}, or the path of a kernel's image", Series::names()))]
    pub kernel: String,
    /// The guest's architecture: x86_64 or arm64
    #[arg(long, value_enum, value_name = "ARCH", default_value_t = Arch::HERE, hide_possible_values = true)]
    pub arch: Arch,
    /// How to run the guest's instructions
    #[arg(long, value_enum, default_value_t, hide = true)]
    pub accel: Accel,
    /// Words to append to the kernel's command line
    #[arg(long, value_name = "WORDS", default_value = "", hide_default_value = true)]
    pub append: String,
    /// How long the guest may take to boot
    #[arg(long, value_name = "SECS", default_value_t = BOOT_LIMIT.as_secs())]
    pub boot_limit: u64,
}

impl Boot {
    /// The workbook, to be built for the guest's architecture.
    pub fn workbook(&self) -> Result<Workbook> {
        cross::for_arch(Workbook::read()?, self.arch, None)
    }

    /// Boots a guest with these programs.
    pub fn boot_with(&self, workbook: &Workbook, binaries: Vec<PathBuf>) -> Result<Vm> {
        self.start(&self.machine(workbook, binaries)?)
    }

    /// A guest with these programs.
    pub fn machine(&self, workbook: &Workbook, binaries: Vec<PathBuf>) -> Result<Machine> {
        let limit = Duration::from_secs(self.boot_limit);
        let machine = Machine::with(workbook, &self.kernel, binaries)?;
        Ok(Machine { accel: self.accel, append: self.append.clone(), limit, ..machine })
    }

    /// Boots it, and says so.
    pub fn start(&self, machine: &Machine) -> Result<Vm> {
        let other = if self.arch == Arch::HERE { String::new() } else { format!(" on {}", self.arch) };
        eprintln!("Booting Linux {}{other} ...", self.kernel);
        let guest = machine.boot()?;
        eprintln!("{}", guest.describe());
        Ok(guest)
    }
}
