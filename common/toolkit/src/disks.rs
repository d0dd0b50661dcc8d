//! The disks' numbers and names.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use common::{Error, Result};
use nix::sys::stat::{major, minor};

const BLOCK: &str = "/sys/block";

/// The name of the disk or partition with this number, such as `nvme0n1p1`.
pub fn name_of(dev: u32) -> Option<String> {
    match fs::read_link(place(dev)) {
        Ok(link) => Some(link.file_name()?.to_str()?.to_owned()),
        Err(_) => in_statistics(&fs::read_to_string("/proc/diskstats").ok()?, dev),
    }
}

/// The name of the disk with this number in `/proc/diskstats`. Only this file shows the number of a hidden disk, such as
/// a path to an NVMe disk that has several; on 5.10 it shows 0 for it.
fn in_statistics(diskstats: &str, dev: u32) -> Option<String> {
    diskstats.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let number = format!("{}:{}", words.next()?, words.next()?);
        (dev != 0 && parse(&number) == Some(dev)).then(|| words.next().map(str::to_owned))?
    })
}

/// The number of a disk's partition. `nth` counts the entries of the partition table from 1.
pub fn partition(disk: u32, nth: u8) -> Option<u32> {
    let parts = fs::read_dir(place(disk)).ok()?.flatten().map(|entry| entry.path());
    let is_it = |part: &Path| {
        fs::read_to_string(part.join("partition")).is_ok_and(|found| found.trim() == nth.to_string())
    };
    parts
        .into_iter()
        .find(|part| is_it(part))
        .and_then(|part| parse(&fs::read_to_string(part.join("dev")).ok()?))
}

/// The number as `MAJOR:MINOR`.
pub fn shown(dev: u32) -> String {
    format!("{}:{}", dev >> 20, dev & 0xf_ffff)
}

fn place(dev: u32) -> PathBuf {
    Path::new("/sys/dev/block").join(shown(dev))
}

