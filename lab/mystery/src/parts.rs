//! What the cases are made of: disks, cgroups, processes, truths.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{Error, OrCause, Result};
use fastrand::Rng;
use guest::device_mapper;
use guest::null_blk::{NullBlk, show_settings};
use guest::system::queue;
use wire::command::output;
use wire::mystery::cause_of;

use crate::answer::Truth;
use crate::job::{Job, Stream};
use crate::journaled::unmount;

/// Where cgroups are.
const CGROUPS: &str = "/sys/fs/cgroup";
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
/// The name of a cgroup in another one.
const CHILD: &str = "app";

/// Makes a disk with these settings of null_blk, and writes these files of its queue.
pub fn disk(
    name: &str,
    time: Duration,
    settings: &[(&str, u128)],
    files: &[(&str, &str)],
) -> Result<NullBlk> {
    // The scheduler is built in, or a module without an alias here by which the kernel would find it.
    let _ = Command::new("modprobe").args(["-q", "mq-deadline"]).status();
    let disk = NullBlk::with(name, time, settings)?;
    for (file, value) in files {
        write(&queue(&disk.device.to_string_lossy(), file)?, value)?;
    }
    Ok(disk)
}

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
    for group in GROUPS.map(|group| Path::new(CGROUPS).join(group)) {
        let _ = fs::remove_dir(group.join(CHILD));
        let _ = fs::remove_dir(group);
    }
    Ok(())
}

/// Writes a file in `/sys`.
pub fn write(file: &Path, value: &str) -> Result<()> {
    fs::write(file, value).or_cause(format!("cannot write {value} to {}", file.display()))
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

/// A cgroup. Dropping this removes it.
#[derive(Debug)]
pub struct Cgroup {
    pub folder: PathBuf,
}

impl Cgroup {
    /// Makes one.
    pub fn new(name: &str) -> Result<Self> {
        const MOUNT: &str =
            "grep -q ' /sys/fs/cgroup ' /proc/mounts || mount -t cgroup2 cgroup2 /sys/fs/cgroup";
        output(Command::new("sh").args(["-c", MOUNT]))?;
        write(&Path::new(CGROUPS).join("cgroup.subtree_control"), "+memory +io")?;
        let folder = Path::new(CGROUPS).join(name);
        fs::create_dir(&folder).or_cause("cannot make a cgroup")?;
        Ok(Self { folder })
    }

    /// Makes one in this one, which then has no processes of its own.
    pub fn child(&self) -> Result<Self> {
        self.set("cgroup.subtree_control", "+io")?;
        let folder = self.folder.join(CHILD);
        fs::create_dir(&folder).or_cause("cannot make a cgroup")?;
        Ok(Self { folder })
    }

    /// The bytes that one of its files names, such as `memory.max`; `max`, which is no limit, counts as none.
    pub fn bytes(&self, file: &str) -> u64 {
        let text = fs::read_to_string(self.folder.join(file));
        text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or_default()
    }

    /// Writes one of its files, such as `memory.max`.
    pub fn set(&self, file: &str, value: &str) -> Result<()> {
        write(&self.folder.join(file), value)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // If this fails, it ends with the guest.
        let _ = fs::remove_dir(&self.folder);
    }
}
