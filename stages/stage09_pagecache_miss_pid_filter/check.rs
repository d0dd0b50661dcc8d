//! What is right for this stage and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::collections::HashSet;
use std::fs::{self, File};
use std::iter;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Barrier;
use std::thread;

use common::{Error, OrCause, Result};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::stat::{major, minor};
use wire::disks::FS_MOUNT;

use crate::check::{Check, FILE, Judged, Program, as_many, expect_number, settle, succeeded, watch_while};
use crate::running::{Observation, Running, io};
use crate::system::{SecondFs, evict};
use crate::truth;
use crate::verdict::{Checked, expect, expect_line};

/// See [`Check`].
pub const CHECK: Check = Check {
    program: Some(Program::Own(program)),
    exercises: &[("09.1", to_the_last_thread), ("09.2", children), ("09.3", worst_files)],
    ..Check::NONE
};

fn program(binary: &str) -> Checked<Judged> {
    let work = [&["read-cold"], &FILE[..]].concat();
    settle(&work)?;
    // The stage starts the work itself, and ends with it.
    let seen = Running::start(&[&[binary, "--", "io"][..], &work].concat())?.wait()?;
    let done = seen.stdout.lines().find(|line| line.starts_with("io ")).unwrap_or_default().parse()?;
    let shown = truth::of_reads(&seen, &done)?;
    Ok((seen, shown))
}

/// Whether this line has the sum of the pages.
fn is_total(line: &str) -> bool {
    line.starts_with("[Total ")
}

/// Pages that a program counts while it runs a command.
fn pages_of(binary: &str, command: &[&str]) -> Checked<(u64, Observation)> {
    let seen = Running::start(&[&[binary, "--"][..], command].concat())?.wait()?;
    succeeded(&seen)?;
    Ok((truth::page_cache(&seen)?[0], seen))
}

fn to_the_last_thread(binary: &str) -> Checked<String> {
    const THREADS: u64 = 64;
    const PAGES: u64 = THREADS * 8;
    let file = format!("{FS_MOUNT}/{binary}");
    io(&["read-warm", &file, "--count", &PAGES.to_string()])?;
    let threads = THREADS.to_string();
    let (total, seen) = pages_of(binary, &["io", "read", &file, "--threads", &threads, "--count", "8"])?;
    fs::remove_file(&file).or_cause("cannot remove the file")?;
    let why = format!("{THREADS} threads read 8 pages each");
    expect(total == PAGES, format!("{PAGES} pages: {why}"), total.to_string(), seen.at(is_total))?;
    let is_right = |ended| as_many(ended, THREADS, &seen);
    expect_number(&seen, "Threads ended: ", THREADS, "that many threads read", is_right)?;
    expect_line(&seen, "Ids in the filter: ", 0, "the process has ended")?;
    Ok(format!("{total} pages, of all {THREADS} threads; then the filter is empty"))
}

fn children(binary: &str) -> Checked<String> {
    let file = format!("{FS_MOUNT}/{binary}");
    io(&["read-warm", &file, "--count", "64"])?;
    let read = format!("io read {file} --count 64");
    let (own, seen) = pages_of(binary, &["sh", "-c", &format!("exec {read}")])?;
    expect(
        as_many(own, 64, &seen),
        "64 pages, which the process itself reads",
        own.to_string(),
        seen.at(is_total),
    )?;
    let (total, seen) = pages_of(binary, &["sh", "-c", &format!("{read}; true")])?;
    fs::remove_file(&file).or_cause("cannot remove the file")?;
    expect(
        as_many(total, 64, &seen),
        "64 pages, which a child of the process reads",
        total.to_string(),
        seen.at(is_total),
    )?;
    Ok("64 pages, whether the process itself or its child reads them".to_owned())
}

/// A file of 09.3: how much of it is in the page cache, and how often a process then reads it.
struct Known {
    path: PathBuf,
    pages: u64,
    /// In the page cache before the process reads: its first pages.
    cached: u64,
    /// How often each page is read.
    times: u64,
    /// Reads of its first page beyond these.
    more: u64,
}

