//! The data for the chapter "Through the wall", and its tables. `cargo upkeep channels` writes it.

use std::fs;
use std::path::Path;

use common::{OrCause, Result};
use nix::errno::Errno;

use crate::publish::tables::{markdown, rounded, thousands};

/// The data file, from the top folder.
pub const DATA: &str = "docs/src/channels.tsv";

/// The first line of the data. Costs are guest instructions: to send an event when the reader has read all earlier ones
/// (`awaited`) and when it has read none (`alone`), and to read one. The rest is what remains of 4,096 events that
/// nobody reads in time.
pub(crate) const HEAD: &str =
    "kernel\tchannel\tawaited\talone\tread\tkept\tfirst\tlast\tcount\trefused\terror\tlost\n";

/// How many events we send while nobody reads.
pub const SENT: u64 = 4096;

/// The channels: the program's name for each, the book's name, and the size of its buffer.
const CHANNELS: [[&str; 3]; 8] = [
    ["empty", "", ""],
    ["unsent", "the event is made, and not sent", ""],
    ["trace pipe", "trace pipe", "64 KiB for each CPU"],
    ["perf buffer", "perf buffer", "64 KiB for each CPU"],
    ["ring buffer", "ring buffer, reserve and submit", "64 KiB"],
    ["ring buffer, nobody woken", "ring buffer, output, nobody woken", "64 KiB"],
    ["hash map", "hash map, an entry for each event", "1,024 entries"],
    ["counter", "array, a count of the events", "1 number"],
];

/// What was measured on a kernel with a channel.
struct Row {
    kernel: String,
    channel: String,
    numbers: [i64; 10],
}

fn parse(data: &str) -> Vec<Row> {
    let row = |line: &str| {
        let mut cells = line.split('\t');
        let (kernel, channel) = (cells.next()?.to_owned(), cells.next()?.to_owned());
        let numbers: Vec<_> = cells.filter_map(|cell| cell.parse().ok()).collect();
        Some(Row { kernel, channel, numbers: numbers.try_into().ok()? })
    };
    data.lines().filter_map(row).collect()
}

/// The tables of the chapter: what an event costs, and what remains of events that nobody reads in time.
///
/// # Errors
/// If there is no data.
pub fn table(root: &Path) -> Result<String> {
    let path = root.join(DATA);
    let data = fs::read_to_string(&path);
    Ok(tables(&parse(
        &data.or_cause(format!("cannot read {}; write it: cargo upkeep channels", path.display()))?,
    )))
}

fn tables(rows: &[Row]) -> String {
    let find =
        |kernel: &str, channel: &str| rows.iter().find(|row| row.kernel == kernel && row.channel == channel);
    let mut kernels: Vec<_> = rows.iter().map(|row| row.kernel.clone()).collect();
    kernels.dedup();

    let mut costs = vec![
        [vec!["instructions: to send, the reader up to date / behind / to read".to_owned()], kernels.clone()]
            .concat(),
    ];
    let head = [
        "4,096 events, and no reader",
        "room",
        "can be read afterwards",
        "the program learns",
        "the reader learns",
    ];
    let mut losses = vec![head.map(str::to_owned).to_vec()];
    for [channel, name, room] in CHANNELS.into_iter().skip(1) {
        let cost = |kernel: &String| {
            let ([awaited, alone, read, ..], [floor, ..]) =
                (find(kernel, channel)?.numbers, find(kernel, "empty")?.numbers);
            let [awaited, alone, read] =
                [awaited - floor, alone - floor, read].map(|number| rounded(number.max(0) as u64));
            Some(if room.is_empty() { alone } else { format!("{awaited} / {alone} / {read}") })
        };
        let cells = kernels.iter().map(|kernel| cost(kernel).unwrap_or_else(|| "?".to_owned()));
        costs.push(std::iter::once(name.to_owned()).chain(cells).collect());
        if room.is_empty() {
            continue;
        }
        let outcomes: Vec<_> = rows.iter().filter(|row| row.channel == channel).map(Row::outcome).collect();
        // Usually all kernels agree.
        let differ = |nth: usize| {
            let mut cells: Vec<_> = outcomes.iter().map(|outcome| outcome[nth].clone()).collect();
            cells.sort_unstable();
            cells.dedup();
            cells.join(" or ")
        };
        losses.push([vec![name.to_owned(), room.to_owned()], [0, 1, 2].map(differ).to_vec()].concat());
    }
    format!("{}\n{}", markdown(costs), markdown(losses))
}

