//! Other projects' tools. They are in a root file system of their own, on a disk that only a guest has which measures
//! them.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{chroot, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use common::{Error, OrCause, Result};
use guest::init::disk_with;
use nix::mount::{MsFlags, mount};
use wire::disks::TOOLS_DISK;

/// Where their root file system is mounted.
const ROOT: &str = "/tools";

/// Becomes one of the tools: changes to their root file system and executes it there. The process stays the same.
///
/// # Errors
/// If this guest has no such tool.
pub fn become_tool(argv: &[String]) -> Result<Infallible> {
    let [name, arguments @ ..] = argv else { return Err(Error::new("no tool was named")) };
    mount_all()?;
    chroot(ROOT).and_then(|()| std::env::set_current_dir("/")).or_cause("cannot change to the tools")?;
    let mut command = Command::new(name);
    let error = command.args(arguments).env("PATH", "/usr/sbin:/usr/bin").env("LC_ALL", "C.UTF-8").exec();
    Err(error).or_cause(format!("cannot start {name}"))
}

/// Reads the tools' libraries and this kernel's headers, so they are in the page cache: a tool then starts without
/// reading from a disk.
///
/// # Errors
/// If this guest has no tools.
pub fn warm_up() -> Result<()> {
    mount_all()?;
    let release = common::preflight::release();
    let common = format!("{}common", release.trim_end_matches("cloud-amd64"));
    let headers = [release, common].map(|name| format!("usr/src/linux-headers-{name}"));
    for folder in ["usr/lib/x86_64-linux-gnu", "usr/lib/python3", "usr/bin", "usr/sbin"]
        .into_iter()
        .chain(headers.iter().map(String::as_str))
    {
        read_all(&Path::new(ROOT).join(folder)).or_cause(format!("cannot read the tools' {folder}"))?;
    }
    Ok(())
}

fn read_all(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            read_all(&entry.path())?;
        } else if kind.is_file() {
            io::copy(&mut File::open(entry.path())?, &mut io::sink())?;
        }
    }
    Ok(())
}

/// Mounts the tools, and the guest's own file systems within them, unless they are mounted.
fn mount_all() -> Result<()> {
    if Path::new(ROOT).exists() {
        return Ok(());
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    let disk = loop {
        match disk_with(TOOLS_DISK, "") {
            Some(disk) => break disk,
            None if Instant::now() > deadline => {
                return Err(Error::new("this guest has no disk with the tools"));
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    fs::create_dir(ROOT).or_cause("cannot make a mount point")?;
    let cannot = || format!("cannot mount {}", disk.display());
    mount(Some(&disk), ROOT, Some("ext4"), MsFlags::MS_RDONLY, None::<&str>).or_cause(cannot())?;
    // blktrace keeps its buffers in debugfs.
    let debugfs = "/sys/kernel/debug";
    mount(Some("debugfs"), debugfs, Some("debugfs"), MsFlags::empty(), None::<&str>)
        .or_cause("cannot mount debugfs")?;
    symlink("/proc/self/fd", "/dev/fd").or_cause("cannot make /dev/fd")?;
    for folder in ["proc", "sys", "dev", "tmp"] {
        let (from, to) = (Path::new("/").join(folder), Path::new(ROOT).join(folder));
        let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
        mount(Some(&from), &to, None::<&str>, flags, None::<&str>)
            .or_cause(format!("cannot mount {}", to.display()))?;
    }
    Ok(())
}
