//! The data for the chapter "The kernel moved", and its tables. `cargo upkeep drift` writes it.

use std::fs;
use std::path::Path;

use common::{OrCause, Result};
use machine::kernels::MATRIX;
use wire::arch::Arch;
use wire::measure::RELEASE;

use crate::publish::tables::markdown;

/// The data file of an architecture, from the top folder.
pub const fn data(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 => "docs/src/kernels.tsv",
        Arch::Arm => "docs/src/kernels-arm64.tsv",
    }
}

/// The tables: the first column of the data, and the book's heading.
const TABLES: [(&str, &str); 5] = [
    ("write", "Calls during 64 direct writes of 4 KiB to a raw disk, by whoever it was"),
    (
        "read",
        "Calls by a process that reads 256 pages of a file, one after the other: not in the page cache / again",
    ),
    ("start", "Calls by a process that starts 8 others"),
    ("field", "Fields: at which byte of the structure"),
    ("arguments", "What a tracepoint hands to a `tp_btf` program: pointers to these"),
];

/// What some kernels report, as a table: a row for each probe point, a column for each kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// The columns' names.
    pub kernels: Vec<String>,
    /// The kind of row, the probe point, and a cell for each kernel.
    pub rows: Vec<(String, String, Vec<String>)>,
}

impl Drift {
    /// Reads the saved data.
    ///
    /// # Errors
    /// If there is none.
    pub fn read(root: &Path, arch: Arch) -> Result<Self> {
        let path = root.join(data(arch));
        let text = fs::read_to_string(&path);
        let cannot = format!("cannot read {}; write it: cargo upkeep drift{}", path.display(), arch.option());
        Ok(Self::parse(&text.or_cause(cannot)?))
    }

    /// Parses the output of [`Drift::text`].
    pub fn parse(text: &str) -> Self {
        let mut lines = text.lines().map(|line| line.split('\t').map(str::to_owned));
        let kernels = lines.next().into_iter().flatten().skip(2).collect();
        let row = |mut cells: std::iter::Map<_, _>| Some((cells.next()?, cells.next()?, cells.collect()));
        Self { kernels, rows: lines.filter_map(row).collect() }
    }

    pub(crate) fn text(&self) -> String {
        let row = |of: &str, point: &str, cells: &[String]| {
            [&[of.to_owned(), point.to_owned()], cells].concat().join("\t") + "\n"
        };
        let rows = self.rows.iter().map(|(of, point, cells)| row(of, point, cells));
        row("of", "point", &self.kernels) + &rows.collect::<String>()
    }

    /// What a kernel reports for each point.
    pub fn column(&self, kernel: &str) -> Option<Vec<[String; 3]>> {
        let nth = self.kernels.iter().position(|other| other == kernel)?;
        let cell = |(of, point, cells): &(String, String, Vec<String>)| {
            Some([of.clone(), point.clone(), cells.get(nth)?.clone()])
        };
        self.rows.iter().map(cell).collect()
    }

    /// Replaces a kernel's column, or adds it at the end. The rows are those of this measurement.
    pub(crate) fn put(&mut self, kernel: &str, column: &[[String; 3]]) {
        let nth = self.kernels.iter().position(|other| other == kernel).unwrap_or_else(|| {
            self.kernels.push(kernel.to_owned());
            self.kernels.len() - 1
        });
        let rows = column.iter().map(|[of, point, cell]| {
            let old = self.rows.iter().find(|row| (&row.0, &row.1) == (of, point));
            let mut cells = old.map(|row| row.2.clone()).unwrap_or_default();
            cells.resize(self.kernels.len(), "?".to_owned());
            cells[nth].clone_from(cell);
            (of.clone(), point.clone(), cells)
        });
        self.rows = rows.collect();
    }

