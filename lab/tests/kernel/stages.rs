//! What the stages print is true.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::histogram::Histogram;
use common::trace_pipe::Line;
use guest::check::Program;
use guest::checks;
use guest::null_blk::{NullBlk, long_enough};
use guest::running::{Killed, Observation, Running};
use guest::truth::{self, Event, NOT_MEASURED};
use guest::verdict::Checked;
use libbpf_rs::{Link, ObjectBuilder};
use nix::sys::signal::{Signal, kill};
use nix::unistd::gettid;
use serde_json::Value;
use wire::workload::Done;

use crate::guest::{
    around, instances, io, is_in, one_by_one, programs, quiet, sh, start, trace, wait_until, watch,
    watch_while, with_ext4,
};
use crate::{Case, cases, is_soak, or_soak, variants};

pub const CASES: &[Case] = cases![
    stage01_prints_each_direct_write_once(NoFentry),
    stage02_prints_each_start_and_each_end_once,
    stage03_prints_a_duration_for_each_write,
    stage03_measures_a_disk_that_takes_20_ms,
    stage03_forgets_nothing_in_6000_writes(Once),
    stage03_accounts_for_what_four_threads_did(Outer),
    a_missed_end_makes_no_bio_slow,
    stage04_finds_the_slowest_of_two_disks,
    stage05_reports_the_sector_that_was_written,
    stages_see_their_own_lines_only(Outer),
    every_text_arrives_on_a_private_pipe,
    shared_pipe_gives_everybodys_lines(Outer),
    before_the_first_io_there_is_nothing_to_report(Outer),
    every_way_to_end_leaves_nothing_behind(Outer),
    what_came_before_ctrl_c_is_printed(Outer),
    stages_start_at_the_same_moment(Outer),
    stage12_agrees_with_fio(Fio, Once),
    stage12_does_not_count_a_call_whose_start_it_did_not_see,
];

/// Each stage beside the I/O of its own `check.rs`.
pub fn by_their_checks() -> impl Iterator<Item = Case> {
    let stages =
        checks::ALL.iter().filter(|(name, check)| name.parse::<u32>().is_ok() && check.program.is_some());
    stages.map(|(name, _)| -> Case {
        let judge = |case: &str| {
            let stage = &case[..7];
            let program = checks::of(&stage[5..]).and_then(|check| check.program.as_ref());
            with_ext4();
            program.unwrap().judge(stage).unwrap();
        };
        (format!("stage{name}_is_right").leak(), judge, &[])
    })
}

/// What a stage prints is right.
type Right = fn(&Observation, &Done) -> Checked<String>;

/// The stages that print a line or more for each write, and how many: the number, that, and, if it is about bios, when it is
/// right.
pub fn traces() -> impl Iterator<Item = (u32, usize, Option<Right>)> {
    let stages = checks::ALL.iter().filter_map(|(name, check)| Some((name.parse().ok()?, check)));
    stages.filter(|(_, check)| check.lines > 0).map(|(number, check)| match check.program {
        Some(Program::Beside("write", right)) => (number, check.lines, Some(right)),
        _ => (number, check.lines, None),
    })
}

/// Those about bios.
pub fn of_bios() -> impl Iterator<Item = (u32, usize, Right)> {
    traces().filter_map(|(number, lines, right)| Some((number, lines, right?)))
}

/// Checks the output for `count` writes to a disk that nobody else uses: exactly these lines, in order.
fn check_alone(number: u32, count: usize) {
    quiet();
    let (seen, done) = watch(&format!("stage{number:02}"), &format!("write /dev/scratch --count {count}"));
    let (_, _, right) = of_bios().find(|(of, ..)| *of == number).unwrap();
    right(&seen, &done).unwrap();
    let trace = trace(&seen);
    let expected = [1, 2, 3].map(|of| if number >= of { count } else { 0 });
    assert_eq!([trace.submits, trace.ends, trace.durations.len()], expected, "{}", seen.stdout);
    let times = trace.events.iter().filter_map(|(_, event)| match *event {
        Event::Submit { ns, .. } | Event::End { ns, .. } => Some(ns),
        _ => None,
    });
    let times: Vec<_> = times.collect();
    assert!(times.is_sorted(), "{}", seen.stdout);
    assert!(times.iter().all(|ns| (done.first_ns..=done.last_ns).contains(ns)), "{}", seen.stdout);
    let task = |(line, event): &(Line<'_>, Event)| match event {
        // The kernel records a task's name when it first switches away from the task; until then it prints <...>.
        Event::Submit { .. } => ["io", "<...>"].contains(&line.task) && line.pid == done.pid,
        _ => true,
    };
    assert!(trace.events.iter().all(task), "{}", seen.stdout);
}

