//! The folder of a guest's files, and whether the disk below it has room for them.

use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use common::{Error, OrCause, Result};
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::sys::statvfs::statvfs;
use nix::unistd::Uid;

use crate::host::folders;
use crate::qemu::DISKS;

/// A folder for a guest's files. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Scratch {
    // Declared before the lock, so it is dropped first: the folder is ours until it is gone.
    folder: tempfile::TempDir,
    _lock: Flock<fs::File>,
}

impl Scratch {
    const PREFIX: &str = "bpf-lab-";
    /// A file in it that the lab keeps locked. The kernel releases the lock however the lab ends. A process ID would
    /// not work, because a lab in another container can share /tmp but has IDs that mean nothing here.
    const LOCK: &str = "lock";

    /// Makes a folder, and removes the folders of labs that were killed.
    pub(crate) fn new(above: &Path) -> Result<Self> {
        Self::remove_dead(above);
        let cannot = "cannot make a folder for the guest";
        loop {
            let folder = folders::private(above, Self::PREFIX).or_cause(cannot)?;
            let file = fs::File::create(folder.path().join(Self::LOCK)).or_cause(cannot)?;
            // Before we had the lock, another lab may have considered the folder dead. Then it is gone, or will be
            // soon.
            let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock);
            if let Ok(lock) = lock
                && lock.metadata().is_ok_and(|file| file.nlink() > 0)
            {
                return Ok(Self { folder, _lock: lock });
            }
        }
    }

    fn remove_dead(above: &Path) {
        for entry in fs::read_dir(above).into_iter().flatten().flatten() {
            let has_name = entry.file_name().to_str().is_some_and(|name| name.starts_with(Self::PREFIX));
            // Anybody can make folders in /tmp. A link is not followed here.
            let is_ours = |it: fs::Metadata| it.is_dir() && it.uid() == Uid::effective().as_raw();
            // To open a FIFO would take forever.
            let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
            let mut options = fs::OpenOptions::new();
            if has_name
                && entry.metadata().is_ok_and(is_ours)
                && let Ok(file) =
                    options.read(true).custom_flags(flags.bits()).open(entry.path().join(Self::LOCK))
                && let Ok(_lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            {
                // If we can't remove it, it stays.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Checks that the folder for the guest's files has room for its disks, and returns the free bytes there.
pub fn free_space() -> Result<u64> {
    check_free_space(&std::env::temp_dir(), DISKS.iter().map(|(_, _, bytes)| bytes).sum())
}

/// Checked before the guest boots, because later a full disk would look like a broken one.
fn check_free_space(folder: &Path, needed: u64) -> Result<u64> {
    let disk = statvfs(folder).or_cause(format!("cannot find out how much room {} has", folder.display()))?;
    let free = disk.blocks_available() * disk.fragment_size();
    if free >= needed {
        return Ok(free);
    }
    Err(Error::new("there is no room for the guest's disks")
        .evidence(format!("{} has {} MiB, they may take {} MiB", folder.display(), free >> 20, needed >> 20))
        .fix("make room there, or name another folder: TMPDIR=FOLDER cargo lab ..."))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of them belong to this process, because the process does not matter.
    #[test]
    fn only_the_folders_that_no_lab_holds_are_removed() {
        let above = tempfile::tempdir().unwrap();
        let living = Scratch::new(above.path()).unwrap();
        let Scratch { folder, _lock } = Scratch::new(above.path()).unwrap();
        fs::write(folder.path().join("raw"), "what a guest wrote").unwrap();
        // As if its lab had been killed.
        let dead = folder.keep();
        drop(_lock);
        let others = above.path().join("bpf-lab-of-something-else");
        fs::create_dir(&others).unwrap();
        let next = Scratch::new(above.path()).unwrap();
        assert!(!dead.exists());
        assert!([living.path(), next.path(), &others].iter().all(|path| path.exists()));
        drop((living, next));
        assert_eq!(above.path().read_dir().unwrap().count(), 1);
    }

    /// Anybody can make what is in /tmp. If a FIFO was opened, this would take forever.
    #[test]
    fn what_others_make_is_left_alone() {
        let above = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let folder = above.path().join(format!("{}{name}", Scratch::PREFIX));
            fs::create_dir(&folder).unwrap();
            nix::unistd::mkfifo(&folder.join(Scratch::LOCK), nix::sys::stat::Mode::S_IRWXU).unwrap();
            folder
        };
        let _ours = make("ours");
        let theirs = make("theirs");
        let is_root = Uid::effective().is_root();
        if is_root {
            std::os::unix::fs::chown(&theirs, Some(1), None).unwrap();
        }
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join(Scratch::LOCK), "").unwrap();
        let link = above.path().join("bpf-lab-link");
        std::os::unix::fs::symlink(elsewhere.path(), &link).unwrap();
        let scratch = Scratch::new(above.path()).unwrap();
        assert_eq!(scratch.path().metadata().unwrap().mode() & 0o7777, 0o700);
        assert_eq!((theirs.exists(), link.exists()), (is_root, true));
    }

    #[test]
    fn a_full_disk_is_an_error_before_the_guest_runs() {
        let error = check_free_space(Path::new("/"), u64::MAX).unwrap_err();
        insta::with_settings!({filters => [(r"\d+ MiB", "[N] MiB")]}, {
            insta::assert_snapshot!(error, @r"
            there is no room for the guest's disks
              evidence: / has [N] MiB, they may take [N] MiB
              fix:      make room there, or name another folder: TMPDIR=FOLDER cargo lab ...
            ");
        });
    }
}
