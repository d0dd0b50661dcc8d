//! A private trace pipe with the lines that a run's `bpf_printk()` writes.
//!
//! `bpf_trace_printk()` writes to one trace pipe that all BPF programs on the machine share, and two readers of it take
//! lines from each other. Since Linux 5.9 (commit ac5a72ea5c89) each line is also a trace event, so every run can have
//! its own buffer: a tracefs *instance*, with a filter on this event.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use libbpf_rs::Object;
use nix::fcntl::OFlag;

use crate::args::RunArgs;
use crate::events::printable;
use crate::stop::{Stop, Wake};
use crate::traced::Traced;
use crate::tracefs::{self, Instance};
use crate::{Error, OrCause, Result, formats, report};

/// Prints or returns the lines of a run's BPF programs.
#[derive(Debug)]
pub struct TracePipe {
    args: RunArgs,
    // This field comes before the instance, to be closed first: the kernel doesn't remove an instance whose pipe is
    // open.
    pipe: File,
    instance: Option<Instance>,
    /// Why no line may have arrived, unless a warning has explained that.
    silence: Option<&'static str>,
    /// The beginning of a line whose rest we haven't read yet.
    rest: Vec<u8>,
    printed: u64,
    lost: u64,
    /// How often the kernel split a bio; `None` if this pipe doesn't show that.
    splits: Option<u64>,
}

impl TracePipe {
    /// Opens a private trace pipe for what the `bpf_printk()`s of a loaded object write. With `--shared-pipe`, opens the
    /// shared one. Warns about a text that the kernel will refuse.
    ///
    /// The kernel can filter only by the text of a line, so two runs that print the same text also see each other's
    /// lines.
    pub fn open(args: &RunArgs, object: &Object) -> Result<Self> {
        let formats = formats::of(object)?;
        let refused: Vec<_> =
            formats.iter().flatten().filter_map(|format| Some((format, formats::refused(format)?))).collect();
        for (format, what) in &refused {
            eprintln!(
                "warning: the kernel refuses {what} when the program runs, so nothing of this text is printed: {format:?}"
            );
        }
        let silence = match &formats {
            Some(_) if !refused.is_empty() => None,
            Some(_) => Some("no probed function was called, or the program did not reach its bpf_printk()"),
            None => Some(
                "no probed function was called, the program did not print, or the kernel refused its text",
            ),
        };
        Ok(Self { silence, ..Self::matching(args, formats.as_deref())? })
    }

