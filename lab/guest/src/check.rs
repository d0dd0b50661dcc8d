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

use common::{Error, OrCause, Result};
use memmap2::Mmap;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::{major, minor};
use nix::unistd::{Pid, gettid, sync};
use toolkit::histogram::Histogram;
use wire::command::output;
use wire::disks::{FS_MOUNT, RAW_DEVICE};
use wire::workload::Done;

use crate::demo;
use crate::device_mapper::{PIECES, with_split};
use crate::null_blk::{NullBlk, long_enough};
use crate::running::{Observation, Running, io};
use crate::system::{SecondFs, WithoutFs, evict};
use crate::truth::{self, Event, durations, events};

/// Runs a program and returns what it did right.
type Check = fn(&str) -> Result<String>;

/// The checks by exercise.
const CHECKS: [(&str, Check); 32] = [
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

/// How many lines of a program's output to show as evidence.
const SHOWN: usize = 12;

/// Checks a program. Returns what the check saw.
///
/// # Errors
/// If it does not do what the exercise asks for, or does not run at all.
pub fn run(exercise: &str, binary: &str) -> Result<String> {
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

/// If `right` is false, fails with what the program should have done and what it printed.
fn expect(right: bool, wrong: impl Into<String>, seen: &Observation) -> Result<()> {
    if right {
        return Ok(());
    }
    let lines: Vec<_> = seen.stdout.lines().collect();
    let last = &lines[lines.len().saturating_sub(SHOWN)..];
    let shown = match (last.len(), lines.len()) {
        (0, _) => "it printed nothing".to_owned(),
        (shown, all) if shown < all => format!("the last lines of {all}:\n{}", last.join("\n")),
        _ => format!("it printed:\n{}", last.join("\n")),
    };
    Err(Error::new(wrong).evidence(shown))
}

/// The number in the first line that is `before`, the number, and `after`.
fn number(seen: &Observation, before: &str, after: &str) -> Option<u64> {
    seen.stdout.lines().find_map(|line| line.strip_prefix(before)?.strip_suffix(after)?.parse().ok())
}

/// The two numbers in the last line of the form `FIRST: N, SECOND: N`.
fn pair(seen: &Observation, first: &str, second: &str) -> Result<(u64, u64)> {
    let found = seen.stdout.lines().rev().find_map(|line| {
        let (one, two) = line.strip_prefix(&format!("{first}: "))?.split_once(&format!(", {second}: "))?;
        Some((one.parse().ok()?, two.parse().ok()?))
    });
    expect(found.is_some(), format!("no line says {first}: N, {second}: N"), seen)?;
    Ok(found.unwrap_or_default())
}

fn only_io(binary: &str) -> Result<String> {
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
        format!("io submitted {} bios to {RAW_DEVICE}, and {lines} lines report them", done.count),
        &seen,
    )?;
    // This involves the journal's thread and the kernel's workers.
    let file = format!("{FS_MOUNT}/{binary}");
    let (seen, done) = watch(binary, &format!("sync {file}"))?;
    fs::remove_file(&file).or_cause("cannot remove the file")?;
    if let Some(other) = seen.lines().iter().find(|line| line.pid != done.pid) {
        let wrong =
            format!("{} (thread {}) is not io, which was process {}", other.task, other.pid, done.pid);
        expect(false, wrong, &seen)?;
    }
    Ok(format!("{lines} lines for {lines} writes of io, and none of what the others did during a sync"))
}

fn two_doors(binary: &str) -> Result<String> {
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
            format!("{} writes, and {} lines {function}(bio=0x...) called: ...", done.count, found.len()),
            &seen,
        )?;
    }
    expect(first == second, "the two functions are not called with the same bios", &seen)?;
    Ok(format!("{} bios passed both functions, one after the other", done.count))
}

fn both_counts(binary: &str) -> Result<String> {
    let (seen, done) = watch(binary, &format!("write {RAW_DEVICE} --count 16"))?;
    let reported = pair(&seen, "Starts", "ends")?;
    expect(
        reported == (done.count, done.count),
        format!("{0} writes have {0} starts and {0} ends", done.count),
        &seen,
    )?;
    // Larger than what the disk takes at once: the block layer splits it.
    let (seen, _) = watch(binary, &format!("write {RAW_DEVICE} --count 1 --size 1048576"))?;
    let (starts, ends) = pair(&seen, "Starts", "ends")?;
    let events = events(&seen)?;
    let ended = events.iter().filter(|(_, event)| matches!(event, Event::End { .. })).count() as u64;
    expect((starts, ends) == (1, ended), format!("one large write has 1 start and {ended} ends"), &seen)?;
    Ok(format!("16 and 16 for small writes; 1 and {ends} for one that was split"))
}

