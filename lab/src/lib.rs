//! The workbook's driver: boots a real kernel in QEMU and runs a stage in it. Called as `cargo lab`.

#![deny(unsafe_code)]
#![warn(missing_docs, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

pub mod guest;
pub mod host;
pub mod kit;
pub mod learn;
pub mod machine;
pub mod measure;
pub mod publish;
pub mod shared;
pub mod workbook;
