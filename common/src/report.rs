//! The report that a stage prints at its end: plain data in, text out.

use std::fmt;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;

use libbpf_rs::query::{
    KprobeMultiLinkInfo, LinkInfo, LinkInfoIter, LinkTypeInfo, PerfEventLinkInfo, PerfEventType, ProgInfoIter,
};
use libbpf_rs::{Object, Program};
use nix::errno::Errno;

use crate::symbols::Stack;
use crate::{Error, OrCause, Result, kernel, kernel_pid, record};

/// Prints a report on stdout. If nobody reads stdout any more, as after `| head -3`, it goes to stderr.
pub fn print(report: impl fmt::Display) -> Result<()> {
    let text = format!("{report}\n");
    io::stdout()
        .write_all(text.as_bytes())
        .or_else(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => io::stderr().write_all(text.as_bytes()),
            _ => Err(error),
        })
        .or_cause("cannot print the report")
}

/// Prints text on stdout. If the reader ends early, as with `| head -3`, we drop the rest, and that is not an error.
pub fn print_text(text: impl fmt::Display) -> Result<()> {
    let text = format!("{text}\n");
    let printed = io::stdout().write_all(text.as_bytes());
    printed
        .or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
        .or_cause("cannot print on stdout")
}

/// The width of the terminal in columns; 80 if stdout is not a terminal.
pub fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80)
}

/// The local time, such as `2026-03-01 17:04:05`.
pub fn time_stamp() -> String {
    chrono::Local::now().format("%Y-%m-%d %H:%M:%S").to_string()
}

/// Warns that counts are too low if the kernel didn't run the programs for some calls, see [`skipped_calls`]. Call it
/// while the programs are still attached.
pub fn warn_skipped(object: &Object) -> Result<()> {
    if let Some(skipped @ 1..) = skipped_calls(object)? {
        eprintln!("warning: the counts are too low: the kernel did not run the programs for {skipped} calls");
    }
    Ok(())
}

/// The global variables of the BPF programs, from a skeleton's `maps.bss_data`. User space reads the same memory that
/// the programs write.
///
/// # Errors
/// If the kernel can't map them, which Linux can since 5.5.
pub fn globals<T>(data: Option<&T>) -> Result<&T> {
    data.ok_or_else(|| Error::new("the global variables of the BPF programs cannot be read on this kernel"))
}

/// What [`print_tracing`] calls first.
static WHEN_TRACING: OnceLock<fn()> = OnceLock::new();

/// For a program that watches what its tools cost: calls this once all BPF programs are attached.
pub fn when_tracing(call: fn()) {
    let _ = WHEN_TRACING.set(call);
}

/// Reports on stderr that all programs are attached. `what` is a sentence about them, or nothing.
pub fn print_tracing(what: &str) {
    if let Some(call) = WHEN_TRACING.get() {
        call();
    }
    if kernel_pid::is_inside() {
        eprintln!(
            "In this PID namespace, such as a container's, processes are printed with the ids that they have outside."
        );
    }
    eprintln!("Tracing. {what}Ctrl-C to end.");
}

/// Prints, between two rules, which process the filter map now holds.
pub fn print_filter(pid: u32) -> Result<()> {
    print(format!("{RULE}\npid_filter_map update: (pid={pid})\n{RULE}"))
}

/// Prints how many durations are missing or too short: those that a stage counted, and the calls that the kernel
/// skipped. With each split, at most one more is too short, see [`TracePipe::splits`](crate::trace_pipe::TracePipe::splits).
pub fn print_not_measured(counted: u64, splits: u64, skipped: Option<u64>) -> Result<()> {
    print(NotMeasured { counted, splits, skipped })
}

/// Prints how many calls the kernel skipped, see [`skipped_calls`].
pub fn print_skipped(skipped: Option<u64>) -> Result<()> {
    print(format_args!("Calls skipped: {}", Skipped(skipped)))
}

