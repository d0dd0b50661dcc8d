//! What is right for this stage and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::fs;
use std::process::Command;
use std::time::Duration;

use common::{Error, OrCause, Result};
use libbpf_rs::MapType;
use libbpf_rs::query::MapInfoIter;
use wire::workload::Done;

use crate::check::{Check, Judged, Program, expect_none_missing, watch_stopped, watch_while};
use crate::null_blk::{NullBlk, long_enough};
use crate::running::{Observation, io};
use crate::system::{WithoutFs, queue};
use crate::truth;
use crate::verdict::{Checked, expect, expect_line};

/// See [`Check`].
pub const CHECK: Check = Check {
    program: Some(Program::Own(program)),
    exercises: &[("11.1", lost), ("11.2", percentiles), ("11.3", one_request)],
    ..Check::NONE
};

/// The size of our I/Os, which nobody else has.
const BYTES: u64 = 3 * 4096;

/// An I/O's line. Times in µs.
struct Shown<'a> {
    line: &'a str,
    task: &'a str,
    bytes: u64,
    total: u64,
    /// Before, queue, disk, end.
    parts: [u64; 4],
}

impl<'a> Shown<'a> {
    /// `None` for another line.
    fn of(line: &'a str) -> Option<Self> {
        let (task, numbers) = line.split_at_checked(16)?;
        let numbers = numbers.split_whitespace().map(|number| number.parse().ok());
        let numbers: [u64; 7] = numbers.collect::<Option<Vec<_>>>()?.try_into().ok()?;
        let [_sector, bytes, total, before, queue, disk, end] = numbers;
        Some(Self { line, task: task.trim_end(), bytes, total, parts: [before, queue, disk, end] })
    }
}

fn all(seen: &Observation) -> Vec<Shown<'_>> {
    seen.stdout.lines().filter_map(Shown::of).collect()
}

fn ours(seen: &Observation) -> Vec<Shown<'_>> {
    all(seen).into_iter().filter(|shown| shown.bytes == BYTES).collect()
}

/// A disk that takes one I/O at a time.
struct OneAtATime(NullBlk);

impl OneAtATime {
    /// Reads of neighboring blocks become one request only if `merges`.
    fn new(name: &str, time: Duration, merges: bool) -> Result<Self> {
        // On some kernels it is built in.
        let _ = Command::new("modprobe").arg("mq-deadline").status();
        let disk = Self(NullBlk::with(name, time, &[("hw_queue_depth", 1)])?);
        let nomerges = if merges { "0" } else { "2" };
        for (file, value) in [("scheduler", "mq-deadline"), ("nr_requests", "64"), ("nomerges", nomerges)] {
            fs::write(queue(&disk.device(), file)?, value).or_cause("cannot set up the disk")?;
        }
        Ok(disk)
    }

    fn device(&self) -> String {
        self.0.device.display().to_string()
    }

    /// `count` reads by each of some threads.
    fn read(&self, threads: u64, count: u64) -> Result<Done> {
        let [threads, count, bytes] = [threads, count, BYTES].map(|number| number.to_string());
        io(&["read-direct", &self.device(), "--threads", &threads, "--count", &count, "--size", &bytes])
    }

    /// What the kernel has counted of its reads: `merged` ones, and the `ticks`, how many ms all requests took.
    fn counted(&self) -> Result<[u64; 2]> {
        let stat = fs::read_to_string(queue(&self.device(), "../stat")?)
            .or_cause("cannot read the disk's counts")?;
        let numbers: Vec<_> = stat.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        match numbers[..] {
            [_, merged, _, ticks, ..] => Ok([merged, ticks]),
            _ => Err(Error::new("a disk's counts are malformed").evidence(&stat)),
        }
    }
}

