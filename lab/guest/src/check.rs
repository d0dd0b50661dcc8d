//! In the guest: the checks of the exercises. Each runs the learner's program beside a known workload, and decides by
//! the program's output whether it is right.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::Barrier;
use std::time::Duration;
use std::{iter, thread};

use common::trace_pipe::Line;
use common::{Error, OrCause, Result};
use memmap2::Mmap;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::{major, minor};
use nix::unistd::{Pid, gettid, sync};
use toolkit::histogram::Histogram;
use wire::command::output;
use wire::disks::{FS_MOUNT, RAW_DEVICE};
use wire::verdict::Verdict;
use wire::workload::Done;

use crate::demo;
use crate::device_mapper::{PIECES, with_split};
use crate::null_blk::{NullBlk, long_enough};
use crate::running::{Observation, Running, io};
use crate::system::{SecondFs, WithoutFs, evict};
use crate::truth::{self, Event, durations, events};
use crate::verdict::{Checked, Failure, expect, expect_line, wrong};

/// Runs a program and returns what it did right.
type Check = fn(&str) -> Checked<String>;

/// The checks by exercise.
const CHECKS: &[(&str, Check)] = &[
    ("01.1", only_io),
    ("01.2", two_doors),
    ("02.1", both_counts),
    ("02.2", the_right_end),
    ("02.3", kprobe_misses),
    ("03.1", nothing_stays),
    ("03.2", who_waited),
    ("03.3", whole_bios),
    ("04.1", average_of_all_cpus),
    ("04.2", fastest),
    ("05.1", only_real_sectors),
    ("05.2", size),
    ("06.1", who_submitted),
    ("06.2", code_paths),
    ("06.3", records),
    ("07.1", in_flight),
    ("07.2", reads_and_writes),
    ("08.1", different_pages),
    ("08.2", bytes_read),
    ("09.1", to_the_last_thread),
    ("09.2", children),
    ("09.3", worst_files),
    ("10.1", only_bios),
    ("10.2", one_bio),
    ("bigreads.1", failed_reads),
    ("biolatency.1", only_what_somebody_waits_for),
    ("bitehist.1", all_data),
    ("bitesize.1", reads_or_writes),
    ("hello_clone.1", processes_and_threads),
    ("hello_perf_output.1", all_losses),
    ("page_cache_scenario.1", a_first_read_that_misses),
    ("tracex3.1", half_of_the_requests),
];

/// How often to repeat a check in which the kernel did not show some calls, as a preemptible kernel sometimes does.
const TRIES: usize = 30;

/// Checks a program.
///
/// # Errors
/// If it can't be judged, because it does not run or the guest lacks something.
pub fn run(exercise: &str, binary: &str) -> Result<Verdict> {
    match check(exercise, binary) {
        Ok(seen) => Ok(Verdict::Right(seen)),
        Err(Failure::Wrong(fault)) => Ok(Verdict::Wrong(fault)),
        Err(Failure::Error(error)) => Err(error),
    }
}

fn check(exercise: &str, binary: &str) -> Checked<String> {
    // Write everything that is pending, so that its I/O doesn't count as the program's.
    sync();
    if let Ok(stage) = exercise.parse() {
        let (_, verdict) = demo::verdict(stage, binary)?;
        return match stage {
            5 => sectors(binary).map(|_| format!("{verdict}; and the sectors are those that were written")),
            _ => Ok(verdict),
        };
    }
    let check = CHECKS.iter().find(|(id, _)| *id == exercise);
    check.ok_or_else(|| Error::new(format!("{exercise} has no check")))?.1(binary)
}

/// What the program printed while `work` ran, until Ctrl-C.
fn watch_while<T>(argv: &[&str], work: impl FnOnce() -> Result<T>) -> Result<(Observation, T)> {
    let program = Running::start(argv)?;
    let done = work()?;
    let seen = program.end(Signal::SIGINT)?;
    succeeded(&seen)?;
    Ok((seen, done))
}

/// Like [`watch_while`], but tries again if the kernel did not show some calls, which the program reports.
fn watch_all<T>(argv: &[&str], work: impl Fn() -> Result<T>) -> Result<(Observation, T)> {
    for _ in 1..TRIES {
        let (seen, done) = watch_while(argv, &work)?;
        if !seen.stderr.contains("the kernel did not run the programs for") {
            return Ok((seen, done));
        }
    }
    watch_while(argv, work)
}

fn succeeded(seen: &Observation) -> Result<()> {
    if seen.status.success() {
        return Ok(());
    }
    Err(Error::new(format!("the program failed: {}", seen.status)).evidence(&seen.stderr))
}

/// What the program printed while `io` ran.
fn watch(binary: &str, arguments: &str) -> Result<(Observation, Done)> {
    watch_while(&[binary], || io(&arguments.split(' ').collect::<Vec<_>>()))
}

/// The number in the first line that is `before`, the number, and `after`.
fn number(seen: &Observation, before: &str, after: &str) -> Option<u64> {
    seen.stdout.lines().find_map(|line| line.strip_prefix(before)?.strip_suffix(after)?.parse().ok())
}

/// The two numbers in the last line of the form `FIRST: N, SECOND: N`.
fn pair(seen: &Observation, first: &str, second: &str) -> Checked<(u64, u64)> {
    let found = seen.stdout.lines().rev().find_map(|line| {
        let (one, two) = line.strip_prefix(&format!("{first}: "))?.split_once(&format!(", {second}: "))?;
        Some((one.parse().ok()?, two.parse().ok()?))
    });
    let form = format!("`{first}: N, {second}: N`");
    found.ok_or_else(|| wrong(format!("a line {form}"), "no such line", seen))
}

/// Fails unless these are the two numbers of [`pair`], because of `why`.
fn expect_pair(seen: &Observation, [first, second]: [&str; 2], right: (u64, u64), why: &str) -> Checked {
    let line = |(one, two)| format!("{first}: {one}, {second}: {two}");
    let found = pair(seen, first, second)?;
    let (right, found) = (line(right), line(found));
    expect(right == found, format!("`{right}`: {why}"), format!("`{found}`"), seen.at(|line| line == found))
}

/// Fails unless the number of the line of this form is right; a right one is this, because of `why`.
fn expect_number(
    seen: &Observation,
    begin: &str,
    right: u64,
    why: &str,
    is_right: impl FnOnce(u64) -> bool,
) -> Checked {
    match number(seen, begin, "") {
        Some(found) if is_right(found) => Ok(()),
        _ => expect_line(seen, begin, right, why),
    }
}

/// Fails unless the last line reports that no duration is missing, because of `why`.
fn expect_none_missing(seen: &Observation, why: &str) -> Checked {
    let missing = truth::not_measured(seen)?;
    let last = seen.stdout.lines().last();
    expect(
        missing == 0,
        format!("a last line that begins with `{}0`: {why}", truth::NOT_MEASURED),
        format!("`{}`", last.unwrap_or_default()),
        seen.at(|line| Some(line) == last),
    )
}

/// A number of things, as one says it.
fn count_of(count: impl Into<u64>, what: &str) -> String {
    match count.into() {
        0 => format!("no {what}"),
        1 => format!("one {what}"),
        count => format!("{count} {what}s"),
    }
}

fn only_io(binary: &str) -> Checked<String> {
    // Its name begins like that of `io`.
    let other = Path::new("/tmp/iostat");
    let _ = fs::remove_file(other);
    symlink("/bin/io", other).or_cause("cannot make a program called iostat")?;
    let (seen, done) = watch_while(&[binary], || {
        output(Command::new(other).args(["write", RAW_DEVICE]))?;
        io(&["write", RAW_DEVICE])
    })?;
    let lines = seen.lines().len() as u64;
    expect(
        lines == done.count,
        format!("{} lines, one for each bio that io submitted to {RAW_DEVICE}", done.count),
        count_of(lines, "line"),
        seen.at_trace(|line| line.pid != done.pid),
    )?;
    // This involves the journal's thread and the kernel's workers.
    let file = format!("{FS_MOUNT}/{binary}");
    let (seen, done) = watch(binary, &format!("sync {file}"))?;
    fs::remove_file(&file).or_cause("cannot remove the file")?;
    if let Some(other) = seen.lines().iter().find(|line| line.pid != done.pid) {
        return Err(wrong(
            format!("only lines of io, which was process {}", done.pid),
            format!("a line of {}, which was process {}", other.task, other.pid),
            seen.at_trace(|line| line.pid != done.pid),
        ));
    }
    Ok(format!("{lines} lines for {lines} writes of io, and none of what the others did during a sync"))
}