fn the_right_end(binary: &str) -> Result<String> {
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
    expect(
        (starts.len(), ends.len(), returns.len()) == (count, count, count),
        format!(
            "{count} writes, and {} lines submit_bio() called: ..., {} submit_bio() returned: ..., {} bio_endio() \
             called: ...",
            starts.len(),
            returns.len(),
            ends.len()
        ),
        &seen,
    )?;
    let shortest =
        starts.iter().zip(&ends).map(|(start, end)| end.saturating_sub(*start)).min().unwrap_or_default();
    expect(
        shortest >= TIME.as_nanos() as u64,
        format!("this disk takes 20 ms for each write, but here one ended after {} µs", shortest / 1000),
        &seen,
    )?;
    let before = returns.iter().zip(&ends).filter(|(returned, ended)| returned < ended).count();
    Ok(format!(
        "on a disk that takes 20 ms, no write ended earlier than after {:.1} ms; submit_bio() had returned before in {before} \
         of {count}, since it does not wait for the disk",
        shortest as f64 / 1e6
    ))
}

fn kprobe_misses(binary: &str) -> Result<String> {
    const NAMES: [&str; 2] = ["Ends seen by fentry", "by kprobe"];
    let (seen, done) = watch(binary, &format!("write {RAW_DEVICE} --count 16"))?;
    let ends = pair(&seen, NAMES[0], NAMES[1])?;
    expect(ends == (done.count, done.count), format!("{0} writes have {0} ends", done.count), &seen)?;
    let (seen, done) = watch(binary, &format!("write {RAW_DEVICE} --threads 4 --count 250"))?;
    let (by_fentry, by_kprobe) = pair(&seen, NAMES[0], NAMES[1])?;
    expect(
        by_fentry == done.count && by_kprobe <= done.count,
        format!("{0} writes have {0} ends, and fentry misses none", done.count),
        &seen,
    )?;
    Ok(format!("16 and 16 for one writer; of {by_fentry} ends of four writers the kprobe saw {by_kprobe}"))
}

/// How long a bio must take at least, in nanoseconds, to be shown in 03.1.
const SLOW: u64 = 10_000_000;

fn nothing_stays(binary: &str) -> Result<String> {
    const SLOW_WRITES: u64 = 8;
    let slow = NullBlk::new(binary, Duration::from_nanos(2 * SLOW))?;
    let (seen, ()) = watch_while(&[binary], || {
        // The fast ones come last: a slow bio at the same address would take the entry that a fast one left.
        io(&["write", &slow.device.to_string_lossy(), "--count", &SLOW_WRITES.to_string()])?;
        io(&["write", RAW_DEVICE, "--count", "200"]).map(drop)
    })?;
    let (events, missing) = (events(&seen)?, truth::not_measured(&seen)?);
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
    expect(
        missing == 0,
        format!("{} writes ended, and it reports that {missing} durations are missing", fast + slow.len()),
        &seen,
    )?;
    let mut shown = durations(&events);
    shown.sort_unstable();
    slow.sort_unstable();
    expect(
        slow.len() as u64 >= SLOW_WRITES && shown == slow,
        format!("{} bios took 10 ms or longer, and {} durations are shown", slow.len(), shown.len()),
        &seen,
    )?;
    expect(
        number(&seen, "Not shown: ", "") == Some(fast as u64),
        format!("{fast} bios took less than 10 ms, and no line says: Not shown: {fast}"),
        &seen,
    )?;
    Ok(format!("{} slow bios are shown and {fast} fast ones are not, and none stayed in the map", slow.len()))
}

fn who_waited(binary: &str) -> Result<String> {
    let (seen, done) = watch(binary, &format!("write {RAW_DEVICE}"))?;
    let submitters = |seen: &Observation| -> Vec<u32> {
        let pid = |message: &str| message.split_once(" ns, submitted by ")?.1.parse().ok();
        seen.lines().iter().filter_map(|line| pid(line.message)).collect()
    };
    let reported = submitters(&seen).len() as u64;
    expect(
        reported == done.count,
        format!("{} writes, and {reported} lines that end in: ns, submitted by PID", done.count),
        &seen,
    )?;
    let (threads, of_threads) = watch(binary, &format!("write {RAW_DEVICE} --threads 2"))?;
    for (seen, done) in [(&seen, &done), (&threads, &of_threads)] {
        let wrong = submitters(seen).into_iter().find(|pid| *pid != done.pid);
        let reported = wrong.unwrap_or_default();
        expect(
            wrong.is_none(),
            format!("the writes were those of process {}, not {reported}", done.pid),
            seen,
        )?;
    }
    Ok(format!(
        "all {} bios are reported as those of process {}, which is io, also with two threads",
        done.count, done.pid
    ))
}

