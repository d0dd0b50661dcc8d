//! Tables in Markdown.

/// A Markdown table made of rows of cells, with aligned columns.
pub(crate) fn markdown(rows: Vec<Vec<String>>) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width =
        |nth| rows.iter().filter_map(|row| row.get(nth)).map(|cell: &String| cell.chars().count()).max();
    let widths: Vec<_> = (0..columns).map(|nth| width(nth).unwrap_or(0)).collect();
    let mut lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!(" {cell:<width$} |"));
        format!("|{}\n", cells.collect::<String>())
    });
    let head = lines.next().unwrap_or_default();
    let rule: String = widths.iter().map(|width| format!("{}|", "-".repeat(width + 2))).collect();
    format!("{head}|{rule}\n{}", lines.collect::<String>())
}