fn two_doors(binary: &str) -> Checked<String> {
    let (seen, done) = watch(binary, &format!("write {RAW_DEVICE}"))?;
    let bio = |function: &str| -> Vec<String> {
        let prefix = format!("{function}(bio=0x");
        let address =
            |message: &str| Some(message.strip_prefix(&prefix)?.split_once(") called: ")?.0.to_owned());
        seen.lines().iter().filter_map(|line| address(line.message)).collect()
    };
    let (first, second) = (bio("submit_bio"), bio("submit_bio_noacct"));
    for (function, found) in [("submit_bio", &first), ("submit_bio_noacct", &second)] {
        expect(
            found.len() as u64 == done.count,
            format!("{} lines `{function}(bio=0x...) called: ...`, one for each write", done.count),
            count_of(found.len() as u64, "such line"),
            &seen,
        )?;
    }
    if let Some(other) = iter::zip(&first, &second).position(|(first, second)| first != second) {
        let mut nth = 0..;
        let (first, second) = (&first[other], &second[other]);
        return Err(wrong(
            "both functions get the same bios, in the same order",
            format!("submit_bio(bio=0x{first}), but then submit_bio_noacct(bio=0x{second})"),
            seen.at(|line| line.contains("submit_bio_noacct(bio=0x") && nth.next() == Some(other)),
        ));
    }
    Ok(format!("{} bios passed both functions, one after the other", done.count))
}

fn both_counts(binary: &str) -> Checked<String> {
    let (seen, done) = watch(binary, &format!("write {RAW_DEVICE} --count 16"))?;
    let names = ["Starts", "ends"];
    expect_pair(&seen, names, (done.count, done.count), &format!("io wrote {} times", done.count))?;
    // Larger than what the disk takes at once: the block layer splits it.
    let (seen, _) = watch(binary, &format!("write {RAW_DEVICE} --count 1 --size 1048576"))?;
    let events = events(&seen)?;
    let ends = events.iter().filter(|(_, event)| matches!(event, Event::End { .. })).count() as u64;
    expect_pair(&seen, names, (1, ends), "one large write was split, and its lines show that many ends")?;
    Ok(format!("16 and 16 for small writes; 1 and {ends} for one that was split"))
}

fn the_right_end(binary: &str) -> Checked<String> {
    const TIME: Duration = Duration::from_millis(20);
    let disk = NullBlk::new(binary, TIME)?;
    let (seen, done) = watch(binary, &format!("write {} --count 4", disk.device.display()))?;
    let lines = seen.lines();
    let times = |words: &str| -> Vec<u64> {
        lines.iter().filter_map(|line| line.message.strip_prefix(words)?.parse().ok()).collect()
    };
    let (starts, ends) = (times("submit_bio() called: "), times("bio_endio() called: "));
    let returns = times("submit_bio() returned: ");
    let count = done.count as usize;
    for (words, times) in [
        ("submit_bio() called: ", &starts),
        ("submit_bio() returned: ", &returns),
        ("bio_endio() called: ", &ends),
    ] {
        expect(
            times.len() == count,
            format!("{count} lines `{words}...`, one for each write"),
            count_of(times.len() as u64, "such line"),
            &seen,
        )?;
    }
    let took = |(start, end): (&u64, &u64)| (end.saturating_sub(*start), *end);
    let (shortest, end) = iter::zip(&starts, &ends).map(took).min().unwrap_or_default();
    expect(
        shortest >= TIME.as_nanos() as u64,
        "each write takes 20 ms or longer, because this disk does",
        format!("one that ended after {} µs", shortest / 1000),
        seen.at_trace(|line| line.message == format!("bio_endio() called: {end}")),
    )?;
    let before = returns.iter().zip(&ends).filter(|(returned, ended)| returned < ended).count();
    Ok(format!(
        "on a disk that takes 20 ms, no write ended earlier than after {:.1} ms; submit_bio() had returned before in {before} \
         of {count}, since it does not wait for the disk",
        shortest as f64 / 1e6
    ))
}

fn kprobe_misses(binary: &str) -> Checked<String> {
    const NAMES: [&str; 2] = ["Ends seen by fentry", "by kprobe"];
    let (seen, done) = watch(binary, &format!("write {RAW_DEVICE} --count 16"))?;
    expect_pair(&seen, NAMES, (done.count, done.count), &format!("io wrote {} times", done.count))?;
    let (seen, done) = watch(binary, &format!("write {RAW_DEVICE} --threads 4 --count 250"))?;
    let (by_fentry, by_kprobe) = pair(&seen, NAMES[0], NAMES[1])?;
    expect(
        by_fentry == done.count && by_kprobe <= done.count,
        format!("{} ends seen by fentry, which misses none, and at most as many by kprobe", done.count),
        format!("{by_fentry} and {by_kprobe}"),
        seen.at(|line| line.starts_with(NAMES[0])),
    )?;
    Ok(format!("16 and 16 for one writer; of {by_fentry} ends of four writers the kprobe saw {by_kprobe}"))
}

/// How long a bio must take at least, in nanoseconds, to be shown in 03.1.
const SLOW: u64 = 10_000_000;

fn nothing_stays(binary: &str) -> Checked<String> {
    const SLOW_WRITES: u64 = 8;
    let slow = NullBlk::new(binary, Duration::from_nanos(2 * SLOW))?;
    let (seen, ()) = watch_while(&[binary], || {
        // The fast ones come last: a slow bio at the same address would take the entry that a fast one left.
        io(&["write", &slow.device.to_string_lossy(), "--count", &SLOW_WRITES.to_string()])?;
        io(&["write", RAW_DEVICE, "--count", "200"]).map(drop)
    })?;
    let events = events(&seen)?;
    // What each bio took, by its two lines.
    let (mut starts, mut fast, mut slow) = (HashMap::new(), 0, Vec::new());
    for (_, event) in &events {
        match *event {
            Event::Submit { bio, ns } => drop(starts.insert(bio, ns)),
            Event::End { bio, ns } => match starts.remove(&bio).map(|start| ns - start) {
                Some(ns @ SLOW..) => slow.push(ns),
                Some(_) => fast += 1,
                None => {}
            },
            _ => {}
        }
    }
    expect_none_missing(&seen, &format!("all {} writes ended", fast + slow.len()))?;
    let mut shown = durations(&events);
    shown.sort_unstable();
    slow.sort_unstable();
    let is_wrong = |line: &Line<'_>| matches!(Event::parse(line.message), Some(Event::Duration { ns }) if !slow.contains(&ns));
    expect(
        slow.len() as u64 >= SLOW_WRITES && shown == slow,
        format!("{}: that many bios took 10 ms or longer", count_of(slow.len() as u64, "duration")),
        match shown.iter().filter(|ns| !slow.contains(ns)).count() {
            0 => count_of(shown.len() as u64, "duration"),
            others => {
                format!("{}, {others} of them of other bios", count_of(shown.len() as u64, "duration"))
            }
        },
        seen.at_trace(is_wrong),
    )?;
    expect_line(&seen, "Not shown: ", fast, "that many bios took less than 10 ms")?;
    Ok(format!("{} slow bios are shown and {fast} fast ones are not, and none stayed in the map", slow.len()))
}

