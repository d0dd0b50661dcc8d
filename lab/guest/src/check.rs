//! In the guest: whether a stage, an example or an exercise is right. What that means stands beside each of them, in
//! `check.rs`. Here is what several of them need.

use common::trace_pipe::Line;
use common::{Error, OrCause, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::sync;
use wire::disks::RAW_DEVICE;
use wire::workload::Done;

use crate::running::{Observation, Running, io};
use crate::truth;
use crate::verdict::{Checked, expect, expect_line, wrong};

/// What a program printed, and what was right about it.
pub type Judged = (Observation, String);

/// What is right for a stage or an example, and for its exercises.
pub struct Check {
    /// How to judge the program. `None` if only its exercises are judged.
    pub program: Option<Program>,
    /// How many lines it prints for each write. 0 if other I/O has lines, too, or only a report is printed.
    pub lines: usize,
    /// By the exercise's id. With the stage's own number, in place of `program` for what a learner writes as the stage.
    pub exercises: &'static [(&'static str, Exercise)],
}

impl Check {
    pub const NONE: Self = Self { program: None, lines: 0, exercises: &[] };
}

/// How to judge a program beside I/O of which we know everything.
pub enum Program {
    /// Beside four I/Os of this kind to a file, by what it printed and what `io` did.
    Beside(&'static str, fn(&Observation, &Done) -> Checked<String>),
    Own(fn(&str) -> Checked<Judged>),
}

impl Program {
    /// Runs it, and fails if what it prints is not right.
    pub fn judge(&self, binary: &str) -> Checked<Judged> {
        match self {
            Self::Beside(kind, right) => {
                let work = [&[*kind], &FILE[..]].concat();
                settle(&work)?;
                let (seen, done) = watch_while(&[binary], || io(&work))?;
                let shown = right(&seen, &done)?;
                Ok((seen, shown))
            }
            Self::Own(judge) => judge(binary),
        }
    }
}

/// Runs a program and returns what it did right.
type Exercise = fn(&str) -> Checked<String>;

/// The file that [`Program::Beside`] writes and reads, and how often.
pub const FILE: [&str; 3] = ["/mnt/demo", "--count", "4"];

/// How often to repeat a check in which the kernel did not show some calls, as a preemptible kernel sometimes does.
const TRIES: usize = 30;

/// How often to wait for a run in which nobody else does I/O.
const ALONE: usize = 3;

/// What the trace pipe calls a task of `io`, whose name it may not know yet.
const OURS: [&str; 2] = ["io", "<...>"];

/// Does the work once unobserved. That creates the file, and leaves nothing to be written later.
pub fn settle(work: &[&str]) -> Result<()> {
    io(work)?;
    sync();
    Ok(())
}

/// What an example printed that counts the I/Os of all disks in a histogram, and the verdict.
pub fn of_all_disks(binary: &str) -> Checked<Judged> {
    // What is still to be written could be written after the example has stopped counting.
    sync();
    let (seen, done) = watch_while(&[binary], || {
        let before = truth::disk_ios()?;
        for (size, count) in [("4096", "32"), ("65536", "8")] {
            io(&["write", RAW_DEVICE, "--size", size, "--count", count])?;
        }
        Ok(truth::disk_ios()? - before)
    })?;
    let shown = truth::histogram(&seen.stdout).count();
    if shown != done || done < 40 {
        return Err(Error::new(format!("{binary} counts {shown} I/Os, and the disks {done}"))
            .evidence(format!("{}{}", seen.stdout, seen.stderr))
            .into());
    }
    Ok((seen, format!("{shown} I/Os are in the histogram, and the disks count {done}")))
}

/// What the program printed while `work` ran, until Ctrl-C.
pub fn watch_while<T>(argv: &[&str], work: impl FnOnce() -> Result<T>) -> Result<(Observation, T)> {
    let program = Running::start(argv)?;
    let done = work()?;
    let seen = program.end(Signal::SIGINT)?;
    succeeded(&seen)?;
    Ok((seen, done))
}

/// Like [`watch_while`], but the program is stopped meanwhile. Then it goes on until Ctrl-C.
pub fn watch_stopped<T>(argv: &[&str], work: impl FnOnce() -> Result<T>) -> Result<(Observation, T)> {
    let program = Running::start(argv)?;
    let signal = |signal| kill(program.pid(), signal).or_cause("cannot signal the program");
    signal(Signal::SIGSTOP)?;
    let done = work();
    // Else it would never end.
    signal(Signal::SIGCONT)?;
    let seen = program.end(Signal::SIGINT)?;
    succeeded(&seen)?;
    Ok((seen, done?))
}

/// Like [`watch_while`], but tries again if the kernel did not show some calls, which the program reports.
pub fn watch_all<T>(argv: &[&str], work: impl Fn() -> Result<T>) -> Result<(Observation, T)> {
    for _ in 1..TRIES {
        let (seen, done) = watch_while(argv, &work)?;
        if !seen.stderr.contains("the kernel did not run the programs for") {
            return Ok((seen, done));
        }
    }
    watch_while(argv, work)
}

pub fn succeeded(seen: &Observation) -> Result<()> {
    if seen.status.success() {
        return Ok(());
    }
    Err(Error::new(format!("the program failed: {}", seen.status)).evidence(&seen.stderr))
}

/// What the program printed while `io` ran. If `io` writes to a disk without a file system, but somebody else submits a bio,
/// too, such as ext4's journal after some seconds on a slow machine, tries again.
pub fn watch(binary: &str, arguments: &str) -> Result<(Observation, Done)> {
    let watched = || watch_while(&[binary], || io(&arguments.split(' ').collect::<Vec<_>>()));
    for _ in 1..ALONE {
        let (seen, done) = watched()?;
        if !arguments.contains("/dev/") || !seen.lines().iter().any(is_of_a_stranger) {
            return Ok((seen, done));
        }
    }
    watched()
}

/// Whether somebody else than `io` submits a bio here.
fn is_of_a_stranger(line: &Line<'_>) -> bool {
    line.message.starts_with("submit_bio") && !OURS.contains(&line.task)
}

/// The number in the first line that is `before`, the number, and `after`.
pub fn number(seen: &Observation, before: &str, after: &str) -> Option<u64> {
    seen.stdout.lines().find_map(|line| line.strip_prefix(before)?.strip_suffix(after)?.parse().ok())
}

/// The two numbers in the last line of the form `FIRST: N, SECOND: N`.
pub fn pair(seen: &Observation, first: &str, second: &str) -> Checked<(u64, u64)> {
    let found = seen.stdout.lines().rev().find_map(|line| {
        let (one, two) = line.strip_prefix(&format!("{first}: "))?.split_once(&format!(", {second}: "))?;
        Some((one.parse().ok()?, two.parse().ok()?))
    });
    let form = format!("`{first}: N, {second}: N`");
    found.ok_or_else(|| wrong(format!("a line {form}"), "no such line", seen))
}

/// Fails unless these are the two numbers of [`pair`], because of `why`.
pub fn expect_pair(seen: &Observation, [first, second]: [&str; 2], right: (u64, u64), why: &str) -> Checked {
    let line = |(one, two)| format!("{first}: {one}, {second}: {two}");
    let found = pair(seen, first, second)?;
    let (right, found) = (line(right), line(found));
    expect(right == found, format!("`{right}`: {why}"), format!("`{found}`"), seen.at(|line| line == found))
}

/// Fails unless the number of the line of this form is right; a right one is this, because of `why`.
pub fn expect_number(
    seen: &Observation,
    begin: &str,
    right: u64,
    why: &str,
    is_right: impl FnOnce(u64) -> bool,
) -> Checked {
    match number(seen, begin, "") {
        Some(found) if is_right(found) => Ok(()),
        _ => expect_line(seen, begin, right, why),
    }
}

/// Fails unless the last line reports that no duration is missing, because of `why`.
pub fn expect_none_missing(seen: &Observation, why: &str) -> Checked {
    expect_missing(seen, 0, why)
}

/// Fails unless the last line reports that as many durations are missing, because of `why`.
pub fn expect_missing(seen: &Observation, count: u64, why: &str) -> Checked {
    let missing = truth::not_measured(seen)?;
    let last = seen.stdout.lines().last();
    expect(
        missing == count,
        format!("a last line that begins with `{}{count}`: {why}", truth::NOT_MEASURED),
        format!("`{}`", last.unwrap_or_default()),
        seen.at(|line| Some(line) == last),
    )
}

pub fn count_of(count: impl Into<u64>, what: &str) -> String {
    match count.into() {
        0 => format!("no {what}"),
        1 => format!("one {what}"),
        count => format!("{count} {what}s"),
    }
}

/// Whether a count is right. On a preemptible kernel, `tp_btf` can miss calls, and fexit, which a learner may use. The
/// kernel counts those, and then the count may be lower.
pub fn as_many(counted: u64, true_count: u64, seen: &Observation) -> bool {
    counted == true_count || counted < true_count && truth::skipped(seen).unwrap_or_default() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_is_whoever_submits_a_bio_and_is_not_io() {
        let is_stranger = |line: &str| is_of_a_stranger(&Line::parse(line).unwrap());
        assert!(is_stranger("jbd2/vdb-8-70  [000] ...21 9.100000: submit_bio(bio=0xff00) called: 9"));
        assert!(!is_stranger("io-158  [001] ...21 9.100000: submit_bio(bio=0xff00) called: 9"));
        assert!(!is_stranger("<...>-158  [001] ...21 9.100000: submit_bio(bio=0xff00) called: 9"));
        // Whoever is interrupted by the end of a bio.
        assert!(!is_stranger("<idle>-0  [001] d.h21 9.100000: bio_endio(bio=0xff00) called: 9"));
    }
}