    /// Like [`TracePipe::open`], for the lines of these formats, or for everybody's.
    pub fn matching(args: &RunArgs, formats: Option<&[String]>) -> Result<Self> {
        let tracefs = tracefs::path()?;
        let instance = if args.shared_pipe { None } else { Some(instance(&tracefs, formats)?) };
        if args.shared_pipe {
            is_on(&tracefs)?;
        }
        let path = instance.as_ref().map_or(&*tracefs, |instance| &instance.path).join("trace_pipe");
        let pipe = OpenOptions::new()
            .read(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(&path)
            .map_err(|error| cannot_open(&path, &error))?;
        let split = |instance: &Instance| tracefs::write(&instance.path.join(SPLIT), "1").ok();
        let splits = instance.as_ref().and_then(split).map(|()| 0);
        Ok(Self {
            args: args.clone(),
            pipe,
            instance,
            silence: None,
            rest: Vec::new(),
            printed: 0,
            lost: 0,
            splits,
        })
    }

    /// Prints lines as they arrive, until Ctrl-C, SIGTERM, `--duration` or `--lines` ends the run.
    pub fn follow(&mut self) -> Result<()> {
        self.follow_until(None)
    }

    /// Like [`TracePipe::follow`], but the end of `process` also ends the run. If we started `process`, it continues
    /// now.
    pub fn follow_process(&mut self, process: &Traced) -> Result<()> {
        self.follow_until(Some(process))
    }

    fn follow_until(&mut self, process: Option<&Traced>) -> Result<()> {
        report::print_tracing("");
        process.map_or(Ok(()), Traced::begin)?;
        let process = process.map(|process| process.as_fd());
        let stop = Stop::new(self.args.duration)?;
        while stop.wait(self.pipe.as_fd(), process)? == Wake::Readable {
            if self.print_some()? == Got::Enough {
                break;
            }
        }
        Ok(())
    }

    /// Prints the lines that are still in the pipe. Call it after you detach the programs. It warns about lines that
    /// were lost because they came faster than we read them.
    pub fn drain(&mut self) -> Result<()> {
        // Other programs may go on writing lines that match our patterns, or to the shared pipe, so we need an end.
        if let Some(instance) = &self.instance {
            let stopped = tracefs::write(&instance.path.join("tracing_on"), "0");
            stopped.or_cause("cannot close the trace pipe")?;
        }
        let end = Instant::now() + Duration::from_secs(1);
        while self.print_some()? == Got::Lines && (self.instance.is_some() || Instant::now() < end) {}
        // With `--lines`, there may be more, in which we look only for what was lost and split.
        while self.instance.is_some() && self.read_some(0)?.is_some() {}
        if let (0, Some(_), Some(silence)) = (self.printed, &self.instance, self.silence) {
            eprintln!("No trace line arrived: {silence}.");
        }
        if self.lost > 0 {
            eprintln!(
                "warning: {} trace lines were lost, because they came faster than they were read",
                self.lost
            );
        }
        Ok(())
    }

    /// Returns the lines that arrived since the last call, instead of printing them; `None` if there are none.
    pub fn read(&mut self) -> Result<Option<String>> {
        self.read_some(u64::MAX)
    }

    /// How many lines were lost so far, because they came faster than they were read.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// How often the kernel split a bio so far. Such a bio has several ends, and the first call of `bio_endio()` may come
    /// before the last of them, so what a program measures until then may be too short.
    ///
    /// Only a private trace pipe has the event `block_split`. Without it, this warns.
    pub fn splits(&self) -> u64 {
        if self.splits.is_none() {
            eprintln!(
                "warning: this trace pipe doesn't show when the kernel splits a bio, whose duration may be too short"
            );
        }
        self.splits.unwrap_or_default()
    }

    /// Reads once, and returns at most `wanted` lines.
    fn read_some(&mut self, wanted: u64) -> Result<Option<String>> {
        let mut chunk = vec![0; 64 * 1024];
        let read = match self.pipe.read(&mut chunk) {
            Ok(0) => return Ok(None),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error).or_cause("cannot read the trace pipe"),
        };
        self.rest.extend_from_slice(&chunk[..read]);
        let Events { lines, lost, splits, rest } = take_apart(&self.rest, wanted, self.splits.is_some());
        self.lost += lost;
        self.splits = self.splits.map(|before| before + splits);
        self.printed += lines.lines().count() as u64;
        self.rest = rest;
        Ok(Some(lines))
    }

    /// Reads once and prints the lines.
    fn print_some(&mut self) -> Result<Got> {
        let wanted = self.args.lines.map_or(u64::MAX, |lines| lines - self.printed);
        if wanted == 0 {
            return Ok(Got::Enough);
        }
        let Some(lines) = self.read_some(wanted)? else { return Ok(Got::Nothing) };
        let lines = if self.args.raw { lines } else { shortened(&lines) };
        match io::stdout().write_all(lines.as_bytes()) {
            Ok(()) if self.args.lines == Some(self.printed) => Ok(Got::Enough),
            Ok(()) => Ok(Got::Lines),
            // Nobody reads our output any more, as after `| head -3`, so the run is over.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Got::Enough),
            Err(error) => Err(error).or_cause("cannot print the trace lines"),
        }
    }
}

impl AsFd for TracePipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

