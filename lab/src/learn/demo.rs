//! `cargo lab demo`: every stage and two examples for a moment, with the verdict of a truth check.

use std::process::ExitCode;
use std::time::Duration;

use common::report::print_text;
use common::{Error, Result};

use crate::machine::vm::Vm;
use crate::workbook::{Program, Workbook};

/// The examples that are shown.
const EXAMPLES: [&str; 2] = ["bitehist", "biolatency"];

/// On the host: runs the demos in the guest and prints them. Fails if a verdict is bad.
///
/// # Errors
/// If the guest can't run one.
pub fn run(guest: &mut Vm, workbook: &Workbook) -> Result<ExitCode> {
    let stages = workbook.all_stages().map(|stage| stage as &dyn Program);
    let programs: Vec<_> =
        stages.map(Ok).chain(EXAMPLES.map(|name| workbook.program(name))).collect::<Result<_>>()?;
    let mut bad = 0;
    for program in &programs {
        print_text(format_args!("\n{}: {}", program.binary(), program.title()))?;
        let seen = guest.output(&["guest", "demo", &program.name()], Duration::from_secs(180))?;
        print_text(String::from_utf8_lossy(&seen.stdout).trim_end())?;
        if seen.status != 0 {
            eprint!("{}", seen.stderr);
            bad += 1;
        }
    }
    if bad > 0 {
        return Err(Error::new(format!("{bad} of {} programs did not tell the truth", programs.len())));
    }
    print_text("\nTo run one yourself: cargo lab run 01")?;
    Ok(ExitCode::SUCCESS)
}
