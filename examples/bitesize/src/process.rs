//! Reads the histogram of each process from the map, and prints it.

use std::collections::BTreeMap;
use std::fmt::Write;

use common::events::task_name;
use common::histogram::Histogram;
use common::{Result, record};
use libbpf_rs::MapCore;
use serde::Serialize;

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

/// The processes that did I/O between two readings.
#[derive(Serialize)]
pub struct Interval {
    time: String,
    unit: &'static str,
    /// The process with the most I/O comes first.
    processes: Vec<Row>,
    /// Those that are left out.
    others: Others,
}

/// A process and its I/O in the interval.
#[derive(Serialize)]
struct Row {
    pid: u32,
    uid: u32,
    comm: String,
    count: u64,
    histogram: Histogram,
}

#[derive(Serialize)]
struct Others {
    processes: usize,
    count: u64,
}

impl Interval {
    /// At most `top` processes.
    pub fn new(time: String, before: &Processes, now: &Processes, top: Option<usize>) -> Self {
        let none = Histogram::default();
        let since = |(pid, process): (&u32, &Process)| {
            let before = before.get(pid).map_or(&none, |process| &process.histogram);
            let histogram = process.histogram.since(before);
            let (uid, comm) = (process.uid, process.comm.clone());
            Row { pid: *pid, uid, comm, count: histogram.count(), histogram }
        };
        let mut processes: Vec<_> = now.iter().map(since).filter(|row| row.count > 0).collect();
        processes.sort_by_key(|row| (std::cmp::Reverse(row.count), row.pid));
        let others = processes.split_off(top.unwrap_or(processes.len()).min(processes.len()));
        let others = Others { processes: others.len(), count: others.iter().map(|row| row.count).sum() };
        Self { time, unit: "kbytes", processes, others }
    }

    /// A table for each process.
    pub fn text(&self, columns: usize) -> String {
        let mut text = self.time.clone();
        for Row { pid, uid, comm, histogram, .. } in &self.processes {
            let table = histogram.table_of(self.unit, columns);
            let _ = write!(text, "\n\nPID: {pid} UID: {uid} CMD: {comm}\n{table}");
        }
        match self.others {
            Others { processes: 0, .. } if self.processes.is_empty() => text += "\n\nNo I/O.",
            Others { processes: 0, .. } => {}
            Others { processes, count } => {
                let _ = write!(text, "\n\nOther processes: {processes}, with {count} I/Os");
            }
        }
        text
    }
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
        let interval = |before, top| Interval::new("2015-05-14 23:03:17".to_owned(), before, &now, top);
        insta::assert_snapshot!("all", interval(&before, None).text(80));
        insta::assert_snapshot!("top_1_in_40_columns", interval(&before, Some(1)).text(40));
        insta::assert_snapshot!("none", interval(&now, Some(1)).text(80));
        insta::assert_snapshot!("json", serde_json::to_string(&interval(&before, Some(1))).unwrap());
    }
}
