//! `cargo lab demo`: runs stages and examples briefly, and checks each against the truth.

use std::process::ExitCode;
use std::time::Duration;

use common::report::print_text;
use common::{Error, Result};
use machine::vm::{Output, Vm};
use machine::workbook::{Program, Workbook};
use wire::protocol::NOT_HERE;

/// The programs to run.
pub fn programs(workbook: &Workbook) -> Vec<&Program> {
    let stages = workbook.catalog.stages.iter().filter(|stage| !stage.slow);
    let examples = workbook.catalog.examples.iter().filter(|example| example.demo);
    stages.chain(examples).collect()
}

/// Runs one program's demo in the guest. Its status is not 0 if what it printed is not true.
pub fn one(guest: &mut Vm, program: &Program) -> Result<Output> {
    guest.output(&["guest", "demo", &program.name()], Duration::from_secs(180))
}

/// On the host: runs the demos in the guest and prints their output. Fails if one of them fails.
pub fn run(guest: &mut Vm, programs: &[&Program]) -> Result<ExitCode> {
    let (mut bad, mut others) = (0, 0);
    for program in programs {
        print_text(format_args!("\n{}: {}", program.binary(), program.title))?;
        let seen = one(guest, program)?;
        print_text(String::from_utf8_lossy(&seen.stdout).trim_end())?;
        if seen.status != 0 {
            eprint!("{}", seen.stderr);
            if seen.status == i32::from(NOT_HERE) { others += 1 } else { bad += 1 }
        }
    }
    if others > 0 {
        print_text(format_args!("\n{others} of {} programs need a newer kernel.", programs.len()))?;
    }
    if bad > 0 {
        return Err(Error::new(format!("{bad} of {} programs failed the check", programs.len())));
    }
    print_text("\nTo run one yourself: cargo lab run 01")?;
    Ok(ExitCode::SUCCESS)
}