fn stage01_prints_each_direct_write_once() {
    check_alone(1, 64);
}

fn stage02_prints_each_start_and_each_end_once() {
    check_alone(2, 64);
}

fn stage03_prints_a_duration_for_each_write() {
    check_alone(3, 64);
}

fn stage03_measures_a_disk_that_takes_20_ms() {
    const COMPLETION: Duration = Duration::from_millis(20);
    quiet();
    let disk = NullBlk::new("slow", COMPLETION).unwrap();
    let write = format!("write {}", disk.device.display());
    let (seen, writes) = watch_while("stage03", || one_by_one(&write, 25));
    check_durations(&trace(&seen).durations, COMPLETION, &writes);
}

/// Checks the durations of I/Os that were done one by one: none is shorter than the disk takes, and none is longer
/// than the time around that very I/O.
pub fn check_durations(durations: &[u64], disk: Duration, done: &[Done]) {
    assert_eq!(durations.len(), done.len(), "{durations:?} {done:?}");
    for (duration, done) in durations.iter().zip(done) {
        let possible = disk.as_nanos() as u64..=around(done);
        assert!(possible.contains(duration), "{duration} ns is not in {possible:?}");
    }
}

/// More than the map holds: starts that are not deleted would fill it. At once, as many as fit into the stage's trace pipe,
/// and again when the stage has printed them.
fn stage03_forgets_nothing_in_6000_writes() {
    const AT_ONCE: u64 = 10_000;
    let count: u64 = or_soak(6_000, 200_000);
    quiet();
    let stage = start("stage03");
    for done in (0..count).step_by(AT_ONCE as usize) {
        let now = AT_ONCE.min(count - done);
        io(&format!("write /dev/scratch --size 512 --count {now}"));
        let lines = 3 * (done + now) as usize;
        wait_until("they are printed", || stage.lines() >= lines);
    }
    let seen = stage.end(Signal::SIGINT).unwrap();
    assert!(seen.status.success() && !seen.stderr.contains("lost"), "{}", seen.stderr);
    let trace = trace(&seen);
    assert_eq!([trace.submits, trace.durations.len()], [count as usize; 2]);
    assert_eq!(trace.not_measured, Some(0));
}

/// A fast disk with many writers and a slow one with one writer: the slowest bio is the slow disk's, and it is the
/// longest of all durations that the same run printed, on any CPU.
fn stage04_finds_the_slowest_of_two_disks() {
    let each = or_soak(500, 12_500);
    quiet();
    let (seen, slow, slow_done) = long_enough(Duration::from_millis(300), |slow| {
        let fast = slow / 3000;
        let (fast_disk, slow_disk) = (NullBlk::new("fast", fast)?, NullBlk::new("slow", slow)?);
        let write = format!("write {}", slow_disk.device.display());
        let stage = start("stage04");
        let slow_writer = thread::spawn(move || (gettid(), one_by_one(&write, 5)));
        io(&format!("write {} --size 512 --threads 4 --count {each}", fast_disk.device.display()));
        let slow_done = slow_writer.join().unwrap();
        let seen = stage.end(Signal::SIGINT)?;
        // On a busy machine, a write to the fast disk may take as long, and lines come faster than they are read. Next
        // time, both disks are slower.
        let long = trace(&seen).durations.into_iter().filter(|ns| Duration::from_nanos(*ns) >= slow).count();
        let is_whole = !seen.stderr.contains("lost");
        Ok((long <= 5 && is_whole).then_some((seen, slow, slow_done)))
    })
    .unwrap();
    assert!(seen.status.success(), "{}", seen.stderr);

    let trace = trace(&seen);
    let slowest = truth::slowest(&seen).unwrap();
    assert_eq!(trace.durations.iter().copied().max(), Some(slowest.duration()));
    let (writer, writes) = slow_done;
    let most = writes.iter().map(around).max().unwrap();
    assert!((slow.as_nanos() as u64..=most).contains(&slowest.duration()), "{slowest:?} {writes:?}");
    // The line was printed right before.
    let is_before = |event: &Event| matches!(*event, Event::Submit { bio, ns } if bio == Some(slowest.bio) && ns <= slowest.start);
    let (line, _) = trace.events.iter().rfind(|(_, event)| is_before(event)).unwrap();
    assert_eq!(line.pid, writer.as_raw() as u32, "the slow disk's writer submitted it");
    let cpus: std::collections::BTreeSet<_> = trace.events.iter().map(|(line, _)| line.cpu).collect();
    assert_eq!(cpus.len(), 2, "both CPUs had a record");
}

