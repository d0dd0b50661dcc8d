//! Compares what a tool says with what happened.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::Serialize;
use wire::prove::{Clock, Counts, Op, Played, Process, Scene};

use crate::prove::adapter::{Adapter, Report, Seen};

/// What is said of one number of the tool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grade {
    /// What the number is about.
    pub of: String,
    /// What happened.
    pub truth: String,
    /// What the tool says.
    pub said: String,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Right,
    TooFew,
    /// Too few, and the tool says how many it missed.
    TooFewAndSaysSo,
    TooMany,
    WrongDisk,
    WrongOperation,
    WrongProcess,
    WrongSize,
    /// A time that the disk can't have taken, because it is set to take longer.
    TooShort,
    /// A time that is longer than the whole system call.
    TooLong,
    /// Right if it were another unit.
    WrongUnit,
    /// Its times count from another moment than it says.
    WrongClock,
    /// BPF programs are still loaded.
    LeavesSomething,
    NotReported,
}

impl Verdict {
    /// For people.
    pub fn says(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::TooFew => "too few, and it doesn't say so",
            Self::TooFewAndSaysSo => "too few, and it says how many it missed",
            Self::TooMany => "too many",
            Self::WrongDisk => "of another disk",
            Self::WrongOperation => "of another operation",
            Self::WrongProcess => "of another process",
            Self::WrongSize => "of another size",
            Self::TooShort => "shorter than the disk takes: this clock starts late, or stops early",
            Self::TooLong => "longer than the whole system call",
            Self::WrongUnit => "right in another unit",
            Self::WrongClock => "by another clock than it says",
            Self::LeavesSomething => "it leaves programs in the kernel",
            Self::NotReported => "not reported",
        }
    }

    pub fn is_fault(self) -> bool {
        !matches!(self, Self::Right | Self::TooFewAndSaysSo | Self::NotReported)
    }
}

/// What happened, as a tool should see it.
#[derive(Clone, Debug, Default)]
struct Fact {
    /// The disk's name in /dev.
    disk: String,
    op: Op,
    pid: u32,
    count: u64,
    /// Of each. `None`: they differ.
    size: Option<u64>,
    /// Of all.
    bytes: u64,
    /// At least this long, and at most, in microseconds.
    us: (f64, f64),
    /// Whether a tool may leave it out: a flush, which has no data, or what a disk does for another one.
    may_lack: bool,
}

/// What happened, of what a tool counts.
fn facts(scene: &Scene, played: &Played, counts: Counts) -> Vec<Fact> {
    let of = |it: &Process| {
        let mut disks = scene.disks.iter().zip(&played.disks);
        let on = disks.find(|(planned, _)| planned.name == it.disk).filter(|_| !it.cached);
        let call = Fact {
            op: it.op,
            pid: it.pid,
            count: it.count,
            size: Some(it.size),
            bytes: it.count * it.size,
            us: (0.0, it.max_us),
            ..Fact::default()
        };
        let (planned, disk) = match (counts, on) {
            (Counts::Calls | Counts::Files, _) => return vec![call],
            (Counts::Syncs, _) => return vec![Fact { op: Op::Flush, count: it.fsyncs, size: None, ..call }],
            (Counts::Pages, _) => {
                let op = if it.cached { Op::Hit } else { Op::Miss };
                return vec![Fact { op, count: it.count * it.size / 4096, size: None, ..call }];
            }
            (_, Some(on)) => on,
            (_, None) => return vec![],
        };
        let bio = Fact { disk: disk.device.clone(), us: (disk.us as f64, it.max_us), ..call };
        let request = match disk.stat.get(&it.op) {
            Some([ios, ..]) if planned.merges => Fact { count: *ios, size: None, ..bio.clone() },
            _ => {
                Fact { count: it.count * planned.pieces, size: Some(it.size / planned.pieces), ..bio.clone() }
            }
        };
        // The kernel's counters take it for a write.
        let op = if counts == Counts::Disks { Op::Write } else { Op::Flush };
        let us = (0.0, it.max_us);
        let flush = Fact { op, bytes: 0, count: it.fsyncs, size: Some(0), us, may_lack: true, ..bio.clone() };
        let above = disk.above.as_ref().map(|(above, _)| Fact { disk: above.clone(), ..bio.clone() });
        let mut all = match (counts, above) {
            (Counts::Bios, Some(above)) => vec![above, Fact { may_lack: true, ..bio }],
            (Counts::Bios, None) => vec![bio],
            (Counts::Disks, Some(above)) => vec![above, request],
            _ => vec![request],
        };
        all.push(flush);
        all.retain(|fact| fact.count > 0);
        all
    };
    played.done.iter().flat_map(of).collect()
}