fn whole_bios(binary: &str) -> Result<String> {
    let slowest = PIECES[2].as_nanos() as u64;
    with_split(|disk, size| {
        let (seen, done) = watch(binary, &format!("write {disk} --count 1 --size {size}"))?;
        let durations = durations(&events(&seen)?);
        let took = done.last_ns - done.first_ns;
        expect(
            matches!(durations[..], [ns] if (slowest..=took).contains(&ns)),
            format!("the write took {} ms, and the durations are {durations:?} ns", took / 1_000_000),
            &seen,
        )?;
        let missing = truth::not_measured(&seen)?;
        expect(missing == 0, format!("it has a duration, and the last line says {missing}"), &seen)
    })?;
    Ok("three writes, each in three pieces, took as long as their slowest piece, whichever that was"
        .to_owned())
}

fn average_of_all_cpus(binary: &str) -> Result<String> {
    const LINE: &str = "Average latency ";
    let (seen, ()) = watch_while(&[binary], || Ok(()))?;
    expect(!seen.stdout.contains(LINE), "there was no bio, and so no average", &seen)?;
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
        expect(count >= 10, format!("10 writes, and {count} lines with a duration"), &seen)?;
        let line = seen.stdout.lines().find_map(|line| line.strip_prefix(LINE));
        let average = line.and_then(|line| line.split_once(" ns")?.0.parse::<u64>().ok());
        let average = average.ok_or_else(|| Error::new(format!("no line says: {LINE}N ns of N bios")))?;
        // It may be rounded up or down.
        expect(
            average.abs_diff(sum / count) <= 1,
            format!("the average of the {count} durations is {} ns, not {average} ns", sum / count),
            &seen,
        )?;
        expect(
            line.is_some_and(|line| line.ends_with(&format!(" ns of {count} bios"))),
            format!("the line of the average does not end in: of {count} bios"),
            &seen,
        )?;
        averages.push(average / 1000);
    }
    Ok(format!(
        "with a slow write on one CPU and nine fast ones on the other, the averages are {} µs and {} µs, as those of the \
         lines",
        averages[0], averages[1]
    ))
}

fn fastest(binary: &str) -> Result<String> {
    const LINE: &str = "Min latency ";
    let (seen, ()) = watch_while(&[binary], || Ok(()))?;
    expect(!seen.stdout.contains(LINE), "there was no bio, and so no fastest", &seen)?;
    let (seen, _) = watch(binary, &format!("write {RAW_DEVICE} --threads 2 --count 16"))?;
    let least = durations(&events(&seen)?).into_iter().min();
    let least = least.ok_or_else(|| Error::new("it no longer prints durations"))?;
    expect(number(&seen, LINE, " ns") == Some(least), format!("no line says: {LINE}{least} ns"), &seen)?;
    Ok(format!("the shortest duration is the minimum, {least} ns, and without a bio there is none"))
}

/// The outputs for a small write at sector 800 and for a split one at 2048, if both sectors are right.
fn sectors(binary: &str) -> Result<Vec<Observation>> {
    // A slower bio of the journal would be the slowest.
    let _without = WithoutFs::new()?;
    let mut found = Vec::new();
    for (size, seek) in [(4096, 100), (1 << 20, 1)] {
        let (seen, _) = watch(binary, &format!("write {RAW_DEVICE} --count 1 --size {size} --seek {seek}"))?;
        let (sector, reported) = (size * seek / 512, truth::slowest(&seen)?.sector.unwrap_or_default());
        expect(
            reported == sector,
            format!("{size} bytes were written at sector {sector}, not at {reported}"),
            &seen,
        )?;
        found.push(seen);
    }
    Ok(found)
}

fn only_real_sectors(binary: &str) -> Result<String> {
    const FLUSHES: u64 = 3;
    let without = WithoutFs::new()?;
    let (seen, done) = watch_while(&[binary], || {
        let done = io(&["write", RAW_DEVICE, "--seek", "1280"])?;
        let disk = File::open(RAW_DEVICE).or_cause("cannot open the disk")?;
        (0..FLUSHES).try_for_each(|_| disk.sync_all()).or_cause("cannot flush the disk")?;
        Ok(done)
    })?;
    drop(without);
    let line = format!("Bios in each MiB: [0, 0, 0, 0, 0, {}, 0, 0]", done.count);
    expect(
        seen.stdout.lines().any(|found| found == line),
        format!("all {} writes went to the sixth MiB, but no line says: {line}", done.count),
        &seen,
    )?;
    expect(
        number(&seen, "Without data: ", "") == Some(FLUSHES),
        format!("the disk was flushed {FLUSHES} times, but no line says: Without data: {FLUSHES}"),
        &seen,
    )?;
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
    expect(counted == all, format!("{all} bios were submitted, and {counted} are counted"), &seen)?;
    Ok(format!("{} writes are counted where they went, and {FLUSHES} flushes nowhere", done.count))
}

