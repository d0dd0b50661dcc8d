//! Half of a volume is slow. The volume is two disks, one after the other. Either one of them is slow, or both are equal
//! and another process keeps one of them busy.
//!
//! On both, the same processes do the same I/O at the same rate, so `iostat` prints the same: if a disk that takes many
//! I/Os at a time takes `n` times as long for each, it completes as many per second as one that takes them one by one.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::Result;
use fastrand::Rng;
use guest::device_mapper::Linear;
use guest::null_blk::{NullBlk, disk};
use guest::system::{queue, write};

use crate::job::{Job, Stream};
use crate::parts::{DISKS, JOBS, VOLUME, job, shuffled, truth};
use crate::story::{Kept, Parts, SAVE, Story, Twin};

/// Sectors of each half.
const HALF: u64 = 65536;

pub fn make(seed: &mut Rng, twin: Twin) -> Result<Parts> {
    let names = shuffled(seed, DISKS);
    let [patient, neighbor, other, ..] = shuffled(seed, JOBS);
    let quick = Duration::from_millis(seed.u64(30..=45));
    let crowd = seed.u64(3..=5);
    let slow = quick * (crowd as u32 + 1);
    // Which half is slow.
    let bad = usize::from(seed.bool());

    // Requests that a disk can't take yet wait in the scheduler, first come, first served.
    const QUEUE: [(&str, &str); 4] = [
        ("scheduler", "mq-deadline"),
        ("nr_requests", "64"),
        ("iosched/fifo_batch", "1"),
        ("iosched/write_expire", "0"),
    ];
    let (time, depth) = if twin == Twin::One { (slow, 64) } else { (quick, 1) };
    let times = [0, 1].map(|half| if half == bad { time } else { quick });
    let disk = |half: usize| -> Result<NullBlk> {
        let disk = disk(names[half], times[half], &[("hw_queue_depth", depth)], &QUEUE)?;
        // The scheduler keeps a depth for writes that it computed for a queue of two. The file has moved since 6.12.
        let files =
            ["async_depth", "iosched/async_depth"].map(|file| queue(&disk.device.to_string_lossy(), file));
        let file = files.into_iter().flatten().find(|file| file.exists());
        file.map_or(Ok(()), |file| write(&file, "64"))?;
        Ok(disk)
    };
    let disks = [disk(0)?, disk(1)?];
    let parts = [0, 1].map(|half| (disks[half].device.as_path(), HALF));
    let volume = Arc::new(Linear::new(VOLUME, &parts)?);

    let [healthy, busy] = [1 - bad, bad].map(|half| Stream {
        from: half as u64 * HALF * 512,
        blocks: HALF * 512 / 4096,
        round: SAVE.into(),
        ..Stream::writes(&volume.device)
    });
    let rare = |stream: &Stream| Stream { round: 1, pause: Duration::from_millis(200), ..stream.clone() };
    let crowded = Stream { depth: crowd as u32, ..busy.clone() };
    let jobs = vec![
        job(patient, None, &[healthy.clone(), busy.clone()])?,
        job(neighbor, None, &[crowded])?,
        job(other, None, &[rare(&healthy)])?,
    ];

    let (bad_disk, good_disk) = (names[bad], names[1 - bad]);
    let (half, other_half) = if bad == 0 { ("first", "second") } else { ("second", "first") };
    let share = 100.0 * crowd as f64 / (crowd + 1) as f64;
    let (ms, slow_ms) = (quick.as_millis(), slow.as_millis());
    let truth = match twin {
        Twin::One => truth("slow-disk", &[bad_disk.to_owned()], slow_ms as f64 * 0.8..=slow_ms as f64 * 1.4)?,
        Twin::Other => {
            let places = [neighbor.to_owned(), jobs[1].pid().to_string()];
            truth("busy-neighbor", &places, share - 8.0..=share + 8.0)?
        }
    };
    let values: &[(&str, &dyn Display)] = &[
        ("patient", &patient),
        ("neighbor", &neighbor),
        ("bad_disk", &bad_disk),
        ("good_disk", &good_disk),
        ("half", &half),
        ("other_half", &other_half),
        ("ms", &ms),
        ("slow_ms", &slow_ms),
        ("share", &format!("{share:.0}")),
    ];
    let story = Story::new(include_str!("halves.toml"), quick * SAVE, truth, values)?;

    let new_disk = names[2];
    let (fixed_volume, calm) = (volume.clone(), rare(&busy));
    let good_device = disks[1 - bad].device.clone();
    let fix = move |jobs: &mut [Job]| -> Result<Kept> {
        if twin == Twin::Other {
            return jobs[1].order(&[calm]).map(|()| Box::new(()) as Kept);
        }
        let disk = NullBlk::new(new_disk, quick)?;
        let mut parts: [(&Path, u64); 2] = [(&good_device, HALF); 2];
        parts[bad] = (&disk.device, HALF);
        fixed_volume.replace(&parts)?;
        Ok(Box::new(disk))
    };
    Ok(Parts { story, jobs, stream: 1, fix: Box::new(fix), world: Box::new((volume, disks)) })
}
