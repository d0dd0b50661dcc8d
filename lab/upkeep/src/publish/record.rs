//! What a stage prints, recorded: [`crate::publish::recordings`] runs the command in its README in the lab, and saves the
//! output in the stage's `output.txt`, from where [`crate::publish::sync`] takes it. Times and addresses are those of that run. A test
//! checks that the stage still prints lines of this shape.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use clap::Parser;
use common::trace_pipe::Line;
use common::{Error, OrCause, Result};
use machine::vm::{Stream, Vm};
use machine::workbook::Program;
use nix::sys::signal::Signal;
use wire::protocol::ToGuest;
use wire::workload::Workload;

/// How long a program may run: usually a few seconds, but longer on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// How many trace lines we keep of a longer stretch. A program that does not end on its own gets a Ctrl-C after more.
const KEPT: usize = 6;
/// Of a round of a workload that has no more lines, we keep all.
const ROUND: usize = 8;

/// How a command begins.
const RUN: &str = "cargo lab run ";

/// A workload that repeats pauses for longer than this, in seconds.
const PAUSE: f64 = 0.4;

/// The words after `cargo lab run` in a README.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Run {
    program: String,
    #[arg(long)]
    io: Option<Workload>,
    #[arg(last = true)]
    arguments: Vec<String>,
}

impl Run {
    /// Whether it runs until Ctrl-C.
    fn is_endless(&self, program: &Program) -> bool {
        self.arguments.is_empty() && program.command.is_none()
    }
}

/// Runs a stage or an example as its README shows, or `times` as long, and returns everything that it prints to
/// stdout.
pub fn capture(guest: &mut Vm, program: &Program, times: u32) -> Result<String> {
    let mut run = command(program)?;
    lengthen(&mut run.arguments, times);
    let endless = run.is_endless(program);
    beside(guest, program, run.io.as_ref(), &run.arguments, endless)
}

