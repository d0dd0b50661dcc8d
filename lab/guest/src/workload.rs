//! The workload tool `io`: a known amount of I/O, for people and tests alike.
//!
//! It reports what it did, so we can check a stage's output against that.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::thread;
use std::time::Duration;

use common::{Error, OrCause, Result};
use memmap2::MmapOptions;
use nix::fcntl::{OFlag, PosixFadviseAdvice, posix_fadvise};
use nix::time::{ClockId, clock_gettime};
use wire::workload::{Done, Io, Kind, What};

/// One I/O at a byte of the target.
type Step = fn(&mut Target, u64) -> std::io::Result<()>;

/// How to do one I/O, and with which flags to open the target for it.
fn step(kind: &Kind) -> (Step, OFlag) {
    match kind {
        Kind::Write(_) => (Target::write, OFlag::O_DIRECT),
        Kind::Sync(_) | Kind::WriteCached(_) => (Target::write, OFlag::empty()),
        Kind::ReadCold(_) | Kind::ReadWarm(_) | Kind::Read(_) => (Target::read, OFlag::empty()),
        Kind::ReadDirect(_) => (Target::read, OFlag::O_DIRECT),
        Kind::MmapCold(_) => (Target::read_map, OFlag::empty()),
    }
}

/// Does the I/O.
pub fn run(io: &Io) -> Result<Done> {
    let (kind, what) = io.kind.parts();
    let (step, flags) = step(&io.kind);
    if flags.contains(OFlag::O_DIRECT) && what.size % 512 != 0 {
        return Err(Error::new("the size of a direct I/O must be a multiple of the disk's sector size")
            .evidence(format!("--size {} is not a multiple of 512", what.size))
            .fix("use --size 4096"));
    }
    prepare(what)?;
    match io.kind {
        Kind::ReadCold(_) | Kind::MmapCold(_) => Target::open(what, OFlag::empty())?.evict()?,
        Kind::ReadWarm(_) => Target::open(what, OFlag::empty())?.each(0..what.threads * what.count, step)?,
        _ => {}
    }

    let read_before = read_bytes()?;
    let first_ns = now();
    thread::scope(|scope| {
        let work = |thread| {
            let mine = thread * what.count..(thread + 1) * what.count;
            Target::open(what, flags)?.each(mine, step)
        };
        let others: Vec<_> = (1..what.threads).map(|thread| scope.spawn(move || work(thread))).collect();
        // The first part runs here, so with one thread, the task is the process.
        let mut results = vec![work(0)];
        results.extend(others.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Error::new("a thread of the workload panicked")))
        }));
        results.into_iter().collect::<Result<()>>()
    })?;
    if matches!(io.kind, Kind::Sync(_)) {
        nix::unistd::sync();
    }
    let last_ns = now();

    let count = what.threads * what.count;
    Ok(Done {
        kind: kind.to_owned(),
        pid: std::process::id(),
        threads: what.threads,
        count,
        bytes: count * u64::from(what.size),
        read_bytes: read_bytes()? - read_before,
        first_ns,
        last_ns,
    })
}

/// Waits until this thread is the only one of its process.
///
/// The end of a thread is visible to `join()` before it is to a probe at `sched_process_exit`. A process that ended in
/// between would have no thread left, as far as the kernel's count goes, while a probe has yet to see one of them.
pub fn wait_for_threads() -> Result<()> {
    let threads = || std::fs::read_dir("/proc/self/task").or_cause("cannot list the threads");
    while threads()?.count() > 1 {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The clock of `bpf_ktime_get_ns()`.
fn now() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| Duration::from(time).as_nanos() as u64)
}

/// How many bytes were read from disks for this process so far.
fn read_bytes() -> Result<u64> {
    let io = std::fs::read_to_string("/proc/self/io").or_cause("cannot read /proc/self/io")?;
    let bytes = io.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok());
    bytes.ok_or_else(|| Error::new("the kernel does not report what a process reads").evidence(io))
}

/// Makes a file as long as the workload needs, with its data on disk. A direct write then changes only data and takes
/// one bio, without the file system's journal.
pub fn prepare(what: &What) -> Result<()> {
    let cannot = || format!("cannot prepare {}", what.target.display());
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&what.target);
    let file = file.or_cause(cannot())?;
    let metadata = file.metadata().or_cause(cannot())?;
    if metadata.file_type().is_block_device() {
        return Ok(());
    }
    let last = (what.threads * what.count - 1) * what.stride;
    let needed = (what.seek + last + 1) * u64::from(what.size);
    let zeros = vec![0; 64 * 1024];
    let mut length = metadata.len();
    if length >= needed {
        return Ok(());
    }
    while length < needed {
        let part = zeros.len().min((needed - length) as usize);
        file.write_all_at(&zeros[..part], length).or_cause(cannot())?;
        length += part as u64;
    }
    file.sync_all().or_cause(cannot())
}

