//! Everything that boots guests to measure, and saves the data that the book shows.

use std::time::Duration;

use common::{Error, Result};
use machine::vm::Machine;
use machine::workbook::Workbook;

pub mod cost;
pub mod offers;
pub mod peers;
pub mod vmlinux;

/// A kernel with all programs and `measure`.
pub(crate) fn machine(workbook: &Workbook, kernel: &str) -> Result<Machine> {
    let mut machine = Machine::new(workbook, kernel)?;
    let mut cargo = workbook.cargo_build();
    cargo.args(["--quiet", "--package", "measure"]);
    let built = workbook.compile(cargo, &["measure".to_owned()], "what measures does not compile")?;
    machine.binaries.extend(built);
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
