//! How a run answers a question.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use common::trace_pipe::Line;
use common::{Error, Result};
use serde::Deserialize;

/// What to run, and what to look at.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// What was printed earlier, in place of a run: a file below the top folder, or a folder all of whose files show the
    /// same.
    pub recorded: Option<String>,
    /// The binary to run, such as `stage01`; by default that of the folder. A chapter has none.
    pub program: Option<String>,
    /// Its arguments.
    #[serde(default)]
    pub arguments: String,
    /// The I/O beside it, as for `cargo lab run --io`. With `none`, the program ends by itself.
    #[serde(default = "write")]
    pub io: String,
    /// What to replace in the stage's sources first.
    #[serde(default)]
    pub change: Vec<Change>,
    /// What to look at.
    pub shows: Shows,
    /// What a run shows if nothing happened in it, because a loss, for example, is not in every run. Such a run is repeated.
    pub unless: Option<String>,
}

/// The workload of most stages.
pub const WRITE: &str = "write";

fn write() -> String {
    WRITE.to_owned()
}

/// A text that is in one of the sources once, and what replaces it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The old text.
    pub from: String,
    /// The new text.
    pub to: String,
}

/// What to look at in a run. The lines of an event are those whose message begins with this text. If the kernel refuses
/// the program, the truth is `refused`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Shows {
    /// How many lines an event has that `io` or an interrupt wrote. Other tasks may do I/O, too.
    Lines(String),
    /// How many lines of the report begin with this text.
    LinesOfReport(String),
    /// The tasks in an event's lines: `io`, or others by their names up to the first slash.
    Tasks(String),
    /// Where an event's lines were written: all in `interrupt`s, all in a `task`, or `both`.
    Context(String),
    /// Which of two events has more lines: `first`, `second`, or `equal`.
    More([String; 2]),
    /// The number after this text in the report, or `none`. In the text, `#` is any number.
    Number(String),
    /// Whether that number is `zero`, or `more`.
    Zero(String),
    /// How many lines an event has for each I/O of `io`: `none`, `fewer` than one, `one`, or `more`.
    PerIo(String),
    /// The power of ten of how many lines an event has for each I/O of `io`, such as 10 for 10 to 99.
    Magnitude(String),
    /// The first of these texts that is in the name of a function in the report's stack, or `none`.
    InStack(Vec<String>),
    /// Nothing: the truth is `loaded`, unless it is `refused`.
    Loaded,
    /// The line of C at which the verifier stopped, or `loaded`.
    RefusedAt,
    /// The first of these texts that was printed, or `none`.
    First(Vec<String>),
    /// How many lines contain this text.
    Count(String),
    /// In which half of a table in two halves this text is: `first`, `second`, `both`, or `none`.
    Half(String),
    /// Nothing: who wrote the question compared it with a table of measurements in the page `recorded`.
    Measured,
}

/// A run of a stage beside some I/O.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    pub stdout: &'a str,
    pub stderr: &'a str,
    /// The process id of `io`.
    pub pid: u32,
    /// How many I/Os `io` made.
    pub ios: u64,
}

impl Run<'_> {
    fn lines(&self, event: &str) -> impl Iterator<Item = Line<'_>> {
        self.stdout.lines().filter_map(Line::parse).filter(move |line| line.message.starts_with(event))
    }

    /// The lines of an event, of which there must be some.
    fn some_lines(&self, event: &str) -> Result<Vec<Line<'_>>> {
        let lines: Vec<_> = self.lines(event).collect();
        if lines.is_empty() {
            let printed = format!("{}{}", self.stdout, self.stderr);
            return Err(Error::new(format!("no line begins with {event:?}")).evidence(printed));
        }
        Ok(lines)
    }

    fn number(&self, before: &str) -> Option<u64> {
        self.stdout.lines().find_map(|line| number(line, before))
    }

    /// Whether `io` or an interrupt wrote a line.
    pub(crate) fn is_ios(&self, line: &Line<'_>) -> bool {
        line.pid == self.pid || is_in_interrupt(line)
    }

    /// The line at which the verifier stopped.
    fn refused_at(&self) -> Option<&str> {
        let mut lines = self.stderr.lines().map(str::trim);
        lines.find(|line| line.starts_with("evidence: in ") && line.contains(".bpf.c line "))?;
        lines.next()
    }
}

