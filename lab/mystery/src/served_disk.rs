//! In the guest: a disk with a cache, whose times are known.
//!
//! It is a network block device, nbd, and its server is a part of this process. null_blk takes as long for a flush as for a
//! write, and device-mapper's target `delay` holds bios back before there is a request.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use common::{Error, OrCause, Result};
use nix::errno::Errno;
use nix::request_code_none;
use wire::command::output;

/// How long the kernel may take to start the disk.
const LIMIT: Duration = Duration::from_secs(60);

/// A disk with a cache, which takes one write at a time, the shortest first, and empties its cache meanwhile. Dropping
/// this removes the disk. See the kernel's `Documentation/admin-guide/blockdev/nbd.rst`.
#[derive(Debug)]
pub struct ServedDisk {
    /// The disk's device.
    pub device: PathBuf,
    /// How long it takes for what.
    pub times: Arc<Times>,
    control: File,
    /// The thread in which the kernel runs the disk.
    run: Option<JoinHandle<()>>,
}

/// How long a disk takes, in ns.
#[derive(Debug, Default)]
pub struct Times {
    write: AtomicU64,
    flush: AtomicU64,
    /// Between two writes, if there is a limit.
    between: AtomicU64,
    /// How long a rest the limit remembers.
    saved: AtomicU64,
}

