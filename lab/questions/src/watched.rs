//! The prediction of a run that somebody watches. Unlike the run of a test, it has other I/O beside it, and `io` does its
//! work again and again.

use common::trace_pipe::Line;
use serde::Serialize;

use crate::truth::{Run, Shows, Truth, number};

/// How many bytes of a run we look at.
const LARGEST: usize = 1 << 20;

/// How many lines of a run we show.
const MOST_LINES: usize = 16;

/// A run, line by line, until it decides.
#[derive(Debug)]
pub struct Watched {
    truth: Truth,
    /// How many I/Os each `io` makes.
    ios: u64,
    /// The lines that matter.
    lines: Vec<String>,
    size: usize,
    /// Each `io` that has written a line.
    pids: Vec<u32>,
    /// What it shows.
    pub seen: Option<Seen>,
}

/// What a run shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// The truth, as in an option's `value`.
    pub value: String,
    /// The lines that decide, or the first ones of them.
    pub lines: Vec<String>,
}

impl Watched {
    /// A run that begins, in which each `io` makes so many I/Os.
    pub fn new(truth: Truth, ios: u64) -> Self {
        Self { truth, ios, lines: Vec::new(), size: 0, pids: Vec::new(), seen: None }
    }

    /// The next line that it prints.
    pub fn line(&mut self, line: &str) {
        let parsed = Line::parse(line);
        if self.seen.is_some() || parsed.is_some() != self.truth.shows.is_in_trace() {
            return;
        }
        self.size += line.len();
        if self.size > LARGEST {
            return;
        }
        self.lines.push(line.to_owned());
        if let Some(Line { task: "io", pid, .. }) = parsed
            && !self.pids.contains(&pid)
        {
            self.pids.push(pid);
            self.round();
        }
    }

    /// It has ended, and printed its report.
    pub fn end(&mut self) {
        if self.seen.is_none() && !self.truth.shows.is_in_trace() {
            self.decide(0, &self.lines.join("\n"));
        }
    }

    /// Another `io` begins, so the one before has ended.
    fn round(&mut self) {
        let [.., pid, next] = self.pids[..] else { return };
        // A line may be there before the tracer knows the task's name.
        let first = |of: u32| {
            let is_its = |line: &String| Line::parse(line).is_some_and(|line| line.pid == of);
            self.lines.iter().position(is_its).unwrap_or(self.lines.len())
        };
        let (from, to) = (first(pid), first(next));
        if from < to {
            self.decide(pid, &self.lines[from..to].join("\n"));
        }
    }

    fn decide(&mut self, pid: u32, text: &str) {
        let run = Run { stdout: text, stderr: text, pid, ios: self.ios };
        if let Ok(value) = self.truth.of(&run)
            && value != "none"
        {
            let lines = self.truth.shows.deciding(&run, &value);
            self.seen =
                Some(Seen { value, lines: lines.into_iter().take(MOST_LINES).map(str::to_owned).collect() });
        }
    }
}

impl Truth {
    /// The lines of a run that decide.
    pub fn deciding<'a>(&self, run: &Run<'a>, value: &str) -> Vec<&'a str> {
        self.shows.deciding(run, value)
    }
}

impl Shows {
    /// Whether the lines of events decide, and not the report.
    pub fn is_in_trace(&self) -> bool {
        matches!(
            self,
            Self::Lines(_)
                | Self::Tasks(_)
                | Self::Context(_)
                | Self::More(_)
                | Self::PerIo(_)
                | Self::Magnitude(_)
        )
    }

    /// The lines of a run from which this truth is.
    fn deciding<'a>(&self, run: &Run<'a>, value: &str) -> Vec<&'a str> {
        let lines = run.stdout.lines();
        match self {
            Self::Lines(event) => {
                let is_ios = |line: &&str| Line::parse(line).is_some_and(|line| run.is_ios(&line));
                of(run, event).into_iter().filter(is_ios).collect()
            }
            Self::Tasks(event) | Self::Context(event) | Self::PerIo(event) => of(run, event),
            Self::More([first, second]) => [of(run, first), of(run, second)].concat(),
            Self::LinesOfReport(begin) => lines.filter(|line| line.starts_with(begin)).collect(),
            Self::Number(before) | Self::Zero(before) => {
                lines.filter(|line| number(line, before).is_some()).collect()
            }
            Self::InStack(_) => {
                lines.filter(|line| line.starts_with("=> ") && line.contains(value)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The lines of an event.
fn of<'a>(run: &Run<'a>, event: &str) -> Vec<&'a str> {
    let is_its = |line: &&str| Line::parse(line).is_some_and(|line| line.message.starts_with(event));
    run.stdout.lines().filter(is_its).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(shows: &str, lines: &[String]) -> Watched {
        let truth: Truth = toml::from_str(&format!("shows = {shows}")).unwrap();
        let mut watched = Watched::new(truth, 2);
        lines.iter().for_each(|line| watched.line(line));
        watched
    }

    fn event(task: &str, flags: &str, text: &str) -> String {
        format!("{task:<12} [000] {flags} 2.310423: {text}")
    }

    /// `io` does its work twice; the journal and others do something, too.
    fn trace() -> Vec<String> {
        let mut lines = vec!["Kernel 6.12.94, up after 4.1 s".to_owned()];
        for pid in 7..9 {
            let io = |text: &str| event(&format!("io-{pid}"), "...21", text);
            lines.push(event(&format!("<...>-{pid}"), "...21", "submit_bio() called: 1"));
            lines.push(event("<idle>-0", "d.h31", "bio_endio() called: 2"));
            lines.push(event("jbd2/nvme0n1-8-60", "...21", "submit_bio() called: 3"));
            lines.push(io("submit_bio() called: 4"));
            lines.push(event("<idle>-0", "d.h31", "bio_endio() called: 5"));
        }
        lines
    }

    #[test]
    fn a_whole_round_of_io_decides() {
        let lines = trace();
        let shows = "{ lines = \"submit_bio() called\" }";
        assert_eq!(watched(shows, &lines[..lines.len() - 2]).seen, None, "the second io may be a worker");
        let seen = watched(shows, &lines).seen.unwrap();
        assert_eq!(seen.value, "2", "{seen:?}");
        assert_eq!(seen.lines, [lines[1].clone(), lines[4].clone()]);
        let context = watched("{ context = \"bio_endio() called\" }", &lines).seen.unwrap();
        assert_eq!((context.value.as_str(), context.lines.len()), ("interrupt", 2));
    }

    #[test]
    fn a_report_decides_at_the_end() {
        let mut lines = trace();
        lines.push("[Total 6 Hit 4 miss 2]".to_owned());
        let mut watched = watched("{ number = \"[Total # Hit \" }", &lines);
        assert_eq!(watched.seen, None);
        watched.end();
        let seen = watched.seen.unwrap();
        assert_eq!((seen.value.as_str(), seen.lines), ("4", vec!["[Total 6 Hit 4 miss 2]".to_owned()]));
    }

    #[test]
    fn a_run_without_the_report_does_not_decide() {
        let mut watched = watched("{ number = \"[Total \" }", &trace());
        watched.end();
        assert_eq!(watched.seen, None);
    }
}
