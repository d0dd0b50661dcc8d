//! The guest's half of the measurements that the book shows. `cargo upkeep` starts them.

#![deny(unsafe_code)]
#![warn(missing_docs, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

pub mod helpers;
pub mod peers;
