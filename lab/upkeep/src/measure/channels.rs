//! `cargo upkeep channels`: what it costs to send an event from the kernel to user space through each available channel,
//! and what gets lost when nobody reads. It writes the data for the chapter "Through the wall".

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use common::report::print_text;
use common::{Error, OrCause, Result};
use machine::kernels::MATRIX;
use machine::vm::{Accel, Machine};
use machine::workbook::Workbook;

use crate::measure::binaries;
use crate::publish::channels::{DATA, HEAD, table};
use crate::publish::sync;

/// On the host: boots each kernel of the matrix on a machine whose clock counts instructions, and saves what we
/// measure there.
///
/// # Errors
/// If measuring fails in a guest.
pub fn run(workbook: &Workbook) -> Result<ExitCode> {
    let mut data = HEAD.to_owned();
    for series in MATRIX {
        eprintln!("Booting Linux {} ...", series.name);
        let mut machine = Machine { accel: Accel::Icount, ..Machine::new(workbook, series.name)? };
        machine.binaries.extend(binaries(workbook, &["channels"])?);
        let mut guest = machine.boot()?;
        let mut measure = |what| {
            let seen = guest.output(&["channels", what], Duration::from_secs(120))?;
            match seen.status {
                0 => Ok(String::from_utf8_lossy(&seen.stdout).into_owned()),
                _ => Err(Error::new(format!("{} can't be measured", series.name)).evidence(seen.stderr)),
            }
        };
        let (costs, losses) = (measure("cost")?, measure("loss")?);
        for (cost, loss) in costs.lines().zip(losses.lines()) {
            let numbers = loss.split_once('\t').map_or("", |(_, numbers)| numbers);
            data += &format!("{}\t{cost}\t{numbers}\n", series.name);
        }
    }
    let path = workbook.root.join(DATA);
    fs::write(&path, data).or_cause(format!("cannot write {}", path.display()))?;
    print_text(table(&workbook.root)?.trim_end())?;
    eprint!("{}", sync::write(workbook, false)?);
    Ok(ExitCode::SUCCESS)
}