fn size(binary: &str) -> Result<String> {
    let _without = WithoutFs::new()?;
    for size in [512, 8192, 1 << 20] {
        let (seen, _) = watch(binary, &format!("write {RAW_DEVICE} --count 1 --size {size}"))?;
        expect(number(&seen, "Bytes (", ")") == Some(size), format!("no line says: Bytes ({size})"), &seen)?;
    }
    Ok("512 bytes, 8 KiB and 1 MiB are reported correctly".to_owned())
}

fn who_submitted(binary: &str) -> Result<String> {
    // Its name differs from that of `io`.
    let other = Path::new("/tmp/passer-by");
    let _ = fs::remove_file(other);
    symlink("/bin/io", other).or_cause("cannot make a program called passer-by")?;
    let seen = long_enough(Duration::from_millis(100), |time| {
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
    })?;
    fs::remove_file(other).or_cause("cannot remove the program")?;
    let name = seen.stdout.lines().find_map(|line| line.strip_prefix("Submitted by "));
    expect(name.is_some(), "no line says: Submitted by NAME", &seen)?;
    expect(
        name == Some("io"),
        format!("io submitted the slowest bio, and not {}", name.unwrap_or_default()),
        &seen,
    )?;
    expect(
        truth::stack(&seen).last() == Some(&"submit_bio()"),
        "the stack does not end in submit_bio()",
        &seen,
    )?;
    Ok("io submitted the slowest bio, and neither who ran when it ended nor who came later is named"
        .to_owned())
}

