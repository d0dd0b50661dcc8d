//! What an instructor calls, as `cargo class`: the room kit, the plans of a class, and what a class has learned.

#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

pub mod concept;
pub mod kit;
pub mod plan;
pub mod rehearse;
