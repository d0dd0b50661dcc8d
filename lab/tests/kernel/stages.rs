//! What the stages print is the truth.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use common::report::Unpaired;
use common::trace_pipe::Line;
use lab::guest::null_blk::NullBlk;
use lab::guest::running::Running;
use lab::guest::truth::{self, Event, durations, unpaired};
use libbpf_rs::ObjectBuilder;
use nix::sys::signal::{Signal, kill};

use crate::guest::{instances, io, programs, quiet, sh, wait_until, watch, watch_while, with_ext4};
use crate::{Case, cases};

pub const CASES: &[Case] = cases![
    stage01_prints_each_direct_write_once,
    stage02_prints_each_start_and_each_end_once,
    stage03_prints_durations_that_are_end_minus_start,
    stage03_measures_a_disk_that_takes_20_ms,
    stage03_forgets_nothing_in_6000_writes,
    stage03_accounts_for_what_four_threads_did,
    stage03_counts_what_finds_no_room,
    stage04_finds_the_slowest_of_two_disks,
    stage05_reports_the_sector_that_was_written,
    stages_tell_the_truth_on_ext4,
    stages_see_their_own_lines_only,
    two_runs_of_a_stage_see_each_others_lines,
    shared_pipe_gives_everybodys_lines,
    shared_pipe_has_one_reader_or_each_line_one,
    before_the_first_io_there_is_nothing_to_report,
    every_way_to_end_leaves_nothing_behind,
    after_kill_the_next_run_clears_up,
    a_closed_pipe_ends_a_stage_without_io,
    what_came_before_ctrl_c_is_printed,
    a_stage_ends_in_the_middle_of_a_flood,
];

pub const SOAK: &[Case] = cases![
    soak_stage04_50000_writes,
    soak_stage03_200000_writes,
    soak_stage03_eight_threads,
    soak_every_way_to_end_of_every_stage
];

