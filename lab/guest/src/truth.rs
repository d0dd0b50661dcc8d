//! Parses what the stages print, and checks it against what a workload reports.

use std::collections::BTreeMap;
use std::{fmt, fs};

use common::histogram::Histogram;
use common::report::SlowBio;
use common::trace_pipe::Line;
use common::{Error, OrCause, Result};
use wire::workload::Done;

use crate::running::Observation;
use crate::verdict::{Checked, expect, expect_line, wrong};

/// The meaning of a line that a stage prints. Some stages print no address of a bio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// `submit_bio() called: NS` or `submit_bio(bio=0xADDR) called: NS`.
    Submit { bio: Option<u64>, ns: u64 },
    /// `bio_endio() called: NS` or `bio_endio(bio=0xADDR) called: NS`.
    End { bio: Option<u64>, ns: u64 },
    /// `blk_mq_start_request(rq=0xADDR) is called!`.
    Start { rq: u64 },
    /// `block_rq_complete(rq=0xADDR) is called!`.
    Complete { rq: u64 },
    /// `START() -> END() time duration: NS ns`.
    Duration { ns: u64 },
}

impl Event {
    /// Parses a message; `None` if no stage prints it.
    pub fn parse(message: &str) -> Option<Self> {
        if let Some((functions, duration)) = message.split_once(" time duration: ") {
            let known = ["submit_bio() -> bio_endio()", "blk_mq_start_request() -> block_rq_complete()"];
            let ns = duration.strip_suffix(" ns")?.parse().ok()?;
            return known.contains(&functions).then_some(Self::Duration { ns });
        }
        let (function, rest) = message.split_once('(')?;
        let (argument, rest) = rest.split_once(')')?;
        let address = |name: &str| u64::from_str_radix(argument.strip_prefix(name)?, 16).ok();
        if rest == " is called!" {
            let rq = address("rq=0x")?;
            return match function {
                "blk_mq_start_request" => Some(Self::Start { rq }),
                "block_rq_complete" => Some(Self::Complete { rq }),
                _ => None,
            };
        }
        let ns = rest.strip_prefix(" called: ")?.parse().ok()?;
        let bio = if argument.is_empty() { None } else { Some(address("bio=0x")?) };
        match function {
            "submit_bio" => Some(Self::Submit { bio, ns }),
            "bio_endio" => Some(Self::End { bio, ns }),
            _ => None,
        }
    }
}

/// The events in a stage's lines, each with its line.
pub fn events(seen: &Observation) -> Checked<Vec<(Line<'_>, Event)>> {
    let lines = seen.lines().into_iter();
    let events = lines.map(|line| match Event::parse(line.message) {
        Some(event) => Ok((line, event)),
        None => {
            let evidence = seen.at_trace(|other| *other == line);
            Err(wrong("only trace lines that the stages print", format!("`{}`", line.message), evidence))
        }
    });
    events.collect()
}

/// The slowest bio that a stage reports at its end.
pub fn slowest(seen: &Observation) -> Checked<SlowBio> {
    let rest = |begin: &str| seen.stdout.lines().find_map(|line| line.strip_prefix(begin));
    let time = |begin: &str| {
        let (bio, ns) = rest(begin)?.split_once(") ")?;
        Some((u64::from_str_radix(bio, 16).ok()?, ns.parse::<u64>().ok()?))
    };
    let times = time("From: submit_bio(bio=0x").zip(time("To  : bio_endio(bio=0x"));
    let ((bio, start), (ended, end)) =
        times.ok_or_else(|| wrong("a report of the slowest bio", "none that is complete", seen))?;
    let sector = rest("Bio Info : Sector (").and_then(|rest| rest.strip_suffix(')')?.parse().ok());
    let slowest = SlowBio { bio, start, end, sector, ..SlowBio::default() };
    let expected = "the same bio in both lines of the report";
    expect(bio == ended, expected, "two bios", seen.at(|line| line.starts_with("To  : bio_endio(")))?;
    let most = format!("{} ns", slowest.duration());
    expect_line(seen, "Max latency ", most, "the times below it are that far apart")?;
    Ok(slowest)
}

