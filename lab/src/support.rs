//! What works on arm64, as it was recorded.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use common::{Error, OrCause, Result};

use crate::list::aligned;

/// The data file, from the top folder.
pub const DATA: &str = "docs/src/arm64.tsv";

/// What a program that printed the truth has in the data.
pub const TRUE: &str = "true";

/// What was recorded: a line with the kernels, and a line for each program. A cell is `true`, or the reason why not.
#[derive(Clone, Debug)]
pub struct SupportMatrix {
    /// The kernels' names.
    pub kernels: Vec<String>,
    /// The programs' names, and their cells.
    pub programs: Vec<(String, Vec<String>)>,
}

impl SupportMatrix {
    /// Reads what was recorded.
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

    /// The data file's text.
    pub fn text(&self) -> String {
        let head = format!("program\t{}\n", self.kernels.join("\t"));
        let row = |(program, cells): &(String, Vec<String>)| format!("{program}\t{}\n", cells.join("\t"));
        head + &self.programs.iter().map(row).collect::<String>()
    }

    /// The table's lines, the first of which is its head.
    pub fn lines(&self) -> Vec<Vec<String>> {
        let head = [String::new()].into_iter().chain(self.kernels.iter().cloned()).collect();
        let row = |(program, cells): &(String, Vec<String>)| {
            let cell = |cell: &String| if cell == TRUE { "works" } else { "no" }.to_owned();
            [program.clone()].into_iter().chain(cells.iter().map(cell)).collect()
        };
        [head].into_iter().chain(self.programs.iter().map(row)).collect()
    }

    /// Why some programs don't work.
    pub fn reasons(&self) -> BTreeSet<&str> {
        let cells = self.programs.iter().flat_map(|(_, cells)| cells);
        cells.map(String::as_str).filter(|cell| *cell != TRUE).collect()
    }

    /// The table for a terminal.
    pub fn terminal(&self) -> String {
        let reasons: String = self.reasons().iter().map(|reason| format!("no: {reason}\n")).collect();
        format!("{}\n{reasons}", aligned(&self.lines()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "program\t6.1\t6.12\nstage01\ttrue\ttrue\nstage02\tit can't attach\ttrue\n";

    #[test]
    fn what_is_saved_is_read_and_shown() {
        let matrix = SupportMatrix::parse(TEXT).unwrap();
        assert_eq!(matrix.text(), TEXT);
        insta::assert_snapshot!(matrix.terminal());
        assert!(SupportMatrix::parse("program\t6.1\t6.12\nstage01\ttrue\n").is_none());
    }
}
