//! What is right for this stage and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::trace_pipe::Line;
use wire::command::output;
use wire::disks::RAW_DEVICE;
use wire::workload::Done;

use super::stage03;
use crate::check::{Check, Program, count_of, number, watch, watch_while};
use crate::null_blk::NullBlk;
use crate::running::Observation;
use crate::system::WithoutFs;
use crate::truth::{self, Event, durations, events};
use crate::verdict::{Checked, expect, expect_line, wrong};

/// See [`Check`].
pub const CHECK: Check = Check {
    program: Some(Program::Beside("write", right)),
    lines: 3,
    exercises: &[("04.1", average_of_all_cpus), ("04.2", fastest), ("04.3", ours)],
};

/// What stage 03 shows, and the longest duration as the maximum.
pub fn right(seen: &Observation, done: &Done) -> Checked<String> {
    let shown = stage03::right(seen, done)?;
    let (most, slowest) = (durations(&events(seen)?).into_iter().max(), truth::slowest(seen)?.duration());
    expect(
        most == Some(slowest),
        format!("`Max latency {} ns`: the longest duration", most.unwrap_or_default()),
        format!("`Max latency {slowest} ns`"),
        seen.at(|line| line.starts_with("Max latency ")),
    )?;
    Ok(format!("{shown}, the longest of which is the maximum"))
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

fn ours(binary: &str) -> Checked<String> {
    const TIME: Duration = Duration::from_millis(20);
    const WRITES: usize = 4;
    let _without = WithoutFs::new()?;
    let disk = NullBlk::new(binary, TIME)?;
    let (seen, _) = watch(binary, &format!("write {} --count {WRITES}", disk.device.display()))?;
    // The writes come one after the other, and each has three lines.
    let lines = seen.lines();
    let mut parts: Vec<(&Line<'_>, u64, u64)> = Vec::new();
    for line in &lines {
        let numbers = line.message.strip_prefix("submit_bio() -> bio_endio() time duration: ");
        let numbers = numbers.and_then(|text| text.strip_suffix(" ns")?.split_once(" ns, ours: "));
        if let Some((duration, ours)) = numbers {
            parts.push((line, duration.parse().unwrap_or_default(), ours.parse().unwrap_or_default()));
        }
    }
    expect(
        parts.len() == WRITES,
        format!("{WRITES} lines `... ns, ours: N ns`, one for each write"),
        count_of(parts.len() as u64, "such line"),
        seen.at_trace(|line| line.message.contains(" time duration: ")),
    )?;
    let starts = lines.iter().filter_map(|line| match Event::parse(line.message) {
        Some(Event::Submit { ns, .. }) => Some((ns, line.time)),
        _ => None,
    });
    let ends = lines.iter().filter_map(|line| match Event::parse(line.message) {
        Some(Event::End { ns, .. }) => Some(ns),
        _ => None,
    });
    for (((start, written), end), (line, duration, ours)) in starts.zip(ends).zip(parts) {
        let at = || seen.at_trace(|other| other == line);
        let took = u64::saturating_sub(end, start);
        expect(
            duration.checked_add(ours) == Some(took),
            format!("two parts that together are {took} ns: {end} - {start}"),
            format!("{duration} ns and {ours} ns"),
            at(),
        )?;
        // Rounded to whole microseconds.
        let written: u64 = written.replace('.', "").parse().unwrap_or_default();
        let least = (1000 * written).saturating_sub(start + 500);
        expect(
            ours >= least && u128::from(duration) >= TIME.as_nanos(),
            format!(
                "{least} ns or more of ours, until the kernel wrote the line, and then 20 ms or more for the disk"
            ),
            format!("{ours} ns and {duration} ns"),
            at(),
        )?;
    }
    Ok(format!("each of {WRITES} writes has its own time and ours, and they add up"))
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