impl Known {
    fn new(path: impl Into<PathBuf>, pages: u64, cached: u64, times: u64) -> Result<Self> {
        let known = Self { path: path.into(), pages, cached, times, more: 0 };
        let zeros = vec![0; 4096 * pages as usize];
        fs::write(&known.path, zeros).or_cause(format!("cannot make {}", known.path.display()))?;
        evict(&known.path)?;
        read_pages(&known.path, 0..cached)?;
        Ok(known)
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Its device and inode number, as 09.3 prints them.
    fn id(&self) -> Result<String> {
        let file = fs::metadata(&self.path).or_cause(format!("cannot find {}", self.path.display()))?;
        Ok(format!("{}:{} {}", major(file.dev()), minor(file.dev()), file.ino()))
    }

    fn misses(&self) -> u64 {
        self.pages - self.cached
    }

    fn reads(&self) -> u64 {
        self.pages * self.times + self.more
    }
}

/// Reads pages of a file, one after the other and each with its own call. The kernel doesn't read ahead.
fn read_pages(path: &Path, pages: impl IntoIterator<Item = u64>) -> Result<()> {
    let cannot = || format!("cannot read {}", path.display());
    let file = File::open(path).or_cause(cannot())?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_RANDOM).or_cause(cannot())?;
    let mut page = [0; 4096];
    pages.into_iter().try_for_each(|nth| file.read_exact_at(&mut page, 4096 * nth)).or_cause(cannot())
}

/// A line of 09.3, such as `Missed 24 of 80: 259:0 12 orders`.
struct FileLine<'a> {
    missed: u64,
    read: u64,
    /// `259:0 12`
    id: String,
    name: &'a str,
}

impl<'a> FileLine<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (counts, file) = line.strip_prefix("Missed ")?.split_once(": ")?;
        let (missed, read) = counts.split_once(" of ")?;
        let (device, file) = file.split_once(' ')?;
        let (inode, name) = file.split_once(' ').unwrap_or((file, ""));
        let (missed, read) = (missed.parse().ok()?, read.parse().ok()?);
        Some(Self { missed, read, id: format!("{device} {inode}"), name })
    }

    fn all(seen: &'a Observation) -> Vec<Self> {
        seen.stdout.lines().filter_map(Self::parse).collect()
    }
}

/// What is expected of this milestone of 09.3.
fn milestone(nth: u32, expected: &str) -> String {
    format!("milestone {nth} of 3: {expected}")
}

/// Fails unless the lines are those of the files.
fn expect_files(nth: u32, files: &[Known], seen: &Observation) -> Checked {
    let lines = FileLine::all(seen);
    let mut ids = HashSet::new();
    for file in files {
        let (id, path, misses, reads) = (file.id()?, file.path.display(), file.misses(), file.reads());
        let is_it = |line: &FileLine<'_>| line.id == id;
        let of_file: Vec<_> = lines.iter().filter(|line| is_it(line)).collect();
        let begin = format!("`Missed {misses} of {reads}: {id}`");
        let expected = milestone(nth, &format!("one line that begins with {begin}, for {path}"));
        let (is_right, found) = match of_file[..] {
            [] => (false, "no line of this file".to_owned()),
            [FileLine { missed, read, .. }] => (
                as_many(*missed, misses, seen) && as_many(*read, reads, seen),
                format!("`Missed {missed} of {read}: {id}`"),
            ),
            _ => (false, format!("{} lines of this file", of_file.len())),
        };
        expect(
            is_right,
            expected,
            found,
            seen.at(|line| FileLine::parse(line).is_some_and(|line| is_it(&line))),
        )?;
        ids.insert(id);
    }
    let is_other = |line: &FileLine<'_>| !ids.contains(&line.id);
    let other = lines.iter().find(|line| is_other(line));
    expect(
        other.is_none(),
        milestone(nth, "only files that the process read"),
        format!("a line of {}", other.map_or("", |line| &line.id)),
        seen.at(|line| FileLine::parse(line).is_some_and(|line| is_other(&line))),
    )
}

/// Fails unless the lines are in the order of the misses.
fn expect_sorted(nth: u32, seen: &Observation) -> Checked {
    let misses: Vec<_> = FileLine::all(seen).iter().map(|line| line.missed).collect();
    expect(
        misses.is_sorted_by(|one, next| one >= next),
        milestone(nth, "the file with the most misses first, and so on"),
        format!("the misses {misses:?}"),
        seen,
    )
}

fn worst_files(binary: &str) -> Checked<String> {
    let one = of_four_files(binary)?;
    Ok(format!("{one}; {}", of_four_threads(binary)?))
}

