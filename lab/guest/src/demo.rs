//! Runs a stage or an example briefly, and checks its output against the truth.

use common::kernel::NO_FENTRY;
use common::report::print_text;
use common::{Error, Result};

use crate::checks;

/// How many lines of a program's output to show.
const SHOWN: usize = 6;

/// In the guest: runs a stage or an example beside a few I/Os, and prints some of its lines and the verdict. Returns whether
/// it can run on this kernel.
///
/// # Errors
/// If it fails, or prints something untrue.
pub fn run(name: &str) -> Result<bool> {
    let program = checks::of(name).and_then(|check| check.program.as_ref());
    let program = program.ok_or_else(|| {
        Error::new(format!("nothing says what {name} should print")).fix("add it to its check.rs")
    })?;
    let binary = if name.parse::<u32>().is_ok() { format!("stage{name}") } else { name.to_owned() };
    let (seen, verdict) = match program.judge(&binary).map_err(Error::from) {
        // That is how this kernel is, and the program reports it before it loads anything.
        Err(error) if error.to_string().contains(NO_FENTRY) => {
            print_text(format_args!("  Not on this kernel: {NO_FENTRY}."))?;
            return Ok(false);
        }
        judged => judged?,
    };
    for line in seen.stdout.lines().take(SHOWN) {
        print_text(format_args!("  {line}"))?;
    }
    let more = seen.stdout.lines().count().saturating_sub(SHOWN);
    if more > 0 {
        print_text(format_args!("  ... and {more} more lines"))?;
    }
    print_text(format_args!("  TRUE: {verdict}."))?;
    Ok(true)
}
