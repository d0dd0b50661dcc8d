//! The workload tool `io`, as both machines know it: its arguments, which the lab checks before it boots a guest, and
//! its report of what it did.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use common::{Error, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::disks::FS_MOUNT;

/// Do a known amount of I/O, and report what was done
#[derive(Clone, Debug, Parser)]
#[command(name = "io", version)]
pub struct Io {
    #[command(subcommand)]
    pub kind: Kind,
}

impl Io {
    /// Fails if the I/O can't be done as asked.
    pub fn check(&self) -> Result<()> {
        let (name, what) = self.kind.parts();
        let engine = what.engine.unwrap_or(Engine::Sync);
        if self.kind.is_direct() && what.size % 512 != 0 {
            return Err(Error::new("the size of a direct I/O must be a multiple of the disk's sector size")
                .evidence(format!("--size {} is not a multiple of 512", what.size))
                .fix("use --size 4096"));
        }
        if engine == Engine::Sync && what.iodepth > 1 {
            return Err(Error::new("with the engine sync, a thread has one I/O in flight")
                .evidence(format!("--iodepth {}", what.iodepth))
                .fix(format!("use --engine io_uring, or --threads {}", what.iodepth)));
        }
        if engine == Engine::Libaio && !self.kind.is_direct() {
            return Err(Error::new("with the engine libaio, only direct I/Os are asynchronous")
                .evidence(format!("io_submit(2) itself would wait for each I/O of {name} that waits at all"))
                .fix("use the workload write or read-direct, or --engine io_uring"));
        }
        if engine != Engine::Sync && matches!(self.kind, Kind::MmapCold(_)) {
            return Err(Error::new("no system call reads a file through mmap(2)")
                .evidence("mmap-cold with an engine other than sync")
                .fix("use the workload read-cold"));
        }
        let for_writes = [("rwmixread", what.rwmixread > 0), ("fsync", what.fsync > 0)];
        if let (false, Some((option, _))) = (self.kind.writes(), for_writes.iter().find(|(_, used)| *used)) {
            return Err(Error::new(format!("--{option} is for workloads that write"))
                .evidence(format!("{name} only reads"))
                .fix("use the workload write, write-cached or sync"));
        }
        Ok(())
    }
}

#[derive(Clone, Debug, Subcommand)]
pub enum Kind {
    /// Write past the page cache (O_DIRECT), one I/O after the other
    Write(What),
    /// Write into the page cache, then sync(2): the kernel writes the data and the file system's journal
    Sync(What),
    /// Write into the page cache; the kernel writes the data to disk when it decides to
    WriteCached(What),
    /// Read a file that is not in the page cache
    ReadCold(What),
    /// Read a file that is in the page cache
    ReadWarm(What),
    /// Read a file, whether or not it is in the page cache
    Read(What),
    /// Read past the page cache (O_DIRECT)
    ReadDirect(What),
    /// Read a file through mmap(2), with none of it in the page cache
    MmapCold(What),
}

impl Kind {
    /// Its name on the command line, and its target.
    pub fn parts(&self) -> (&'static str, &What) {
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

    pub fn is_direct(&self) -> bool {
        matches!(self, Self::Write(_) | Self::ReadDirect(_))
    }

    pub fn writes(&self) -> bool {
        matches!(self, Self::Write(_) | Self::Sync(_) | Self::WriteCached(_))
    }
}

/// How a thread submits its I/Os. The names are fio's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// A system call for each I/O, which returns when the I/O has ended
    Sync,
    /// io_submit(2) and io_getevents(2)
    Libaio,
    /// io_uring_enter(2)
    #[value(name = "io_uring")]
    IoUring,
}

/// The target and the amount.
#[derive(Args, Clone, Debug)]
pub struct What {
    /// A file, which is created if necessary, or a device, whose data is overwritten
    #[arg(value_name = "DEVICE_OR_FILE")]
    pub target: PathBuf,

    /// Number of I/Os of each thread
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,

    /// Bytes of each I/O; a multiple of 512 for direct I/O
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    pub size: u32,

    /// Skip this many I/Os' worth of bytes at the start, as dd(1) does
    #[arg(long, value_name = "BLOCKS", default_value_t = 0)]
    pub seek: u64,

    /// Number of threads; each gets its own part of the target, next to the previous thread's part
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub threads: u64,

    /// Distance from the start of one I/O to the start of the next, in I/O sizes
    #[arg(long, value_name = "BLOCKS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub stride: u64,

    /// Visit the blocks in random order, each once, and tell the kernel, which then doesn't read ahead
    #[arg(long)]
    pub random: bool,

    /// Milliseconds to wait before each I/O except a thread's first
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub interval: u64,

    /// How to submit the I/Os: sync, libaio or io_uring [default: sync]; with this, the report has their IOPS and latencies
    #[arg(long, value_enum, hide_possible_values = true)]
    pub engine: Option<Engine>,

    /// I/Os that each thread has in flight
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub iodepth: u32,

    /// Percentage of the I/Os that are reads, for workloads that write
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=100))]
    pub rwmixread: u64,

    /// Call fsync(2) after every N writes, when they have ended [default: never]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub fsync: u64,

    /// I/Os per second of each thread at most [default: no limit]
    #[arg(
        long = "rate_iops",
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true,
        conflicts_with = "interval"
    )]
    pub rate_iops: u64,
}

