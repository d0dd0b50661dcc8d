//! The program `measure`, which `cargo upkeep` starts in a guest. It prints numbers, or rows with tabs between their cells.

#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::io::Write;

use clap::Parser;
use common::report::print_text;
use common::{Error, OrCause, Result};
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use measure::{bench, drift, helpers, peers, toolbox, ways};

/// What to measure.
#[derive(Parser)]
enum Measure {
    /// Print how many KiB of memory a stage uses while it runs, and its peak
    Memory {
        /// Its binary.
        stage: String,
    },
    /// Print how many ns it takes to name a stack, and to read, parse and sort kallsyms
    Symbols,
    /// Print what our programs and well-known tools report about the same I/O
    Peers {
        /// Which comparison to make.
        what: String,
    },
    /// Print what the ways to count and time bios cost, or what they count beside four writers
    Ways {
        /// `costs` or `writers`.
        what: String,
        /// Their names.
        names: Vec<String>,
    },
    /// Become one of other projects' tools, which only a guest has that measures them
    Tool {
        /// The tool and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        argv: Vec<String>,
    },
    /// Print what this kernel has of the tutorial's probe points
    Drift,
    /// Print which programs may call each of this kernel's helpers
    Helpers,
    /// Write the processor's instructions that the kernel made of a loaded BPF program
    Jited {
        /// The program's name, which the kernel cuts after 15 characters.
        name: String,
    },
}

fn main() -> Result<()> {
    match Measure::parse() {
        Measure::Memory { stage } => {
            let [running, most] = bench::memory(&stage)?;
            print_text(format_args!("{running} {most}"))
        }
        Measure::Symbols => {
            let [ours, floor] = bench::symbols()?;
            print_text(format_args!("{ours} {floor}"))
        }
        Measure::Peers { what } => print_text(peers::compare(&what)?.join("\n")),
        Measure::Ways { what, names } => print_text(ways::measure(&what, &names)?.join("\n")),
        Measure::Tool { argv } => match toolbox::become_tool(&argv)? {},
        Measure::Drift => print_rows(drift::measure()?),
        Measure::Helpers => print_rows(helpers::measure()?),
        Measure::Jited { name } => {
            let options = ProgInfoQueryOptions::default().include_jited_prog_insns(true);
            let mut programs = ProgInfoIter::with_query_opts(options);
            let program = programs.find(|program| program.name.to_string_lossy() == name);
            let program = program.ok_or_else(|| Error::new(format!("there is no program {name}")))?;
            std::io::stdout().write_all(&program.jited_prog_insns).or_cause("cannot write")
        }
    }
}

fn print_rows<const N: usize>(rows: Vec<[String; N]>) -> Result<()> {
    print_text(rows.iter().map(|row| row.join("\t")).collect::<Vec<_>>().join("\n"))
}
