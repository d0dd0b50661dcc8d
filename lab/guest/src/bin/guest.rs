//! The program `guest`. As the guest's first process, it is init; otherwise it is what the lab starts in the guest.
//! `guest beside` runs a stage together with a workload.

#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::process::ExitCode;

use clap::Parser;
use guest::commands::GuestCommand;
use guest::init;

fn main() -> ExitCode {
    let result = match std::process::id() {
        1 => init::run(),
        _ => GuestCommand::parse().run(),
    };
    result.unwrap_or_else(|error| {
        eprintln!("Error: {error}");
        ExitCode::FAILURE
    })
}