/// The durations among a stage's events, in nanoseconds.
pub fn durations(events: &[(Line<'_>, Event)]) -> Vec<u64> {
    let duration = |(_, event): &(Line<'_>, Event)| match *event {
        Event::Duration { ns } => Some(ns),
        _ => None,
    };
    events.iter().filter_map(duration).collect()
}

/// How many durations are missing or too short, as a latency stage reports in its last line.
pub fn not_measured(seen: &Observation) -> Checked<u64> {
    let line = seen.stdout.lines().last().unwrap_or_default();
    let number = line.strip_prefix(NOT_MEASURED).and_then(|text| text.split(',').next()?.parse().ok());
    number.ok_or_else(|| wrong(format!("a last line `{NOT_MEASURED}N`"), format!("`{line}`"), seen))
}

/// How often the kernel split a bio, as that line reports: at most so many durations more are too short.
pub fn splits(seen: &Observation) -> u64 {
    let line =
        seen.stdout.lines().last().and_then(|line| line.split_once(", perhaps ")?.1.split_once(" more"));
    line.and_then(|(number, _)| number.parse().ok()).unwrap_or_default()
}

/// How the last line of a latency stage begins.
pub const NOT_MEASURED: &str = "Durations missing or too short: ";

/// Checks that a stage that pairs starts with ends lost none in silence: each start has its duration, or the report
/// counts it.
pub fn balance(seen: &Observation) -> Checked {
    let events = events(seen)?;
    let starts = events.iter().filter(|(_, event)| matches!(event, Event::Submit { .. })).count() as u64;
    let (durations, not_measured) = (durations(&events).len() as u64, not_measured(seen)?);
    match starts.checked_sub(durations) {
        Some(missing) if missing <= not_measured => Ok(()),
        _ => Err(wrong(
            format!("{starts} durations, or as many fewer as the last line reports missing"),
            format!("{durations} durations, and {not_measured} missing"),
            seen,
        )),
    }
}

/// The functions of the stack that a stage reports, outermost first, as in `=> NAME()`.
pub fn stack(seen: &Observation) -> Vec<&str> {
    seen.stdout.lines().filter_map(|line| line.strip_prefix("=> ")).collect()
}

/// The counts that stages 08 and 09 report: pages that reads touched, hits, misses, and pages added beyond these.
pub fn page_cache(seen: &Observation) -> Checked<[u64; 4]> {
    let rest = |begin: &str| seen.stdout.lines().find_map(|line| line.strip_prefix(begin));
    let counts = || {
        let beyond = rest("Pages added beyond what was read: ")?.split_once(", ")?.0.parse().ok()?;
        if seen.stdout.contains("Nothing was read through the page cache.") {
            return Some([0, 0, 0, beyond]);
        }
        let line = rest("[Total ")?.strip_suffix(']')?;
        let [total, "Hit", hit, "miss", miss] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
        Some([total.parse().ok()?, hit.parse().ok()?, miss.parse().ok()?, beyond])
    };
    counts().ok_or_else(|| wrong("a report of page-cache counts", "none that is complete", seen))
}

/// How many calls the kernel skipped, or durations are missing, according to a report; `None` if it doesn't say.
pub fn skipped(seen: &Observation) -> Option<u64> {
    // At the beginning of a line, too.
    let calls = |line: &str| line.to_lowercase().rsplit_once("calls skipped: ")?.1.parse().ok();
    seen.stdout.lines().rev().find_map(calls).or_else(|| not_measured(seen).ok())
}

/// The sum of all histograms in a text.
pub fn histogram(text: &str) -> Histogram {
    let row = |line: &str| {
        let (values, count) = line.strip_suffix('|')?.split_once(" : ")?;
        let (from, _) = values.split_once(" -> ")?;
        Some((from.trim().parse().ok()?, count.split_once('|')?.0.trim().parse().ok()?))
    };
    let one = |(from, count)| {
        let slot = Histogram::slot(from);
        (0..=slot).map(|nth| if nth == slot { count } else { 0 }).collect()
    };
    text.lines().filter_map(row).map(one).sum()
}

/// The histogram below a line such as `read: 12`, if there is one and its counts add up to this number.
pub fn histogram_below(heading: &str, text: &str) -> Option<Histogram> {
    let mut lines = text.lines();
    let number = lines.find_map(|line| line.strip_prefix(heading)?.strip_prefix(": "))?;
    let histogram = histogram(&lines.take_while(|line| line.contains(" : ")).collect::<Vec<_>>().join("\n"));
    (number.parse() == Ok(histogram.count())).then_some(histogram)
}

/// The sums of each process's histograms in a text, which follow a line `PID: 583 UID: 0 CMD: dd`.
pub fn histograms(text: &str) -> BTreeMap<u32, Histogram> {
    let mut processes = BTreeMap::<_, Histogram>::new();
    for part in text.split("PID: ").skip(1) {
        if let Some(pid) = part.split(' ').next().and_then(|pid| pid.parse().ok()) {
            *processes.entry(pid).or_default() += &histogram(part);
        }
    }
    processes
}

/// How many reads and writes all disks have completed, according to `/sys/block/DISK/stat`, which has the same
/// numbers as `/proc/diskstats`. A flush that belongs to a write does not count; any other flush counts as a write.
/// See the kernel's `Documentation/block/stat.rst`.
pub fn disk_reads_and_writes() -> Result<(u64, u64)> {
    sums([0, 4]).map(|[reads, writes]| (reads, writes))
}

/// How many reads and writes that is together, and how long they took, in milliseconds: from these, iostat(1) computes its
/// `await`.
pub fn disk_times() -> Result<(u64, u64)> {
    sums([0, 4, 3, 7]).map(|[reads, writes, reading, writing]| (reads + writes, reading + writing))
}

/// The sums of these fields of all disks' `stat`.
fn sums<const N: usize>(fields: [usize; N]) -> Result<[u64; N]> {
    let mut sums = [0; N];
    for disk in fs::read_dir("/sys/block").or_cause("cannot list the disks")?.flatten() {
        let stat = fs::read_to_string(disk.path().join("stat")).or_cause("cannot read a disk's counts")?;
        for (sum, nth) in sums.iter_mut().zip(fields) {
            let number = stat.split_whitespace().nth(nth).and_then(|count| count.parse::<u64>().ok());
            *sum += number.ok_or_else(|| Error::new("a disk's counts are malformed").evidence(&stat))?;
        }
    }
    Ok(sums)
}

/// The sum of both.
pub fn disk_ios() -> Result<u64> {
    disk_reads_and_writes().map(|(reads, writes)| reads + writes)
}

/// The calls that stage 10 prints, such as `submit_bio(bio=0xADDR)`: the line, the function, and the address of the bio.
pub fn calls(seen: &Observation) -> Vec<(Line<'_>, &str, u64)> {
    let lines = seen.lines().into_iter();
    let calls = lines.filter_map(|line| {
        let (function, bio) = call(&line)?;
        Some((line, function, bio))
    });
    calls.collect()
}

/// The function and the address in one of these lines.
pub fn call<'a>(line: &Line<'a>) -> Option<(&'a str, u64)> {
    let (function, bio) = line.message.strip_suffix(')')?.split_once("(bio=0x")?;
    Some((function, u64::from_str_radix(bio, 16).ok()?))
}

/// Fails unless as many lines show a call of submit_bio() by `io` as it wrote.
pub fn expect_writes(seen: &Observation, done: &Done, lines: u64) -> Checked {
    expect(
        lines == done.count,
        format!("{} lines with submit_bio() by io, process {}, which wrote that often", done.count, done.pid),
        lines.to_string(),
        seen,
    )
}

/// Fails unless the stack that a stage reports ends in submit_bio().
pub fn expect_stack(seen: &Observation) -> Checked {
    let last = stack(seen).last().copied();
    expect(
        last == Some("submit_bio()"),
        "a stack whose last line is `=> submit_bio()`",
        last.map_or_else(|| "no stack".to_owned(), |last| format!("`=> {last}`")),
        seen.at(|line| line.strip_prefix("=> ").is_some_and(|function| Some(function) == last)),
    )
}

/// Checks what stage 08 or 09 printed while `io` read at most a page at a time. Returns the verdict as a sentence.
pub fn of_reads(seen: &Observation, done: &Done) -> Checked<String> {
    let [total, _, miss, beyond] = page_cache(seen)?;
    let disk = done.read_bytes / rustix::param::page_size() as u64;
    expect(
        (total, miss + beyond) == (done.count, disk),
        format!("{} pages, which io read, and {disk} of them added, which the disk read", done.count),
        format!("{total} pages, and {} added", miss + beyond),
        seen.at(|line| line.starts_with("[Total ")),
    )?;
    Ok(format!(
        "io read {total} pages, and the disk read {disk} for it, as many as were added to the page cache"
    ))
}

/// The direct writes of `io`, one after the other, in what a stage printed. Other tasks may also have done I/O.
pub struct Writes<'a> {
    seen: &'a Observation,
    done: &'a Done,
    events: Vec<(Line<'a>, Event)>,
    /// For each write its bio, if the stage prints it, and when it was submitted.
    submits: Vec<(Option<u64>, u64)>,
}

pub struct Ended<'a> {
    /// When it was submitted, in nanoseconds.
    pub start: u64,
    pub end: u64,
    /// The duration that the next line of the same CPU shows, if it shows one.
    pub duration: Option<(Line<'a>, u64)>,
}

impl<'a> Writes<'a> {
    /// # Errors
    /// If a write of `io` has no line, or a line is not one that a stage prints.
    pub fn of(seen: &'a Observation, done: &'a Done) -> Checked<Self> {
        let events = events(seen)?;
        let is_within = |ns: u64| (done.first_ns..=done.last_ns).contains(&ns);
        let submits = events.iter().filter_map(|(line, event)| match *event {
            Event::Submit { bio, ns } if line.pid == done.pid && is_within(ns) => Some((bio, ns)),
            _ => None,
        });
        let submits: Vec<_> = submits.collect();
        expect_writes(seen, done, submits.len() as u64)?;
        Ok(Self { seen, done, events, submits })
    }

    /// How each write ended.
    pub fn ends(&self) -> Checked<Vec<Ended<'a>>> {
        let nexts = self.submits.iter().skip(1).map(|(_, ns)| *ns).chain([self.done.last_ns]);
        self.submits.iter().zip(nexts).map(|((bio, start), next)| self.end(*bio, *start, next)).collect()
    }

    fn end(&self, bio: Option<u64>, start: u64, next: u64) -> Checked<Ended<'a>> {
        let end = self.events.iter().enumerate().find_map(|(nth, (line, event))| match *event {
            Event::End { bio: ended, ns } if ended == bio && (start..=next).contains(&ns) => {
                Some((nth, line, ns))
            }
            _ => None,
        });
        let Some((nth, line, end)) = end else {
            let is_it =
                |line: &Line<'_>| Event::parse(line.message) == Some(Event::Submit { bio, ns: start });
            let expected = format!("a line with bio_endio() for the bio submitted at {start}");
            return Err(wrong(expected, "no such line before the next bio", self.seen.at_trace(is_it)));
        };
        let after = self.events[nth + 1..].iter().find(|(other, _)| other.cpu == line.cpu);
        let duration = after.and_then(|(line, event)| match *event {
            Event::Duration { ns } => Some((*line, ns)),
            _ => None,
        });
        Ok(Ended { start, end, duration })
    }
}

