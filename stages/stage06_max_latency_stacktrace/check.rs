//! What is right for this stage and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::fs;
use std::iter;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::OrCause;
use wire::command::output;
use wire::disks::{FS_MOUNT, RAW_DEVICE};
use wire::workload::Done;

use super::stage05;
use crate::check::{
    Check, Program, count_of, expect_none_missing, expect_pair, pair, watch, watch_stopped, watch_while,
};
use crate::null_blk::{NullBlk, long_enough};
use crate::running::{Observation, io};
use crate::system::WithoutFs;
use crate::truth::{self, Event, durations, events, expect_stack};
use crate::verdict::{Checked, expect, expect_line};

/// See [`Check`].
pub const CHECK: Check = Check {
    program: Some(Program::Beside("write", right)),
    lines: 3,
    exercises: &[("06.1", who_submitted), ("06.2", code_paths), ("06.3", records)],
};

/// What stage 05 shows, and a stack that ends in submit_bio().
pub fn right(seen: &Observation, done: &Done) -> Checked<String> {
    let shown = stage05::right(seen, done)?;
    expect_stack(seen)?;
    Ok(format!("{shown}, with its stack"))
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
    let (seen, _) = watch_stopped(&[binary], || {
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

    let (seen, _) = watch_stopped(&[binary], || io(&["write", RAW_DEVICE, "--count", &MANY.to_string()]))?;
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
