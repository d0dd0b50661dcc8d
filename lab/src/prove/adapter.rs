//! How to read what a tool prints. Each adapter is a file in `lab/prove/tools`.

use std::collections::BTreeMap;

use common::{OrCause, Result};
use regex_lite::{Captures, Regex};
use serde::Deserialize;
use serde_json::Value;
use wire::prove::{Clock, Counts, Op, Tool};

/// The folder in the guest that is the root of a tool with its own libraries.
pub const ROOT: &str = "/tool";

/// A file in `lab/prove/tools`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// The program and its arguments: a line, or a list of words. `@NAME` is a disk of the scene.
    command: OneOrMore,
    /// Debian's packages, separated by spaces, if the tool is not ours.
    pub package: Option<String>,
    /// Whether it compiles its programs when it starts, for which it needs the kernel's headers.
    #[serde(default)]
    pub headers: bool,
    /// The kernels for which it is meant, if not for all.
    #[serde(default)]
    pub kernels: Vec<String>,
    /// What its numbers are of, by its own words.
    #[serde(default)]
    pub counts: Counts,
    /// From where on its times count, by its own words.
    pub clock: Option<Clock>,
    /// Whether it counts what others do, too, so that it may say more.
    #[serde(default)]
    pub others: bool,
    /// By how many percent its numbers may differ, because it rounds them.
    #[serde(default)]
    pub within: f64,
    /// Why it is wrong in a scene, or in `all` others.
    #[serde(default)]
    why: BTreeMap<String, String>,
    /// What it prints when it is attached; without it, a tool is attached when it sleeps.
    attached: Option<String>,
    /// How many seconds it waits for more before it prints.
    #[serde(default)]
    behind: u64,
    /// Whether it prints JSON. Then each object is a line `key=value key=value`, after those of the objects around it.
    #[serde(default)]
    json: bool,
    /// A row: `log2` or `bpftrace` for the rows of such a histogram, or a regular expression; or a list of them, if one line
    /// speaks of several things. The groups are `n`, or `reads`, `writes`, `discards`, `syncs`, `hits` or `misses`; `from` and `to`, or
    /// `value`, in the unit; `size` or `sectors` of an I/O; `bytes` or `kb` of all; and `disk`, `op` and `pid`.
    row: OneOrMore,
    /// A line that holds for the rows below it, with the same groups.
    group: Option<String>,
    /// Of `from`, `to` and `value`.
    unit: Option<Unit>,
    /// Where it says how many I/Os it missed, in a group `n`.
    #[serde(default)]
    lost: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unit {
    Ns,
    Us,
    Ms,
    S,
    Bytes,
    Kbytes,
}

/// What a tool says of one I/O, or of some. `None`: it doesn't say that.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    pub n: f64,
    /// Its name, or its number.
    pub disk: Option<String>,
    pub op: Option<Op>,
    pub pid: Option<u32>,
    /// From the least to the most that it can be, in ns.
    pub time: Option<(f64, f64)>,
    /// The same, in bytes.
    pub size: Option<(f64, f64)>,
    /// Of all of them together.
    pub bytes: Option<f64>,
}

/// All that a tool says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub rows: Vec<Seen>,
    /// How many it says that it missed; `None` if it says nothing about that.
    pub lost: Option<u64>,
}

/// Groups that are the number of an operation.
const BY_NAME: [(&str, Op); 6] = [
    ("reads", Op::Read),
    ("writes", Op::Write),
    ("discards", Op::Discard),
    ("syncs", Op::Flush),
    ("hits", Op::Hit),
    ("misses", Op::Miss),
];

/// A histogram's row, as bcc and libbpf-tools print it, and ours.
const LOG2: &str = r"^\s*(?<from>\d+)\s+->\s+(?<to>\d+)\s*:\s*(?<n>\d+)\s*\|";

/// A histogram's row, as bpftrace prints it: `[64, 128)`, and `[128K, 256K)`.
const BPFTRACE: &str = r"^[\[(](?<from>\d+[KMG]?)(?:, (?<below>\d+[KMG]?)[\])]|\])\s+(?<n>\d+)\s*\|";

impl Adapter {
    pub fn of(text: &str) -> Result<Self> {
        toml::from_str(text).or_cause("cannot read an adapter")
    }

    /// Why it is wrong in a scene, if somebody knows.
    pub fn why(&self, scene: &str) -> Option<&str> {
        self.why.get(scene).or_else(|| self.why.get("all")).map(String::as_str)
    }

    /// Its command line.
    pub fn argv(&self) -> Vec<String> {
        match &self.command {
            OneOrMore::One(line) => line.split(' ').map(str::to_owned).collect(),
            OneOrMore::More(words) => words.clone(),
        }
    }

    pub fn tool(&self, argv: Vec<String>) -> Tool {
        Tool { argv, attached: self.attached.clone(), behind: self.behind, root: None }
    }

