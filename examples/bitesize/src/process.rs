//! What the map says of each process, and how it is printed.

use std::collections::BTreeMap;
use std::fmt::Write;

use common::Result;
use common::histogram::Histogram;
use libbpf_rs::{MapCore, MapFlags};

/// As in `struct process` of the BPF source.
const SLOTS: usize = 22;

/// What a record of the map says.
#[derive(Clone, Debug)]
pub struct Process {
    uid: u32,
    comm: String,
    histogram: Histogram,
}

/// Processes by their ids.
pub type Processes = BTreeMap<u32, Process>;

/// Reads the map, in which records come and grow, but never go.
pub fn read(map: &impl MapCore) -> Result<Processes> {
    let mut processes = Processes::new();
    for key in map.keys() {
        let Some(record) = map.lookup(&key, MapFlags::ANY)? else { continue };
        processes.insert(number(&key), Process::of_record(&record));
    }
    Ok(processes)
}

fn number(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_ne_bytes)
}

impl Process {
    fn of_record(record: &[u8]) -> Self {
        let (slots, rest) = record.split_at(record.len().min(SLOTS * 8));
        let (uid, comm) = rest.split_at(rest.len().min(4));
        let comm = comm.split(|byte| *byte == 0).next().unwrap_or_default();
        Self {
            uid: number(uid),
            comm: String::from_utf8_lossy(comm).into_owned(),
            histogram: Histogram::of_record(slots),
        }
    }
}

/// The tables of an interval: of each process that did I/O between two readings, those with the most I/O first.
pub fn interval(
    time: &str,
    before: &Processes,
    now: &Processes,
    top: Option<usize>,
    columns: usize,
) -> String {
    let none = Histogram::default();
    let since = |(pid, process): (&u32, &Process)| {
        let before = before.get(pid).map_or(&none, |process| &process.histogram);
        let histogram = process.histogram.since(before);
        (histogram.count() > 0).then(|| (*pid, Process { histogram, ..process.clone() }))
    };
    let mut busy: Vec<_> = now.iter().filter_map(since).collect();
    busy.sort_by_key(|(pid, process)| (std::cmp::Reverse(process.histogram.count()), *pid));
    let shown = top.unwrap_or(busy.len()).min(busy.len());

    let mut text = time.to_owned();
    for (pid, Process { uid, comm, histogram }) in &busy[..shown] {
        let table = histogram.table_of("kbytes", columns);
        let _ = write!(text, "\n\nPID: {pid} UID: {uid} CMD: {comm}\n{table}");
    }
    let rest: u64 = busy[shown..].iter().map(|(_, process)| process.histogram.count()).sum();
    match (busy.len(), busy.len() - shown) {
        (0, _) => text += "\n\nNo I/O.",
        (_, 0) => {}
        (_, more) => {
            let _ = write!(text, "\n\nOther processes: {more}, with {rest} I/Os");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of the map, as the kernel has it.
    fn record(slots: &[(usize, u64)], uid: u32, comm: &str) -> Vec<u8> {
        let mut counts = [0_u64; SLOTS];
        slots.iter().for_each(|(slot, count)| counts[*slot] = *count);
        let mut record: Vec<u8> = counts.iter().flat_map(|count| count.to_ne_bytes()).collect();
        record.extend(uid.to_ne_bytes());
        record.extend(comm.bytes());
        record.resize(SLOTS * 8 + 4 + 16 + 4, 0);
        record
    }

    fn processes(records: &[(u32, Vec<u8>)]) -> Processes {
        records.iter().map(|(pid, record)| (*pid, Process::of_record(record))).collect()
    }

    #[test]
    fn the_process_with_the_most_io_comes_first() {
        let before =
            processes(&[(7, record(&[(2, 100)], 0, "jbd2/sda1-8")), (582, record(&[(2, 10)], 0, "sh"))]);
        let now = processes(&[
            (7, record(&[(2, 100)], 0, "jbd2/sda1-8")),
            (582, record(&[(2, 80), (4, 1), (5, 737)], 0, "dd")),
            (583, record(&[(2, 37), (3, 7), (7, 2152)], 1000, "cksum")),
            (584, record(&[(0, 3)], 0, "a name of 16 ch")),
        ]);
        insta::assert_snapshot!("all", interval("2015-05-14 23:03:17", &before, &now, None, 80));
        insta::assert_snapshot!(
            "top_1_in_40_columns",
            interval("2015-05-14 23:03:17", &before, &now, Some(1), 40)
        );
        insta::assert_snapshot!("none", interval("2015-05-14 23:03:17", &now, &now, Some(1), 80));
    }
}
