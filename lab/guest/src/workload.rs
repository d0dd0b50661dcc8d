//! The workload tool `io`: a known amount of I/O, for people and tests alike.
//!
//! It reports what it did, so we can check a stage's output against that.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::thread;
use std::time::Duration;

use common::{Error, OrCause, Result};
use nix::fcntl::{OFlag, PosixFadviseAdvice, posix_fadvise};
use wire::workload::{Clock, Done, Io, Kind, What};

use crate::engine::{Op, Queue, now};

pub fn run(io: &Io) -> Result<Done> {
    io.check()?;
    let (kind, what) = io.kind.parts();
    let flags = if io.kind.is_direct() { OFlag::O_DIRECT } else { OFlag::empty() };
    prepare(what)?;
    match io.kind {
        Kind::ReadCold(_) | Kind::MmapCold(_) => evict(&Queue::open(what, flags)?.file)?,
        Kind::ReadWarm(_) => drop(each(&io.kind, Queue::open(what, flags)?, 0..what.threads * what.count)?),
        _ => {}
    }

    let read_before = read_bytes()?;
    let first_ns = now();
    let times = thread::scope(|scope| {
        let work = |thread| {
            let mine = thread * what.count..(thread + 1) * what.count;
            each(&io.kind, Queue::open(what, flags)?, mine)
        };
        let others: Vec<_> = (1..what.threads).map(|thread| scope.spawn(move || work(thread))).collect();
        // The first part runs here, so with one thread, the task is the process.
        let mut results = vec![work(0)];
        results.extend(others.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Error::new("a thread of the workload panicked")))
        }));
        results.into_iter().collect::<Result<Vec<_>>>()
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
        clock: what.engine.map(|_| {
            let all = |kind: usize| times.iter().flat_map(|times| &times[kind]).copied().collect();
            Clock::new([all(0), all(1), all(2)], last_ns - first_ns)
        }),
    })
}

