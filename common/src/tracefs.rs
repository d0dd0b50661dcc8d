//! Where tracefs is, and what it tells about this machine.

use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{TRACEFS_MAGIC, statfs};

use crate::preflight::in_the_lab;
use crate::{Error, Result};

const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The folder where tracefs is mounted, if it is.
pub fn mounted() -> Option<PathBuf> {
    PLACES
        .iter()
        .map(PathBuf::from)
        .find(|place| statfs(place).is_ok_and(|fs| fs.filesystem_type() == TRACEFS_MAGIC))
}

/// The folder of tracefs, which is mounted if it is not yet.
///
/// # Errors
/// If it is not mounted and may not be.
pub fn path() -> Result<PathBuf> {
    mounted().map_or_else(mount_here, Ok)
}

fn mount_here() -> Result<PathBuf> {
    let place = Path::new(PLACES[0]);
    match mount(Some("tracefs"), place, Some("tracefs"), MsFlags::empty(), None::<&str>) {
        Ok(()) => Ok(place.to_owned()),
        Err(error) => Err(not_mounted(error)),
    }
}

fn not_mounted(error: Errno) -> Error {
    let failed = Error::new("tracefs, where the trace pipe is, is not mounted and could not be mounted")
        .evidence(format!("mount -t tracefs tracefs {}: {}", PLACES[0], std::io::Error::from(error)));
    match error {
        Errno::ENODEV | Errno::ENOENT => {
            failed.fix(format!("boot a kernel built with CONFIG_TRACING: {}", in_the_lab()))
        }
        _ => failed.fix("as root, outside of any container: mount -t tracefs tracefs /sys/kernel/tracing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