/// The first two milestones. The process that reads is this one.
fn of_four_files(binary: &str) -> Checked<String> {
    let in_mount = |name: &str| Path::new(FS_MOUNT).join(name);
    let [link, written, passed] = ["orders-2", "written", "passed"].map(in_mount);
    for old in [&link, &in_mount("orders")] {
        let _ = fs::remove_file(old);
    }
    let orders = Known::new(in_mount("orders"), 40, 16, 2)?;
    fs::hard_link(&orders.path, &link).or_cause("cannot give a file a second name")?;
    let _second = SecondFs::new()?;
    let files = [
        Known::new(twin(&orders.path)?, 10, 0, 1)?,
        Known::new(in_mount("prices"), 30, 30, 3)?,
        orders,
        Known::new(in_mount("stock"), 60, 0, 1)?,
    ];
    let (seen, _) = watch_while(&[binary, &process::id().to_string()], || {
        for file in &files {
            for nth in 0..file.times {
                let is_second = nth > 0 && file.name() == "orders";
                read_pages(if is_second { &link } else { &file.path }, 0..file.pages)?;
            }
        }
        fs::write(&written, vec![0; 50 * 4096]).or_cause("cannot write a file")?;
        // This is another process.
        io(&["read", &passed.to_string_lossy(), "--count", "20"])
    })?;
    expect_files(1, &files, &seen)?;
    for file in &files {
        let (id, name) = (file.id()?, file.name());
        let lines = FileLine::all(&seen);
        let shown = lines.iter().find(|line| line.id == id).map_or("", |line| line.name);
        expect(
            shown == name || name == "orders" && shown == "orders-2",
            milestone(2, &format!("the line of {id} ends with the file's name, `{name}`")),
            if shown.is_empty() { "no name".to_owned() } else { format!("`{shown}`") },
            seen.at(|line| FileLine::parse(line).is_some_and(|line| line.id == id)),
        )?;
    }
    expect_sorted(2, &seen)?;
    let paths = files.iter().map(|file| &file.path).chain([&link, &written, &passed]);
    paths.into_iter().try_for_each(fs::remove_file).or_cause("cannot remove a file")?;
    Ok("four files are reported with their misses, also with two names or the same inode number".to_owned())
}

/// A path on the second file system whose file has the same inode number.
fn twin(path: &Path) -> Result<PathBuf> {
    let cannot = "cannot make a file with the same inode number";
    let inode = fs::metadata(path).or_cause(cannot)?.ino();
    let second = Path::new(SecondFs::MOUNT);
    let twin = second.join(path.file_name().unwrap_or_default());
    for nth in 0..inode {
        let file = second.join(nth.to_string());
        if File::create(&file).and_then(|file| file.metadata()).or_cause(cannot)?.ino() == inode {
            fs::rename(file, &twin).or_cause(cannot)?;
            return Ok(twin);
        }
    }
    Err(Error::new(cannot).evidence(format!("{} is file {inode}", path.display())))
}

/// The third milestone.
fn of_four_threads(binary: &str) -> Checked<String> {
    const THREADS: u64 = 4;
    const PAGES: u64 = 32;
    const MORE: u64 = 500;
    let file = |nth: u64| Known::new(format!("{FS_MOUNT}/table-{nth:02}"), PAGES, nth, THREADS);
    let mut files = (0..PAGES).map(file).collect::<Result<Vec<_>>>()?;
    files[0].more = THREADS * MORE;
    let together = Barrier::new(THREADS as usize);
    // All threads begin to read a file at the same time.
    let read = || {
        let of_file = |file: &Known| {
            together.wait();
            read_pages(&file.path, 0..PAGES)
        };
        let read = files.iter().map(of_file).fold(Ok(()), Result::and);
        read.and_then(|()| read_pages(&files[0].path, iter::repeat_n(0, MORE as usize)))
    };
    // One less than there are.
    let worst = (PAGES - 1).to_string();
    let (seen, ()) = watch_while(&[binary, &process::id().to_string(), "--worst", &worst], || {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(read)).collect();
            let joined = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(Error::new("a thread that reads panicked")))
            });
            joined.collect()
        })
    })
    .map_err(|error| {
        let cause = milestone(3, error.cause());
        error.with_cause(cause)
    })?;
    let shown = FileLine::all(&seen).len();
    let expected = milestone(3, &format!("{worst} of {PAGES} files, with --worst {worst}"));
    expect(shown == files.len() - 1, expected, shown.to_string(), &seen)?;
    expect_sorted(3, &seen)?;
    // The file with one miss is the last one, so it is left out.
    expect_files(3, &files[..files.len() - 1], &seen)?;
    files.iter().map(|file| &file.path).try_for_each(fs::remove_file).or_cause("cannot remove a file")?;
    Ok(format!("and so are the {worst} worst of {PAGES} files that {THREADS} threads read together"))
}
