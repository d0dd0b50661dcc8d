//! What is agreed between the lab and its guest, besides [`crate::protocol`].

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Serial of the disk with the file system. The kernel's names of two NVMe disks swap between boots.
pub const FS_DISK: &str = "lab-fs";
/// Serial of the disk without.
pub const RAW_DISK: &str = "lab-raw";
/// The guest's name of the disk with the file system.
pub const FS_DEVICE: &str = "/dev/fs";
/// Where it is mounted.
pub const FS_MOUNT: &str = "/mnt";
/// The guest's name of the disk without: for direct writes at known sectors.
pub const RAW_DEVICE: &str = "/dev/scratch";

/// The exit status a shell would give: the program's own, or 128 + the signal that ended it.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