fn who_waited(binary: &str) -> Checked<String> {
    let (seen, done) = watch(binary, &format!("write {RAW_DEVICE}"))?;
    const BY: &str = " ns, submitted by ";
    let by = |line: &Line<'_>| -> Option<u32> { line.message.split_once(BY)?.1.parse().ok() };
    let is_duration = |line: &Line<'_>| line.message.contains(" time duration: ");
    let (all, with_pid) = (
        seen.lines().into_iter().filter(is_duration).count(),
        seen.lines().iter().filter(|line| by(line).is_some()).count(),
    );
    expect(
        with_pid as u64 == done.count,
        format!("{} lines that end in `{}{}`, the pid of io", done.count, BY.trim_start(), done.pid),
        match with_pid {
            0 => format!("{}, none of them with a pid", count_of(all as u64, "duration")),
            _ => format!("{}, {with_pid} of them with a pid", count_of(all as u64, "duration")),
        },
        seen.at_trace(|line| is_duration(line) && by(line).is_none()),
    )?;
    let (threads, of_threads) = watch(binary, &format!("write {RAW_DEVICE} --threads 2"))?;
    for (seen, done) in [(&seen, &done), (&threads, &of_threads)] {
        let is_wrong = |line: &Line<'_>| by(line).is_some_and(|pid| pid != done.pid);
        let other = seen.lines().iter().find(|line| is_wrong(line)).and_then(by);
        expect(
            other.is_none(),
            format!("`{}{}`: the writes were those of process {1}", BY.trim_start(), done.pid),
            format!("`{}{}`", BY.trim_start(), other.unwrap_or_default()),
            seen.at_trace(is_wrong),
        )?;
    }
    Ok(format!(
        "all {} bios are reported as those of process {}, which is io, also with two threads",
        done.count, done.pid
    ))
}

fn whole_bios(binary: &str) -> Checked<String> {
    let slowest = PIECES[2].as_nanos() as u64;
    let judge = |disk: &str, size: u64| -> Checked {
        let (seen, done) = watch(binary, &format!("write {disk} --count 1 --size {size}"))?;
        let durations = durations(&events(&seen)?);
        let took = done.last_ns - done.first_ns;
        let ms = |ns: u64| format!("{:.1} ms", ns as f64 / 1e6);
        let all: Vec<_> = durations.iter().map(|ns| ms(*ns)).collect();
        expect(
            matches!(durations[..], [ns] if (slowest..=took).contains(&ns)),
            format!(
                "one duration of {} to {}: the write took that long, in three pieces",
                ms(slowest),
                ms(took)
            ),
            if all.is_empty() { "no duration".to_owned() } else { all.join(", ") },
            seen.at_trace(|line| line.message.contains(" time duration: ")),
        )?;
        expect_none_missing(&seen, "the write has a duration")
    };
    let mut judged = Ok(());
    with_split(|disk, size| {
        if judged.is_ok() {
            judged = judge(disk, size);
        }
        Ok(())
    })?;
    judged?;
    Ok("three writes, each in three pieces, took as long as their slowest piece, whichever that was"
        .to_owned())
}

fn average_of_all_cpus(binary: &str) -> Checked<String> {
    const LINE: &str = "Average latency ";
    let (seen, ()) = watch_while(&[binary], || Ok(()))?;
    expect_no_line(&seen, LINE)?;
    let fast = NullBlk::new(&format!("{binary}-fast"), Duration::from_millis(2))?;
    let slow = NullBlk::new(&format!("{binary}-slow"), Duration::from_millis(20))?;
    let mut averages = Vec::new();
    for (slow_cpu, fast_cpu) in [(2, 1), (1, 2)] {
        // taskset(1) takes a mask of CPUs.
        let write = |mask: u32, disk: &Path, count: &str| {
            output(
                Command::new("taskset").args([&mask.to_string(), "io", "write", "--count", count]).arg(disk),
            )
        };
        let work = || write(slow_cpu, &slow.device, "1").and_then(|_| write(fast_cpu, &fast.device, "9"));
        let (seen, _) = watch_while(&[binary], work)?;
        let all = durations(&events(&seen)?);
        let (count, sum) = (all.len() as u64, all.iter().sum::<u64>());
        expect(
            count >= 10,
            "10 lines with a duration, one for each write",
            count_of(count, "such line"),
            &seen,
        )?;
        let average = number(&seen, LINE, &format!(" ns of {count} bios"));
        // It may be rounded up or down.
        if average.is_none_or(|average| average.abs_diff(sum / count) > 1) {
            let right = format!("{} ns of {count} bios", sum / count);
            expect_line(&seen, LINE, right, &format!("the average of the {count} durations above"))?;
        }
        let average = average.unwrap_or_default();
        averages.push(average / 1000);
    }
    Ok(format!(
        "with a slow write on one CPU and nine fast ones on the other, the averages are {} µs and {} µs, as those of the \
         lines",
        averages[0], averages[1]
    ))
}

fn fastest(binary: &str) -> Checked<String> {
    const LINE: &str = "Min latency ";
    let (seen, ()) = watch_while(&[binary], || Ok(()))?;
    expect_no_line(&seen, LINE)?;
    let (seen, _) = watch(binary, &format!("write {RAW_DEVICE} --threads 2 --count 16"))?;
    let least = durations(&events(&seen)?).into_iter().min();
    let least = least.ok_or_else(|| wrong("lines with durations, as before", "no such line", &seen))?;
    expect_line(&seen, LINE, format!("{least} ns"), "the shortest of the durations above")?;
    Ok(format!("the shortest duration is the minimum, {least} ns, and without a bio there is none"))
}

/// Fails if a line begins like this, because there was no bio.
fn expect_no_line(seen: &Observation, begin: &str) -> Checked {
    let line = seen.stdout.lines().find(|line| line.starts_with(begin));
    expect(
        line.is_none(),
        format!("no line that begins with `{begin}`, because there was no bio"),
        format!("`{}`", line.unwrap_or_default()),
        seen.at(|other| Some(other) == line),
    )
}

/// The outputs for a small write at sector 800 and for a split one at 2048, if both sectors are right.
fn sectors(binary: &str) -> Checked<Vec<Observation>> {
    // A slower bio of the journal would be the slowest.
    let _without = WithoutFs::new()?;
    let mut found = Vec::new();
    for (size, seek) in [(4096, 100), (1 << 20, 1)] {
        let (seen, _) = watch(binary, &format!("write {RAW_DEVICE} --count 1 --size {size} --seek {seek}"))?;
        truth::slowest(&seen)?;
        let right = format!("{})", size * seek / 512);
        expect_line(&seen, "Bio Info : Sector (", right, &format!("{size} bytes were written there"))?;
        found.push(seen);
    }
    Ok(found)
}

fn only_real_sectors(binary: &str) -> Checked<String> {
    const FLUSHES: u64 = 3;
    let without = WithoutFs::new()?;
    let (seen, done) = watch_while(&[binary], || {
        let done = io(&["write", RAW_DEVICE, "--seek", "1280"])?;
        let disk = File::open(RAW_DEVICE).or_cause("cannot open the disk")?;
        (0..FLUSHES).try_for_each(|_| disk.sync_all()).or_cause("cannot flush the disk")?;
        Ok(done)
    })?;
    drop(without);
    let regions = format!("[0, 0, 0, 0, 0, {}, 0, 0]", done.count);
    let why = format!("all {} writes went to the sixth MiB", done.count);
    expect_line(&seen, "Bios in each MiB: ", regions, &why)?;
    expect_line(&seen, "Without data: ", FLUSHES, "the disk was flushed that often")?;
    // Each bio is counted in one of the two.
    let file = format!("{FS_MOUNT}/{binary}");
    let (seen, _) = watch(binary, &format!("sync {file}"))?;
    fs::remove_file(&file).or_cause("cannot remove the file")?;
    let regions =
        seen.stdout.lines().find_map(|line| line.strip_prefix("Bios in each MiB: [")?.strip_suffix(']'));
    let regions = regions.into_iter().flat_map(|regions| regions.split(", "));
    let counted: u64 = regions.filter_map(|count| count.parse::<u64>().ok()).sum();
    let counted = counted + number(&seen, "Without data: ", "").unwrap_or_default();
    let events = events(&seen)?;
    let all = events.iter().filter(|(_, event)| matches!(event, Event::Submit { .. })).count() as u64;
    expect(
        counted == all,
        format!("{all} bios in both lines together: that many were submitted"),
        counted.to_string(),
        seen.at(|line| line.starts_with("Bios in each MiB: ")),
    )?;
    Ok(format!("{} writes are counted where they went, and {FLUSHES} flushes nowhere", done.count))
}

