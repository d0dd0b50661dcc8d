//! What is right for this stage and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use wire::command::output;
use wire::disks::RAW_DEVICE;
use wire::workload::Done;

use super::stage03;
use crate::check::{Check, Program, count_of, number, watch, watch_while};
use crate::null_blk::NullBlk;
use crate::running::Observation;
use crate::truth::{self, durations, events};
use crate::verdict::{Checked, expect, expect_line, wrong};

/// See [`Check`].
pub const CHECK: Check = Check {
    program: Some(Program::Beside("write", right)),
    lines: 3,
    exercises: &[("04.1", average_of_all_cpus), ("04.2", fastest)],
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
