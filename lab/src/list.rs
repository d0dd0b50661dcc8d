//! Tables: the stages and examples, the kernels.

use common::Result;
use machine::kernels::{self, DEFAULT, PREVIEWS, Series};
use machine::lock::{self, Lock, Source};
use machine::workbook::Program;
use wire::arch::Arch;

/// The stages: number, minutes, parent, title, what each adds.
pub fn stages<'a>(stages: impl Iterator<Item = &'a Program>) -> String {
    let rows = stages.map(|stage| {
        let parent = stage.parent.map(|parent| format!("{parent:02}")).unwrap_or_default();
        [
            format!("{:02}", stage.number),
            stage.title.clone(),
            stage.adds.clone(),
            parent,
            stage.minutes.to_string(),
        ]
    });
    table(["", "Stage", "Adds", "After", "Minutes"], rows)
}

/// The examples: name, what each does, the text it comes from.
pub fn examples(examples: &[Program]) -> String {
    let rows = examples.iter().map(|example| [example.name(), example.title.clone(), example.text.clone()]);
    table(["Example", "Does", "From"], rows)
}

/// The locked kernels: packages, download sizes, and whether each is here.
pub fn kernels(arch: Arch) -> Result<String> {
    let lock = Lock::read()?;
    let row = |series: Series| {
        let Source { package, archives, .. } = &lock.kernel(arch, series.name)?.source;
        let note = if series.name == DEFAULT {
            " (default)"
        } else if PREVIEWS.contains(&series) {
            " (preview)"
        } else {
            ""
        };
        let bytes: u64 = archives.iter().map(|archive| archive.sum.size).sum();
        let here = series.here(arch).map_or_else(|error| error.cause().to_owned(), |_| "verified".to_owned());
        let size = format!("{:.1} MB", bytes as f64 / 1e6);
        let name = format!("{}{note}", series.name);
        Ok([name, package.version.clone(), package.name.clone(), size, here])
    };
    let rows = Series::all().map(row).collect::<Result<Vec<_>>>()?;
    let table = table(["Kernel", "Version", "Package", "Download", "Here"], rows);
    let fetch = format!("cargo lab kernels --fetch VERSION{}", arch.option());
    let folder = kernels::folder()?;
    Ok(format!("{table}\nLocked in {}. Kept in {}. To fetch one: {fetch}\n", lock::NAME, folder.display()))
}

fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut lines = vec![head.map(str::to_owned)];
    lines.extend(rows);
    aligned(&lines)
}

/// Lines of cells, with each column as wide as its widest cell.
pub(crate) fn aligned(lines: &[impl AsRef<[String]>]) -> String {
    let columns = lines.first().map_or(0, |cells| cells.as_ref().len());
    let width =
        |column: usize| lines.iter().map(|cells| cells.as_ref()[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns).map(width).collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    lines.iter().map(|cells| line(cells.as_ref())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let rows = [["1".into(), "one".into()], ["22".into(), String::new()]];
        assert_eq!(table(["", "Name"], rows), "    Name\n1   one\n22\n");
    }
}
