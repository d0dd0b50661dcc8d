//! A small fsync takes long. Either the journal first writes what another process has changed, or the disk takes long to
//! empty its cache.
//!
//! On both, the disk gets as many writes of the same sizes: from the journal, or from a process that writes past it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use common::{OrCause, Result};
use fastrand::Rng;
use guest::system::queue;

use crate::job::{Access, Job, Stream};
use crate::journaled::{BLOCK, Journaled};
use crate::parts::{FOLDER, JOBS, asleep_in, job, shuffled, truth, write};
use crate::served_disk::{ServedDisk, names};
use crate::story::{Kept, Parts, Step, Story, Twin};

/// The largest request, in KiB.
const LARGEST: u64 = 32;

pub fn make(seed: &mut Rng, twin: Twin) -> Result<Parts> {
    let name = seed.choice(names()).unwrap_or_default();
    let [patient, toucher, writer, ..] = shuffled(seed, JOBS);
    let time = Duration::from_millis(seed.u64(8..=10));
    // How many files a process changes all the time, each with a block of its own.
    let files = seed.u64(28..=40) * 8;
    let kib = files * BLOCK as u64 / 1024;
    let long = Duration::from_millis(seed.u64(200..=250));
    let pause = Duration::from_millis(seed.u64(40..=60));

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
    let busy = touch(files, Duration::from_millis(150));
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
    let jobs =
        vec![job(patient, None, &[save])?, job(toucher, None, &[touches])?, job(writer, None, &[writes])?];

    let ms = long.as_millis();
    let truth = match twin {
        Twin::One => {
            let places = [toucher.to_owned(), jobs[1].pid().to_string()];
            // The disk gets some more, because what is in the journal is later written to its place.
            truth("journal", &places, kib as f64 * 0.6..=kib as f64 * 1.8)?
        }
        Twin::Other => truth("slow-flush", std::slice::from_ref(&name), ms as f64 * 0.7..=ms as f64 * 1.5)?,
    };
    let story = Story {
        complaint: format!(
            "\"`{patient}` saves 4 KiB and calls fsync. On the old server nobody noticed, and here it takes hundreds of \
             milliseconds. The work is the same, and iostat shows nothing new on {name}. `{patient}` is alone in its file. \
             Who makes it wait?\""
        ),
        what: format!("An fsync of `{patient}`"),
        usual: time * 6,
        truth,
        hints: [
            "An fsync waits for the journal. What does the journal write, and what does it wait for?".to_owned(),
            format!(
                "The journal writes its blocks, and then the disk empties its cache. /proc/fs/jbd2/*/info shows how many \
                 blocks a transaction has, and the last two numbers of /sys/block/{name}/stat are how many flushes there \
                 were and how many ms they took."
            ),
            format!(
                "An fsync needs two flushes. If they take most of its time, the cache of {name} is slow. If they are quick, look at the \
                 blocks per transaction: somebody else changes much. Stop one process after the other (kill -STOP), and see \
                 when `{patient}` gets quick."
            ),
        ],
        way: vec![
            Step {
                why: "For what does it wait, each time that a thread sleeps?",
                command: asleep_in(patient, "jbd2_log_wait_commit|io_schedule"),
            },
            Step {
                why: "How many flushes were there in four seconds, and how many ms did all of them take?",
                command: format!(
                    "set -- $(awk '{{ print $16, $17 }}' /sys/block/{name}/stat); sleep 4; awk -v n=$1 -v ms=$2 '{{ print $17 - \
                     ms \" ms / \" $16 - n \" flushes = \" ($17 - ms) / ($16 - n) \" ms\" }}' /sys/block/{name}/stat"
                ),
            },
            Step {
                why: "How many blocks does the journal write at a time? A block has 4 KiB here.",
                command: format!("tail -n 1 /proc/fs/jbd2/{name}*/info"),
            },
            Step {
                why: "Who has files there?",
                command: format!("ls -l /proc/[0-9]*/fd | grep -o '{FOLDER}/[a-z]*' | sort | uniq -c"),
            },
            Step {
                why: "How often does it get through in 3 s, and how often while one of the others stands still?",
                command: format!(
                    "calls() {{ grep -o 'syscw.*' /proc/$(pidof {patient})/io | cut -c8-; }}; for who in nobody {toucher} \
                     {writer}; do kill -STOP $(pidof $who) 2> /dev/null; first=$(calls); sleep 3; echo without $who: \
                     $(($(calls) - first)); kill -CONT $(pidof $who) 2> /dev/null; done"
                ),
            },
        ],
        decided: match twin {
            Twin::One => format!(
                "Questions 2, 3 and 4 decided: a flush is quick, but a transaction has hundreds of blocks, and \
                 `{patient}` changes only a few. The others are the inodes of the {files} files of `{toucher}`, each in a block \
                 of its own."
            ),
            Twin::Other => format!(
                "Questions 2 and 3 decided: a flush takes about {ms} ms, and an fsync needs two. And the \
                 journal writes only a few blocks."
            ),
        },
        tempting: match twin {
            Twin::One => format!(
                "The tempting answer is slow-flush, because only fsync is slow. If it were right, a flush would take \
                 nearly as long, and stopping `{toucher}` (kill -STOP) would not help. It does."
            ),
            Twin::Other => format!(
                "The tempting answer is journal, because `{patient}` waits for it, and `{writer}` writes a lot. But that goes \
                 past the journal, and a transaction would have many blocks."
            ),
        },
        cure: match twin {
            Twin::One => format!(
                "In real life: give `{patient}` a file system of its own, or let `{toucher}` change less (noatime, lazytime, \
                 fewer and larger files)."
            ),
            Twin::Other => {
                "In real life: a disk whose cache survives a power failure has nothing to flush. Look whether the controller's \
                 battery is dead, or the disk is one for consumers."
                    .to_owned()
            }
        },
        fixed: match twin {
            Twin::One => format!("Letting `{toucher}` change two files once in a while"),
            Twin::Other => format!("Giving {name} a cache that survives a power failure"),
        },
    };
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
    Ok(Parts { story, jobs, stream: 0, fix: Box::new(fix), world: Box::new((fs, disk)) })
}
