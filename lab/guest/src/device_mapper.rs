//! In the guest: a disk made from parts of other disks.

use std::array;
use std::fs::File;
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{Error, OrCause, Result};
use nix::errno::Errno;
use nix::request_code_readwrite;
use nix::sys::stat::minor;
use wire::command::output;

use crate::null_blk::NullBlk;

/// How long the pieces of [`with_split`] take. The times differ so much that no hiccup of the emulation changes which one
/// ends last.
pub const PIECES: [Duration; 3] =
    [Duration::from_millis(1), Duration::from_millis(100), Duration::from_millis(300)];

/// Runs something for disks on which a bio of this many bytes at sector 0 is split into three, one for each of
/// [`PIECES`]. On each disk, a different piece ends last.
pub fn with_split(mut run: impl FnMut(&str, u64) -> Result<()>) -> Result<()> {
    const SECTORS: u64 = 8;
    let [fast, middle, slow] = [("fast", PIECES[0]), ("middle", PIECES[1]), ("slow", PIECES[2])]
        .map(|(name, time)| NullBlk::new(name, time));
    let (fast, middle, slow) = (fast?, middle?, slow?);
    for disks in [[&slow, &middle, &fast], [&fast, &slow, &middle], [&fast, &middle, &slow]] {
        let parts = disks.map(|disk| (disk.device.as_path(), SECTORS));
        let disk = Linear::new("split", &parts)?;
        run(&disk.device.display().to_string(), 512 * SECTORS * parts.len() as u64)?;
    }
    Ok(())
}

/// A disk made from parts of other disks, one after the other: device-mapper's target `linear`, with which LVM makes
/// its volumes. The block layer splits a bio that crosses the boundary between two parts. Dropping this removes the
/// disk. See the kernel's `Documentation/admin-guide/device-mapper/linear.rst`.
#[derive(Debug)]
pub struct Linear {
    name: &'static str,
    target: Target,
    pub device: PathBuf,
}

/// A type of target, and what it wants to know about a disk: the words before and after the disk.
type Target = [&'static str; 3];

const LINEAR: Target = ["linear", "", " 0"];
/// No features, no handler, one group of one path.
const MULTIPATH: Target = ["multipath", "0 0 1 1 round-robin 0 1 0 ", ""];

impl Linear {
    /// Makes a disk from the first sectors of each of these disks, at most three.
    pub fn new(name: &'static str, parts: &[(&Path, u64)]) -> Result<Self> {
        output(Command::new("modprobe").arg("dm-mod"))?;
        Self::with(LINEAR, name, parts)
    }

    /// A disk with a single path. Unlike the target `linear`, this one has requests.
    pub fn multipath(name: &'static str, path: &Path, sectors: u64) -> Result<Self> {
        output(Command::new("sh").args(["-c", "modprobe dm-multipath && modprobe dm-round-robin"]))?;
        Self::with(MULTIPATH, name, &[(path, sectors)])
    }

    fn with(target: Target, name: &'static str, parts: &[(&Path, u64)]) -> Result<Self> {
        let dev = order(Do::Create, name, target, &[])?;
        let this = Self { name, target, device: format!("/dev/dm-{}", minor(dev)).into() };
        this.replace(parts)?;
        Ok(this)
    }

    /// Makes the disk from other parts, while it is in use.
    pub fn replace(&self, parts: &[(&Path, u64)]) -> Result<()> {
        order(Do::Load, self.name, self.target, parts)?;
        // The kernel first waits until no I/O is on its way to the old parts.
        order(Do::Resume, self.name, self.target, &[]).map(drop)
    }
}

impl Drop for Linear {
    fn drop(&mut self) {
        remove(self.name);
    }
}

/// Removes the disk of this name, if there is one. If this fails, the disk ends with the guest.
pub fn remove(name: &str) {
    let _ = order(Do::Remove, name, LINEAR, &[]);
}

/// The kernel's numbers of what device-mapper can do, in `include/uapi/linux/dm-ioctl.h`.
#[derive(Clone, Copy)]
enum Do {
    Create = 3,
    Remove = 4,
    /// `DM_DEV_SUSPEND`, without the flag that asks to suspend.
    Resume = 6,
    Load = 9,
}

#[repr(C)]
struct Head {
    version: [u32; 3],
    data_size: u32,
    data_start: u32,
    target_count: u32,
    open_count: i32,
    flags: u32,
    event_nr: u32,
    padding: u32,
    dev: u64,
    name: [u8; 128],
    uuid: [u8; 129],
    data: [u8; 7],
}

/// The kernel's `struct dm_target_spec`, and its parameters.
#[repr(C)]
struct Part {
    sector_start: u64,
    length: u64,
    status: i32,
    next: u32,
    target_type: [u8; 16],
    params: [u8; 64],
}

#[repr(C)]
struct Order {
    head: Head,
    parts: [Part; 3],
}

/// Lets device-mapper do something with a disk. Returns the disk's number.
fn order(what: Do, name: &str, target: Target, parts: &[(&Path, u64)]) -> Result<u64> {
    const CONTROL: &str = "/dev/mapper/control";
    let [target_type, before, after] = target;
    let params = |(disk, _): &(&Path, u64)| format!("{before}{}{after}", disk.display());
    let sectors_before = |nth| parts.iter().take(nth).map(|(_, sectors)| sectors).sum();
    let mut order = Order {
        head: Head {
            version: [4, 0, 0],
            data_size: size_of::<Order>() as u32,
            data_start: size_of::<Head>() as u32,
            target_count: parts.len() as u32,
            open_count: 0,
            flags: 0,
            event_nr: 0,
            padding: 0,
            dev: 0,
            name: text(name),
            uuid: [0; 129],
            data: [0; 7],
        },
        parts: array::from_fn(|nth| Part {
            sector_start: sectors_before(nth),
            length: parts.get(nth).map_or(0, |(_, sectors)| *sectors),
            status: 0,
            next: size_of::<Part>() as u32,
            target_type: text(target_type),
            params: text(&parts.get(nth).map(params).unwrap_or_default()),
        }),
    };
    let control = File::options().read(true).write(true).open(CONTROL);
    let control = control.or_cause("cannot open device-mapper")?;
    let request = request_code_readwrite!(0xfd, what as u8, size_of::<Head>());
    // SAFETY: `order` has the layout that this request reads and writes, and says how long it is.
    #[allow(unsafe_code)]
    let done = unsafe { nix::libc::ioctl(control.as_raw_fd(), request, &raw mut order) };
    Errno::result(done).map_err(|error| Error::new("cannot make a device-mapper disk").evidence(error))?;
    Ok(order.head.dev)
}

/// A text, and zeros after it.
fn text<const N: usize>(text: &str) -> [u8; N] {
    array::from_fn(|nth| text.as_bytes().get(nth).copied().unwrap_or_default())
}