/// On a disk and on a partition, where the sector is relative to the partition: the block layer adds the partition's
/// start after the call of `submit_bio()`.
fn stage05_reports_the_sector_that_was_written() {
    quiet();
    for device in ["/dev/scratch", "/dev/part"] {
        for (seek, size) in [(0, 4096), (100, 4096), (7, 512), (3, 65536)] {
            let (seen, _) =
                watch("stage05", &format!("write {device} --count 1 --seek {seek} --size {size}"));
            let slowest = truth::slowest(&seen).unwrap();
            assert_eq!(slowest.sector, Some(seek * size / 512), "{device}: {}", seen.stdout);
        }
    }
}

/// The kernel drops some calls of `bio_endio` that interrupt another kprobe program. The stage can't see them, but
/// its counts must still add up.
fn stage03_accounts_for_what_four_threads_did() {
    quiet();
    let (times, threads) = or_soak((1, 4), (10, 8));
    for _ in 0..times {
        let (seen, done) = watch("stage03", &format!("write /dev/scratch --threads {threads} --count 1250"));
        let trace = trace(&seen);
        let (submitted, completed) = (trace.submits as u64, trace.durations.len() as u64);
        assert_eq!(trace.ends as u64, completed, "an end without a start");
        // Every I/O calls each function once, so the calls without a line are those that the kernel skipped. A skipped end
        // leaves its start in the map, too, unless a later bio has the same address.
        let skipped = if is_in("6.7..") { 2 * done.count - submitted - completed } else { 0 };
        let missing = trace.not_measured.unwrap();
        assert!(
            (skipped..=skipped + submitted - completed).contains(&missing),
            "{missing}, {skipped} skipped"
        );
    }
}

/// A start whose end was missed doesn't become that of the next bio at its address.
fn a_missed_end_makes_no_bio_slow() {
    // The kernel moves a task's stack at random, where these bios are: up to 64 addresses.
    const WRITES: usize = 128;
    quiet();
    for stage in ["stage03-misses", "stage06-misses"] {
        let running = start(stage);
        let done = one_by_one("write /dev/scratch", WRITES);
        let seen = running.end(Signal::SIGINT).unwrap();
        let trace = trace(&seen);
        assert_eq!((trace.submits, trace.durations.len()), (WRITES, WRITES / 2), "{}", seen.stdout);
        // The first, the third, and so on: no duration is longer than the time around its write.
        for (duration, done) in trace.durations.iter().zip(done.iter().step_by(2)) {
            assert!(*duration <= around(done), "{stage}: {duration} ns of {done:?}\n{}", seen.stdout);
        }
        if stage.starts_with("stage06") {
            assert_eq!(Some(truth::slowest(&seen).unwrap().duration()), trace.durations.into_iter().max());
        }
    }
}

fn before_the_first_io_there_is_nothing_to_report() {
    quiet();
    for number in 1..=8 {
        let (seen, ()) = watch_while(&format!("stage{number:02}"), || ());
        let (first, lines) = match number {
            4..=6 => ("No I/O has finished, so none was the slowest.", 2),
            8 => (
                "==================================================\nNothing was read through the page cache.",
                5,
            ),
            _ => ("", usize::from(number > 2)),
        };
        assert!(seen.stdout.starts_with(first) && seen.stdout.lines().count() == lines, "{seen:?}");
        assert_eq!(truth::not_measured(&seen).ok(), (3..8).contains(&number).then_some(0), "{seen:?}");
        assert!(number < 8 || truth::page_cache(&seen).unwrap() == [0; 4], "{seen:?}");
    }
}

