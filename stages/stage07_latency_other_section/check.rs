//! What is right for this stage and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

use common::{Error, OrCause};
use wire::disks::{FS_MOUNT, RAW_DEVICE};

use crate::check::{Check, FILE, Judged, Program, expect_none_missing, expect_pair, settle, watch_while};
use crate::null_blk::{NullBlk, long_enough};
use crate::running::{Observation, io};
use crate::system::WithoutFs;
use crate::truth::{self, Event, durations, events};
use crate::verdict::{Checked, expect, expect_line};

/// See [`Check`].
pub const CHECK: Check = Check {
    program: Some(Program::Own(program)),
    lines: 3,
    exercises: &[("07.1", in_flight), ("07.2", reads_and_writes)],
};

fn program(binary: &str) -> Checked<Judged> {
    let work = [&["write"], &FILE[..]].concat();
    settle(&work)?;
    let (seen, (done, ios)) = watch_while(&[binary], || {
        let before = truth::disk_ios()?;
        let done = io(&work)?;
        Ok((done, truth::disk_ios()? - before))
    })?;
    if ios < done.count {
        return Err(Error::new(format!("the disks count {ios} I/Os, but io did {}", done.count)).into());
    }
    let shown = right(&seen, ios)?;
    Ok((seen, shown))
}

/// A duration for each read and write that the disks count.
pub fn right(seen: &Observation, ios: u64) -> Checked<String> {
    let events = events(seen)?;
    let is_complete = events.iter().any(|(_, event)| matches!(event, Event::Complete { .. }));
    expect(is_complete, "lines `block_rq_complete(rq=0x...) is called!`", "no such line", seen)?;
    let (durations, missing) = (durations(&events).len() as u64, truth::not_measured(seen)?);
    expect(
        (durations..=durations + missing).contains(&ios),
        format!("{ios} durations: the disks count that many reads and writes"),
        format!("{durations} durations, and {missing} missing"),
        seen,
    )?;
    Ok(format!("the disks count {ios} reads and writes, and the stage as many"))
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
