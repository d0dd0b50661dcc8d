//! How to read what a tool prints. Each adapter is a file in `lab/prove/tools`.

use common::{OrCause, Result};
use regex_lite::{Captures, Regex};
use serde::Deserialize;
use wire::prove::Tool;

/// A file in `lab/prove/tools`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// The program and its arguments. `@NAME` is a disk of the scene.
    pub command: String,
    /// Debian's package, if the tool is not ours.
    pub package: Option<String>,
    /// What it prints when it is attached; without it, a tool is attached when it sleeps.
    attached: Option<String>,
    /// How many seconds it waits for more before it prints.
    #[serde(default)]
    behind: u64,
    /// A row: `log2` for the rows of such a histogram, or a regular expression. Its groups are `n`, `from` and `to`
    /// for a histogram; `value`; and `disk`, `op` and `pid`.
    row: String,
    /// A line that holds for the rows below it, with the same groups.
    group: Option<String>,
    /// Of `from`, `to` and `value`.
    unit: Option<Unit>,
    /// Where it says how many I/Os it missed, in a group `n`.
    #[serde(default)]
    lost: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unit {
    Ns,
    Us,
    Ms,
    Kbytes,
}

/// What a tool says of one I/O, or of some. `None`: it doesn't say that.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    pub n: u64,
    pub disk: Option<String>,
    pub is_write: Option<bool>,
    pub pid: Option<u32>,
    /// From the least to the most that it can be, in ns.
    pub time: Option<(f64, f64)>,
    /// The same, in bytes.
    pub size: Option<(f64, f64)>,
}

/// All that a tool says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub rows: Vec<Seen>,
    /// How many it says that it missed; `None` if it says nothing about that.
    pub lost: Option<u64>,
}

/// A histogram's row, as bcc and libbpf-tools print it, and ours.
const LOG2: &str = r"^\s*(?<from>\d+)\s+->\s+(?<to>\d+)\s*:\s*(?<n>\d+)\s*\|";

impl Adapter {
    pub fn of(text: &str) -> Result<Self> {
        toml::from_str(text).or_cause("cannot read an adapter")
    }

    pub fn tool(&self, argv: Vec<String>) -> Tool {
        Tool { argv, attached: self.attached.clone(), behind: self.behind }
    }

    /// Reads what the tool printed.
    ///
    /// # Errors
    /// If the adapter has a wrong regular expression.
    pub fn read(&self, text: &str) -> Result<Report> {
        let regex = |text: &str| {
            Regex::new(text).or_cause(format!("an adapter has a wrong regular expression: {text}"))
        };
        let row = regex(match &*self.row {
            "log2" => LOG2,
            other => other,
        })?;
        let group = self.group.as_deref().map(regex).transpose()?;
        let lost = self.lost.iter().map(|text| regex(text)).collect::<Result<Vec<_>>>()?;
        let mut report = Report::default();
        let mut above = Seen { n: 1, ..Seen::default() };
        for line in text.lines() {
            if let Some(found) = group.as_ref().and_then(|group| group.captures(line)) {
                self.fill(&mut above, &found);
            } else if let Some(found) = row.captures(line) {
                let mut seen = above.clone();
                self.fill(&mut seen, &found);
                report.rows.push(seen);
            }
            for found in lost.iter().filter_map(|lost| lost.captures(line)) {
                *report.lost.get_or_insert(0) += number(&found, "n").unwrap_or_default() as u64;
            }
        }
        report.rows.retain(|seen| seen.n > 0);
        Ok(report)
    }

    fn fill(&self, seen: &mut Seen, found: &Captures<'_>) {
        if let Some(n) = number(found, "n") {
            seen.n = n as u64;
        }
        if let Some(disk) = found.name("disk") {
            seen.disk = Some(disk.as_str().to_owned());
        }
        if let Some(op) = found.name("op") {
            let op = op.as_str().to_lowercase();
            seen.is_write = (op.contains(['r', 'w'])).then(|| op.contains('w'));
        }
        if let Some(pid) = number(found, "pid") {
            seen.pid = Some(pid as u32);
        }
        let range = match (number(found, "from"), number(found, "to"), number(found, "value")) {
            (Some(from), Some(to), _) => (from, to + 1.0),
            (.., Some(value)) => {
                let decimals = found.name("value").and_then(|text| text.as_str().split_once('.'));
                // Rounded, or cut.
                let step = 0.1_f64.powi(decimals.map_or(0, |(_, digits)| digits.len() as i32));
                (value - step, value + step)
            }
            _ => return,
        };
        let times = |by: f64| Some((range.0 * by, range.1 * by));
        match self.unit {
            Some(Unit::Ns) => seen.time = times(1.0),
            Some(Unit::Us) => seen.time = times(1e3),
            Some(Unit::Ms) => seen.time = times(1e6),
            Some(Unit::Kbytes) => seen.size = times(1024.0),
            None => {}
        }
    }
}

fn number(found: &Captures<'_>, name: &str) -> Option<f64> {
    found.name(name)?.as_str().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_and_lines_are_read() {
        let read = |adapter: &str, text: &str| {
            Adapter::of(&format!("command = 'x'\n{adapter}")).unwrap().read(text).unwrap()
        };
        let log2 = "disk = a\nusecs : count distribution\n   4 -> 7   : 3   |**|\n   8 -> 15  : 0   |  |\n";
        let report = read("row = 'log2'\ngroup = 'disk = (?<disk>.+)'\nunit = 'us'", log2);
        let seen = Seen { n: 3, disk: Some("a".into()), time: Some((4e3, 8e3)), ..Seen::default() };
        assert_eq!(report, Report { rows: vec![seen], lost: None });
        let lines =
            "row = '^(?<pid>\\d+) (?<op>\\w) (?<value>[\\d.]+)$'\nunit = 'ms'\nlost = ['lost (?<n>\\d+)']";
        let report = read(lines, "7 W 0.25\n8 R 3\nlost 4\n");
        assert_eq!(report.lost, Some(4));
        let times: Vec<_> =
            report.rows.iter().map(|row| (row.pid, row.is_write, row.time.unwrap())).collect();
        assert_eq!(times[1], (Some(8), Some(false), (2e6, 4e6)));
        assert_eq!((times[0].0, times[0].1), (Some(7), Some(true)));
    }
}
