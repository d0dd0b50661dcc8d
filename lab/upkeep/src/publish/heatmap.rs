//! The heat map in the book: tracex3 while one of two disks becomes slower. `cargo upkeep record tracex3` records it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use common::{Error, OrCause, Result};
use machine::vm::Vm;
use serde_json::Value;

use crate::publish::tables::thousands;

/// The example that counts.
pub const NAME: &str = "tracex3";

/// The data file, from the top folder: second, latency in microseconds, count.
const DATA: &str = "docs/src/heatmap.tsv";

/// What one second looks like in the picture: a histogram beside the map, of the second after the change.
const CHANGE: usize = 10;
const SHOWN: usize = CHANGE + 2;

/// Two programs write, one to a disk that takes 5 ms, one with four threads to a disk that takes 40 ms. After ten rows,
/// the second one goes on on a disk of 160 ms. null_blk completes each I/O after the time that it is given. Under
/// emulation, quicker disks would show mostly how busy the processor is.
const SCRIPT: &str = r#"
modprobe null_blk nr_devices=0 && mount -t configfs configfs /sys/kernel/config || exit
disk() {
    folder=/sys/kernel/config/nullb/$1
    mkdir $folder
    for setting in size=4096 irqmode=2 completion_nsec=$2 power=1; do
        echo ${setting#*=} > $folder/${setting%=*}
    done
}
writer() { io write /dev/$1 --threads $2 --count 100000 > /dev/null 2>&1 & }
disk quick 5000000; disk slow 40000000; disk slower 160000000
writer quick 1; quick=$!
writer slow 4; slow=$!
tracex3 --json --rows 18 > rows & tracer=$!
until [ $(wc -l < rows) -ge 10 ]; do sleep 0.1; done
kill $slow
writer slower 4; slower=$!
wait $tracer
kill $quick $slower
cat rows
"#;

const LIMIT: Duration = Duration::from_secs(120);

/// Records the heat map in a guest.
///
/// # Errors
/// If the example fails, or the file can't be written.
pub fn save(guest: &mut Vm, root: &Path) -> Result<()> {
    let seen = guest.output(&["sh", "-c", SCRIPT], LIMIT)?;
    let failed = || Error::new(format!("{NAME} printed no heat map")).evidence(&seen.stderr);
    let mut data = String::from("second\tmicroseconds\tcount\n");
    let mut seconds = 0;
    for (second, row) in serde_json::Deserializer::from_slice(&seen.stdout).into_iter::<Value>().enumerate() {
        let row = row.or_cause("cannot read a row of the heat map")?;
        for (from, count) in buckets(&row) {
            let _ = writeln!(data, "{second}\t{from}\t{count}");
        }
        seconds = second + 1;
    }
    if seconds <= SHOWN {
        return Err(failed());
    }
    let path = root.join(DATA);
    fs::write(&path, data).or_cause(format!("cannot write {}", path.display()))
}

/// The counts of a row, in buckets of powers of two: tracex3 cuts each into four.
fn buckets(row: &Value) -> BTreeMap<u64, u64> {
    let mut buckets = BTreeMap::new();
    for cell in row["cells"].as_array().into_iter().flatten() {
        let from = cell["from"].as_u64().unwrap_or_default();
        *buckets.entry(1 << from.max(1).ilog2()).or_default() += cell["count"].as_u64().unwrap_or_default();
    }
    buckets
}

/// The picture of what we recorded.
///
/// # Errors
/// If there is nothing.
pub fn picture(root: &Path) -> Result<String> {
    let path = root.join(DATA);
    let text = fs::read_to_string(&path)
        .or_cause(format!("cannot read {}; record it: cargo upkeep record {NAME}", path.display()))?;
    svg(&parse(&text)).ok_or_else(|| Error::new(format!("{DATA} has too few seconds")))
}

/// The counts of each second, by the least latency of their bucket.
fn parse(data: &str) -> Vec<BTreeMap<u64, u64>> {
    let mut seconds = Vec::<BTreeMap<u64, u64>>::new();
    for line in data.lines() {
        let numbers: Vec<u64> = line.split('\t').filter_map(|word| word.parse().ok()).collect();
        if let [second, from, count] = numbers[..] {
            let second = second as usize;
            seconds.resize(seconds.len().max(second + 1), BTreeMap::new());
            seconds[second].insert(from, count);
        }
    }
    seconds
}

const PALETTE: &str = include_str!("../../../../docs/palette.css");
/// The map on the picture: its left end, its bottom, and a column's width.
const LEFT: usize = 84;
const BOTTOM: usize = 262;
const WIDE: usize = 22;
/// The highest that a row of the map may be, and all of them.
const HIGH: usize = 30;
const HEIGHT: usize = 214;
/// The histogram beside it, and how long its longest bar is.
const BESIDE: usize = 524;
const LONG: usize = 84;

fn svg(seconds: &[BTreeMap<u64, u64>]) -> Option<String> {
    let shown = seconds.get(SHOWN)?;
    let latencies = || seconds.iter().flat_map(BTreeMap::keys);
    let (first, last) = (latencies().min()?.ilog2(), latencies().max()?.ilog2());
    let most = *seconds.iter().flat_map(BTreeMap::values).max()?;
    let high = (HEIGHT / (last - first + 1) as usize).min(HIGH);
    let bottom = |from: u64| BOTTOM - high * (from.ilog2() - first) as usize;
    let [top, right] = [BOTTOM - high * (last - first + 1) as usize, LEFT + WIDE * seconds.len()];

    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 680 312" role="img" aria-labelledby="heat-title heat-desc"
     font-family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif" font-size="16" text-anchor="start">
  <title id="heat-title">A heat map of latencies, and the histogram that one column of it is</title>
  <desc id="heat-desc">tracex3, recorded in the lab. Two programs write, each to its own disk, so there are two bands. From
    second {CHANGE} on, one of them writes to a slower disk, and its band moves up. Beside the map is the histogram of
    second {SHOWN}: {}.</desc>
  <style>
{PALETTE}  </style>
  <rect class="paper" width="680" height="312"/>
"#,
        shown
            .iter()
            .map(|(from, count)| format!("{count} requests of {} or more", latency(*from)))
            .collect::<Vec<_>>()
            .join(", ")
    );
    let cells = |from: usize, to: usize| {
        let mut cells = String::from("    <g class=\"rq\">\n");
        for (second, counts) in seconds.iter().enumerate().take(to).skip(from) {
            for (latency, count) in counts {
                // On a linear scale, single requests would be white.
                let shade = 0.12 + 0.88 * (*count as f64 / most as f64).sqrt();
                let _ = writeln!(
                    cells,
                    r#"      <rect x="{}" y="{}" width="{}" height="{}" fill-opacity="{shade:.2}"/>"#,
                    LEFT + WIDE * second,
                    bottom(*latency) - high + 1,
                    WIDE - 1,
                    high - 1
                );
            }
        }
        cells + "    </g>\n"
    };
    let _ = write!(
        svg,
        r#"  <g id="bands">
    <text class="ink" x="{LEFT}" y="26" font-size="18" font-weight="bold">a heat map: a histogram a second</text>
    <path class="line" d="M{LEFT} {}V{BOTTOM}H{right}"/>
    <text class="dim" x="{LEFT}" y="{}">the stronger the color, the more requests</text>
    <text class="dim" x="{LEFT}" y="{}">time →</text>
"#,
        top - 4,
        BOTTOM + 44,
        BOTTOM + 20
    );
    for power in (first..=last).filter(|power| (power - first) % 2 == 0) {
        let from = 1 << power;
        let _ = writeln!(
            svg,
            r#"    <text class="dim" x="{}" y="{}" text-anchor="end">{}</text>"#,
            LEFT - 8,
            bottom(from) + 5,
            latency(from)
        );
    }
    svg += &cells(0, CHANGE);
    svg += "  </g>\n  <g id=\"change\">\n";
    svg += &cells(CHANGE, seconds.len());
    let _ = write!(
        svg,
        r#"    <text class="ink" x="{}" y="{}">↑ one disk is slower now</text>
  </g>
  <g id="column">
    <rect class="line" x="{}" y="{}" width="{}" height="{}"/>
    <text class="ink" x="{BESIDE}" y="26" font-size="18" font-weight="bold">one column</text>
"#,
        LEFT + WIDE * CHANGE,
        BOTTOM + 20,
        LEFT + WIDE * SHOWN - 2,
        top - 3,
        WIDE + 3,
        BOTTOM - top + 6,
    );
    let fullest = *shown.values().max()?;
    for (from, count) in shown {
        let (wide, y) = ((LONG as u64 * count / fullest).max(2) as usize, bottom(*from));
        let _ = writeln!(
            svg,
            r#"    <rect class="rq" x="{BESIDE}" y="{}" width="{wide}" height="{}"/>
    <text class="ink" x="{}" y="{}">{}</text>"#,
            y - high + 2,
            high - 3,
            BESIDE + wide + 8,
            y - high / 2 + 6,
            thousands(*count)
        );
    }
    svg += "  </g>\n</svg>\n";
    Some(svg)
}

