//! Reads became slow. Either the kernel reads nothing ahead any more, or the page cache is too small for what is read
//! again and again.
//!
//! On both, each miss reads one page from the disk, one after the other, so `iostat` prints the same.

use std::fs::{self, File};
use std::time::Duration;

use common::{OrCause, Result};
use fastrand::Rng;
use guest::system::queue;

use crate::job::{Access, Job, Stream};
use crate::parts::{Cgroup, DISKS, GROUPS, JOBS, disk, job, shuffled, truth, write};
use crate::story::{Kept, Parts, Step, Story, Twin};

/// The data that is read again and again.
const DATA: u64 = 12 << 20;
/// One read of it that fills the cache quickly, and what the kernel reads ahead on a healthy disk.
const CHUNK: u64 = 128 << 10;

pub fn make(seed: &mut Rng, twin: Twin) -> Result<Parts> {
    let names = shuffled(seed, DISKS);
    let [patient, other, ..] = shuffled(seed, JOBS);
    let [group, other_group, ..] = shuffled(seed, GROUPS);
    let time = Duration::from_millis(seed.u64(12..=20));
    let size = [1024, 2048][seed.usize(..2)];
    // How many percent of the data have no place in the cache.
    let missed = seed.u64(25..=50);

    // On one of the disks, nothing is read ahead. Nobody reads much from the other.
    let ahead = if twin == Twin::One { ["0", "128"] } else { ["128", "0"] };
    let make = |nth: usize| {
        let files = [("scheduler", "none"), ("read_ahead_kb", ahead[nth])];
        disk(names[nth], time, &[("size", 8192), ("max_sectors", 2560)], &files)
    };
    let disks = [make(0)?, make(1)?];
    // When nobody has a disk open, the kernel drops the disk's pages.
    let opened = File::open(&disks[0].device).or_cause("cannot open a disk")?;
    let groups = [Cgroup::new(group)?, Cgroup::new(other_group)?];

    let all = Stream {
        target: disks[0].device.clone(),
        access: Access::Read,
        size,
        from: 0,
        blocks: (4 << 30) / size,
        depth: 0,
        random: false,
        round: CHUNK / size,
        rest: Duration::ZERO,
        pause: Duration::ZERO,
    };
    let again = Stream { blocks: DATA / size, random: true, ..all.clone() };
    let fill = Stream { size: CHUNK, blocks: DATA / CHUNK, round: DATA / CHUNK, ..all.clone() };
    let rare = Stream {
        target: disks[1].device.clone(),
        random: true,
        round: 1,
        pause: Duration::from_millis(500),
        ..all.clone()
    };
    let mut reader = Job::start(patient, Some(&groups[0].folder))?;
    // In bytes; `max`, which is no limit, counts as none.
    let memory = |file: &str| -> u64 {
        let text = fs::read_to_string(groups[0].folder.join(file));
        text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or_default()
    };
    match twin {
        Twin::One => reader.order(std::slice::from_ref(&all))?,
        Twin::Other => {
            let room = memory("memory.current") + DATA / 100 * (100 - missed);
            groups[0].set("memory.max", &room.to_string())?;
            reader.order(std::slice::from_ref(&fill))?;
            reader.first(0)?;
            reader.order(std::slice::from_ref(&again))?;
        }
    }
    let jobs = vec![reader, job(other, Some(&groups[1]), &[rare])?];

    let name = names[0];
    let percent = missed as f64;
    let first = 100.0 * size as f64 / 4096.0;
    let truth = match twin {
        // Of the reads of a page, the first one misses it.
        Twin::One => truth("no-read-ahead", &[name.to_owned()], first * 0.8..=first * 1.25)?,
        Twin::Other => truth("small-cache", &[group.to_owned()], percent - 12.0..=percent + 20.0)?,
    };
    let folder = groups[0].folder.display();
    let mib = memory("memory.max") as f64 / f64::from(1 << 20);
    let story = Story {
        complaint: format!(
            "\"`{patient}` reads records of {size} bytes from {name}. Since it moved to the new machine, it waits for the \
             disk all day: thousands of reads of 4 KiB, says iostat, each as fast as ever. On the old machine with the \
             same data, there was hardly a read to see.\""
        ),
        what: format!("{} reads of `{patient}`", CHUNK / size),
        usual: time,
        truth,
        hints: [
            "Does the process read pages that it has not read before, or pages that it has?".to_owned(),
            format!(
                "stage09 PID counts the pages that `{patient}` reads and those that are not in the cache. The kernel counts \
                 pages that come back to the cache: workingset_refault_file in memory.stat of a cgroup."
            ),
            format!(
                "Read workingset_refault_file of the cgroup of `{patient}` twice. If it grows, the cache is too small. If \
                 not, all pages are new, and the kernel should have read them ahead."
            ),
        ],
        way: vec![
            Step {
                why: "How many of the pages that it reads are not in the cache?",
                command: format!("stage09 --duration 5 $(pidof {patient}) | tail -n 4"),
            },
            Step {
                why: "In which cgroup is it?",
                command: format!("cat /proc/$(pidof {patient})/cgroup"),
            },
            Step {
                why: "Do pages come back that were in the cache before? The counter, now and 4 s later.",
                command: format!(
                    "grep workingset_refault_file {folder}/memory.stat; sleep 4; grep workingset_refault_file \
                     {folder}/memory.stat"
                ),
            },
            Step {
                why: "Does it read one page after the other? A page is eight sectors.",
                command: format!(
                    "ctracer --duration 2 2> /dev/null | grep ' submit_bio(.*{name}' | grep -o 'read [0-9]* + .*{name}' | head \
                     -n 5"
                ),
            },
            Step {
                why: "How much memory may it use, and how much does it?",
                command: format!("grep . {folder}/memory.max {folder}/memory.current"),
            },
            Step {
                why: "How much would the kernel read ahead, in KiB?",
                command: "grep . /sys/block/vd*/queue/read_ahead_kb".to_owned(),
            },
        ],
        decided: match twin {
            Twin::One => format!(
                "Questions 3, 4 and 6 decided: no page comes back, so `{patient}` reads new ones \
                 all the time, one after the \
                 other, and the kernel could have read them ahead. On {name}, it reads 0 KiB ahead. (A page has {} records, and \
                 only the first read of it misses.)",
                4096 / size
            ),
            Twin::Other => format!(
                "Questions 3 and 5 decided: pages come back that were in the cache before, because cgroup \
                 `{group}` may use only {mib:.1} MiB of memory, and uses nearly all of it."
            ),
        },
        tempting: match twin {
            Twin::One => "The tempting answer is small-cache, because nothing that is read seems to stay. If it were right, \
                          pages would come back, and the cgroup would be at its limit."
                .to_owned(),
            Twin::Other => format!(
                "The tempting answer is no-read-ahead, because the disk reads single pages, and read_ahead_kb is 0 on a disk. \
                 But that is not {name}, and if it were right, the missed pages would be new ones."
            ),
        },
        cure: match twin {
            Twin::One => format!(
                "In real life: echo 128 > /sys/block/{name}/queue/read_ahead_kb, restart `{patient}`, because an open file keeps \
                 the old value, and find out who set it to 0."
            ),
            Twin::Other => format!("In real life: give the service more memory, with MemoryMax= or {folder}/memory.max."),
        },
        fixed: match twin {
            Twin::One => format!("Setting read_ahead_kb of {name} to 128, and restarting `{patient}`"),
            Twin::Other => format!("Raising memory.max of {group}, and waiting until `{patient}` has read everything once"),
        },
    };
    let ahead = queue(&disks[0].device.to_string_lossy(), "read_ahead_kb")?;
    let limit = groups[0].folder.join("memory.max");
    let fix = move |jobs: &mut [Job]| -> Result<Kept> {
        match twin {
            Twin::One => {
                write(&ahead, "128")?;
                // An open file keeps the setting that it was opened with.
                // It goes on where nothing is in the cache yet.
                jobs[0].order(&[Stream { from: 4 << 30, ..all }])?;
            }
            Twin::Other => {
                write(&limit, "max")?;
                jobs[0].order(&[fill])?;
                jobs[0].first(0)?;
                jobs[0].order(&[again])?;
            }
        }
        Ok(Box::new(()))
    };
    Ok(Parts { story, jobs, stream: 0, fix: Box::new(fix), world: Box::new((opened, disks, groups)) })
}
