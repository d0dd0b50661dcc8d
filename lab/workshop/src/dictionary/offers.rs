//! Where 5.10, 6.1, 6.12 and 7.2 differ in what they offer to BPF programs, as we measured it in November 2026. Whoever asks
//! has one kernel, and may not load programs. For another kernel, the editor has no marks.

use std::collections::BTreeMap;

/// The first cell of a helper's row. That of a member's row is its type.
pub const HELPER: &str = "helper";
/// The cell of a kernel that lacks it.
pub const LACKS: &str = "-";
/// Who may call a helper: each program of the kinds that readers of the workbook write.
pub const EVERY_PROGRAM: &str = "all";
/// None of these programs may call it.
pub const NO_PROGRAM: &str = "none";

/// What was recorded: a row for each helper and each member that not all kernels have, and for each helper that not all
/// programs may call.
#[derive(Debug)]
pub struct Offers {
    kernels: Vec<&'static str>,
    rows: BTreeMap<(&'static str, &'static str), Vec<&'static str>>,
}

impl Offers {
    /// The recorded data.
    pub fn recorded() -> Self {
        let mut lines = include_str!("offers.tsv").lines().map(|line| line.split('\t'));
        let kernels = lines.next().into_iter().flatten().skip(2).collect();
        let row = |mut cells: std::str::Split<'static, char>| {
            Some(((cells.next()?, cells.next()?), cells.collect::<Vec<_>>()))
        };
        Self { kernels, rows: lines.filter_map(row).collect() }
    }

    /// The kernels that lack something.
    pub fn lacking(&self, of: &str, name: &str) -> Vec<&'static str> {
        let cells = self.rows.get(&(of, name)).into_iter().flatten();
        let kernels = cells.zip(&self.kernels).filter(|(cell, _)| **cell == LACKS);
        kernels.map(|(_, kernel)| *kernel).collect()
    }

    /// The programs that may call a helper on a kernel, or on the newest one if we have not recorded this kernel; `None` if
    /// all may.
    pub fn callers(&self, helper: &str, kernel: Option<&str>) -> Option<Vec<&'static str>> {
        let nth = self.kernels.iter().position(|name| Some(*name) == kernel);
        let cell = self.rows.get(&(HELPER, helper))?.get(nth.unwrap_or(self.kernels.len() - 1))?;
        let callers = || cell.split(' ').filter(|program| *program != NO_PROGRAM).collect();
        (*cell != EVERY_PROGRAM).then(callers)
    }
}