impl fmt::Display for Writes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (writes, calls) = (self.done.count, self.submits.len());
        write!(f, "io did {writes} direct writes, and {calls} calls of submit_bio() are its own")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::stage03;
    use crate::verdict::Failure;

    #[test]
    fn messages_are_understood() {
        for (message, event) in [
            ("submit_bio() called: 7", Event::Submit { bio: None, ns: 7 }),
            ("submit_bio(bio=0xff) called: 7", Event::Submit { bio: Some(255), ns: 7 }),
            ("bio_endio() called: 8", Event::End { bio: None, ns: 8 }),
            ("bio_endio(bio=0xff) called: 9", Event::End { bio: Some(255), ns: 9 }),
            ("submit_bio() -> bio_endio() time duration: 2 ns", Event::Duration { ns: 2 }),
            ("blk_mq_start_request(rq=0xff) is called!", Event::Start { rq: 255 }),
            ("block_rq_complete(rq=0xff) is called!", Event::Complete { rq: 255 }),
            ("blk_mq_start_request() -> block_rq_complete() time duration: 2 ns", Event::Duration { ns: 2 }),
        ] {
            assert_eq!(Event::parse(message), Some(event));
        }
        for foreign in [
            "submit_bio: not one of ours",
            "submit_bio(bio=) called: 1",
            "vfs_read() called: 1",
            "a() -> b() time duration: 2 ns",
            "vfs_read(rq=0xff) is called!",
        ] {
            assert_eq!(Event::parse(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn histograms_are_read_as_they_were_printed() {
        let counts: Histogram = [3, 0, 7].into_iter().collect();
        let table = counts.table_of("kbytes", 40).to_string();
        assert_eq!(histogram(&table), counts);
        let twice =
            format!("PID: 7 UID: 0 CMD: a\n{table}\n\nPID: 8 UID: 0 CMD: PID\nPID: 7 UID: 0 CMD: a\n{table}");
        let found: Vec<_> = histograms(&twice).into_iter().collect();
        assert_eq!(found, [(7, [6, 0, 14].into_iter().collect()), (8, Histogram::default())]);
    }

    fn seen(messages: &[&str]) -> Observation {
        let lines = messages
            .iter()
            .map(|message| format!("io-98 [000] ..... 1.000000: bpf_trace_printk: {message}\n"));
        let report = format!("{NOT_MEASURED}0\n");
        Observation::of(lines.chain([report]).collect::<String>())
    }

    #[test]
    fn a_wrong_number_is_found() {
        let done = "io write: pid=98 threads=1 count=1 bytes=4096 read_bytes=0 first_ns=1 last_ns=9"
            .parse()
            .unwrap();
        let [submit, end] = ["submit_bio(bio=0xa) called: 2", "bio_endio(bio=0xa) called: 5"];
        let duration = |ns| format!("submit_bio() -> bio_endio() time duration: {ns} ns");
        let check = |messages: &[&str]| {
            stage03::right(&seen(messages), &done).map_err(|failure| match failure {
                Failure::Wrong(fault) => (fault.expected, fault.seen, fault.wrong),
                Failure::Error(error) => panic!("{error}"),
            })
        };
        for right in [2, 3] {
            assert!(check(&[submit, end, &duration(right)]).is_ok());
        }
        insta::assert_debug_snapshot!([
            check(&[submit, end, &duration(4)]),
            check(&[submit, end, &duration(0)]),
            check(&[submit, end]),
            check(&[submit]),
            check(&[]),
            check(&[submit, submit, end]),
        ]);
        let mut unreported = seen(&[submit, end, &duration(3)]);
        unreported.stdout = unreported.stdout.replace(NOT_MEASURED, "");
        assert!(stage03::right(&unreported, &done).is_err());
    }
}