fn size(binary: &str) -> Checked<String> {
    let _without = WithoutFs::new()?;
    for size in [512, 8192, 1 << 20] {
        let (seen, _) = watch(binary, &format!("write {RAW_DEVICE} --count 1 --size {size}"))?;
        expect_line(&seen, "Bytes (", format!("{size})"), "that many were written")?;
    }
    Ok("512 bytes, 8 KiB and 1 MiB are reported correctly".to_owned())
}

fn who_submitted(binary: &str) -> Checked<String> {
    // Its name differs from that of `io`.
    let other = Path::new("/tmp/passer-by");
    let _ = fs::remove_file(other);
    symlink("/bin/io", other).or_cause("cannot make a program called passer-by")?;
    let attempt = |time: Duration| -> Checked<Option<Observation>> {
        let slow = NullBlk::new(binary, time)?;
        let device = slow.device.display().to_string();
        let (seen, _) = watch_while(&[binary], || {
            output(Command::new(other).args(["write", RAW_DEVICE]))?;
            io(&["write", &device, "--count", "1"])?;
            output(Command::new(other).args(["write", RAW_DEVICE]))
        })?;
        // On a busy machine, another write may take as long as the slow one.
        let slow = durations(&events(&seen)?).into_iter().filter(|ns| u128::from(*ns) >= time.as_nanos());
        Ok((slow.count() <= 1).then_some(seen))
    };
    let seen = long_enough(Duration::from_millis(100), |time| Ok(attempt(time).transpose()))??;
    fs::remove_file(other).or_cause("cannot remove the program")?;
    expect_line(&seen, "Submitted by ", "io", "io submitted the slowest bio")?;
    truth::expect_stack(&seen)?;
    Ok("io submitted the slowest bio, and neither who ran when it ended nor who came later is named"
        .to_owned())
}

fn code_paths(binary: &str) -> Checked<String> {
    const NAMES: [&str; 2] = ["Code paths", "bios"];
    let submits = |seen: &Observation| -> Checked<u64> {
        let events = events(seen)?;
        Ok(events.iter().filter(|(_, event)| matches!(event, Event::Submit { .. })).count() as u64)
    };
    let (seen, done) = watch(binary, &format!("write {RAW_DEVICE}"))?;
    let why = format!("{} writes of the same kind take one path", done.count);
    expect_pair(&seen, NAMES, (1, done.count), &why)?;
    let file = format!("{FS_MOUNT}/{binary}");
    io(&["read-cold", &file, "--count", "64"])?;
    let (seen, _) = watch_while(&[binary], || {
        io(&["write", RAW_DEVICE])?;
        io(&["read-cold", &file, "--count", "64"])
    })?;
    fs::remove_file(&file).or_cause("cannot remove the file")?;
    let (paths, bios) = pair(&seen, NAMES[0], NAMES[1])?;
    let all = submits(&seen)?;
    let why = "that many bios were submitted, and none on an unknown path";
    expect_pair(&seen, NAMES, (paths, all), why)?;
    expect(
        paths > 1,
        "two code paths or more, because a direct write and a read of a file differ",
        "one",
        seen.at(|line| line.starts_with(NAMES[0])),
    )?;
    Ok(format!("one path for direct writes; {paths} paths with cold reads added, for {bios} bios in total"))
}

/// Starts the program and stops it while `work` runs. Then it goes on, and Ctrl-C ends it.
fn watch_stopped<T>(binary: &str, work: impl FnOnce() -> Result<T>) -> Result<(Observation, T)> {
    let program = Running::start(&[binary])?;
    let signal = |signal| kill(program.pid(), signal).or_cause("cannot signal the program");
    signal(Signal::SIGSTOP)?;
    let done = work();
    // Else it would never end.
    signal(Signal::SIGCONT)?;
    let seen = program.end(Signal::SIGINT)?;
    succeeded(&seen)?;
    Ok((seen, done?))
}

fn records(binary: &str) -> Checked<String> {
    const SLOW: Duration = Duration::from_millis(20);
    const SECTORS: [u64; 8] = [8, 0, 24, 16, 40, 32, 56, 48];
    const MANY: u64 = 600;
    let _without = WithoutFs::new()?;
    let slow = NullBlk::new(binary, SLOW)?;
    // From both CPUs in turn; taskset(1) takes a mask of CPUs.
    let write = |nth: usize| {
        let (mask, seek) = ((1 + nth % 2).to_string(), (SECTORS[nth] / 8).to_string());
        let words = ["taskset", &mask, "io", "write", RAW_DEVICE, "--count", "1", "--seek", &seek];
        output(Command::new(words[0]).args(&words[1..]))
    };
    let (seen, _) = watch_stopped(binary, || {
        (0..SECTORS.len()).try_for_each(|nth| write(nth).map(drop))?;
        io(&["write", &slow.device.to_string_lossy(), "--count", "1"])
    })?;
    let lines = sent(&seen);
    let times: Vec<_> = lines.iter().map(|(ns, _)| *ns).collect();
    let sectors: Vec<_> = lines.iter().map(|(_, sector)| *sector).collect();
    let all = [&SECTORS[..], &[0]].concat();
    expect(
        lines.len() == all.len(),
        format!("{} lines `bio 0x... took N ns at sector N`, one for each write", all.len()),
        count_of(lines.len() as u64, "such line"),
        &seen,
    )?;
    let wrong_sector = iter::zip(&sectors, &all).position(|(found, right)| found != right);
    let mut nth = 0..;
    expect(
        wrong_sector.is_none(),
        format!("the sectors {all:?} in this order, in which the writes came from both CPUs"),
        format!("{sectors:?}"),
        seen.at(|line| line.contains(" at sector ") && nth.next() == wrong_sector),
    )?;
    let last = times.last().copied().unwrap_or_default();
    expect(
        u128::from(last) >= SLOW.as_nanos(),
        "20 ms or longer for the last write, because its disk takes that",
        format!("{last} ns"),
        seen.at(|line| line.contains(&format!(" took {last} ns at "))),
    )?;
    let most = times.iter().max().copied().unwrap_or_default();
    let why = "the longest of the lines above";
    expect_line(&seen, "Max latency ", format!("{most} ns"), why)?;
    expect_all_sent(all.len() as u64, &seen)?;

    let (seen, _) = watch_stopped(binary, || io(&["write", RAW_DEVICE, "--count", &MANY.to_string()]))?;
    let received = expect_all_sent(MANY, &seen)?;
    expect(
        received < MANY,
        format!("fewer than {MANY} records, because a ring buffer of 16 KiB has no room for all"),
        "all of them",
        seen.at(|line| line.starts_with("Events received: ")),
    )?;
    Ok(format!(
        "writes from both CPUs are printed in their order; of {MANY} writes while nobody read, {received} records were \
         received, and the others are counted"
    ))
}

/// The ns and the sector in each line of 06.3.
fn sent(seen: &Observation) -> Vec<(u64, u64)> {
    let parse = |line: &str| {
        let (_, event) = line.strip_prefix("bio 0x")?.split_once(" took ")?;
        let (ns, sector) = event.split_once(" ns at sector ")?;
        Some((ns.parse().ok()?, sector.parse().ok()?))
    };
    seen.stdout.lines().filter_map(parse).collect()
}

/// Fails unless the program received each bio's record or counted it as not sent. Returns how many it received.
fn expect_all_sent(bios: u64, seen: &Observation) -> Checked<u64> {
    let printed = sent(seen).len() as u64;
    let (received, not_sent) = pair(seen, "Events received", "not sent")?;
    expect(
        printed == received && received + not_sent == bios,
        format!("{bios} bios, each either printed and received, or not sent"),
        format!("{printed} printed, {received} received, {not_sent} not sent"),
        seen.at(|line| line.starts_with("Events received: ")),
    )?;
    expect_none_missing(seen, "each bio has ended")?;
    Ok(received)
}

