//! What is right for this stage and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::collections::HashMap;
use std::time::Duration;

use common::trace_pipe::Line;
use wire::disks::RAW_DEVICE;
use wire::workload::Done;

use super::stage02;
use crate::check::{Check, Program, count_of, expect_none_missing, watch, watch_while};
use crate::device_mapper::{PIECES, with_split};
use crate::null_blk::NullBlk;
use crate::running::{Observation, io};
use crate::truth::{self, Ended, Event, Writes, durations, events};
use crate::verdict::{Checked, expect, expect_line};

/// See [`Check`].
pub const CHECK: Check = Check {
    program: Some(Program::Beside("write", right)),
    lines: 3,
    exercises: &[("03.1", nothing_stays), ("03.2", who_waited), ("03.3", whole_bios)],
};

/// What stage 02 shows, and a duration for each end, which is its time minus that of the start.
pub fn right(seen: &Observation, done: &Done) -> Checked<String> {
    let shown = stage02::right(seen, done)?;
    let mut durations = 0;
    for Ended { start, end, duration } in Writes::of(seen, done)?.ends()? {
        let Some((line, duration)) = duration else { continue };
        expect(
            duration == end - start,
            format!("{} ns, which is {end} - {start}", end - start),
            format!("{duration} ns"),
            seen.at_trace(|other| *other == line),
        )?;
        durations += 1;
    }
    let expected = format!("{} durations, one for each bio of io", done.count);
    expect(durations == done.count, expected, durations.to_string(), seen)?;
    // Bios of other tasks may still be in flight.
    truth::balance(seen)?;
    Ok(format!("{shown}, and every duration is end minus start"))
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
