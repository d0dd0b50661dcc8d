//! The program `measure`, which `cargo upkeep` starts in a guest. It prints rows.

#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::io::Write;

use clap::Parser;
use common::report::print_text;
use common::{Error, OrCause, Result};
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use measure::{helpers, peers};

/// What to measure.
#[derive(Parser)]
enum Measure {
    /// Print what our programs and well-known tools report about the same I/O
    Peers {
        /// Which comparison to make.
        what: String,
    },
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
        Measure::Peers { what } => print_text(peers::compare(&what)?.join("\n")),
        Measure::Helpers => {
            print_text(helpers::measure()?.iter().map(|row| row.join("\t")).collect::<Vec<_>>().join("\n"))
        }
        Measure::Jited { name } => {
            let options = ProgInfoQueryOptions::default().include_jited_prog_insns(true);
            let mut programs = ProgInfoIter::with_query_opts(options);
            let program = programs.find(|program| program.name.to_string_lossy() == name);
            let program = program.ok_or_else(|| Error::new(format!("there is no program {name}")))?;
            std::io::stdout().write_all(&program.jited_prog_insns).or_cause("cannot write")
        }
    }
}