    /// The tables as Markdown, with aligned columns.
    pub(crate) fn tables(&self) -> String {
        let tables = TABLES.map(|(of, caption)| {
            let head = [vec![String::new()], self.kernels.clone()].concat();
            let rows = self.rows.iter().filter(|row| row.0 == of);
            let rows = rows.map(|(_, point, cells)| {
                // The chapter warns of functions that exist, can be probed, and are not called.
                let cells = cells.iter().map(|cell| match cell.split(['/', ' ']).all(|part| part == "0") {
                    true => format!("**{cell}**"),
                    false => cell.clone(),
                });
                let kind = if point.contains('/') { "tracepoint " } else { "" };
                let name = point.rsplit('/').next().unwrap_or(point);
                std::iter::once(format!("{kind}`{name}`")).chain(cells).collect()
            });
            format!("{caption}:\n\n{}", markdown(std::iter::once(head).chain(rows).collect()))
        });
        tables.join("\n")
    }
}

/// The tables of the chapter: probe points on the kernels of the matrix.
///
/// # Errors
/// If there is no data.
pub fn table(root: &Path) -> Result<String> {
    Drift::read(root, Arch::X86).map(|drift| drift.tables())
}

/// What differs between the architectures: a row for each probe point, and a cell for each kernel on which it differs.
///
/// # Errors
/// If there is no data.
pub fn differences(root: &Path) -> Result<String> {
    let [x86, arm] = [Arch::X86, Arch::Arm].map(|arch| Drift::read(root, arch));
    let (x86, arm) = (x86?, arm?);
    let head = [vec![String::new()], MATRIX.map(|series| series.name.to_owned()).to_vec()].concat();
    let mut rows = vec![head];
    for (of, point, _) in x86.rows.iter().filter(|(of, _, _)| of != RELEASE) {
        let cell = |drift: &Drift, kernel: &str| {
            let column = drift.column(kernel).unwrap_or_default();
            column.into_iter().find(|row| (&row[0], &row[1]) == (of, point)).map(|[_, _, cell]| cell)
        };
        let cells = MATRIX.map(|series| match (cell(&x86, series.name), cell(&arm, series.name)) {
            (x86, arm) if x86 == arm => "same".to_owned(),
            (x86, arm) => [x86, arm].map(|cell| cell.unwrap_or_else(|| "?".to_owned())).join("; "),
        });
        if cells.iter().any(|cell| cell != "same") {
            let name = point.rsplit('/').next().unwrap_or(point);
            rows.push([&[format!("{of}: `{name}`")], &cells[..]].concat());
        }
    }
    Ok(markdown(rows))
}

/// A table of the kernels: which ones there are, and what each represents.
///
/// # Errors
/// If there is no data.
pub fn kernels_table(root: &Path) -> Result<String> {
    let drift = Drift::read(root, Arch::X86)?;
    let mut rows = vec![["kernel", "measured", "where from", "stands for"].map(str::to_owned).to_vec()];
    for series in MATRIX {
        let column = drift.column(series.name).unwrap_or_default();
        let release = column.iter().find(|[of, _, _]| of == RELEASE).map_or("", |[_, _, cell]| cell);
        let [from, stands_for] = series.about;
        rows.push([series.name, release, from, stands_for].map(str::to_owned).to_vec());
    }
    Ok(markdown(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_gets_a_column() {
        let mut drift = Drift::parse("of\tpoint\t5.10\nwrite\tbio_endio\t64\n");
        let row = |point: &str, cell: &str| ["write".to_owned(), point.to_owned(), cell.to_owned()];
        let column = [row("bio_endio", "0"), row("block/block_rq_issue", "as .part.0: 64")];
        drift.put("9.9", &column);
        assert_eq!(Drift::parse(&drift.text()), drift);
        assert_eq!(drift.column("9.9").unwrap(), column);
        assert_eq!(drift.column("9.8"), None);
        insta::assert_snapshot!(drift.tables().split("\n\n").take(2).collect::<Vec<_>>().join("\n\n"), @r"
        Calls during 64 direct writes of 4 KiB to a raw disk, by whoever it was:

        |                             | 5.10 | 9.9            |
        |-----------------------------|------|----------------|
        | `bio_endio`                 | 64   | **0**          |
        | tracepoint `block_rq_issue` | ?    | as .part.0: 64 |
        ");
    }
}
