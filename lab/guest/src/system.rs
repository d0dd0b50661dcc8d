//! The guest's system: its file system, its page cache, its settings.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{OrCause, Result};
use nix::errno::Errno;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::mount::{MsFlags, mount, umount};
use wire::command::output;
use wire::disks::{FS_DEVICE, FS_MOUNT, RAW_DEVICE};

/// The line to the lab, or to a room kit's launcher: the second serial port. The first one is the kernel's console, and on
/// arm64 it is of another kind, with another name.
pub const LINE: &str = if cfg!(target_arch = "aarch64") { "/dev/ttyS0" } else { "/dev/ttyS1" };

/// The environment of every program in the guest.
pub const ENVIRONMENT: [(&str, &str); 4] =
    [("PATH", "/bin"), ("HOME", "/root"), ("TERM", "dumb"), ("PS1", "lab:\\w# ")];

/// Whether to wait less for RCU: 0 or 1. Before the kernel takes a probe away, it waits until no CPU can be running it.
/// It can wait for each CPU's next clock ticks, or interrupt the CPU.
pub const RCU_EXPEDITED: &str = "/sys/kernel/rcu_expedited";

/// In the guest: mounts the disk with the file system. The options keep ext4 from background I/O that a learner did
/// not ask for: it does not write its inode tables, read its block bitmaps ahead, or record when a file was read.
pub fn mount_fs() -> Result<()> {
    let mount = |options| mount(Some(FS_DEVICE), FS_MOUNT, Some("ext4"), MsFlags::MS_NOATIME, Some(options));
    // 5.10 does not know the second option, and does not read ahead.
    mount("noinit_itable,no_prefetch_block_bitmaps")
        .or_else(|_| mount("noinit_itable"))
        .or_cause(format!("cannot mount ext4 at {FS_MOUNT}"))
}

/// In the guest: unmounts the file system if it is mounted, so it does no I/O.
pub fn unmount_fs() -> Result<()> {
    match umount(FS_MOUNT) {
        // It was not mounted.
        Ok(()) | Err(Errno::EINVAL) => Ok(()),
        Err(error) => Err(error).or_cause(format!("cannot unmount {FS_MOUNT}")),
    }
}

/// The file system is not mounted as long as this lives, so neither it nor its journal does any I/O.
pub struct WithoutFs(());

impl WithoutFs {
    pub fn new() -> Result<Self> {
        unmount_fs().map(Self)
    }
}

impl Drop for WithoutFs {
    fn drop(&mut self) {
        if let Err(error) = mount_fs() {
            eprintln!("warning: {error}");
        }
    }
}

/// A second file system, on the disk that has none, as long as this lives.
pub struct SecondFs(());

impl SecondFs {
    pub const MOUNT: &str = "/tmp/second";

    pub fn new() -> Result<Self> {
        output(Command::new("mke2fs").arg(RAW_DEVICE))?;
        fs::create_dir_all(Self::MOUNT).or_cause("cannot make a folder for a file system")?;
        mount(Some(RAW_DEVICE), Self::MOUNT, Some("ext4"), MsFlags::MS_NOATIME, None::<&str>)
            .or_cause(format!("cannot mount {RAW_DEVICE}"))?;
        Ok(Self(()))
    }
}

impl Drop for SecondFs {
    fn drop(&mut self) {
        if let Err(error) = umount(Self::MOUNT) {
            eprintln!("warning: {} is still mounted: {error}", Self::MOUNT);
        }
    }
}

/// Writes everything that is pending, then removes a file from the page cache.
pub fn evict(file: impl AsRef<Path>) -> Result<()> {
    let cannot = || format!("cannot take {} out of the page cache", file.as_ref().display());
    nix::unistd::sync();
    let file = fs::File::open(&file).or_cause(cannot())?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).or_cause(cannot())
}

/// A file of a disk's queue, such as `iostats`.
pub fn queue(device: &str, file: &str) -> Result<PathBuf> {
    let disk = fs::canonicalize(device).or_cause(format!("there is no disk {device}"))?;
    Ok(Path::new("/sys/block").join(disk.file_name().unwrap_or_default()).join("queue").join(file))
}

/// Changes a file in `/proc` or `/sys`. Dropping this restores the old value.
#[derive(Debug)]
pub struct Setting {
    file: PathBuf,
    old: String,
}

impl Setting {
    pub fn new(file: impl Into<PathBuf>, value: &str) -> Result<Self> {
        let file = file.into();
        let old = fs::read_to_string(&file).or_cause(format!("cannot read {}", file.display()))?;
        fs::write(&file, value).or_cause(format!("cannot write {value:?} to {}", file.display()))?;
        // If there are several values, the current one is in brackets.
        let chosen = old.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(chosen, _)| chosen);
        let old = chosen.unwrap_or(&old).trim().to_owned();
        Ok(Self { file, old })
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.file, &self.old) {
            eprintln!("warning: {} could not be reset to {:?}: {error}", self.file.display(), self.old);
        }
    }
}

/// Where cgroups are.
const CGROUPS: &str = "/sys/fs/cgroup";
/// The name of a cgroup in another one.
const CHILD: &str = "app";

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

    /// Removes one that a process left behind which was killed.
    pub fn remove(name: &str) {
        let folder = Path::new(CGROUPS).join(name);
        let _ = fs::remove_dir(folder.join(CHILD));
        let _ = fs::remove_dir(folder);
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

/// Writes a file in `/sys`.
pub fn write(file: &Path, value: &str) -> Result<()> {
    fs::write(file, value).or_cause(format!("cannot write {value} to {}", file.display()))
}