    /// Reads what the tool printed.
    ///
    /// # Errors
    /// If the adapter has a wrong regular expression.
    pub fn read(&self, text: &str) -> Result<Report> {
        let regex = |text: &str| {
            Regex::new(text).or_cause(format!("an adapter has a wrong regular expression: {text}"))
        };
        let rows = match &self.row {
            OneOrMore::One(row) => std::slice::from_ref(row),
            OneOrMore::More(rows) => rows,
        };
        let row = |text: &String| match &**text {
            "log2" => regex(LOG2),
            "bpftrace" => regex(BPFTRACE),
            other => regex(other),
        };
        let rows = rows.iter().map(row).collect::<Result<Vec<_>>>()?;
        let group = self.group.as_deref().map(regex).transpose()?;
        let lost = self.lost.iter().map(|text| regex(text)).collect::<Result<Vec<_>>>()?;
        let mut report = Report::default();
        let mut above = Seen { n: 1.0, ..Seen::default() };
        let flat = if self.json { flat(text) } else { text.to_owned() };
        for line in flat.lines() {
            if let Some(found) = group.as_ref().and_then(|group| group.captures(line)) {
                self.fill(&mut above, &found);
            } else {
                report.rows.extend(rows.iter().filter_map(|row| {
                    let mut seen = above.clone();
                    self.fill(&mut seen, &row.captures(line)?);
                    Some(seen)
                }));
            }
            for found in lost.iter().filter_map(|lost| lost.captures(line)) {
                *report.lost.get_or_insert(0) += number(&found, "n").unwrap_or_default() as u64;
            }
        }
        report.rows.retain(|seen| seen.n > 0.0 && seen.op != Some(Op::Other));
        Ok(report)
    }

    fn fill(&self, seen: &mut Seen, found: &Captures<'_>) {
        let text = |name| found.name(name).map(|text| text.as_str());
        if let Some(n) = number(found, "n") {
            seen.n = n;
        }
        for (name, op) in BY_NAME {
            if let Some(n) = number(found, name) {
                (seen.n, seen.op) = (n, Some(op));
            }
        }
        if let Some(disk) = text("disk") {
            // A number may be 259,0 or in two columns.
            let words = disk.split([',', ' ', ':']).filter(|word| !word.is_empty());
            seen.disk = Some(words.collect::<Vec<_>>().join(":"));
        }
        if let Some(op) = text("op") {
            seen.op = Some(operation(op));
        }
        if let Some(pid) = number(found, "pid") {
            seen.pid = Some(pid as u32);
        }
        if let Some(size) = number(found, "size").or_else(|| Some(number(found, "sectors")? * 512.0)) {
            seen.size = Some((size, size + 1.0));
        }
        if let Some(bytes) = number(found, "bytes").or_else(|| Some(number(found, "kb")? * 1024.0)) {
            seen.bytes = Some(bytes);
        }
        let [from, to, below, value] = ["from", "to", "below", "value"].map(|name| number(found, name));
        let range = match (from, to.map(|to| to + 1.0).or(below), value) {
            (Some(from), to, _) => (from, to.unwrap_or(from + 1.0)),
            (.., Some(value)) => {
                let decimals = text("value").and_then(|text| text.split_once('.'));
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
            Some(Unit::S) => seen.time = times(1e9),
            Some(Unit::Bytes) => seen.size = times(1.0),
            Some(Unit::Kbytes) => seen.size = times(1024.0),
            None => {}
        }
    }
}

/// A number, perhaps with one of bpftrace's units, which are powers of two.
fn number(found: &Captures<'_>, name: &str) -> Option<f64> {
    let text = found.name(name)?.as_str();
    let (digits, by) = match text.char_indices().next_back()? {
        (at, 'K') => (&text[..at], 1 << 10),
        (at, 'M') => (&text[..at], 1 << 20),
        (at, 'G') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    Some(digits.parse::<f64>().ok()? * f64::from(by))
}

/// An operation: a word, or the kernel's letters for it, such as `WS` for a write that somebody waits for. With `F` before
/// or after it, a write has a flush before or after it.
fn operation(text: &str) -> Op {
    let text = text.to_lowercase();
    match text.trim_start_matches("sync-") {
        "hit" | "hits" => Op::Hit,
        "miss" | "misses" => Op::Miss,
        "flush" | "f" | "fsync" => Op::Flush,
        "open" => Op::Other,
        text if text.starts_with("ff") => Op::Flush,
        text if text.starts_with('d') => Op::Discard,
        text if text.contains('w') => Op::Write,
        text if text.contains('r') => Op::Read,
        _ => Op::Other,
    }
}

/// The JSON at the start of a text as lines: see [`Adapter`].
fn flat(text: &str) -> String {
    fn write(value: &Value, lines: &mut String) {
        match value {
            Value::Object(map) => {
                let scalars = map.iter().filter(|(_, value)| !value.is_object() && !value.is_array());
                let words: Vec<_> = scalars.map(|(key, value)| format!("{key}={value}")).collect();
                *lines += &(words.join(" ") + "\n");
                map.values().for_each(|value| write(value, lines));
            }
            Value::Array(all) => all.iter().for_each(|value| write(value, lines)),
            _ => {}
        }
    }
    let mut lines = String::new();
    let all = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    all.map_while(|value| value.ok()).for_each(|value| write(&value, &mut lines));
    lines
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
        let seen = Seen { n: 3.0, disk: Some("a".into()), time: Some((4e3, 8e3)), ..Seen::default() };
        assert_eq!(report, Report { rows: vec![seen], lost: None });
        let lines =
            "row = '^(?<pid>\\d+) (?<op>\\w) (?<value>[\\d.]+)$'\nunit = 'ms'\nlost = ['lost (?<n>\\d+)']";
        let report = read(lines, "7 W 0.25\n8 R 3\nlost 4\n");
        assert_eq!(report.lost, Some(4));
        let times: Vec<_> = report.rows.iter().map(|row| (row.pid, row.op, row.time.unwrap())).collect();
        assert_eq!(times[1], (Some(8), Some(Op::Read), (2e6, 4e6)));
        assert_eq!((times[0].0, times[0].1), (Some(7), Some(Op::Write)));
    }
}
