//! The ways to count and time bios that the book compares: those of `lab/ways`, and other people's tools.

use std::collections::BTreeSet;

/// In [`Way::argv`], the place of the disk's device, such as `/dev/nvme1n1`.
pub const DISK: &str = "DISK";

/// How to know that a command's probes are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// It prints a line that begins like this, on stdout or stderr.
    Says(&'static str),
    /// Its threads sleep in each of these system calls of x86_64, the first thread in the first. This is for tools whose
    /// line stays in a buffer when stdout is not a terminal.
    SleepsIn(&'static [u32]),
}

impl Attached {
    /// It sleeps in `clock_nanosleep(2)`.
    pub const SLEEPS: Self = Self::SleepsIn(&[230]);
}

/// poll(2), as `/proc/PID/syscall` shows it.
const POLL: u32 = 7;
/// futex(2)
const FUTEX: u32 = 202;

/// A way to count and time bios. For a new way, add a row to [`WAYS`]: the measurements, the tables and the chart use
/// nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Its name in the data and in the book.
    pub name: &'static str,
    /// Its command, which ends on Ctrl-C.
    pub argv: &'static [&'static str],
    /// How to know that it is attached.
    pub attached: Attached,
    /// A command that prints what it has recorded; empty if it prints that itself.
    pub report: &'static [&'static str],
    /// Finds in what was printed how many bios it counted.
    pub counted: fn(&str) -> Option<u64>,
    /// Finds in what was printed how many it reports as missed or lost; `None` if it reports nothing.
    pub missed: fn(&str) -> Option<u64>,
    /// What it times.
    pub times: &'static str,
    /// The first Linux that has it.
    pub since: (u32, u32),
    /// The kernel's option that it needs, if some distributions build without it.
    pub option: Option<&'static str>,
    /// What must stay the same in the kernel for it to work.
    pub rests_on: &'static str,
    /// Whether it is somebody else's tool, which only a guest with those tools has.
    pub is_peer: bool,
}

/// The ways, in the order of the book.
pub const WAYS: &[Way] = &[
    Way {
        name: "kprobe, trace pipe",
        argv: &["ways", "printk"],
        missed: |text| Some(number(text, "calls missed: ")? + number(text, "trace lines lost: ")?),
        ..OURS
    },
    Way { name: "kprobe, map", argv: &["ways", "kprobe"], ..OURS },
    Way {
        name: "fentry, map",
        argv: &["ways", "fentry"],
        since: (5, 5),
        rests_on: "the function's name and arguments (BTF)",
        ..OURS
    },
    Way {
        name: "tp_btf, map",
        argv: &["ways", "tp_btf"],
        times: "the bio, from its queue to the end of its request",
        since: (5, 5),
        rests_on: "the tracepoint and its arguments",
        ..OURS
    },
    Way {
        name: "raw tracepoint, map",
        argv: &["ways", "raw_tp"],
        times: "the bio, from its queue to the end of its request",
        since: (4, 17),
        rests_on: "the tracepoint and its arguments",
        ..OURS
    },
    Way {
        name: "kprobe.multi, map",
        argv: &["ways", "multi"],
        since: (5, 18),
        option: Some("CONFIG_FPROBE"),
        ..OURS
    },
    Way {
        name: "kprobe.session",
        argv: &["ways", "session"],
        times: "the call of submit_bio()",
        since: (6, 10),
        option: Some("CONFIG_FPROBE"),
        ..OURS
    },
    Way {
        name: "fsession",
        argv: &["ways", "fsession"],
        times: "the call of submit_bio()",
        since: (7, 0),
        rests_on: "the function's name and arguments (BTF)",
        ..OURS
    },
    Way {
        name: "bpftrace",
        argv: &[
            "measure",
            "tool",
            "bpftrace",
            "-e",
            "kprobe:submit_bio { @start[arg0] = nsecs } \
             kprobe:bio_endio /@start[arg0]/ { @us = hist((nsecs - @start[arg0]) / 1000); delete(@start, arg0) }",
        ],
        attached: Attached::Says("Attached "),
        times: "the bio, from submit_bio() to bio_endio()",
        rests_on: "the function's name",
        ..PEER
    },
    Way {
        name: "bcc: biolatency",
        argv: &["measure", "tool", "biolatency-bpfcc"],
        times: "the request, from its start to its end",
        rests_on: "the kernel's headers; tracepoints, or functions on older kernels",
        ..PEER
    },
    Way {
        name: "libbpf-tools: biolatency",
        argv: &["measure", "tool", "biolatency-libbpf"],
        since: (5, 2),
        times: "the request, from its issue to its end",
        rests_on: "the tracepoint and its arguments",
        ..PEER
    },
    Way {
        name: "trace-cmd",
        argv: &[
            "measure",
            "tool",
            "trace-cmd",
            "record",
            "-e",
            "block:block_bio_queue",
            "-e",
            "block:block_rq_complete",
            "-o",
            "/tmp/trace.dat",
        ],
        report: &["measure", "tool", "trace-cmd", "report", "-i", "/tmp/trace.dat"],
        counted: |text| pairs(text, "block_bio_queue:", "block_rq_complete:"),
        missed: |text| Some(sum(text, "overrun: ") + sum(text, "dropped events: ")),
        since: (2, 6),
        ..PEER
    },
    Way {
        name: "perf trace",
        argv: &[
            "measure",
            "tool",
            "perf",
            "trace",
            "-a",
            "-e",
            "block:block_bio_queue,block:block_rq_complete",
        ],
        attached: Attached::SleepsIn(&[POLL]),
        counted: |text| pairs(text, "block_bio_queue(", "block_rq_complete("),
        missed: |text| Some(sum(text, "LOST ")),
        since: (2, 6),
        ..PEER
    },
    Way {
        name: "blktrace",
        argv: &["measure", "tool", "blktrace", "-d", DISK, "-D", "/tmp", "-o", "trace"],
        // The main thread starts to trace after the others have begun to read, and then waits for them.
        attached: Attached::SleepsIn(&[FUTEX, POLL]),
        report: &["measure", "tool", "blkparse", "-D", "/tmp", "-i", "trace"],
        counted: |text| pairs(text, " Q ", " C "),
        missed: |text| number(text, "(dropped "),
        since: (2, 6),
        option: Some("CONFIG_BLK_DEV_IO_TRACE"),
        ..PEER
    },
];

