//! `cargo class`: see `cargo class --help`.

#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use class::kit::bundle::{self, KitOptions};
use common::Result;
use machine::host::folders;
use machine::workbook::Workbook;
use machine::{fetch, signals};
use wire::arch::Arch;

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
    Bundle {
        /// The architectures of its guests, such as arm64,x86_64 [default: this machine's]
        #[arg(long, value_enum, value_name = "ARCH", hide_possible_values = true, value_delimiter = ',')]
        arch: Vec<Arch>,
        /// The kernels to include [default: all released ones]
        #[arg(long, value_name = "VERSION", value_delimiter = ',')]
        kernels: Vec<String>,
        /// The folder to write [default: room-kit in Cargo's target folder]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// Include everything that is needed to build the workbook without a network
        #[arg(long)]
        with_sources: bool,
        /// Put the workshop into the guest, for a browser: an editor, compilers and the book. The first time, the lab
        /// downloads 140 MB
        #[arg(long)]
        with_workshop: bool,
        /// Make no kit, but verify this one: boot each of its kernels, and check what the stages and examples print
        #[arg(long, value_name = "DIR", conflicts_with_all = ["arch", "kernels", "out", "with_sources", "with_workshop"])]
        verify: Option<PathBuf>,
    },
}

fn main() -> Result<ExitCode> {
    let class = Class::parse();
    if class.offline {
        fetch::stay_offline();
    }
    run(class.command).map_err(folders::explain_denied)
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Bundle { verify: Some(folder), .. } => bundle::verify(&folder),
        Command::Bundle { arch, kernels, out, with_sources, with_workshop, verify: None } => {
            signals::install_handlers()?;
            bundle::make(
                &Workbook::read()?,
                &KitOptions { archs: arch, kernels, out, with_workshop, with_sources },
            )
        }
    }
}
