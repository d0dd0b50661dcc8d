//! `cargo lab channels`: what it costs to send an event from the kernel to user space, through each of the ways that
//! there are, and what gets lost when nobody reads. It writes the data that the chapter "Through the wall" shows.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use common::{Error, OrCause, Result};

use crate::kernels::MATRIX;
use crate::tools::output;
use crate::vm::{Accel, Machine};
use crate::workbook::Workbook;

/// Where the data is kept, from the top folder.
pub const DATA: &str = "docs/src/channels.tsv";

/// The program that sends, built.
///
/// # Errors
/// If it does not compile.
pub fn binary(workbook: &Workbook) -> Result<PathBuf> {
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    output(cargo.current_dir(&workbook.root).args(["build", "--quiet", "--package", "channels"]))?;
    Ok(workbook.binaries().join("channels"))
}

/// On the host: boots each kernel of the matrix in a machine that counts instructions, and writes what is measured there.
///
/// # Errors
/// If a guest can't measure.
pub fn run(workbook: &Workbook) -> Result<ExitCode> {
    let mut data = String::new();
    for series in MATRIX {
        eprintln!("Booting Linux {} ...", series.name);
        let mut machine = Machine { accel: Accel::Icount, ..Machine::new(workbook, series.name)? };
        machine.binaries.push(binary(workbook)?);
        let mut guest = machine.boot()?;
        for what in ["cost", "loss"] {
            let seen = guest.output(&["channels", what], Duration::from_secs(120))?;
            if seen.status != 0 {
                return Err(Error::new(format!("{} can't be measured", series.name)).evidence(seen.stderr));
            }
            for line in String::from_utf8_lossy(&seen.stdout).lines() {
                data += &format!("{}\t{what}\t{line}\n", series.name);
            }
        }
    }
    let path = workbook.root.join(DATA);
    fs::write(&path, data).or_cause(format!("cannot write {}", path.display()))?;
    Ok(ExitCode::SUCCESS)
}
