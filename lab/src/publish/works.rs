//! What works on arm64: `cargo lab demo --arch arm64 --record` runs every stage and two examples on all its kernels, and
//! saves for each whether what it printed was true.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use common::kernel::NO_FENTRY;
use common::{Error, OrCause, Result};

use crate::learn::demo;
use crate::learn::list::aligned;
use crate::machine::kernels::Series;
use crate::machine::vm::Machine;
use crate::publish::tables::markdown;
use crate::shared::protocol::NOT_HERE;
use crate::workbook::Workbook;

/// The data file, from the top folder.
const DATA: &str = "docs/src/arm64.tsv";

/// What a program that printed the truth has in the data.
const TRUE: &str = "true";

/// What we saved: a line with the kernels, and a line for each program. A cell is `true`, or the reason why not.
pub struct Works {
    kernels: Vec<String>,
    programs: Vec<(String, Vec<String>)>,
}

/// Boots all kernels of the workbook's architecture, and saves what works there.
///
/// # Errors
/// If one does not boot, or the file can't be written.
pub fn record(workbook: &Workbook) -> Result<()> {
    let kernels: Vec<_> = Series::all(workbook.arch()).iter().map(|series| series.name.to_owned()).collect();
    let programs = demo::programs(workbook)?;
    let mut works = Works {
        kernels: kernels.clone(),
        programs: programs.iter().map(|program| (program.binary(), Vec::new())).collect(),
    };
    for kernel in &kernels {
        eprintln!("Booting Linux {kernel} on {} ...", workbook.arch());
        let mut guest = Machine::new(workbook, kernel)?.boot()?;
        for (program, (_, cells)) in programs.iter().zip(&mut works.programs) {
            let seen = demo::one(&mut guest, *program)?;
            cells.push(match seen.status {
                0 => TRUE.to_owned(),
                status if status == i32::from(NOT_HERE) => NO_FENTRY.to_owned(),
                _ => cause(&seen.stderr),
            });
        }
    }
    let path = workbook.root.join(DATA);
    fs::write(&path, works.text()).or_cause(format!("cannot write {}", path.display()))
}

/// The innermost cause in an error that quotes another one as its evidence.
fn cause(error: &str) -> String {
    let last = error.lines().filter_map(|line| line.split_once("Error: ")).next_back();
    last.map_or("no error", |(_, cause)| cause).to_owned()
}

impl Works {
    /// Reads what we saved.
    ///
    /// # Errors
    /// If there is none, or it is malformed.
    pub fn read(root: &Path) -> Result<Self> {
        let path = root.join(DATA);
        let text = fs::read_to_string(&path).or_cause(format!("cannot read {}", path.display()))?;
        Self::parse(&text).ok_or_else(|| Error::new(format!("{DATA} is malformed")))
    }

    fn parse(text: &str) -> Option<Self> {
        let cells = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
        let mut lines = text.lines().map(cells);
        let kernels = lines.next()?.split_off(1);
        let programs = lines.map(|mut cells| {
            let rest = cells.split_off(1);
            (rest.len() == kernels.len()).then_some((cells.pop()?, rest))
        });
        Some(Self { programs: programs.collect::<Option<_>>()?, kernels })
    }

    fn text(&self) -> String {
        let head = format!("program\t{}\n", self.kernels.join("\t"));
        let row = |(program, cells): &(String, Vec<String>)| format!("{program}\t{}\n", cells.join("\t"));
        head + &self.programs.iter().map(row).collect::<String>()
    }

    /// The table's lines, the first of which is its head.
    fn lines(&self) -> Vec<Vec<String>> {
        let head = [String::new()].into_iter().chain(self.kernels.iter().cloned()).collect();
        let row = |(program, cells): &(String, Vec<String>)| {
            let cell = |cell: &String| if cell == TRUE { "works" } else { "no" }.to_owned();
            [program.clone()].into_iter().chain(cells.iter().map(cell)).collect()
        };
        [head].into_iter().chain(self.programs.iter().map(row)).collect()
    }

    /// Why some programs don't work.
    fn reasons(&self) -> BTreeSet<&str> {
        let cells = self.programs.iter().flat_map(|(_, cells)| cells);
        cells.map(String::as_str).filter(|cell| *cell != TRUE).collect()
    }

    /// The table for a terminal.
    pub fn terminal(&self) -> String {
        let reasons: String = self.reasons().iter().map(|reason| format!("no: {reason}\n")).collect();
        format!("{}\n{reasons}", aligned(&self.lines()))
    }

    /// The table for the book.
    pub fn table(&self) -> String {
        let reasons: String = self.reasons().iter().map(|reason| format!("\n*no:* {reason}\n")).collect();
        format!("{}{reasons}", markdown(self.lines()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "program\t6.1\t6.12\nstage01\ttrue\ttrue\nstage02\tit can't attach\ttrue\n";

    #[test]
    fn what_is_saved_is_read_and_shown() {
        let works = Works::parse(TEXT).unwrap();
        assert_eq!(works.text(), TEXT);
        insta::assert_snapshot!(works.terminal());
        insta::assert_snapshot!("table", works.table());
        assert!(Works::parse("program\t6.1\t6.12\nstage01\ttrue\n").is_none());
    }

    #[test]
    fn the_innermost_cause_is_the_reason() {
        let error =
            "Error: stage02 ended before it was attached\n  evidence: Error: it can't attach\n  fix: none\n";
        assert_eq!(cause(error), "it can't attach");
    }
}
