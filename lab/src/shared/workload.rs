//! The workload tool `io`: I/O whose truth is known, for people and tests alike.
//!
//! It says what it did, so that what a stage prints can be checked against it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::PathBuf;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use common::{Error, OrCause, Result};
use memmap2::MmapOptions;
use nix::fcntl::{OFlag, PosixFadviseAdvice, posix_fadvise};
use nix::time::{ClockId, clock_gettime};

/// Do I/O whose truth is known, and say what was done
#[derive(Clone, Debug, Parser)]
#[command(name = "io", version)]
pub struct Io {
    /// What to do.
    #[command(subcommand)]
    pub kind: Kind,
}

/// The workloads.
#[derive(Clone, Debug, Subcommand)]
pub enum Kind {
    /// Write past the page cache (O_DIRECT), one I/O after the other
    Write(What),
    /// Write into the page cache, then sync(2): the kernel writes the data and the file system's journal
    Sync(What),
    /// Write into the page cache; the kernel writes it to disk when it sees fit
    WriteCached(What),
    /// Read a file of which nothing is in the page cache
    ReadCold(What),
    /// Read a file that is in the page cache
    ReadWarm(What),
    /// Read a file, whether it is in the page cache or not
    Read(What),
    /// Read past the page cache (O_DIRECT)
    ReadDirect(What),
    /// Read a file through memory, mmap(2), with nothing of it in the page cache
    MmapCold(What),
}

/// One I/O at a byte of the target.
type Step = fn(&mut Target, u64) -> std::io::Result<()>;

impl Kind {
    /// Its name on the command line, and where it works.
    fn parts(&self) -> (&'static str, &What) {
        match self {
            Self::Write(what) => ("write", what),
            Self::Sync(what) => ("sync", what),
            Self::WriteCached(what) => ("write-cached", what),
            Self::ReadCold(what) => ("read-cold", what),
            Self::ReadWarm(what) => ("read-warm", what),
            Self::Read(what) => ("read", what),
            Self::ReadDirect(what) => ("read-direct", what),
            Self::MmapCold(what) => ("mmap-cold", what),
        }
    }

    /// How one I/O is done, and with which flags the target is opened for it.
    fn step(&self) -> (Step, OFlag) {
        match self {
            Self::Write(_) => (Target::write, OFlag::O_DIRECT),
            Self::Sync(_) | Self::WriteCached(_) => (Target::write, OFlag::empty()),
            Self::ReadCold(_) | Self::ReadWarm(_) | Self::Read(_) => (Target::read, OFlag::empty()),
            Self::ReadDirect(_) => (Target::read, OFlag::O_DIRECT),
            Self::MmapCold(_) => (Target::read_map, OFlag::empty()),
        }
    }
}

/// Where, and how much.
#[derive(Args, Clone, Debug)]
pub struct What {
    /// A file, which is made if there is none, or a device, whose data is overwritten
    #[arg(value_name = "DEVICE_OR_FILE")]
    pub target: PathBuf,

    /// I/Os of each thread
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,

    /// Bytes of each I/O; a multiple of 512 for direct writes
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    pub size: u32,

    /// Start after so many I/Os' worth of bytes, as dd(1) does
    #[arg(long, value_name = "BLOCKS", default_value_t = 0)]
    pub seek: u64,

    /// Threads, each with its own part of the target, one behind the other
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub threads: u64,

    /// Blocks from the start of one I/O to the start of the next
    #[arg(long, value_name = "BLOCKS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub stride: u64,

    /// In a random order, each block once; and tell the kernel so, which then does not read ahead
    #[arg(long)]
    pub random: bool,

    /// Milliseconds to wait before each I/O but a thread's first
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub interval: u64,
}