fn code_paths(binary: &str) -> Result<String> {
    let submits = |seen: &Observation| -> Result<u64> {
        let events = events(seen)?;
        Ok(events.iter().filter(|(_, event)| matches!(event, Event::Submit { .. })).count() as u64)
    };
    let (seen, done) = watch(binary, &format!("write {RAW_DEVICE}"))?;
    let reported = pair(&seen, "Code paths", "bios")?;
    expect(
        reported == (1, done.count),
        format!("{} writes of the same kind take one path", done.count),
        &seen,
    )?;
    let file = format!("{FS_MOUNT}/{binary}");
    io(&["read-cold", &file, "--count", "64"])?;
    let (seen, _) = watch_while(&[binary], || {
        io(&["write", RAW_DEVICE])?;
        io(&["read-cold", &file, "--count", "64"])
    })?;
    fs::remove_file(&file).or_cause("cannot remove the file")?;
    let (paths, bios) = pair(&seen, "Code paths", "bios")?;
    let all = submits(&seen)?;
    expect(bios == all, format!("{all} bios were submitted on a known path, not {bios}"), &seen)?;
    expect(paths > 1, "a direct write and a read of a file take at least two paths", &seen)?;
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

fn records(binary: &str) -> Result<String> {
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
        format!(
            "{} writes, and {} lines that begin with: bio 0x... took N ns at sector N",
            all.len(),
            lines.len()
        ),
        &seen,
    )?;
    expect(
        sectors == all,
        format!("the writes from both CPUs were, in this order, at the sectors {all:?}, and not {sectors:?}"),
        &seen,
    )?;
    let [.., last] = times[..] else { return Err(Error::new("there are no times")) };
    expect(
        u128::from(last) >= SLOW.as_nanos(),
        format!("the last write took 20 ms or longer, and not {last} ns"),
        &seen,
    )?;
    expect(
        times.iter().max() == Some(&truth::slowest(&seen)?.duration()),
        "the slowest bio is not the slowest of the lines",
        &seen,
    )?;
    expect_all_sent(all.len() as u64, &seen)?;

    let (seen, _) = watch_stopped(binary, || io(&["write", RAW_DEVICE, "--count", &MANY.to_string()]))?;
    let received = expect_all_sent(MANY, &seen)?;
    expect(
        received < MANY,
        format!("all {MANY} records found room, so the ring buffer is larger than 16 KiB"),
        &seen,
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
fn expect_all_sent(bios: u64, seen: &Observation) -> Result<u64> {
    let printed = sent(seen).len() as u64;
    let (received, not_sent) = pair(seen, "Events received", "not sent")?;
    expect(
        printed == received && received + not_sent == bios,
        format!(
            "{bios} bios ended: {printed} are printed, {received} count as received, {not_sent} as not sent"
        ),
        seen,
    )?;
    expect(
        truth::not_measured(seen).is_ok_and(|missing| missing == 0),
        format!("each bio has ended, but the last line does not begin with: {}0", truth::NOT_MEASURED),
        seen,
    )?;
    Ok(received)
}

fn in_flight(binary: &str) -> Result<String> {
    const TOGETHER: usize = 32;
    let (seen, most) = long_enough(Duration::from_secs(2), |time| {
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
    })?;
    let reported = number(&seen, "Most in flight: ", "");
    expect(reported.is_some(), "no line says: Most in flight: N", &seen)?;
    expect(
        reported == Some(most as u64),
        format!("{most} requests were in flight together, not {}", reported.unwrap_or_default()),
        &seen,
    )?;
    let missing = truth::not_measured(&seen)?;
    expect(missing == 0, format!("all requests ended, and {missing} durations are missing"), &seen)?;
    Ok(format!("after a few syncs, {most} requests were in flight together, and as many are reported"))
}

fn reads_and_writes(binary: &str) -> Result<String> {
    let (seen, before_and_after) = watch_while(&[binary], || {
        let before = truth::disk_reads_and_writes()?;
        io(&["read-direct", RAW_DEVICE])?;
        io(&["write", RAW_DEVICE, "--count", "16"])?;
        Ok((before, truth::disk_reads_and_writes()?))
    })?;
    let (before, after) = before_and_after;
    let disks = (after.0 - before.0, after.1 - before.1);
    let reported = pair(&seen, "Reads", "writes")?;
    expect(reported == disks, format!("the disks count {} reads and {} writes", disks.0, disks.1), &seen)?;
    Ok(format!("{} reads and {} writes, as the disks count", reported.0, reported.1))
}

/// Whether a count is right. On a preemptible kernel, `tp_btf` can miss calls, and fexit, which a learner may use. The
/// kernel counts those, and then the count may be lower.
fn as_many(counted: u64, true_count: u64, seen: &Observation) -> bool {
    counted == true_count || counted < true_count && truth::skipped(seen).unwrap_or_default() > 0
}

fn different_pages(binary: &str) -> Result<String> {
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
    expect(total > 0, "it no longer counts pages", &seen)?;
    let different = number(&seen, "Different pages: ", "").unwrap_or_default();
    expect(
        different == pages,
        format!("the two files have {pages} pages that were read, and it counts {different} different ones"),
        &seen,
    )?;
    Ok(format!("{different} different pages in two files, however often they are read"))
}

fn bytes_read(binary: &str) -> Result<String> {
    let file = format!("{FS_MOUNT}/{binary}");
    io(&["read-warm", &file, "--count", "100", "--size", "1000"])?;
    let (seen, done) = watch(binary, &format!("read {file} --count 100 --size 1000"))?;
    fs::remove_file(&file).or_cause("cannot remove the file")?;
    let [total, ..] = truth::page_cache(&seen)?;
    expect(total > 0, "it no longer counts pages", &seen)?;
    expect(
        number(&seen, "Bytes read: ", "").is_some_and(|bytes| as_many(bytes, done.bytes, &seen)),
        format!("no line says: Bytes read: {}", done.bytes),
        &seen,
    )?;
    Ok(format!("{} bytes, as many as io read", done.bytes))
}

/// Pages that a program counts while it runs a command.
fn pages_of(binary: &str, command: &[&str]) -> Result<(u64, Observation)> {
    let seen = Running::start(&[&[binary, "--"][..], command].concat())?.wait()?;
    succeeded(&seen)?;
    Ok((truth::page_cache(&seen)?[0], seen))
}

fn to_the_last_thread(binary: &str) -> Result<String> {
    const THREADS: u64 = 64;
    const PAGES: u64 = THREADS * 8;
    let file = format!("{FS_MOUNT}/{binary}");
    io(&["read-warm", &file, "--count", &PAGES.to_string()])?;
    let threads = THREADS.to_string();
    let (total, seen) = pages_of(binary, &["io", "read", &file, "--threads", &threads, "--count", "8"])?;
    fs::remove_file(&file).or_cause("cannot remove the file")?;
    expect(total == PAGES, format!("{THREADS} threads read 8 pages each, and it counts {total}"), &seen)?;
    let ended = number(&seen, "Threads ended: ", "");
    expect(
        ended.is_some_and(|ended| as_many(ended, THREADS, &seen)),
        format!("no line says: Threads ended: {THREADS}"),
        &seen,
    )?;
    expect(
        number(&seen, "Ids in the filter: ", "") == Some(0),
        "the process has ended, but no line says: Ids in the filter: 0",
        &seen,
    )?;
    Ok(format!("{total} pages, of all {THREADS} threads; then the filter is empty"))
}

fn children(binary: &str) -> Result<String> {
    let file = format!("{FS_MOUNT}/{binary}");
    io(&["read-warm", &file, "--count", "64"])?;
    let read = format!("io read {file} --count 64");
    let (own, seen) = pages_of(binary, &["sh", "-c", &format!("exec {read}")])?;
    expect(
        as_many(own, 64, &seen),
        format!("the process itself reads 64 pages, and it counts {own}"),
        &seen,
    )?;
    let (total, seen) = pages_of(binary, &["sh", "-c", &format!("{read}; true")])?;
    fs::remove_file(&file).or_cause("cannot remove the file")?;
    expect(
        as_many(total, 64, &seen),
        format!("a child of the process reads 64 pages, and it counts {total}"),
        &seen,
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

/// Fails unless the lines are those of the files.
fn expect_files(milestone: u32, files: &[Known], seen: &Observation) -> Result<()> {
    let lines = FileLine::all(seen);
    let expect =
        |right, wrong: String| expect(right, format!("milestone {milestone} of 3 is missing: {wrong}"), seen);
    let mut ids = HashSet::new();
    for file in files {
        let (id, path, misses, reads) = (file.id()?, file.path.display(), file.misses(), file.reads());
        let of_file: Vec<_> = lines.iter().filter(|line| line.id == id).collect();
        let begin = format!("Missed {misses} of {reads}: {id}");
        match of_file[..] {
            [] => expect(false, format!("no line begins with {begin:?}, which is {path}"))?,
            [line] => expect(
                as_many(line.missed, misses, seen) && as_many(line.read, reads, seen),
                format!(
                    "the line of {path} should begin with {begin:?}, and not with \"Missed {} of {}\"",
                    line.missed, line.read
                ),
            )?,
            _ => expect(false, format!("{} lines are of {path}, which is {id}", of_file.len()))?,
        }
        ids.insert(id);
    }
    let other = lines.iter().find(|line| !ids.contains(&line.id)).map(|line| &line.id);
    expect(
        other.is_none(),
        format!("a line shows {}, which the process did not read", other.map_or("", String::as_str)),
    )
}

/// Fails unless the lines are in the order of the misses.
fn expect_sorted(milestone: u32, seen: &Observation) -> Result<()> {
    let misses: Vec<_> = FileLine::all(seen).iter().map(|line| line.missed).collect();
    let wrong = format!(
        "milestone {milestone} of 3 is missing: the file with the most misses comes first, but the order is {misses:?}"
    );
    expect(misses.is_sorted_by(|one, next| one >= next), wrong, seen)
}

fn worst_files(binary: &str) -> Result<String> {
    let one = of_four_files(binary)?;
    Ok(format!("{one}; {}", of_four_threads(binary)?))
}

/// The first two milestones. The process that reads is this one.
fn of_four_files(binary: &str) -> Result<String> {
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
        let wrong = format!(
            "milestone 2 of 3 is missing: the line of {id} should end with {name:?}, and not with {shown:?}"
        );
        expect(shown == name || name == "orders" && shown == "orders-2", wrong, &seen)?;
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
fn of_four_threads(binary: &str) -> Result<String> {
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
    let milestone = |error: Error| {
        let cause = format!("milestone 3 of 3 is missing: {}", error.cause());
        error.with_cause(cause)
    };
    let (seen, ()) = watch_while(&[binary, &process::id().to_string(), "--worst", &worst], || {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(read)).collect();
            let joined = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(Error::new("a thread that reads panicked")))
            });
            joined.collect()
        })
    })
    .map_err(milestone)?;
    let shown = FileLine::all(&seen).len();
    let wrong = format!("--worst {worst} of {PAGES} files shows {shown}");
    expect(shown == files.len() - 1, wrong, &seen).map_err(milestone)?;
    expect_sorted(3, &seen)?;
    // The file with one miss is the last one, so it is left out.
    expect_files(3, &files[..files.len() - 1], &seen)?;
    files.iter().map(|file| &file.path).try_for_each(fs::remove_file).or_cause("cannot remove a file")?;
    Ok(format!("and so are the {worst} worst of {PAGES} files that {THREADS} threads read together"))
}