fn in_flight(binary: &str) -> Checked<String> {
    const TOGETHER: usize = 32;
    let attempt = |time: Duration| -> Checked<Option<(Observation, usize)>> {
        let disk = NullBlk::new(binary, time)?;
        let device = disk.device.display().to_string();
        let (seen, without) = watch_while(&[binary], || {
            let file = format!("{FS_MOUNT}/{binary}");
            (0..4).try_for_each(|_| io(&["sync", &file, "--count", "1"]).map(drop))?;
            fs::remove_file(&file).or_cause("cannot remove the file")?;
            let without = WithoutFs::new()?;
            // With gaps between them, because the block layer merges neighbors into one request.
            io(&["write", &device, "--threads", &TOGETHER.to_string(), "--count", "1", "--stride", "2"])?;
            Ok(without)
        })?;
        drop(without);
        // How many were in flight, by the lines.
        let (mut now, mut most) = (HashSet::new(), 0);
        for (_, event) in events(&seen)? {
            match event {
                Event::Start { rq } => drop(now.insert(rq)),
                Event::Complete { rq } => drop(now.remove(&rq)),
                _ => {}
            }
            most = most.max(now.len());
        }
        Ok((most >= TOGETHER).then_some((seen, most)))
    };
    let (seen, most) = long_enough(Duration::from_secs(2), |time| Ok(attempt(time).transpose()))??;
    expect_line(&seen, "Most in flight: ", most, "that many requests were in flight together")?;
    expect_none_missing(&seen, "all requests ended")?;
    Ok(format!("after a few syncs, {most} requests were in flight together, and as many are reported"))
}

fn reads_and_writes(binary: &str) -> Checked<String> {
    let (seen, before_and_after) = watch_while(&[binary], || {
        let before = truth::disk_reads_and_writes()?;
        io(&["read-direct", RAW_DEVICE])?;
        io(&["write", RAW_DEVICE, "--count", "16"])?;
        Ok((before, truth::disk_reads_and_writes()?))
    })?;
    let (before, after) = before_and_after;
    let disks = (after.0 - before.0, after.1 - before.1);
    expect_pair(&seen, ["Reads", "writes"], disks, "the disks count that many")?;
    Ok(format!("{} reads and {} writes, as the disks count", disks.0, disks.1))
}

/// Whether a count is right. On a preemptible kernel, `tp_btf` can miss calls, and fexit, which a learner may use. The
/// kernel counts those, and then the count may be lower.
fn as_many(counted: u64, true_count: u64, seen: &Observation) -> bool {
    counted == true_count || counted < true_count && truth::skipped(seen).unwrap_or_default() > 0
}

fn different_pages(binary: &str) -> Checked<String> {
    let files = ["one", "two"].map(|name| format!("{FS_MOUNT}/{binary}-{name}"));
    // The second file's reads cross the borders between its 63 pages.
    let reads =
        [[&files[0], "--count", "64", "--size", "4096"], [&files[1], "--count", "256", "--size", "1000"]];
    let pages = 64 + 63;
    for read in reads {
        io(&[&["read-warm"], &read[..]].concat())?;
    }
    let (seen, _) = watch_while(&[binary], || {
        // Twice, in different processes: the second time, no page is new.
        for read in reads.iter().chain(&reads) {
            io(&[&["read"], &read[..]].concat())?;
        }
        Ok(())
    })?;
    files.iter().try_for_each(fs::remove_file).or_cause("cannot remove a file")?;
    let [total, ..] = truth::page_cache(&seen)?;
    expect(total > 0, "counts of pages, as before", "none", &seen)?;
    expect_line(&seen, "Different pages: ", pages, "that many pages of the two files were read")?;
    Ok(format!("{pages} different pages in two files, however often they are read"))
}

fn bytes_read(binary: &str) -> Checked<String> {
    let file = format!("{FS_MOUNT}/{binary}");
    io(&["read-warm", &file, "--count", "100", "--size", "1000"])?;
    let (seen, done) = watch(binary, &format!("read {file} --count 100 --size 1000"))?;
    fs::remove_file(&file).or_cause("cannot remove the file")?;
    let [total, ..] = truth::page_cache(&seen)?;
    expect(total > 0, "counts of pages, as before", "none", &seen)?;
    let is_right = |bytes| as_many(bytes, done.bytes, &seen);
    expect_number(&seen, "Bytes read: ", done.bytes, "io has read that many", is_right)?;
    Ok(format!("{} bytes, as many as io read", done.bytes))
}

/// Whether this line has the sum of the pages.
fn is_total(line: &str) -> bool {
    line.starts_with("[Total ")
}

/// Pages that a program counts while it runs a command.
fn pages_of(binary: &str, command: &[&str]) -> Checked<(u64, Observation)> {
    let seen = Running::start(&[&[binary, "--"][..], command].concat())?.wait()?;
    succeeded(&seen)?;
    Ok((truth::page_cache(&seen)?[0], seen))
}

fn to_the_last_thread(binary: &str) -> Checked<String> {
    const THREADS: u64 = 64;
    const PAGES: u64 = THREADS * 8;
    let file = format!("{FS_MOUNT}/{binary}");
    io(&["read-warm", &file, "--count", &PAGES.to_string()])?;
    let threads = THREADS.to_string();
    let (total, seen) = pages_of(binary, &["io", "read", &file, "--threads", &threads, "--count", "8"])?;
    fs::remove_file(&file).or_cause("cannot remove the file")?;
    let why = format!("{THREADS} threads read 8 pages each");
    expect(total == PAGES, format!("{PAGES} pages: {why}"), total.to_string(), seen.at(is_total))?;
    let is_right = |ended| as_many(ended, THREADS, &seen);
    expect_number(&seen, "Threads ended: ", THREADS, "that many threads read", is_right)?;
    expect_line(&seen, "Ids in the filter: ", 0, "the process has ended")?;
    Ok(format!("{total} pages, of all {THREADS} threads; then the filter is empty"))
}

fn children(binary: &str) -> Checked<String> {
    let file = format!("{FS_MOUNT}/{binary}");
    io(&["read-warm", &file, "--count", "64"])?;
    let read = format!("io read {file} --count 64");
    let (own, seen) = pages_of(binary, &["sh", "-c", &format!("exec {read}")])?;
    expect(
        as_many(own, 64, &seen),
        "64 pages, which the process itself reads",
        own.to_string(),
        seen.at(is_total),
    )?;
    let (total, seen) = pages_of(binary, &["sh", "-c", &format!("{read}; true")])?;
    fs::remove_file(&file).or_cause("cannot remove the file")?;
    expect(
        as_many(total, 64, &seen),
        "64 pages, which a child of the process reads",
        total.to_string(),
        seen.at(is_total),
    )?;
    Ok("64 pages, whether the process itself or its child reads them".to_owned())
}

/// A file of 09.3: how much of it is in the page cache, and how often a process then reads it.
struct Known {
    path: PathBuf,
    pages: u64,
    /// In the page cache before the process reads: its first pages.
    cached: u64,
    /// How often each page is read.
    times: u64,
    /// Reads of its first page beyond these.
    more: u64,
}

impl Known {
    fn new(path: impl Into<PathBuf>, pages: u64, cached: u64, times: u64) -> Result<Self> {
        let known = Self { path: path.into(), pages, cached, times, more: 0 };
        let zeros = vec![0; 4096 * pages as usize];
        fs::write(&known.path, zeros).or_cause(format!("cannot make {}", known.path.display()))?;
        evict(&known.path)?;
        read_pages(&known.path, 0..cached)?;
        Ok(known)
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Its device and inode number, as 09.3 prints them.
    fn id(&self) -> Result<String> {
        let file = fs::metadata(&self.path).or_cause(format!("cannot find {}", self.path.display()))?;
        Ok(format!("{}:{} {}", major(file.dev()), minor(file.dev()), file.ino()))
    }

    fn misses(&self) -> u64 {
        self.pages - self.cached
    }

    fn reads(&self) -> u64 {
        self.pages * self.times + self.more
    }
}

/// Reads pages of a file, one after the other and each with its own call. The kernel doesn't read ahead.
fn read_pages(path: &Path, pages: impl IntoIterator<Item = u64>) -> Result<()> {
    let cannot = || format!("cannot read {}", path.display());
    let file = File::open(path).or_cause(cannot())?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_RANDOM).or_cause(cannot())?;
    let mut page = [0; 4096];
    pages.into_iter().try_for_each(|nth| file.read_exact_at(&mut page, 4096 * nth)).or_cause(cannot())
}

