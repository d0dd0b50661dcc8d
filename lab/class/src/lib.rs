//! What an instructor calls, as `cargo class`: the room kit.

#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

pub mod kit;
