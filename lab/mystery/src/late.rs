//! Writes take long, and the disk is quick and idle. Either a process keeps the CPU, so the one whose write has ended runs
//! late, or a cgroup's limit holds the writes back.
//!
//! On both, a write is as long as the other, so `iostat` prints the same, and somebody has most of one CPU's time.

use std::fs;
use std::process::Command;
use std::time::Duration;

use common::{Error, OrCause, Result};
use fastrand::Rng;
use nix::errno::Errno;
use nix::libc;
use wire::command::output;

use crate::job::{Access, Job, Stream};
use crate::parts::{Cgroup, DISKS, GROUPS, JOBS, disk, shuffled, truth};
use crate::story::{Kept, Parts, SAVE, Step, Story, Twin};

/// How many threads write.
const THREADS: u64 = 2;

pub fn make(seed: &mut Rng, twin: Twin) -> Result<Parts> {
    let [name, ..] = shuffled(seed, DISKS);
    let [patient, busy, ..] = shuffled(seed, JOBS);
    let [group, other_group, ..] = shuffled(seed, GROUPS);
    let rest = Duration::from_millis(seed.u64(20..=24));
    // A write takes longer than a rest, so each thread gets through one in the time of a rest and a computation.
    let time = rest + Duration::from_millis(4);
    // How many writes per second all threads get through.
    let rate = seed.u64(12..=13);
    let between = Duration::from_millis(1000 * THREADS / rate);
    let busy_for = between - rest;
    let share = 100.0 * busy_for.as_secs_f64() / between.as_secs_f64();

    let disk = disk(name, time, &[], &[("scheduler", "none")])?;
    let groups = [Cgroup::new(group)?, Cgroup::new(other_group)?];
    let number = fs::read_to_string(format!("/sys/block/{name}/dev")).or_cause("a disk has no number")?;
    let limit = |rate: &str| format!("{} wiops={rate}", number.trim());
    // In the one case, there is a limit, but it is never reached. In the other, the kernel keeps to a limit of a few I/Os
    // so coarsely that about half of them come through.
    let rate = rate * 3 / 2;
    let reached = rate.to_string();
    groups[0].set("io.max", &limit(if twin == Twin::One { "1000" } else { &reached }))?;

    let write = Stream::writes(&disk.device);
    let compute = |time| Stream { access: Access::Compute(time), pause: rest, ..write.clone() };
    let mut jobs =
        vec![Job::start(patient, Some(&groups[0].folder))?, Job::start(busy, Some(&groups[1].folder))?];
    if twin == Twin::One {
        // The lowest of the real-time priorities is above all others. In the other case, nobody may wait for this CPU: on
        // 6.1, the kernel hands some requests to the disk in a thread of either CPU.
        first_come(jobs[1].pid())?;
    }
    pin(jobs[0].pid(), if twin == Twin::One { 1 } else { 0 })?;
    pin(jobs[1].pid(), 1)?;
    jobs[0].order(&vec![Stream { round: SAVE.into(), ..write.clone() }; THREADS as usize])?;
    jobs[1].order(&[compute(busy_for)])?;

    let wait = (between - time).as_millis() as f64;
    let truth = match twin {
        Twin::One => truth("busy-cpu", &[busy.to_owned(), jobs[1].pid().to_string()], share - 15.0..=99.0)?,
        Twin::Other => truth("throttled", &[group.to_owned()], wait * 0.7..=wait * 1.9)?,
    };
    let (ms, all_ms) = (time.as_millis(), between.as_millis());
    let tens = 10.0 * (share / 10.0).round();
    let pid = format!("$(pidof {patient})");
    let story = Story {
        complaint: format!(
            "\"`{patient}` writes to {name}, and each save takes many times as long as it should. iostat says await {ms} ms, \
             and {name} is idle most of the time. We gave {name} a faster controller, and nothing changed. And yes, `{patient}` does wait \
             for I/O: look at its stack.\""
        ),
        what: format!("A save of `{patient}`"),
        usual: time * SAVE,
        truth,
        hints: [
            "When does a write end for the disk, and when for the process? And when does it begin?".to_owned(),
            format!(
                "biowhere measures from submit_bio() to bio_endio(). If that is much less than what `{patient}` waits, the time \
                 passes before or after the bio. What is the state of its threads, in /proc/PID/task/*/status?"
            ),
            format!(
                "If a thread of `{patient}` is in state R, it could run, but somebody else has its CPU: look at top. If it is \
                 in state D and bios are long, look at io.max of its cgroup and of those above it."
            ),
        ],
        way: vec![
            Step {
                why: "How long do bios take, and in which part is the time?",
                command: "biowhere --summary --duration 4".to_owned(),
            },
            Step {
                why: "For what does the process wait?",
                command: format!("cat /proc/{pid}/task/*/stack"),
            },
            Step {
                why: "In which states are its threads? D waits for I/O, and R for a CPU. S waits for something else, or for asynchronous I/O.",
                command: format!(
                    "for i in $(seq 50); do grep -h State /proc/{pid}/task/*/status; sleep 0.03; done | sort | uniq -c"
                ),
            },
            Step {
                why: "Who has the CPUs? %CPU is a share of both together, so of one CPU it is twice as much.",
                command: "top -b -n 2 -d 4 | grep -A 4 '^ *PID' | tail -n 5 | cut -c -5,37-".to_owned(),
            },
            Step {
                why: "On which CPUs may these two run, and with which priority? One below 0 is a real-time priority.",
                command: format!(
                    "grep Cpus_allowed_list /proc/{pid}/status /proc/$(pidof {busy})/status; awk '{{ print $2, $18 }}' \
                     /proc/{pid}/stat /proc/$(pidof {busy})/stat"
                ),
            },
            Step {
                why: "Which limits are there?",
                command: "grep -o 'wiops=.*' /sys/fs/cgroup/*/io.max".to_owned(),
            },
        ],
        decided: match twin {
            Twin::One => format!(
                "Questions 1, 3, 4 and 5 decided: bios end after {ms} ms, and then \
                 `{patient}` is in state R. It may run only on CPU 1, where `{busy}` has a real-time priority and takes about \
                 {tens:.0} % of the time. A thread that has not run yet still has the stack with which it went to sleep."
            ),
            Twin::Other => format!(
                "Questions 1 and 6 decided: disk is only {ms} ms, and most of the time is in before. \
                 So bios are held back before there is a request, because the cgroup of `{patient}`, `{group}`, may write {rate} times in a \
                 second. (The kernel counts so small a limit in slices of time, and about half of that comes through.)"
            ),
        },
        tempting: match twin {
            Twin::One => format!(
                "The tempting answer is throttled, because `{patient}` has an io.max, and its stack is one of I/O. If it were \
                 right, bios would take {all_ms} ms, and its threads would be in state D."
            ),
            Twin::Other => format!(
                "The tempting answer is busy-cpu, because `{busy}` has a CPU nearly for itself. But that is another one, and \
                 `{patient}` is in state D, not in R."
            ),
        },
        cure: match twin {
            Twin::One => format!(
                "In real life: let `{patient}` run on other CPUs, too (taskset, AllowedCPUs=), or take the real-time priority \
                 from `{busy}` (chrt)."
            ),
            Twin::Other => {
                "In real life: raise the limit (IOWriteIOPSMax=, or io.max), or ask whoever set it what it protects.".to_owned()
            }
        },
        fixed: match twin {
            Twin::One => format!("Letting `{busy}` compute for a tenth of the time"),
            Twin::Other => format!("Removing the limit of cgroup {group}"),
        },
    };
    let limits = groups[0].folder.join("io.max");
    let no_limit = limit("max");
    let calm = Stream { pause: busy_for * 10, ..compute(busy_for) };
    let fix = move |jobs: &mut [Job]| -> Result<Kept> {
        match twin {
            Twin::One => jobs[1].order(&[calm])?,
            Twin::Other => crate::parts::write(&limits, &no_limit)?,
        }
        Ok(Box::new(()))
    };
    Ok(Parts { story, jobs, stream: 0, fix: Box::new(fix), world: Box::new((disk, groups)) })
}

/// Lets a process run only on this CPU.
fn pin(pid: u32, cpu: u32) -> Result<()> {
    output(Command::new("taskset").args(["-p", &format!("{:x}", 1 << cpu), &pid.to_string()])).map(drop)
}

/// Gives a process a real-time priority: it keeps the CPU until it rests.
fn first_come(pid: u32) -> Result<()> {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel reads `priority`, and no other memory.
    #[allow(unsafe_code)]
    let done = unsafe { libc::sched_setscheduler(pid as i32, libc::SCHED_FIFO, &raw const priority) };
    Errno::result(done).map(drop).map_err(|error| Error::new("cannot set a priority").evidence(error))
}