/// A line of 09.3, such as `Missed 24 of 80: 259:0 12 orders`.
struct FileLine<'a> {
    missed: u64,
    read: u64,
    /// `259:0 12`
    id: String,
    name: &'a str,
}

impl<'a> FileLine<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (counts, file) = line.strip_prefix("Missed ")?.split_once(": ")?;
        let (missed, read) = counts.split_once(" of ")?;
        let (device, file) = file.split_once(' ')?;
        let (inode, name) = file.split_once(' ').unwrap_or((file, ""));
        let (missed, read) = (missed.parse().ok()?, read.parse().ok()?);
        Some(Self { missed, read, id: format!("{device} {inode}"), name })
    }

    fn all(seen: &'a Observation) -> Vec<Self> {
        seen.stdout.lines().filter_map(Self::parse).collect()
    }
}

/// What is expected of this milestone of 09.3.
fn milestone(nth: u32, expected: &str) -> String {
    format!("milestone {nth} of 3: {expected}")
}

/// Fails unless the lines are those of the files.
fn expect_files(nth: u32, files: &[Known], seen: &Observation) -> Checked {
    let lines = FileLine::all(seen);
    let mut ids = HashSet::new();
    for file in files {
        let (id, path, misses, reads) = (file.id()?, file.path.display(), file.misses(), file.reads());
        let is_it = |line: &FileLine<'_>| line.id == id;
        let of_file: Vec<_> = lines.iter().filter(|line| is_it(line)).collect();
        let begin = format!("`Missed {misses} of {reads}: {id}`");
        let expected = milestone(nth, &format!("one line that begins with {begin}, for {path}"));
        let (is_right, found) = match of_file[..] {
            [] => (false, "no line of this file".to_owned()),
            [FileLine { missed, read, .. }] => (
                as_many(*missed, misses, seen) && as_many(*read, reads, seen),
                format!("`Missed {missed} of {read}: {id}`"),
            ),
            _ => (false, format!("{} lines of this file", of_file.len())),
        };
        expect(
            is_right,
            expected,
            found,
            seen.at(|line| FileLine::parse(line).is_some_and(|line| is_it(&line))),
        )?;
        ids.insert(id);
    }
    let is_other = |line: &FileLine<'_>| !ids.contains(&line.id);
    let other = lines.iter().find(|line| is_other(line));
    expect(
        other.is_none(),
        milestone(nth, "only files that the process read"),
        format!("a line of {}", other.map_or("", |line| &line.id)),
        seen.at(|line| FileLine::parse(line).is_some_and(|line| is_other(&line))),
    )
}

/// Fails unless the lines are in the order of the misses.
fn expect_sorted(nth: u32, seen: &Observation) -> Checked {
    let misses: Vec<_> = FileLine::all(seen).iter().map(|line| line.missed).collect();
    expect(
        misses.is_sorted_by(|one, next| one >= next),
        milestone(nth, "the file with the most misses first, and so on"),
        format!("the misses {misses:?}"),
        seen,
    )
}

fn worst_files(binary: &str) -> Checked<String> {
    let one = of_four_files(binary)?;
    Ok(format!("{one}; {}", of_four_threads(binary)?))
}

/// The first two milestones. The process that reads is this one.
fn of_four_files(binary: &str) -> Checked<String> {
    let in_mount = |name: &str| Path::new(FS_MOUNT).join(name);
    let [link, written, passed] = ["orders-2", "written", "passed"].map(in_mount);
    for old in [&link, &in_mount("orders")] {
        let _ = fs::remove_file(old);
    }
    let orders = Known::new(in_mount("orders"), 40, 16, 2)?;
    fs::hard_link(&orders.path, &link).or_cause("cannot give a file a second name")?;
    let _second = SecondFs::new()?;
    let files = [
        Known::new(twin(&orders.path)?, 10, 0, 1)?,
        Known::new(in_mount("prices"), 30, 30, 3)?,
        orders,
        Known::new(in_mount("stock"), 60, 0, 1)?,
    ];
    let (seen, _) = watch_while(&[binary, &process::id().to_string()], || {
        for file in &files {
            for nth in 0..file.times {
                let is_second = nth > 0 && file.name() == "orders";
                read_pages(if is_second { &link } else { &file.path }, 0..file.pages)?;
            }
        }
        fs::write(&written, vec![0; 50 * 4096]).or_cause("cannot write a file")?;
        // This is another process.
        io(&["read", &passed.to_string_lossy(), "--count", "20"])
    })?;
    expect_files(1, &files, &seen)?;
    for file in &files {
        let (id, name) = (file.id()?, file.name());
        let lines = FileLine::all(&seen);
        let shown = lines.iter().find(|line| line.id == id).map_or("", |line| line.name);
        expect(
            shown == name || name == "orders" && shown == "orders-2",
            milestone(2, &format!("the line of {id} ends with the file's name, `{name}`")),
            if shown.is_empty() { "no name".to_owned() } else { format!("`{shown}`") },
            seen.at(|line| FileLine::parse(line).is_some_and(|line| line.id == id)),
        )?;
    }
    expect_sorted(2, &seen)?;
    let paths = files.iter().map(|file| &file.path).chain([&link, &written, &passed]);
    paths.into_iter().try_for_each(fs::remove_file).or_cause("cannot remove a file")?;
    Ok("four files are reported with their misses, also with two names or the same inode number".to_owned())
}

/// A path on the second file system whose file has the same inode number.
fn twin(path: &Path) -> Result<PathBuf> {
    let cannot = "cannot make a file with the same inode number";
    let inode = fs::metadata(path).or_cause(cannot)?.ino();
    let second = Path::new(SecondFs::MOUNT);
    let twin = second.join(path.file_name().unwrap_or_default());
    for nth in 0..inode {
        let file = second.join(nth.to_string());
        if File::create(&file).and_then(|file| file.metadata()).or_cause(cannot)?.ino() == inode {
            fs::rename(file, &twin).or_cause(cannot)?;
            return Ok(twin);
        }
    }
    Err(Error::new(cannot).evidence(format!("{} is file {inode}", path.display())))
}

/// The third milestone.
fn of_four_threads(binary: &str) -> Checked<String> {
    const THREADS: u64 = 4;
    const PAGES: u64 = 32;
    const MORE: u64 = 500;
    let file = |nth: u64| Known::new(format!("{FS_MOUNT}/table-{nth:02}"), PAGES, nth, THREADS);
    let mut files = (0..PAGES).map(file).collect::<Result<Vec<_>>>()?;
    files[0].more = THREADS * MORE;
    let together = Barrier::new(THREADS as usize);
    // All threads begin to read a file at the same time.
    let read = || {
        let of_file = |file: &Known| {
            together.wait();
            read_pages(&file.path, 0..PAGES)
        };
        let read = files.iter().map(of_file).fold(Ok(()), Result::and);
        read.and_then(|()| read_pages(&files[0].path, iter::repeat_n(0, MORE as usize)))
    };
    // One less than there are.
    let worst = (PAGES - 1).to_string();
    let (seen, ()) = watch_while(&[binary, &process::id().to_string(), "--worst", &worst], || {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(read)).collect();
            let joined = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(Error::new("a thread that reads panicked")))
            });
            joined.collect()
        })
    })
    .map_err(|error| {
        let cause = milestone(3, error.cause());
        error.with_cause(cause)
    })?;
    let shown = FileLine::all(&seen).len();
    let expected = milestone(3, &format!("{worst} of {PAGES} files, with --worst {worst}"));
    expect(shown == files.len() - 1, expected, shown.to_string(), &seen)?;
    expect_sorted(3, &seen)?;
    // The file with one miss is the last one, so it is left out.
    expect_files(3, &files[..files.len() - 1], &seen)?;
    files.iter().map(|file| &file.path).try_for_each(fs::remove_file).or_cause("cannot remove a file")?;
    Ok(format!("and so are the {worst} worst of {PAGES} files that {THREADS} threads read together"))
}