fn only_bios(binary: &str) -> Result<String> {
    let (seen, done) = watch(binary, &format!("write {RAW_DEVICE} --count 8"))?;
    let calls = truth::calls(&seen);
    // What io calls itself, and not what interrupts it.
    let own = calls.iter().filter(|(line, ..)| line.pid == done.pid && !line.flags.contains(['h', 'H', 's']));
    let bios: HashSet<_> =
        own.clone().filter(|(_, function, _)| *function == "submit_bio").map(|(.., bio)| *bio).collect();
    for (_, function, bio) in own.clone() {
        let known = *bio == 0 || bios.contains(bio);
        expect(
            known,
            format!("{function}(bio=0x{bio:x}): this is no bio that submit_bio() got from io"),
            &seen,
        )?;
    }
    // These have it as their second and third argument.
    for name in ["wbt_wait", "wbt_track"] {
        let count = own.clone().filter(|(_, function, _)| *function == name).count() as u64;
        expect(
            count == done.count,
            format!("io wrote {} times, and {count} lines show {name}()", done.count),
            &seen,
        )?;
    }
    Ok(format!("{} calls of io, and each shows a bio that io submitted", own.count()))
}

fn one_bio(binary: &str) -> Result<String> {
    // Its interrupt comes when nothing else runs, so no call of bio_endio() is skipped.
    let disk = NullBlk::new(binary, Duration::from_millis(20))?;
    let (seen, _) = watch(binary, &format!("write {} --count 4", disk.device.display()))?;
    let calls = truth::calls(&seen);
    let names: Vec<_> = calls.iter().map(|(_, function, _)| *function).collect();
    for (nth, name) in [(Some(0), "submit_bio"), (names.len().checked_sub(1), "bio_endio")] {
        let place = if nth == Some(0) { "first" } else { "last" };
        expect(
            nth.and_then(|nth| names.get(nth)) == Some(&name),
            format!("there are {} lines, and the {place} is not {name}()", names.len()),
            &seen,
        )?;
        let count = names.iter().filter(|other| **other == name).count();
        expect(count == 1, format!("{count} lines show {name}(), and one bio passes it once"), &seen)?;
    }
    let bios: HashSet<_> = calls.iter().map(|(.., bio)| *bio).collect();
    expect(bios.len() == 1, format!("the lines show {} bios", bios.len()), &seen)?;
    expect(names.contains(&"blk_mq_submit_bio"), "no line shows blk_mq_submit_bio()", &seen)?;
    Ok(format!("the first of 4 bios passed {} functions, from submit_bio() to bio_endio()", names.len()))
}