/// What was done: the truth to check other programs against. Times are of the monotonic clock in nanoseconds, which
/// `bpf_ktime_get_ns()` reads.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Done {
    pub kind: String,
    /// The process ID. With one thread, this is also the thread's ID.
    pub pid: u32,
    pub threads: u64,
    pub count: u64,
    pub bytes: u64,
    /// Bytes that were read from disks for this process in the meantime, including read-ahead: `read_bytes` of
    /// `/proc/PID/io`.
    pub read_bytes: u64,
    /// The time before the first I/O.
    pub first_ns: u64,
    /// The time after the last I/O (and the sync).
    pub last_ns: u64,
    /// With `--engine`: what its clock saw of each I/O.
    #[serde(flatten)]
    pub clock: Option<Clock>,
}

/// What the workload's own clock saw, in user space. A latency is from before the system call that submits an I/O to
/// after the one that reports its end, in µs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Clock {
    pub reads: u64,
    pub writes: u64,
    pub fsyncs: u64,
    /// I/Os per second, without fsyncs, from the first I/O to the end.
    pub iops: f64,
    pub mean_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
    pub fsync_mean_us: f64,
    pub fsync_max_us: f64,
}

impl Clock {
    /// From the latencies in ns of all reads, writes and fsyncs.
    pub fn new([reads, writes, mut fsyncs]: [Vec<u64>; 3], time_ns: u64) -> Self {
        let counts = [&reads, &writes, &fsyncs].map(|of| of.len() as u64);
        let mut all = [reads, writes].concat();
        all.sort_unstable();
        fsyncs.sort_unstable();
        let us = |ns: u64| ns as f64 / 1e3;
        let mean = |all: &[u64]| us(all.iter().sum()) / all.len().max(1) as f64;
        // The smallest latency that this share of the I/Os doesn't exceed.
        let at = |all: &[u64], percent: usize| {
            us(all.get((all.len() * percent).div_ceil(100).max(1) - 1).copied().unwrap_or_default())
        };
        Self {
            reads: counts[0],
            writes: counts[1],
            fsyncs: counts[2],
            iops: all.len() as f64 * 1e9 / time_ns.max(1) as f64,
            mean_us: mean(&all),
            p50_us: at(&all, 50),
            p99_us: at(&all, 99),
            max_us: at(&all, 100),
            fsync_mean_us: mean(&fsyncs),
            fsync_max_us: at(&fsyncs, 100),
        }
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, pid, threads, count, bytes, read_bytes, first_ns, last_ns, clock } = self;
        write!(
            f,
            "io {kind}: pid={pid} threads={threads} count={count} bytes={bytes} read_bytes={read_bytes} \
             first_ns={first_ns} last_ns={last_ns}"
        )?;
        let Some(clock) = clock else { return Ok(()) };
        let Clock {
            reads,
            writes,
            fsyncs,
            iops,
            mean_us,
            p50_us,
            p99_us,
            max_us,
            fsync_mean_us,
            fsync_max_us,
        } = clock;
        write!(
            f,
            " reads={reads} writes={writes} iops={iops:.1} mean_us={mean_us:.1} p50_us={p50_us:.1} \
             p99_us={p99_us:.1} max_us={max_us:.1} fsyncs={fsyncs} fsync_mean_us={fsync_mean_us:.1} \
             fsync_max_us={fsync_max_us:.1}"
        )
    }
}

impl FromStr for Done {
    type Err = Error;

    /// Parses the output of [`fmt::Display`]: pairs of a field's name and its number.
    fn from_str(text: &str) -> Result<Self> {
        let done = || {
            let (kind, fields) = text.trim().strip_prefix("io ")?.split_once(": ")?;
            let number = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
            let pairs = fields.split(' ').filter_map(|field| field.split_once('='));
            let pairs = pairs.map(|(name, text)| (name.to_owned(), number(text)));
            let all: Map<_, _> = [("kind".to_owned(), kind.into())].into_iter().chain(pairs).collect();
            serde_json::from_value(all.into()).ok()
        };
        done().ok_or_else(|| Error::new("this is not what `io` prints").evidence(text))
    }
}

/// The argument of `--io` in `cargo lab run`: one of the names, or the arguments of `io`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// No workload; the kernel may still do its own I/O.
    None,
    /// `io` with these arguments, repeatedly.
    Io(Vec<String>),
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let file = format!("{FS_MOUNT}/{}", text.split(' ').next().unwrap_or_default());
        let args = match text {
            "none" => return Ok(Self::None),
            "write" | "sync" | "read-cold" | "read-warm" => format!("{text} {file}"),
            _ => text.to_owned(),
        };
        let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
        let io = std::iter::once("io").chain(args.iter().map(String::as_str));
        match Io::try_parse_from(io) {
            Ok(io) => io.check().map(|()| Self::Io(args)).map_err(|error| error.to_string()),
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
            clock: None,
        };
        insta::assert_snapshot!(done, @"io read-cold: pid=98 threads=2 count=16 bytes=65536 read_bytes=131072 first_ns=2290123456 last_ns=2311112222");
        assert_eq!(done.to_string().parse::<Done>().unwrap(), done);
        // 199 reads of 1 to 199 µs in 20 ms, a write and two fsyncs.
        let times = [(1000..=199_000).step_by(1000).collect(), vec![500_000], vec![2_000_000, 3_000_500]];
        let done = Done { clock: Some(Clock::new(times, 20_000_000)), ..done };
        insta::assert_snapshot!(done, @"io read-cold: pid=98 threads=2 count=16 bytes=65536 read_bytes=131072 first_ns=2290123456 last_ns=2311112222 reads=199 writes=1 iops=10000.0 mean_us=102.0 p50_us=100.0 p99_us=198.0 max_us=500.0 fsyncs=2 fsync_mean_us=2500.2 fsync_max_us=3000.5");
        assert_eq!(done.to_string().parse::<Done>().unwrap().to_string(), done.to_string());
        assert_eq!(Clock::new([vec![7000], vec![], vec![]], 1).p50_us, 7.0);
        assert!("io write: pid=98".parse::<Done>().is_err());
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