/// The result of reading the pipe once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Got {
    /// Lines, and there may be more.
    Lines,
    /// Nothing, for now.
    Nothing,
    /// We have all lines that `--lines` asked for, or nobody reads our output any more.
    Enough,
}

fn cannot_open(path: &Path, error: &io::Error) -> Error {
    let cannot = Error::new(format!("cannot open {}", path.display())).evidence(error);
    match error.kind() {
        io::ErrorKind::ResourceBusy => cannot.fix(
            "another program is reading it, and this kernel allows one reader: end that program, or leave out \
             --shared-pipe to get a private trace pipe",
        ),
        _ => cannot,
    }
}

/// Checks that somebody's `echo 0 > tracing_on` doesn't keep all lines from the shared pipe.
fn is_on(tracefs: &Path) -> Result<()> {
    let file = tracefs.join("tracing_on");
    match fs::read_to_string(&file) {
        Ok(text) if text.trim() == "0" => {
            Err(Error::new("tracing is off, so nothing gets into the shared trace pipe")
                .evidence(format!("{}: 0", file.display()))
                .fix(format!(
                    "echo 1 > {}, or leave out --shared-pipe to get a private trace pipe",
                    file.display()
                )))
        }
        _ => Ok(()),
    }
}

/// What the bytes of a trace pipe hold.
#[derive(Debug, Default)]
struct Events {
    /// One for each `bpf_printk()`.
    lines: String,
    /// How many events the kernel reports as lost.
    lost: u64,
    /// How often the kernel split a bio.
    splits: u64,
    /// The beginning of an event.
    rest: Vec<u8>,
}

/// Takes the bytes of a trace pipe apart. Of the lines, it keeps at most `wanted`. The kernel's events for splits are no
/// lines if we have asked for them.
///
/// The kernel prints the name of a thread as it is, so newlines don't show where an event begins. But the text after
/// the name does.
fn take_apart(read: &[u8], wanted: u64, has_splits: bool) -> Events {
    let mut starts: Vec<_> = (0..read.len()).filter_map(|at| start(read, at)).collect();
    // A read ends where an event ends.
    let newline = || read.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let whole = if read.ends_with(b"\n") { read.len() } else { starts.pop().unwrap_or_else(newline) };
    let (mut found, mut count) = (Events { rest: read[whole..].to_vec(), ..Events::default() }, 0);
    let mut add = |event: &[u8]| {
        let mut parts: Vec<_> = event.split(|byte| *byte == b'\n').collect();
        parts.retain(|part| {
            let events = lost_events(part);
            found.lost += events.unwrap_or(0);
            events.is_none()
        });
        // If the program's format ends in a newline, the kernel adds another one.
        while parts.pop_if(|part| part.is_empty()).is_some() {}
        let event = parts.join(&b'\n');
        let line = String::from_utf8_lossy(&event);
        if has_splits && is_split(&line) {
            found.splits += 1;
        } else if !event.is_empty() && count < wanted {
            found.lines += &printable(&line);
            found.lines.push('\n');
            count += 1;
        }
    };
    let first = starts.first().map_or(whole, |first| *first);
    read[..first].split(|byte| *byte == b'\n').for_each(&mut add);
    let ends = starts.iter().skip(1).copied().chain([whole]);
    starts.iter().zip(ends).for_each(|(start, end)| add(&read[*start..end]));
    found
}

/// Whether this is the kernel's event for a bio that it splits, and not what a program prints.
fn is_split(line: &str) -> bool {
    // Most lines are none, so we look for the word first.
    line.contains(": block_split: ")
        && Line::parse(line)
            .is_some_and(|parts| line.ends_with(&format!("{}: {}", parts.time, parts.message)))
}

