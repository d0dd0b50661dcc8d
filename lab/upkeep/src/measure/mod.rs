//! Everything that boots guests to measure, and saves the data that the book shows.

use std::time::Duration;

use common::{Error, Result};
use machine::vm::Machine;
use machine::workbook::Workbook;

pub mod bench;
pub mod channels;
pub mod drift;
pub mod offers;
pub mod peers;
pub mod toolbox;
pub mod vmlinux;
pub mod ways;

/// Boots a kernel, and returns its release, and what `guest WHAT` prints there.
fn ask_guest(workbook: &Workbook, kernel: &str, what: &str) -> Result<(String, String)> {
    eprintln!("Booting Linux {kernel} ...");
    let mut guest = Machine::new(workbook, kernel)?.boot()?;
    let seen = guest.output(&["guest", what], Duration::from_secs(120))?;
    if seen.status != 0 {
        return Err(Error::new(format!("{kernel} can't be measured")).evidence(seen.stderr));
    }
    Ok((guest.release.clone(), String::from_utf8_lossy(&seen.stdout).into_owned()))
}
