//! The workbook's driver, called as `cargo lab`: boots a real kernel in QEMU and runs a stage in it.
//!
//! A folder's name shows on which machine its code runs: `guest` on the emulated one, `shared` and `workbook` on
//! both, all others on yours. Each `mod.rs` lists what the folder may import; `tests/layers.rs` checks that.

#![deny(unsafe_code)]
#![warn(missing_docs, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

pub mod guest;
pub mod host;
pub mod kit;
pub mod learn;
pub mod machine;
pub mod measure;
pub mod publish;
pub mod shared;
pub mod workbook;