fn submits(events: &[(Line<'_>, Event)]) -> usize {
    events.iter().filter(|(_, event)| matches!(event, Event::Submit { .. })).count()
}

fn ends(events: &[(Line<'_>, Event)]) -> usize {
    events.iter().filter(|(_, event)| matches!(event, Event::End { .. })).count()
}

/// Checks what is printed of `count` writes to a disk that nobody else uses: exactly these lines, in order.
fn check_alone(number: u32, count: usize) {
    quiet();
    let (seen, done) = watch(&format!("stage{number:02}"), &format!("write /dev/scratch --count {count}"));
    truth::of_direct_writes(number, &seen, &done).unwrap();
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
        // The kernel learns a task's name when it is first scheduled away; until then it prints <...>.
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

/// The same while a file system's journal writes too.
fn stages_tell_the_truth_on_ext4() {
    with_ext4();
    io("write /mnt/file --count 16");
    io("sync /mnt/dirty");
    for number in 1..=6 {
        let (seen, done) = watch(&format!("stage{number:02}"), "write /mnt/file --count 16");
        truth::of_direct_writes(number, &seen, &done).unwrap();
    }
}

fn stage03_measures_a_disk_that_takes_20_ms() {
    const COMPLETION: Duration = Duration::from_millis(20);
    quiet();
    let disk = NullBlk::new("slow", COMPLETION).unwrap();
    let (seen, _) = watch("stage03", &format!("write {} --count 25", disk.device.display()));
    let events = truth::events(&seen).unwrap();
    let mut durations = durations(&events);
    assert_eq!(durations.len(), 25, "{}", seen.stdout);
    durations.sort_unstable();
    let [shortest, median] = [durations[0], durations[12]].map(Duration::from_nanos);
    assert!(shortest >= COMPLETION, "the shortest took {shortest:?}");
    // The timer's own delay and the emulation come on top.
    assert!(median < COMPLETION * 3 / 2, "the median is {median:?}");
}

fn many_in_a_row(count: u64) {
    quiet();
    let (seen, done) = watch("stage03", &format!("write /dev/scratch --size 512 --count {count}"));
    let events = truth::events(&seen).unwrap();
    assert_eq!(done.count, count);
    assert_eq!(submits(&events) as u64, count);
    assert_eq!(durations(&events).len() as u64, count);
    let Unpaired { open, dropped, missed, .. } = unpaired(&seen).unwrap();
    assert_eq!((open, dropped, missed.unwrap_or(0)), (0, 0, 0));
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

/// The kernel drops some calls of `bio_endio` that interrupt another kprobe program. The stage can't know them, but it
/// must not lose count.
fn many_at_once(threads: u64, count: u64) {
    quiet();
    let (seen, done) = watch("stage03", &format!("write /dev/scratch --threads {threads} --count {count}"));
    let events = truth::events(&seen).unwrap();
    let (submitted, ended, completed) =
        (submits(&events) as u64, ends(&events) as u64, durations(&events).len() as u64);
    let Unpaired { open, dropped, missed, .. } = unpaired(&seen).unwrap();
    assert_eq!(submitted, completed + open + dropped, "{}", seen.stdout.lines().last().unwrap());
    assert_eq!(dropped, 0);
    assert_eq!(ended, completed, "an end without a start");
    match missed {
        // Every I/O calls each function once, so what was not shown is what was missed.
        Some(missed) => assert_eq!(2 * done.count - submitted - ended, missed),
        None => assert!(submitted <= done.count && ended <= done.count),
    }
    println!("{submitted} submitted, {completed} completed, {open} open, missed {missed:?}");
}

/// A fast disk with many writers and a slow one with one: the slowest bio is the slow disk's, and it is the longest of
/// all durations that the same run printed, from whichever CPU.
fn slowest_of_two_disks(writes: u64) {
    const FAST: Duration = Duration::from_micros(100);
    // So long that no hiccup of the emulation makes a fast one slower.
    const SLOW: Duration = Duration::from_millis(300);
    quiet();
    let (fast, slow) = (NullBlk::new("fast", FAST).unwrap(), NullBlk::new("slow", SLOW).unwrap());
    let stage = Running::start(&["stage04"]).unwrap();
    let slow_writer =
        thread::spawn(move || (io(&format!("write {} --count 5", slow.device.display())), slow));
    io(&format!("write {} --size 512 --threads 4 --count {}", fast.device.display(), writes / 4));
    let (slow_done, _slow) = slow_writer.join().unwrap();
    let seen = stage.end(Signal::SIGINT).unwrap();
    assert!(seen.status.success() && !seen.stderr.contains("lost"), "{}", seen.stderr);

    let events = truth::events(&seen).unwrap();
    let slowest = truth::slowest(&seen).unwrap();
    assert_eq!(durations(&events).into_iter().max(), Some(slowest.duration()));
    assert!(Duration::from_nanos(slowest.duration()) >= SLOW, "{slowest:?}");
    let submit = Event::Submit { bio: Some(slowest.bio), ns: slowest.start };
    let (line, _) = events.iter().find(|(_, event)| *event == submit).unwrap();
    assert_eq!(line.pid, slow_done.pid, "the slow disk's writer submitted it");
    let cpus: std::collections::BTreeSet<_> = events.iter().map(|(line, _)| line.cpu).collect();
    assert_eq!(cpus.len(), 2, "both CPUs had a record");
}

fn stage04_finds_the_slowest_of_two_disks() {
    slowest_of_two_disks(5_000);
}

/// On a disk and on a partition, where it is the partition's own: the block layer adds the partition's start after
/// `submit_bio()` was called.
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

fn soak_stage03_eight_threads() {
    for _ in 0..10 {
        many_at_once(8, 1_250);
    }
}

/// A map with room for one start, and four bios in flight.
fn stage03_counts_what_finds_no_room() {
    quiet();
    let disk = NullBlk::new("slow", Duration::from_secs(1)).unwrap();
    let (seen, _) = watch("stage03-tiny", &format!("write {} --threads 4 --count 1", disk.device.display()));
    let events = truth::events(&seen).unwrap();
    assert_eq!((submits(&events), ends(&events), durations(&events).len()), (4, 4, 1), "{}", seen.stdout);
    let Unpaired { open, dropped, .. } = unpaired(&seen).unwrap();
    assert_eq!((open, dropped), (0, 3), "{}", seen.stdout);
}

fn before_the_first_io_there_is_nothing_to_report() {
    quiet();
    for number in 1..=5 {
        let (seen, ()) = watch_while(&format!("stage{number:02}"), || ());
        let mut lines = seen.stdout.lines();
        if number >= 4 {
            assert_eq!(lines.next(), Some("No I/O has finished, so none was the slowest."));
        }
        let counts = (number >= 3).then(|| unpaired(&seen).unwrap());
        assert!(counts.is_none_or(|counts| counts.open == 0 && counts.dropped == 0), "{}", seen.stdout);
        assert_eq!(lines.count(), usize::from(number >= 3), "{}", seen.stdout);
    }
}

/// Empties the common trace buffer and makes it as large as it is once a person has traced something: a BPF program
/// that switches its event on leaves it at the few KiB that it has after boot.
fn fresh_common_buffer() {
    sh("echo 1408 > /sys/kernel/tracing/buffer_size_kb; echo > /sys/kernel/tracing/trace");
}

/// Collects what the common trace pipe gives, until it gave so many lines.
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
    assert_eq!(count(&third.stdout, "bio_endio (bio="), WRITES);
    assert_eq!(count(&third.stdout, "submit_bio() -> bio_endio() time duration: "), WRITES);
    assert_eq!(third.stdout.lines().count(), WRITES * 3 + 1, "its lines and its report: {}", third.stdout);
    assert_eq!(count(&common, "submit_bio() called: "), WRITES);
    assert_eq!(count(&common, "submit_bio: not one of ours"), WRITES);
    assert_eq!(count(&common, "submit_bio(bio="), WRITES);
    assert_eq!(count(&common, "submit_bio() -> "), WRITES);
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
    // Both stages print at submit_bio, with the same text.
    assert_eq!(count(&shared.stdout, "submit_bio() called: "), 16, "{}", shared.stdout);
    assert_eq!(count(&shared.stdout, "bio_endio() called: "), 8, "{}", shared.stdout);
    assert_eq!(private.lines().len(), 16, "the shared pipe's reader took nothing from the private one");
}

/// Older kernels let two programs read the common pipe, and each line goes to one of them; newer ones refuse the second.
fn shared_pipe_has_one_reader_or_each_line_one() {
    const WRITES: usize = 64;
    quiet();
    fresh_common_buffer();
    let first = Running::start(&["stage01", "--shared-pipe"]).unwrap();
    match Running::start(&["stage01", "--shared-pipe"]) {
        Ok(second) => {
            assert!(common::preflight::release().starts_with("7."), "the older ones of the matrix refuse");
            io(&format!("write /dev/scratch --count {WRITES}"));
            // Both print at each call.
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

/// Stages 01 and 07 in each way, those between in one or two; all of them in each way is a part of the soak.
fn every_way_to_end_leaves_nothing_behind() {
    for number in 1..=7 {
        for (nth, end) in ENDS.into_iter().enumerate() {
            if [1, 7].contains(&number) || number % ENDS.len() == nth {
                end_a_stage(number, end);
            }
        }
    }
}

fn soak_every_way_to_end_of_every_stage() {
    for number in 1..=7 {
        ENDS.into_iter().for_each(|end| end_a_stage(number, end));
    }
}

fn end_a_stage(number: usize, end: End) {
    quiet();
    let before = programs();
    let name = format!("stage{number:02}");
    let lines_per_write = number.min(3);
    let has_report = |text: &str| text.contains("Starts without an end") == (number >= 3);
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
            let stage = Running::start(&[&name, "--duration", "0.7"]).unwrap();
            let start = Instant::now();
            let seen = stage.wait().unwrap();
            assert!(seen.status.success() && has_report(&seen.stdout), "--duration: {seen:?}");
            assert!(start.elapsed() > Duration::from_millis(500), "ended after {:?}", start.elapsed());
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
            let stage = Running::spawn(head.stdout(Stdio::piped())).unwrap();
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
    let stage =
        Running::spawn(Command::new("sh").args(["-c", "stage02 | true"]).stdout(Stdio::piped())).unwrap();
    // No write ever fails, since there is nothing to write: only poll() tells that nobody reads.
    stage.wait().unwrap();
    nothing_is_left(&before, "closed pipe");
}

/// The end must not come before the lines that are in the pipe already.
fn what_came_before_ctrl_c_is_printed() {
    quiet();
    let stage = Running::start(&["stage03"]).unwrap();
    kill(stage.pid(), Signal::SIGSTOP).unwrap();
    io("write /dev/scratch --count 100");
    // Both wait for the stage now: the lines in its pipe, and the signal.
    kill(stage.pid(), Signal::SIGINT).unwrap();
    let seen = stage.end(Signal::SIGCONT).unwrap();
    assert!(seen.status.success(), "{seen:?}");
    assert_eq!(seen.lines().len(), 300);
}

/// Lines that never stop coming must not keep a stage from looking at the clock.
fn a_stage_ends_in_the_middle_of_a_flood() {
    quiet();
    fresh_common_buffer();
    let before = programs();
    let flood = ["write", "/dev/scratch", "--size", "512", "--threads", "4", "--count", "30000"];
    let ios = truth::disk_ios().unwrap();
    let mut flood = Command::new("io").args(flood).stdout(Stdio::null()).spawn().unwrap();
    wait_until("the flood has begun", || truth::disk_ios().unwrap() > ios + 100);
    for arguments in [&["stage03", "--duration", "1"][..], &["stage03", "--duration", "1", "--shared-pipe"]] {
        let stage = Running::start(arguments).unwrap();
        let start = Instant::now();
        let seen = stage.wait().unwrap();
        assert!(seen.status.success(), "{}", seen.stderr);
        assert!(start.elapsed() < Duration::from_secs(15), "ended after {:?}", start.elapsed());
        assert!(
            seen.lines().len() > 100,
            "no flood: {} lines with {arguments:?}, {}",
            seen.lines().len(),
            seen.stderr
        );
        assert!(flood.try_wait().unwrap().is_none(), "and there still is");
    }
    flood.kill().unwrap();
    flood.wait().unwrap();
    nothing_is_left(&before, "a flood");
}

fn after_kill_the_next_run_clears_up() {
    quiet();
    let before = programs();
    let stage = Running::start(&["stage03"]).unwrap();
    let living = Running::spawn(Command::new("stage02").process_group(0).stdout(Stdio::piped())).unwrap();
    stage.end(Signal::SIGKILL).unwrap();
    assert_eq!(instances().len(), 2, "nobody could remove the killed run's trace pipe");
    let next = Running::start(&["stage01", "--duration", "0.1"]).unwrap();
    assert_eq!(instances().len(), 2, "the killed run's is gone, the living one's is spared");
    next.wait().unwrap();
    assert!(living.end(Signal::SIGINT).unwrap().status.success());
    nothing_is_left(&before, "kill -9");
}
