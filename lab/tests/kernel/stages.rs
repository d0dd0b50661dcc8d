//! What the stages print is true.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use common::trace_pipe::Line;
use guest::check::Program;
use guest::checks;
use guest::null_blk::{NullBlk, long_enough};
use guest::running::{Observation, Running};
use guest::truth::{self, Event, NOT_MEASURED, durations, not_measured};
use guest::verdict::Checked;
use libbpf_rs::ObjectBuilder;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, gettid};
use wire::workload::{Done, Io};

use crate::guest::{
    AtEnd, around, instances, io, is_in, one_by_one, programs, quiet, sh, wait_until, watch, watch_while,
    with_ext4,
};
use crate::variants::TEXTS;
use crate::{Case, cases};

pub const CASES: &[Case] = cases![
    stage01_prints_each_direct_write_once(NoFentry),
    stage02_prints_each_start_and_each_end_once,
    stage03_prints_durations_that_are_end_minus_start,
    stage03_measures_a_disk_that_takes_20_ms,
    stage03_forgets_nothing_in_6000_writes(Once),
    stage03_accounts_for_what_four_threads_did(Outer),
    a_missed_end_makes_no_bio_slow,
    stage03_counts_what_finds_no_room,
    stage04_finds_the_slowest_of_two_disks,
    stage05_reports_the_sector_that_was_written,
    stages_are_right_on_ext4(Outer),
    an_event_is_a_line_whatever_its_thread_is_called(Outer),
    stages_see_their_own_lines_only(Outer),
    every_text_arrives_on_a_private_pipe,
    two_runs_of_a_stage_see_each_others_lines(Outer),
    shared_pipe_gives_everybodys_lines(Outer),
    shared_pipe_has_one_reader_or_each_line_one(Outer),
    before_the_first_io_there_is_nothing_to_report(Outer),
    every_way_to_end_leaves_nothing_behind(Outer),
    after_kill_the_next_run_clears_up(Outer),
    a_closed_pipe_ends_a_stage_without_io(Outer),
    what_came_before_ctrl_c_is_printed(Outer),
    ctrl_c_before_a_stage_has_started_ends_the_run,
    a_stage_ends_in_the_middle_of_a_flood(Once),
    soak_stage04_50000_writes(Soak),
    soak_stage03_200000_writes(Soak),
    soak_stage03_eight_threads(Soak),
    soak_every_way_to_end_of_every_stage(Soak),
];