/// What the program printed while `work` ran. Tries again if I/Os are missing: a preemptible kernel may skip a program.
fn watch_whole<T>(binary: &str, work: impl Fn() -> Result<T>) -> Checked<(Observation, T)> {
    const TRIES: usize = 3;
    for _ in 1..TRIES {
        let (seen, done) = watch_while(&[binary], &work)?;
        if truth::not_measured(&seen)? == 0 {
            return Ok((seen, done));
        }
    }
    Ok(watch_while(&[binary], work)?)
}

/// Beside reads of a disk that takes one at a time. What it takes is set, and the kernel counts the rest.
fn program(binary: &str) -> Checked<Judged> {
    let _without = WithoutFs::new()?;
    let mut time = Duration::from_millis(20);
    loop {
        let disk = OneAtATime::new(binary, time, false)?;
        let (seen, (done, ticks)) = watch_whole(binary, || {
            let [_, before] = disk.counted()?;
            let done = disk.read(4, 2)?;
            Ok((done, 1000 * (disk.counted()?[1] - before)))
        })?;
        let elapsed = (done.last_ns - done.first_ns).div_ceil(1000);
        let shown = ours(&seen);
        expect_lines(&seen, &shown, done.count, time)?;
        for one in &shown {
            let at = seen.at(|line| line == one.line);
            expect(one.task == "io", "the task `io`", format!("`{}`", one.task), at)?;
            expect(one.total <= elapsed, format!("a TOTAL of at most {elapsed}"), one.total.to_string(), at)?;
        }
        let sum = |part: usize| shown.iter().map(|one| one.parts[part]).sum::<u64>();
        // It takes one after the other, so the times in it don't overlap.
        expect(
            sum(2) <= elapsed,
            format!("a sum of DISK of at most {elapsed}: all reads took that long, one after the other"),
            sum(2).to_string(),
            &seen,
        )?;
        // The kernel's time of a request begins a little earlier, and ends a little later. On a busy machine, that may be
        // much, but not if the disk takes longer. It counts in ms.
        let with_queue = sum(1) + sum(2);
        let is_right = (ticks - ticks / 20..=ticks + 1000 + 2 * done.count).contains(&with_queue);
        if !is_right && time < Duration::from_secs(1) {
            time *= 4;
            continue;
        }
        expect(
            is_right,
            format!("a sum of QUEUE and DISK of about {ticks}, as the kernel counts for this disk"),
            with_queue.to_string(),
            &seen,
        )?;
        expect_split(binary, &disk)?;
        let [queue, disk] = [sum(1), sum(2)].map(|us| us / 1000);
        let right = format!("{} reads waited {queue} ms in the queue and {disk} ms in the disk", done.count);
        return Ok((seen, right + ", as the kernel counts"));
    }
}

/// A read that the disk does not take in one request: no line would be right, so it is counted.
fn expect_split(binary: &str, disk: &OneAtATime) -> Checked {
    fs::write(queue(&disk.device(), "max_sectors_kb")?, "8").or_cause("cannot set up the disk")?;
    let (seen, _) = watch_while(&[binary], || disk.read(1, 1))?;
    let (lines, missing) = (ours(&seen).len(), truth::not_measured(&seen)?);
    expect(
        (lines, missing) == (0, 1),
        "no line for a read that is split, and 1 in the last line",
        format!("{lines} lines, and {missing} in the last one"),
        &seen,
    )
}

