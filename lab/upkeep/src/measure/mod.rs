//! Everything that boots guests to measure, and saves the data that the book shows.

use std::path::PathBuf;
use std::time::Duration;

use common::{Error, Result};
use machine::vm::Machine;
use machine::workbook::Workbook;

pub mod bench;
pub mod channels;
pub mod cost;
pub mod drift;
pub mod offers;
pub mod peers;
pub mod toolbox;
pub mod vmlinux;
pub mod ways;

/// What only measurements need in a guest: our ways to count bios, the channels to user space, and the guest's half of the
/// measurements.
pub const PROGRAMS: [&str; 3] = ["ways", "channels", "measure"];

/// Builds some of them.
///
/// # Errors
/// If one does not compile.
pub fn binaries(workbook: &Workbook, programs: &[&str]) -> Result<Vec<PathBuf>> {
    let packages = programs.iter().flat_map(|program| ["--package", program]);
    let mut cargo = workbook.cargo_build();
    cargo.arg("--quiet").args(packages);
    let names: Vec<_> = programs.iter().map(|program| (*program).to_owned()).collect();
    workbook.compile(cargo, &names, "what measures does not compile")
}

/// A kernel with all programs and `measure`.
pub(crate) fn machine(workbook: &Workbook, kernel: &str) -> Result<Machine> {
    let mut machine = Machine::new(workbook, kernel)?;
    machine.binaries.extend(binaries(workbook, &["measure"])?);
    Ok(machine)
}

/// Boots a kernel, and returns its release, and what `measure WHAT` prints there.
fn ask_guest(workbook: &Workbook, kernel: &str, what: &str) -> Result<(String, String)> {
    eprintln!("Booting Linux {kernel} ...");
    let mut guest = machine(workbook, kernel)?.boot()?;
    let seen = guest.output(&["measure", what], Duration::from_secs(120))?;
    if seen.status != 0 {
        return Err(Error::new(format!("{kernel} can't be measured")).evidence(seen.stderr));
    }
    Ok((guest.release.clone(), String::from_utf8_lossy(&seen.stdout).into_owned()))
}
