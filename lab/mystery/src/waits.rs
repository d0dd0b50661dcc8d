//! An I/O waits long, and the disk is quick. Either a limit holds it back, of the cgroup above the one that the process is
//! in, or the disk takes one request at a time and another process is always there first.
//!
//! The process uses libaio, so it sleeps in io_getevents(2), in state S, while its I/O is in flight or held back. For a
//! place in the queue, it waits in io_submit(2).
//!
//! On both, the wait comes before there is a request, so `iostat` does not see it; and the disk is always busy.

use std::fmt::Display;
use std::fs;
use std::time::Duration;

use common::{OrCause, Result};
use fastrand::Rng;
use guest::null_blk::disk;
use guest::system::Cgroup;

use crate::job::{Job, Stream};
use crate::parts::{DISKS, GROUPS, JOBS, job, shuffled, truth};
use crate::story::{Kept, Parts, SAVE, Story, Twin};

pub fn make(seed: &mut Rng, twin: Twin) -> Result<Parts> {
    let [name, ..] = shuffled(seed, DISKS);
    let [patient, neighbor, ..] = shuffled(seed, JOBS);
    let groups = shuffled(seed, GROUPS);
    // How many I/Os per second the patient gets through.
    let rate = seed.u64(3..=5);
    let crowd = seed.u64(5..=7);
    let between = Duration::from_millis(1000 / rate);
    let time = between / (crowd as u32 + 2);
    // Between two saves.
    let pause = time;
    // The kernel counts a limit in slices of time, and begins a new one if nothing waits. Then the wait is as long as if
    // there had been no pause.
    let waits = (between - pause - time).as_millis() as f64..=between.as_millis() as f64;

    let depth = if twin == Twin::One { 64 } else { 1 };
    let disk = disk(name, time, &[("hw_queue_depth", depth)], &[("scheduler", "none")])?;
    let [group, other_group] = [Cgroup::new(groups[0])?, Cgroup::new(groups[1])?];
    let [app, other_app] = [group.child()?, other_group.child()?];
    let number = fs::read_to_string(format!("/sys/block/{name}/dev")).or_cause("a disk has no number")?;
    let limit = |writes: u64| format!("{} wiops={writes}", number.trim());
    // All have a limit in both cases. Only the one above the throttled process is reached.
    let spare = 10 * rate;
    group.set("io.max", &limit(if twin == Twin::One { rate } else { spare }))?;
    for generous in [&app, &other_group, &other_app] {
        generous.set("io.max", &limit(1000))?;
    }

    let write = Stream::writes(&disk.device);
    // Without a rest, the thread whose write has just ended would be the next again, before those that wait.
    let rest = Duration::from_millis(5);
    let crowded = Stream { pause: rest, ..write.clone() };
    let streams = if twin == Twin::One { 1 } else { crowd as usize };
    let jobs = vec![
        job(patient, Some(&app), &[Stream { depth: 1, round: SAVE.into(), rest, pause, ..write.clone() }])?,
        job(neighbor, Some(&other_app), &vec![crowded; streams])?,
    ];

    let share = 100.0 * (crowd + 1) as f64 / (crowd + 2) as f64;
    let truth = match twin {
        Twin::One => truth("throttled", &[groups[0].to_owned()], waits.start() * 0.7..=waits.end() * 1.8)?,
        Twin::Other => {
            let places = [neighbor.to_owned(), jobs[1].pid().to_string()];
            truth("busy-neighbor", &places, share - 15.0..=99.0)?
        }
    };
    let ms = time.as_millis();
    let values: &[(&str, &dyn Display)] = &[
        ("patient", &patient),
        ("neighbor", &neighbor),
        ("name", &name),
        ("rate", &rate),
        ("spare", &spare),
        ("ms", &ms),
        ("group", &groups[0]),
    ];
    let story = Story::new(include_str!("waits.toml"), time * SAVE, truth, values)?;
    let limits = group.folder.join("io.max");
    let no_limit = format!("{} wiops=max", number.trim());
    let calm = Stream { round: 1, pause: Duration::from_millis(500), ..write };
    let fix = move |jobs: &mut [Job]| -> Result<Kept> {
        match twin {
            Twin::One => guest::system::write(&limits, &no_limit)?,
            Twin::Other => jobs[1].order(&[calm])?,
        }
        Ok(Box::new(()))
    };
    Ok(Parts {
        story,
        jobs,
        stream: 0,
        fix: Box::new(fix),
        world: Box::new((disk, app, other_app, group, other_group)),
    })
}
