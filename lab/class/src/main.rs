//! What an instructor calls, as `cargo class`: the room kit. See `cargo class --help`.

#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

mod bundle;
mod compilers;
mod licenses;
mod workshop;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use common::Result;
use machine::host::folders;
use machine::workbook::Workbook;
use machine::{fetch, signals};

use crate::bundle::KitOptions;

/// Prepare a class: the room kit
#[derive(Parser)]
#[command(name = "cargo class", bin_name = "cargo class", version, disable_help_subcommand = true)]
struct Class {
    /// Download nothing. A kernel that is not here is then an error
    #[arg(long, global = true)]
    offline: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make the room kit: a folder for a USB stick, with which a laptop needs nothing but QEMU
    Bundle(KitOptions),
}

fn main() -> Result<ExitCode> {
    let Class { offline, command: Command::Bundle(options) } = Class::parse();
    if offline {
        fetch::stay_offline();
    }
    let done = || {
        if let Some(kit) = &options.verify {
            return bundle::verify(kit);
        }
        signals::install_handlers()?;
        bundle::make(&Workbook::read()?, &options)
    };
    done().map_err(folders::explain_denied)
}
