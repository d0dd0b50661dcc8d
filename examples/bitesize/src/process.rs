//! Reads the histogram of each process from the map, and prints it.

use std::collections::BTreeMap;
use std::fmt::Write;

use common::events::task_name;
use common::histogram::Histogram;
use common::{Result, record};
use libbpf_rs::MapCore;

use crate::bpf::types;

/// A process and its I/O.
#[derive(Clone, Debug)]
pub struct Process {
    uid: u32,
    comm: String,
    histogram: Histogram,
}

/// Processes by their ids.
pub type Processes = BTreeMap<u32, Process>;

/// Reads the map. The program adds processes and increases counts, but never removes anything.
pub fn read(map: &impl MapCore) -> Result<Processes> {
    let mut processes = Processes::new();
    for key in map.keys() {
        let Some(process) = record::lookup::<types::process>(map, &key)? else { continue };
        processes.insert(record::read(&key)?, Process::from(process));
    }
    Ok(processes)
}

impl From<types::process> for Process {
    fn from(process: types::process) -> Self {
        Self { uid: process.uid, comm: task_name(process.comm), histogram: Histogram::from(process.slots) }
    }
}

/// The tables of an interval: one for each process that did I/O between two readings. The process with the most I/O
/// comes first.
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

    fn process(counts: &[(usize, u64)], uid: u32, name: &str) -> Process {
        let mut slots = [0; 22];
        counts.iter().for_each(|(slot, count)| slots[*slot] = *count);
        let mut comm = [0; 16];
        comm.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from as i8);
        Process::from(types::process { slots, uid, comm, ..Default::default() })
    }

    #[test]
    fn the_process_with_the_most_io_comes_first() {
        let before = Processes::from([
            (7, process(&[(2, 100)], 0, "jbd2/sda1-8")),
            (582, process(&[(2, 10)], 0, "sh")),
        ]);
        let now = Processes::from([
            (7, process(&[(2, 100)], 0, "jbd2/sda1-8")),
            (582, process(&[(2, 80), (4, 1), (5, 737)], 0, "dd")),
            (583, process(&[(2, 37), (3, 7), (7, 2152)], 1000, "cksum")),
            (584, process(&[(0, 3)], 0, "a name of 16 ch")),
        ]);
        insta::assert_snapshot!("all", interval("2015-05-14 23:03:17", &before, &now, None, 80));
        insta::assert_snapshot!(
            "top_1_in_40_columns",
            interval("2015-05-14 23:03:17", &before, &now, Some(1), 40)
        );
        insta::assert_snapshot!("none", interval("2015-05-14 23:03:17", &now, &now, Some(1), 80));
    }
}
