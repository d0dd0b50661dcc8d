//! What is right for this stage and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::iter;
use std::time::Duration;

use wire::disks::RAW_DEVICE;
use wire::workload::Done;

use super::stage01;
use crate::check::{Check, Program, count_of, expect_pair, pair, watch};
use crate::null_blk::NullBlk;
use crate::running::Observation;
use crate::truth::{Event, Writes, events};
use crate::verdict::{Checked, expect};

/// See [`Check`].
pub const CHECK: Check = Check {
    program: Some(Program::Beside("write", right)),
    lines: 2,
    exercises: &[("02.1", both_counts), ("02.2", the_right_end), ("02.3", kprobe_misses)],
};

/// What stage 01 shows, and an end for each write, before the next one is submitted.
pub fn right(seen: &Observation, done: &Done) -> Checked<String> {
    let shown = stage01::right(seen, done)?;
    Writes::of(seen, done)?.ends()?;
    Ok(format!("{shown}, each followed by a bio_endio()"))
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
