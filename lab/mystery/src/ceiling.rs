//! A disk completes the same number of I/Os in each second, and many wait for it. Either it could do more, and has a limit
//! like a cloud's disk, or it does what it can, and a process asks for too many at a time.
//!
//! On both, as many are in flight and as many end in a second, so `iostat` prints the same. But a disk with a limit saves up
//! while it rests.

use std::fmt::Display;
use std::time::Duration;

use common::Result;
use fastrand::Rng;
use guest::system::{queue, write};

use crate::job::{Job, Stream};
use crate::parts::{JOBS, job, shuffled, truth};
use crate::served_disk::{ServedDisk, names};
use crate::story::{Kept, Parts, Story, Twin};

/// How many times as long a save takes as usual.
const TIMES: u32 = 5;
/// For how many I/Os a disk with a limit saves up.
const BURST: u32 = 25;

pub fn make(seed: &mut Rng, twin: Twin) -> Result<Parts> {
    let name = seed.choice(names()).unwrap_or_default();
    let [patient, other, ..] = shuffled(seed, JOBS);
    let quick = Duration::from_millis(seed.u64(11..=13));
    let slow = quick * TIMES;
    let depth = seed.u32(8..=11);
    // How many I/Os a save usually has, if the disk does what it can.
    let few = 10 / TIMES;

    let disk = ServedDisk::new(&name, 64)?;
    write(&queue(&disk.device.to_string_lossy(), "scheduler")?, "none")?;
    let time = if twin == Twin::One { quick } else { slow };
    disk.times.set(time, time);

    let saves = |depth: u32| Stream { depth, round: depth.into(), ..Stream::writes(&disk.device) };
    let rare = Stream { pause: Duration::from_secs(1), ..Stream::writes(&disk.device) };
    let jobs = vec![job(patient, None, &[saves(depth)])?, job(other, None, &[rare])?];

    if twin == Twin::One {
        // Meanwhile, nothing has been saved up.
        jobs[0].first(0)?;
        disk.times.limit(slow, BURST);
    }

    let rate = 1.0 / slow.as_secs_f64();
    let truth = match twin {
        Twin::One => truth("disk-limit", std::slice::from_ref(&name), rate * 0.85..=rate * 1.15)?,
        Twin::Other => {
            let places = [patient.to_owned(), jobs[0].pid().to_string()];
            truth("too-much-load", &places, f64::from(depth) * 0.8..=f64::from(depth) * 1.2)?
        }
    };
    let await_ms = (slow * depth).as_millis();
    let promised_ms = (slow + Duration::from_millis(10)).as_millis();
    let values: &[(&str, &dyn Display)] = &[
        ("patient", &patient),
        ("name", &name),
        ("rate", &format!("{rate:.0}")),
        ("depth", &depth),
        ("few", &few),
        ("burst", &BURST),
        ("quick_ms", &quick.as_millis()),
        ("slow_ms", &slow.as_millis()),
        ("await_ms", &await_ms),
        ("promised_ms", &promised_ms),
    ];
    let story = Story::new(include_str!("ceiling.toml"), slow * few, truth, values)?;
    let times = disk.times.clone();
    let calm = saves(few);
    let fix = move |jobs: &mut [Job]| -> Result<Kept> {
        match twin {
            Twin::One => times.limit(Duration::ZERO, 0),
            Twin::Other => jobs[0].order(&[calm])?,
        }
        Ok(Box::new(()))
    };
    Ok(Parts { story, jobs, stream: 0, fix: Box::new(fix), world: Box::new(disk) })
}