const ALIGNMENT: usize = 4096;

/// The opened target and a buffer for one I/O.
struct Target {
    what: What,
    file: File,
    buffer: Vec<u8>,
}

impl Target {
    fn open(what: &What, flags: OFlag) -> Result<Self> {
        // With room to begin at a page boundary, as O_DIRECT requires.
        let buffer = vec![0xb1; what.size as usize + ALIGNMENT];
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags.bits()).open(&what.target);
        let file = file.or_cause(format!("cannot open {}", what.target.display()))?;
        Ok(Self { what: what.clone(), file, buffer })
    }

    /// Does `one` at each block of `blocks`.
    fn each(&mut self, blocks: std::ops::Range<u64>, one: Step) -> Result<()> {
        let mut blocks: Vec<_> = blocks.collect();
        if self.what.random {
            posix_fadvise(&self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_RANDOM)
                .or_cause("cannot advise the kernel of random reads")?;
            // The same order each time, so runs can be compared.
            let hash = BuildHasherDefault::<DefaultHasher>::default();
            blocks.sort_by_cached_key(|block| hash.hash_one(block));
        }
        for (nth, block) in blocks.into_iter().enumerate() {
            if nth > 0 && self.what.interval > 0 {
                thread::sleep(Duration::from_millis(self.what.interval));
            }
            let offset = (self.what.seek + block * self.what.stride) * u64::from(self.what.size);
            one(self, offset)
                .or_cause(format!("I/O at byte {offset} of {} failed", self.what.target.display()))?;
        }
        Ok(())
    }

    fn write(&mut self, offset: u64) -> std::io::Result<()> {
        let start = self.buffer.as_ptr().align_offset(ALIGNMENT);
        self.file.write_all_at(&self.buffer[start..start + self.what.size as usize], offset)
    }

    fn read(&mut self, offset: u64) -> std::io::Result<()> {
        let start = self.buffer.as_ptr().align_offset(ALIGNMENT);
        self.file.read_exact_at(&mut self.buffer[start..start + self.what.size as usize], offset)
    }

    #[allow(unsafe_code)]
    fn read_map(&mut self, offset: u64) -> std::io::Result<()> {
        let size = self.what.size as usize;
        // SAFETY: valid as long as the file keeps its length, and nobody shortens the workload's own file.
        let map = unsafe { MmapOptions::new().offset(offset).len(size).map(&self.file) }?;
        self.buffer[..size].copy_from_slice(&map);
        Ok(())
    }

    /// Removes the target from the page cache.
    fn evict(&self) -> Result<()> {
        self.file.sync_all().or_cause("cannot write the file's data to disk")?;
        posix_fadvise(&self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
            .or_cause("cannot remove the file from the page cache")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn io(args: &[&str]) -> Result<Done> {
        run(&Io::try_parse_from([&["io"], args].concat()).unwrap())
    }

    #[test]
    fn bytes_are_where_the_arithmetic_says() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let path = file.to_str().unwrap();
        let done =
            io(&["sync", path, "--count", "3", "--size", "1000", "--seek", "2", "--threads", "2"]).unwrap();
        assert_eq!((done.count, done.bytes, done.threads, done.pid), (6, 6000, 2, std::process::id()));
        assert!(done.first_ns < done.last_ns);
        let bytes = std::fs::read(&file).unwrap();
        assert_eq!(bytes.len(), 8000);
        assert!(
            bytes[..2000].iter().all(|byte| *byte == 0) && bytes[2000..].iter().all(|byte| *byte == 0xb1)
        );
        for kind in ["read-cold", "read-warm"] {
            assert_eq!(io(&[kind, path, "--count", "2", "--size", "4000"]).unwrap().bytes, 8000);
        }
        let done = io(&["mmap-cold", path, "--count", "3", "--stride", "2", "--random"]).unwrap();
        assert_eq!((done.bytes, std::fs::metadata(&file).unwrap().len()), (3 * 4096, 5 * 4096));
    }

    #[test]
    fn invalid_arguments_are_errors() {
        insta::assert_snapshot!(io(&["write", "/nowhere/file"]).unwrap_err(), @r"
        cannot prepare /nowhere/file
          evidence: No such file or directory (os error 2)
        ");
        insta::assert_snapshot!(io(&["write", "/dev/null", "--size", "1000"]).unwrap_err(), @r"
        the size of a direct I/O must be a multiple of the disk's sector size
          evidence: --size 1000 is not a multiple of 512
          fix:      use --size 4096
        ");
    }
}
