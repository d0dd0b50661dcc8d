//! What many I/Os have in common: how many, how much, how deep, and the percentiles of each part of their time.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use clap::ValueEnum;
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::io::{Form, Io};

/// What a row of the summary is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    Disk,
    Task,
    Cgroup,
    File,
}

const PARTS: [&str; 5] = ["total", "before", "queue", "disk", "end"];
const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// A percentile has two digits that are right, so its error is below 1 %. The maximum is exact.
const DIGITS: u8 = 2;

#[derive(Debug)]
struct Group {
    ios: u64,
    bytes: u64,
    /// The time that all of them took, in nanoseconds.
    total: u128,
    parts: Vec<Histogram<u64>>,
    longest: [u64; 5],
}

impl Default for Group {
    fn default() -> Self {
        // The bounds are valid, and without room a histogram is empty.
        let parts = PARTS.iter().filter_map(|_| Histogram::new(DIGITS).ok()).collect();
        Self { ios: 0, bytes: 0, total: 0, parts, longest: [0; 5] }
    }
}

/// The I/Os of a time, in groups.
#[derive(Debug, Default)]
pub struct Summary {
    groups: BTreeMap<String, Group>,
}

impl Summary {
    pub fn add(&mut self, io: &Io, by: By) {
        let none = || "-".to_owned();
        let group = self.groups.entry(match by {
            By::Disk => io.disk.clone(),
            By::Task => io.task.clone(),
            By::Cgroup => io.cgroup.clone().unwrap_or_else(none),
            By::File => io.file.clone().unwrap_or_else(none),
        });
        let group = group.or_default();
        group.ios += 1;
        group.bytes += u64::from(io.bytes);
        group.total += u128::from(io.total);
        let times = [io.total].into_iter().chain(io.parts.iter().flat_map(|parts| parts.all()));
        for ((histogram, longest), ns) in group.parts.iter_mut().zip(&mut group.longest).zip(times) {
            *longest = ns.max(*longest);
            // It grows as needed, so every number has its place.
            let _ = histogram.record(ns);
        }
    }

    /// The tables of all groups, the one with the most I/O first.
    pub fn tables(&self, time: Duration, form: Form) -> String {
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.ios));
        let mut text = String::new();
        for (name, group) in groups {
            let [iops, mb, depth] = group.rates(time);
            let unit = if form.us { "us" } else { "ms" };
            let _ =
                write!(text, "\n{name}: {} I/Os, {iops:.1} IOPS, {mb:.2} MB/s, depth {depth:.2}", group.ios);
            let _ = write!(
                text,
                "\n{unit:<8}{:>10}{:>10}{:>10}{:>10}{:>10}",
                "p50", "p90", "p99", "p99.9", "max"
            );
            for (part, times) in PARTS.iter().zip(group.times()) {
                let _ = write!(text, "\n{part:<8}");
                for ns in values(times) {
                    let _ = write!(text, "{:>10}", ns.map_or("-".to_owned(), |ns| form.time(form.round(ns))));
                }
            }
            text.push('\n');
        }
        text
    }

    pub fn json(&self, time: Duration) -> Value {
        let groups = self.groups.iter().map(|(name, group)| {
            let [iops, mb, depth] = group.rates(time);
            let part = |(part, times): (&&str, _)| {
                let names = ["p50", "p90", "p99", "p99.9", "max"].map(str::to_owned);
                let times: serde_json::Map<_, _> = names.into_iter().zip(values(times).map(Value::from)).collect();
                ((*part).to_owned(), Value::Object(times))
            };
            let parts: serde_json::Map<_, _> = PARTS.iter().zip(group.times()).map(part).collect();
            json!({ "name": name, "ios": group.ios, "bytes": group.bytes, "iops": iops, "mb_per_s": mb, "depth": depth, "ns": parts })
        });
        json!({ "seconds": time.as_secs_f64(), "groups": groups.collect::<Vec<_>>() })
    }
}

impl Group {
    /// The times of the total and of each part, and the longest.
    fn times(&self) -> impl Iterator<Item = (&Histogram<u64>, &u64)> {
        self.parts.iter().zip(&self.longest)
    }

    /// I/Os and megabytes a second, and how many were in flight on average.
    fn rates(&self, time: Duration) -> [f64; 3] {
        let seconds = time.as_secs_f64();
        [self.ios as f64 / seconds, self.bytes as f64 / 1e6 / seconds, self.total as f64 / 1e9 / seconds]
    }
}

/// The percentiles and the longest time; none if there is nothing.
fn values((histogram, longest): (&Histogram<u64>, &u64)) -> [Option<u64>; 5] {
    let [p50, p90, p99, p999] =
        PERCENTILES.map(|percentile| histogram.value_at_percentile(percentile).min(*longest));
    [p50, p90, p99, p999, *longest].map(|ns| Some(ns).filter(|_| !histogram.is_empty()))
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
        summary.add(&Io { parts: None, disk: "zram0".to_owned(), ..io() }, By::Disk);
        let [p50, p90, p99, p999, max] =
            values(summary.groups["nvme0n1"].times().next().unwrap()).map(|ns| ns.unwrap() as f64 / 1e6);
        for (found, right) in [(p50, 500.0), (p90, 900.0), (p99, 990.0), (p999, 999.0)] {
            assert!((found - right).abs() <= right * 0.01, "{found} for {right}");
        }
        assert_eq!(max, 1000.0);
        let form = Form { us: false, with_cgroup: false };
        insta::assert_snapshot!(summary.tables(Duration::from_secs(4), form));
    }
}