/// What was done: the truth that others check against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The workload's name.
    pub kind: String,
    /// The process. Its only thread, if there is one, has the same id.
    pub pid: u32,
    /// Threads.
    pub threads: u64,
    /// I/Os of all threads.
    pub count: u64,
    /// Bytes of all I/Os.
    pub bytes: u64,
    /// Bytes that were read from disks meanwhile for this process, read-ahead included: `read_bytes` of `/proc/PID/io`.
    pub read_bytes: u64,
    /// Monotonic time before the first I/O in nanoseconds, the clock of `bpf_ktime_get_ns()`.
    pub first_ns: u64,
    /// Monotonic time after the last I/O (and the sync) in nanoseconds.
    pub last_ns: u64,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, pid, threads, count, bytes, read_bytes, first_ns, last_ns } = self;
        write!(
            f,
            "io {kind}: pid={pid} threads={threads} count={count} bytes={bytes} read_bytes={read_bytes} \
             first_ns={first_ns} last_ns={last_ns}"
        )
    }
}

impl FromStr for Done {
    type Err = Error;

    /// Reads what [`fmt::Display`] wrote.
    fn from_str(text: &str) -> Result<Self> {
        let broken = || Error::new("this is not what `io` prints").evidence(text);
        let (kind, fields) =
            text.trim().strip_prefix("io ").and_then(|text| text.split_once(": ")).ok_or_else(broken)?;
        let field = |name: &str| {
            let mut pairs = fields.split(' ').filter_map(|field| field.split_once('='));
            pairs.find(|(key, _)| *key == name).and_then(|(_, value)| value.parse().ok()).ok_or_else(broken)
        };
        Ok(Self {
            kind: kind.to_owned(),
            pid: field("pid")? as u32,
            threads: field("threads")?,
            count: field("count")?,
            bytes: field("bytes")?,
            read_bytes: field("read_bytes")?,
            first_ns: field("first_ns")?,
            last_ns: field("last_ns")?,
        })
    }
}

impl Io {
    /// Does the I/O.
    ///
    /// # Errors
    /// If the target can't be opened, prepared, written or read.
    pub fn run(&self) -> Result<Done> {
        let (kind, what) = self.kind.parts();
        let (step, flags) = self.kind.step();
        if flags.contains(OFlag::O_DIRECT) && what.size % 512 != 0 {
            return Err(Error::new("a direct I/O is a multiple of the disk's sectors")
                .evidence(format!("--size {} is no multiple of 512", what.size))
                .fix("use --size 4096"));
        }
        prepare(what)?;
        match self.kind {
            Kind::ReadCold(_) | Kind::MmapCold(_) => what.open(OFlag::empty())?.forget()?,
            Kind::ReadWarm(_) => what.open(OFlag::empty())?.each(0..what.threads * what.count, step)?,
            _ => {}
        }

        let read_before = read_bytes()?;
        let first_ns = now();
        thread::scope(|scope| {
            let work = |thread| {
                let mine = thread * what.count..(thread + 1) * what.count;
                what.open(flags)?.each(mine, step)
            };
            let others: Vec<_> = (1..what.threads).map(|thread| scope.spawn(move || work(thread))).collect();
            // The first part is done here, so that with one thread the task is the process.
            let mut results = vec![work(0)];
            results.extend(others.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(Error::new("a thread of the workload panicked")))
            }));
            results.into_iter().collect::<Result<()>>()
        })?;
        if matches!(self.kind, Kind::Sync(_)) {
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
}

/// The clock of `bpf_ktime_get_ns()`.
fn now() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| Duration::from(time).as_nanos() as u64)
}

/// What was read from disks for this process so far, in bytes.
fn read_bytes() -> Result<u64> {
    let io = std::fs::read_to_string("/proc/self/io").or_cause("cannot read /proc/self/io")?;
    let bytes = io.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok());
    bytes.ok_or_else(|| Error::new("the kernel does not tell what a process reads").evidence(io))
}

/// Makes a file as long as the workload needs it, with its data on disk: a direct write then changes data only and
/// takes one bio, without the file system's journal.
fn prepare(what: &What) -> Result<()> {
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

impl What {
    fn open(&self, flags: OFlag) -> Result<Target> {
        // Room to begin at a page's border inside of it, as O_DIRECT wants.
        let buffer = vec![0xb1; self.size as usize + ALIGNMENT];
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags.bits()).open(&self.target);
        Ok(Target {
            what: self.clone(),
            file: file.or_cause(format!("cannot open {}", self.target.display()))?,
            buffer,
        })
    }
}

