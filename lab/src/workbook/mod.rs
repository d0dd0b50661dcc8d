//! The stages and examples: their sources, builds, copies, and diffs.
//! May import `host`, `shared`.

mod cargo;
pub mod catalog;
pub mod copies;
mod cross;
pub mod diff;
mod recorded;

pub use crate::workbook::catalog::{Example, Program, Recorded, Stage, Workbook};
pub use crate::workbook::cross::Cross;