/// How many calls the kernel skipped.
struct Skipped(Option<u64>);

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(skipped) => write!(f, "{skipped}"),
            None => f.write_str("not known (Linux counts them from 6.7 on, and tells only root)"),
        }
    }
}

struct NotMeasured {
    counted: u64,
    splits: u64,
    skipped: Option<u64>,
}

impl fmt::Display for NotMeasured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Durations missing or too short: {}", self.counted + self.skipped.unwrap_or_default())?;
        if self.splits > 0 {
            write!(f, ", perhaps {} more, because the kernel split bios", self.splits)?;
        }
        if self.skipped.is_some() { Ok(()) } else { f.write_str(SKIPPED_UNKNOWN) }
    }
}

/// What to add to a number that doesn't include the skipped calls.
const SKIPPED_UNKNOWN: &str =
    ", without the calls that this kernel skipped (Linux counts them from 6.7 on, and tells only root)";

/// A bio, and when it began and ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlowBio {
    /// The address of its `struct bio`; 0 if this CPU saw no bio.
    pub bio: u64,
    /// When `submit_bio()` was called, in nanoseconds since boot.
    pub start: u64,
    /// When `bio_endio()` was called, in nanoseconds since boot.
    pub end: u64,
    /// Its first sector when it was submitted, in sectors of 512 bytes.
    pub sector: Option<u64>,
    /// What `bpf_get_stackid()` returned at `submit_bio()`: an id, or a negative error number.
    pub stack_id: Option<i64>,
    /// The return address of `submit_bio()`, if that is not on the stack; else 0.
    pub caller: u64,
}

impl SlowBio {
    /// A bio with its address, start and end.
    pub fn new(bio: u64, start: u64, end: u64) -> Self {
        Self { bio, start, end, ..Self::default() }
    }

    /// Adds its first sector.
    #[must_use]
    pub fn at_sector(self, sector: u64) -> Self {
        Self { sector: Some(sector), ..self }
    }

    /// Adds what `bpf_get_stackid()` returned at `submit_bio()`, and the caller that it leaves out on some
    /// architectures.
    #[must_use]
    pub fn by_stack(self, stack_id: i64, caller: u64) -> Self {
        Self { stack_id: Some(stack_id), caller, ..self }
    }

    /// How long it took, in nanoseconds.
    pub fn duration(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// The slowest bio of a run, if any has finished, and if the stage records stacks, the stack that submitted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxLatency {
    slowest: Option<SlowBio>,
    stack: Option<Stack>,
}

impl MaxLatency {
    /// Takes the slowest bio. Its address is 0 if none has finished.
    pub fn of(slowest: Option<SlowBio>) -> Self {
        Self { slowest: slowest.filter(|bio| bio.bio != 0), stack: None }
    }

    /// Adds the stack that submitted it. `lookup` reads the stack map by id.
    pub fn with_stack(
        mut self,
        lookup: impl FnOnce(u32) -> libbpf_rs::Result<Option<Vec<u8>>>,
    ) -> Result<Self> {
        let Some((id, caller)) = self.slowest.as_ref().and_then(|bio| Some((bio.stack_id?, bio.caller)))
        else {
            return Ok(self);
        };
        self.stack = Some(match u32::try_from(id) {
            Ok(id) => match lookup(id)? {
                Some(addresses) => Stack::new(&record::read_list::<u64>(&addresses)?, caller),
                None => Stack::NotRecorded(Errno::ENOENT),
            },
            Err(_) => Stack::NotRecorded(Errno::from_raw(-id as i32)),
        });
        Ok(self)
    }
}

impl fmt::Display for MaxLatency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(slowest) = &self.slowest else {
            return f.write_str("No I/O has finished, so none was the slowest.");
        };
        let SlowBio { bio, start, end, sector, .. } = slowest;
        writeln!(f, "{RULE}\nFrom: submit_bio(bio=0x{bio:x}) {start}\nTo  : bio_endio(bio=0x{bio:x}) {end}")?;
        if let Some(sector) = sector {
            writeln!(f, "Bio Info : Sector ({sector})")?;
        }
        writeln!(f, "Max latency {} ns", slowest.duration())?;
        if let Some(stack) = &self.stack {
            writeln!(f, "{stack}")?;
        }
        f.write_str(RULE)
    }
}