/// Runs a program beside I/O, and returns everything that it prints to stdout. An `endless` one gets a Ctrl-C.
pub(crate) fn beside(
    guest: &mut Vm,
    program: &Program,
    io: Option<&Workload>,
    arguments: &[String],
    endless: bool,
) -> Result<String> {
    let argv = program.argv(&program.binary(), io, arguments);
    guest.start(&argv.iter().map(String::as_str).collect::<Vec<_>>(), None)?;
    let line = guest.line();
    let (mut stdout, mut stderr, mut ended) = (Vec::new(), Vec::new(), false);
    let status = guest.finish(Some(LIMIT), |stream, bytes| {
        match stream {
            Stream::Stdout => stdout.extend_from_slice(bytes),
            Stream::Stderr => stderr.extend_from_slice(bytes),
        }
        if endless && !ended && is_enough(&String::from_utf8_lossy(&stdout)) {
            ended = true;
            line.send(&ToGuest::Signal(Signal::SIGINT as i32))?;
        }
        Ok(())
    })?;
    if status != 0 {
        let said = String::from_utf8_lossy(&stderr).into_owned();
        return Err(Error::new(format!("{} failed with {status}", program.binary())).evidence(said));
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

/// Makes a run `times` as long: `--duration 2`, or the first number of `[INTERVAL [COUNT]]`.
fn lengthen(arguments: &mut [String], times: u32) {
    let is_time = |nth: usize| {
        let is_of_another =
            nth > 0 && arguments[nth - 1].starts_with("--") && arguments[nth - 1] != "--duration";
        arguments[nth].parse::<f64>().is_ok() && !is_of_another
    };
    if let Some(nth) = (0..arguments.len()).find(|nth| is_time(*nth)) {
        arguments[nth] = (arguments[nth].parse::<f64>().unwrap_or_default() * f64::from(times)).to_string();
    }
}

/// The command in the code block before the recorded output, as it is typed.
pub fn typed_command(program: &Program) -> Result<String> {
    let readme = program.folder.join("README.md");
    let text = fs::read_to_string(&readme).or_cause(format!("cannot read {}", readme.display()))?;
    let none = || Error::new(format!("{} shows no command before its output", readme.display()));
    let (before, _) = text.split_once("<!-- output:begin").ok_or_else(none)?;
    let line = before.lines().rev().find(|line| line.starts_with(RUN)).ok_or_else(none)?;
    Ok(line.to_owned())
}

fn command(program: &Program) -> Result<Run> {
    parsed(&typed_command(program)?)
}

fn parsed(line: &str) -> Result<Run> {
    let words = line.strip_prefix(RUN).and_then(shlex::split);
    let words = words.ok_or_else(|| Error::new(format!("{line:?} is not {RUN}...")))?;
    Run::try_parse_from(words).or_cause(line.to_owned())
}

/// Runs a program, and returns what the page shows of what it prints.
pub(super) fn recorded(guest: &mut Vm, program: &Program) -> Result<String> {
    let (run, text) = (command(program)?, capture(guest, program, 1)?);
    // If somebody has to end the program, keep the beginning of its output, a whole round if that is short; otherwise its
    // beginning and its end. If it is to print so many lines, keep them all.
    let is_endless = run.is_endless(program);
    let is_counted = run.arguments.iter().any(|argument| argument == "--lines");
    Ok(match (is_counted, is_endless) {
        (true, _) => text,
        (false, true) => beginning(&text).ok_or_else(|| {
            let name = program.name();
            Error::new(format!("the report of {name} is about a bio that the kept lines don't have"))
                .evidence(text)
                .fix(format!("record it once more: cargo upkeep record {name}"))
        })?,
        (false, false) => shorten(&text, KEPT / 2, KEPT / 2),
    })
}

/// The recorded output of a program.
pub fn of(program: &Program) -> Result<String> {
    let file = program.folder.join("output.txt");
    fs::read_to_string(&file).map_err(|error| {
        Error::new(format!("there is no recorded output of {}", program.name()))
            .evidence(format!("{}: {error}", file.display()))
            .fix(format!("record it: cargo upkeep record {}", program.name()))
    })
}

/// The lines to keep of an endless run: from its second round on, or from its first if the report is about a bio there.
fn beginning(text: &str) -> Option<String> {
    let cut = |text| shorten(text, of_round(text), 0);
    let later = repeated(text);
    let left_out = if later.len() < text.len() { "...\n" } else { "" };
    [left_out.to_owned() + &cut(later), cut(text)].into_iter().find(|kept| has_its_slowest(kept))
}

/// Whether the slowest bio, if there is a report of it, is in the trace lines before it.
fn has_its_slowest(text: &str) -> bool {
    let (traced, rest): (Vec<_>, Vec<_>) = text.lines().partition(|line| is_trace(line));
    let ended = rest.iter().find_map(|line| line.strip_prefix("To  : ")?.split_whitespace().next_back());
    ended.is_none_or(|time| traced.iter().any(|line| line.ends_with(time)))
}

/// Whether a program has printed enough. A workload that lasts long has no pause to wait for.
fn is_enough(text: &str) -> bool {
    let kept = repeated(text);
    let is_first_round = kept.len() == text.len() && text.lines().any(is_trace);
    kept.lines().count() > if is_first_round { 10 * KEPT } else { ROUND }
}

/// How many lines to keep of a text that begins with a round.
fn of_round(text: &str) -> usize {
    let round = text[..text.len() - repeated(text).len()].lines().count();
    if (1..=ROUND).contains(&round) { round } else { KEPT }
}

/// The text from the second round of a workload on, if there is one. In the first round, each step is a first one, and
/// takes long.
fn repeated(text: &str) -> &str {
    let (mut at, mut last) = (0, None);
    for line in text.split_inclusive('\n') {
        let time = Line::parse(line).and_then(|line| line.time.parse::<f64>().ok());
        if let (Some(time), Some(last)) = (time, last)
            && time - last > PAUSE
        {
            return &text[at..];
        }
        last = time.or(last);
        at += line.len();
    }
    text
}

fn is_trace(line: &str) -> bool {
    Line::parse(line).is_some()
}

/// Shortens each long stretch of trace lines to its first and its last ones.
fn shorten(text: &str, first: usize, last: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    let mut short = Vec::new();
    for stretch in lines.chunk_by(|one, other| is_trace(one) == is_trace(other)) {
        if is_trace(stretch[0]) && stretch.len() > first + last {
            short.extend_from_slice(&stretch[..first]);
            short.push("...");
            short.extend_from_slice(&stretch[stretch.len() - last..]);
        } else {
            short.extend_from_slice(stretch);
        }
    }
    short.iter().map(|line| format!("{line}\n")).collect()
}

/// The kinds of lines in an output, without what differs from run to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The trace lines, each kind once. Which of them appear in a run depends on what else happens.
    pub traced: BTreeSet<String>,
    /// The kinds of the other lines, in the order of their first appearance.
    pub rest: Vec<String>,
}

/// The shape of a text.
pub fn shape(text: &str) -> Shape {
    let blur = |text: &str| {
        let mut shape = String::new();
        for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
            let (word, end) =
                word.split_at(word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()).len());
            let is_number = word.starts_with(|c: char| c.is_ascii_digit());
            shape += if is_number { "0" } else { word };
            shape += end;
        }
        match &*shape {
            // Which functions are on a stack depends on what was slowest.
            stack if stack.starts_with("=> ") => "=> FUNCTION".to_owned(),
            // Which disk is the first, and what a file system has to do, depends on the run.
            disk if disk.starts_with("disk = ") => "disk = DISK".to_owned(),
            kind if kind.starts_with("flags = ") => "flags = KIND".to_owned(),
            // So does a heat map's row, after its time.
            row if row == "0:0:0" || row.starts_with("0:0:0 ") => "0:0:0 *".to_owned(),
            // A histogram's rows depend on what else is going on.
            row if row.contains(" -> ") && row.ends_with('|') => "0 -> 0 : 0 |*|".to_owned(),
            // So does the list of processes that did I/O.
            process if process.starts_with("PID: ") => "PID: 0 UID: 0 CMD: NAME".to_owned(),
            // Which functions a bio passes through depends on what else it meets there.
            call if [" us ", "struct bio ", "  -- "].iter().any(|part| call.contains(part)) => {
                "CALL".to_owned()
            }
            // Who does I/O, of which file, depends on what else is going on, and a disk's number on which one was found first.
            io if io.starts_with("0.0 ") && io.matches(" 0.0").count() == 5 => {
                "0.0 TASK 0 DISK OP 0 0 0.0 0.0 0.0 0.0 0.0 FILE".to_owned()
            }
            // Which tasks start others depends on what else is going on.
            row if row.ends_with(" Hello, perf_output!") => "0 TASK 0 Hello, perf_output!".to_owned(),
            // Which functions are called depends on when the disk answers, and on what else the kernel is doing.
            row if row.contains(" |")
                && ["0", "^", "| 0"].iter().any(|begin| row.trim_start().starts_with(begin)) =>
            {
                "0 CALL | 0 CALL".to_owned()
            }
            // The width of a column depends on its numbers.
            _ => shape.split_whitespace().collect::<Vec<_>>().join(" "),
        }
    };
    // Which functions take a bio, and are called, depends on what else is going on.
    let kind = |text: String| match text.strip_suffix("(bio=0)") {
        Some(_) => "FUNCTION(bio=0)".to_owned(),
        None => text,
    };
    let trace = |line: &str| Line::parse(line).map(|line| kind(blur(line.message)));
    let mut rest: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !is_trace(line) && *line != "...").map(blur) {
        if !line.is_empty() && !rest.contains(&line) {
            rest.push(line);
        }
    }
    Shape { traced: text.lines().filter_map(trace).collect(), rest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_lines_some_are_kept() {
        let line = |nth: u32| format!("io-1 [000] ..... {nth}.000000: f() called: {nth}\n");
        let text: String = (0..9).map(line).chain(["====\n".to_owned()]).collect();
        let short = shorten(&text, 3, 3);
        let expected: String =
            [0, 1, 2].map(line).concat() + "...\n" + &[6, 7, 8].map(line).concat() + "====\n";
        assert_eq!(short, expected);
        assert_eq!(shorten(&short, 3, 3), short, "and shortening it again changes nothing");
        assert_eq!(shorten(&text, 6, 0), (0..6).map(line).collect::<String>() + "...\n====\n");
        assert_eq!(shape(&short), shape(&text));
    }

    #[test]
    fn the_first_round_of_a_workload_is_left_out() {
        let line = |time: &str| format!("io-1 [000] ..... {time}: f() called: 1\n");
        let text: String = ["1.000000", "1.020000", "2.000000", "2.020000"].map(line).concat();
        assert_eq!(repeated(&text), ["2.000000", "2.020000"].map(line).concat());
        assert_eq!(repeated(&line("1.000000")), line("1.000000"));
        assert_eq!(
            (of_round(&text), of_round(&line("1.000000")), of_round(&line("1.0").repeat(9))),
            (2, KEPT, KEPT)
        );
        assert!(!is_enough(&text) && !is_enough(&line("1.000000").repeat(60)));
        assert!(is_enough(&line("1.000000").repeat(61)) && is_enough(&(text + &line("2.030000").repeat(7))));
    }

    #[test]
    fn what_a_report_is_about_is_kept() {
        let line = |second| format!("io-1 [000] ..... {second}.000000: f() called: 7{second}\n");
        let text = |report: &str| [1, 2, 3].map(line).concat() + report;
        let [one, two, three] = ["71", "72", "73"].map(|start| text(&format!("To  : f(bio=0x1) {start}\n")));
        assert_eq!(beginning(&one), Some(line(1) + "...\nTo  : f(bio=0x1) 71\n"));
        assert_eq!(beginning(&two), Some("...\n".to_owned() + &line(2) + "...\nTo  : f(bio=0x1) 72\n"));
        assert_eq!(beginning(&three), None, "the lines of a third round are not kept");
        let other = text("Calls skipped: 0\n");
        assert_eq!(beginning(&other), Some("...\n".to_owned() + &line(2) + "...\nCalls skipped: 0\n"));
    }

    #[test]
    fn a_run_can_be_made_longer() {
        let longer = |words: &str| {
            let mut words: Vec<_> = words.split(' ').map(str::to_owned).collect();
            lengthen(&mut words, 4);
            words.join(" ")
        };
        assert_eq!(longer("--lines 40 --duration 1.5"), "--lines 40 --duration 6");
        assert_eq!(longer("-F -D -e 2 1"), "-F -D -e 8 1");
        assert_eq!(longer("--rows 4"), "--rows 4");
    }

    #[test]
    fn how_many_processes_did_io_is_no_part_of_a_shape() {
        let table = |pid| format!("PID: {pid} UID: 0 CMD: p{pid}\nkbytes : count\n 4 -> 7 : {pid} |**|\n");
        let text = |tables: &[String]| format!("1:02\n\n{}", tables.join("\n"));
        assert_eq!(shape(&text(&[table(7)])), shape(&text(&[table(8), table(10)])));
        assert_ne!(shape(&text(&[])), shape(&text(&[table(7)])));
    }

    #[test]
    fn who_does_io_is_no_part_of_a_shape() {
        let line = |task, disk| {
            format!("2.970259   {task}  146 {disk}  write  229398  1  1.19  0.68  0.14  0.35  0.02  -\n")
        };
        let [one, other] =
            [("jbd2/nvme0n1-8", "nvme0n1"), ("io", "nvme2n1")].map(|(task, disk)| line(task, disk));
        assert_eq!(shape(&one), shape(&other));
        assert_ne!(shape(&one), shape(&other.replace("  0.02", "")), "a column is missing");
    }

    #[test]
    fn which_functions_are_called_is_no_part_of_a_shape() {
        let text = |rows: &str| format!("First read | Second read\n{rows}");
        let one = text("  12.5  vfs_read       |   1.0  vfs_read\n   2.0    submit_bio   |\n");
        let other = text(
            "   1.5  vfs_read       |   1.0  vfs_read\n        ^ looks         |\n         | 3.5  touch\n",
        );
        assert_eq!(shape(&one).rest, ["First read | Second read", "0 CALL | 0 CALL"]);
        assert_eq!(shape(&one), shape(&other));
    }

    #[test]
    fn a_shape_has_words_and_no_numbers() {
        let text = "io-1 [000] ..... 1.000000: submit_bio(bio=0xff12) called: 12\n=> a()\n=> b()\n\
                    [Total 4 Hit 0 miss 4]\n   4 -> 7     : 12   |*****|\n   8 -> 15    : 1    |     |\n";
        let Shape { traced, rest } = shape(text);
        assert_eq!(traced.into_iter().collect::<Vec<_>>(), ["submit_bio(bio=0) called: 0"]);
        assert_eq!(rest, ["=> FUNCTION", "[Total 0 Hit 0 miss 0]", "0 -> 0 : 0 |*|"]);
    }
}
