//! What is right for this stage and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::collections::BTreeSet;
use std::time::Duration;

use common::trace_pipe::Line;
use wire::disks::RAW_DEVICE;
use wire::workload::Done;

use super::stage02;
use crate::check::{Check, Program, count_of, expect_missing, expect_none_missing, watch, watch_while};
use crate::device_mapper::{PIECES, with_split};
use crate::null_blk::{NullBlk, long_enough};
use crate::running::{Observation, io};
use crate::system::WithoutFs;
use crate::truth::{self, Ended, Event, Writes, durations, events};
use crate::verdict::{Checked, expect, expect_line};

/// See [`Check`].
pub const CHECK: Check = Check {
    program: Some(Program::Beside("write", right)),
    lines: 3,
    exercises: &[
        ("03", true_durations),
        ("03.1", nothing_stays),
        ("03.2", who_waited),
        ("03.3", whole_bios),
        ("03.4", no_room),
    ],
};

/// What stage 02 shows, and a duration for each end, which fits between its two lines.
pub fn right(seen: &Observation, done: &Done) -> Checked<String> {
    let shown = stage02::right(seen, done)?;
    let mut durations = 0;
    for Ended { start, end, duration } in Writes::of(seen, done)?.ends()? {
        let Some((line, duration)) = duration else { continue };
        expect(
            (1..=end - start).contains(&duration),
            format!(
                "{} ns, which is {end} - {start}, or less, because the first line was printed meanwhile",
                end - start
            ),
            format!("{duration} ns"),
            seen.at_trace(|other| *other == line),
        )?;
        durations += 1;
    }
    let expected = format!("{} durations, one for each bio of io", done.count);
    expect(durations == done.count, expected, durations.to_string(), seen)?;
    // Bios of other tasks may still be in flight.
    truth::balance(seen)?;
    Ok(format!("{shown}, and with a duration that fits between the two"))
}

/// The stage itself: the durations of a disk that takes 20 ms, too.
fn true_durations(binary: &str) -> Checked<String> {
    const TIME: Duration = Duration::from_millis(20);
    let (_, shown) = Program::Beside("write", right).judge(binary)?;
    let disk = NullBlk::new(binary, TIME)?;
    let (seen, done) = watch(binary, &format!("write {} --count 4", disk.device.display()))?;
    right(&seen, &done)?;
    let is_short = |ns: u64| u128::from(ns) < TIME.as_nanos();
    let shortest = durations(&events(&seen)?).into_iter().min().unwrap_or_default();
    expect(
        !is_short(shortest),
        "durations of 20 ms or more: this disk takes that long",
        format!("{shortest} ns"),
        seen.at_trace(
            |line| matches!(Event::parse(line.message), Some(Event::Duration { ns }) if is_short(ns)),
        ),
    )?;
    Ok(format!("{shown}; and on a disk that takes 20 ms, none is shorter"))
}

/// How long a bio must take at least, in nanoseconds, to be shown in 03.1.
const SLOW: u64 = 10_000_000;

fn nothing_stays(binary: &str) -> Checked<String> {
    const SLOW_WRITES: u64 = 8;
    let slow = NullBlk::new(binary, Duration::from_nanos(SLOW + SLOW / 10))?;
    let (seen, ()) = watch_while(&[binary], || {
        // The fast ones come last: a slow bio at the same address would take the entry that a fast one left.
        io(&["write", &slow.device.to_string_lossy(), "--count", &SLOW_WRITES.to_string()])?;
        io(&["write", RAW_DEVICE, "--count", "200"]).map(drop)
    })?;
    let events = events(&seen)?;
    let (mut started, mut ended) = (BTreeSet::new(), 0);
    for (_, event) in &events {
        match *event {
            Event::Submit { bio, .. } => drop(started.insert(bio)),
            Event::End { bio, .. } => ended += u64::from(started.remove(&bio)),
            _ => {}
        }
    }
    expect_none_missing(&seen, &format!("all {ended} writes ended"))?;
    // On a busy machine, a write to the fast disk may be slow, too.
    let shown = durations(&events);
    let (all, fast) = (shown.len() as u64, shown.iter().filter(|ns| **ns < SLOW).count() as u64);
    let is_fast =
        |line: &Line<'_>| matches!(Event::parse(line.message), Some(Event::Duration { ns }) if ns < SLOW);
    expect(
        all >= SLOW_WRITES && fast == 0,
        format!("{SLOW_WRITES} durations or more, and none below 10 ms"),
        match fast {
            0 => count_of(all, "duration"),
            fast => format!("{}, {fast} of them below 10 ms", count_of(all, "duration")),
        },
        seen.at_trace(is_fast),
    )?;
    let why = format!("{ended} bios ended, and {all} have a duration");
    expect_line(&seen, "Not shown: ", ended - all, &why)?;
    Ok(format!("{all} slow bios are shown and {} fast ones are not, and none stayed in the map", ended - all))
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
        expect_none_missing(&seen, "the write has a duration")?;
        let splits = truth::splits(&seen);
        expect(
            splits == 0,
            "no word of splits in that line, because their durations are right now",
            format!("`perhaps {splits} more`"),
            seen.at(|line| line.starts_with(truth::NOT_MEASURED)),
        )
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

/// As many bios at the same time as 03.4's map has room for.
const ROOM: u64 = 4;

fn no_room(binary: &str) -> Checked<String> {
    let _without = WithoutFs::new()?;
    let watched = |threads: u64| -> Checked<(Observation, u64)> {
        let seen = long_enough(Duration::from_millis(500), |time| {
            let disk = NullBlk::new(binary, time)?;
            let write = format!("write {} --count 1 --threads {threads}", disk.device.display());
            let (seen, _) = watch(binary, &write)?;
            // All of them are in flight if the program has seen them begin before it saw one end.
            let is_start = |line: &Line<'_>| line.message.starts_with("submit_bio(");
            let together = seen.lines().iter().take_while(|line| is_start(line)).count() as u64;
            Ok((together == threads).then_some(seen))
        })?;
        let shown = durations(&events(&seen)?).len() as u64;
        Ok((seen, shown))
    };
    let (seen, shown) = watched(ROOM)?;
    let why = format!("{ROOM} bios were on their way, and the map has room for as many");
    expect(shown == ROOM, format!("{ROOM} durations: {why}"), count_of(shown, "duration"), &seen)?;
    expect_none_missing(&seen, &why)?;
    let (seen, shown) = watched(2 * ROOM)?;
    let why = format!("{} bios were on their way, and {shown} have a duration", 2 * ROOM);
    expect(shown == ROOM, format!("{ROOM} durations"), count_of(shown, "duration"), &seen)?;
    let missing = 2 * ROOM - shown;
    expect_missing(&seen, missing, &why)?;
    Ok(format!(
        "of {} bios at the same time, {shown} have a duration, and {missing} are counted as missing",
        2 * ROOM
    ))
}
