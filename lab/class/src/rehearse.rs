//! `cargo class rehearse`: walks through a plan as a class does, and compares the plan with the time that it takes here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use common::report::print_text;
use common::{Error, OrCause, Result};
use lab::exercise::{self, Exercise};
use machine::host::interrupt;
use machine::host::tools::output;
use machine::workbook::{Workbook, copies};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use wire::command::{ATTACHED, lines};

use crate::plan::{self, Plan, Slot};

/// How long a class watches a program that doesn't end by itself.
const WATCHED: Duration = Duration::from_secs(10);

/// How long each command took, in seconds.
pub type Times = BTreeMap<String, f64>;

/// Rehearses plans, and prints a table of each. Returns a failure if a command failed or a slot is too short.
///
/// # Errors
/// If the lab does not compile, or a command can't be started.
pub fn run(workbook: &Workbook, plans: &[Plan], record: bool) -> Result<ExitCode> {
    output(workbook.cargo_build().args(["--quiet", "--package", "lab"]))?;
    let mut bad = 0;
    let mut times = Times::new();
    for plan in plans {
        print_text(format_args!("{}", head(plan)))?;
        for slot in &plan.slots {
            let outcome = rehearse(workbook, slot, &mut times);
            interrupt::check()?;
            let (line, is_good) = judge(slot, &outcome);
            print_text(line)?;
            bad += u32::from(!is_good);
        }
    }
    if record {
        plan::remember(workbook, &times)?;
    }
    if bad > 0 {
        return Err(Error::new(format!("{bad} slots failed or are too short"))
            .evidence("the rows of the table that say so")
            .fix("change docs/plans/plans.json; or use a faster laptop, or one on which nothing else runs"));
    }
    Ok(ExitCode::SUCCESS)
}

fn head(plan: &Plan) -> String {
    format!(
        "\nThe plan of {} minutes. The last columns are minutes and seconds.\n{:>5} {:>4}  {:<11}{:<42}{:>8}{:>8}{:>8}",
        plan.minutes, "at", "min", "", "", "machine", "words", "left"
    )
}

/// A slot's row, and whether it went as planned. Words are what somebody says or reads, and what is left is for
/// questions, for thinking and for typing.
fn judge(slot: &Slot, outcome: &Result<f64>) -> (String, bool) {
    let Slot { kind, at, minutes, name, title, .. } = slot;
    let kind = format!("{kind:?}").to_lowercase();
    let is_number = name.starts_with(|letter: char| letter.is_ascii_digit());
    let what = if is_number { format!("{name} {title}") } else { title.clone() };
    let what: String = what.chars().take(40).collect();
    let begin = format!("{:>2}:{:02} {minutes:>4}  {kind:<11}{what:<42}", at / 60, at % 60);
    let seconds = match outcome {
        Ok(seconds) => *seconds,
        Err(error) => return (format!("{begin}  FAILED\n{error}"), false),
    };
    let left = f64::from(*minutes) * 60.0 - slot.needs(seconds);
    let row = format!("{begin}{:>8}{:>8}{:>8}", clock(seconds), clock(slot.words()), clock(left));
    if left < 0.0 { (format!("{row}  TOO SHORT"), false) } else { (row, true) }
}

fn clock(seconds: f64) -> String {
    let whole = seconds.abs().round() as u64;
    let sign = if seconds < 0.0 { "-" } else { "" };
    format!("{sign}{}:{:02}", whole / 60, whole % 60)
}

/// Runs the commands of a slot, and returns how many seconds they took. Those of an earlier slot are not run again.
fn rehearse(workbook: &Workbook, slot: &Slot, times: &mut Times) -> Result<f64> {
    if slot.commands.iter().any(|command| !times.contains_key(command)) {
        if slot.is_of_stage() {
            solve(workbook, &exercise::find(workbook, &slot.name)?, times)?;
        } else {
            for command in &slot.commands {
                let (status, seconds, said) = execute(workbook, command)?;
                if status != Some(0) {
                    return Err(Error::new(format!("{command} failed")).evidence(said));
                }
                times.insert(command.clone(), seconds);
            }
        }
    }
    let time = |command: &String| times.get(command).copied().unwrap_or_default() * slot.times_typed(command);
    Ok(slot.commands.iter().map(time).sum())
}

