//! The kernel's types in the book. `cargo upkeep types` writes the data.

use std::fs;
use std::path::Path;

use common::{Error, OrCause, Result};
use lab::types::Types;
use machine::kernels::MATRIX;
use machine::workbook::Workbook;

use crate::publish::tables::markdown;

/// The data file, from the top folder.
const DATA: &str = "docs/src/types.tsv";

/// The types that the book shows.
const SHOWN: [&str; 5] = ["bio", "bvec_iter", "request", "req_op", "req_flag_bits"];

/// What the kernels of the matrix have.
///
/// # Errors
/// If a kernel is not here, or the workbook does not compile.
pub fn look(workbook: &Workbook) -> Result<Types> {
    let kernels = MATRIX.map(|series| series.name.to_owned());
    Types::look(workbook, &kernels, &SHOWN.map(str::to_owned))
}

/// Saves what the kernels of the matrix have.
///
/// # Errors
/// Those of [`look`], or if the file can't be written.
pub fn record(workbook: &Workbook) -> Result<()> {
    let path = workbook.root.join(DATA);
    fs::write(&path, look(workbook)?.text()).or_cause(format!("cannot write {}", path.display()))
}

/// Reads what we saved.
///
/// # Errors
/// If there is none.
pub fn recorded(root: &Path) -> Result<Types> {
    let path = root.join(DATA);
    let text = fs::read_to_string(&path);
    Ok(Types::parse(&text.or_cause(format!("cannot read {}", path.display()))?))
}

/// A type as a table.
///
/// # Errors
/// If we have not saved it.
pub(crate) fn table(types: &Types, name: &str) -> Result<String> {
    let ty = types.types.iter().find(|ty| ty.name == name);
    let ty = ty.ok_or_else(|| Error::new(format!("{DATA} has no {name}")))?;
    let columns = |first: [String; 2], cells: &[String], last: String| {
        let [name, in_c] = first;
        let (in_c, last) = if ty.is_enum() { (None, None) } else { (Some(in_c), Some(last)) };
        [name].into_iter().chain(in_c).chain(cells.iter().cloned()).chain(last).collect()
    };
    let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{text}`") };
    let head = [code(name), "type".to_owned()];
    let mut rows = vec![columns(head, &types.kernels, "read by".to_owned())];
    rows.extend(ty.members.iter().map(|member| {
        columns([&member.name, &member.ty].map(|text| code(text)), &member.cells, member.readers.join(", "))
    }));
    Ok(markdown(rows))
}
