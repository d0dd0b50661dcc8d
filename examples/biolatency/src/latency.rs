//! The BPF program's counts: reads them, subtracts the previous reading, and prints the difference.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use common::histogram::Histogram;
use serde::Serialize;
use toolkit::output::Output;

use crate::bpf::types;

/// Which requests a histogram counts. Without -D there is no disk, and without -F there are no flags.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Kind {
    /// The disk's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// The operation and its flags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flags: Option<String>,
}

/// How long requests took: a histogram, and the exact sum, which you can't get from a histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    histogram: Histogram,
    total_ns: u64,
}

impl From<types::hist> for Latency {
    fn from(types::hist { slots, total_ns, .. }: types::hist) -> Self {
        Self { histogram: Histogram::from(slots), total_ns }
    }
}

impl Latency {
    fn since(&self, before: &Self) -> Self {
        Self {
            histogram: self.histogram.since(&before.histogram),
            total_ns: self.total_ns.saturating_sub(before.total_ns),
        }
    }
}

impl AddAssign for Latency {
    fn add_assign(&mut self, other: Self) {
        self.histogram += &other.histogram;
        self.total_ns += other.total_ns;
    }
}

/// The requests of a time, by kind.
pub type Latencies = BTreeMap<Kind, Latency>;

/// The last reading. The program never clears its counts, so an interval is the difference of two readings.
#[derive(Default)]
pub struct Readings(Latencies);

impl Readings {
    /// The requests since the last reading. Leaves out kinds without new requests.
    pub fn next(&mut self, now: Latencies) -> Latencies {
        let none = Latency::default();
        let since = |(kind, latency): (&Kind, &Latency)| {
            (kind.clone(), latency.since(self.0.get(kind).unwrap_or(&none)))
        };
        let interval = now.iter().map(since).filter(|(_, latency)| latency.histogram.count() > 0).collect();
        self.0 = now;
        interval
    }
}

/// How to print an interval.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct Form {
    /// Print milliseconds instead of microseconds
    #[arg(short, long)]
    pub milliseconds: bool,

    /// Print the time at the end of each interval
    #[arg(short = 'T', long)]
    pub timestamp: bool,

    /// Print average, total and count below each histogram
    #[arg(short, long)]
    pub extension: bool,

    #[command(flatten)]
    pub output: Output,
}

/// A histogram with its numbers, for JSON.
#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    kind: &'a Kind,
    count: u64,
    total: u64,
    average: u64,
    histogram: &'a Histogram,
}

impl<'a> Row<'a> {
    fn new(kind: &'a Kind, Latency { histogram, total_ns }: &'a Latency, unit_ns: u64) -> Self {
        let count = histogram.count();
        Self { kind, count, total: total_ns / unit_ns, average: total_ns / count.max(1) / unit_ns, histogram }
    }
}

/// An interval, for JSON.
#[derive(Serialize)]
struct Interval<'a> {
    time: &'a str,
    unit: &'static str,
    latency: Vec<Row<'a>>,
}

impl Form {
    /// The unit in nanoseconds.
    pub fn unit_ns(self) -> u64 {
        if self.milliseconds { 1_000_000 } else { 1000 }
    }

    /// An interval as text, without a newline at the end.
    pub fn render(self, interval: &Latencies, time: &str) -> String {
        self.render_in(interval, time, common::report::columns())
    }

    fn render_in(self, interval: &Latencies, time: &str, columns: usize) -> String {
        let unit = if self.milliseconds { "msecs" } else { "usecs" };
        let rows = interval.iter().map(|(kind, latency)| Row::new(kind, latency, self.unit_ns()));
        let interval = Interval { time, unit, latency: rows.collect() };
        self.output.render(&interval, || self.text(&interval, columns))
    }

