//! The guest's disks: the serials and names by which both machines know them.

/// Serial of the disk with the file system. We identify disks by serial because the kernel may swap the names of two
/// NVMe disks between boots.
pub const FS_DISK: &str = "lab-fs";
/// What mke2fs makes there. Its defaults gain features with time, and 5.10 must mount the result: these are what Debian 12
/// has. The sizes are of a block, of an inode, and of the disk for each inode.
pub const FS_OPTIONS: &str = "-b 1024 -I 256 -i 4096 -m 5 -t ext4 -O none,has_journal,ext_attr,resize_inode,dir_index,filetype,\
    extent,64bit,flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize,metadata_csum";
/// Serial of the disk without a file system.
pub const RAW_DISK: &str = "lab-raw";
/// The guest's name for the disk with the file system.
pub const FS_DEVICE: &str = "/dev/fs";
pub const FS_MOUNT: &str = "/mnt";
/// The guest's name for the disk without a file system, which is for direct writes at known sectors.
pub const RAW_DEVICE: &str = "/dev/scratch";

/// Serial of the disk with a partition.
pub const PART_DISK: &str = "lab-part";
/// The guest's name for its only partition, which begins at sector [`PART_START`] of the disk.
pub const PART_DEVICE: &str = "/dev/part";
pub const PART_START: u32 = 2048;

/// The first sector of a disk of this size: an MBR, the oldest kind of partition table, whose only partition takes
/// the rest of the disk.
pub fn partition_table(bytes: u64) -> Vec<u8> {
    const LINUX: u8 = 0x83;
    let mut sector = vec![0; 512];
    sector[446 + 4] = LINUX;
    sector[446 + 8..446 + 12].copy_from_slice(&PART_START.to_le_bytes());
    sector[446 + 12..446 + 16].copy_from_slice(&((bytes / 512) as u32 - PART_START).to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}
