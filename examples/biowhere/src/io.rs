//! One I/O: who asked for it, of what, and where its time went.

use std::fmt;

use common::events::{printable, task_name};
use serde::Serialize;
use toolkit::flags::Flags;

use crate::bpf::types;
use crate::names::Names;

common::record!(types::io {
    kind,
    requeues,
    submitted_ns,
    made_ns,
    issued_ns,
    done_ns,
    ended_ns,
    sector,
    cgroup,
    dentry,
    bytes,
    flags,
    pid,
    tid,
    device,
    error,
    comm,
    disk,
    lower,
});

/// An I/O that has ended. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Io {
    /// When it was submitted, since tracing began.
    pub time: u64,
    pub task: String,
    pub pid: u32,
    pub tid: u32,
    /// The disk to which it was submitted.
    pub disk: String,
    /// The disk that had its request, if it is another one: `disk` has only bios.
    pub lower: Option<String>,
    pub operation: String,
    pub flags: String,
    /// Of the whole disk.
    pub sector: u64,
    pub bytes: u32,
    /// From `submit_bio()` until the bio has ended.
    pub total: u64,
    /// How `total` is divided; none if no request was made for it, or not for all of it.
    pub parts: Option<Parts>,
    /// How often the driver gave the request back.
    pub requeues: u32,
    /// Whether it failed.
    pub failed: bool,
    /// The control group that pays for it.
    pub cgroup: Option<String>,
    pub file: Option<String>,
}

/// Where the time of an I/O went. Their sum is the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// Until its request exists: limits of control groups, the wait for a free tag, cutting and merging.
    pub before: u64,
    /// Until the driver gets the request: the plug and the scheduler.
    pub queue: u64,
    /// Until the driver says that it is done.
    pub disk: u64,
    /// Until the bio has ended.
    pub end: u64,
}

impl Parts {
    fn new([submitted, made, issued, done, ended]: [u64; 5]) -> Option<Self> {
        let next = |from: u64, to: u64| if from == 0 { None } else { to.checked_sub(from) };
        Some(Self {
            before: next(submitted, made)?,
            queue: next(made, issued)?,
            disk: next(issued, done)?,
            end: next(done, ended)?,
        })
    }

    pub fn all(self) -> [u64; 4] {
        [self.before, self.queue, self.disk, self.end]
    }
}

impl Io {
    /// `began` is when tracing began.
    pub fn new(io: &types::io, began: u64, flags: &Flags, names: &mut Names) -> Self {
        let operation = flags.operation(io.flags);
        let set = flags.names(io.flags);
        // Whoever wants a flush alone submits an empty write.
        let is_flush = io.bytes == 0 && set.split('-').any(|flag| flag == "Preflush");
        Self {
            time: io.submitted_ns.saturating_sub(began),
            task: task_name(io.comm),
            pid: io.pid,
            tid: io.tid,
            disk: text(&io.disk),
            lower: Some(text(&io.lower)).filter(|lower| !lower.is_empty()),
            operation: if is_flush { "flush".to_owned() } else { operation.to_lowercase() },
            flags: set,
            sector: io.sector,
            bytes: io.bytes,
            total: io.ended_ns - io.submitted_ns,
            parts: Parts::new([io.submitted_ns, io.made_ns, io.issued_ns, io.done_ns, io.ended_ns]),
            requeues: io.requeues,
            failed: io.error != 0,
            cgroup: names.cgroup(io.cgroup),
            file: names.file(io.dentry, io.device),
        }
    }

    /// The disk, and if that passed the I/O on, the one that had the request.
    pub fn place(&self) -> String {
        self.lower.as_ref().map_or_else(|| self.disk.clone(), |lower| format!("{}>{lower}", self.disk))
    }
}

/// The text of a C string.
pub fn text(bytes: &[i8]) -> String {
    let bytes: Vec<_> = bytes.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
    printable(&String::from_utf8_lossy(&bytes))
}

/// How lines are printed.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Microseconds in place of milliseconds.
    pub us: bool,
    pub with_cgroup: bool,
}

impl Form {
    /// The line above all lines.
    pub fn head(self) -> String {
        let cgroup = if self.with_cgroup { "CGROUP  " } else { "" };
        format!(
            "{:<10} {:<15} {:>7} {:<16} {:<8} {:>10} {:>5} {:>8} {:>8} {:>8} {:>8} {:>8}  {cgroup}FILE",
            "TIME", "TASK", "PID", "DISK", "OP", "SECTOR", "KIB", "TOTAL", "BEFORE", "QUEUE", "DISK", "END"
        )
    }

