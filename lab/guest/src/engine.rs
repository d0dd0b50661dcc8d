//! How the workload tool `io` submits I/Os and learns of their end: fio's engines sync, libaio and io_uring.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::Duration;

use common::{Error, OrCause, Result};
use io_uring::{IoUring, opcode, types};
use memmap2::MmapOptions;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use wire::workload::{Engine, What};

const ALIGNMENT: usize = 4096;
/// Each byte of what it writes.
const WRITTEN: u8 = 0xb1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Read,
    Write,
    /// Read it through mmap(2).
    ReadMap,
}

enum Way {
    Sync,
    Libaio(libc::c_ulong),
    IoUring(Box<IoUring>),
}

struct Flight {
    op: Op,
    offset: u64,
    begin_ns: u64,
}

/// The opened target, and its I/Os in flight.
pub struct Queue {
    what: What,
    pub file: File,
    way: Way,
    /// A place for each I/O that can be in flight, at page boundaries, as O_DIRECT requires.
    buffer: Vec<u8>,
    flights: Vec<Option<Flight>>,
    /// The places without an I/O.
    free: Vec<usize>,
    /// How long each read, each write and each fsync took, in ns.
    pub times: [Vec<u64>; 3],
}

impl Queue {
    pub fn open(what: &What, flags: OFlag) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags.bits()).open(&what.target);
        let file = file.or_cause(format!("cannot open {}", what.target.display()))?;
        let depth = what.iodepth as usize;
        let way = match what.engine.unwrap_or(Engine::Sync) {
            Engine::Sync => Way::Sync,
            Engine::Libaio => Way::libaio(depth)?,
            Engine::IoUring => Way::IoUring(Box::new(IoUring::new(what.iodepth).map_err(no_io_uring)?)),
        };
        Ok(Self {
            file,
            way,
            buffer: vec![WRITTEN; place(what) * depth + ALIGNMENT],
            free: (0..depth).collect(),
            flights: (0..depth).map(|_| None).collect(),
            times: Default::default(),
            what: what.clone(),
        })
    }

    /// Begins an I/O, after waiting for room if there is none.
    pub fn submit(&mut self, op: Op, offset: u64) -> Result<()> {
        while self.free.is_empty() {
            self.reap(None)?;
        }
        let nth = self.free.pop().unwrap_or_default();
        self.flights[nth] = Some(Flight { op, offset, begin_ns: now() });
        let size = self.what.size as usize;
        let start = self.buffer.as_ptr().align_offset(ALIGNMENT) + nth * place(&self.what);
        let buffer = &mut self.buffer[start..start + size];
        if op == Op::Write && self.what.rwmixread > 0 {
            // It may have what a read has brought.
            buffer.fill(WRITTEN);
        }
        let begun = match &mut self.way {
            Way::Sync => {
                let done = match op {
                    Op::Read => self.file.read_exact_at(buffer, offset),
                    Op::Write => self.file.write_all_at(buffer, offset),
                    Op::ReadMap => read_map(&self.file, buffer, offset),
                };
                return self.end(nth, done.map(|()| size));
            }
            Way::Libaio(context) => libaio_submit(*context, &self.file, op, buffer, offset, nth),
            Way::IoUring(ring) => io_uring_submit(ring, &self.file, op, buffer, offset, nth),
        };
        // It isn't in flight.
        begun.or_else(|error| self.end(nth, Err(error)))
    }

    /// Waits until an I/O has ended, or until the time is over, and notes all that have ended.
    fn reap(&mut self, limit: Option<Duration>) -> Result<()> {
        let ended = match &mut self.way {
            Way::Sync => Ok(Vec::new()),
            Way::Libaio(context) => libaio_reap(*context, limit),
            Way::IoUring(ring) => io_uring_reap(ring, limit),
        };
        let ended = ended.or_cause("cannot wait for I/Os")?;
        // All of them, even if one has failed.
        let all: Vec<_> = ended.into_iter().map(|(nth, result)| self.end(nth, result)).collect();
        all.into_iter().collect()
    }

    fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    fn end(&mut self, nth: usize, result: io::Result<usize>) -> Result<()> {
        let end_ns = now();
        let Some(Flight { op, offset, begin_ns }) = self.flights[nth].take() else { return Ok(()) };
        self.free.push(nth);
        let failed = || format!("I/O at byte {offset} of {} failed", self.what.target.display());
        let bytes = result.or_cause(failed())?;
        if bytes != self.what.size as usize {
            return Err(Error::new(failed()).evidence(format!("{bytes} bytes instead of {}", self.what.size)));
        }
        self.times[usize::from(op == Op::Write)].push(end_ns - begin_ns);
        Ok(())
    }

    /// Waits until nothing is in flight.
    pub fn drain(&mut self) -> Result<()> {
        while self.in_flight() > 0 {
            self.reap(None)?;
        }
        Ok(())
    }

    /// Waits until a time of [`now`], and notes what ends meanwhile.
    pub fn wait_until(&mut self, due_ns: u64) -> Result<()> {
        while let Some(left) = due_ns.checked_sub(now()).filter(|left| *left > 0).map(Duration::from_nanos) {
            match self.in_flight() {
                0 => std::thread::sleep(left),
                _ => self.reap(Some(left))?,
            }
        }
        Ok(())
    }

    /// Waits until nothing is in flight, and then until all that was written is on the disk.
    pub fn fsync(&mut self) -> Result<()> {
        self.drain()?;
        let begin = now();
        self.file.sync_all().or_cause(format!("fsync of {} failed", self.what.target.display()))?;
        self.times[2].push(now() - begin);
        Ok(())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // The kernel still writes to the buffers of what is in flight. An error ends one I/O, and we wait for the others.
        let mut attempts = self.in_flight();
        while self.in_flight() > 0 && attempts > 0 {
            attempts -= usize::from(self.reap(None).is_err());
        }
        if self.in_flight() > 0 {
            std::mem::forget(std::mem::take(&mut self.buffer));
        }
        if let Way::Libaio(context) = self.way {
            // SAFETY: nobody uses the context any more.
            #[allow(unsafe_code)]
            unsafe {
                libc::syscall(libc::SYS_io_destroy, context);
            }
        }
    }
}

