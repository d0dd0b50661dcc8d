//! Runs a stage or an example briefly, and checks its output against the truth.

use common::report::print_text;
use common::{Error, Result};
use nix::sys::signal::Signal;
use wire::disks::FS_MOUNT;

use crate::running::{Observation, Running, io};
use crate::truth;
use crate::verdict::Checked;

/// How many lines of a program's output to show.
const SHOWN: usize = 6;

/// In the guest: runs a stage or an example beside direct writes or reads, and prints some of its lines and the
/// verdict.
///
/// # Errors
/// If it fails, or prints something untrue.
pub fn run(name: &str) -> Result<()> {
    let (seen, verdict) = match name.parse() {
        Ok(stage) => verdict(stage, &format!("stage{stage:02}"))?,
        Err(_) if name == "ctracer" => lives(name)?,
        Err(_) => histogram(name)?,
    };
    for line in seen.stdout.lines().take(SHOWN) {
        print_text(format_args!("  {line}"))?;
    }
    let more = seen.stdout.lines().count().saturating_sub(SHOWN);
    if more > 0 {
        print_text(format_args!("  ... and {more} more lines"))?;
    }
    print_text(format_args!("  TRUE: {verdict}."))?;
    Ok(())
}

/// The output of an example that counts the I/O of all disks in a histogram, and the verdict.
fn histogram(binary: &str) -> Result<(Observation, String)> {
    // What is still to be written could be written after the example has stopped counting.
    nix::unistd::sync();
    let running = Running::start(&[binary])?;
    let before = truth::disk_reads_and_writes()?;
    for (size, count) in [("4096", "32"), ("65536", "8")] {
        io(&["write", "/dev/scratch", "--size", size, "--count", count])?;
    }
    let seen = running.end(Signal::SIGINT)?;
    let after = truth::disk_reads_and_writes()?;
    let (shown, done) = (truth::histogram(&seen.stdout).count(), after.0 - before.0 + after.1 - before.1);
    if shown != done || done < 40 {
        return Err(Error::new(format!("{binary} counts {shown} I/Os, and the disks {done}"))
            .evidence(format!("{}{}", seen.stdout, seen.stderr)));
    }
    Ok((seen, format!("{shown} I/Os are in the histogram, and the disks count {done}")))
}

/// The output of ctracer, and the verdict.
fn lives(binary: &str) -> Result<(Observation, String)> {
    nix::unistd::sync();
    let running = Running::start(&[binary])?;
    let done = io(&["write", "/dev/scratch", "--count", "4"])?;
    let seen = running.end(Signal::SIGINT)?;
    let verdict = truth::of_lives(&seen, &done)?;
    Ok((seen, verdict))
}

/// In the guest: the output of a program that should do what a stage does, and the verdict as a sentence.
///
/// # Errors
/// If it fails, or prints something untrue.
pub fn verdict(stage: u32, binary: &str) -> Checked<(Observation, String)> {
    let file = format!("{FS_MOUNT}/demo");
    let kind = if [8, 9].contains(&stage) { "read-cold" } else { "write" };
    let work = [kind, &file, "--count", "4"];
    // Once unobserved, which creates the file and leaves nothing to be written later.
    io(&work)?;
    nix::unistd::sync();
    let (seen, done, ios) = if stage == 9 {
        // The stage starts the work itself, and ends with it.
        let seen = Running::start(&[&[binary, "--", "io"][..], &work].concat())?.wait()?;
        let done = seen.stdout.lines().find(|line| line.starts_with("io ")).unwrap_or_default().parse()?;
        (seen, done, 0)
    } else {
        let running = Running::start(&[binary])?;
        let before = truth::disk_ios()?;
        let done = io(&work)?;
        let seen = running.end(Signal::SIGINT)?;
        (seen, done, truth::disk_ios()? - before)
    };
    let verdict = match stage {
        10 => truth::of_functions(&seen, &done),
        7 if ios >= done.count => truth::of_requests(&seen, ios),
        7 => Err(Error::new(format!("the disks count {ios} I/Os, but io did {}", done.count)).into()),
        8 | 9 => truth::of_reads(&seen, &done),
        1..=6 => truth::of_direct_writes(stage, &seen, &done),
        _ => Err(Error::new(format!("nothing says what stage {stage:02} should print"))
            .fix("add it to lab/guest/src/demo.rs and truth.rs")
            .into()),
    }?;
    Ok((seen, verdict))
}
