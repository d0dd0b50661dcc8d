//! `cargo lab demo`: every stage for a moment, with the verdict of a truth check.

use std::process::ExitCode;
use std::time::Duration;

use common::{Error, Result};
use nix::sys::signal::Signal;

use crate::guest::FS_MOUNT;
use crate::observe::{Observation, Stage as Running, io};
use crate::truth;
use crate::vm::Guest;
use crate::workbook::Stage;

/// Lines of each stage's output to show.
const SHOWN: usize = 6;

/// On the host: runs every stage's demo in the guest and prints it. Fails if a verdict is bad.
///
/// # Errors
/// If the guest can't run one.
pub fn run(guest: &mut Guest, stages: &[&Stage]) -> Result<ExitCode> {
    let mut bad = 0;
    for stage in stages {
        println!("\nStage {:02}: {}", stage.number, stage.title);
        let seen = guest.output(&["guest", "demo", &stage.number.to_string()], Duration::from_secs(60))?;
        print!("{}", String::from_utf8_lossy(&seen.stdout));
        if seen.status != 0 {
            eprint!("{}", seen.stderr);
            bad += 1;
        }
    }
    if bad > 0 {
        return Err(Error::new(format!("{bad} of {} stages did not tell the truth", stages.len())));
    }
    println!("\nTo run one yourself: cargo lab run 01");
    Ok(ExitCode::SUCCESS)
}

/// In the guest: one stage beside direct writes to a file on ext4, or reads of it, some of its lines, and the verdict.
///
/// # Errors
/// If the stage fails or does not tell the truth.
pub fn one(stage: u32) -> Result<()> {
    let (seen, verdict) = verdict(stage, &format!("stage{stage:02}"))?;
    for line in seen.stdout.lines().take(SHOWN) {
        println!("  {line}");
    }
    let more = seen.stdout.lines().count().saturating_sub(SHOWN);
    if more > 0 {
        println!("  ... and {more} more lines");
    }
    println!("  TRUE: {verdict}.");
    Ok(())
}

/// In the guest: what a program printed that is to do what a stage does, and the verdict as a sentence.
///
/// # Errors
/// If it fails or does not tell the truth.
pub fn verdict(stage: u32, binary: &str) -> Result<(Observation, String)> {
    let file = format!("{FS_MOUNT}/demo");
    let kind = if [8, 9].contains(&stage) { "read-cold" } else { "write" };
    let work = [kind, &file, "--count", "4"];
    // Once without being watched, which makes the file. Nothing is left to be written later.
    io(&work)?;
    nix::unistd::sync();
    let (seen, done, ios) = if stage == 9 {
        // It starts the work itself, and ends with it.
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
        10 => truth::of_lives(&seen, &done),
        7 if ios >= done.count => truth::of_requests(&seen, ios),
        7 => Err(Error::new(format!("the disks count {ios} I/Os, but io did {}", done.count))),
        8 | 9 => truth::of_reads(&seen, &done),
        _ => truth::of_direct_writes(stage, &seen, &done),
    }?;
    Ok((seen, verdict))
}
