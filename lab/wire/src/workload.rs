//! The workload tool `io`, as both machines know it: its arguments, which the lab checks before it boots a guest, and
//! its report of what it did.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};
use common::{Error, Result};

use crate::disks::FS_MOUNT;

/// Do a known amount of I/O, and report what was done
#[derive(Clone, Debug, Parser)]
#[command(name = "io", version)]
pub struct Io {
    /// The I/O to do.
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
}

/// What was done: the truth to check other programs against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The workload's name.
    pub kind: String,
    /// The process ID. With one thread, this is also the thread's ID.
    pub pid: u32,
    pub threads: u64,
    /// I/Os of all threads.
    pub count: u64,
    /// Bytes of all I/Os.
    pub bytes: u64,
    /// Bytes that were read from disks for this process in the meantime, including read-ahead: `read_bytes` of
    /// `/proc/PID/io`.
    pub read_bytes: u64,
    /// The time before the first I/O in nanoseconds, from the monotonic clock that `bpf_ktime_get_ns()` reads.
    pub first_ns: u64,
    /// The time after the last I/O (and the sync) in nanoseconds, from the same clock.
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

    /// Parses the output of [`fmt::Display`].
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
    fn workloads_have_names() {
        assert_eq!("none".parse(), Ok(Workload::None));
        assert_eq!("sync".parse(), Ok(Workload::Io(vec!["sync".into(), "/mnt/sync".into()])));
        assert!(matches!("write --count 4 /dev/scratch".parse(), Ok(Workload::Io(args)) if args.len() == 4));
        insta::assert_snapshot!("swim".parse::<Workload>().unwrap_err());
        assert!("write --cuont 4 /dev/scratch".parse::<Workload>().unwrap_err().contains("--cuont"));
    }
}
