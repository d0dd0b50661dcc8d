//! A small fsync takes long. Either the journal first writes what another process has changed, or the disk takes long to
//! empty its cache. What another one has changed is many blocks of the file system itself, or, with half of the seeds, the
//! data of a new file, which must be on the disk before the transaction that names its blocks.
//!
//! On both, the disk gets as many writes of the same sizes: from the journal, or from a process that writes past it. And on
//! both, a process lists folders that its cache has no room for, so most reads are small ones of the file system's own blocks.

use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::time::Duration;

use common::{OrCause, Result};
use fastrand::Rng;
use guest::system::{Cgroup, queue, write};

use crate::job::{Access, Job, Stream};
use crate::journaled::{BLOCK, Journaled};
use crate::parts::{FOLDER, GROUPS, JOBS, job, shuffled, truth};
use crate::served_disk::{ServedDisk, names};
use crate::story::{Kept, Parts, Story, Twin};

/// The largest request, in KiB.
const LARGEST: u64 = 32;
/// How many folders are listed. Each has a block, and so has its inode.
const FOLDERS: u64 = 512;
/// How much memory those blocks may have, in bytes. The kernel keeps up to 256 KiB of it for each CPU.
const ROOM: u64 = 1 << 20;

pub fn make(seed: &mut Rng, twin: Twin) -> Result<Parts> {
    let name = seed.choice(names()).unwrap_or_default();
    let [patient, toucher, writer, lister, ..] = shuffled(seed, JOBS);
    let time = Duration::from_millis(seed.u64(8..=10));
    // How many files a process changes all the time, each with a block of its own.
    let files = seed.u64(28..=40) * 8;
    let kib = files * BLOCK as u64 / 1024;
    let long = Duration::from_millis(seed.u64(200..=250));
    let pause = Duration::from_millis(seed.u64(40..=60));
    let is_data = seed.bool();

    let disk = ServedDisk::new(&name, 64)?;
    for (file, value) in [("scheduler", "none"), ("max_sectors_kb", &*LARGEST.to_string())] {
        write(&queue(&disk.device.to_string_lossy(), file)?, value)?;
    }
    let fs = Journaled::new(&disk.device, FOLDER)?;
    let of = |name: &str| Path::new(FOLDER).join(name);
    let cannot = "cannot write a file of the case";
    fs::write(of(patient), [0; 64 * BLOCK]).or_cause(cannot)?;
    fs::write(of(writer), vec![0; 4 * files as usize * BLOCK]).or_cause(cannot)?;
    fs::create_dir(of(toucher)).or_cause(cannot)?;
    for nth in 0..files {
        fs::write(of(toucher).join(nth.to_string()), []).or_cause(cannot)?;
    }
    for nth in 0..FOLDERS {
        fs::create_dir_all(of(lister).join(nth.to_string())).or_cause(cannot)?;
    }
    let fs = fs.again(&disk.device)?;
    disk.times.set(time, if twin == Twin::One { time } else { long });

    let save = Stream {
        target: of(patient),
        access: Access::Save,
        size: BLOCK as u64,
        from: 0,
        blocks: 64,
        depth: 0,
        random: true,
        round: 1,
        rest: Duration::ZERO,
        pause,
    };
    let touch = |files, pause| Stream {
        target: of(toucher),
        access: Access::Touch,
        blocks: files,
        random: false,
        round: files,
        pause,
        ..save.clone()
    };
    let between = Duration::from_millis(150);
    let anew = Stream {
        target: of(toucher).join("0"),
        access: Access::Anew,
        size: files * BLOCK as u64,
        blocks: 1,
        pause: between,
        ..save.clone()
    };
    let busy = if is_data { anew } else { touch(files, between) };
    let calm = touch(2, Duration::from_millis(500));
    let burst = Stream {
        target: of(writer),
        access: Access::Write,
        size: files * BLOCK as u64,
        blocks: 4,
        random: false,
        // One burst in the time in which the other case has a transaction, with its other writes and the rest before it.
        pause: pause + time * 16,
        ..save.clone()
    };
    let rare = Stream { size: BLOCK as u64, pause: Duration::from_millis(500), ..burst.clone() };
    let [touches, writes] = if twin == Twin::One { [busy, rare] } else { [calm.clone(), burst] };
    let list = Stream {
        target: of(lister),
        access: Access::List,
        blocks: FOLDERS,
        // More would take the processor from the others, if it is an emulated one.
        round: 2,
        pause: Duration::from_millis(150),
        ..save.clone()
    };
    let group = Cgroup::new(GROUPS[0])?;
    let mut lists = Job::start(lister, Some(&group.folder))?;
    // At memory.max, the kernel kills a process if it finds nothing to give back at once.
    group.set("memory.high", &(group.bytes("memory.current") + ROOM).to_string())?;
    // Once all of them, so what it reads later has been there before.
    lists.order(&[Stream { random: false, round: FOLDERS, ..list.clone() }])?;
    lists.first(0)?;
    lists.order(&[list])?;
    let jobs = vec![
        job(patient, None, &[save])?,
        job(toucher, None, &[touches])?,
        job(writer, None, &[writes])?,
        lists,
    ];
    // It opens its files first, one after the other.
    jobs[1].first(0)?;

    let ms = long.as_millis();
    let truth = match twin {
        Twin::One => {
            let places = [toucher.to_owned(), jobs[1].pid().to_string()];
            // The disk gets some more, because what is in the journal is later written to its place.
            truth("journal", &places, kib as f64 * 0.6..=kib as f64 * 1.8)?
        }
        Twin::Other => truth("slow-flush", std::slice::from_ref(&name), ms as f64 * 0.7..=ms as f64 * 1.5)?,
    };
    let values: &[(&str, &dyn Display)] = &[
        ("patient", &patient),
        ("toucher", &toucher),
        ("writer", &writer),
        ("lister", &lister),
        ("name", &name),
        ("files", &files),
        ("kib", &kib),
        ("ms", &ms),
    ];
    let end = if twin == Twin::One && is_data { "journal-data" } else { truth.cause.word };
    let story = Story::with_end(include_str!("saves.toml"), end, time * 6, truth, values)?;
    let times = disk.times.clone();
    let fix = move |jobs: &mut [Job]| -> Result<Kept> {
        match twin {
            Twin::One => {
                jobs[1].order(&[calm])?;
                // It first ends the round in which it is.
                jobs[1].first(0)?;
            }
            Twin::Other => times.set(time, time),
        }
        Ok(Box::new(()))
    };
    Ok(Parts { story, jobs, stream: 0, fix: Box::new(fix), world: Box::new((fs, disk, group)) })
}