/// The names of all disks.
fn names() -> Vec<String> {
    let disks = fs::read_dir(BLOCK).into_iter().flatten().flatten();
    let mut names: Vec<_> = disks.filter_map(|disk| disk.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The number of a disk, if there is one with this name.
fn number_of(name: &str) -> Option<u32> {
    parse(&fs::read_to_string(Path::new(BLOCK).join(name).join("dev")).ok()?)
}

/// Parses `MAJOR:MINOR` into the number that the kernel keeps in a `dev_t`.
fn parse(dev: &str) -> Option<u32> {
    let (major, minor) = dev.trim().split_once(':')?;
    Some(major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?)
}

/// The number of a disk that the user named: `nvme0n1`, `/dev/nvme0n1`, or a link to it in `/dev`.
pub fn number(name: &str) -> Result<u32> {
    let name = find(name)?;
    number_of(&name).ok_or_else(|| {
        let upper = names().into_iter().find(|upper| is_path(&name, upper));
        let upper = upper.unwrap_or_else(|| "DISK".to_owned());
        Error::new(format!("{name} is hidden: it is a path to a disk, and bios go to the disk"))
            .evidence(format!("{BLOCK}/{name} has no file dev"))
            .fix(format!("choose the disk: -d {upper}"))
    })
}

/// The kernel's name of a disk that the user named, and that makes requests.
pub fn of_requests(name: &str) -> Result<String> {
    let name = find(name)?;
    if makes_requests(&name) {
        return Ok(name);
    }
    let mut beneath = BTreeSet::new();
    add_beneath(&name, &mut beneath);
    let beneath: Vec<_> = beneath.into_iter().collect();
    let error = Error::new(format!("{name} makes no requests, and only bios reach it"));
    let (found, fix) = match &beneath[..] {
        [] => (
            "no disk is beneath it".to_owned(),
            "look at its bios: with stage 03, or with bitesize".to_owned(),
        ),
        [first, ..] => (
            format!("beneath it are: {}", beneath.join(" ")),
            format!("choose a disk beneath it, which makes them: -d {first}"),
        ),
    };
    Err(error.evidence(format!("{BLOCK}/{name} has no folder mq, and {found}")).fix(fix))
}

/// A disk, as BPF programs see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Such as `nvme0n1`.
    pub name: String,
    /// Whether its driver gets requests. If not, only bios reach it.
    pub makes_requests: bool,
    /// The disks that make requests for its bios.
    pub beneath: Vec<String>,
}

/// All disks of this machine.
pub fn all() -> Vec<Disk> {
    let disk = |name: String| {
        let mut beneath = BTreeSet::new();
        add_beneath(&name, &mut beneath);
        Disk { makes_requests: makes_requests(&name), beneath: beneath.into_iter().collect(), name }
    };
    names().into_iter().map(disk).collect()
}

/// The kernel's name of a whole disk that the user named.
fn find(name: &str) -> Result<String> {
    // A node in /dev can have any name, but its number is the disk's. A hidden disk has no node.
    let path = Path::new("/dev").join(name);
    let node = fs::metadata(&path).ok().filter(|node| node.file_type().is_block_device());
    let known = node.and_then(|node| name_of((major(node.rdev()) << 20 | minor(node.rdev())) as u32));
    let name = known.as_deref().or(path.file_name().and_then(|name| name.to_str())).unwrap_or(name);
    let names = names();
    if names.iter().any(|known| known == name) {
        return Ok(name.to_owned());
    }
    let is_partition = Path::new("/sys/class/block").join(name).exists();
    let what = if is_partition { "a partition, but requests go to the whole disk" } else { "not a disk" };
    Err(Error::new(format!("{name} is {what}"))
        .evidence(format!("{BLOCK} has: {}", names.join(" ")))
        .fix("choose one of these: -d DISK"))
}

/// Whether a disk's driver gets requests (blk-mq) and not bios.
fn makes_requests(name: &str) -> bool {
    Path::new(BLOCK).join(name).join("mq").is_dir()
}

/// Adds the disks that make requests for the bios of a disk that makes none: those that device-mapper or MD made it
/// from, and the paths to an NVMe disk.
fn add_beneath(name: &str, found: &mut BTreeSet<String>) {
    let paths = names().into_iter().filter(|path| is_path(path, name));
    for disk in slaves(name).chain(paths) {
        match makes_requests(&disk) {
            true => drop(found.insert(disk)),
            false => add_beneath(&disk, found),
        }
    }
}

/// The disks that device-mapper or MD made a disk from.
fn slaves(name: &str) -> impl Iterator<Item = String> {
    let slaves = fs::read_dir(Path::new(BLOCK).join(name).join("slaves")).into_iter().flatten().flatten();
    slaves.filter_map(|slave| whole_disk(&fs::canonicalize(slave.path()).ok()?))
}

/// The names of the disks that device-mapper or MD made from the disk with this number.
pub fn above(disk: u32) -> Vec<String> {
    let Some(name) = name_of(disk) else { return Vec::new() };
    names().into_iter().filter(|upper| slaves(upper).any(|slave| slave == name)).collect()
}

/// The name of the disk with this folder, or of the disk that has the partition with this folder.
fn whole_disk(folder: &Path) -> Option<String> {
    let disk = if folder.join("partition").exists() { folder.parent()? } else { folder };
    Some(disk.file_name()?.to_str()?.to_owned())
}

/// Whether `path` is a path to the NVMe disk `disk`, as `nvme0c1n2` is one to `nvme0n2`.
fn is_path(path: &str, disk: &str) -> bool {
    let parts = |name: &str| {
        let (subsystem, rest) = name.strip_prefix("nvme")?.split_once(['c', 'n'])?;
        let namespace = rest.rsplit('n').next()?;
        Some((subsystem.to_owned(), namespace.to_owned()))
    };
    path.contains('c') && !disk.contains('c') && parts(path).is_some() && parts(path) == parts(disk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_have_numbers_and_names() {
        assert_eq!(["259:1\n", "8", ""].map(parse), [Some(259 << 20 | 1), None, None]);
        let statistics = " 259       0 nvme2n1 32 0\n 259       1 nvme2c2n1 32 0\n   8       1 sda1 0 0\n";
        let names = [259 << 20 | 1, 8 << 20 | 1, 8 << 20].map(|dev| in_statistics(statistics, dev));
        assert_eq!(names, [Some("nvme2c2n1".to_owned()), Some("sda1".to_owned()), None]);
    }

    #[test]
    fn a_path_belongs_to_one_disk() {
        assert!(is_path("nvme2c3n1", "nvme2n1"));
        for other in ["nvme2n2", "nvme3n1", "nvme2c3n1", "nvme2n1p1", "sda"] {
            assert!(!is_path("nvme2c3n1", other), "{other}");
        }
        assert!(!is_path("nvme2n1", "nvme2n1") && !is_path("dm-0", "dm-0"));
    }

    #[test]
    fn a_disk_that_does_not_exist_is_an_error() {
        let error = number("sdzz9").unwrap_err().to_string();
        assert!(error.starts_with("sdzz9 is not a disk\n  evidence: /sys/block has:"), "{error}");
    }
}