/// The clock of `bpf_ktime_get_ns()`.
pub fn now() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| Duration::from(time).as_nanos() as u64)
}

/// The bytes from the buffer of one I/O to the next.
fn place(what: &What) -> usize {
    (what.size as usize).next_multiple_of(ALIGNMENT)
}

#[allow(unsafe_code)]
fn read_map(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    // SAFETY: valid as long as the file keeps its length, and nobody shortens the workload's own file.
    let map = unsafe { MmapOptions::new().offset(offset).len(buffer.len()).map(file) }?;
    buffer.copy_from_slice(&map);
    Ok(())
}

/// How I/Os ended: the number of each, and its bytes.
type Ended = Vec<(usize, io::Result<usize>)>;

fn ended(nth: u64, result: i64) -> (usize, io::Result<usize>) {
    (nth as usize, usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result as i32)))
}

/// The kernel's `struct iocb`, in little endian.
#[derive(Default)]
#[repr(C)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

/// The kernel's `struct io_event`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct IoEvent {
    data: u64,
    iocb: u64,
    result: i64,
    result2: i64,
}

impl Way {
    fn libaio(depth: usize) -> Result<Self> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context's number, and nothing else.
        #[allow(unsafe_code)]
        let made = unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut context) };
        match Errno::result(made) {
            Ok(_) => Ok(Self::Libaio(context)),
            Err(error) => {
                let limit = std::fs::read_to_string("/proc/sys/fs/aio-max-nr").unwrap_or_default();
                Err(Error::new("the kernel makes no context for libaio")
                    .evidence(format!("io_setup(2): {error}; fs.aio-max-nr is {}", limit.trim()))
                    .fix("raise it: sysctl fs.aio-max-nr=1048576, or use --engine io_uring"))
            }
        }
    }
}

