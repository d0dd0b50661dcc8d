//! Compares what a tool says with what happened.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::Serialize;
use wire::prove::Played;

use crate::prove::adapter::{Report, Seen};

/// What is said of one number of the tool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grade {
    /// What the number is about.
    pub of: String,
    /// What happened.
    pub truth: String,
    /// What the tool says.
    pub said: String,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Right,
    TooFew,
    /// Too few, and the tool says how many it missed.
    TooFewAndSaysSo,
    TooMany,
    WrongDisk,
    WrongOperation,
    WrongProcess,
    WrongSize,
    /// A time that the disk can't have taken, because it is set to take longer.
    TooShort,
    /// A time that is longer than the whole system call.
    TooLong,
    /// Right if it were another unit.
    WrongUnit,
    /// BPF programs are still loaded.
    LeavesSomething,
    NotReported,
}

impl Verdict {
    /// For people.
    pub fn says(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::TooFew => "too few, and it doesn't say so",
            Self::TooFewAndSaysSo => "too few, and it says how many it missed",
            Self::TooMany => "too many",
            Self::WrongDisk => "of another disk",
            Self::WrongOperation => "of another operation",
            Self::WrongProcess => "of another process",
            Self::WrongSize => "of another size",
            Self::TooShort => "shorter than the disk takes: this clock starts late, or stops early",
            Self::TooLong => "longer than the whole system call",
            Self::WrongUnit => "right in another unit",
            Self::LeavesSomething => "it leaves programs in the kernel",
            Self::NotReported => "not reported",
        }
    }

    pub fn is_fault(self) -> bool {
        !matches!(self, Self::Right | Self::TooFewAndSaysSo | Self::NotReported)
    }
}

/// Compares all that the tool says with what happened.
pub fn grades(played: &Played, report: &Report) -> Vec<Grade> {
    let all: u64 = played.done.iter().map(|io| io.count).sum();
    let said: u64 = report.rows.iter().map(|row| row.n).sum();
    let counts = match said.cmp(&all) {
        std::cmp::Ordering::Equal => Verdict::Right,
        std::cmp::Ordering::Greater => Verdict::TooMany,
        std::cmp::Ordering::Less if report.lost.is_some_and(|lost| said + lost >= all) => {
            Verdict::TooFewAndSaysSo
        }
        std::cmp::Ordering::Less => Verdict::TooFew,
    };
    let mut grades = vec![Grade {
        of: "I/Os".to_owned(),
        truth: all.to_string(),
        said: said.to_string(),
        verdict: counts,
    }];
    let device = |name: &str| {
        played.disks.iter().find(|disk| disk.name == name).map_or(String::new(), |disk| disk.device.clone())
    };
    grades.extend(by(
        "disk",
        Verdict::WrongDisk,
        played.done.iter().map(|io| (device(&io.disk), io.count)),
        report,
        |row| row.disk.clone(),
    ));
    let operation = |is_write: bool| if is_write { "write" } else { "read" }.to_owned();
    grades.extend(by(
        "operation",
        Verdict::WrongOperation,
        played.done.iter().map(|io| (operation(io.is_write), io.count)),
        report,
        |row| row.is_write.map(operation),
    ));
    grades.extend(by(
        "process",
        Verdict::WrongProcess,
        played.done.iter().map(|io| (io.pid.to_string(), io.count)),
        report,
        |row| row.pid.map(|pid| pid.to_string()),
    ));
    grades.push(sizes(played, report));
    grades.push(times(played, report));
    grades.push(Grade {
        of: "what it leaves".to_owned(),
        truth: "0".to_owned(),
        said: played.left.to_string(),
        verdict: if played.left == 0 { Verdict::Right } else { Verdict::LeavesSomething },
    });
    grades
}

/// How many I/Os each disk, operation or process has.
fn by(
    of: &str,
    wrong: Verdict,
    truth: impl Iterator<Item = (String, u64)>,
    report: &Report,
    key: impl Fn(&Seen) -> Option<String>,
) -> Option<Grade> {
    let mut expected = BTreeMap::<_, u64>::new();
    truth.for_each(|(key, n)| *expected.entry(key).or_default() += n);
    let mut said = BTreeMap::<_, u64>::new();
    for row in &report.rows {
        *said.entry(key(row).unwrap_or_else(|| "-".to_owned())).or_default() += row.n;
    }
    let verdict = if said.is_empty() {
        return None;
    } else if said.keys().all(|key| key == "-") {
        Verdict::NotReported
    } else if differ(&expected, &said) {
        wrong
    } else {
        Verdict::Right
    };
    let said = if verdict == Verdict::NotReported { "-".to_owned() } else { shown(&said) };
    Some(Grade { of: of.to_owned(), truth: shown(&expected), said, verdict })
}