fn only_bios(binary: &str) -> Checked<String> {
    let (seen, done) = watch(binary, &format!("write {RAW_DEVICE} --count 8"))?;
    let calls = truth::calls(&seen);
    // What io calls itself, and not what interrupts it.
    let own = calls.iter().filter(|(line, ..)| line.pid == done.pid && !line.flags.contains(['h', 'H', 's']));
    let bios: HashSet<_> =
        own.clone().filter(|(_, function, _)| *function == "submit_bio").map(|(.., bio)| *bio).collect();
    for (_, function, bio) in own.clone() {
        let call = format!("{function}(bio=0x{bio:x})");
        expect(
            *bio == 0 || bios.contains(bio),
            "only bios that submit_bio() got from io",
            format!("`{call}`"),
            seen.at_trace(|line| line.pid == done.pid && line.message == call),
        )?;
    }
    // These have it as their second and third argument.
    for name in ["wbt_wait", "wbt_track"] {
        let count = own.clone().filter(|(_, function, _)| *function == name).count() as u64;
        expect(
            count == done.count,
            format!("{} lines with {name}(), one for each write of io", done.count),
            count_of(count, "such line"),
            &seen,
        )?;
    }
    Ok(format!("{} calls of io, and each shows a bio that io submitted", own.count()))
}

fn one_bio(binary: &str) -> Checked<String> {
    // Its interrupt comes when nothing else runs, so no call of bio_endio() is skipped.
    let disk = NullBlk::new(binary, Duration::from_millis(20))?;
    let (seen, _) = watch(binary, &format!("write {} --count 4", disk.device.display()))?;
    let calls = truth::calls(&seen);
    let names: Vec<_> = calls.iter().map(|(_, function, _)| *function).collect();
    for (place, found, name) in [("first", names.first(), "submit_bio"), ("last", names.last(), "bio_endio")]
    {
        expect(
            found == Some(&name),
            format!("{name}() in the {place} line"),
            found.map_or_else(|| "no line".to_owned(), |found| format!("{found}()")),
            &seen,
        )?;
        let count = names.iter().filter(|other| **other == name).count();
        let expected = format!("one line with {name}(), which a bio passes once");
        expect(count == 1, expected, count_of(count as u64, "such line"), &seen)?;
    }
    let first = calls.first().map(|(.., bio)| *bio);
    let bios: HashSet<_> = calls.iter().map(|(.., bio)| *bio).collect();
    let is_other = |line: &Line<'_>| truth::call(line).is_some_and(|(_, bio)| Some(bio) != first);
    let expected = "only lines of one bio";
    expect(bios.len() == 1, expected, format!("lines of {} bios", bios.len()), seen.at_trace(is_other))?;
    let expected = "a line with blk_mq_submit_bio(), which the bio passes";
    expect(names.contains(&"blk_mq_submit_bio"), expected, "no such line", &seen)?;
    Ok(format!("the first of 4 bios passed {} functions, from submit_bio() to bio_endio()", names.len()))
}

fn failed_reads(binary: &str) -> Checked<String> {
    const SIZE: usize = 2 << 20;
    let read = |path: &str, size: usize| -> Result<io::Result<usize>> {
        Ok(File::open(path).or_cause(format!("cannot open {path}"))?.read(&mut vec![1; size]))
    };
    let (seen, ()) = watch_all(&[binary], || {
        // A folder can't be read: that is the error EISDIR, 21.
        let failed = [read("/", SIZE)?, read("/", 64)?];
        read("/dev/zero", SIZE)?.or_cause("cannot read zeros")?;
        let is_21 =
            |read: &io::Result<usize>| read.as_ref().is_err_and(|error| error.raw_os_error() == Some(21));
        match failed.iter().all(is_21) {
            true => Ok(()),
            false => Err(Error::new("the kernel reads a folder as if it were a file")),
        }
    })?;
    let pid = process::id();
    let own = |line: &str| {
        let cells: Vec<_> = line.split_whitespace().collect();
        cells.get(1).filter(|cell| cell.parse() == Ok(pid)).map(|_| cells[2..].join(" "))
    };
    let right = [SIZE.to_string(), "error 21".to_owned()];
    let mut found: Vec<_> = seen.stdout.lines().filter_map(own).collect();
    found.sort();
    expect(
        found == right,
        format!("{SIZE} and error 21 for process {pid}, which asked for 2 MiB twice"),
        if found.is_empty() { "no line of this process".to_owned() } else { found.join(", ") },
        seen.at(|line| own(line).is_some_and(|found| !right.contains(&found))),
    )?;
    Ok(format!("the read of {SIZE} bytes and the large one that failed with error 21, and no other"))
}

fn only_what_somebody_waits_for(binary: &str) -> Checked<String> {
    const ALONE: u64 = 3;
    let _without = WithoutFs::new()?;
    let disk = File::options().write(true).open(RAW_DEVICE).or_cause("cannot open the disk")?;
    let writes = || Ok::<_, Error>(truth::disk_reads_and_writes()?.1);
    let (seen, done) = watch_all(&[binary, "-S", "-F", "-j"], || {
        let before = writes()?;
        (0..ALONE).try_for_each(|nth| disk.write_all_at(&[1; 4096], nth << 20)).or_cause("cannot write")?;
        // The kernel begins to write the pages, but nobody waits for them.
        posix_fadvise(&disk, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).or_cause("cannot write")?;
        while writes()? < before + ALONE {
            thread::yield_now();
        }
        io(&["write", RAW_DEVICE])
    })?;
    let kinds = seen.stdout.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let kinds: Vec<_> =
        kinds.flat_map(|interval| interval["latency"].as_array().cloned()).flatten().collect();
    let flags = |kind: &serde_json::Value| kind["flags"].as_str().unwrap_or_default().to_owned();
    let (sync, other): (Vec<_>, Vec<_>) = kinds.iter().partition(|kind| flags(kind).contains("Sync"));
    let other: Vec<_> = other.into_iter().map(flags).collect();
    expect(other.is_empty(), "only requests with Sync, because of -S -F", other.join(", "), &seen)?;
    let count: u64 = sync.iter().filter_map(|kind| kind["count"].as_u64()).sum();
    expect(
        count == done.count,
        format!("{} requests: io waited for each of its writes", done.count),
        count.to_string(),
        &seen,
    )?;
    let warning = format!("warning: {ALONE} requests are not counted: nobody waits for them");
    expect(seen.stderr.contains(&warning), format!("`{warning}`"), "no such line", &seen)?;
    Ok(format!("{count} writes that io waited for, and {ALONE} left out that nobody waited for"))
}

fn all_data(binary: &str) -> Checked<String> {
    const KIB: u64 = 14;
    let _without = WithoutFs::new()?;
    let (seen, done) = watch_all(&[binary], || {
        let small = io(&["write", RAW_DEVICE, "--size", "512", "--count", "7"])?;
        Ok([small, io(&["write", RAW_DEVICE, "--size", "3584", "--count", "3"])?])
    })?;
    let [requests, bytes] =
        [done.iter().map(|done| done.count).sum(), done.iter().map(|done| done.bytes).sum::<u64>()];
    let counted = truth::histogram(&seen.stdout).count();
    let expected = format!("{requests} requests in the histogram: the disk got that many");
    expect(counted == requests, expected, counted.to_string(), &seen)?;
    expect_line(&seen, "Data: ", format!("{KIB} KiB"), &format!("the requests had {bytes} bytes"))?;
    Ok(format!("{requests} requests with {KIB} KiB, also if many of them are smaller than 1 KiB"))
}