const ALIGNMENT: usize = 4096;

/// The opened target and a buffer for one I/O.
struct Target {
    what: What,
    file: File,
    buffer: Vec<u8>,
}

impl Target {
    /// Does `one` at each block of `blocks`.
    fn each(&mut self, blocks: std::ops::Range<u64>, one: Step) -> Result<()> {
        let mut blocks: Vec<_> = blocks.collect();
        if self.what.random {
            posix_fadvise(&self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_RANDOM)
                .or_cause("cannot advise the kernel of random reads")?;
            // The same order each time, so that runs can be compared.
            fastrand::Rng::with_seed(blocks.len() as u64).shuffle(&mut blocks);
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
        // SAFETY: as long as the file keeps its length; nobody shortens the workload's own file.
        let map = unsafe { MmapOptions::new().offset(offset).len(size).map(&self.file) }?;
        self.buffer[..size].copy_from_slice(&map);
        Ok(())
    }

    /// Takes the target out of the page cache.
    fn forget(&self) -> Result<()> {
        self.file.sync_all().or_cause("cannot write the file's data to disk")?;
        posix_fadvise(&self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
            .or_cause("cannot take the file out of the page cache")
    }
}

/// What `--io` of `cargo lab run` takes: one of the names, or the arguments of `io`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Nothing; the kernel may still do I/O of its own.
    None,
    /// `io` with these arguments, again and again.
    Io(Vec<String>),
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        use crate::shared::disks::FS_MOUNT;
        let file = format!("{FS_MOUNT}/{}", text.split(' ').next().unwrap_or_default());
        let args = match text {
            "none" => return Ok(Self::None),
            "write" | "sync" | "read-cold" | "read-warm" => format!("{text} {file}"),
            _ => text.to_owned(),
        };
        let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
        let io = std::iter::once("io").chain(args.iter().map(String::as_str));
        match Io::try_parse_from(io) {
            Ok(_) => Ok(Self::Io(args)),
            Err(error) if error.use_stderr() && args.len() > 1 => Err(error.to_string()),
            Err(_) => Err(
                "the workloads are write, sync, read-cold, read-warm and none, or the arguments of io in \
                 quotes, such as \"write --count 4 /dev/scratch\""
                    .to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(args: &[&str]) -> Result<Done> {
        Io::try_parse_from([&["io"], args].concat()).unwrap().run()
    }

    #[test]
    fn what_was_done_is_read_as_it_was_written() {
        let done = Done {
            kind: "read-cold".into(),
            pid: 98,
            threads: 2,
            count: 16,
            bytes: 65536,
            read_bytes: 131072,
            first_ns: 2_290_123_456,
            last_ns: 2_311_112_222,
        };
        insta::assert_snapshot!(done, @"io read-cold: pid=98 threads=2 count=16 bytes=65536 read_bytes=131072 first_ns=2290123456 last_ns=2311112222");
        assert_eq!(done.to_string().parse::<Done>().unwrap(), done);
        assert!("io write: pid=98".parse::<Done>().is_err());
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
    fn what_cannot_work_is_told() {
        insta::assert_snapshot!(io(&["write", "/nowhere/file"]).unwrap_err(), @r"
        cannot prepare /nowhere/file
          evidence: No such file or directory (os error 2)
        ");
        insta::assert_snapshot!(io(&["write", "/dev/null", "--size", "1000"]).unwrap_err(), @r"
        a direct I/O is a multiple of the disk's sectors
          evidence: --size 1000 is no multiple of 512
          fix:      use --size 4096
        ");
    }

    #[test]
    fn workloads_have_names() {
        assert_eq!("none".parse(), Ok(Workload::None));
        assert_eq!("sync".parse(), Ok(Workload::Io(vec!["sync".into(), "/mnt/sync".into()])));
        assert!(matches!("write --count 4 /dev/scratch".parse(), Ok(Workload::Io(args)) if args.len() == 4));
        insta::assert_snapshot!("swim".parse::<Workload>().unwrap_err());
        assert!("write --cuont 4 /dev/scratch".parse::<Workload>().unwrap_err().contains("--cuont"));
    }
}
