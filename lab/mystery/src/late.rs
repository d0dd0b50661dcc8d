//! Writes take long, and the disk is quick and idle. Either a process keeps the CPU, so the one whose write has ended runs
//! late, or a cgroup's limit holds the writes back.
//!
//! On both, a write is as long as the other, so `iostat` prints the same, and somebody has most of one CPU's time.

use std::fmt::Display;
use std::fs;
use std::process::Command;
use std::time::Duration;

use common::{Error, OrCause, Result};
use fastrand::Rng;
use guest::null_blk::disk;
use guest::system::Cgroup;
use nix::errno::Errno;
use nix::libc;
use wire::command::output;

use crate::job::{Access, Job, Stream};
use crate::parts::{DISKS, GROUPS, JOBS, shuffled, truth};
use crate::story::{Kept, Parts, SAVE, Story, Twin};

/// How many threads write.
const THREADS: u64 = 2;

pub fn make(seed: &mut Rng, twin: Twin) -> Result<Parts> {
    let [name, ..] = shuffled(seed, DISKS);
    let [patient, busy, ..] = shuffled(seed, JOBS);
    let [group, other_group, ..] = shuffled(seed, GROUPS);
    let rest = Duration::from_millis(seed.u64(20..=24));
    // A write takes longer than a rest, so each thread gets through one in the time of a rest and a computation.
    let time = rest + Duration::from_millis(4);
    // How many writes per second all threads get through.
    let rate = seed.u64(12..=13);
    let between = Duration::from_millis(1000 * THREADS / rate);
    let busy_for = between - rest;
    let share = 100.0 * busy_for.as_secs_f64() / between.as_secs_f64();

    let disk = disk(name, time, &[], &[("scheduler", "none")])?;
    let groups = [Cgroup::new(group)?, Cgroup::new(other_group)?];
    let number = fs::read_to_string(format!("/sys/block/{name}/dev")).or_cause("a disk has no number")?;
    let limit = |rate: &str| format!("{} wiops={rate}", number.trim());
    // In the one case, there is a limit, but it is never reached. In the other, the kernel keeps to a limit of a few I/Os
    // so coarsely that about half of them come through.
    let rate = rate * 3 / 2;
    let reached = rate.to_string();
    groups[0].set("io.max", &limit(if twin == Twin::One { "1000" } else { &reached }))?;

    let write = Stream::writes(&disk.device);
    let compute = |time| Stream { access: Access::Compute(time), pause: rest, ..write.clone() };
    let mut jobs =
        vec![Job::start(patient, Some(&groups[0].folder))?, Job::start(busy, Some(&groups[1].folder))?];
    if twin == Twin::One {
        // The lowest of the real-time priorities is above all others. In the other case, nobody may wait for this CPU: on
        // 6.1, the kernel hands some requests to the disk in a thread of either CPU.
        first_come(jobs[1].pid())?;
    }
    pin(jobs[0].pid(), if twin == Twin::One { 1 } else { 0 })?;
    pin(jobs[1].pid(), 1)?;
    jobs[0].order(&vec![Stream { round: SAVE.into(), ..write.clone() }; THREADS as usize])?;
    jobs[1].order(&[compute(busy_for)])?;

    let wait = (between - time).as_millis() as f64;
    let truth = match twin {
        Twin::One => truth("busy-cpu", &[busy.to_owned(), jobs[1].pid().to_string()], share - 15.0..=99.0)?,
        Twin::Other => truth("throttled", &[group.to_owned()], wait * 0.7..=wait * 1.9)?,
    };
    let (ms, all_ms) = (time.as_millis(), between.as_millis());
    let tens = 10.0 * (share / 10.0).round();
    let pid = format!("$(pidof {patient})");
    let values: &[(&str, &dyn Display)] = &[
        ("patient", &patient),
        ("busy", &busy),
        ("name", &name),
        ("group", &group),
        ("rate", &rate),
        ("ms", &ms),
        ("all_ms", &all_ms),
        ("pid", &pid),
        ("tens", &tens),
    ];
    let story = Story::new(include_str!("late.toml"), time * SAVE, truth, values)?;
    let limits = groups[0].folder.join("io.max");
    let no_limit = limit("max");
    let calm = Stream { pause: busy_for * 10, ..compute(busy_for) };
    let fix = move |jobs: &mut [Job]| -> Result<Kept> {
        match twin {
            Twin::One => jobs[1].order(&[calm])?,
            Twin::Other => guest::system::write(&limits, &no_limit)?,
        }
        Ok(Box::new(()))
    };
    Ok(Parts { story, jobs, stream: 0, fix: Box::new(fix), world: Box::new((disk, groups)) })
}

/// Lets a process run only on this CPU.
fn pin(pid: u32, cpu: u32) -> Result<()> {
    output(Command::new("taskset").args(["-p", &format!("{:x}", 1 << cpu), &pid.to_string()])).map(drop)
}

/// Gives a process a real-time priority: it keeps the CPU until it rests.
fn first_come(pid: u32) -> Result<()> {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel reads `priority`, and no other memory.
    #[allow(unsafe_code)]
    let done = unsafe { libc::sched_setscheduler(pid as i32, libc::SCHED_FIFO, &raw const priority) };
    Errno::result(done).map(drop).map_err(|error| Error::new("cannot set a priority").evidence(error))
}