impl Times {
    /// Changes them.
    pub fn set(&self, write: Duration, flush: Duration) {
        self.write.store(write.as_nanos() as u64, Ordering::Relaxed);
        self.flush.store(flush.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Limits the writes, as a cloud does: one in this time, and after a rest this many as quickly as the disk can.
    pub fn limit(&self, between: Duration, burst: u32) {
        self.between.store(between.as_nanos() as u64, Ordering::Relaxed);
        self.saved.store((between * burst).as_nanos() as u64, Ordering::Relaxed);
    }

    fn get(time: &AtomicU64) -> Duration {
        Duration::from_nanos(time.load(Ordering::Relaxed))
    }
}

/// How many disks there are. The kernel makes them all when it loads the driver, but empty.
const DISKS: u32 = 8;

/// The name of each disk.
pub fn names() -> [String; DISKS as usize] {
    std::array::from_fn(|nth| format!("nbd{nth}"))
}

/// What the kernel asks for, in `include/uapi/linux/nbd.h`.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Do {
    SetSocket = 0,
    SetBlockSize = 1,
    Run = 3,
    ClearSocket = 4,
    SetBlocks = 7,
    Disconnect = 8,
    SetFlags = 10,
}

impl ServedDisk {
    /// Makes a disk of this many MiB, which takes no time until you set one.
    pub fn new(name: &str, mib: usize) -> Result<Self> {
        const BLOCK: usize = 4096;
        /// The flags are there; the disk has a cache. It can't write past the cache, so a commit needs a second flush.
        const FLAGS: usize = 1 | 1 << 2;
        output(Command::new("modprobe").arg("nbd").arg(format!("nbds_max={DISKS}")))?;
        let device = Path::new("/dev").join(name);
        let control = File::options().read(true).write(true).open(&device);
        let control = control.or_cause(format!("cannot open {}", device.display()))?;
        let (ours, kernels) = UnixStream::pair().or_cause("cannot make a socket")?;
        order(&control, Do::SetSocket, kernels.as_raw_fd() as usize)?;
        order(&control, Do::SetBlockSize, BLOCK)?;
        order(&control, Do::SetBlocks, (mib << 20) / BLOCK)?;
        order(&control, Do::SetFlags, FLAGS)?;
        let times = Arc::new(Times::default());
        let served = times.clone();
        // The kernel ends the connection when the disk goes away.
        thread::spawn(move || serve(ours, vec![0; mib << 20], &served));
        let shared = control.try_clone().or_cause("cannot share a disk")?;
        let run = thread::spawn(move || {
            let _ = order(&shared, Do::Run, 0);
            drop(kernels);
        });
        let disk = Self { device, times, control, run: Some(run) };
        let deadline = Instant::now() + LIMIT;
        while !disk.is_there() {
            if Instant::now() > deadline {
                return Err(Error::new(format!("the kernel does not start the disk {name}")));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(disk)
    }

    fn is_there(&self) -> bool {
        let disk = Path::new("/sys/block").join(self.device.file_name().unwrap_or_default());
        let size = fs::read_to_string(disk.join("size")).unwrap_or_default();
        disk.join("pid").exists() && !matches!(size.trim(), "" | "0")
    }
}

impl Drop for ServedDisk {
    fn drop(&mut self) {
        // Whatever remains of it ends with the guest.
        let _ = order(&self.control, Do::Disconnect, 0);
        let _ = order(&self.control, Do::ClearSocket, 0);
        // Until this has ended, the next disk of this name would look as if it were there already.
        let _ = self.run.take().map(JoinHandle::join);
    }
}

/// Lets nbd do something with a disk.
fn order(disk: &File, what: Do, value: usize) -> Result<()> {
    let request = request_code_none!(0xab, what as u8);
    // SAFETY: nbd reads no memory for these requests: the argument is a number.
    #[allow(unsafe_code)]
    let done = unsafe { nix::libc::ioctl(disk.as_raw_fd(), request, value) };
    Errno::result(done).map(drop).or_cause("cannot make an nbd disk")
}

/// What a request asks for.
const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;

/// A request of the kernel, without its data.
#[derive(Clone, Copy)]
struct Request {
    kind: u16,
    handle: [u8; 8],
    from: u64,
    len: u32,
}

impl Request {
    /// Reads the next one.
    fn read(socket: &mut UnixStream) -> std::io::Result<Self> {
        let mut bytes = [0; 28];
        socket.read_exact(&mut bytes)?;
        let part = |from: usize| -> [u8; 8] { std::array::from_fn(|nth| bytes[from + nth]) };
        Ok(Self {
            kind: u16::from_be_bytes([bytes[6], bytes[7]]),
            handle: part(8),
            from: u64::from_be_bytes(part(16)),
            len: u32::from_be_bytes([bytes[24], bytes[25], bytes[26], bytes[27]]),
        })
    }

    /// Says that it is done.
    fn reply(&self, socket: &Mutex<UnixStream>, data: &[u8]) -> std::io::Result<()> {
        const MAGIC: u32 = 0x6744_6698;
        let mut reply = [&MAGIC.to_be_bytes()[..], &[0; 4], &self.handle].concat();
        reply.extend_from_slice(data);
        socket.lock().unwrap_or_else(PoisonError::into_inner).write_all(&reply)
    }
}

/// The writes that wait for their turn, and whether there will be no more.
type Queue = (Mutex<(VecDeque<Request>, bool)>, Condvar);

/// Serves a disk until the kernel ends the connection.
fn serve(mut requests: UnixStream, mut data: Vec<u8>, times: &Arc<Times>) -> Result<()> {
    let replies = requests.try_clone().or_cause("cannot share a socket")?;
    let replies = Arc::new(Mutex::new(replies));
    let queue = Arc::new(Queue::default());
    let (writes, answers, write_times) = (queue.clone(), replies.clone(), times.clone());
    thread::spawn(move || {
        // Until when the limit's writes are used up.
        let mut used = Instant::now();
        while let Some(request) = next(&writes) {
            thread::sleep(Times::get(&write_times.write));
            let now = Instant::now();
            let oldest = now.checked_sub(Times::get(&write_times.saved)).unwrap_or(now);
            used = used.max(oldest) + Times::get(&write_times.between);
            thread::sleep(used.saturating_duration_since(now));
            let _ = request.reply(&answers, &[]);
        }
    });
    while let Ok(request) = Request::read(&mut requests) {
        let part = request.from as usize..request.from as usize + request.len as usize;
        let done = match request.kind {
            READ => request.reply(&replies, &data[part]),
            WRITE => requests.read_exact(&mut data[part]).map(|()| {
                queue.0.lock().unwrap_or_else(PoisonError::into_inner).0.push_back(request);
                queue.1.notify_one();
            }),
            FLUSH => {
                let (answers, times) = (replies.clone(), times.clone());
                thread::spawn(move || {
                    thread::sleep(Times::get(&times.flush));
                    request.reply(&answers, &[])
                });
                Ok(())
            }
            // The disk goes away.
            _ => break,
        };
        if done.is_err() {
            break;
        }
    }
    queue.0.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
    queue.1.notify_one();
    Ok(())
}

/// Waits for a write, and takes the shortest; `None` if there will be no more.
fn next((waiting, changed): &Queue) -> Option<Request> {
    let waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    let waiting = changed.wait_while(waiting, |(writes, is_end)| writes.is_empty() && !*is_end);
    let (writes, _) = &mut *waiting.unwrap_or_else(PoisonError::into_inner);
    let (shortest, _) = writes.iter().enumerate().min_by_key(|(_, write)| write.len)?;
    writes.remove(shortest)
}