fn failed_reads(binary: &str) -> Result<String> {
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
    let mut own: Vec<_> = seen.stdout.lines().filter_map(own).collect();
    own.sort();
    expect(
        own == [SIZE.to_string(), "error 21".to_owned()],
        format!(
            "process {pid} asked for 2 MiB twice: it got {SIZE} bytes and error 21, and not {}",
            own.join(", ")
        ),
        &seen,
    )?;
    Ok(format!("the read of {SIZE} bytes and the large one that failed with error 21, and no other"))
}

fn only_what_somebody_waits_for(binary: &str) -> Result<String> {
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
    expect(other.is_empty(), format!("-S -F shows requests without Sync: {}", other.join(", ")), &seen)?;
    let count: u64 = sync.iter().filter_map(|kind| kind["count"].as_u64()).sum();
    expect(
        count == done.count,
        format!("io waited for each of its {} writes, and -S counts {count}", done.count),
        &seen,
    )?;
    let warning = format!("warning: {ALONE} requests are not counted: nobody waits for them");
    expect(seen.stderr.contains(&warning), format!("no line says: {warning}"), &seen)?;
    Ok(format!("{count} writes that io waited for, and {ALONE} left out that nobody waited for"))
}

fn all_data(binary: &str) -> Result<String> {
    const KIB: u64 = 14;
    let _without = WithoutFs::new()?;
    let (seen, done) = watch_all(&[binary], || {
        let small = io(&["write", RAW_DEVICE, "--size", "512", "--count", "7"])?;
        Ok([small, io(&["write", RAW_DEVICE, "--size", "3584", "--count", "3"])?])
    })?;
    let [requests, bytes] =
        [done.iter().map(|done| done.count).sum(), done.iter().map(|done| done.bytes).sum::<u64>()];
    expect(
        truth::histogram(&seen.stdout).count() == requests,
        format!("the disk got {requests} requests, and the histogram has another number"),
        &seen,
    )?;
    expect(
        number(&seen, "Data: ", " KiB") == Some(KIB),
        format!("{bytes} bytes are {KIB} KiB, but no line says: Data: {KIB} KiB"),
        &seen,
    )?;
    Ok(format!("{requests} requests with {KIB} KiB, also if many of them are smaller than 1 KiB"))
}