/// Whether something is under a wrong key. Too few or too many of all is another fault.
fn differ<K: Ord>(expected: &BTreeMap<K, u64>, said: &BTreeMap<K, u64>) -> bool {
    let of = |counts: &BTreeMap<K, u64>, key| counts.get(key).copied().unwrap_or_default();
    let more: u64 = said.iter().map(|(key, n)| n.saturating_sub(of(expected, key))).sum();
    let less: u64 = expected.iter().map(|(key, n)| n.saturating_sub(of(said, key))).sum();
    more.min(less) > 0 || said.keys().any(|key| !expected.contains_key(key))
}

fn shown<K: Display>(counts: &BTreeMap<K, u64>) -> String {
    if counts.len() > 4 {
        return format!("{} of them", counts.len());
    }
    counts.iter().map(|(key, n)| format!("{key} {n}")).collect::<Vec<_>>().join(", ")
}

/// Whether each size can be that of an I/O, and as many of each as there were.
fn sizes(played: &Played, report: &Report) -> Grade {
    let mut expected = BTreeMap::<_, u64>::new();
    played.done.iter().for_each(|io| *expected.entry(io.size).or_default() += io.count);
    let truth = expected.keys().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let mut said = BTreeMap::<_, u64>::new();
    for (row, (from, to)) in report.rows.iter().filter_map(|row| Some((row, row.size?))) {
        // No two sizes of a scene are in one row of a histogram.
        let size = expected.keys().find(|size| (from..to).contains(&(**size as f64)));
        *said.entry(size.copied().unwrap_or(from as u64)).or_default() += row.n;
    }
    let (said, verdict) = match said.is_empty() {
        true => ("-".to_owned(), Verdict::NotReported),
        false if differ(&expected, &said) => (shown(&said), Verdict::WrongSize),
        false => ("the same".to_owned(), Verdict::Right),
    };
    Grade { of: "sizes in bytes".to_owned(), truth, said, verdict }
}

/// Whether each time is at least what its disk is set to, and at most what the longest of its system calls took; and
/// whether as many are long as the slow disks had I/Os.
fn times(played: &Played, report: &Report) -> Grade {
    let set = played.disks.iter().map(|disk| disk.us.to_string()).collect::<Vec<_>>().join(", ");
    let rows = || report.rows.iter().filter_map(|row| Some((row, row.time?)));
    let range = rows().fold(None, |range: Option<(f64, f64)>, (_, (from, to))| {
        range.map_or(Some((from, to)), |(least, most)| Some((least.min(from), most.max(to))))
    });
    let (said, verdict) = match range {
        None => ("-".to_owned(), Verdict::NotReported),
        Some((least, most)) => {
            let said = format!("{:.0} to {:.0} us", least / 1e3, most / 1e3);
            match misfits(played, report, 1.0) {
                (0, 0) => (said, Verdict::Right),
                _ if [1e3, 1e-3].into_iter().any(|by| misfits(played, report, by) == (0, 0)) => {
                    (said, Verdict::WrongUnit)
                }
                (0, long) => (format!("{said}, {long} too long"), Verdict::TooLong),
                (short, _) => (format!("{said}, {short} too short"), Verdict::TooShort),
            }
        }
    };
    Grade { of: "times".to_owned(), truth: format!("{set} us or more"), said, verdict }
}

