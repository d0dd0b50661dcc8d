//! `cargo upkeep drift`: what the tutorial's probe points are on each kernel, and how often known workloads call each of
//! them. It writes the data for the chapter "The kernel moved".

use std::fs;
use std::process::ExitCode;

use common::report::print_text;
use common::{OrCause, Result};
use machine::kernels::MATRIX;
use machine::workbook::Workbook;

use super::ask_guest;

use crate::publish::drift::{Drift, data};
use crate::publish::sync;

/// On the host: boots kernels, saves the results of the matrix's kernels, and prints those of others beside them.
///
/// # Errors
/// If measuring fails in a guest.
pub fn run(workbook: &Workbook, names: &[String]) -> Result<ExitCode> {
    let arch = workbook.arch();
    let path = workbook.root.join(data(arch));
    let mut drift = match path.exists() {
        true => Drift::read(&workbook.root, arch)?,
        false => Drift { kernels: MATRIX.map(|series| series.name.to_owned()).to_vec(), ..Drift::default() },
    };
    let all = MATRIX.map(|series| series.name.to_owned());
    for name in if names.is_empty() { &all[..] } else { names } {
        let (release, text) = ask_guest(workbook, name, "drift")?;
        let cells = |line: &str| {
            let cells: Vec<_> = line.split('\t').map(str::to_owned).collect();
            cells.try_into().ok()
        };
        let column: Vec<[String; 3]> = text.lines().filter_map(cells).collect();
        if MATRIX.iter().any(|series| series.name == name) {
            drift.put(name, &column);
            fs::write(&path, drift.text()).or_cause(format!("cannot write {}", path.display()))?;
            eprint!("{}", sync::write(workbook, false)?);
        } else {
            let mut both = drift.clone();
            both.put(&release, &column);
            print_text(both.tables().trim_end())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
