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

/// Rounds to two digits, because the others change from run to run.
pub(crate) fn rounded(number: u64) -> String {
    let unit = 10_u64.pow(number.max(1).ilog10().saturating_sub(1));
    thousands((number + unit / 2) / unit * unit)
}

/// A number below a million, with a comma.
pub(crate) fn thousands(number: u64) -> String {
    match number {
        1000.. => format!("{},{:03}", number / 1000, number % 1000),
        _ => number.to_string(),
    }
}