fn submits(events: &[(Line<'_>, Event)]) -> usize {
    events.iter().filter(|(_, event)| matches!(event, Event::Submit { .. })).count()
}

fn ends(events: &[(Line<'_>, Event)]) -> usize {
    events.iter().filter(|(_, event)| matches!(event, Event::End { .. })).count()
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
    let events = truth::events(&seen).unwrap();
    assert_eq!(submits(&events), count, "{}", seen.stdout);
    assert_eq!(ends(&events), if number > 1 { count } else { 0 }, "{}", seen.stdout);
    assert_eq!(durations(&events).len(), if number > 2 { count } else { 0 }, "{}", seen.stdout);
    let times = events.iter().filter_map(|(_, event)| match *event {
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
    assert!(events.iter().all(task), "{}", seen.stdout);
}

fn stage01_prints_each_direct_write_once() {
    check_alone(1, 64);
}

fn stage02_prints_each_start_and_each_end_once() {
    check_alone(2, 64);
}

fn stage03_prints_durations_that_are_end_minus_start() {
    check_alone(3, 64);
}

/// The same while a file system's journal also writes.
fn stages_are_right_on_ext4() {
    with_ext4();
    io("write /mnt/file --count 16");
    io("sync /mnt/dirty");
    for (number, _, right) in of_bios() {
        let (seen, done) = watch(&format!("stage{number:02}"), "write /mnt/file --count 16");
        right(&seen, &done).unwrap();
    }
}

/// A thread may have any name, even with the end of a line, a color of the terminal, or the beginning of a trace line.
fn an_event_is_a_line_whatever_its_thread_is_called() {
    const NAMES: [&[u8]; 4] = [b"a\nb\x1b[31mred", b"-1 [000] .... 1", b"x\ny-98 [000]", b"\xff\x9b31m\n\n"];
    quiet();
    let disk = NullBlk::new("named", Duration::from_millis(1)).unwrap();
    let write = format!("write {}", disk.device.display());
    let named = |name: &'static [u8], write: String| {
        thread::spawn(move || {
            std::fs::write("/proc/thread-self/comm", name).unwrap();
            one_by_one(&write, 4);
        })
    };
    for (number, lines_per_write, _) in traces() {
        let lines = NAMES.len() * 4 * lines_per_write;
        for options in [&[][..], &["--lines", "5"]] {
            let stage = format!("stage{number:02}");
            let stage = Running::start(&[&[&*stage], options].concat()).unwrap();
            for name in NAMES {
                named(name, write.clone()).join().unwrap();
            }
            let seen = if options.is_empty() { stage.end(Signal::SIGINT) } else { stage.wait() }.unwrap();
            assert!(!seen.stdout.contains(|c: char| c.is_control() && c != '\n'), "{seen:?}");
            let trace = seen.stdout.lines().filter(|line| Line::parse(line).is_some()).count();
            let all = if options.is_empty() { lines } else { 5 };
            assert_eq!((trace, seen.lines().len()), (all, all), "{}", seen.stdout);
            // What a line was broken into would be among the others; the report comes after them.
            let is_whole = |line: &&str| Line::parse(line).is_some();
            assert_eq!(seen.stdout.lines().take_while(is_whole).count(), all, "{}", seen.stdout);
        }
    }
}

fn stage03_measures_a_disk_that_takes_20_ms() {
    const COMPLETION: Duration = Duration::from_millis(20);
    quiet();
    let disk = NullBlk::new("slow", COMPLETION).unwrap();
    let write = format!("write {}", disk.device.display());
    let (seen, writes) = watch_while("stage03", || one_by_one(&write, 25));
    check_durations(&durations(&truth::events(&seen).unwrap()), COMPLETION, &writes);
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

/// As many as fit into the stage's trace pipe, and again when the stage has printed them.
fn many_in_a_row(count: u64) {
    const AT_ONCE: u64 = 10_000;
    quiet();
    let stage = Running::start(&["stage03"]).unwrap();
    for done in (0..count).step_by(AT_ONCE as usize) {
        let now = AT_ONCE.min(count - done);
        io(&format!("write /dev/scratch --size 512 --count {now}"));
        let lines = 3 * (done + now) as usize;
        wait_until("they are printed", || stage.lines() >= lines);
    }
    let seen = stage.end(Signal::SIGINT).unwrap();
    assert!(seen.status.success() && !seen.stderr.contains("lost"), "{}", seen.stderr);
    let events = truth::events(&seen).unwrap();
    assert_eq!(submits(&events) as u64, count);
    assert_eq!(durations(&events).len() as u64, count);
    assert_eq!(not_measured(&seen).unwrap(), 0);
}

/// More than the map holds: starts that are not deleted would fill it.
fn stage03_forgets_nothing_in_6000_writes() {
    many_in_a_row(6_000);
}

fn soak_stage03_200000_writes() {
    for _ in 0..2 {
        many_in_a_row(100_000);
    }
}

/// The kernel drops some calls of `bio_endio` that interrupt another kprobe program. The stage can't see them, but
/// its counts must still add up.
fn many_at_once(threads: u64, count: u64) {
    quiet();
    let (seen, done) = watch("stage03", &format!("write /dev/scratch --threads {threads} --count {count}"));
    let events = truth::events(&seen).unwrap();
    let (submitted, ended, completed) =
        (submits(&events) as u64, ends(&events) as u64, durations(&events).len() as u64);
    assert_eq!(ended, completed, "an end without a start");
    // Every I/O calls each function once, so the calls without a line are those that the kernel skipped. A skipped end
    // leaves its start in the map, too, unless a later bio has the same address.
    let skipped = if is_in("6.7..") { 2 * done.count - submitted - ended } else { 0 };
    let missing = not_measured(&seen).unwrap();
    assert!((skipped..=skipped + submitted - completed).contains(&missing), "{missing}, {skipped} skipped");
    println!("{submitted} submitted, {completed} completed, {missing} missing");
}

/// A fast disk with many writers and a slow one with one writer: the slowest bio is the slow disk's, and it is the
/// longest of all durations that the same run printed, on any CPU.
fn slowest_of_two_disks(writes: u64) {
    quiet();
    let (seen, slow, slow_done) = long_enough(Duration::from_millis(300), |slow| {
        let fast = slow / 3000;
        let (fast_disk, slow_disk) = (NullBlk::new("fast", fast)?, NullBlk::new("slow", slow)?);
        let write = format!("write {}", slow_disk.device.display());
        let stage = Running::start(&["stage04"])?;
        let slow_writer = thread::spawn(move || (gettid(), one_by_one(&write, 5)));
        io(&format!("write {} --size 512 --threads 4 --count {}", fast_disk.device.display(), writes / 4));
        let slow_done = slow_writer.join().unwrap();
        let seen = stage.end(Signal::SIGINT)?;
        // On a busy machine, a write to the fast disk may take as long, and lines come faster than they are read. Next
        // time, both disks are slower.
        let events = truth::events(&seen)?;
        let long = durations(&events).into_iter().filter(|ns| Duration::from_nanos(*ns) >= slow).count();
        let is_whole = !seen.stderr.contains("lost");
        Ok((long <= 5 && is_whole).then_some((seen, slow, slow_done)))
    })
    .unwrap();
    assert!(seen.status.success(), "{}", seen.stderr);

    let events = truth::events(&seen).unwrap();
    let slowest = truth::slowest(&seen).unwrap();
    assert_eq!(durations(&events).into_iter().max(), Some(slowest.duration()));
    let (writer, writes) = slow_done;
    let most = writes.iter().map(around).max().unwrap();
    assert!((slow.as_nanos() as u64..=most).contains(&slowest.duration()), "{slowest:?} {writes:?}");
    let submit = Event::Submit { bio: Some(slowest.bio), ns: slowest.start };
    let (line, _) = events.iter().find(|(_, event)| *event == submit).unwrap();
    assert_eq!(line.pid, writer.as_raw() as u32, "the slow disk's writer submitted it");
    let cpus: std::collections::BTreeSet<_> = events.iter().map(|(line, _)| line.cpu).collect();
    assert_eq!(cpus.len(), 2, "both CPUs had a record");
}

fn stage04_finds_the_slowest_of_two_disks() {
    slowest_of_two_disks(2_000);
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

fn soak_stage04_50000_writes() {
    slowest_of_two_disks(50_000);
}

fn stage03_accounts_for_what_four_threads_did() {
    many_at_once(4, 1_250);
}

/// A start whose end was missed is counted, and doesn't become that of the next bio at its address.
fn a_missed_end_makes_no_bio_slow() {
    // The kernel moves a task's stack at random, where these bios are: up to 64 addresses.
    const WRITES: usize = 128;
    quiet();
    for stage in ["stage03-misses", "stage06-misses"] {
        let (seen, done) = watch_while(stage, || one_by_one("write /dev/scratch", WRITES));
        let events = truth::events(&seen).unwrap();
        let durations = durations(&events);
        assert_eq!((submits(&events), durations.len()), (WRITES, WRITES / 2), "{}", seen.stdout);
        // The first, the third, and so on: no duration is longer than the time around its write.
        for (duration, done) in durations.iter().zip(done.iter().step_by(2)) {
            assert!(*duration <= around(done), "{stage}: {duration} ns of {done:?}\n{}", seen.stdout);
        }
        assert_eq!(not_measured(&seen).unwrap(), WRITES as u64 / 2, "{}", seen.stdout);
        if stage.starts_with("stage06") {
            assert_eq!(Some(truth::slowest(&seen).unwrap().duration()), durations.into_iter().max());
        }
    }
}

fn soak_stage03_eight_threads() {
    for _ in 0..10 {
        many_at_once(8, 1_250);
    }
}

/// A map with room for one start, and four bios in flight.
fn stage03_counts_what_finds_no_room() {
    quiet();
    let seen = long_enough(Duration::from_millis(500), |time| {
        let disk = NullBlk::new("slow", time)?;
        let write = format!("write {} --threads 4 --count 1", disk.device.display());
        let (seen, _) = watch("stage03-tiny", &write);
        // All four are in flight if the stage has seen them begin before it saw one end.
        let events = truth::events(&seen)?;
        let is_end = |(_, event): &(_, Event)| matches!(event, Event::End { .. });
        let first_end = events.iter().position(is_end).unwrap_or(0);
        Ok((submits(&events[..first_end]) == 4).then_some(seen))
    })
    .unwrap();
    let events = truth::events(&seen).unwrap();
    assert_eq!((submits(&events), ends(&events), durations(&events).len()), (4, 4, 1), "{}", seen.stdout);
    assert_eq!(not_measured(&seen).unwrap(), 3, "{}", seen.stdout);
}

fn before_the_first_io_there_is_nothing_to_report() {
    quiet();
    for (number, lines_per_write, _) in of_bios() {
        let (seen, ()) = watch_while(&format!("stage{number:02}"), || ());
        let mut lines = seen.stdout.lines();
        if (4..=6).contains(&number) {
            assert_eq!(lines.next(), Some("No I/O has finished, so none was the slowest."));
        }
        let has_report = lines_per_write >= 3;
        assert!(!has_report || not_measured(&seen).unwrap() == 0, "{}", seen.stdout);
        assert_eq!(lines.count(), usize::from(has_report), "{}", seen.stdout);
    }
}

/// Empties the global trace buffer, and makes it as large as it is after a person has traced something. A BPF program
/// that enables its event leaves the buffer at the few KiB that it has after boot.
fn fresh_common_buffer() {
    sh("echo 1408 > /sys/kernel/tracing/buffer_size_kb; echo > /sys/kernel/tracing/trace");
}

/// Reads the global trace pipe until it has returned this many lines.
fn read_common_pipe(lines: usize) -> (mpsc::Sender<()>, thread::JoinHandle<String>) {
    let mut pipe = File::open("/sys/kernel/tracing/trace_pipe").unwrap();
    let (sender, ready) = mpsc::channel();
    let reader = thread::spawn(move || {
        ready.recv().unwrap();
        let (mut text, mut chunk) = (String::new(), vec![0; 64 * 1024]);
        while text.lines().filter(|line| !line.is_empty()).count() < lines {
            let read = pipe.read(&mut chunk).unwrap();
            text += str::from_utf8(&chunk[..read]).unwrap();
        }
        text
    });
    (sender, reader)
}

fn count(text: &str, message: &str) -> usize {
    text.lines().filter_map(Line::parse).filter(|line| line.message.starts_with(message)).count()
}

fn stages_see_their_own_lines_only() {
    const WRITES: usize = 32;
    quiet();
    fresh_common_buffer();
    let shout = ObjectBuilder::default().open_file("/bin/shout.bpf.o").unwrap().load().unwrap();
    let links: Vec<_> = shout.progs_mut().map(|program| program.attach().unwrap()).collect();
    let first = Running::start(&["stage01"]).unwrap();
    let third = Running::start(&["stage03"]).unwrap();
    let (start, common) = read_common_pipe(WRITES * (1 + 3 + 1));
    io(&format!("write /dev/scratch --count {WRITES}"));
    start.send(()).unwrap();
    let common = common.join().unwrap();
    let [first, third] = [first, third].map(|stage| stage.end(Signal::SIGINT).unwrap());
    drop(links);

    assert_eq!(count(&first.stdout, "submit_bio() called: "), WRITES);
    assert_eq!(first.stdout.lines().count(), WRITES, "{}", first.stdout);
    assert_eq!(count(&third.stdout, "submit_bio(bio="), WRITES);
    assert_eq!(count(&third.stdout, "bio_endio(bio="), WRITES);
    assert_eq!(count(&third.stdout, "submit_bio() -> bio_endio() time duration: "), WRITES);
    assert_eq!(third.stdout.lines().count(), WRITES * 3 + 1, "its lines and its report: {}", third.stdout);
    assert_eq!(count(&common, "submit_bio() called: "), WRITES);
    assert_eq!(count(&common, "submit_bio: not one of ours"), WRITES);
    assert_eq!(count(&common, "submit_bio(bio="), WRITES);
    assert_eq!(count(&common, "submit_bio() -> "), WRITES);
}

/// Whatever a learner prints, it arrives, or the run says why the kernel refuses it.
fn every_text_arrives_on_a_private_pipe() {
    const WRITES: usize = 4;
    quiet();
    let shout = ObjectBuilder::default().open_file("/bin/shout.bpf.o").unwrap().load().unwrap();
    let _links: Vec<_> = shout.progs_mut().map(|program| program.attach().unwrap()).collect();
    let [texts, any] = ["stage01-texts", "stage01-any"].map(|stage| {
        let stage = Running::start(&[stage]).unwrap();
        io(&format!("write /dev/scratch --count {WRITES}"));
        stage.end(Signal::SIGINT).unwrap()
    });
    let count = |seen: &Observation, start: &str| {
        let messages = seen.stdout.lines().map(|line| Line::parse(line).unwrap().message);
        messages.filter(|message| message.starts_with(start)).count()
    };
    let mut refused = 0;
    for text in TEXTS.split("(\"").skip(1) {
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

fn two_runs_of_a_stage_see_each_others_lines() {
    quiet();
    let stages = [(); 2].map(|()| Running::start(&["stage01"]).unwrap());
    io("write /dev/scratch --count 8");
    for seen in stages.map(|stage| stage.end(Signal::SIGINT).unwrap()) {
        assert_eq!(seen.lines().len(), 16, "{}", seen.stdout);
    }
}

fn shared_pipe_gives_everybodys_lines() {
    quiet();
    fresh_common_buffer();
    let private = Running::start(&["stage01"]).unwrap();
    let shared = Running::start(&["stage02", "--shared-pipe", "--lines", "24"]).unwrap();
    assert_eq!(instances().len(), 1, "only the private run has a pipe of its own");
    io("write /dev/scratch --count 8");
    let [private, shared] = [private.end(Signal::SIGINT).unwrap(), shared.wait().unwrap()];
    // Both stages print in submit_bio, with the same text.
    assert_eq!(count(&shared.stdout, "submit_bio() called: "), 16, "{}", shared.stdout);
    assert_eq!(count(&shared.stdout, "bio_endio() called: "), 8, "{}", shared.stdout);
    assert_eq!(private.lines().len(), 16, "the shared pipe's reader took nothing from the private one");
}

/// Some kernels let two programs read the global pipe, and each line goes to one of them; others refuse the second.
fn shared_pipe_has_one_reader_or_each_line_one() {
    const WRITES: usize = 64;
    quiet();
    fresh_common_buffer();
    let first = Running::start(&["stage01", "--shared-pipe"]).unwrap();
    match Running::start(&["stage01", "--shared-pipe"]) {
        Ok(second) => {
            assert!(is_in("7.0.."), "the older ones of the matrix refuse");
            io(&format!("write /dev/scratch --count {WRITES}"));
            // Both print at each call. A stage that ends does not read much longer, so all lines must have been read
            // by then.
            wait_until("all lines are read", || first.lines() + second.lines() >= 2 * WRITES);
            let seen = [first, second].map(|stage| stage.end(Signal::SIGINT).unwrap().lines().len());
            assert_eq!(seen.iter().sum::<usize>(), 2 * WRITES, "{seen:?}");
        }
        Err(error) => {
            assert!(error.to_string().contains("this kernel allows one reader"), "{error}");
            first.end(Signal::SIGINT).unwrap();
        }
    }
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

/// Stages 01 and 07 end in each way, those between in one or two; the soak ends all of them in each way.
fn every_way_to_end_leaves_nothing_behind() {
    for (number, lines, _) in traces() {
        for (nth, end) in ENDS.into_iter().enumerate() {
            if [1, 7].contains(&number) || number as usize % ENDS.len() == nth {
                end_a_stage(number, lines, end);
            }
        }
    }
}

fn soak_every_way_to_end_of_every_stage() {
    for (number, lines, _) in traces() {
        ENDS.into_iter().for_each(|end| end_a_stage(number, lines, end));
    }
}

fn end_a_stage(number: u32, lines_per_write: usize, end: End) {
    quiet();
    let before = programs();
    let name = format!("stage{number:02}");
    let has_report = |text: &str| text.contains(NOT_MEASURED) == (lines_per_write >= 3);
    match end {
        End::Signal(signal) => {
            let stage = Running::start(&[&name]).unwrap();
            assert_eq!(instances().len(), 1);
            assert!(programs().len() > before.len());
            io("write /dev/scratch --count 4");
            let seen = stage.end(signal).unwrap();
            assert!(seen.status.success() && has_report(&seen.stdout), "{signal}: {seen:?}");
            assert_eq!(seen.lines().len(), 4 * lines_per_write, "{signal}: {}", seen.stdout);
        }
        End::Duration => {
            let start = Instant::now();
            let stage = Running::start(&[&name, "--duration", "0.7"]).unwrap();
            let seen = stage.wait().unwrap();
            assert!(seen.status.success() && has_report(&seen.stdout), "--duration: {seen:?}");
            assert!(start.elapsed() >= Duration::from_millis(700), "ended after {:?}", start.elapsed());
        }
        End::Lines => {
            let stage = Running::start(&[&name, "--lines", "5"]).unwrap();
            io("write /dev/scratch --count 8");
            let seen = stage.wait().unwrap();
            assert!(seen.status.success() && has_report(&seen.stdout), "--lines: {seen:?}");
            assert_eq!(seen.lines().len(), 5, "{}", seen.stdout);
        }
        End::ClosedPipe => {
            let mut head = Command::new("sh");
            head.args(["-c", &format!("{name} | head -n 3")]);
            let stage = Running::spawn(&mut head).unwrap();
            io("write /dev/scratch --count 8");
            let seen = stage.wait().unwrap();
            assert_eq!(seen.stdout.lines().count(), 3, "{}", seen.stdout);
            assert!(!seen.stderr.contains("rror"), "{}", seen.stderr);
            assert!(has_report(&seen.stderr), "the report goes to stderr then: {}", seen.stderr);
        }
    }
    nothing_is_left(&before, &format!("{name}, {end:?}"));
}

fn a_closed_pipe_ends_a_stage_without_io() {
    quiet();
    let before = programs();
    let stage = Running::spawn(Command::new("sh").args(["-c", "stage02 | true"])).unwrap();
    // No write ever fails, because there is nothing to write. Only poll() shows that the reader is gone.
    stage.wait().unwrap();
    nothing_is_left(&before, "closed pipe");
}

/// The stage must not end before it has printed the lines that are already in the pipe.
fn what_came_before_ctrl_c_is_printed() {
    quiet();
    let stage = Running::start(&["stage03"]).unwrap();
    kill(stage.pid(), Signal::SIGSTOP).unwrap();
    io("write /dev/scratch --count 100");
    // Now both wait for the stage: the lines in its pipe, and the signal.
    kill(stage.pid(), Signal::SIGINT).unwrap();
    let seen = stage.end(Signal::SIGCONT).unwrap();
    assert!(seen.status.success(), "{seen:?}");
    assert_eq!(seen.lines().len(), 300);
}

/// A thread for each CPU that writes to a disk that takes no time, and so never waits, until this is dropped.
struct Flood {
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
    _disk: NullBlk,
}

impl Flood {
    fn start() -> Self {
        let disk = NullBlk::with("flood", Duration::ZERO, &[("irqmode", 0)]).unwrap();
        let device = disk.device.to_str().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let writer = || {
            let stop = stop.clone();
            let io = Io::try_parse_from(["io", "write", device, "--size", "512", "--count", "500"]).unwrap();
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    guest::workload::run(&io).unwrap();
                }
            })
        };
        let threads = (0..2).map(|_| writer()).collect();
        Self { stop, threads, _disk: disk }
    }

    fn is_on(&self) -> bool {
        !self.threads.iter().any(|thread| thread.is_finished())
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// The guest first makes the file for `io`. On a frozen file system, it waits for that until we let it go on.
fn ctrl_c_before_a_stage_has_started_ends_the_run() {
    quiet();
    with_ext4();
    sh("fsfreeze --freeze /mnt");
    let thaw = AtEnd("fsfreeze --unfreeze /mnt");
    let mut run = Command::new("guest");
    run.args(["beside", "--io=write /mnt/new", "stage01", "--lines", "1"]).stdout(Stdio::piped());
    let run = run.spawn().unwrap();
    let state = || sh(&format!("grep State: /proc/{}/status", run.id()));
    wait_until("it waits for the file system", || state().contains("D (disk sleep)"));
    kill(Pid::from_raw(run.id() as i32), Signal::SIGINT).unwrap();
    drop(thaw);
    let seen = run.wait_with_output().unwrap();
    assert_eq!((seen.status.signal(), seen.stdout), (Some(Signal::SIGINT as i32), Vec::new()));
}

/// An endless stream of lines must not keep a stage from checking the time.
fn a_stage_ends_in_the_middle_of_a_flood() {
    quiet();
    fresh_common_buffer();
    let before = programs();
    for option in [None, Some("--shared-pipe")] {
        // If the time is too short for a flood, the case proves nothing.
        let seen = long_enough(Duration::from_secs(1), |time| {
            let seconds = time.as_secs().to_string();
            let stage = ["stage03", "--duration", &seconds].into_iter().chain(option);
            let stage = Running::start(&stage.collect::<Vec<_>>())?;
            // So the stage gets less CPU than the writers, and never catches up with them.
            sh(&format!("renice -n 5 -p {}", stage.pid()));
            let flood = Flood::start();
            // It ends although the flood does not.
            let seen = stage.wait()?;
            assert!(flood.is_on());
            Ok((seen.lines().len() > 100).then_some(seen))
        });
        assert!(seen.as_ref().unwrap().status.success(), "{option:?}: {seen:?}");
    }
    nothing_is_left(&before, "a flood");
}

fn after_kill_the_next_run_clears_up() {
    quiet();
    let before = programs();
    let stage = Running::start(&["stage03"]).unwrap();
    let living = Running::spawn(Command::new("stage02").process_group(0)).unwrap();
    stage.end(Signal::SIGKILL).unwrap();
    assert_eq!(instances().len(), 2, "nobody could remove the killed run's trace pipe");
    let next = Running::start(&["stage01"]).unwrap();
    assert_eq!(instances().len(), 2, "the killed run's is gone, the living one's is spared");
    next.end(Signal::SIGINT).unwrap();
    assert!(living.end(Signal::SIGINT).unwrap().status.success());
    nothing_is_left(&before, "kill -9");
}
