//! An I/O waits long, and the disk is quick. Either a limit holds it back, of the cgroup above the one that the process is
//! in, or the disk takes one request at a time and another process is always there first.
//!
//! The process uses libaio, so it sleeps in io_getevents(2), in state S, while its I/O is in flight or held back. For a
//! place in the queue, it waits in io_submit(2).
//!
//! On both, the wait comes before there is a request, so `iostat` does not see it; and the disk is always busy.

use std::fs;
use std::time::Duration;

use common::{OrCause, Result};
use fastrand::Rng;

use crate::job::{Job, Stream};
use crate::parts::{Cgroup, DISKS, GROUPS, JOBS, asleep_in, disk, job, shuffled, truth};
use crate::story::{Kept, Parts, SAVE, Step, Story, Twin};

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
    let story = Story {
        complaint: format!(
            "\"A save of `{patient}` to {name} takes several times as long as the disk needs for it. The vendor says that \
             the disk is fine, and iostat agrees: await {ms} ms. Yes, {name} is busy, because `{neighbor}` writes there as \
             well. Who of us is right?\""
        ),
        what: format!("A save of `{patient}`"),
        usual: time * SAVE,
        truth,
        hints: [
            "iostat's await begins when there is a request. What can an I/O wait for before that?".to_owned(),
            format!(
                "biowhere --summary --by task shows what is before the request. Then look at what `{patient}` is doing while it \
                 waits: /proc/PID/task/*/stack."
            ),
            format!(
                "With blk_mq_get_tag(), the stack shows that the queue is full: biowhere shows by whom. If \
                 `{patient}` waits anywhere else, its bio is held back: look at io.max of its cgroup and of those above it."
            ),
        ],
        way: vec![
            Step {
                why: "In which part is the time, for each task, and who makes how many I/Os?",
                command: "biowhere --summary --by task --duration 4".to_owned(),
            },
            Step {
                why: "Where does it wait, each time that a thread sleeps? With libaio, that is state S.",
                command: asleep_in(patient, "blk_mq_get_tag|io_getevents"),
            },
            Step {
                why: "And while the one that makes most of them stands still?",
                command: format!(
                    "kill -STOP $(pidof {neighbor}); sleep 1; biowhere --summary --by task --duration 4; kill -CONT $(pidof \
                     {neighbor})"
                ),
            },
            Step {
                why: "How many I/Os have a place in the queue?",
                command: format!("cat /sys/block/{name}/queue/nr_requests"),
            },
            Step {
                why: "In which cgroup is it, and which limits do this one and those above it have?",
                command: format!(
                    "cd /sys/fs/cgroup; g=$(sed 's/.*:.//' /proc/$(pidof {patient})/cgroup); while [ $g != . ]; do grep -H wiops \
                     $g/io.max; g=$(dirname $g); done"
                ),
            },
        ],
        decided: match twin {
            Twin::One => format!(
                "Questions 1, 2 and 5 decided: disk is {ms} ms, and most of the time of `{patient}` is in before. It has submitted \
                 its bio and waits for its end, not for a place in the queue. So the bio is held back before it is a request. \
                 The limit of its own cgroup is generous. But all that is in the one above, `{}`, may write {rate} times in a \
                 second. (The kernel counts so small a limit in slices of time, and fewer come through.)",
                groups[0]
            ),
            Twin::Other => format!(
                "Questions 1 to 4 decided: `{patient}` waits in blk_mq_get_tag() for a place in the queue, which has \
                 only one. That is in before. `{neighbor}` makes most of the I/Os, because several of its threads always wait \
                 for that place, too. While it stands still, before is short."
            ),
        },
        tempting: match twin {
            Twin::One => format!(
                "The tempting answer is busy-neighbor, because `{neighbor}` makes most of the I/Os. If it were right, \
                 stopping it would help. Question 3 shows that it does not."
            ),
            Twin::Other => format!(
                "The tempting answer is throttled, because the cgroups of `{patient}` have an io.max. But the lowest allows \
                 {spare} writes in a second, and question 1 shows far fewer. Question 3 shows that stopping `{neighbor}` \
                 helps."
            ),
        },
        cure: match twin {
            Twin::One => "In real life: raise the limit (IOWriteIOPSMax=, or io.max), or ask whoever set it what it protects.",
            Twin::Other => {
                "In real life: give the noisy one a limit (io.max), move it to another disk, or use a scheduler that \
                 shares the queue, such as BFQ."
            }
        }
        .to_owned(),
        fixed: match twin {
            Twin::One => format!("Removing the limit of cgroup {}", groups[0]),
            Twin::Other => format!("Letting `{neighbor}` write once in a while"),
        },
    };
    let limits = group.folder.join("io.max");
    let no_limit = format!("{} wiops=max", number.trim());
    let calm = Stream { round: 1, pause: Duration::from_millis(500), ..write };
    let fix = move |jobs: &mut [Job]| -> Result<Kept> {
        match twin {
            Twin::One => crate::parts::write(&limits, &no_limit)?,
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
