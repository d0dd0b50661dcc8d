//! The disk gets many small requests where it got few large ones. Either a process asks for small pieces, or it asks for
//! large ones and the kernel cuts them.
//!
//! The disk takes one request at a time, so one after the other and all at once look the same to `iostat`: they take as
//! long, and there is always one.

use std::fmt::Display;
use std::time::Duration;

use common::Result;
use fastrand::Rng;
use guest::null_blk::disk;
use guest::system::{queue, write};

use crate::job::{Job, Stream};
use crate::parts::{DISKS, JOBS, job, shuffled, truth};
use crate::story::{Kept, Parts, Story, Twin};

pub fn make(seed: &mut Rng, twin: Twin) -> Result<Parts> {
    let names = shuffled(seed, DISKS);
    let [patient, other, ..] = shuffled(seed, JOBS);
    let time = Duration::from_millis(seed.u64(12..=18));
    let pieces = [16, 24, 32][seed.usize(..3)];
    let piece = [4, 8][seed.usize(..2)];
    let save = pieces * piece;

    // On one of the disks, the largest request is small. Nobody writes much to the other.
    let limit = piece.to_string();
    let limits = if twin == Twin::One { ["1280", &*limit] } else { [&*limit, "1280"] };
    let make = |nth: usize| {
        let files = [("scheduler", "none"), ("max_sectors_kb", limits[nth])];
        disk(names[nth], time, &[("hw_queue_depth", 1), ("max_sectors", 2560)], &files)
    };
    let disks = [make(0)?, make(1)?];

    let large =
        Stream { depth: 1, size: save * 1024, blocks: 64, random: false, ..Stream::writes(&disks[0].device) };
    let small = Stream { size: piece * 1024, blocks: 64 * pieces, round: pieces, ..large.clone() };
    let rare = Stream {
        target: disks[1].device.clone(),
        depth: 0,
        size: 4096,
        pause: Duration::from_millis(500),
        ..large.clone()
    };
    let saves = if twin == Twin::One { small } else { large.clone() };
    let jobs = vec![job(patient, None, &[saves])?, job(other, None, &[rare])?];

    let name = names[0];
    let truth = match twin {
        Twin::One => truth(
            "small-io",
            &[patient.to_owned(), jobs[0].pid().to_string()],
            piece as f64 * 0.9..=piece as f64 * 1.2,
        )?,
        Twin::Other => truth("split-io", &[name.to_owned()], pieces as f64 * 0.75..=pieces as f64 * 1.3)?,
    };
    let values: &[(&str, &dyn Display)] =
        &[("patient", &patient), ("name", &name), ("piece", &piece), ("pieces", &pieces), ("save", &save)];
    let story = Story::new(include_str!("pieces.toml"), time, truth, values)?;
    let limit = queue(&disks[0].device.to_string_lossy(), "max_sectors_kb")?;
    let fix = move |jobs: &mut [Job]| -> Result<Kept> {
        match twin {
            Twin::One => jobs[0].order(&[large])?,
            Twin::Other => write(&limit, "1280")?,
        }
        Ok(Box::new(()))
    };
    Ok(Parts { story, jobs, stream: 0, fix: Box::new(fix), world: Box::new(disks) })
}
