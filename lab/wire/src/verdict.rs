//! What the check of an exercise finds. The terminal and the workshop's page show the same.

use common::Error;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The program does what it should. Says what the check saw.
    Right(String),
    /// It does something else.
    Wrong(Fault),
}

/// Where a program differs from what it should do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What it should print or do.
    pub expected: String,
    /// What it printed or did instead.
    pub seen: String,
    /// A few of the lines that it printed: those around the first wrong one, or the last ones.
    pub lines: Vec<String>,
    /// How many lines it printed before these.
    pub before: usize,
    pub printed: usize,
    /// Which of `lines` is the first wrong one, if one line is to blame.
    pub wrong: Option<usize>,
}

impl Fault {
    /// A fault that no output shows.
    pub fn new(expected: impl Into<String>, seen: impl Into<String>) -> Self {
        let (expected, seen) = (expected.into(), seen.into());
        Self { expected, seen, lines: Vec::new(), before: 0, printed: 0, wrong: None }
    }

    /// Adds a few lines of the program's output, of which this one is the first wrong one.
    #[must_use]
    pub fn shown_by(self, output: &str, wrong: Option<usize>) -> Self {
        const SHOWN: usize = 4;
        let all: Vec<_> = output.lines().collect();
        let last = all.len().saturating_sub(SHOWN);
        // With one line before it.
        let before = wrong.map_or(last, |nth| nth.saturating_sub(1).min(last));
        let lines = all.iter().skip(before).take(SHOWN).map(|line| (*line).to_owned()).collect();
        Self { lines, before, printed: all.len(), wrong: wrong.map(|nth| nth - before), ..self }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let error = Self::new(format!("expected: {}; seen: {}", fault.expected, fault.seen));
        if fault.lines.is_empty() { error } else { error.evidence(fault.lines.join("\n")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_shows_lines_around_the_first_wrong_one() {
        let shown = |wrong| {
            let fault = Fault::new("", "").shown_by("a\nb\nc\nd\ne\nf\n", wrong);
            (fault.lines.concat(), fault.before, fault.printed, fault.wrong)
        };
        assert_eq!(shown(None), ("cdef".to_owned(), 2, 6, None));
        assert_eq!(shown(Some(0)), ("abcd".to_owned(), 0, 6, Some(0)));
        assert_eq!(shown(Some(2)), ("bcde".to_owned(), 1, 6, Some(1)));
        assert_eq!(shown(Some(5)), ("cdef".to_owned(), 2, 6, Some(3)));
        assert_eq!(Fault::new("", "").shown_by("", None).lines, [""; 0]);
    }
}