/// Waits until this thread is the only one of its process, beside the kernel's workers.
///
/// The end of a thread is visible to `join()` before it is to a probe at `sched_process_exit`. A process that ended in
/// between would have no thread left, as far as the kernel's count goes, while a probe has yet to see one of them.
pub fn wait_for_threads() -> Result<()> {
    // io_uring's workers belong to the process, too, and one of them may stay as long as the process does.
    let is_worker = |task: &fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("iou-"))
    };
    let tasks = || fs::read_dir("/proc/self/task").or_cause("cannot list the threads");
    while tasks()?.flatten().filter(|task| !is_worker(task)).count() > 1 {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// How many bytes were read from disks for this process so far.
fn read_bytes() -> Result<u64> {
    let io = fs::read_to_string("/proc/self/io").or_cause("cannot read /proc/self/io")?;
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

/// Does the I/O of one thread, and returns how long each read, each write and each fsync took.
fn each(kind: &Kind, mut queue: Queue, blocks: Range<u64>) -> Result<[Vec<u64>; 3]> {
    let (_, what) = kind.parts();
    let mut blocks: Vec<_> = blocks.collect();
    if what.random {
        posix_fadvise(&queue.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_RANDOM)
            .or_cause("cannot advise the kernel of random reads")?;
        // The same order each time, so runs can be compared.
        let hash = BuildHasherDefault::<DefaultHasher>::default();
        blocks.sort_by_cached_key(|block| hash.hash_one(block));
    }
    let first_ns = now();
    let mut writes = 0;
    for (nth, block) in (0_u64..).zip(blocks) {
        if nth > 0 && what.interval > 0 {
            queue.wait_until(now() + what.interval * 1_000_000)?;
        }
        if let Some(due) = (nth * 1_000_000_000).checked_div(what.rate_iops) {
            queue.wait_until(first_ns + due)?;
        }
        // The reads of a mix, in equal distances.
        let is_mixed_in = (nth + 1) * what.rwmixread / 100 > nth * what.rwmixread / 100;
        let op = match kind {
            Kind::MmapCold(_) => Op::ReadMap,
            _ if kind.writes() && !is_mixed_in => Op::Write,
            _ => Op::Read,
        };
        queue.submit(op, (what.seek + block * what.stride) * u64::from(what.size))?;
        writes += u64::from(op == Op::Write);
        if op == Op::Write && what.fsync > 0 && writes % what.fsync == 0 {
            queue.fsync()?;
        }
    }
    queue.drain()?;
    Ok(std::mem::take(&mut queue.times))
}

fn evict(file: &File) -> Result<()> {
    file.sync_all().or_cause("cannot write the file's data to disk")?;
    posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
        .or_cause("cannot remove the file from the page cache")
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
        let bytes = fs::read(&file).unwrap();
        assert_eq!(bytes.len(), 8000);
        assert!(
            bytes[..2000].iter().all(|byte| *byte == 0) && bytes[2000..].iter().all(|byte| *byte == 0xb1)
        );
        for kind in ["read-cold", "read-warm"] {
            assert_eq!(io(&[kind, path, "--count", "2", "--size", "4000"]).unwrap().bytes, 8000);
        }
        let done = io(&["mmap-cold", path, "--count", "3", "--stride", "2", "--random"]).unwrap();
        assert_eq!((done.bytes, fs::metadata(&file).unwrap().len()), (3 * 4096, 5 * 4096));
    }

    /// Each engine writes and reads the same bytes. Whether the kernel has libaio and io_uring depends on the machine:
    /// `io_has_as_many_in_flight_as_it_says` needs both.
    #[test]
    fn engines_differ_in_nothing_but_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file").to_str().unwrap().to_owned();
        for (engine, kind, depth) in [
            ("sync", "write-cached", "1"),
            ("sync", "write", "1"),
            ("libaio", "write", "4"),
            ("io_uring", "write", "4"),
            ("io_uring", "sync", "3"),
        ] {
            let _ = fs::remove_file(&path);
            let options =
                "--count 10 --seek 1 --stride 2 --random --rwmixread 30 --fsync 3 --rate_iops 100".split(' ');
            let args = [kind, &path, "--engine", engine, "--iodepth", depth].into_iter();
            let done = match io(&args.chain(options).collect::<Vec<_>>()) {
                Err(error) if engine != "sync" && error.to_string().contains("io_uring_setup(2)") => continue,
                done => done.unwrap(),
            };
            let clock = done.clock.clone().unwrap();
            assert_eq!((clock.reads, clock.writes, clock.fsyncs), (3, 7, 2), "{engine} {kind}");
            assert!(clock.p50_us <= clock.p99_us && clock.p99_us <= clock.max_us && clock.mean_us > 0.0);
            // The first I/O doesn't wait.
            assert!(done.last_ns - done.first_ns >= 90_000_000 && clock.iops <= 112.0, "{done}");
            // Nothing that it saw took longer than all of it.
            let all_us = (done.last_ns - done.first_ns) as f64 / 1e3;
            assert!(clock.max_us <= all_us && clock.fsync_max_us <= all_us, "{done}");
            let bytes = fs::read(&path).unwrap();
            let written = bytes.chunks(4096).map(|block| block.iter().all(|byte| *byte == 0xb1));
            let written: Vec<_> = written.collect();
            assert_eq!(written.iter().filter(|written| **written).count(), 7, "{engine} {kind}");
            // Between the blocks that it visits, it writes nothing.
            assert!(written.iter().step_by(2).all(|written| !written));
        }
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
        for (args, error) in [
            ("write --iodepth 32", "one I/O in flight"),
            ("write --engine sync --iodepth 2", "one I/O in flight"),
            ("sync --engine libaio", "only direct I/Os are asynchronous"),
            ("mmap-cold --engine io_uring", "mmap(2)"),
            ("read-direct --fsync 1", "--fsync is for workloads that write"),
            ("read --rwmixread 1", "--rwmixread is for workloads that write"),
        ] {
            let args: Vec<_> = args.split(' ').chain(["/nowhere/file"]).collect();
            let found = io(&args).unwrap_err().to_string();
            assert!(found.contains(error) && found.contains("fix: "), "{args:?}: {found}");
        }
    }
}
