//! Everything that boots guests to measure, and saves the data that the pages and the editor show.

use std::env;
use std::time::Duration;

use common::{Error, OrCause, Result};
use machine::vm::Machine;
use machine::workbook::Workbook;

pub mod cost;
pub mod helpers;
pub mod in_guest;
pub mod offers;
pub mod peers;
pub mod vmlinux;

/// How long the guest may take to boot, and how long to measure.
const LIMIT: Duration = Duration::from_secs(300);

/// A kernel with all programs and this one, which measures there.
pub(crate) fn machine(workbook: &Workbook, kernel: &str) -> Result<Machine> {
    let mut machine = Machine { limit: LIMIT, ..Machine::new(workbook, kernel)? };
    machine.binaries.push(env::current_exe().or_cause("cannot find the program of cargo upkeep")?);
    Ok(machine)
}

/// Boots a guest, and returns the lines that [`in_guest::measure`] makes there.
fn ask_guest(machine: &Machine, what: &str) -> Result<Vec<String>> {
    let mut guest = machine.boot()?;
    let seen = guest.output(&["upkeep", "in-guest", what], LIMIT)?;
    match seen.status {
        0 => Ok(String::from_utf8_lossy(&seen.stdout).lines().map(str::to_owned).collect()),
        _ => Err(Error::new(format!("{} can't measure {what}", guest.release)).evidence(seen.stderr)),
    }
}
