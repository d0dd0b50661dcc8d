//! The stages and examples, their sources and what Cargo builds of them, copies, and differences.
//! May import `host`, `shared`.

mod cargo;
pub mod catalog;
pub mod copies;
pub mod diff;

pub use crate::workbook::catalog::{Example, Program, Stage, Workbook};
