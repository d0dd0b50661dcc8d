//! What a maintainer calls, as `cargo upkeep`: what boots guests to record, and what writes the generated parts of the pages.

#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

pub mod kernels;
pub mod publish;
pub mod vmlinux;