/// Where an event begins, if the byte at `open` is the `[` in what the kernel prints before an event,
/// `%16s-%-7d [%03d] FLAGS TIME: `. What follows the thread's name is longer than the 15 bytes that a name may have, so no
/// name looks like it.
fn start(read: &[u8], open: usize) -> Option<usize> {
    const NAME: usize = 16;
    let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let is_time = |word: &[u8]| {
        let point = word.len().checked_sub(b".123456:".len());
        point.is_some_and(|point| {
            let (seconds, rest) = word.split_at(point);
            let micros = rest.strip_prefix(b".").and_then(|rest| rest.strip_suffix(b":"));
            is_number(seconds) && micros.is_some_and(is_number)
        })
    };
    let after = read[open..].strip_prefix(b"[")?;
    let mut words = after.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let cpu = words.next()?.strip_suffix(b"]")?;
    let mut words = words.take(2);
    if cpu.len() < 3 || !is_number(cpu) || !words.any(is_time) {
        return None;
    }
    let mut before = read[..open].trim_ascii_end();
    // The id of the process, if somebody has set the option record-tgid.
    if before.ends_with(b")") {
        before = before[..before.iter().rposition(|byte| *byte == b'(')?].trim_ascii_end();
    }
    let dash = before.iter().rposition(|byte| *byte == b'-').filter(|dash| is_number(&before[dash + 1..]))?;
    let name = dash.saturating_sub(NAME);
    // Should a name be longer one day, it begins in the same line.
    let line =
        |at: usize| read[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    Some(line(name))
}

/// The number in `CPU:1 [LOST 42 EVENTS]`. The kernel writes this line if it overwrote events before anybody read them.
fn lost_events(line: &[u8]) -> Option<u64> {
    let line = str::from_utf8(line).ok()?.trim();
    let (cpu, events) = line.strip_suffix(" EVENTS]")?.split_once(" [LOST ")?;
    cpu.strip_prefix("CPU:")?.parse::<u32>().ok()?;
    events.parse().ok()
}

/// The folder of the trace event of `bpf_printk()`, within an instance.
const EVENT: &str = "events/bpf_trace/bpf_trace_printk";
/// What turns on the event for a bio that the kernel splits.
const SPLIT: &str = "events/block/block_split/enable";

/// Creates a private buffer for the lines of these formats, or for everybody's.
fn instance(tracefs: &Path, formats: Option<&[String]>) -> Result<Instance> {
    let instance = Instance::create(tracefs)
        .map_err(|error| error.fix("use sudo, or the shared trace pipe: --shared-pipe"))?;
    let event = instance.path.join(EVENT);
    if !event.exists() {
        return Err(Error::new("this kernel writes the lines of bpf_printk() to the shared trace pipe only")
            .evidence(format!("there is no {}", event.display()))
            .fix("boot Linux 5.9 or newer, or use the shared trace pipe: --shared-pipe"));
    }
    let filter = formats.and_then(formats::filter);
    if filter.is_none() {
        eprintln!(
            "Lines of other BPF programs may come, too: nothing in this program's texts tells them apart."
        );
    }
    // All CPUs together get 16 MiB, but no CPU more than 4 MiB. 16 MiB hold about 100,000 lines while nobody reads.
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let size = (16 * 1024 / cpus).clamp(512, 4096).to_string();
    [
        // This is the clock of bpf_ktime_get_ns(), so you can compare a line's time with the times in its text.
        ("trace_clock", "mono"),
        ("buffer_size_kb", &size),
        // 0 means none.
        (&format!("{EVENT}/filter"), filter.as_deref().unwrap_or("0")),
        (&format!("{EVENT}/enable"), "1"),
    ]
    .into_iter()
    .try_for_each(|(file, text)| tracefs::write(&instance.path.join(file), text))
    .or_cause("cannot set up a private trace pipe")
    .map_err(|error| error.fix("use the shared trace pipe: --shared-pipe"))?;
    Ok(instance)
}

/// The lines with what a reader needs: without `bpf_trace_printk:`, and without the room that the kernel leaves for long
/// names. Other lines stay as they are.
fn shortened(lines: &str) -> String {
    let short = |line: &str| Line::parse(line).map_or(line.to_owned(), |line| line.to_string());
    lines.lines().map(|line| short(line) + "\n").collect()
}

/// The parts of one line of the trace pipe, or of a line that we printed without its middle.
///
/// ```
/// use common::trace_pipe::Line;
///
/// let line = "  jbd2/nvme0n1-8-64 [001] ...21     2.293669: bpf_trace_printk: submit_bio() called: 2236719815";
/// let line = Line::parse(line).expect("a trace line");
/// assert_eq!((line.task, line.pid, line.cpu), ("jbd2/nvme0n1-8", 64, 1));
/// assert_eq!(line.message, "submit_bio() called: 2236719815");
/// assert_eq!(line.to_string(), "jbd2/nvme0n1-8-64 [001] ...21 2.293669: submit_bio() called: 2236719815");
/// assert_eq!(Line::parse(&line.to_string()), Some(line));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line<'a> {
    /// The name of the thread that ran the program, as in `/proc/PID/comm`; `<...>` if the kernel no longer knows it.
    pub task: &'a str,
    /// Its thread id, which the kernel calls pid.
    pub pid: u32,
    /// The CPU it ran on.
    pub cpu: u32,
    /// Interrupts off, need to reschedule, hard or soft interrupt, preemption depth; since 5.15 also whether migration
    /// is disabled.
    pub flags: &'a str,
    /// When the line was written, in seconds of the pipe's clock.
    pub time: &'a str,
    /// The text that the program wrote.
    pub message: &'a str,
}