fn libaio_submit(
    context: libc::c_ulong,
    file: &File,
    op: Op,
    buffer: &mut [u8],
    offset: u64,
    nth: usize,
) -> io::Result<()> {
    const READ: u16 = 0;
    const WRITE: u16 = 1;
    let iocb = Iocb {
        data: nth as u64,
        opcode: if op == Op::Write { WRITE } else { READ },
        file: file.as_raw_fd() as u32,
        buffer: buffer.as_mut_ptr() as u64,
        bytes: buffer.len() as u64,
        offset: offset as i64,
        ..Iocb::default()
    };
    let iocbs = [&raw const iocb];
    // SAFETY: the kernel copies `iocb`. It uses the buffer until the I/O has ended, and until then, `Queue` keeps it, and
    // gives it to no other I/O.
    #[allow(unsafe_code)]
    let begun = unsafe { libc::syscall(libc::SYS_io_submit, context, 1_usize, iocbs.as_ptr()) };
    Ok(Errno::result(begun).map(drop)?)
}

fn libaio_reap(context: libc::c_ulong, limit: Option<Duration>) -> io::Result<Ended> {
    const MOST: usize = 64;
    let mut events = [IoEvent::default(); MOST];
    let limit = limit.map(TimeSpec::from);
    let limit = limit.as_ref().map_or(std::ptr::null(), |limit| &raw const *limit);
    // SAFETY: the kernel writes at most as many events as there is room for, and reads the time.
    #[allow(unsafe_code)]
    let count =
        unsafe { libc::syscall(libc::SYS_io_getevents, context, 1_usize, MOST, events.as_mut_ptr(), limit) };
    match Errno::result(count) {
        Err(Errno::EINTR) => Ok(Ended::new()),
        count => Ok(events[..count? as usize].iter().map(|event| ended(event.data, event.result)).collect()),
    }
}

fn io_uring_submit(
    ring: &mut IoUring,
    file: &File,
    op: Op,
    buffer: &mut [u8],
    offset: u64,
    nth: usize,
) -> io::Result<()> {
    let (file, bytes) = (types::Fd(file.as_raw_fd()), buffer.len() as u32);
    let entry = match op {
        Op::Write => opcode::Write::new(file, buffer.as_ptr(), bytes).offset(offset).build(),
        _ => opcode::Read::new(file, buffer.as_mut_ptr(), bytes).offset(offset).build(),
    };
    // SAFETY: the kernel uses the buffer until the I/O has ended, and until then, `Queue` keeps it, and gives it to no
    // other I/O.
    #[allow(unsafe_code)]
    let pushed = unsafe { ring.submission().push(&entry.user_data(nth as u64)) };
    pushed.map_err(io::Error::other)?;
    // If this fails, the entry remains in the ring. Then the wait for its end tries again, and reports the error.
    let _ = ring.submit();
    Ok(())
}

fn io_uring_reap(ring: &mut IoUring, limit: Option<Duration>) -> io::Result<Ended> {
    let waited = match limit {
        None => ring.submit_and_wait(1).map(drop),
        // 5.10 has no time limit for io_uring_enter(2).
        Some(limit) => {
            ring.submit()?;
            // SAFETY: the ring is open as long as we have it.
            #[allow(unsafe_code)]
            let file = unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) };
            let files = &mut [PollFd::new(file, PollFlags::POLLIN)];
            ppoll(files, Some(TimeSpec::from(limit)), None).map(drop).map_err(io::Error::from)
        }
    };
    match waited {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(ring.completion().map(|event| ended(event.user_data(), event.result().into())).collect()),
    }
}

fn no_io_uring(error: io::Error) -> Error {
    let setting = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    let (evidence, fix) = match (error.raw_os_error(), setting.trim()) {
        (Some(libc::ENOSYS), _) => ("the kernel has no io_uring, or a sandbox hides it".to_owned(), ""),
        (_, "1" | "2") => (
            format!("kernel.io_uring_disabled is {}", setting.trim()),
            "sysctl kernel.io_uring_disabled=0, or ",
        ),
        _ => ("a sandbox forbids it, or RLIMIT_MEMLOCK is too low".to_owned(), ""),
    };
    Error::new("cannot use io_uring")
        .evidence(format!("io_uring_setup(2): {error}; {evidence}"))
        .fix(format!("{fix}use --engine libaio"))
}