/// The pages that reads touched, and the pages that were added to the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCache {
    /// The process whose reads were counted; `None` for all processes.
    pub pid: Option<u32>,
    /// Pages that reads touched.
    pub total: u64,
    /// Pages that were added to the page cache, for any reason.
    pub added: u64,
    /// Calls for which the kernel did not run the programs, see [`skipped_calls`].
    pub skipped: Option<u64>,
}

impl PageCache {
    /// From the values of the stage's map: the pages that reads touched, and those that were added.
    pub fn of(total: Option<Vec<u8>>, added: Option<Vec<u8>>, skipped: Option<u64>) -> Result<Self> {
        let number = |value: Option<Vec<u8>>| value.map_or(Ok(0), |value| record::read(&value));
        Ok(Self { pid: None, total: number(total)?, added: number(added)?, skipped })
    }

    /// Adds the process whose reads were counted.
    #[must_use]
    pub fn of_process(self, pid: u32) -> Self {
        Self { pid: Some(pid), ..self }
    }
}

impl fmt::Display for PageCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, total, added, skipped } = self;
        let miss = added.min(total);
        let beyond = added - miss;
        writeln!(f, "{RULE}")?;
        pid.map_or(Ok(()), |pid| writeln!(f, "Filtered PID : {pid}"))?;
        match total {
            0 => writeln!(f, "Nothing was read through the page cache.\n{RULE}")?,
            _ => writeln!(f, "[Total {total} Hit {} miss {miss}]\n{RULE}", total - miss)?,
        }
        write!(f, "Pages added beyond what was read: {beyond}, calls skipped: {}", Skipped(*skipped))?;
        if *total == 0 || beyond > 8 * total { write!(f, "\n{NOT_SEEN}") } else { Ok(()) }
    }
}

/// Which ways to read the stages don't see: what a reader asks whose program seems to read little or nothing. For
/// sendfile() and the other two, Linux 6.5 gave the page cache a function of its own (2cb1e08985e3).
const NOT_SEEN: &str =
    "Not seen: reads by mmap(), and since Linux 6.5 by sendfile(), splice() and copy_file_range(), as in cp";

/// A line between parts of a report.
const RULE: &str = "==================================================";

/// Counts the calls of probed functions for which the kernel didn't run the programs of `object`.
///
/// This happens when the call comes in an interrupt while the CPU is running another kprobe (`kprobe_running()`) or
/// another program (`bpf_prog_active`). It happens to fexit and tp_btf programs if the same program is already running
/// on that CPU.
///
/// Call it while the programs are still attached. Kernels before 6.7 do not count these calls (commits 3acf8ace6823,
/// dd8657894c11), and this returns `None`.
pub fn skipped_calls(object: &Object) -> Result<Option<u64>> {
    let loaded = object.progs().filter(|program| program.autoload());
    let ids = loaded.map(|program| Program::id_from_fd(program.as_fd()));
    skipped_calls_of(&ids.collect::<libbpf_rs::Result<Vec<u32>>>()?)
}

