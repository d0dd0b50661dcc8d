//! Packages of Debian with other people's tools, with which we compare ours.

use std::fs;
use std::path::Path;

use common::{OrCause, Result};
use machine::apt::{Apt, field, unpack};
use machine::host::tools::output;
use wire::arch::Arch;

/// The program with which the guest starts the tools of another Debian release.
pub const LOADER: &str = "ld-linux-x86-64.so.2";

/// Unpacks packages of a Debian suite and all their dependencies into a folder, and returns the packages' versions.
pub fn unpack_whole(suite: &str, packages: &[&str], folder: &Path) -> Result<Vec<String>> {
    let apt = Apt::new(&[Arch::HERE], None)?;
    apt.look_into(&[suite])?;
    let archives = tempfile::tempdir().or_cause("cannot make a folder")?;
    fs::create_dir(archives.path().join("partial")).or_cause("cannot make a folder")?;
    let mut download = apt.command("apt-get");
    download.args(["install", "-qq", "--download-only", "--no-install-recommends", "-o"]);
    output(download.arg(format!("Dir::Cache::archives={}", archives.path().display())).args(packages))?;
    unpack(archives.path(), folder)?;
    let version = |package: &&str| {
        let shown = output(apt.command("apt-cache").args(["show", "--no-all-versions", package]))?;
        Ok(field(&String::from_utf8_lossy(&shown.stdout), "Version").unwrap_or_default().to_owned())
    };
    packages.iter().map(version).collect()
}
