//! What an instructor calls, as `cargo class`: the room kit, and the plans of a class.

#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

pub mod kit;
pub mod plan;
pub mod rehearse;