/// What most of the ways of `lab/ways` have in common.
const OURS: Way = Way {
    name: "",
    argv: &[],
    attached: Attached::Says("Tracing."),
    report: &[],
    counted: |text| number(text, "Bios: "),
    missed: |text| number(text, "calls missed: "),
    times: "the bio, from submit_bio() to bio_endio()",
    since: (4, 1),
    option: None,
    rests_on: "the function's name",
    is_peer: false,
};

/// What most of the other people's tools have in common: they print a histogram, and sleep until Ctrl-C.
const PEER: Way = Way {
    attached: Attached::SLEEPS,
    counted: histogram,
    missed: |_| None,
    times: "the bio, from its queue to the end of its request",
    rests_on: "the tracepoint and its fields",
    is_peer: true,
    ..OURS
};

/// The way with this name.
pub fn named(name: &str) -> Option<&'static Way> {
    WAYS.iter().find(|way| way.name == name)
}

/// The number that follows `label` where it first appears.
pub fn number(text: &str, label: &str) -> Option<u64> {
    let rest = text.split_once(label)?.1;
    rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
}

/// The sum of the numbers that follow `label`, each time it appears.
fn sum(text: &str, label: &str) -> u64 {
    text.match_indices(label).filter_map(|(at, _)| number(&text[at..], label)).sum()
}

/// The sum of a histogram's counts: each is before the bar, which begins with `|`.
fn histogram(text: &str) -> Option<u64> {
    let counts =
        text.lines().filter_map(|line| line.split_once('|')?.0.split_whitespace().next_back()?.parse().ok());
    counts.reduce(|sum: u64, count| sum + count)
}

/// How many writes have begun and ended: lines of the event `begin` with a sector that a line of the event `end` has,
/// too.
fn pairs(text: &str, begin: &str, end: &str) -> Option<u64> {
    let sectors = |event| {
        let lines = text.lines().filter(move |line: &&str| line.contains(event) && line.contains('W'));
        // trace-cmd prints SECTOR + LENGTH, and perf sector: SECTOR.
        lines.filter_map(|line| match line.split_once(" + ") {
            Some((before, _)) => before.rsplit(' ').next()?.parse().ok(),
            None => number(line, "sector: "),
        })
    };
    let ended: BTreeSet<u64> = sectors(end).collect();
    Some(sectors(begin).filter(|sector| ended.contains(sector)).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_our_ways_print_is_understood() {
        let text = "Bios: 1000, ns: 52, trace lines lost: 4. Starts without an end: 0, calls missed: 3\n";
        let found = |name| named(name).map(|way| ((way.counted)(text), (way.missed)(text)));
        assert_eq!(found("kprobe, map"), Some((Some(1000), Some(3))));
        assert_eq!(found("kprobe, trace pipe"), Some((Some(1000), Some(7))));
        let older = "calls missed: not known (the kernel counts them all from 6.7 on)";
        assert_eq!((number(older, "calls missed: "), number(older, "lost: ")), (None, None));
    }

    #[test]
    fn what_other_tools_print_is_understood() {
        let bpftrace = "@us:\n[32, 64)        40 |@@@@@   |\n[64, 128)      960 |@@@@@@@@|\n";
        let bcc = "     usecs   : count    distribution\n    64 -> 127   : 7   |****    |\n";
        assert_eq!((histogram(bpftrace), histogram(bcc), histogram("usecs\n")), (Some(1000), Some(7), None));

        let report = "io-193 [000] 5.1: block_bio_queue: 259,1 WS 8 + 8 [io]\n\
             io-193 [000] 5.2: block_rq_complete: 259,1 WS () 8 + 8 [0]\n\
             io-193 [000] 5.3: block_bio_queue: 259,1 WS 16 + 8 [io]\n\
             sh-7 [000] 5.4: block_bio_queue: 259,2 R 8 + 8 [sh]\n\
             CPU0: 3 overrun: 40\nCPU1: overrun: 2\n";
        assert_eq!(pairs(report, "block_bio_queue:", "block_rq_complete:"), Some(1));
        assert_eq!(sum(report, "overrun: "), 42);
    }
}
