//! The program `mystery`. Under other names, it is the commands of a player, and the processes of a case.

#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::process::ExitCode;

fn main() -> common::Result<ExitCode> {
    mystery::called()
}
