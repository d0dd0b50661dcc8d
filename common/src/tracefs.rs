//! Where tracefs is, and a buffer of our own in it.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{TRACEFS_MAGIC, statfs};

use crate::lab::in_the_lab;
use crate::{Error, Result};

const MOUNT_POINTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The folder where tracefs is mounted, if it is. Looking changes nothing.
pub fn mounted() -> Option<PathBuf> {
    // A look at the folder itself is not enough: the kernel mounts tracefs below debugfs as soon as anybody looks there.
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    places(&mounts)
        .map(PathBuf::from)
        .find(|place| statfs(place).is_ok_and(|fs| fs.filesystem_type() == TRACEFS_MAGIC))
}

/// Where tracefs is mounted, of the folders that it belongs in, by the text of `/proc/self/mounts`.
fn places(mounts: &str) -> impl Iterator<Item = &'static str> {
    let is_mounted = |place: &&str| {
        mounts.lines().any(|line| {
            let mut words = line.split(' ').skip(1);
            (words.next(), words.next()) == (Some(*place), Some("tracefs"))
        })
    };
    MOUNT_POINTS.into_iter().filter(is_mounted)
}

/// Looks whether tracefs is mounted, or could be; mounts nothing.
///
/// # Errors
/// If this kernel has none.
pub(crate) fn look() -> Result<()> {
    let file_systems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if mounted().is_some() || file_systems.split_whitespace().any(|name| name == "tracefs") {
        return Ok(());
    }
    Err(Error::new("this kernel has no tracefs, where the trace pipe is")
        .evidence("/proc/filesystems does not name it")
        .fix(format!("boot a kernel built with CONFIG_TRACING: {}", in_the_lab())))
}

/// The folder of tracefs, which is mounted if it is not yet.
///
/// # Errors
/// If it is not mounted and may not be.
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
    let failed = Error::new("tracefs, where the trace pipe is, is not mounted and could not be mounted")
        .evidence(format!("mount -t tracefs tracefs {}: {}", MOUNT_POINTS[0], std::io::Error::from(error)));
    match error {
        Errno::ENODEV | Errno::ENOENT => {
            failed.fix(format!("boot a kernel built with CONFIG_TRACING: {}", in_the_lab()))
        }
        _ => failed.fix("as root, outside of any container: mount -t tracefs tracefs /sys/kernel/tracing"),
    }
}

/// Writes a setting. Its old value goes, also of one to which each writing adds, such as `set_ftrace_pid`.
///
/// # Errors
/// What the kernel does not take, and why, as evidence for an error.
pub(crate) fn write(file: &Path, text: &str) -> Result<(), String> {
    // Not fs::write(), which would try to make a file that this kernel does not have.
    let written = OpenOptions::new().write(true).truncate(true).open(file);
    written
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| format!("writing {text:?} to {}: {error}", file.display()))
}

const PREFIX: &str = "bpf-workbook-";

/// A tracefs *instance* of this run, a trace buffer with settings of its own; removed when dropped.
#[derive(Debug)]
pub(crate) struct Instance {
    /// Its folder.
    pub path: PathBuf,
    /// A file of it. The kernel removes no instance of which a file is open.
    held: Option<File>,
}

impl Instance {
    /// Makes one, and removes those of runs that were killed and could not do it themselves. Whether a run still holds its
    /// instance, the kernel knows best: a process id means nothing in another container that shares tracefs.
    pub fn create(tracefs: &Path) -> Result<Self> {
        for path in Self::all(tracefs) {
            // Somebody may be reading a dead run's; then the next run tries again.
            let _ = fs::remove_dir(path);
        }
        let mut number = 0;
        loop {
            // A process of another container may have the same id, or a run that was killed had it.
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
                // Another run took it for a dead one's before we held it.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    let _ = fs::remove_dir(&path);
                    return Err(cannot_make("open", &file, &error));
                }
            }
        }
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
    Error::new("cannot make a trace buffer of our own")
        .evidence(format!("{what} {}: {error}", path.display()))
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.held = None;
        if let Err(error) = fs::remove_dir(&self.path)
            // From here on it may look like a dead run's.
            && error.kind() != ErrorKind::NotFound
        {
            eprintln!("warning: {} stays, the next run removes it: {error}", self.path.display());
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
    fn a_mount_that_fails_says_how_to_do_it_or_where_to_go() {
        insta::assert_snapshot!(not_mounted(Errno::EPERM), @r"
        tracefs, where the trace pipe is, is not mounted and could not be mounted
          evidence: mount -t tracefs tracefs /sys/kernel/tracing: Operation not permitted (os error 1)
          fix:      as root, outside of any container: mount -t tracefs tracefs /sys/kernel/tracing
        ");
        assert!(not_mounted(Errno::ENODEV).to_string().contains("cargo lab run"));
    }
}