/// How many times are too short, and how many too long, if the tool's times are multiplied by this.
fn misfits(played: &Played, report: &Report, by: f64) -> (u64, u64) {
    let disk = |name: &str| played.disks.iter().find(|disk| disk.name == name);
    let us = |name: &str| disk(name).map_or(0, |disk| disk.us);
    let (mut short, mut long) = (0, 0);
    for (row, (from, to)) in report.rows.iter().filter_map(|row| Some((row, row.time?))) {
        // Of the processes whose I/Os it may be.
        let its = played.done.iter().filter(|io| {
            row.disk.as_ref().is_none_or(|name| disk(&io.disk).is_some_and(|disk| disk.device == *name))
                && row.is_write.is_none_or(|is_write| is_write == io.is_write)
                && row.pid.is_none_or(|pid| pid == io.pid)
        });
        let (least, most) = its.fold((f64::INFINITY, 0.0_f64), |(least, most), io| {
            (least.min(us(&io.disk) as f64 * 1e3), most.max(io.max_us * 1e3))
        });
        // Of nobody: that is another fault.
        if least.is_finite() {
            short += if to * by <= least { row.n } else { 0 };
            long += if from * by > most { row.n } else { 0 };
        }
    }
    let all: u64 = played.done.iter().map(|io| io.count).sum();
    let missing = all.saturating_sub(report.rows.iter().map(|row| row.n).sum());
    for slow in played.disks.iter().map(|disk| disk.us) {
        let its: u64 = played.done.iter().filter(|io| us(&io.disk) >= slow).map(|io| io.count).sum();
        let seen =
            report.rows.iter().filter(|row| row.time.is_some_and(|(_, to)| to * by > slow as f64 * 1e3));
        short = short.max(its.saturating_sub(missing + seen.map(|row| row.n).sum::<u64>()));
    }
    (short, long)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prove::adapter::Adapter;
    use wire::prove::{Counted, Process};

    /// 30 writes to a disk that takes 2 ms, of which none took longer than 3 ms, and 20 reads of another one.
    fn played() -> Played {
        let disk = |name: &str, us, reads, writes| Counted {
            name: name.to_owned(),
            device: format!("{name}0"),
            us,
            reads,
            writes,
            bytes: 0,
        };
        let io = |disk: &str, is_write, pid, count, size| Process {
            disk: disk.to_owned(),
            is_write,
            pid,
            count,
            size,
            max_us: 3000.0,
        };
        Played {
            disks: vec![disk("a", 2000, 0, 30), disk("b", 500, 20, 0)],
            done: vec![io("a", true, 7, 30, 4096), io("b", false, 8, 20, 512)],
            stdout: String::new(),
            stderr: String::new(),
            failed: None,
            left: 0,
        }
    }

    const ADAPTER: &str = "command = 'x'\nrow = '^(?<disk>\\w+) (?<op>[RW]) (?<pid>\\d+) (?<n>\\d+): (?<from>\\d+) (?<to>\\d+)$'\n\
        unit = 'us'\nlost = ['^lost (?<n>\\d+)$']";

    /// What is wrong with a tool that prints this.
    fn faults(text: &str) -> Vec<(String, Verdict)> {
        let report = Adapter::of(ADAPTER).unwrap().read(text).unwrap();
        let grades = grades(&played(), &report).into_iter();
        grades.filter(|grade| grade.verdict.is_fault()).map(|grade| (grade.of, grade.verdict)).collect()
    }

    #[test]
    fn a_tool_that_is_right_is_right() {
        assert_eq!(faults("a0 W 7 30: 2048 4095\nb0 R 8 20: 512 1023\n"), []);
        // It need not say everything.
        let short = Adapter::of("command = 'x'\nrow = '^(?<n>\\d+)$'").unwrap().read("30\n20\n").unwrap();
        assert!(grades(&played(), &short).iter().all(|grade| !grade.verdict.is_fault()));
    }

    #[test]
    fn each_way_to_be_wrong_has_its_verdict() {
        let all = |a: &str, b: &str| faults(&format!("a0 W 7 30: {a}\nb0 R 8 20: {b}\n"));
        let only = |of: &str, verdict| vec![(of.to_owned(), verdict)];
        // A lost event, silently or not.
        let lost = "a0 W 7 29: 2048 4095\nb0 R 8 20: 512 1023\n";
        assert_eq!(faults(lost), only("I/Os", Verdict::TooFew));
        assert_eq!(faults(&format!("{lost}lost 1\n")), []);
        assert_eq!(faults("")[0].1, Verdict::TooFew);
        // A filter by the wrong id, and a key without the disk.
        assert_eq!(
            faults("a0 W 7 30: 2048 4095\nb0 R 9 20: 512 1023\n"),
            only("process", Verdict::WrongProcess)
        );
        assert_eq!(faults("a0 W 7 30: 2048 4095\na0 R 8 20: 2048 4095\n"), only("disk", Verdict::WrongDisk));
        assert_eq!(
            faults("a0 R 7 30: 2048 4095\nb0 R 8 20: 512 1023\n"),
            only("operation", Verdict::WrongOperation)
        );
        // A start that was overwritten, and one that was not replaced.
        assert_eq!(all("100 200", "512 1023"), only("times", Verdict::TooShort));
        assert_eq!(all("2048 4095", "4096 8191"), only("times", Verdict::TooLong));
        // Milliseconds, and nanoseconds, under a heading that says microseconds.
        assert_eq!(all("2 3", "0 1"), only("times", Verdict::WrongUnit));
        assert_eq!(all("2048000 2950000", "512000 1023000"), only("times", Verdict::WrongUnit));
        // Everything twice is one fault.
        let twice = faults("a0 W 7 60: 2048 2900\nb0 R 8 40: 512 1023\n");
        assert_eq!(twice, only("I/Os", Verdict::TooMany));
        // Without the disk, as many must be slow as the slow disk had I/Os.
        let times = |text: &str| {
            let adapter = "command = 'x'\nrow = '^(?<n>\\d+) (?<value>\\d+)$'\nunit = 'us'";
            let report = Adapter::of(adapter).unwrap().read(text).unwrap();
            super::times(&played(), &report).verdict
        };
        assert_eq!(times("30 2500\n20 600\n"), Verdict::Right);
        assert_eq!(times("50 600\n"), Verdict::TooShort);
    }
}
