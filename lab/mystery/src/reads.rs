//! Reads became slow. Either the kernel reads nothing ahead any more, or the page cache is too small for what is read
//! again and again.
//!
//! On both, each miss reads one page from the disk, one after the other, so `iostat` prints the same.

use std::fmt::Display;
use std::fs::File;
use std::time::Duration;

use common::{OrCause, Result};
use fastrand::Rng;
use guest::null_blk::disk;
use guest::system::{Cgroup, queue, write};

use crate::job::{Access, Job, Stream};
use crate::parts::{DISKS, GROUPS, JOBS, job, shuffled, truth};
use crate::story::{Kept, Parts, Story, Twin};

/// The data that is read again and again.
const DATA: u64 = 12 << 20;
/// One read of it that fills the cache quickly, and what the kernel reads ahead on a healthy disk.
const CHUNK: u64 = 128 << 10;

pub fn make(seed: &mut Rng, twin: Twin) -> Result<Parts> {
    let names = shuffled(seed, DISKS);
    let [patient, other, ..] = shuffled(seed, JOBS);
    let [group, other_group, ..] = shuffled(seed, GROUPS);
    let time = Duration::from_millis(seed.u64(12..=20));
    let size = [1024, 2048][seed.usize(..2)];
    // How many percent of the data have no place in the cache.
    let missed = seed.u64(25..=50);

    // On one of the disks, nothing is read ahead. Nobody reads much from the other.
    let ahead = if twin == Twin::One { ["0", "128"] } else { ["128", "0"] };
    let make = |nth: usize| {
        let files = [("scheduler", "none"), ("read_ahead_kb", ahead[nth])];
        disk(names[nth], time, &[("size", 8192), ("max_sectors", 2560)], &files)
    };
    let disks = [make(0)?, make(1)?];
    // When nobody has a disk open, the kernel drops the disk's pages.
    let opened = File::open(&disks[0].device).or_cause("cannot open a disk")?;
    let groups = [Cgroup::new(group)?, Cgroup::new(other_group)?];

    let all = Stream {
        target: disks[0].device.clone(),
        access: Access::Read,
        size,
        from: 0,
        blocks: (4 << 30) / size,
        depth: 0,
        random: false,
        round: CHUNK / size,
        rest: Duration::ZERO,
        pause: Duration::ZERO,
    };
    let again = Stream { blocks: DATA / size, random: true, ..all.clone() };
    let fill = Stream { size: CHUNK, blocks: DATA / CHUNK, round: DATA / CHUNK, ..all.clone() };
    let rare = Stream {
        target: disks[1].device.clone(),
        random: true,
        round: 1,
        pause: Duration::from_millis(500),
        ..all.clone()
    };
    let mut reader = Job::start(patient, Some(&groups[0].folder))?;
    match twin {
        Twin::One => reader.order(std::slice::from_ref(&all))?,
        Twin::Other => {
            let room = groups[0].bytes("memory.current") + DATA / 100 * (100 - missed);
            groups[0].set("memory.max", &room.to_string())?;
            reader.order(std::slice::from_ref(&fill))?;
            reader.first(0)?;
            reader.order(std::slice::from_ref(&again))?;
        }
    }
    let jobs = vec![reader, job(other, Some(&groups[1]), &[rare])?];

    let name = names[0];
    let percent = missed as f64;
    let first = 100.0 * size as f64 / 4096.0;
    let truth = match twin {
        // Of the reads of a page, the first one misses it.
        Twin::One => truth("no-read-ahead", &[name.to_owned()], first * 0.8..=first * 1.25)?,
        Twin::Other => truth("small-cache", &[group.to_owned()], percent - 12.0..=percent + 20.0)?,
    };
    let folder = groups[0].folder.display();
    let mib = groups[0].bytes("memory.max") as f64 / f64::from(1 << 20);
    let values: &[(&str, &dyn Display)] = &[
        ("patient", &patient),
        ("name", &name),
        ("group", &group),
        ("folder", &folder),
        ("size", &size),
        ("mib", &format!("{mib:.1}")),
        ("reads", &(CHUNK / size)),
        ("records", &(4096 / size)),
    ];
    let story = Story::new(include_str!("reads.toml"), time, truth, values)?;
    let ahead = queue(&disks[0].device.to_string_lossy(), "read_ahead_kb")?;
    let limit = groups[0].folder.join("memory.max");
    let fix = move |jobs: &mut [Job]| -> Result<Kept> {
        match twin {
            Twin::One => {
                write(&ahead, "128")?;
                // An open file keeps the setting that it was opened with.
                // It goes on where nothing is in the cache yet.
                jobs[0].order(&[Stream { from: 4 << 30, ..all }])?;
            }
            Twin::Other => {
                write(&limit, "max")?;
                jobs[0].order(&[fill])?;
                jobs[0].first(0)?;
                jobs[0].order(&[again])?;
            }
        }
        Ok(Box::new(()))
    };
    Ok(Parts { story, jobs, stream: 0, fix: Box::new(fix), world: Box::new((opened, disks, groups)) })
}