    fn text(self, Interval { time, unit, latency }: &Interval<'_>, columns: usize) -> String {
        // In a narrow terminal each of the three numbers gets its own line.
        let between = if columns < 60 { "\n" } else { ", " };
        let part = |Row { kind, count, total, average, histogram }: &Row<'_>| {
            let names = [("disk", &kind.disk), ("flags", &kind.flags)];
            let names =
                names.iter().filter_map(|(what, name)| Some(format!("{what} = {}\n", name.as_deref()?)));
            let mut part = names.collect::<String>() + &histogram.table_of(unit, columns).to_string();
            if self.extension {
                let numbers = [
                    format!("avg = {average} {unit}"),
                    format!("total: {total} {unit}"),
                    format!("count: {count}"),
                ];
                part = part + "\n\n" + &numbers.join(between);
            }
            part
        };
        let parts: Vec<_> = latency.iter().map(part).collect();
        let text = if parts.is_empty() { "No I/O.".to_owned() } else { parts.join("\n\n") };
        if self.timestamp { format!("{time}\n{text}") } else { text }
    }
}

/// Warns about requests that are in no histogram.
pub fn warn_uncounted(unmatched: u64, counts: &types::bss) {
    let types::bss { dropped, uncounted, unstamped, entries: _ } = *counts;
    let warnings = [
        (unmatched, "requests are not counted: they began before tracing started"),
        (dropped, "requests are not counted: too many were in flight"),
        (uncounted, "requests are not counted: there are too many kinds of them"),
        (
            unstamped,
            "requests count without their time in the queue: the kernel keeps it only with iostats=1 or a scheduler",
        ),
    ];
    for (count, what) in warnings.into_iter().filter(|(count, _)| *count > 0) {
        eprintln!("warning: {count} {what}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(disk: Option<&str>, flags: Option<&str>) -> Kind {
        Kind { disk: disk.map(str::to_owned), flags: flags.map(str::to_owned) }
    }

    fn latency(slots: &[u64], total_ns: u64) -> Latency {
        Latency { histogram: slots.iter().copied().collect(), total_ns }
    }

    fn fixed() -> Latencies {
        [
            (
                kind(Some("nvme0n1"), Some("Sync-Write")),
                latency(&[0, 0, 0, 0, 0, 1, 71, 117, 1, 2], 31_234_567),
            ),
            (kind(Some("nvme0n1"), Some("Read")), latency(&[0, 0, 3], 15_999)),
            (kind(Some("nvme1n1"), Some("Read")), latency(&[0, 1], 3_000)),
        ]
        .into()
    }

    fn show(form: Form, interval: &Latencies) -> String {
        form.render_in(interval, "2026-03-01 17:04:05", 80)
    }

    #[test]
    fn a_histogram_for_each_kind() {
        insta::assert_snapshot!(show(Form::default(), &fixed()));
    }

    #[test]
    fn one_for_all_with_numbers_and_a_time() {
        let all = [(Kind::default(), latency(&[0, 0, 0, 0, 12, 3], 412_999_999))].into();
        let form = Form { milliseconds: true, timestamp: true, extension: true, ..Form::default() };
        insta::assert_snapshot!(show(form, &all));
    }

    #[test]
    fn json_is_an_object_for_each_interval() {
        let form = Form { output: Output { json: true }, ..Form::default() };
        insta::assert_snapshot!(show(form, &fixed()));
        let empty: serde_json::Value = serde_json::from_str(&show(form, &BTreeMap::new())).unwrap();
        assert_eq!(empty["latency"], serde_json::json!([]));
    }

    #[test]
    fn an_interval_without_io() {
        let form = Form { timestamp: true, ..Form::default() };
        insta::assert_snapshot!(show(form, &BTreeMap::new()), @r"
        2026-03-01 17:04:05
        No I/O.
        ");
    }

    #[test]
    fn forty_columns_are_enough() {
        let text = Form { extension: true, ..Form::default() }.render_in(&fixed(), "", 40);
        assert!(text.lines().all(|line| line.len() <= 40), "{text}");
    }

    #[test]
    fn an_interval_is_the_difference_of_two_readings() {
        let mut readings = Readings::default();
        let [one, other] = ["disk1", "disk2"].map(|disk| kind(Some(disk), Some("Read")));
        let first = [(one.clone(), latency(&[2, 1], 70)), (other.clone(), latency(&[1], 5))];
        let second = [(one.clone(), latency(&[2, 4], 100)), (other, latency(&[1], 5))];
        readings.next(first.into());
        assert_eq!(readings.next(second.into()), [(one, latency(&[0, 3], 30))].into());
    }
}
