//! In the guest: a file system with a journal. busybox has no mke2fs that makes one.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{OrCause, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use wire::command::output;

/// Bytes of a block, and of an inode, so each inode has a block of its own in the journal.
pub const BLOCK: usize = 4096;
/// How many blocks the journal has.
const JOURNAL: u32 = 2048;

/// A file system with a journal. Dropping this unmounts it.
#[derive(Debug)]
pub struct Journaled {
    /// Where it is mounted.
    pub folder: PathBuf,
}

impl Journaled {
    /// Makes it and mounts it.
    pub fn new(device: &Path, folder: &str) -> Result<Self> {
        let size = BLOCK.to_string();
        output(Command::new("mke2fs").args(["-b", &size, "-I", &size, "-i", "65536"]).arg(device))?;
        fs::create_dir_all(folder).or_cause("cannot make a folder for a file system")?;
        // As tune2fs -j does: the journal is a file, whose number the file system knows.
        let plain = Self::mount(device, folder)?;
        let file = plain.folder.join(".journal");
        let mut journal = vec![0; BLOCK * JOURNAL as usize];
        for (at, value) in Self::HEAD {
            journal[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        fs::write(&file, journal).or_cause("cannot write a journal")?;
        let number = fs::metadata(&file).or_cause("there is no journal")?.ino() as u32;
        drop(plain);
        Self::name_journal(device, number).or_cause("cannot name the journal")?;
        Self::mount(device, folder)
    }

    /// Unmounts it and mounts it again, so nothing is left to write, and the journal counts from zero.
    pub fn again(self, device: &Path) -> Result<Self> {
        let folder = self.folder.to_string_lossy().into_owned();
        drop(self);
        Self::mount(device, &folder)
    }

    /// The numbers that a journal begins with, in big endian: the kernel's `struct journal_superblock_s`.
    const HEAD: [(usize, u32); 7] = [
        (0, 0xc03b_3998),
        // The second version of this head.
        (4, 4),
        (12, BLOCK as u32),
        (16, JOURNAL),
        // Its first block, and the number of its first transaction.
        (20, 1),
        (24, 1),
        // One file system uses it.
        (64, 1),
    ];

    /// Writes the journal's inode into the superblock.
    fn name_journal(device: &Path, inode: u32) -> std::io::Result<()> {
        const SUPERBLOCK: u64 = 1024;
        const FEATURES: u64 = SUPERBLOCK + 0x5c;
        const HAS_JOURNAL: u8 = 4;
        let disk = File::options().read(true).write(true).open(device)?;
        let mut features = [0];
        disk.read_exact_at(&mut features, FEATURES)?;
        disk.write_all_at(&[features[0] | HAS_JOURNAL], FEATURES)?;
        disk.write_all_at(&inode.to_le_bytes(), SUPERBLOCK + 0xe0)
    }

    fn mount(device: &Path, folder: &str) -> Result<Self> {
        // A file gets its blocks when it is written. Otherwise it gets them when the page cache is written, and no fsync of
        // another file waits for that. And of the inodes, it reads only the block that somebody asks for.
        let options = Some("nodelalloc,inode_readahead_blks=0");
        mount(Some(device), folder, Some("ext4"), MsFlags::MS_NOATIME, options)
            .or_cause(format!("cannot mount {}", device.display()))?;
        Ok(Self { folder: folder.into() })
    }
}

impl Drop for Journaled {
    fn drop(&mut self) {
        unmount(&self.folder);
    }
}

/// Unmounts whatever is mounted there. If somebody is still in it, it disappears, and ends with the guest.
pub fn unmount(folder: &Path) {
    let _ = umount2(folder, MntFlags::empty()).or_else(|_| umount2(folder, MntFlags::MNT_DETACH));
}
