//! One I/O: who asked for it, of what, and where its time went.

use std::borrow::Cow;
use std::rc::Rc;

use serde::Serialize;

use crate::bpf::types;
use crate::names::{Kind, Names};

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

/// How many parts a time has.
const PARTS: usize = 4;

/// An I/O that has ended. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Io {
    /// When it was submitted, since tracing began.
    pub time: u64,
    pub task: Rc<str>,
    pub pid: u32,
    pub tid: u32,
    /// The disk to which it was submitted.
    pub disk: Rc<str>,
    /// The disk that had its request, if it is another one: `disk` has only bios.
    pub lower: Option<Rc<str>>,
    pub operation: Rc<str>,
    pub flags: Rc<str>,
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
    pub cgroup: Option<Rc<str>>,
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

    pub fn all(self) -> [u64; PARTS] {
        [self.before, self.queue, self.disk, self.end]
    }
}

impl Io {
    /// `began` is when tracing began.
    pub fn new(io: &types::io, began: u64, names: &mut Names) -> Self {
        let Kind { operation, flags } = names.kind(io.flags, io.bytes == 0);
        Self {
            time: io.submitted_ns.saturating_sub(began),
            task: names.task(io.comm),
            pid: io.pid,
            tid: io.tid,
            disk: names.disk(io.disk),
            lower: (io.lower[0] != 0).then(|| names.disk(io.lower)),
            operation,
            flags,
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
    pub fn place(&self) -> Cow<'_, str> {
        match &self.lower {
            Some(lower) => format!("{}>{lower}", self.disk).into(),
            None => (&*self.disk).into(),
        }
    }
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
        let mut text = String::new();
        self.add_time(&mut text, steps);
        text
    }

    fn add_time(self, text: &mut String, steps: u64) {
        add_decimal(text, steps, if self.us { 0 } else { 2 });
    }

    /// Nanoseconds in steps of what is printed: hundredths of milliseconds, or microseconds.
    pub fn round(self, ns: u64) -> u64 {
        let step = if self.us { 1_000 } else { 10_000 };
        (ns + step / 2) / step
    }

    /// The line of an I/O. What is printed adds up: each part ends where the next one begins, and these points are rounded.
    pub fn line(self, io: &Io) -> String {
        let mut line = Line(String::with_capacity(160));
        line.left(10, |text| add_decimal(text, io.time / 1000, 6));
        line.left(15, |text| *text += &io.task);
        line.right(7, |text| add_decimal(text, io.pid.into(), 0));
        line.left(16, |text| {
            *text += &io.place();
            if io.requeues > 0 {
                *text += &format!("({})", io.requeues + 1);
            }
        });
        line.left(8, |text| *text += &io.operation);
        line.right(10, |text| add_decimal(text, io.sector, 0));
        line.right(5, |text| match io.bytes % 1024 {
            0 => add_decimal(text, u64::from(io.bytes) / 1024, 0),
            _ => *text += &format!("{:.1}", f64::from(io.bytes) / 1024.0),
        });
        line.right(8, |text| self.add_time(text, self.round(io.total)));
        let mut until = 0;
        for nth in 0..PARTS {
            let from = self.round(until);
            line.right(8, |text| match io.parts {
                Some(parts) => {
                    until += parts.all()[nth];
                    self.add_time(text, self.round(until) - from);
                }
                None => text.push('-'),
            });
        }
        let Line(mut line) = line;
        if self.with_cgroup {
            line += &format!(" {} ", io.cgroup.as_deref().unwrap_or("-"));
        }
        line + " " + io.file.as_deref().unwrap_or("-") + if io.failed { "  failed" } else { "" }
    }
}

/// A line of columns. The macros of `std::fmt` would take several times as long, which is much of what a line costs.
struct Line(String);

impl Line {
    fn left(&mut self, width: usize, add: impl FnOnce(&mut String)) {
        let begin = self.0.len();
        add(&mut self.0);
        let used = self.0[begin..].chars().count();
        self.0 += blanks(width, used);
        self.0.push(' ');
    }

    /// For a number.
    fn right(&mut self, width: usize, add: impl FnOnce(&mut String)) {
        let begin = self.0.len();
        add(&mut self.0);
        self.0.insert_str(begin, blanks(width, self.0.len() - begin));
        self.0.push(' ');
    }
}

/// What a column lacks.
fn blanks(width: usize, used: usize) -> &'static str {
    const BLANKS: &str = "                ";
    BLANKS.get(..width.saturating_sub(used)).unwrap_or_default()
}

/// Adds a number divided by a power of ten, with so many digits after the point.
fn add_decimal(text: &mut String, number: u64, digits: u32) {
    let point = 10_u64.pow(digits);
    let mut place = point;
    while number / place >= 10 {
        place *= 10;
    }
    loop {
        text.push(char::from(b'0' + (number / place % 10) as u8));
        if place == 1 {
            break;
        }
        if place == point {
            text.push('.');
        }
        place /= 10;
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn io() -> Io {
        Io {
            time: 12_345_000,
            task: "io".into(),
            pid: 158,
            tid: 158,
            disk: "nvme0n1".into(),
            lower: None,
            operation: "write".into(),
            flags: "Sync".into(),
            sector: 800,
            bytes: 4096,
            total: 12_064_000,
            parts: Parts::new([1_000, 24_000, 8_938_000, 12_034_000, 12_065_000]),
            requeues: 0,
            failed: false,
            cgroup: Some("/user".into()),
            file: Some("/mnt/f".into()),
        }
    }

    #[test]
    fn lines_stand_below_their_columns() {
        let form = Form { us: false, with_cgroup: false };
        let other =
            Io { disk: "dm-0".into(), lower: Some("nvme0n1".into()), bytes: 512, requeues: 1, ..io() };
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
