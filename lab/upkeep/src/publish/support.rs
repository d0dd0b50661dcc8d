//! `cargo upkeep arm64` runs stages 01 to 09 and three examples on all kernels of arm64, and records for each whether what it
//! printed was true.

use std::fs;

use common::kernel::NO_FENTRY;
use common::{OrCause, Result};
use lab::demo;
use lab::support::{DATA, SupportMatrix, TRUE};
use machine::kernels::Series;
use machine::vm::Machine;
use machine::workbook::Workbook;
use wire::protocol::NOT_HERE;

use crate::publish::tables::markdown;

/// Boots all kernels of the workbook's architecture, and saves what works there.
///
/// # Errors
/// If one does not boot, or the file can't be written.
pub fn record(workbook: &Workbook) -> Result<()> {
    let kernels: Vec<_> = Series::all(workbook.arch()).iter().map(|series| series.name.to_owned()).collect();
    let programs = demo::programs(workbook)?;
    let mut matrix = SupportMatrix {
        kernels: kernels.clone(),
        programs: programs.iter().map(|program| (program.binary(), Vec::new())).collect(),
    };
    for kernel in &kernels {
        eprintln!("Booting Linux {kernel} on {} ...", workbook.arch());
        let mut guest = Machine::new(workbook, kernel)?.boot()?;
        for (program, (_, cells)) in programs.iter().zip(&mut matrix.programs) {
            let seen = demo::one(&mut guest, *program)?;
            cells.push(match seen.status {
                0 => TRUE.to_owned(),
                status if status == i32::from(NOT_HERE) => NO_FENTRY.to_owned(),
                _ => cause(&seen.stderr),
            });
        }
    }
    let path = workbook.root.join(DATA);
    fs::write(&path, matrix.text()).or_cause(format!("cannot write {}", path.display()))
}

/// The innermost cause in an error that quotes another one as its evidence.
fn cause(error: &str) -> String {
    let last = error.lines().filter_map(|line| line.split_once("Error: ")).next_back();
    last.map_or("no error", |(_, cause)| cause).to_owned()
}

/// The table for the book.
pub fn table(matrix: &SupportMatrix) -> String {
    let reasons: String = matrix.reasons().iter().map(|reason| format!("\n*no:* {reason}\n")).collect();
    format!("{}{reasons}", markdown(matrix.lines()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_row_for_each_program_and_the_reasons() {
        let programs = vec![
            ("stage01".to_owned(), vec!["true".to_owned(), "true".to_owned()]),
            ("stage02".to_owned(), vec!["it can't attach".to_owned(), "true".to_owned()]),
        ];
        let matrix = SupportMatrix { kernels: vec!["6.1".to_owned(), "6.12".to_owned()], programs };
        insta::assert_snapshot!(table(&matrix));
    }

    #[test]
    fn the_innermost_cause_is_the_reason() {
        let error =
            "Error: stage02 ended before it was attached\n  evidence: Error: it can't attach\n  fix: none\n";
        assert_eq!(cause(error), "it can't attach");
    }
}
