//! Finds tracefs, and makes a private trace buffer in it.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{TRACEFS_MAGIC, statfs};
use nix::unistd::geteuid;

use crate::lab::in_the_lab;
use crate::{Error, Result};

const MOUNT_POINTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The folder where tracefs is mounted, if it is. This changes nothing.
pub fn mounted() -> Option<PathBuf> {
    // We look at the list of mounts first, because the kernel mounts tracefs below debugfs as soon as anybody looks
    // there.
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    places(&mounts)
        .map(PathBuf::from)
        .find(|place| statfs(place).is_ok_and(|fs| fs.filesystem_type() == TRACEFS_MAGIC))
}

/// The usual mount points where tracefs is mounted, from the text of `/proc/self/mounts`.
fn places(mounts: &str) -> impl Iterator<Item = &'static str> {
    let is_mounted = |place: &&str| {
        mounts.lines().any(|line| {
            let mut words = line.split(' ').skip(1);
            (words.next(), words.next()) == (Some(*place), Some("tracefs"))
        })
    };
    MOUNT_POINTS.into_iter().filter(is_mounted)
}

/// Checks that tracefs is mounted or can be mounted, but doesn't mount it.
pub(crate) fn look() -> Result<()> {
    let file_systems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if mounted().is_some() || file_systems.split_whitespace().any(|name| name == "tracefs") {
        return Ok(());
    }
    Err(Error::new("this kernel has no tracefs, the file system of the trace pipe")
        .evidence("/proc/filesystems does not list it")
        .fix(format!("boot a kernel built with CONFIG_TRACING: {}", in_the_lab())))
}

/// The folder of tracefs. Mounts it if necessary.
pub fn path() -> Result<PathBuf> {
    mounted().map_or_else(mount_here, Ok)
}

fn mount_here() -> Result<PathBuf> {
    let place = Path::new(MOUNT_POINTS[0]);
    match mount(Some("tracefs"), place, Some("tracefs"), MsFlags::empty(), None::<&str>) {
        Ok(()) => Ok(place.to_owned()),
        Err(error) => Err(not_mounted(error)),
    }
}

fn not_mounted(error: Errno) -> Error {
    let failed = Error::new("tracefs, the file system of the trace pipe, cannot be mounted")
        .evidence(format!("mount -t tracefs tracefs {}: {}", MOUNT_POINTS[0], std::io::Error::from(error)));
    match error {
        Errno::ENODEV | Errno::ENOENT => {
            failed.fix(format!("boot a kernel built with CONFIG_TRACING: {}", in_the_lab()))
        }
        _ => failed.fix("as root, outside of any container: mount -t tracefs tracefs /sys/kernel/tracing"),
    }
}

/// Writes a setting in place of its old value, even in a file to which a write normally adds, such as `set_ftrace_pid`.
///
/// # Errors
/// Says what the kernel refused and why, as evidence for an error.
pub fn write(file: &Path, text: &str) -> Result<(), String> {
    // fs::write() would try to create a file that this kernel doesn't have.
    let written = OpenOptions::new().write(true).truncate(true).open(file);
    written
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| format!("writing {text:?} to {}: {error}", file.display()))
}

const PREFIX: &str = "bpf-workbook-";

/// A tracefs *instance* for this run: a trace buffer with its own settings. Dropping it removes it.
#[derive(Debug)]
pub struct Instance {
    /// Its folder.
    pub path: PathBuf,
    /// An open file in it. The kernel doesn't remove an instance while one of its files is open.
    held: Option<File>,
}