/// The power of ten of a quotient; 0 if it is less than 1.
fn power(number: u64, of: u64) -> u64 {
    (number / of.max(1)).checked_ilog10().map_or(0, |power| 10_u64.pow(power))
}

/// The number in a line after this text, in which `#` is any number.
pub(crate) fn number(line: &str, before: &str) -> Option<u64> {
    let mut rest = line;
    for (nth, part) in before.split('#').enumerate() {
        let number = if nth > 0 { rest.find(|c: char| !c.is_ascii_digit())? } else { 0 };
        rest = rest[number..].strip_prefix(part)?;
    }
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Whether a line was written in a hard or a soft interrupt, or in both: the third flag.
fn is_in_interrupt(line: &Line<'_>) -> bool {
    matches!(line.flags.as_bytes().get(2), Some(b'h' | b'H' | b's'))
}

impl Truth {
    /// What a run shows.
    pub fn of(&self, run: &Run<'_>) -> Result<String> {
        let is_refused = run.stderr.contains("the kernel's verifier refused a BPF program");
        let shown = match &self.shows {
            Shows::RefusedAt => run.refused_at().unwrap_or("loaded").to_owned(),
            _ if is_refused => "refused".to_owned(),
            Shows::Loaded | Shows::Measured => "loaded".to_owned(),
            Shows::Lines(event) => run.lines(event).filter(|line| run.is_ios(line)).count().to_string(),
            Shows::LinesOfReport(begin) => {
                run.stdout.lines().filter(|line| line.starts_with(begin)).count().to_string()
            }
            Shows::Tasks(event) => {
                let name = |line: &Line<'_>| match line.pid == run.pid {
                    true => "io".to_owned(),
                    false => line.task.split('/').next().unwrap_or_default().to_owned(),
                };
                let tasks: BTreeSet<_> = run.some_lines(event)?.iter().map(name).collect();
                tasks.into_iter().collect::<Vec<_>>().join(", ")
            }
            Shows::Context(event) => {
                let lines = run.some_lines(event)?;
                match lines.iter().filter(|line| is_in_interrupt(line)).count() {
                    0 => "task",
                    all if all == lines.len() => "interrupt",
                    _ => "both",
                }
                .to_owned()
            }
            Shows::More([first, second]) => {
                let [one, other] = [first, second].map(|event| run.lines(event).count());
                match one.cmp(&other) {
                    Ordering::Greater => "first",
                    Ordering::Less => "second",
                    Ordering::Equal => "equal",
                }
                .to_owned()
            }
            Shows::PerIo(event) => match run.lines(event).count() as u64 {
                0 => "none",
                lines if lines < run.ios => "fewer",
                lines if lines == run.ios => "one",
                _ => "more",
            }
            .to_owned(),
            Shows::Magnitude(event) => power(run.lines(event).count() as u64, run.ios).to_string(),
            Shows::InStack(names) => {
                let stack: Vec<_> = run.stdout.lines().filter_map(|line| line.strip_prefix("=> ")).collect();
                let found =
                    names.iter().find(|name| stack.iter().any(|function| function.contains(name.as_str())));
                found.map_or("none", String::as_str).to_owned()
            }
            Shows::First(texts) => {
                let found = texts.iter().find(|text| run.stdout.contains(text.as_str()));
                found.map_or("none", String::as_str).to_owned()
            }
            Shows::Count(text) => {
                run.stdout.lines().filter(|line| line.contains(text.as_str())).count().to_string()
            }
            Shows::Half(text) => {
                let halves: Vec<_> = run.stdout.lines().filter_map(|line| line.split_once('|')).collect();
                if halves.is_empty() {
                    return Err(Error::new("there is no table in halves").evidence(run.stdout));
                }
                let first = halves.iter().any(|(half, _)| half.contains(text.as_str()));
                let second = halves.iter().any(|(_, half)| half.contains(text.as_str()));
                match (first, second) {
                    (true, true) => "both",
                    (true, false) => "first",
                    (false, true) => "second",
                    (false, false) => "none",
                }
                .to_owned()
            }
            Shows::Number(before) => {
                run.number(before).map_or("none".to_owned(), |number| number.to_string())
            }
            Shows::Zero(before) => match run.number(before) {
                Some(0) => "zero",
                Some(_) => "more",
                None => {
                    return Err(Error::new(format!("the report has no {before:?}"))
                        .evidence(format!("{}{}", run.stdout, run.stderr)));
                }
            }
            .to_owned(),
        };
        Ok(shown)
    }
}
