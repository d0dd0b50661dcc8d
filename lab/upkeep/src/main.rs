//! `cargo upkeep`: see `cargo upkeep --help`.

#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use common::Result;
use lab::exercise;
use machine::boot::Boot;
use machine::signals;
use machine::terminal::print;
use machine::workbook::Workbook;
use upkeep::publish::patch::{self, Patch};
use upkeep::publish::{clinic, new, recordings, sync};
use upkeep::{kernels, vmlinux};
use wire::arch::Arch;

/// Maintain the workbook: record, and write what the pages show
#[derive(Parser)]
#[command(name = "cargo upkeep", bin_name = "cargo upkeep", version, disable_help_subcommand = true)]
struct Upkeep {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Update the generated blocks of the READMEs and the book: tables, diffs, recorded output, exercises
    Sync {
        /// Write nothing, but report what is out of date
        #[arg(long)]
        check: bool,
        /// Overwrite blocks that somebody edited by hand, too
        #[arg(long, conflicts_with = "check")]
        force: bool,
    },
    /// Make the folder of a new stage, a copy of its parent, whose page says what to write
    New {
        #[command(subcommand)]
        what: New,
    },
    /// Run the commands whose output the pages show, and record it; all of them if you name none
    Record {
        /// A stage, such as 03; an example; a chapter's transcript, such as load; or a mystery, such as mystery-01
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Look for newer kernels in Debian, fetch them, and lock them in lab/kernels.lock.json
    Kernels {
        /// The series, such as 6.12 [default: all]
        #[arg(value_name = "VERSION")]
        names: Vec<String>,
        /// The Debian archive: a mirror, or a date in a snapshot archive [default: the mirror that this machine's apt uses]
        #[arg(long, value_name = "URL")]
        mirror: Option<String>,
        /// The architecture of the kernels: x86_64 or arm64
        #[arg(long, value_enum, value_name = "ARCH", default_value_t = Arch::HERE, hide_possible_values = true)]
        arch: Arch,
    },
    /// Boot each kernel, and record what it says about the clinic's programs
    Clinic {
        /// The case, such as 03, or the variant [default: all of them]
        case: Option<String>,
    },
    /// Make a patch of an exercise from your working copy: from the stage to the starting point, or from there to the solution
    Patch {
        /// The exercise, such as 03.1
        exercise: String,
        /// Which patch to make
        #[arg(value_enum)]
        patch: Patch,
    },
    /// Generate vmlinux.h from the types of a guest's kernel
    Vmlinux {
        /// Boot no guest, but use the types of this machine's kernel, for an architecture that has no vmlinux.h yet
        #[arg(long)]
        this_machine: bool,
        #[command(flatten)]
        boot: Boot,
    },
}

#[derive(Subcommand)]
enum New {
    /// A stage
    Stage {
        number: u32,
        /// What it shows, such as bio_latency_map
        name: String,
        /// The stage that it begins as a copy of
        #[arg(long, value_name = "PARENT")]
        from: String,
    },
}

fn main() -> Result<ExitCode> {
    run(Upkeep::parse().command)
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Sync { check: true, .. } => print(&sync::check(&Workbook::read()?)?),
        Command::Sync { force, .. } => print(&sync::write(&Workbook::read()?, force)?),
        Command::New { what: New::Stage { number, name, from } } => {
            let workbook = Workbook::read()?;
            let folder = new::stage(&workbook, number, &name, workbook.catalog.stage(&from)?)?;
            print(&format!("{}\n", exercise::shown(&workbook, &folder)))?;
            print(&sync::write(&Workbook::read()?, false)?)
        }
        Command::Record { names } => {
            let workbook = Workbook::read()?;
            signals::install_handlers()?;
            recordings::record(&workbook, &names)?;
            print(&sync::write(&workbook, false)?)
        }
        Command::Kernels { names, mirror, arch } => {
            kernels::lock_newest(arch, &names, mirror.as_deref())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Clinic { case } => {
            signals::install_handlers()?;
            let workbook = Workbook::read()?;
            clinic::record(&workbook, case.as_deref())?;
            print(&sync::write(&workbook, false)?)
        }
        Command::Patch { exercise: name, patch } => {
            let workbook = Workbook::read()?;
            print(&patch::save(&workbook, &exercise::find(&workbook, &name)?, patch)?)
        }
        Command::Vmlinux { this_machine: true, .. } => vmlinux::of_this_machine(&Workbook::read()?),
        Command::Vmlinux { this_machine: false, boot } => {
            signals::install_handlers()?;
            let workbook = boot.workbook()?;
            // The workbook's BPF programs need not compile with the current header.
            let tools = workbook.build_tools()?;
            vmlinux::of_guest(&mut boot.boot_with(&workbook, tools)?, &workbook)
        }
    }
}
