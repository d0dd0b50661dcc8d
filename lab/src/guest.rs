//! What is agreed between the lab and its guest, besides [`crate::protocol`].

use common::{OrCause, Result};
use nix::mount::{MsFlags, mount};

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

/// Serial of the disk with a partition.
pub const PART_DISK: &str = "lab-part";
/// The guest's name of its one partition, which begins at sector [`PART_START`] of the disk.
pub const PART_DEVICE: &str = "/dev/part";
/// The first sector of the partition.
pub const PART_START: u32 = 2048;

/// In the guest: mounts the disk with the file system, so that ext4 does no I/O in the background that a learner did not
/// ask for: it neither writes its inode tables, nor reads its block bitmaps ahead, nor notes when a file was read.
///
/// # Errors
/// If it can't be mounted.
pub fn mount_fs() -> Result<()> {
    let mount = |options| mount(Some(FS_DEVICE), FS_MOUNT, Some("ext4"), MsFlags::MS_NOATIME, Some(options));
    // 5.10 does not know the second, and does not read ahead.
    mount("noinit_itable,no_prefetch_block_bitmaps")
        .or_else(|_| mount("noinit_itable"))
        .or_cause(format!("cannot mount ext4 at {FS_MOUNT}"))
}