    /// A time that was rounded by [`Form::round`].
    pub fn time(self, steps: u64) -> String {
        if self.us { steps.to_string() } else { format!("{}.{:02}", steps / 100, steps % 100) }
    }

    /// Nanoseconds in steps of what is printed: hundredths of milliseconds, or microseconds.
    pub fn round(self, ns: u64) -> u64 {
        let step = if self.us { 1_000 } else { 10_000 };
        (ns + step / 2) / step
    }

    /// The line of an I/O. What is printed adds up: each part ends where the next one begins, and these points are rounded.
    pub fn line(self, io: &Io) -> String {
        let mut until = 0;
        let mut parts = ["-"; 4].map(str::to_owned);
        for (part, ns) in parts.iter_mut().zip(io.parts.iter().flat_map(|parts| parts.all())) {
            *part = self.time(self.round(until + ns) - self.round(until));
            until += ns;
        }
        let [before, queue, disk, end] = parts;
        let total = self.time(self.round(io.total));
        let mut place = io.place();
        if io.requeues > 0 {
            place += &format!("({})", io.requeues + 1);
        }
        let cgroup = match &io.cgroup {
            _ if !self.with_cgroup => String::new(),
            Some(path) => format!("{path}  "),
            None => "-  ".to_owned(),
        };
        format!(
            "{:<10.6} {:<15} {:>7} {place:<16} {:<8} {:>10} {:>5} {total:>8} {before:>8} {queue:>8} {disk:>8} {end:>8}  {cgroup}{}{}",
            io.time as f64 / 1e9,
            io.task,
            io.pid,
            io.operation,
            io.sector,
            Kib(io.bytes),
            io.file.as_deref().unwrap_or("-"),
            if io.failed { "  failed" } else { "" },
        )
    }
}

/// A size, which may be less than a KiB.
struct Kib(u32);

impl fmt::Display for Kib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = f64::from(self.0) / 1024.0;
        f.pad(&if kib.fract() == 0.0 { format!("{kib}") } else { format!("{kib:.1}") })
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn io() -> Io {
        Io {
            time: 12_345_000,
            task: "io".to_owned(),
            pid: 158,
            tid: 158,
            disk: "nvme0n1".to_owned(),
            lower: None,
            operation: "write".to_owned(),
            flags: "Sync".to_owned(),
            sector: 800,
            bytes: 4096,
            total: 12_064_000,
            parts: Parts::new([1_000, 24_000, 8_938_000, 12_034_000, 12_065_000]),
            requeues: 0,
            failed: false,
            cgroup: Some("/user".to_owned()),
            file: Some("/mnt/f".to_owned()),
        }
    }

    #[test]
    fn lines_stand_below_their_columns() {
        let form = Form { us: false, with_cgroup: false };
        let other = Io {
            disk: "dm-0".to_owned(),
            lower: Some("nvme0n1".to_owned()),
            bytes: 512,
            requeues: 1,
            ..io()
        };
        let unknown = Io { parts: None, file: None, failed: true, ..io() };
        let lines = [io(), other, unknown].map(|io| form.line(&io)).join("\n");
        let with_group = Form { us: true, with_cgroup: true };
        insta::assert_snapshot!(format!(
            "{}\n{lines}\n{}\n{}",
            form.head(),
            with_group.head(),
            with_group.line(&io())
        ));
    }

    #[test]
    fn what_is_printed_adds_up() {
        let form = Form { us: false, with_cgroup: false };
        for step in 1..2000 {
            let [a, b, c, d] = [1, 7, 13, 29].map(|prime| step * prime * 997);
            let points = [1, 1 + a, 1 + a + b, 1 + a + b + c, 1 + a + b + c + d];
            let io = Io { total: a + b + c + d, parts: Parts::new(points), ..io() };
            let line = form.line(&io);
            let numbers: Vec<_> =
                line.split_whitespace().skip(7).take(5).map(|number| number.replace('.', "")).collect();
            let numbers: Vec<u64> = numbers.iter().map(|number| number.parse().unwrap()).collect();
            assert_eq!(numbers[0], numbers[1..].iter().sum::<u64>(), "{line}");
        }
    }

    #[test]
    fn a_time_that_is_missing_leaves_all_parts_open() {
        for missing in 1..4 {
            let mut times = [1, 2, 3, 4, 5];
            times[missing] = 0;
            assert_eq!(Parts::new(times), None);
        }
        assert_eq!(Parts::new([1, 2, 3, 4, 5]).unwrap().all(), [1; 4]);
    }
}
