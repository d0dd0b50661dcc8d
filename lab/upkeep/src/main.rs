//! `cargo upkeep`: see `cargo upkeep --help`.

#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use common::{Error, Result};
use lab::exercise;
use machine::boot::Boot;
use machine::signals;
use machine::terminal::print;
use machine::workbook::Workbook;
use upkeep::kernels;
use upkeep::measure::cost::STATED;
use upkeep::measure::vmlinux;
use upkeep::publish::patch::{self, Patch};
use upkeep::publish::{clinic, ctracer, mysteries, record, sync};
use wire::arch::Arch;
use wire::mystery;

/// Maintain the workbook: record, measure, and write what the pages show
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
    /// Run stages and examples as their READMEs show, and record what they print; all of them if you name none. For
    /// ctracer, also record the book's page of ctracer, and take a picture of it
    Record {
        /// The stages, such as 03, and examples, such as bitehist
        #[arg(value_name = "STAGE or EXAMPLE")]
        programs: Vec<String>,
        #[command(flatten)]
        boot: Boot,
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
    /// Play the mysteries with both of their causes, and record how an expert finds them, for the deck
    Mysteries {
        /// The case, such as 01 [default: all of them]
        case: Option<String>,
        #[command(flatten)]
        boot: Boot,
    },
    /// Make a patch of an exercise from your working copy: from the stage to the starting point, or from there to the solution
    Patch {
        /// The exercise, such as 03.1
        exercise: String,
        /// Which patch to make
        #[arg(value_enum)]
        patch: Patch,
    },
    /// Boot each kernel, and record for the workshop's editor which helpers and members not all of them have, and which
    /// programs may call a helper
    Offers,
    /// Record what bpftool, strace and the compiler's tools print about our programs, for the book
    Transcripts,
    /// Compare programs with well-known tools, and update the tables in their READMEs
    Peers {
        /// Only this one: 08, biolatency or ctracer [default: all]
        #[arg(value_name = "PROGRAM", value_parser = STATED.map(|(program, _)| program))]
        program: Option<String>,
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

fn main() -> Result<ExitCode> {
    run(Upkeep::parse().command)
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Sync { check: true, .. } => print(&sync::check(&Workbook::read()?)?),
        Command::Sync { force, .. } => print(&sync::write(&Workbook::read()?, force)?),
        Command::Record { boot, .. } if boot.arch != Arch::X86 => {
            Err(Error::new(format!("nothing is recorded on {}", boot.arch))
                .evidence("the READMEs and the book show what programs print on x86_64")
                .fix("leave out --arch"))
        }
        Command::Record { programs, boot } => {
            let workbook = Workbook::read()?;
            let named =
                programs.iter().map(|name| workbook.catalog.program(name)).collect::<Result<Vec<_>>>()?;
            signals::install_handlers()?;
            for program in if named.is_empty() { workbook.catalog.programs().collect() } else { named } {
                // Each program gets a fresh guest, as a reader's does.
                record::record(&mut boot.boot(&workbook)?, program)?;
                if program.name() == ctracer::NAME {
                    ctracer::save(&mut boot.boot(&workbook)?, &workbook)?;
                }
            }
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
        Command::Mysteries { case, boot } => {
            signals::install_handlers()?;
            let workbook = Workbook::read()?;
            let case = case.map(|number| mystery::find(&number)).transpose()?;
            // The slides compare what was measured with what the case has set up.
            let boot = || boot.machine(&workbook, workbook.build()?)?.counting().boot();
            for case in case.map_or(mystery::CASES.to_vec(), |case| vec![case]) {
                mysteries::record(&workbook.root, &case, boot)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Patch { exercise: name, patch } => {
            let workbook = Workbook::read()?;
            print(&patch::save(&workbook, &exercise::find(&workbook, &name)?, patch)?)
        }
        Command::Offers => {
            signals::install_handlers()?;
            upkeep::measure::offers::record(&Workbook::read()?)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Transcripts => {
            signals::install_handlers()?;
            upkeep::publish::transcripts::record(&Workbook::read()?)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Peers { program } => {
            signals::install_handlers()?;
            upkeep::measure::peers::run(&Workbook::read()?, program.as_deref())
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