impl Instance {
    /// Makes an instance, and removes those that killed runs have left. We try to remove all, because the kernel knows
    /// best which ones are in use. Process ids wouldn't help: containers share tracefs, but not process ids.
    pub fn create(tracefs: &Path) -> Result<Self> {
        // Nobody may remove the new one before we hold a file of it.
        let _lock = Self::lock(tracefs)?;
        for path in Self::all(tracefs) {
            // This fails for an instance that is in use. The next run tries again.
            let _ = fs::remove_dir(path);
        }
        let mut number = 0;
        loop {
            // A process in another container may have the same id, or a run that was killed had it.
            let name = format!("{PREFIX}{}-{number}", std::process::id());
            let path = tracefs.join("instances").join(name);
            number += 1;
            match fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                made => made.map_err(|error| cannot_make("mkdir", &path, &error))?,
            }
            let file = path.join("tracing_on");
            match File::open(&file) {
                Ok(held) => return Ok(Self { path, held: Some(held) }),
                // Somebody without the lock removed it.
                Err(error) if is_gone(&error) => {}
                Err(error) => {
                    let _ = fs::remove_dir(&path);
                    return Err(cannot_make("open", &file, &error));
                }
            }
        }
    }

    /// Waits until no other run makes or removes instances, or looks into those of others. All containers see the same
    /// folder, so they all see this lock. The kernel releases it when a run is killed.
    pub fn lock(tracefs: &Path) -> Result<Flock<File>> {
        let folder = tracefs.join("instances");
        let locked = File::open(&folder)
            .and_then(|file| Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error.into()));
        locked.map_err(|error| cannot_make("lock", &folder, &error))
    }

    /// The folders of all runs' instances.
    pub fn all(tracefs: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(tracefs.join("instances")).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
            .map(|entry| entry.path())
            .collect()
    }
}

fn cannot_make(what: &str, path: &Path, error: &std::io::Error) -> Error {
    denied(Error::new("cannot make a private trace buffer"), what, path, error)
}

/// Adds to an error what failed, and if only root may do it, who may do it besides.
fn denied(error: Error, what: &str, path: &Path, cause: &std::io::Error) -> Error {
    let (evidence, user) = (format!("{what} {}: {cause}", path.display()), geteuid());
    match cause.kind() {
        ErrorKind::PermissionDenied if !user.is_root() => {
            error.evidence(format!("{evidence}\nthis runs as user id {user}, without CAP_DAC_OVERRIDE"))
        }
        _ => error.evidence(evidence),
    }
}

/// Checks that this user may read the files of a tracefs, which belong to root.
pub(crate) fn may_read(tracefs: &Path) -> Result<()> {
    // access(2) ignores capabilities, so we try.
    let folder = tracefs.join("events");
    folder.read_dir().map(drop).map_err(|error| {
        Error::new("only root may read tracefs")
            .evidence(format!("list {}: {error}", folder.display()))
            .fix(format!("use sudo, or add CAP_DAC_READ_SEARCH, or run it in the lab: {}", in_the_lab()))
    })
}

/// Whether a path does not exist any more. While an instance is being removed, the kernel reports ENODEV.
fn is_gone(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ENODEV as i32)
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Only with the lock is it still ours after we closed its file.
        let _lock = self.path.ancestors().nth(2).map(Self::lock);
        self.held = None;
        if let Err(error) = fs::remove_dir(&self.path)
            && !is_gone(&error)
        {
            eprintln!("warning: cannot remove {}; the next run will: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracefs_is_found_in_the_list_of_mounts() {
        let found = |mounts: &str| places(mounts).collect::<Vec<_>>();
        let debugfs = "debugfs /sys/kernel/debug debugfs rw 0 0\n";
        assert_eq!(found(debugfs), [""; 0]);
        assert_eq!(found("tracefs /mnt/tracing tracefs rw 0 0\n"), [""; 0]);
        assert_eq!(found("tmpfs /sys/kernel/tracing tmpfs rw 0 0\n"), [""; 0]);
        let below = format!("{debugfs}tracefs /sys/kernel/debug/tracing tracefs rw 0 0\n");
        assert_eq!(found(&below), ["/sys/kernel/debug/tracing"]);
        let both = format!("{below}tracefs /sys/kernel/tracing tracefs rw,nosuid 0 0\n");
        assert_eq!(found(&both), MOUNT_POINTS);
    }

    #[test]
    fn the_error_of_a_failed_mount_suggests_a_command_or_the_lab() {
        insta::assert_snapshot!(not_mounted(Errno::EPERM), @r"
        tracefs, the file system of the trace pipe, cannot be mounted
          evidence: mount -t tracefs tracefs /sys/kernel/tracing: Operation not permitted (os error 1)
          fix:      as root, outside of any container: mount -t tracefs tracefs /sys/kernel/tracing
        ");
        assert!(not_mounted(Errno::ENODEV).to_string().contains("cargo lab run"));
    }
}
