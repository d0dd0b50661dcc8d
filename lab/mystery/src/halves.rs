//! Half of a volume is slow. The volume is two disks, one after the other. Either one of them is slow, or both are equal
//! and another process keeps one of them busy.
//!
//! On both, the same processes do the same I/O at the same rate, so `iostat` prints the same: if a disk that takes many
//! I/Os at a time takes `n` times as long for each, it completes as many per second as one that takes them one by one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::Result;
use fastrand::Rng;
use guest::device_mapper::Linear;
use guest::null_blk::NullBlk;
use guest::system::queue;

use crate::job::{Job, Stream};
use crate::parts::{DISKS, JOBS, VOLUME, disk, job, shuffled, truth, write};
use crate::story::{Kept, Parts, SAVE, Step, Story, Twin};

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
    let story = Story {
        complaint: format!(
            "\"We keep the data of `{patient}` on the volume dm-0. Since Tuesday, every save to its {half} half takes \
             many times as long as one to its {other_half} half, and we have changed nothing. iostat shows {bad_disk} \
             with an await to match, and it is always busy. Shall we order a new disk?\""
        ),
        what: format!("A save of `{patient}` to the {half} half"),
        usual: quick * SAVE,
        truth,
        hints: [
            "Where does a slow write spend its time: on the disk, or before the disk gets it?".to_owned(),
            "biowhere --summary divides the time of I/Os into parts. Which one is long, and on which disk?".to_owned(),
            format!(
                "If disk is long for {bad_disk}, also without the others, it takes that long. If queue is long, I/Os wait: \
                 biowhere -d {bad_disk} --summary --by task shows who makes how many."
            ),
        ],
        way: vec![
            Step {
                why: "Which disks are below the volume?",
                command: "ls /sys/block/dm-0/slaves".to_owned(),
            },
            Step {
                why: "Which sector did the slowest bio touch? The first half ends at sector 65536.",
                command: "stage05 --duration 3 | tail -n 8".to_owned(),
            },
            Step {
                why: "In which part is the time, on each of the disks?",
                command: "biowhere --summary --duration 4".to_owned(),
            },
            Step {
                why: "Whose I/Os does the slow disk get?",
                command: format!("biowhere -d {bad_disk} --summary --by task --duration 4 | grep I/Os"),
            },
            Step {
                why: "How long is it while the other process that writes there stands still?",
                command: format!(
                    "kill -STOP $(pidof {neighbor}); biowhere -d {bad_disk} --summary --duration 4; kill -CONT $(pidof {neighbor})"
                ),
            },
        ],
        decided: match twin {
            Twin::One => format!(
                "Questions 3 and 5 decided: {bad_disk} itself takes {slow_ms} ms, and queue is short, so nothing waits. \
                 Without `{neighbor}`, it takes as long."
            ),
            Twin::Other => format!(
                "Questions 3 to 5 decided: {bad_disk} takes {ms} ms for a request, as \
                 {good_disk} does, but with queue it is {slow_ms} ms. Without `{neighbor}`, nothing waits. \
                 By the counts of question 4, about {share:.0} % of the requests of {bad_disk} come from `{neighbor}`. \
                 (`{patient}` makes more, but most of them on {good_disk}.)"
            ),
        },
        tempting: match twin {
            Twin::One => format!(
                "The tempting answer is busy-neighbor, because `{neighbor}` makes most of the I/Os there. If it were right, \
                 disk would be as short for {bad_disk} as for {good_disk}, and stopping `{neighbor}` would help. It does not."
            ),
            Twin::Other => format!(
                "The tempting answer is slow-disk, because iostat's await includes the wait. If it were right, {bad_disk} \
                 would have {slow_ms} ms in disk, and stopping `{neighbor}` would not help. It does."
            ),
        },
        cure: match twin {
            Twin::One => "In real life: look at the disk's error log and its temperature, then replace it.",
            Twin::Other => {
                "In real life: move one of the two to another disk, give the noisy one a limit (io.max), or spread the \
                 volume over both disks in stripes."
            }
        }
        .to_owned(),
        fixed: match twin {
            Twin::One => "Replacing the slow disk while the volume is in use".to_owned(),
            Twin::Other => format!("Letting `{neighbor}` write once in a while"),
        },
    };

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
