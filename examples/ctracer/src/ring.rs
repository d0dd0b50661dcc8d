//! Reads the programs' ring buffer, whose pages `kernel/bpf/ringbuf.c` describes.
//!
//! libbpf's reader calls a function for each event, and then tells the kernel that the event is read. That takes as many
//! instructions as all that we do with an event, and they make the traced I/O slower.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use common::{OrCause, Result};
use memmap2::{Mmap, MmapMut, MmapOptions};
use nix::unistd::{SysconfVar, sysconf};

/// An event's header has its length, and in these bits whether a program still writes it, and whether it is thrown away.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER: usize = 8;

/// The ring buffer. We are its only reader.
#[derive(Debug)]
pub struct Ring {
    /// A page that begins with how many bytes we have read since the start.
    read: MmapMut,
    /// A page that begins with how many bytes the programs have written. Then come the events, twice, so that those
    /// at the end are in one piece.
    written: Mmap,
    page: usize,
    size: usize,
}

impl Ring {
    /// Maps the ring buffer `map`, which has `size` bytes: a power of two.
    #[allow(unsafe_code)]
    pub fn new(map: &impl AsRawFd, size: usize) -> Result<Self> {
        const CANNOT: &str = "cannot read the events";
        let page = sysconf(SysconfVar::PAGE_SIZE).or_cause(CANNOT)?.unwrap_or(4096) as usize;
        let mut written = MmapOptions::new();
        written.offset(page as u64).len(page + 2 * size).populate();
        // SAFETY: no file, which somebody could make shorter.
        let both = unsafe { (MmapOptions::new().len(page).map_mut(map), written.map(map)) };
        Ok(Self { read: both.0.or_cause(CANNOT)?, written: both.1.or_cause(CANNOT)?, page, size })
    }

    /// Calls `see` with each event that is there, but no more than a quarter of what has room, and returns whether there
    /// were any.
    #[allow(unsafe_code)]
    #[inline]
    pub fn read(&mut self, mut see: impl FnMut(&[u8])) -> bool {
        // SAFETY: a page is aligned, and we and the kernel access these 8 bytes atomically.
        let (read, written) = unsafe {
            (
                AtomicU64::from_ptr(self.read.as_mut_ptr().cast()),
                AtomicU64::from_ptr(self.written.as_ptr().cast_mut().cast()),
            )
        };
        let begin = read.load(Ordering::Relaxed);
        let end = written.load(Ordering::Acquire).min(begin + self.size as u64 / 4);
        let (events, mask) = (&self.written[self.page..], self.size as u64 - 1);
        let mut at = begin;
        while at < end {
            let Some((header, event)) = events[(at & mask) as usize..].split_first_chunk::<HEADER>() else {
                break;
            };
            // SAFETY: events are aligned to 8 bytes, and the kernel accesses the header atomically.
            let header =
                unsafe { AtomicU32::from_ptr(header.as_ptr().cast_mut().cast()) }.load(Ordering::Acquire);
            if header & BUSY != 0 {
                break;
            }
            let length = (header & !DISCARDED) as usize;
            if header & DISCARDED == 0 {
                see(&event[..length]);
            }
            // The kernel rounds it up.
            at += ((HEADER + length + 7) & !7) as u64;
        }
        read.store(at, Ordering::Release);
        at > begin
    }
}