/// Empties the global trace buffer, and makes it as large as it is after a person has traced something. A BPF program
/// that enables its event leaves the buffer at the few KiB that it has after boot.
fn fresh_common_buffer() {
    sh("echo 1408 > /sys/kernel/tracing/buffer_size_kb; echo > /sys/kernel/tracing/trace");
}

fn count(text: &str, message: &str) -> usize {
    text.lines().filter_map(Line::parse).filter(|line| line.message.starts_with(message)).count()
}

fn stages_see_their_own_lines_only() {
    const WRITES: usize = 32;
    quiet();
    let shout = shout();
    let [first, third] = ["stage01", "stage03"].map(start);
    io(&format!("write /dev/scratch --count {WRITES}"));
    let [first, third] = [first, third].map(|stage| stage.end(Signal::SIGINT).unwrap());
    drop(shout);
    let of_third = ["submit_bio(bio=", "bio_endio(bio=", "submit_bio() -> bio_endio() time duration: "];
    for (text, messages, lines) in [
        (&first.stdout, &["submit_bio() called: "][..], WRITES),
        // And its report.
        (&third.stdout, &of_third, WRITES * 3 + 1),
    ] {
        assert!(messages.iter().all(|message| count(text, message) == WRITES), "{messages:?}: {text}");
        assert_eq!(text.lines().count(), lines, "{text}");
    }
}

/// Somebody else's program, which prints at the same function.
fn shout() -> Vec<Link> {
    let shout = ObjectBuilder::default().open_file("/bin/shout.bpf.o").unwrap().load().unwrap();
    shout.progs_mut().map(|program| program.attach().unwrap()).collect()
}

/// Whatever a learner prints, it arrives, or the run says why the kernel refuses it.
fn every_text_arrives_on_a_private_pipe() {
    const WRITES: usize = 4;
    quiet();
    let _shout = shout();
    let [texts, any] = ["stage01-texts", "stage01-any"]
        .map(|stage| watch(stage, &format!("write /dev/scratch --count {WRITES}")).0);
    let count = |seen: &Observation, start: &str| count(&seen.stdout, start);
    let (_, variant) = variants::FILE.split_once("stage01-texts").unwrap();
    let mut refused = 0;
    for text in variant.split("'''").nth(3).unwrap().split("(\"").skip(1) {
        let start = text.split(['"', '%', '\\']).next().unwrap();
        let is_refused = texts.stderr.contains(&format!("nothing of this text is printed: \"{start}"));
        refused += usize::from(is_refused);
        let expected = if is_refused { 0 } else { WRITES };
        assert_eq!(count(&texts, start), expected, "{start}: {}{}", texts.stdout, texts.stderr);
    }
    assert_eq!(refused, if is_in("..5.13") { 5 } else { 3 }, "{}", texts.stderr);
    assert_eq!(count(&texts, "submit_bio: not one of ours"), 0);
    for start in ["the stack: ", "an array"] {
        assert_eq!(count(&any, start), WRITES, "{start}: {}", any.stdout);
    }
    let numbers = any.stdout.lines().filter(|line| Line::parse(line).unwrap().message.parse::<u64>().is_ok());
    assert_eq!(numbers.count(), WRITES, "{}", any.stdout);
    assert!(any.stderr.contains("Lines of other BPF programs may come, too"), "{}", any.stderr);
}

fn shared_pipe_gives_everybodys_lines() {
    quiet();
    fresh_common_buffer();
    let [private, shared] = ["stage01", "stage02 --shared-pipe --lines 24"].map(start);
    assert_eq!(instances().len(), 1, "only the private run has a pipe of its own");
    io("write /dev/scratch --count 8");
    let [private, shared] = [private.end(Signal::SIGINT).unwrap(), shared.wait().unwrap()];
    // Both stages print in submit_bio, with the same text.
    assert_eq!(count(&shared.stdout, "submit_bio() called: "), 16, "{}", shared.stdout);
    assert_eq!(count(&shared.stdout, "bio_endio() called: "), 8, "{}", shared.stdout);
    assert_eq!(private.lines().len(), 16, "the shared pipe's reader took nothing from the private one");
}

