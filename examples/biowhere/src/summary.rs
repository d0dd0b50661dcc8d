//! What many I/Os have in common: how many, how much, how deep, and the percentiles of each part of their time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use common::{Error, OrCause, Result};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::io::{Form, Io};

/// What a row of the summary is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    Disk,
    Task,
    Cgroup,
    File,
}

const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// A percentile has two digits that are right, so its error is below 1 %. The maximum is exact.
const DIGITS: u8 = 2;

/// How many groups a summary has, because each one takes some 90 KB. The I/Os of more are in one of their own.
const GROUPS: usize = 1000;

/// The names of what a summary has times of.
const PARTS: [&str; 5] = ["total", "before", "queue", "disk", "end"];

#[derive(Debug)]
struct Group {
    ios: u64,
    bytes: u64,
    /// The time that all of them took, in nanoseconds.
    total: u128,
    /// Of each of `PARTS`, the times and the longest of them.
    times: Vec<(Histogram<u64>, u64)>,
}

impl Default for Group {
    fn default() -> Self {
        // These digits are valid, so there is a histogram for each.
        let times = PARTS.iter().filter_map(|_| Some((Histogram::new(DIGITS).ok()?, 0))).collect();
        Self { ios: 0, bytes: 0, total: 0, times }
    }
}

/// The I/Os of a time, in groups.
#[derive(Debug, Default)]
pub struct Summary {
    groups: BTreeMap<String, Group>,
}

impl Summary {
    pub fn add(&mut self, io: &Io, by: By) {
        let name = match by {
            By::Disk => &*io.place(),
            By::Task => &*io.task,
            By::Cgroup => io.cgroup.as_deref().unwrap_or("-"),
            By::File => io.file.as_deref().unwrap_or("-"),
        };
        let has_room = self.groups.len() < GROUPS || self.groups.contains_key(name);
        let name = if has_room { name } else { "(others)" };
        if !self.groups.contains_key(name) {
            self.groups.insert(name.to_owned(), Group::default());
        }
        let Some(group) = self.groups.get_mut(name) else { return };
        group.ios += 1;
        group.bytes += u64::from(io.bytes);
        group.total += u128::from(io.total);
        let times = [io.total].into_iter().chain(io.parts.iter().flat_map(|parts| parts.all()));
        for ((histogram, longest), ns) in group.times.iter_mut().zip(times) {
            *longest = ns.max(*longest);
            // It grows as needed, so every number has its place.
            let _ = histogram.record(ns);
        }
    }

    /// What is printed of it.
    pub fn report(&self, time: Duration) -> Report {
        let seconds = time.as_secs_f64();
        let row = |(name, group): (&String, &Group)| Row {
            name: name.clone(),
            ios: group.ios,
            bytes: group.bytes,
            iops: group.ios as f64 / seconds,
            mb_per_s: group.bytes as f64 / 1e6 / seconds,
            depth: group.total as f64 / 1e9 / seconds,
            ns: PARTS
                .iter()
                .zip(&group.times)
                .map(|(part, times)| ((*part).to_owned(), Times::of(times)))
                .collect(),
        };
        let mut groups: Vec<_> = self.groups.iter().map(row).collect();
        groups.sort_by_key(|row| Reverse(row.ios));
        Report { seconds, groups }
    }
}

/// A summary: the group with the most I/Os first.
#[derive(Debug, Deserialize, Serialize)]
pub struct Report {
    seconds: f64,
    groups: Vec<Row>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Row {
    name: String,
    ios: u64,
    bytes: u64,
    iops: f64,
    mb_per_s: f64,
    /// How many were under way, on average.
    depth: f64,
    /// By the names in `PARTS`.
    ns: BTreeMap<String, Times>,
}

/// Percentiles and the longest time, in nanoseconds; none if there is nothing.
#[derive(Debug, Deserialize, Serialize)]
struct Times {
    p50: Option<u64>,
    p90: Option<u64>,
    p99: Option<u64>,
    p999: Option<u64>,
    max: Option<u64>,
}

impl Times {
    fn of((histogram, longest): &(Histogram<u64>, u64)) -> Self {
        let some = |ns| Some(ns).filter(|_| !histogram.is_empty());
        let [p50, p90, p99, p999] =
            PERCENTILES.map(|percentile| some(histogram.value_at_percentile(percentile).min(*longest)));
        Self { p50, p90, p99, p999, max: some(*longest) }
    }
}

impl Report {
    /// The last summary in the output of a run with `--json`.
    pub fn read(path: &Path) -> Result<Self> {
        let cannot = || format!("{} has no summary", path.display());
        let text = fs::read_to_string(path).or_cause(cannot())?;
        let report = serde_json::from_str(text.lines().next_back().unwrap_or_default());
        report.map_err(|error| {
            Error::new(cannot()).evidence(error).fix("make one: biowhere --summary --json > FILE")
        })
    }

