//! Tables: the stages and examples, the kernels.

use std::path::Path;

use common::Result;

use crate::host::folders::size;
use crate::machine::kernels::{DEFAULT, MATRIX, Series};
use crate::workbook::{Example, Program, Stage};

/// The stages: number, minutes, parent, title, what each adds.
pub fn stages<'a>(stages: impl Iterator<Item = &'a Stage>) -> String {
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
pub fn examples(examples: &[Example]) -> String {
    let rows = examples.iter().map(|example| [example.name(), example.title.clone(), example.text.clone()]);
    table(["Example", "Does", "From"], rows)
}

/// The kernels of the matrix, and which are here.
///
/// # Errors
/// If what is here can't be read.
pub fn kernels() -> Result<String> {
    let row = |series: Series| -> Result<[String; 4]> {
        let name = if series.name == DEFAULT {
            format!("{} (default)", series.name)
        } else {
            series.name.to_owned()
        };
        let Some(kernel) = series.here()? else {
            return Ok([
                name,
                "not here".into(),
                format!("cargo lab kernels --fetch {}", series.name),
                String::new(),
            ]);
        };
        let size = kernel.image.parent().map_or(0, size) >> 20;
        let release = kernel.package.map(|package| package.release).unwrap_or_default();
        let folder = kernel.image.parent().unwrap_or(Path::new("")).display().to_string();
        Ok([name, release, folder, format!("{size} MiB")])
    };
    let rows = MATRIX.into_iter().map(row).collect::<Result<Vec<_>>>()?;
    Ok(table(["Kernel", "Release", "Where", "Size"], rows))
}

/// Columns as wide as their widest cell.
fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut lines = vec![head.map(str::to_owned)];
    lines.extend(rows);
    let width = |column: usize| lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..N).map(width).collect();
    let line = |cells: &[String; N]| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    lines.iter().map(line).collect()
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