/// Checks that a run has left nothing in the kernel. `before` are the programs that were there before.
fn nothing_is_left(before: &std::collections::BTreeSet<u32>, how: &str) {
    assert_eq!(instances(), [""; 0], "{how}: a trace pipe is left");
    // The kernel frees programs a moment after the last reference to them is gone.
    wait_until(&format!("{how}: the programs are gone"), || programs() == *before);
}

/// How a run may end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Signal(Signal),
    Duration,
    Lines,
    ClosedPipe,
}

const ENDS: [End; 5] =
    [End::Signal(Signal::SIGINT), End::Signal(Signal::SIGTERM), End::Duration, End::Lines, End::ClosedPipe];

/// Stages 01 and 07 end in each way, those between in one or two; with `LAB_SOAK=1`, all of them in each way.
fn every_way_to_end_leaves_nothing_behind() {
    for (number, lines, _) in traces() {
        for (nth, end) in ENDS.into_iter().enumerate() {
            if [1, 7].contains(&number) || number as usize % ENDS.len() == nth || is_soak() {
                end_a_stage(number, lines, end);
            }
        }
    }
}

fn end_a_stage(number: u32, lines_per_write: usize, end: End) {
    quiet();
    let before = programs();
    let name = format!("stage{number:02}");
    let has_report = |text: &str| text.contains(NOT_MEASURED) == (lines_per_write >= 3);
    if end == End::ClosedPipe {
        let mut head = Command::new("sh");
        head.args(["-c", &format!("{name} | head -n 3")]);
        let stage = Running::spawn(&mut head).unwrap();
        io("write /dev/scratch --count 8");
        let seen = stage.wait().unwrap();
        assert_eq!(seen.stdout.lines().count(), 3, "{}", seen.stdout);
        assert!(!seen.stderr.contains("rror"), "{}", seen.stderr);
        assert!(has_report(&seen.stderr), "the report goes to stderr then: {}", seen.stderr);
    } else {
        let (option, writes, lines) = match end {
            End::Duration => ("--duration 0.7", 0, 0),
            End::Lines => ("--lines 5", 8, 5),
            _ => ("", 4, 4 * lines_per_write),
        };
        let begin = Instant::now();
        let stage = start(&format!("{name} {option}"));
        assert!(writes != 4 || instances().len() == 1 && programs().len() > before.len());
        if writes > 0 {
            io(&format!("write /dev/scratch --count {writes}"));
        }
        let seen = if let End::Signal(signal) = end { stage.end(signal) } else { stage.wait() }.unwrap();
        assert!(seen.status.success() && has_report(&seen.stdout), "{end:?}: {seen:?}");
        assert!(writes == 0 || seen.lines().len() == lines, "{end:?}: {}", seen.stdout);
        assert!(end != End::Duration || begin.elapsed() >= Duration::from_millis(700), "{end:?}");
    }
    nothing_is_left(&before, &format!("{name}, {end:?}"));
}

/// The stage must not end before it has printed the lines that are already in the pipe.
fn what_came_before_ctrl_c_is_printed() {
    quiet();
    let stage = start("stage03");
    kill(stage.pid(), Signal::SIGSTOP).unwrap();
    io("write /dev/scratch --count 100");
    // Now both wait for the stage: the lines in its pipe, and the signal.
    kill(stage.pid(), Signal::SIGINT).unwrap();
    let seen = stage.end(Signal::SIGCONT).unwrap();
    assert!(seen.status.success(), "{seen:?}");
    assert_eq!(seen.lines().len(), 300);
}

/// How many of them start at the same moment.
const STARTS: usize = 8;

/// Different stages, and two of one.
const TOGETHER: [&str; STARTS] =
    ["stage01", "stage03", "stage07", "stage08", "stage01", "stage06", "bigreads --printk", "biolatency"];