/// Starts an exercise, checks it, solves it, and checks it again.
fn solve(workbook: &Workbook, exercise: &Exercise<'_>, times: &mut Times) -> Result<()> {
    let id = exercise.id();
    let [start, check] = ["start", "check"].map(|what| format!("cargo lab exercise {what} {id}"));
    let _ = fs::remove_dir_all(mine(workbook).join(&id));
    let (status, seconds, said) = execute(workbook, &start)?;
    if status != Some(0) {
        return Err(Error::new(format!("{start} failed")).evidence(said));
    }
    times.insert(start, seconds);
    let (status, first, said) = execute(workbook, &check)?;
    if status == Some(0) || !said.contains(&format!("{id} is not right yet")) {
        return Err(
            Error::new(format!("the starting point of {id} does not fail as it should")).evidence(said)
        );
    }
    copies::write(&mine(workbook).join(&id), &exercise.solved(&exercise.binary())?)?;
    let (status, second, said) = execute(workbook, &check)?;
    if status != Some(0) {
        return Err(Error::new(format!("our solution of {id} does not pass")).evidence(said));
    }
    times.insert(check, (first + second) / 2.0);
    Ok(())
}

/// Where the working copies of a rehearsal are, away from the instructor's own.
fn mine(workbook: &Workbook) -> PathBuf {
    workbook.target.join("rehearsal")
}

/// Runs a command as it is typed, with this lab as `cargo lab`. Returns its exit status, how many seconds it took, and
/// what it printed to stderr. A program that traces and has no limit gets a Ctrl-C after a while.
fn execute(workbook: &Workbook, command: &str) -> Result<(Option<i32>, f64, String)> {
    let words = shlex::split(command).unwrap_or_default();
    let mut process = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["cargo", "lab", ref arguments @ ..] => {
            let mut lab = Command::new(workbook.binaries().join("lab"));
            // Files that a program makes are not for the folder in which somebody rehearses.
            lab.args(arguments).current_dir(folder(&mine(workbook))?);
            lab
        }
        ["make", ref arguments @ ..] => {
            let mut make = Command::new("make");
            make.args(arguments).current_dir(&workbook.root);
            make
        }
        _ => {
            return Err(Error::new(format!("{command:?} can't be rehearsed"))
                .evidence("it is neither cargo lab nor make"));
        }
    };
    let ends =
        ["--lines", "--duration", "--max-events"].iter().any(|limit| words.iter().any(|word| word == limit));
    process.env("LAB_MINE", mine(workbook)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let begin = Instant::now();
    let mut child = process.spawn().or_cause(format!("cannot start {command}"))?;
    let pid = Pid::from_raw(child.id() as i32);
    let (running, timer) = mpsc::channel::<()>();
    let mut timer = (!ends).then_some(timer);
    let mut said = String::new();
    for line in lines(child.stderr.take()) {
        if line.starts_with(ATTACHED)
            && let Some(timer) = timer.take()
        {
            thread::spawn(move || {
                if timer.recv_timeout(WATCHED) == Err(mpsc::RecvTimeoutError::Timeout) {
                    let _ = kill(pid, Signal::SIGINT);
                }
            });
        }
        said += &line;
        said.push('\n');
    }
    drop(running);
    let status = child.wait().or_cause(format!("cannot wait for {command}"))?;
    Ok((status.code(), begin.elapsed().as_secs_f64(), said))
}

fn folder(path: &Path) -> Result<&Path> {
    fs::create_dir_all(path).or_cause(format!("cannot make {}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Kind;

    fn slot(kind: Kind, minutes: u32, words: usize) -> Slot {
        Slot {
            name: "03".to_owned(),
            kind,
            at: 66,
            minutes,
            title: "How long does a bio take?".to_owned(),
            text: vec![plan::Section { link: String::new(), title: String::new(), words }],
            commands: Vec::new(),
            next: None,
            passed: None,
            skip: Vec::new(),
            machine: None,
        }
    }

    #[test]
    fn a_slot_that_is_too_short_or_fails_is_bad() {
        // 230 words are two minutes.
        let run = slot(Kind::Run, 3, 230);
        let (row, is_good) = judge(&run, &Ok(59.0));
        assert!(is_good && row.starts_with(" 1:06    3  run        03 How long"), "{row}");
        assert!(row.ends_with("    0:59    2:00    0:01"), "{row}");
        let (row, is_good) = judge(&run, &Ok(61.0));
        assert!(!is_good && row.ends_with("   -0:01  TOO SHORT"), "{row}");
        let (row, is_good) = judge(&run, &Err(Error::new("it broke")));
        assert!(!is_good && row.ends_with("FAILED\nit broke"), "{row}");
        // An exercise takes ten minutes, however fast the machine is.
        assert!(
            judge(&slot(Kind::Exercise, 10, 0), &Ok(1.0)).1
                && !judge(&slot(Kind::Exercise, 9, 0), &Ok(1.0)).1
        );
    }

    #[test]
    fn a_command_is_run_as_it_is_typed() {
        let workbook = Workbook::read().unwrap();
        let refused = execute(&workbook, "rm -rf mine").unwrap_err().to_string();
        assert!(refused.contains("can't be rehearsed"), "{refused}");
        let (status, ..) = execute(&workbook, "make no-such-target").unwrap();
        assert_eq!(status, Some(2));
    }
}
