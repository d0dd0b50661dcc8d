//! Runs other programs and reads their output, on both machines.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output};

use common::{Error, OrCause, Result};

/// The line on stderr with which a stage reports that its programs are attached.
pub const ATTACHED: &str = "Tracing.";

/// The lines that a child prints, as they come, from our end of a pipe.
pub fn lines(pipe: Option<impl Read>) -> impl Iterator<Item = String> {
    pipe.map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(std::io::Result::ok)
}

/// Runs a command to its end and returns what it printed.
///
/// # Errors
/// If it can't be started or fails; the error has its stderr.
pub fn output(command: &mut Command) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().or_cause(format!("cannot start {name}"))?;
    succeeded(&name, output)
}

/// What a command printed, if it succeeded.
///
/// # Errors
/// If it failed; the error has its stderr.
pub fn succeeded(name: &str, output: Output) -> Result<Output> {
    if output.status.success() {
        return Ok(output);
    }
    let said =
        String::from_utf8_lossy(if output.stderr.is_empty() { &output.stdout } else { &output.stderr })
            .into_owned();
    Err(Error::new(format!("{name} failed with {}", output.status)).evidence(said))
}
