//! How a check ends before it has seen all: the program is wrong, or it can't be judged.

use std::fmt;

use common::Error;
use common::trace_pipe::Line;
use wire::verdict::Fault;

use crate::running::Observation;

/// What a check returns until it knows.
pub type Checked<T = ()> = Result<T, Failure>;

/// Why a check does not pass.
#[derive(Clone)]
pub enum Failure {
    /// The program does something else.
    Wrong(Fault),
    /// The program does not run, or the guest lacks something.
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Wrong(fault) => fault.into(),
            Failure::Error(error) => error,
        }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Error::from(self.clone()), f)
    }
}

/// What a program printed, and which line of it is the first wrong one.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    seen: &'a Observation,
    wrong: Option<usize>,
}

impl<'a> From<&'a Observation> for Evidence<'a> {
    fn from(seen: &'a Observation) -> Self {
        Self { seen, wrong: None }
    }
}

impl Observation {
    /// The first line that is wrong, if there is one.
    pub fn at(&self, is_wrong: impl FnMut(&str) -> bool) -> Evidence<'_> {
        Evidence { seen: self, wrong: self.stdout.lines().position(is_wrong) }
    }

    /// The first trace line that is wrong.
    pub fn at_trace(&self, mut is_wrong: impl FnMut(&Line<'_>) -> bool) -> Evidence<'_> {
        self.at(|line| Line::parse(line).is_some_and(|line| is_wrong(&line)))
    }
}

/// Fails with this fault, unless `right`.
pub fn expect<'a>(
    right: bool,
    expected: impl Into<String>,
    seen: impl Into<String>,
    evidence: impl Into<Evidence<'a>>,
) -> Checked {
    if right { Ok(()) } else { Err(wrong(expected, seen, evidence)) }
}

/// The failure of a program that should do one thing and does another.
pub fn wrong<'a>(
    expected: impl Into<String>,
    seen: impl Into<String>,
    evidence: impl Into<Evidence<'a>>,
) -> Failure {
    let Evidence { seen: printed, wrong } = evidence.into();
    Failure::Wrong(Fault::new(expected, seen).shown_by(&printed.stdout, wrong))
}

/// Fails unless the program's first line that begins like this continues like that, because of `why`.
pub fn expect_line(seen: &Observation, begin: &str, rest: impl fmt::Display, why: &str) -> Checked {
    let line = format!("{begin}{rest}");
    let other = seen.stdout.lines().find(|line| line.starts_with(begin));
    let found =
        other.map_or_else(|| format!("no line that begins with `{begin}`"), |other| format!("`{other}`"));
    let evidence = seen.at(|line| Some(line) == other);
    expect(other == Some(line.as_str()), format!("`{line}`: {why}"), found, evidence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_kind_counts() {
        let check =
            |stdout: &str| expect_line(&Observation::of(stdout), "Most: ", 3, "three were there").is_ok();
        assert!(check("other\nMost: 3\n"));
        assert!(!check("Most: 1\nMost: 3\n"), "a value that was right for a moment");
        assert!(!check("Most: 31\n") && !check("other\n"));
    }
}
