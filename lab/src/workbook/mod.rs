//! The stages and examples, as Cargo knows them, copies of them, and their differences.

mod cargo;
pub mod catalog;
pub mod copies;
pub mod diff;

pub use catalog::{Example, Program, Stage, Workbook};