fn reads_or_writes(binary: &str) -> Result<String> {
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
        let mut lines =
            seen.stdout.lines().skip_while(|line| !line.starts_with(&format!("PID: {} ", done.pid)));
        let line = format!("Reads: {reads}, writes: {writes}");
        let found = lines.nth(1).unwrap_or_default();
        expect(
            count > 0 && found == line,
            format!("process {} did {}, so its second line is {line}, and not {found}", done.pid, done.kind),
            &seen,
        )?;
    }
    Ok("buffered reads, direct reads and direct writes, each kind by its operation".to_owned())
}

fn processes_and_threads(binary: &str) -> Result<String> {
    // The main thread starts a thread, and the thread starts a process.
    let (seen, started) = watch_while(&[binary], || {
        let thread = thread::spawn(|| output(&mut Command::new("true")).map(|_| gettid()));
        thread.join().map_err(|_| Error::new("a thread panicked"))?
    })?;
    let by = |thread: Pid| -> Vec<&str> {
        let lines = seen.lines().into_iter().filter(|line| line.pid == thread.as_raw() as u32);
        lines.filter_map(|line| line.message.strip_prefix("Hello, World! ")).collect()
    };
    for (starter, who, what) in [(gettid(), "main", "A new thread"), (started, "other", "A new process")] {
        let found = by(starter);
        expect(
            found == [what],
            format!(
                "the {who} thread, {starter}, started {}, and not: {}",
                what.to_lowercase(),
                found.join(", ")
            ),
            &seen,
        )?;
    }
    Ok("a thread that the main thread started, and a process that the other thread started".to_owned())
}

fn all_losses(binary: &str) -> Result<String> {
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
        expect(counts.is_some(), "no line says: Events received: N, not sent: N", &seen)?;
        let (received, not_sent) = counts.unwrap_or_default();
        // The shell is one more, and the kernel may start threads.
        expect(
            (FORKS + 1..2 * FORKS).contains(&(received + not_sent)),
            format!(
                "a shell started {FORKS} processes while the program slept; {received} events were received, and \
                 {not_sent} count as not sent"
            ),
            &seen,
        )?;
        verdicts.push(format!("{received} received and {not_sent} not sent"));
    }
    Ok(format!(
        "of the events of {FORKS} processes, {}; through the ring buffer, {}",
        verdicts[0], verdicts[1]
    ))
}

fn a_first_read_that_misses(binary: &str) -> Result<String> {
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
        "the first read of a new file misses no page",
        &seen,
    )?;
    expect(!has_miss(|(_, second)| second.contains(MISS)), "the second read misses a page, too", &seen)?;
    let file = format!("{FS_MOUNT}/{binary}");
    io(&["read-warm", &file])?;
    let (map, byte) = mapped(&file)?;
    let seen = run(&["--file", &file])?;
    drop(map);
    fs::remove_file(&file).or_cause("cannot remove the file")?;
    expect(
        !seen.status.success(),
        format!(
            "a process has mapped the file with the byte {byte}, so the first read can't miss, but the program succeeds"
        ),
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

fn half_of_the_requests(binary: &str) -> Result<String> {
    const US: u64 = 21_000;
    const HALF: &str = "Half of the requests took ";
    let _without = WithoutFs::new()?;
    let disk = NullBlk::new(binary, Duration::from_micros(US))?;
    let device = disk.device.display().to_string();
    let half = |arguments: &[&str]| -> Result<(Observation, String)> {
        let (seen, _) = watch_all(&[&[binary], arguments].concat(), || io(&["write", &device]))?;
        let half = seen.stdout.lines().find_map(|line| line.strip_prefix(HALF)).map(str::to_owned);
        expect(half.is_some(), format!("no line says: {HALF}..."), &seen)?;
        Ok((seen, half.unwrap_or_default()))
    };
    let limits: [(&str, &str); 2] = [("10000000", "less than 10000000 us"), ("100", "9500 us or longer")];
    for (width, right) in limits {
        let (seen, half) = half(&["--linear", width])?;
        expect(half == right, format!("each took 21 ms: that is {right}, and not {half}"), &seen)?;
    }
    let (seen, half) = half(&[])?;
    let limit =
        half.strip_prefix("less than ").and_then(|half| half.strip_suffix(" us")?.parse::<u64>().ok());
    expect(
        limit.is_some_and(|limit| limit > US),
        format!("each took 21 ms or longer, and not {half}"),
        &seen,
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
        assert_eq!(CHECKS.map(|(id, _)| id).to_vec(), ids);
    }
}