/// Compares all that the tool says with what happened.
pub fn grades(scene: &Scene, played: &Played, adapter: &Adapter, report: &Report) -> Vec<Grade> {
    let mut facts = facts(scene, played, adapter.counts);
    let mut rows = report.rows.clone();
    rows.iter_mut().for_each(|row| row.disk = row.disk.take().map(|disk| device(played, disk)));
    // Whatever other processes did meanwhile.
    rows.retain(|row| !adapter.others || row.pid.is_none_or(|pid| facts.iter().any(|it| it.pid == pid)));
    let count = |facts: &[Fact]| facts.iter().map(|it| it.count).sum::<u64>();
    let said = rows.iter().map(|row| row.n).sum::<f64>() + 0.0;
    let least = count(&facts.iter().filter(|it| !it.may_lack).cloned().collect::<Vec<_>>());
    if said <= least as f64 {
        facts.retain(|it| !it.may_lack);
    }
    let seen = Compared {
        facts: &facts,
        rows: &rows,
        adapter,
        mean_us: played.done.first().map_or(0.0, |it| it.mean_us),
    };
    let mut grades = vec![seen.count("I/Os", count(&facts) as f64, said, report.lost)];
    let operation = |op: Op| format!("{op:?}").to_lowercase();
    let number = |pid: u32| pid.to_string();
    grades.extend(seen.by("disk", Verdict::WrongDisk, |it| it.disk.clone(), |row| row.disk.clone()));
    grades.extend(seen.by(
        "operation",
        Verdict::WrongOperation,
        |it| operation(it.op),
        |row| row.op.map(operation),
    ));
    // The kernel makes a flush for somebody, but by itself. Not every tool says what is a flush.
    let says = rows.iter().any(|row| row.op.is_some()) && adapter.counts != Counts::Syncs;
    let of_process = |op: Option<Op>, pid: u32| match op {
        Some(Op::Flush) if says => "-".to_owned(),
        _ => number(pid),
    };
    grades.extend(seen.by(
        "process",
        Verdict::WrongProcess,
        |it| of_process(Some(it.op), it.pid),
        |row| row.pid.map(|pid| of_process(row.op, pid)),
    ));
    if rows.iter().any(|row| row.bytes.is_some()) {
        let bytes = facts.iter().map(|it| it.bytes).sum::<u64>() as f64;
        grades.push(seen.count("bytes", bytes, rows.iter().filter_map(|row| row.bytes).sum(), None));
    }
    grades.extend(seen.sizes());
    grades.extend(seen.times());
    grades.extend(seen.clock(scene));
    grades.push(Grade {
        of: "what it leaves".to_owned(),
        truth: "0".to_owned(),
        said: played.left.to_string(),
        verdict: if played.left == 0 { Verdict::Right } else { Verdict::LeavesSomething },
    });
    grades
}

/// The disk that a tool means, which may say its number, `259:0`, or the kernel's own form of that.
fn device(played: &Played, said: String) -> String {
    let below = played.disks.iter().map(|disk| (&disk.device, disk.number));
    let all =
        below.chain(played.disks.iter().flat_map(|disk| &disk.above).map(|(name, number)| (name, *number)));
    let is_it = |(major, minor): (u64, u64)| {
        said == format!("{major}:{minor}") || said == (major << 20 | minor).to_string()
    };
    all.into_iter().find(|(_, number)| is_it(*number)).map_or(said.clone(), |(name, _)| name.clone())
}

/// What happened, and what a tool says of it.
struct Compared<'a> {
    facts: &'a [Fact],
    rows: &'a [Seen],
    adapter: &'a Adapter,
    /// Of the system calls of the first process.
    mean_us: f64,
}