impl Row {
    /// What became of the events: which can be read, what the program learned, what the reader learned.
    fn outcome(&self) -> [String; 3] {
        let [_, _, _, kept, first, last, count, refused, error, lost] = self.numbers;
        let thousands = |number: i64| thousands(number as u64);
        let kept = match (first, last) {
            _ if count as u64 == SENT => format!("that they were {}", thousands(count)),
            (0, _) => format!("the first {}", thousands(kept)),
            _ if last as u64 == SENT - 1 => format!("the last {}", thousands(kept)),
            _ => "?".to_owned(),
        };
        let learned = match error {
            0 => "nothing".to_owned(),
            // What the program writes when there is no error, but no memory either.
            -1 => format!("`NULL`, {} times", thousands(refused)),
            error => format!("`{:?}`, {} times", Errno::from_raw(-error as i32), thousands(refused)),
        };
        let lost = if lost == 0 { "nothing".to_owned() } else { format!("that it lost {}", thousands(lost)) };
        [kept, learned, lost]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_becomes_two_tables() {
        let data = HEAD.to_owned()
            + "9.9\tempty\t48\t48\t2\t0\t0\t0\t0\t0\t0\t0\n\
               9.9\tunsent\t261\t262\t2\t0\t0\t0\t0\t0\t0\t0\n\
               9.9\ttrace pipe\t3971\t3975\t11025\t1288\t2808\t4095\t0\t0\t0\t2808\n\
               9.9\tring buffer\t966\t409\t84\t1638\t0\t1637\t0\t2458\t-1\t0\n\
               9.9\thash map\t608\t608\t14034\t1024\t0\t1023\t0\t3072\t-7\t0\n\
               9.9\tcounter\t70\t71\t40\t0\t0\t0\t4096\t0\t0\t0\n";
        insta::assert_snapshot!(tables(&parse(&data)), @r"
        | instructions: to send, the reader up to date / behind / to read | 9.9                    |
        |-----------------------------------------------------------------|------------------------|
        | the event is made, and not sent                                 | 210                    |
        | trace pipe                                                      | 3,900 / 3,900 / 11,000 |
        | perf buffer                                                     | ?                      |
        | ring buffer, reserve and submit                                 | 920 / 360 / 84         |
        | ring buffer, output, nobody woken                               | ?                      |
        | hash map, an entry for each event                               | 560 / 560 / 14,000     |
        | array, a count of the events                                    | 22 / 23 / 40           |

        | 4,096 events, and no reader       | room                | can be read afterwards | the program learns   | the reader learns  |
        |-----------------------------------|---------------------|------------------------|----------------------|--------------------|
        | trace pipe                        | 64 KiB for each CPU | the last 1,288         | nothing              | that it lost 2,808 |
        | perf buffer                       | 64 KiB for each CPU |                        |                      |                    |
        | ring buffer, reserve and submit   | 64 KiB              | the first 1,638        | `NULL`, 2,458 times  | nothing            |
        | ring buffer, output, nobody woken | 64 KiB              |                        |                      |                    |
        | hash map, an entry for each event | 1,024 entries       | the first 1,024        | `E2BIG`, 3,072 times | nothing            |
        | array, a count of the events      | 1 number            | that they were 4,096   | nothing              | nothing            |
        ");
    }
}
