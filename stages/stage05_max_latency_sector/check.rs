//! What is right for this stage and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::fs::{self, File};

use common::OrCause;
use wire::disks::{FS_MOUNT, RAW_DEVICE};
use wire::workload::Done;

use super::stage04;
use crate::check::{Check, Program, number, watch, watch_while};
use crate::running::{Observation, io};
use crate::system::WithoutFs;
use crate::truth::{self, Event, events};
use crate::verdict::{Checked, expect, expect_line};

/// See [`Check`].
pub const CHECK: Check = Check {
    program: Some(Program::Beside("write", right)),
    lines: 3,
    exercises: &[("05", sectors_too), ("05.1", only_real_sectors), ("05.2", size)],
};

/// What stage 04 shows. Whether the sector is right, no write of a file can tell: see [`sectors`].
pub fn right(seen: &Observation, done: &Done) -> Checked<String> {
    stage04::right(seen, done)
}

/// The stage itself: the sectors, too.
fn sectors_too(binary: &str) -> Checked<String> {
    let (_, shown) = Program::Beside("write", right).judge(binary)?;
    sectors(binary)?;
    Ok(format!("{shown}; and the sectors are those that were written"))
}

/// Fails unless the sectors of a small write at 800 and of a split one at 2048 are right.
fn sectors(binary: &str) -> Checked {
    // A slower bio of the journal would be the slowest.
    let _without = WithoutFs::new()?;
    for (size, seek) in [(4096, 100), (1 << 20, 1)] {
        let (seen, _) = watch(binary, &format!("write {RAW_DEVICE} --count 1 --size {size} --seek {seek}"))?;
        truth::slowest(&seen)?;
        let right = format!("{})", size * seek / 512);
        expect_line(&seen, "Bio Info : Sector (", right, &format!("{size} bytes were written there"))?;
    }
    Ok(())
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
