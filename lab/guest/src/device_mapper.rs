//! In the guest: a disk made from parts of other disks.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Error, OrCause, Result};
use wire::command::output;

/// A disk made from parts of other disks, one after the other: device-mapper's target `linear`, with which LVM makes
/// its volumes. The block layer splits a bio that crosses the boundary between two parts. Dropping this removes the
/// disk. See the kernel's `Documentation/admin-guide/device-mapper/linear.rst`.
#[derive(Debug)]
pub struct Linear {
    name: &'static str,
    /// The disk's device.
    pub device: PathBuf,
}

impl Linear {
    /// Makes a disk from the first sectors of each of these disks.
    ///
    /// # Errors
    /// If the kernel has no device-mapper, or refuses.
    pub fn new(name: &'static str, parts: &[(&Path, u64)]) -> Result<Self> {
        let cannot = "cannot make a device-mapper disk";
        output(Command::new("modprobe").arg("dm-mod"))?;
        let (mut table, mut from) = (String::new(), 0);
        for (disk, sectors) in parts {
            table += &format!("{from} {sectors} linear {} 0\n", disk.display());
            from += sectors;
        }
        // Without this option, dmsetup would wait for udev, which the guest doesn't have.
        let mut create = Command::new("dmsetup");
        create.args(["create", name, "--noudevrules", "--noudevsync"]);
        let mut child = create.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().or_cause(cannot)?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(table.as_bytes()).or_cause(cannot)?;
        }
        let done = child.wait_with_output().or_cause(cannot)?;
        if !done.status.success() {
            return Err(Error::new(cannot).evidence(String::from_utf8_lossy(&done.stderr)));
        }
        let mut this = Self { name, device: PathBuf::new() };
        // Without udev, /dev has the disk only under the kernel's name, such as dm-0.
        let disks = fs::read_dir("/sys/block").or_cause("cannot list the disks")?.flatten();
        let is_it =
            |disk: &PathBuf| fs::read_to_string(disk.join("dm/name")).is_ok_and(|found| found.trim() == name);
        let disk = disks.map(|disk| disk.path()).find(is_it);
        let disk = disk.as_deref().and_then(Path::file_name).ok_or_else(|| Error::new(cannot))?;
        this.device = Path::new("/dev").join(disk);
        Ok(this)
    }
}

impl Drop for Linear {
    fn drop(&mut self) {
        // If this fails, the disk ends with the guest.
        let _ = Command::new("dmsetup").args(["remove", "--noudevrules", "--noudevsync", self.name]).output();
    }
}
