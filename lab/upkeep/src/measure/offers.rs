//! `cargo upkeep offers`: what the kernels of the matrix don't all offer to BPF programs, for the workshop's editor.

use std::collections::BTreeMap;
use std::fs;

use common::{OrCause, Result};
use lab::offers::{self, HELPER, LACKS};
use lab::types::Types;
use machine::kernels::MATRIX;
use machine::workbook::Workbook;

use super::{ask_guest, machine};

/// Boots the kernels, asks each about its helpers, and looks for members in their types.
pub fn record(workbook: &Workbook) -> Result<()> {
    let kernels = MATRIX.map(|series| series.name);
    let mut rows = BTreeMap::new();
    for (nth, kernel) in kernels.into_iter().enumerate() {
        let rows_of_kernel = ask_guest(&machine(workbook, kernel)?, "helpers")?;
        for (helper, callers) in rows_of_kernel.iter().filter_map(|line| line.split_once('\t')) {
            let cells = rows.entry((HELPER.to_owned(), helper.to_owned()));
            let cells: &mut Vec<_> = cells.or_insert_with(|| vec![LACKS.to_owned(); kernels.len()]);
            cells[nth] = callers.to_owned();
        }
    }
    let names: Vec<_> = offers::TYPES.split(' ').map(str::to_owned).collect();
    let types = Types::of(workbook.arch(), &kernels.map(str::to_owned), &names)?;
    for ty in types.types {
        for member in ty.members {
            let has = |cell: String| if cell == LACKS { cell } else { offers::HAS.to_owned() };
            rows.insert((ty.name.clone(), member.name), member.cells.into_iter().map(has).collect());
        }
    }
    let path = workbook.root.join(offers::FILE);
    fs::write(&path, offers::text(&kernels, &rows)).or_cause(format!("cannot write {}", path.display()))
}