fn reads_or_writes(binary: &str) -> Checked<String> {
    let file = format!("{FS_MOUNT}/{binary}");
    io(&["read-warm", &file, "--count", "64"])?;
    sync();
    let (seen, done) = watch_all(&[binary], || {
        let cold = io(&["read-cold", &file, "--count", "64"])?;
        Ok([cold, io(&["read-direct", RAW_DEVICE])?, io(&["write", RAW_DEVICE])?])
    })?;
    fs::remove_file(&file).or_cause("cannot remove the file")?;
    let counts = truth::histograms(&seen.stdout);
    for done in &done {
        let count = counts.get(&done.pid).map_or(0, Histogram::count);
        let (reads, writes) = if done.kind == "write" { (0, count) } else { (count, 0) };
        let own = seen.stdout.lines().position(|line| line.starts_with(&format!("PID: {} ", done.pid)));
        let found = own.and_then(|own| seen.stdout.lines().nth(own + 1));
        let line = format!("Reads: {reads}, writes: {writes}");
        let mut nth = 0;
        expect(
            count > 0 && found == Some(&line),
            format!("`{line}` as the second line of process {}, which did {}", done.pid, done.kind),
            found.map_or_else(|| "no line of it".to_owned(), |found| format!("`{found}`")),
            seen.at(|_| {
                nth += 1;
                own.is_some_and(|own| nth == own + 2)
            }),
        )?;
    }
    Ok("buffered reads, direct reads and direct writes, each kind by its operation".to_owned())
}

fn processes_and_threads(binary: &str) -> Checked<String> {
    // The main thread starts a thread, and the thread starts a process.
    let (seen, started) = watch_while(&[binary], || {
        let thread = thread::spawn(|| output(&mut Command::new("true")).map(|_| gettid()));
        thread.join().map_err(|_| Error::new("a thread panicked"))?
    })?;
    let is_by = |thread: Pid, line: &Line<'_>| line.pid == thread.as_raw() as u32;
    let by = |thread: Pid| -> Vec<String> {
        let lines = seen.lines().into_iter().filter(|line| is_by(thread, line));
        lines.map(|line| format!("`{}`", line.message)).collect()
    };
    for (starter, who, what) in [(gettid(), "main", "A new thread"), (started, "other", "A new process")] {
        let found = by(starter);
        let line = format!("`Hello, World! {what}`");
        expect(
            found == [line.as_str()],
            format!("one line of the {who} thread, {starter}: {line}"),
            if found.is_empty() { "no line of it".to_owned() } else { found.join(", ") },
            seen.at_trace(|line| is_by(starter, line)),
        )?;
    }
    Ok("a thread that the main thread started, and a process that the other thread started".to_owned())
}

fn all_losses(binary: &str) -> Checked<String> {
    const FORKS: u64 = 224;
    let script = format!("i=0; while [ $i -lt {FORKS} ]; do (:); i=$((i + 1)); done");
    let mut verdicts = Vec::new();
    for channel in [&[][..], &["--ringbuf"]] {
        let program = Running::start(&[&[binary, "--pages", "1"], channel].concat())?;
        let pid = program.pid();
        kill(pid, Signal::SIGSTOP).or_cause("cannot stop the program")?;
        output(Command::new("sh").args(["-c", &script]))?;
        // It ends as soon as it continues, before another event can follow.
        kill(pid, Signal::SIGINT).or_cause("cannot signal the program")?;
        let seen = program.end(Signal::SIGCONT)?;
        succeeded(&seen)?;
        let last = seen.stdout.lines().rev().find_map(|line| line.strip_prefix("Events received: "));
        let counts = last.and_then(|line| {
            let (received, rest) = line.split_once(", not sent: ")?;
            let not_sent = rest.split(|c: char| !c.is_ascii_digit()).next()?;
            Some((received.parse::<u64>().ok()?, not_sent.parse::<u64>().ok()?))
        });
        let (received, not_sent) =
            counts.ok_or_else(|| wrong("a line `Events received: N, not sent: N`", "no such line", &seen))?;
        // The shell is one more, and the kernel may start threads.
        expect(
            (FORKS + 1..2 * FORKS).contains(&(received + not_sent)),
            format!(
                "{FORKS} events or a few more: a shell started that many processes while the program slept"
            ),
            format!("{received} received, {not_sent} not sent"),
            seen.at(|line| line.starts_with("Events received: ")),
        )?;
        verdicts.push(format!("{received} received and {not_sent} not sent"));
    }
    Ok(format!(
        "of the events of {FORKS} processes, {}; through the ring buffer, {}",
        verdicts[0], verdicts[1]
    ))
}

fn a_first_read_that_misses(binary: &str) -> Checked<String> {
    const MISS: &str = "page cache miss";
    let run = |arguments: &[&str]| -> Result<Observation> {
        let output = Command::new(binary).args(arguments).output().or_cause("cannot start the program")?;
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        Ok(Observation { stdout, stderr, status: output.status })
    };
    let seen = run(&[])?;
    succeeded(&seen)?;
    let has_miss = |half: fn((&str, &str)) -> bool| {
        seen.stdout.lines().filter_map(|line| line.split_once(" |")).any(half)
    };
    expect(
        has_miss(|(first, _)| first.contains(MISS)),
        format!("the first read of a new file misses pages: `{MISS}` in the left column"),
        "no such line",
        &seen,
    )?;
    expect(
        !has_miss(|(_, second)| second.contains(MISS)),
        format!("the second read misses none: no `{MISS}` in the right column"),
        "such a line",
        seen.at(|line| line.split_once(" |").is_some_and(|(_, second)| second.contains(MISS))),
    )?;
    let file = format!("{FS_MOUNT}/{binary}");
    io(&["read-warm", &file])?;
    let (map, byte) = mapped(&file)?;
    let seen = run(&["--file", &file])?;
    drop(map);
    fs::remove_file(&file).or_cause("cannot remove the file")?;
    expect(
        !seen.status.success(),
        format!("an error: a process has mapped the file with the byte {byte}, so the first read can't miss"),
        "the program succeeds",
        &seen,
    )?;
    Ok("a first read that misses and a second that does not, and an error if the first cannot miss"
        .to_owned())
}

/// A file in the memory of this process, with its first byte, which brings its page into the process. As long as this
/// exists, the kernel can't take the page out of the page cache.
#[allow(unsafe_code)]
fn mapped(file: &str) -> Result<(Mmap, u8)> {
    let cannot = || format!("cannot map {file}");
    // SAFETY: nobody shortens the check's own file.
    let map = unsafe { Mmap::map(&File::open(file).or_cause(cannot())?) }.or_cause(cannot())?;
    let first = *map.first().ok_or_else(|| Error::new(cannot()))?;
    Ok((map, first))
}

fn half_of_the_requests(binary: &str) -> Checked<String> {
    const US: u64 = 21_000;
    const HALF: &str = "Half of the requests took ";
    let _without = WithoutFs::new()?;
    let disk = NullBlk::new(binary, Duration::from_micros(US))?;
    let device = disk.device.display().to_string();
    let half = |arguments: &[&str]| -> Checked<(Observation, String)> {
        let (seen, _) = watch_all(&[&[binary], arguments].concat(), || io(&["write", &device]))?;
        let half = seen.stdout.lines().find_map(|line| line.strip_prefix(HALF)).map(str::to_owned);
        let half = half.ok_or_else(|| wrong(format!("a line `{HALF}...`"), "no such line", &seen))?;
        Ok((seen, half))
    };
    let limits: [(&str, &str); 2] = [("10000000", "less than 10000000 us"), ("100", "9500 us or longer")];
    for (width, right) in limits {
        let (seen, _) = half(&["--linear", width])?;
        expect_line(&seen, HALF, right, "each took 21 ms")?;
    }
    let (seen, half) = half(&[])?;
    let limit =
        half.strip_prefix("less than ").and_then(|half| half.strip_suffix(" us")?.parse::<u64>().ok());
    expect(
        limit.is_some_and(|limit| limit > US),
        format!("`{HALF}less than` 21 ms or more: each took 21 ms or longer"),
        format!("`{HALF}{half}`"),
        seen.at(|line| line.starts_with(HALF)),
    )?;
    Ok(format!("half of the requests took {half}, on a disk that takes 21 ms"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::exercise;
    use machine::workbook::Workbook;

    #[test]
    fn each_exercise_has_a_check_and_each_check_an_exercise() {
        let workbook = Workbook::read().unwrap();
        let programs = workbook.catalog.programs();
        let ids: Vec<_> =
            programs.flat_map(|program| exercise::of(program).unwrap()).map(|found| found.id()).collect();
        assert_eq!(CHECKS.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids);
    }
}
