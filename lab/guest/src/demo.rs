//! Runs a stage or an example briefly, and checks its output against the truth.

use common::report::print_text;
use common::{Error, Result};

use crate::checks;

/// How many lines of a program's output to show.
const SHOWN: usize = 6;

/// In the guest: runs a stage or an example beside a few I/Os, and prints some of its lines and the verdict.
///
/// # Errors
/// If it fails, or prints something untrue.
pub fn run(name: &str) -> Result<()> {
    let program = checks::of(name).and_then(|check| check.program.as_ref());
    let program = program.ok_or_else(|| {
        Error::new(format!("nothing says what {name} should print")).fix("add it to its check.rs")
    })?;
    let binary = if name.parse::<u32>().is_ok() { format!("stage{name}") } else { name.to_owned() };
    let (seen, verdict) = program.judge(&binary)?;
    for line in seen.stdout.lines().take(SHOWN) {
        print_text(format_args!("  {line}"))?;
    }
    let more = seen.stdout.lines().count().saturating_sub(SHOWN);
    if more > 0 {
        print_text(format_args!("  ... and {more} more lines"))?;
    }
    print_text(format_args!("  TRUE: {verdict}."))?;
    Ok(())
}