/// So many lines, whose parts add up, with at least the disk's time.
fn expect_lines(seen: &Observation, shown: &[Shown<'_>], count: u64, time: Duration) -> Checked {
    expect(
        shown.len() as u64 == count,
        format!("{count} lines with {BYTES} bytes, one for each I/O"),
        shown.len().to_string(),
        seen,
    )?;
    let time = time.as_micros() as u64;
    for one in shown {
        let at = seen.at(|line| line == one.line);
        let [before, queue, disk, end] = one.parts;
        let sum = before + queue + disk + end;
        expect(sum == one.total, format!("four parts whose sum is {}", one.total), sum.to_string(), at)?;
        let least = format!("DISK of {time} or more, for which the disk is set up");
        expect(disk >= time, least, disk.to_string(), at)?;
    }
    Ok(())
}

/// How many of its records the program's ring buffer has room for. The kernel puts 8 bytes before each.
fn room() -> u64 {
    const RECORD: u64 = 72 + 8;
    let rings = MapInfoIter::default().filter(|map| map.ty == MapType::RingBuf);
    rings.map(|ring| u64::from(ring.max_entries) / RECORD).max().unwrap_or_default()
}

fn lost(binary: &str) -> Checked<String> {
    const BURST: u64 = 1000;
    let _without = WithoutFs::new()?;
    let disk = NullBlk::with(binary, Duration::ZERO, &[("irqmode", 0)])?;
    let device = disk.device.display().to_string();
    let write = ["write", &device, "--count", &BURST.to_string(), "--size", &BYTES.to_string()];
    let bursts = |number: u64| -> Checked<[u64; 2]> {
        let (seen, room) = watch_stopped(&[binary], || {
            (0..number).try_for_each(|_| io(&write).map(drop))?;
            Ok(room())
        })?;
        let (shown, all) = (ours(&seen).len() as u64, number * BURST);
        let why = format!("{shown} of {all} writes have a line");
        expect_line(&seen, "Lost: ", all.saturating_sub(shown), &why)?;
        expect(number > 1 || shown == all, "room for a burst of 1,000 I/Os", why, &seen)?;
        Ok([shown, room])
    };
    let [_, room] = bursts(1)?;
    let many = room / BURST + 3;
    let [shown, _] = bursts(many)?;
    let many = many * BURST;
    Ok(format!("a burst of 1,000 I/Os has room; of {many}, {shown} have a line, and the others are counted"))
}

fn percentiles(binary: &str) -> Checked<String> {
    let [fast, slow] = [("fast", 20), ("slow", 200)].map(|(name, ms)| {
        let disk = NullBlk::new(&format!("{binary}-{name}"), Duration::from_millis(ms));
        disk.map(|disk| (disk.device.display().to_string(), disk))
    });
    let ((fast, _fast), (slow, _slow)) = (fast?, slow?);
    let _without = WithoutFs::new()?;
    let (seen, ()) = watch_whole(binary, || {
        let read = |disk: &str, count: &str| io(&["read-direct", disk, "--count", count]).map(drop);
        read(&fast, "9").and_then(|()| read(&slow, "1"))
    })?;
    let shown = all(&seen);
    expect(shown.len() == 10, "10 lines, one for each read", shown.len().to_string(), &seen)?;
    let right = [0, 1, 2, 3].map(|part| {
        let mut times: Vec<_> = shown.iter().map(|one| one.parts[part]).collect();
        times.sort_unstable();
        times.get((times.len() * 9).div_ceil(10).saturating_sub(1)).copied().unwrap_or_default()
    });
    let [before, queue, disk, end] = right;
    let right = format!("before {before}, queue {queue}, disk {disk}, end {end}");
    expect_line(
        &seen,
        "p90: ",
        &right,
        &format!("nine of ten of the {} I/Os above took that long", shown.len()),
    )?;
    Ok(format!("of {} I/Os, nine of ten got through each part in the time that is reported", shown.len()))
}

fn one_request(binary: &str) -> Checked<String> {
    const READS: u64 = 16;
    let _without = WithoutFs::new()?;
    let (time, seen, merged) = long_enough(Duration::from_millis(200), |time| {
        let disk = OneAtATime::new(binary, time, true)?;
        let (seen, merged) = watch_whole(binary, || {
            let [before, _] = disk.counted()?;
            disk.read(READS, 1)?;
            Ok(disk.counted()?[0] - before)
        })?;
        // The others had to come while the first one was in the disk.
        Ok((merged >= READS / 2).then_some((time, seen, merged)))
    })?;
    expect_lines(&seen, &ours(&seen), READS, time)?;
    expect_none_missing(&seen, "all reads have a line")?;
    Ok(format!("each of {READS} reads has its line, although the block layer merged {merged} of them"))
}
