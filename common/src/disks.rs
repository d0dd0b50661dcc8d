//! The disks' numbers and names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Names of disks by the kernel's number. We remember a name even after its disk is gone.
#[derive(Debug, Default)]
pub struct Disks(BTreeMap<u32, String>);

impl Disks {
    /// The disk's name, or `MAJOR:MINOR` if the disk was gone before we looked.
    pub fn name(&mut self, dev: u32) -> String {
        if !self.0.contains_key(&dev) {
            // Not from /proc/partitions, because a driver can hide its disks there.
            self.0.extend(names().into_iter().filter_map(|name| Some((number_of(&name)?, name))));
        }
        self.0.get(&dev).cloned().unwrap_or_else(|| shown(dev))
    }
}

/// The name of the disk or partition with this number, such as `nvme0n1p1`.
pub fn name_of(dev: u32) -> Option<String> {
    let link = fs::read_link(place(dev)).ok()?;
    Some(link.file_name()?.to_str()?.to_owned())
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
    let disks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut names: Vec<_> = disks.filter_map(|disk| disk.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The number of a disk, if there is one with this name.
fn number_of(name: &str) -> Option<u32> {
    parse(&fs::read_to_string(Path::new("/sys/block").join(name).join("dev")).ok()?)
}

/// Parses `MAJOR:MINOR` into the number that the kernel keeps in a `dev_t`.
fn parse(dev: &str) -> Option<u32> {
    let (major, minor) = dev.trim().split_once(':')?;
    Some(major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?)
}

/// The number of a disk that the user named: `nvme0n1`, `/dev/nvme0n1`, or a link to it in `/dev`.
///
/// # Errors
/// If there is no such disk.
pub fn number(name: &str) -> Result<u32> {
    let file = fs::canonicalize(Path::new("/dev").join(name)).unwrap_or_else(|_| name.into());
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or(name);
    number_of(name).ok_or_else(|| {
        let is_partition = Path::new("/sys/class/block").join(name).exists();
        let what = if is_partition { "a partition, but requests go to the whole disk" } else { "not a disk" };
        Error::new(format!("{name} is {what}"))
            .evidence(format!("/sys/block has: {}", names().join(" ")))
            .fix("choose one of these: -d DISK")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_have_numbers_and_names() {
        assert_eq!(["259:1\n", "8", ""].map(parse), [Some(259 << 20 | 1), None, None]);
        let mut disks = Disks([(8 << 20, "sda".to_owned())].into());
        assert_eq!(
            (disks.name(8 << 20), disks.name(4095 << 20 | 3)),
            ("sda".to_owned(), "4095:3".to_owned())
        );
    }

    #[test]
    fn a_disk_that_does_not_exist_is_an_error() {
        let error = number("sdzz9").unwrap_err().to_string();
        assert!(error.starts_with("sdzz9 is not a disk\n  evidence: /sys/block has:"), "{error}");
    }
}
