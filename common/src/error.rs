//! One error type for everything, written for the person who reads it: what went wrong, how we know, and what to do.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::events::printable;

/// [`std::result::Result`] with the workbook's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error has three parts: **cause**, **evidence** and **fix**.
///
/// `fn main() -> Result<()>` prints it on stderr and exits with status 1. Rust uses [`fmt::Debug`] for that, so
/// `Debug` and `Display` are the same here.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    cause: String,
    evidence: Option<String>,
    fix: Option<String>,
}

impl Error {
    /// An error with its cause: what went wrong, in one sentence.
    pub fn new(cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), evidence: None, fix: None }
    }

    /// The same error with another cause.
    #[must_use]
    pub fn with_cause(self, cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), ..self }
    }

    /// Adds how we know: the file, the number, or the system's own message.
    #[must_use]
    pub fn evidence(mut self, evidence: impl fmt::Display) -> Self {
        self.evidence = Some(evidence.to_string().trim_end().to_owned());
        self
    }

    /// Adds what the reader can do about it.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Whether it says what to do about it.
    pub fn has_fix(&self) -> bool {
        self.fix.is_some()
    }

    /// What went wrong.
    pub fn cause(&self) -> &str {
        &self.cause
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What an error quotes may have any bytes: names of files and processes, what other programs print.
        let lines = |text: &str, end: &str| text.lines().map(printable).collect::<Vec<_>>().join(end);
        f.write_str(&lines(&self.cause, "\n"))?;
        for (name, text) in [("evidence", &self.evidence), ("fix", &self.fix)] {
            if let Some(text) = text {
                write!(f, "\n  {:<10}{}", format!("{name}:"), lines(text, "\n            "))?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

/// `result.or_cause("cannot read /proc/kallsyms")`: the system's error becomes the evidence of ours.
pub trait OrCause<T> {
    /// Turns the error into an [`Error`] with this cause, and the system's message as evidence.
    ///
    /// # Errors
    /// Returns that error, if there was one.
    fn or_cause(self, cause: impl Into<String>) -> Result<T>;
}

impl<T, E: fmt::Display> OrCause<T> for Result<T, E> {
    fn or_cause(self, cause: impl Into<String>) -> Result<T> {
        self.map_err(|error| Error::new(cause).evidence(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_as_cause_evidence_fix() {
        let error = Error::new("the kernel has no BTF")
            .evidence("/sys/kernel/btf/vmlinux is missing\n(kernel 5.4.0)")
            .fix("boot one that has it: cargo lab run 03");
        insta::assert_snapshot!(error, @r"
        the kernel has no BTF
          evidence: /sys/kernel/btf/vmlinux is missing
                    (kernel 5.4.0)
          fix:      boot one that has it: cargo lab run 03
        ");
        assert_eq!(format!("{error:?}"), error.to_string());
        let quoted = Error::new("cannot open a\u{1b}[2Jb").evidence("c\r\nd\re");
        assert_eq!(quoted.to_string(), "cannot open a?[2Jb\n  evidence: c\n            d?e");
    }

    #[test]
    fn the_systems_message_is_evidence() {
        let missing: Result<()> = Err(std::io::Error::from_raw_os_error(2)).or_cause("cannot read the file");
        insta::assert_snapshot!(missing.unwrap_err(), @r"
        cannot read the file
          evidence: No such file or directory (os error 2)
        ");
    }
}
