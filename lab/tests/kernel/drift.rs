//! The book reports what this kernel has.

use common::preflight::release;
use machine::kernels::MATRIX;
use measure::drift::measure;
use upkeep::publish::drift::Drift;
use wire::measure::RELEASE;

use crate::{Case, cases};

pub const CASES: &[Case] = cases![the_book_matches_this_kernel];

fn the_book_matches_this_kernel() {
    let book = Drift::parse(if cfg!(target_arch = "aarch64") {
        include_str!("../../../docs/src/kernels-arm64.tsv")
    } else {
        include_str!("../../../docs/src/kernels.tsv")
    });
    // The book has no data of a preview.
    let Some(series) = MATRIX.iter().find(|series| series.is(&release())) else { return };
    // A newer package of the same series has the same.
    let told = |rows: Vec<[String; 3]>| rows.into_iter().filter(|[of, ..]| of != RELEASE).collect::<Vec<_>>();
    let (book, kernel) = (told(book.column(series.name).unwrap()), told(measure().unwrap()));
    let differ: Vec<_> = book.iter().zip(&kernel).filter(|(book, kernel)| book != kernel).collect();
    assert!(differ.is_empty(), "book, kernel: {differ:#?}; cargo upkeep drift writes the book's data again");
    assert_eq!(book.len(), kernel.len());
}