impl Compared<'_> {
    fn count(&self, of: &str, truth: f64, said: f64, lost: Option<u64>) -> Grade {
        let near = truth * self.adapter.within / 100.0;
        let verdict = if said < truth - near {
            let says_so = lost.is_some_and(|lost| said + lost as f64 >= truth - near);
            if says_so { Verdict::TooFewAndSaysSo } else { Verdict::TooFew }
        } else if said > truth + near && !self.adapter.others {
            Verdict::TooMany
        } else {
            Verdict::Right
        };
        Grade { of: of.to_owned(), truth: truth.to_string(), said: said.to_string(), verdict }
    }

    /// How many I/Os each disk, operation or process has.
    fn by(
        &self,
        of: &str,
        wrong: Verdict,
        truth: impl Fn(&Fact) -> String,
        key: impl Fn(&Seen) -> Option<String>,
    ) -> Option<Grade> {
        let mut expected = BTreeMap::<_, f64>::new();
        self.facts.iter().for_each(|it| *expected.entry(truth(it)).or_default() += it.count as f64);
        let mut said = BTreeMap::<_, f64>::new();
        for row in self.rows {
            *said.entry(key(row).unwrap_or_else(|| "-".to_owned())).or_default() += row.n;
        }
        let verdict = if said.is_empty() || expected.keys().all(String::is_empty) {
            return None;
        } else if self.rows.iter().all(|row| key(row).is_none()) {
            Verdict::NotReported
        } else if self.differ(&expected, &said) {
            wrong
        } else {
            Verdict::Right
        };
        let said = if verdict == Verdict::NotReported { "-".to_owned() } else { shown(&said) };
        Some(Grade { of: of.to_owned(), truth: shown(&expected), said, verdict })
    }

    /// Whether something is under a wrong key. Too few or too many of all is another fault.
    fn differ<K: Ord>(&self, expected: &BTreeMap<K, f64>, said: &BTreeMap<K, f64>) -> bool {
        let of = |counts: &BTreeMap<K, f64>, key| counts.get(key).copied().unwrap_or_default();
        let more: f64 = said.iter().map(|(key, n)| (n - of(expected, key)).max(0.0)).sum();
        let less: f64 = expected.iter().map(|(key, n)| (n - of(said, key)).max(0.0)).sum();
        let near = expected.values().sum::<f64>() * self.adapter.within / 100.0;
        more.min(less) > near || !self.adapter.others && said.keys().any(|key| !expected.contains_key(key))
    }

    /// Whether each size can be that of an I/O, and as many of each as there were.
    fn sizes(&self) -> Option<Grade> {
        let mut expected = BTreeMap::<_, f64>::new();
        for it in self.facts {
            *expected.entry(it.size?).or_default() += it.count as f64;
        }
        let truth = expected.keys().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let mut said = BTreeMap::<_, f64>::new();
        for (row, (from, to)) in self.rows.iter().filter_map(|row| Some((row, row.size?))) {
            // No two sizes of a scene are in one row of a histogram.
            let size = expected.keys().find(|size| (from..to).contains(&(**size as f64)));
            *said.entry(size.copied().unwrap_or(from as u64)).or_default() += row.n;
        }
        let (said, verdict) = match said.is_empty() {
            true => ("-".to_owned(), Verdict::NotReported),
            false if self.differ(&expected, &said) => (shown(&said), Verdict::WrongSize),
            false => ("the same".to_owned(), Verdict::Right),
        };
        Some(Grade { of: "sizes in bytes".to_owned(), truth, said, verdict })
    }

    /// Whether each time is at least what its disk is set to, and at most what the longest of its system calls took; and
    /// whether as many are long as the slow disks had I/Os.
    fn times(&self) -> Option<Grade> {
        let mut least: Vec<_> = self.facts.iter().map(|it| it.us.0).filter(|us| *us > 0.0).collect();
        least.sort_by(f64::total_cmp);
        least.dedup();
        let set = least.iter().map(f64::to_string).collect::<Vec<_>>().join(", ");
        let rows = || self.rows.iter().filter_map(|row| row.time);
        let range = rows().reduce(|(least, most), (from, to)| (least.min(from), most.max(to)));
        let (said, verdict) = match range {
            None => ("-".to_owned(), Verdict::NotReported),
            Some((least, most)) => {
                let said = format!("{:.0} to {:.0} us", least / 1e3, most / 1e3);
                match self.misfits(1.0) {
                    (0.0, 0.0) => (said, Verdict::Right),
                    _ if [1e3, 1e-3].into_iter().any(|by| self.misfits(by) == (0.0, 0.0)) => {
                        (said, Verdict::WrongUnit)
                    }
                    (0.0, long) => (format!("{said}, {long} too long"), Verdict::TooLong),
                    (short, _) => (format!("{said}, {short} too short"), Verdict::TooShort),
                }
            }
        };
        let truth = if set.is_empty() { "any".to_owned() } else { format!("{set} us or more") };
        Some(Grade { of: "times".to_owned(), truth, said, verdict })
    }

    /// How many times are too short, and how many too long, if the tool's times are multiplied by this.
    fn misfits(&self, by: f64) -> (f64, f64) {
        let (mut short, mut long) = (0.0, 0.0);
        for (row, (from, to)) in self.rows.iter().filter_map(|row| Some((row, row.time?))) {
            // Of the processes whose I/Os it may be.
            let its = self.facts.iter().filter(|it| {
                row.disk.as_ref().is_none_or(|name| it.disk == *name)
                    && row.op.is_none_or(|op| it.op == op)
                    && row.pid.is_none_or(|pid| it.pid == pid)
            });
            let bounds = its.map(|it| it.us).reduce(|(least, most), us| (least.min(us.0), most.max(us.1)));
            // Of nobody: that is another fault.
            if let Some((least, most)) = bounds {
                short += if to * by <= least * 1e3 { row.n } else { 0.0 };
                long += if from * by > most * 1e3 { row.n } else { 0.0 };
            }
        }
        let all: u64 = self.facts.iter().map(|it| it.count).sum();
        let missing = (all as f64 - self.rows.iter().map(|row| row.n).sum::<f64>()).max(0.0);
        for slow in self.facts.iter().map(|it| it.us.0) {
            let its: u64 = self.facts.iter().filter(|it| it.us.0 >= slow).map(|it| it.count).sum();
            let seen = self.rows.iter().filter(|row| row.time.is_some_and(|(_, to)| to * by > slow * 1e3));
            short = short.max(its as f64 - missing - seen.map(|row| row.n).sum::<f64>());
        }
        (short, long)
    }

    /// Whether its times have the wait that the scene has, as its clock should.
    fn clock(&self, scene: &Scene) -> Option<Grade> {
        let waits = scene.waits?;
        let times = || self.rows.iter().filter_map(|row| Some((row.n, row.time?.0)));
        let all = times().map(|(n, _)| n).sum::<f64>();
        if all == 0.0 {
            return None;
        }
        // As far, by a factor, from what the disk takes as from what the system calls took. Both grow on a busy machine.
        let between = (scene.disks.first()?.us as f64 * self.mean_us).sqrt() * 1e3;
        let long = times().filter(|(_, from)| *from > between).map(|(n, _)| n).sum::<f64>();
        let has_wait = long > all / 2.0;
        let where_to = match waits {
            Clock::Bio => "a cgroup",
            Clock::Request => "the scheduler",
            Clock::Disk => return None,
        };
        let verdict = match self.adapter.clock {
            Some(clock) if (clock <= waits) != has_wait => Verdict::WrongClock,
            _ => Verdict::Right,
        };
        Some(Grade {
            of: "clock".to_owned(),
            truth: format!("most waited in {where_to}"),
            said: if has_wait { "with that" } else { "without that" }.to_owned(),
            verdict,
        })
    }
}