/// Runs that start, end and are killed at the same moment don't disturb each other, and the next one clears up.
fn stages_start_at_the_same_moment() {
    quiet();
    let before = programs();
    for round in 0..or_soak(4, 50) {
        let stages = thread::scope(|scope| {
            TOGETHER.map(|command| scope.spawn(move || start(command))).map(|start| start.join().unwrap())
        });
        io("write /dev/scratch --count 4");
        // They end at the same moment, too, and one of them leaves its trace pipe.
        let seen = thread::scope(|scope| {
            let ends = stages.into_iter().enumerate().map(|(nth, stage)| {
                let signal = if nth == 5 { Signal::SIGKILL } else { Signal::SIGINT };
                scope.spawn(move || stage.end(signal).unwrap())
            });
            let ends: Vec<_> = ends.collect();
            ends.into_iter().map(|end| end.join().unwrap()).collect::<Vec<Observation>>()
        });
        for (nth, seen) in seen.iter().enumerate() {
            let what = format!("round {round}, {:?}: {seen:?}", TOGETHER[nth]);
            assert!(nth == 5 || seen.status.success() && !seen.stderr.contains("cannot remove"), "{what}");
        }
        // Stage 01 runs twice, and stages 03 and 06 print the same text: each of these has both runs' lines.
        assert_eq!([0, 4, 1].map(|nth| seen[nth].lines().len()), [8, 8, 24], "round {round}");
    }
    start("stage01").end(Signal::SIGINT).unwrap();
    assert_eq!(instances(), [""; 0]);
    wait_until("the programs are gone", || programs() == before);
}

/// Each of these engines has other system calls: read() after lseek(), pread64(), readv(), preadv() and preadv2(). Their
/// threads end at different times. fio's clock begins before a call and ends after it, and the disk's time is set.
fn stage12_agrees_with_fio() {
    const DISK: Duration = Duration::from_micros(1 << 15);
    quiet();
    let disk = NullBlk::new("waits", DISK).unwrap();
    let device = disk.device.to_str().unwrap();
    for engine in ["sync", "psync", "vsync", "pvsync", "pvsync2"] {
        let printed = sh(&format!(
            "stage12 -- fio --name=job --filename={device} --rw=randrw --bs=4k --direct=1 --ioengine={engine} --numjobs=4 \
             --thread --group_reporting --number_ios=6 --output-format=json"
        ));
        let (json, _) = printed[printed.find('{').unwrap()..].split_once("\nread: ").unwrap();
        let fio: Value = serde_json::from_str(json).unwrap();
        let mut all = 0;
        for call in ["read", "write"] {
            let fio = &fio["jobs"][0][call];
            let number = |number: &Value| number.as_u64().unwrap_or_else(|| panic!("{fio}"));
            let (least, most) = (DISK.as_micros() as u64, number(&fio["clat_ns"]["max"]) / 1000);
            let ours = truth::histogram_below(call, &printed).unwrap_or_else(|| panic!("{printed}"));
            let slow =
                ours.rows().filter(|row| row.1 >= least && row.0 <= most).map(|row| row.2).sum::<u64>();
            // On a busy machine, a read of fio's own files may take as long.
            let ios = number(&fio["total_ios"]);
            assert!(slow >= ios, "{engine}: {slow} of {ios}: {fio}\n{printed}");
            all += ios;
        }
        assert_eq!(all, 24, "{printed}");
    }
}

/// `cat` is in read() when the stage is attached, and ends there by a signal.
fn stage12_does_not_count_a_call_whose_start_it_did_not_see() {
    let mut cat = Command::new("cat");
    let mut cat = Killed(cat.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
    let pid = cat.pid().to_string();
    wait_until("cat reads", || sh(&format!("cat /proc/{pid}/stack")).contains("pipe_read"));
    let stage = Running::start(&["stage12", &pid]).unwrap();
    cat.0.kill().unwrap();
    let seen = stage.wait().unwrap();
    assert!(
        seen.status.success() && seen.stderr.contains(&format!("Process {pid} has ended.")),
        "{}",
        seen.stderr
    );
    for call in ["read", "write", "fsync"] {
        assert_eq!(truth::histogram_below(call, &seen.stdout), Some(Histogram::default()), "{}", seen.stdout);
    }
}
