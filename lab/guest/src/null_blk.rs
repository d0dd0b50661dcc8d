//! In the guest: a disk with a known completion time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{Error, OrCause, Result};
use nix::errno::Errno;
use nix::mount::umount;
use wire::command::output;

use crate::system::{queue, write};

/// A disk with a known completion time: null_blk's timer completes each I/O this long after it was submitted.
/// Dropping this removes the disk. See the kernel's `Documentation/block/null_blk.rst`.
#[derive(Debug)]
pub struct NullBlk {
    folder: PathBuf,
    pub device: PathBuf,
}

impl NullBlk {
    /// Makes a disk of 64 MiB.
    pub fn new(name: &str, completion: Duration) -> Result<Self> {
        Self::with(name, completion, &[])
    }

    /// Like [`NullBlk::new`], with more settings, such as `hw_queue_depth`.
    pub fn with(name: &str, completion: Duration, settings: &[(&str, u128)]) -> Result<Self> {
        show_settings()?;
        let folder = Path::new("/sys/kernel/config/nullb").join(name);
        fs::create_dir(&folder).or_cause("cannot make a null_blk disk")?;
        let set = |key: &str, value: u128| {
            fs::write(folder.join(key), value.to_string()).or_cause(format!("null_blk refuses {key}={value}"))
        };
        set("size", 64)?;
        set("blocksize", 512)?;
        set("irqmode", 2)?;
        set("completion_nsec", completion.as_nanos())?;
        settings.iter().try_for_each(|(key, value)| set(key, *value))?;
        set("power", 1)?;
        // Named after its number on 5.10, and after its folder on later kernels.
        let number = fs::read_to_string(folder.join("index")).or_cause("cannot read the disk's number")?;
        let names = [name.to_owned(), format!("nullb{}", number.trim())];
        let device = names.iter().map(|name| Path::new("/dev").join(name)).find(|path| path.exists());
        let device = device.ok_or_else(|| Error::new("null_blk made no disk").evidence(names.join(", ")))?;
        // In ms. After the default of 30 s, the kernel would give up a request. In this mode the disk makes none.
        if !settings.contains(&("queue_mode", 0)) {
            let timeout = queue(&device.to_string_lossy(), "io_timeout")?;
            fs::write(timeout, "1000000").or_cause("null_blk refuses a longer I/O timeout")?;
        }
        Ok(Self { folder, device })
    }
}

/// Makes a disk with these settings of null_blk, and writes these files of its queue.
pub fn disk(
    name: &str,
    time: Duration,
    settings: &[(&str, u128)],
    files: &[(&str, &str)],
) -> Result<NullBlk> {
    // The scheduler is built in, or a module without an alias here by which the kernel would find it.
    let _ = Command::new("modprobe").args(["-q", "mq-deadline"]).status();
    let disk = NullBlk::with(name, time, settings)?;
    for (file, value) in files {
        write(&queue(&disk.device.to_string_lossy(), file)?, value)?;
    }
    Ok(disk)
}

/// Loads null_blk, and mounts the file system with the settings of its disks.
pub fn show_settings() -> Result<()> {
    const CONFIGFS: &str = "grep -q ' /sys/kernel/config ' /proc/mounts || \
        { modprobe null_blk nr_devices=0 && mount -t configfs configfs /sys/kernel/config; }";
    output(Command::new("sh").args(["-c", CONFIGFS])).map(drop)
}

/// Unmounts the file system with the settings, if it is mounted. The disks remain.
pub fn hide_settings() -> Result<()> {
    match umount("/sys/kernel/config") {
        Ok(()) | Err(Errno::EINVAL) => Ok(()),
        Err(error) => Err(error).or_cause("cannot unmount /sys/kernel/config"),
    }
}

/// Finds a completion time that is long enough for something else to happen meanwhile, such as I/O that must begin
/// before the first I/O on a slow disk ends. How long that takes depends on the machine. So we call `attempt` with
/// longer and longer times until it returns something; `None` means that the time was too short.
pub fn long_enough<T>(
    shortest: Duration,
    mut attempt: impl FnMut(Duration) -> Result<Option<T>>,
) -> Result<T> {
    const LONGEST: Duration = Duration::from_secs(120);
    let mut time = shortest;
    loop {
        if let Some(done) = attempt(time)? {
            return Ok(done);
        }
        if time == LONGEST {
            return Err(Error::new("this machine is too slow: something must happen while a disk is busy")
                .evidence(format!("it did not happen within {} s", time.as_secs()))
                .fix("try again when the machine is less busy"));
        }
        time = LONGEST.min(time * 4);
    }
}

impl Drop for NullBlk {
    fn drop(&mut self) {
        // Whatever remains of it ends with the guest.
        let _ = fs::write(self.folder.join("power"), "0");
        let _ = fs::remove_dir(&self.folder);
    }
}