fn shown<K: Display>(counts: &BTreeMap<K, f64>) -> String {
    if counts.len() > 4 {
        return format!("{} of them", counts.len());
    }
    counts.iter().map(|(key, n)| format!("{key} {n}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prove::adapter::Adapter;
    use wire::prove::{Counted, Process};

    /// 30 writes to a disk that takes 2 ms, of which none took longer than 3 ms, and 20 reads of another one.
    fn played() -> (Scene, Played) {
        let disks = [("a", 2000, 1), ("b", 500, 2)];
        let scene = "name = 'x'\nsays = ''\nio = []\n\
            disks = [{ name = 'a', us = 2000 }, { name = 'b', us = 500 }]";
        let counted = |(name, us, minor): (&str, u64, u64)| Counted {
            name: name.to_owned(),
            device: format!("{name}0"),
            number: (259, minor),
            us,
            ..Counted::default()
        };
        let io = |disk: &str, op, pid, count, size| Process {
            disk: disk.to_owned(),
            op,
            pid,
            count,
            size,
            max_us: 3000.0,
            ..Process::default()
        };
        let done = vec![io("a", Op::Write, 7, 30, 4096), io("b", Op::Read, 8, 20, 512)];
        let played = Played { disks: disks.map(counted).into(), done, ..Played::default() };
        (toml::from_str(scene).unwrap(), played)
    }

    const ADAPTER: &str = "command = 'x'\nrow = '^(?<disk>[\\w:]+) (?<op>[RW]) (?<pid>\\d+) (?<n>\\d+): (?<from>\\d+) (?<to>\\d+)$'\n\
        unit = 'us'\nlost = ['^lost (?<n>\\d+)$']";

    /// What is wrong with a tool that prints this.
    fn faults(text: &str) -> Vec<(String, Verdict)> {
        faults_of(ADAPTER, text, |_, _| {})
    }

    /// The same for another adapter, and another scene.
    fn faults_of(
        adapter: &str,
        text: &str,
        change: impl Fn(&mut Scene, &mut Played),
    ) -> Vec<(String, Verdict)> {
        let adapter = Adapter::of(adapter).unwrap();
        let (mut scene, mut played) = played();
        change(&mut scene, &mut played);
        let grades = grades(&scene, &played, &adapter, &adapter.read(text).unwrap()).into_iter();
        grades.filter(|grade| grade.verdict.is_fault()).map(|grade| (grade.of, grade.verdict)).collect()
    }

    #[test]
    fn a_tool_that_is_right_is_right() {
        assert_eq!(faults("a0 W 7 30: 2048 4095\nb0 R 8 20: 512 1023\n"), []);
        // It need not say everything.
        let short = "command = 'x'\nrow = '^(?<n>\\d+)$'";
        assert_eq!(faults_of(short, "30\n20\n", |_, _| {}), []);
        // A disk has a number, too.
        assert_eq!(faults("259:1 W 7 30: 2048 4095\nb0 R 8 20: 512 1023\n"), []);
        // Rounded, and with what others did.
        assert_eq!(faults_of(&format!("{short}\nwithin = 5"), "49\n", |_, _| {}), []);
        assert_eq!(faults_of(&format!("{short}\nothers = true\ncounts = 'calls'"), "90\n", |_, _| {}), []);
    }

    #[test]
    fn each_way_to_be_wrong_has_its_verdict() {
        let all = |a: &str, b: &str| faults(&format!("a0 W 7 30: {a}\nb0 R 8 20: {b}\n"));
        let only = |of: &str, verdict| vec![(of.to_owned(), verdict)];
        // A lost event, silently or not.
        let lost = "a0 W 7 29: 2048 4095\nb0 R 8 20: 512 1023\n";
        assert_eq!(faults(lost), only("I/Os", Verdict::TooFew));
        assert_eq!(faults(&format!("{lost}lost 1\n")), []);
        assert_eq!(faults("")[0].1, Verdict::TooFew);
        // A filter by the wrong id, and a key without the disk.
        assert_eq!(
            faults("a0 W 7 30: 2048 4095\nb0 R 9 20: 512 1023\n"),
            only("process", Verdict::WrongProcess)
        );
        assert_eq!(faults("a0 W 7 30: 2048 4095\na0 R 8 20: 2048 4095\n"), only("disk", Verdict::WrongDisk));
        assert_eq!(
            faults("a0 R 7 30: 2048 4095\nb0 R 8 20: 512 1023\n"),
            only("operation", Verdict::WrongOperation)
        );
        // A start that was overwritten, and one that was not replaced.
        assert_eq!(all("100 200", "512 1023"), only("times", Verdict::TooShort));
        assert_eq!(all("2048 4095", "4096 8191"), only("times", Verdict::TooLong));
        // Milliseconds, and nanoseconds, under a heading that says microseconds.
        assert_eq!(all("2 3", "0 1"), only("times", Verdict::WrongUnit));
        assert_eq!(all("2048000 2950000", "512000 1023000"), only("times", Verdict::WrongUnit));
        // Everything twice is one fault.
        let twice = faults("a0 W 7 60: 2048 2900\nb0 R 8 40: 512 1023\n");
        assert_eq!(twice, only("I/Os", Verdict::TooMany));
        // Without the disk, as many must be slow as the slow disk had I/Os.
        let short = "command = 'x'\nrow = '^(?<n>\\d+) (?<value>\\d+)$'\nunit = 'us'";
        assert_eq!(faults_of(short, "30 2500\n20 600\n", |_, _| {}), []);
        assert_eq!(faults_of(short, "50 600\n", |_, _| {}), only("times", Verdict::TooShort));
        // In a table of two kinds of bytes.
        let sum = "command = 'x'\nrow = '^(?<n>\\d+) (?<kb>\\d+)$'";
        assert_eq!(faults_of(sum, "50 130\n", |_, _| {}), []);
        assert_eq!(faults_of(sum, "50 65\n", |_, _| {}), only("bytes", Verdict::TooFew));
    }

    #[test]
    fn each_layer_has_its_own_truth() {
        let row = "command = 'x'\nrow = '^(?<n>\\d+)(?: (?<disk>\\S+)?)?(?: (?<op>\\w+))?$'";
        let of = |counts: &str, text: &str, change: fn(&mut Scene, &mut Played)| {
            faults_of(&format!("{row}\ncounts = '{counts}'"), text, change)
        };
        // Split by the kernel, merged by it, and seen twice.
        let split = |scene: &mut Scene, _: &mut Played| scene.disks[0].pieces = 3;
        assert_eq!(of("bios", "50", split), []);
        assert_eq!(of("requests", "110", split), []);
        assert_eq!(of("requests", "50", split), [("I/Os".to_owned(), Verdict::TooFew)]);
        let merged = |scene: &mut Scene, played: &mut Played| {
            scene.disks[0].merges = true;
            played.disks[0].stat = [(Op::Write, [12, 18, 0])].into();
        };
        assert_eq!(of("bios", "50", merged), []);
        assert_eq!(of("requests", "32", merged), []);
        let mapped =
            |_: &mut Scene, played: &mut Played| played.disks[0].above = Some(("dm-0".to_owned(), (253, 0)));
        assert_eq!(of("requests", "30 a0\n20 b0", mapped), []);
        assert_eq!(of("bios", "30 253,0\n20 b0", mapped), []);
        assert_eq!(of("bios", "30 a0\n30 dm-0\n20 b0", mapped), []);
        assert_eq!(of("disks", "30 a0\n20 b0", mapped), [("I/Os".to_owned(), Verdict::TooFew)]);
        // A flush may be seen or not, a page is found or not.
        let flushed = |_: &mut Scene, played: &mut Played| played.done[0].fsyncs = 6;
        assert_eq!(of("requests", "50", flushed), []);
        assert_eq!(of("requests", "30 a0 W\n6 a0 FF\n20 b0 R", flushed), []);
        assert_eq!(of("requests", "51", flushed), [("I/Os".to_owned(), Verdict::TooFew)]);
        let cached = |_: &mut Scene, played: &mut Played| {
            (played.done[0].cached, played.done[1].size) = (true, 4096);
        };
        assert_eq!(of("pages", "30  hits\n20  misses", cached), []);
        assert_eq!(
            of("pages", "31  hits\n19  misses", cached),
            [("operation".to_owned(), Verdict::WrongOperation)]
        );
        assert_eq!(of("requests", "20 b0", cached), []);
    }

    #[test]
    fn a_clock_is_known_by_the_wait_that_it_has() {
        let of = |clock: &str, waits: Clock, us: u64| {
            let adapter =
                format!("command = 'x'\nrow = '^(?<n>\\d+) (?<value>\\d+)$'\nunit = 'us'\nclock = '{clock}'");
            faults_of(&adapter, &format!("50 {us}"), |scene, played| {
                scene.waits = Some(waits);
                played.done.iter_mut().for_each(|it| (it.max_us, it.mean_us) = (90_000.0, 50_000.0));
            })
        };
        let wrong = vec![("clock".to_owned(), Verdict::WrongClock)];
        assert_eq!(of("bio", Clock::Bio, 50_000), []);
        assert_eq!(of("bio", Clock::Bio, 2100), wrong);
        // A busy machine.
        assert_eq!(of("bio", Clock::Bio, 9000), wrong);
        assert_eq!(of("request", Clock::Bio, 2100), []);
        assert_eq!(of("request", Clock::Request, 50_000), []);
        assert_eq!(of("disk", Clock::Request, 50_000), wrong);
    }
}
