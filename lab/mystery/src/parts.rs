//! What the cases are made of: disks, cgroups, processes, truths.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use common::{Error, Result};
use fastrand::Rng;
use guest::device_mapper;
use guest::null_blk::show_settings;
use guest::system::Cgroup;
use wire::mystery::cause_of;

use crate::answer::Truth;
use crate::job::{Job, Stream};
use crate::journaled::unmount;

/// The name of the volume that is made of disks.
pub const VOLUME: &str = "data";
/// Where the file system of a case is mounted.
pub const FOLDER: &str = "/data";
/// Names for disks.
pub const DISKS: [&str; 8] = ["vda", "vdb", "vdc", "vdd", "vde", "vdf", "vdg", "vdh"];
/// Names for processes.
pub const JOBS: [&str; 8] = ["billing", "orders", "ledger", "search", "mailer", "photos", "stock", "prices"];
/// Names for cgroups.
pub const GROUPS: [&str; 5] = ["front", "back", "office", "shop", "night"];

/// These in any order.
pub fn shuffled<T, const N: usize>(seed: &mut Rng, mut all: [T; N]) -> [T; N] {
    seed.shuffle(&mut all);
    all
}

/// Removes what a case left behind whose process was killed. Its jobs ended with it.
pub fn clear() -> Result<()> {
    show_settings()?;
    unmount(Path::new(FOLDER));
    device_mapper::remove(VOLUME);
    for disk in DISKS.map(|name| Path::new("/sys/kernel/config/nullb").join(name)) {
        let _ = fs::write(disk.join("power"), "0");
        let _ = fs::remove_dir(disk);
    }
    GROUPS.into_iter().for_each(Cgroup::remove);
    Ok(())
}

/// Starts a process with its orders, in a cgroup if one is given.
pub fn job(name: &str, group: Option<&Cgroup>, streams: &[Stream]) -> Result<Job> {
    let mut job = Job::start(name, group.map(|group| group.folder.as_path()))?;
    job.order(streams)?;
    Ok(job)
}

pub fn truth(word: &str, places: &[String], numbers: RangeInclusive<f64>) -> Result<Truth> {
    let cause = cause_of(word).ok_or_else(|| Error::new(format!("there is no cause {word}")))?;
    Ok(Truth { cause, places: places.to_vec(), numbers })
}