impl<'a> Line<'a> {
    /// Splits a line into its parts; `None` if it isn't a line of the trace pipe.
    pub fn parse(line: &'a str) -> Option<Self> {
        // A task's name can contain anything, but nothing that looks like what follows it.
        let open =
            line.match_indices('[').map(|(at, _)| at).find(|at| start(line.as_bytes(), *at).is_some())?;
        let (task, pid) = line[..open].trim_end().rsplit_once('-')?;
        let (cpu, rest) = line[open + 1..].split_once("] ")?;
        let (flags, rest) = rest.trim_start().split_once(' ')?;
        let (time, message) = rest.trim_start().split_once(": ")?;
        // Other events have their name there.
        Some(Self {
            task: task.trim_start(),
            pid: pid.parse().ok()?,
            cpu: cpu.parse().ok()?,
            flags,
            time,
            message: message.strip_prefix("bpf_trace_printk: ").unwrap_or(message),
        })
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, pid, cpu, flags, time, message } = self;
        write!(f, "{:<12} [{cpu:03}] {flags} {time}: {message}", format!("{task}-{pid}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_four_kernels_are_taken_apart() {
        let lines = [
            "              wl-98      [000] d...     2.310423: bpf_trace_printk: submit_bio() called: 2298067058",
            "          <idle>-0       [000] d.h31     2.291205: bpf_trace_printk: bio_endio() called: 2278141468",
            "   kworker/u4:1-9-8      [001] ...21     2.293669: bpf_trace_printk: submit_bio(bio=0xff) called: 1",
            "           <...>-1129    [010] ...21  1234.564785: bpf_trace_printk: a: b",
            " [0] task of mine-7      [000] .....     2.564785: bpf_trace_printk: ",
        ];
        insta::assert_debug_snapshot!(lines.map(|line| Line::parse(line).unwrap()));
    }

    #[test]
    fn other_lines_are_none() {
        for line in
            ["", "CPU:0 [LOST 7 EVENTS]", "  io-1 [000] .....  1.0: sys_enter: NR 1", ": bpf_trace_printk: x"]
        {
            assert_eq!(Line::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn lines_are_shortened() {
        let lines = "              io-155     [000] ...21     7.254470: bpf_trace_printk: submit_bio() called: 1\n          <idle>-0       [001] d.h21     7.281986: bpf_trace_printk: bio_endio() called: 2\nother\n";
        insta::assert_snapshot!(shortened(lines), @r"
        io-155       [000] ...21 7.254470: submit_bio() called: 1
        <idle>-0     [001] d.h21 7.281986: bio_endio() called: 2
        other
        ");
    }

    #[test]
    fn splits_are_counted_and_not_printed() {
        let text = "              io-155     [000] .....     7.254470: block_split: 254,0 WS 0 / 256 [io]\n              io-155     [000] ...21     7.254471: bpf_trace_printk: block_split: x\n";
        let Events { lines, splits, .. } = take_apart(text.as_bytes(), 1, true);
        assert_eq!((splits, lines.lines().count()), (1, 1), "{lines}");
        assert!(lines.ends_with("bpf_trace_printk: block_split: x\n"), "{lines}");
    }

    #[test]
    fn lost_events_are_counted_and_an_incomplete_line_is_kept() {
        let Events { lines, lost, rest, .. } =
            take_apart(b"one\n\nCPU:1 [LOST 42 EVENTS]\ntwo\nCPU:0 [LOST 1 EVENTS]\nthr", 9, true);
        assert_eq!((&*lines, lost, &*rest), ("one\ntwo\n", 43, &b"thr"[..]));
    }

    /// Names that end the line, move the cursor, look like a part of a line, or are no text.
    #[test]
    fn an_event_is_a_line_whatever_its_thread_is_called() {
        let names: [&[u8]; 9] = [
            b"io",
            b"a\nb\x1b[31mred",
            b"\n\n\n",
            b"-1 [000] .... 1",
            b"x\ny-98 [000]",
            b"CPU:0 [LOST 7 E",
            b"\xff\x9b31m",
            b"(7)",
            b"<...>",
        ];
        let event = |name: &[u8], nth: usize| {
            let pad = vec![b' '; 16 - name.len()];
            let rest = format!("-{nth:<7} [001] d..2.    12.{nth:06}: bpf_trace_printk: call {nth}\n");
            [&pad, name, rest.as_bytes()].concat()
        };
        let events: Vec<_> = names.iter().zip(1..).map(|(name, nth)| event(name, nth)).collect();
        let text = events.join(&b"CPU:1 [LOST 2 EVENTS]\n"[..]);
        let Events { lines, lost, rest, .. } = take_apart(&text, u64::MAX, true);
        assert!(!lines.contains(|c: char| c.is_control() && c != '\n'), "{lines}");
        assert_eq!((lines.lines().count(), lost, rest.len()), (names.len(), 16, 0), "{lines}");
        for (line, nth) in lines.lines().zip(1..) {
            let line = Line::parse(line).unwrap();
            assert_eq!((line.pid, line.message), (nth, &*format!("call {nth}")));
            assert_eq!(Line::parse(&line.to_string()), Some(line));
        }
        assert_eq!(Line::parse(lines.lines().nth(1).unwrap()).unwrap().task, "a?b?[31mred");
        assert_eq!(take_apart(&text, 3, true).lines.lines().count(), 3);
        // A format with a newline in the middle is one event, too.
        let Events { lines, .. } =
            take_apart(&[&events[0][..events[0].len() - 7], b"a\nb\n\n", &events[1]].concat(), 1, true);
        assert!(lines.ends_with("bpf_trace_printk: a?b\n"));
        let cut = take_apart(&text[..text.len() - 3], u64::MAX, true);
        assert_eq!(cut.rest, events[8][..events[8].len() - 3]);
    }

    #[test]
    fn no_more_lines_than_wanted() {
        let Events { lines, lost, rest, .. } = take_apart(b"one\ntwo\nthree\n", 2, true);
        assert_eq!((&*lines, lost, rest.len()), ("one\ntwo\n", 0, 0));
    }
}