/// A power of two, as people say it: 1,024 µs are 1 ms.
fn latency(microseconds: u64) -> String {
    match microseconds {
        0..1024 => format!("{microseconds} µs"),
        _ => format!("{} ms", microseconds / 1024),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_columns_of_tracex3_are_a_bucket() {
        let row = r#"{"cells":[{"from":0,"count":1},{"from":512,"count":2},{"from":896,"count":3},{"from":1024,"count":4}]}"#;
        assert_eq!(
            buckets(&serde_json::from_str(row).unwrap()),
            BTreeMap::from([(1, 1), (512, 5), (1024, 4)])
        );
    }

    #[test]
    fn each_count_is_a_cell() {
        let data = include_str!("../../../../docs/src/heatmap.tsv");
        let seconds = parse(data);
        let svg = svg(&seconds).unwrap();
        let (map, column) = svg.split_once("<g id=\"column\">").unwrap();
        assert_eq!(map.matches("fill-opacity").count(), data.lines().count() - 1);
        let counts = seconds[SHOWN].values().map(|count| format!(">{}</text>", thousands(*count)));
        assert!(counts.into_iter().all(|count| column.contains(&count)), "{column}");
        assert!(super::svg(&seconds[..SHOWN]).is_none());
    }

    /// What the chapter and the slide say: two bands, and then the slower one moves up.
    #[test]
    fn the_books_data_agrees_with_its_text() {
        let seconds = parse(include_str!("../../../../docs/src/heatmap.tsv"));
        let fullest = |seconds: &[BTreeMap<u64, u64>], least: u64| {
            let mut sums = BTreeMap::<u64, u64>::new();
            for (from, count) in seconds.iter().flatten().filter(|(from, _)| **from >= least) {
                *sums.entry(*from).or_default() += count;
            }
            sums.into_iter().max_by_key(|(_, count)| *count).unwrap().0
        };
        let (before, after) = seconds.split_at(CHANGE + 1);
        let quick = fullest(before, 0);
        assert_eq!(fullest(after, 0), quick);
        assert!(fullest(before, 8192) < fullest(after, 8192));
        assert!(quick < 8192);
    }
}