    /// A table for each group; with an earlier summary, also what it was then.
    pub fn tables(&self, form: Form, earlier: Option<&Self>) -> String {
        let mut text = if self.groups.is_empty() { "No I/O has ended.".to_owned() } else { String::new() };
        for row in &self.groups {
            let earlier =
                earlier.and_then(|earlier| earlier.groups.iter().find(|group| group.name == row.name));
            let Row { name, ios, iops, mb_per_s, depth, .. } = row;
            let seconds = self.seconds;
            let _ = write!(
                text,
                "\n{name}: {ios} I/Os in {seconds:.1} s, {iops:.1} IOPS, {mb_per_s:.2} MB/s, depth {depth:.2}"
            );
            if let Some(Row { ios, iops, mb_per_s, depth, .. }) = earlier {
                let _ =
                    write!(text, "\nwas: {ios} I/Os, {iops:.1} IOPS, {mb_per_s:.2} MB/s, depth {depth:.2}");
            }
            let unit = if form.us { "us" } else { "ms" };
            let _ = write!(
                text,
                "\n{unit:<8}{:>10}{:>10}{:>10}{:>10}{:>10}",
                "p50", "p90", "p99", "p99.9", "max"
            );
            for part in PARTS {
                for (head, row) in [(part, Some(row)), ("  was", earlier)] {
                    let Some(Times { p50, p90, p99, p999, max }) = row.and_then(|row| row.ns.get(part))
                    else {
                        continue;
                    };
                    let _ = write!(text, "\n{head:<8}");
                    for ns in [p50, p90, p99, p999, max] {
                        let _ =
                            write!(text, "{:>10}", ns.map_or("-".to_owned(), |ns| form.time(form.round(ns))));
                    }
                }
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::tests::io;

    #[test]
    fn percentiles_are_right_within_one_percent() {
        let mut summary = Summary::default();
        for nth in 1..=1000 {
            summary.add(&Io { total: nth * 1_000_000, ..io() }, By::Disk);
        }
        summary.add(&Io { parts: None, disk: "zram0".into(), ..io() }, By::Disk);
        summary.add(&Io { disk: "dm-0".into(), lower: Some("sda".into()), ..io() }, By::Disk);
        let report = summary.report(Duration::from_secs(4));
        let Times { p50, p90, p99, p999, max } = &report.groups[0].ns["total"];
        for (found, right) in [(p50, 500.0), (p90, 900.0), (p99, 990.0), (p999, 999.0)] {
            let found = found.unwrap() as f64 / 1e6;
            assert!((found - right).abs() <= right * 0.01, "{found} for {right}");
        }
        assert_eq!(*max, Some(1_000_000_000));
        let form = Form { us: false, with_cgroup: false };
        insta::assert_snapshot!(report.tables(form, None));
    }

    #[test]
    fn an_earlier_summary_stands_below() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("earlier.json");
        let mut summary = Summary::default();
        summary.add(&Io { total: 6_000_000, ..io() }, By::Disk);
        let saved = serde_json::to_string(&summary.report(Duration::from_secs(1))).unwrap();
        fs::write(&file, format!("{{}}\n{saved}\n")).unwrap();
        let earlier = Report::read(&file).unwrap();
        let mut summary = Summary::default();
        summary.add(&io(), By::Disk);
        summary.add(&Io { disk: "sda".into(), ..io() }, By::Disk);
        let form = Form { us: false, with_cgroup: false };
        insta::assert_snapshot!(summary.report(Duration::from_secs(2)).tables(form, Some(&earlier)));
        fs::write(&file, "TIME  TASK").unwrap();
        let error = Report::read(&file).unwrap_err().to_string();
        assert!(error.contains("has no summary") && error.contains("--summary --json"), "{error}");
    }
}
