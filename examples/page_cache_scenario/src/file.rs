//! The file that is read.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use common::{Error, OrCause, Result};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::statfs::{FsType, TMPFS_MAGIC, statfs};

/// `RAMFS_MAGIC` of the kernel's `include/uapi/linux/magic.h`.
const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);

/// A file on a disk.
pub struct Subject {
    file: File,
    /// The path by which another process can open it.
    pub path: PathBuf,
    /// Its name for messages.
    pub name: String,
}

impl Subject {
    /// Opens an existing file.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let cannot = || format!("cannot read {name}");
        let what = fs::metadata(path).or_cause(cannot())?;
        let kind = what.file_type();
        let fix = "name a file that has data, on a disk, or leave out --file";
        if !kind.is_file() && !kind.is_block_device() {
            return Err(Error::new(cannot()).evidence("it is neither a file nor a disk").fix(fix));
        }
        if kind.is_file() && what.len() == 0 {
            return Err(Error::new(cannot()).evidence("it holds 0 bytes").fix(fix));
        }
        let file = File::open(path).or_cause(cannot())?;
        if kind.is_file() && is_in_memory(path) {
            return Err(Error::new(format!("{name} is always in the page cache: a read cannot miss it"))
                .evidence("its file system, tmpfs or ramfs, has no disk: the page cache is where the file is")
                .fix(fix));
        }
        Ok(Self { file, path: path.to_owned(), name })
    }

    /// Makes a file of this size, at least a page. It has no name in its folder, so nothing is left even if the run is
    /// killed.
    pub fn make(bytes: u32) -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").or_cause("cannot read /proc/self/mounts")?;
        let mounts = mounts.lines().filter(|line| line.starts_with("/dev/"));
        let mounted = mounts.filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
        let folders = env::current_dir().into_iter().chain([PathBuf::from("/var/tmp")]).chain(mounted);
        for folder in folders.filter(|folder| !is_in_memory(folder)) {
            let Ok(mut file) = tempfile::tempfile_in(&folder) else { continue };
            let text = b"hello linux filesystem\n".iter().cycle().take(bytes.max(4096) as usize);
            let written = file.write_all(&text.copied().collect::<Vec<_>>());
            // We sync now, long before we drop the file from the page cache, because the kernel may still hold a page
            // right after it was written.
            written.and_then(|()| file.sync_all()).or_cause("cannot write a file to read")?;
            let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into();
            return Ok(Self { file, path, name: format!("a new file in {}", folder.display()) });
        }
        Err(Error::new("there is no disk to make a file on")
            .evidence("we can write neither to this folder, nor to /var/tmp, nor to any file system mounted from /dev")
            .fix("name a file to read: --file FILE"))
    }

    /// Drops it from the page cache.
    pub fn forget(&self) -> Result<()> {
        let cause = format!("cannot take {} out of the page cache", self.name);
        // The kernel doesn't drop pages that are not written yet.
        self.file.sync_all().or_cause(&*cause)?;
        posix_fadvise(&self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).or_cause(cause)
    }
}

/// Whether this file system keeps its files only in memory.
fn is_in_memory(path: &Path) -> bool {
    statfs(path).is_ok_and(|fs| [TMPFS_MAGIC, RAMFS_MAGIC].contains(&fs.filesystem_type()))
}