/// The same for the programs with these numbers.
pub fn skipped_calls_of(ids: &[u32]) -> Result<Option<u64>> {
    if kernel::version(&kernel::release()) < (6, 7) {
        return Ok(None);
    }
    let programs: Vec<_> = ProgInfoIter::default().filter(|program| ids.contains(&program.id)).collect();
    let links: Vec<_> = LinkInfoIter::default().filter(|link| ids.contains(&link.prog_id)).collect();
    // The iterators end early at a program or link of somebody else that they don't understand.
    if programs.len() < ids.len() || links.len() < ids.len() {
        return Ok(None);
    }
    let missed_probe = |link: LinkInfo| match link.info {
        LinkTypeInfo::PerfEvent(PerfEventLinkInfo {
            event_type: PerfEventType::Kprobe { missed, .. },
            ..
        })
        | LinkTypeInfo::KprobeMulti(KprobeMultiLinkInfo { missed, .. }) => missed,
        _ => 0,
    };
    Ok(Some(
        programs.iter().map(|program| program.recursion_misses).sum::<u64>()
            + links.into_iter().map(missed_probe).sum::<u64>(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_one_number() {
        let of = |counted, splits, skipped| NotMeasured { counted, splits, skipped };
        insta::assert_snapshot!(of(3, 0, Some(2)), @"Durations missing or too short: 5");
        insta::assert_snapshot!(of(0, 4, Some(0)), @"Durations missing or too short: 0, perhaps 4 more, because the kernel split bios");
        insta::assert_snapshot!(of(0, 0, None), @"Durations missing or too short: 0, without the calls that this kernel skipped (Linux counts them from 6.7 on, and tells only root)");
    }

    #[test]
    fn the_slowest_is_a_block_of_lines() {
        let of = |[bio, start, end, sector]: [u64; 4]| {
            MaxLatency::of(Some(SlowBio::new(bio, start, end).at_sector(sector)))
        };
        insta::assert_snapshot!(of([0xff01, 100, 350, 2048]), @r"
        ==================================================
        From: submit_bio(bio=0xff01) 100
        To  : bio_endio(bio=0xff01) 350
        Bio Info : Sector (2048)
        Max latency 250 ns
        ==================================================
        ");
        insta::assert_snapshot!(of([0; 4]), @"No I/O has finished, so none was the slowest.");
    }

    #[test]
    fn the_slowest_without_its_stack_says_why() {
        let bio = SlowBio::new(0xff01, 100, 350).at_sector(8).by_stack(-17, 0);
        insta::assert_snapshot!(MaxLatency { slowest: Some(bio), stack: None }.with_stack(|_| unreachable!()).unwrap(), @r"
        ==================================================
        From: submit_bio(bio=0xff01) 100
        To  : bio_endio(bio=0xff01) 350
        Bio Info : Sector (8)
        Max latency 250 ns
        Stack not recorded: another stack has its place in the map (EEXIST)
        ==================================================
        ");
        let gone = SlowBio { bio: 1, stack_id: Some(7), ..SlowBio::default() };
        let told =
            MaxLatency { slowest: Some(gone), stack: None }.with_stack(|_| Ok(None)).unwrap().to_string();
        assert!(told.contains("\nStack not recorded: it is no longer in the map (ENOENT)\n"), "{told}");
    }

    #[test]
    fn pages_read_and_pages_added() {
        let of = |[total, added]: [u64; 2], skipped| PageCache { pid: None, total, added, skipped };
        insta::assert_snapshot!(of([15, 4], Some(0)), @r"
        ==================================================
        [Total 15 Hit 11 miss 4]
        ==================================================
        Pages added beyond what was read: 0, calls skipped: 0
        ");
        insta::assert_snapshot!(of([64, 124], Some(0)), @r"
        ==================================================
        [Total 64 Hit 0 miss 64]
        ==================================================
        Pages added beyond what was read: 60, calls skipped: 0
        ");
        insta::assert_snapshot!(of([10, 4], Some(0)).of_process(1284), @r"
        ==================================================
        Filtered PID : 1284
        [Total 10 Hit 6 miss 4]
        ==================================================
        Pages added beyond what was read: 0, calls skipped: 0
        ");
        // What `stage09 -- cp` shows where the program's loader reads its libraries.
        assert!(of([5, 256], Some(0)).to_string().ends_with("as in cp"));
        insta::assert_snapshot!(of([0, 9], None), @r"
        ==================================================
        Nothing was read through the page cache.
        ==================================================
        Pages added beyond what was read: 9, calls skipped: not known (Linux counts them from 6.7 on, and tells only root)
        Not seen: reads by mmap(), and since Linux 6.5 by sendfile(), splice() and copy_file_range(), as in cp
        ");
    }
}
