//! The disk gets many small requests where it got few large ones. Either a process asks for small pieces, or it asks for
//! large ones and the kernel cuts them.
//!
//! The disk takes one request at a time, so one after the other and all at once look the same to `iostat`: they take as
//! long, and there is always one.

use std::time::Duration;

use common::Result;
use fastrand::Rng;
use guest::system::queue;

use crate::job::{Job, Stream};
use crate::parts::{DISKS, JOBS, disk, job, shuffled, truth, write};
use crate::story::{Kept, Parts, Step, Story, Twin};

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
    let story = Story {
        complaint: format!(
            "\"Since last night's update, `{patient}` needs many times as long for a save to {name}. iostat shows that \
             {name} is as fast as ever, but it gets far more writes than before, and small ones. The update was of \
             everything: the kernel, its settings, and `{patient}`.\""
        ),
        what: format!("A save of `{patient}`, {save} KiB"),
        usual: time,
        truth,
        hints: [
            "Who makes the pieces: the process that asks, or the kernel below it?".to_owned(),
            "A bio is what the process asks for, and a request is what the disk gets. Which of our tools shows the sizes \
             of bios, and which those of requests?"
                .to_owned(),
            format!(
                "Compare bitesize 4 1, the bios of `{patient}`, with bitehist 4 1, the requests. If both are small, the \
                 process asks for pieces. If not, count how many requests a bio becomes."
            ),
        ],
        way: vec![
            Step {
                why: "How large are the requests, and each process's bios in the same seconds?",
                command: "bitesize 4 1 > /tmp/bios & echo Requests:; bitehist 4 1; wait; echo Bios:; cat /tmp/bios".to_owned(),
            },
            Step {
                why: "How many KiB does a write request have, on average?",
                command: format!("awk '{{ print $7 / 2 / $5 }}' /sys/block/{name}/stat"),
            },
            Step {
                why: "What is the largest request that each disk takes, in KiB, and may it merge bios (0)?",
                command: "grep . /sys/block/vd*/queue/max_sectors_kb /sys/block/vd*/queue/nomerges".to_owned(),
            },
        ],
        decided: match twin {
            Twin::One => format!(
                "Questions 1 and 3 decided: the bios of `{patient}` are as small as the requests, {piece} KiB, so the kernel \
                 cuts nothing. And {name} would take 1280 KiB at once and merge (nomerges is 0), but `{patient}` waits for \
                 each write before it makes the next one."
            ),
            Twin::Other => format!(
                "Questions 1 and 3 decided: the bios of `{patient}` are in the row with {save} KiB, and the requests in \
                 that with {piece} KiB. \
                 Each bio becomes {pieces} requests, because {name} takes no larger ones: its max_sectors_kb is {piece}."
            ),
        },
        tempting: match twin {
            Twin::One => format!(
                "The tempting answer is split-io, because one disk has a small max_sectors_kb. But it is not {name}, and \
                 bitesize would show bios of {save} KiB."
            ),
            Twin::Other => format!(
                "The tempting answer is small-io, because iostat shows {piece} KiB. If it were right, bitesize would show bios \
                 of {piece} KiB, too."
            ),
        },
        cure: match twin {
            Twin::One => format!(
                "In real life: let `{patient}` write larger blocks, or through the page cache, which collects small writes."
            ),
            Twin::Other => format!(
                "In real life: echo 1280 > /sys/block/{name}/queue/max_sectors_kb, and look for the udev rule or the tuning \
                 profile that made it {piece}."
            ),
        },
        fixed: match twin {
            Twin::One => format!("Letting `{patient}` write {save} KiB at a time"),
            Twin::Other => format!("Setting max_sectors_kb of {name} to 1280"),
        },
    };
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
