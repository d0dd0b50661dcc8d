//! ctracer: the functions that it finds, and the calls and lives that it records.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::panic_any;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use ctracer::recording::{Record, Recording};
use ctracer::tree::{Call, Life, Tree};
use guest::device_mapper::{Linear, PIECES};
use guest::null_blk::NullBlk;
use guest::running::{Observation, Running};
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::signal::{Signal, kill};
use toolkit::ftrace::FunctionGraph;
use wire::disks::{PART_DEVICE, RAW_DEVICE};
use wire::workload::Done;

use crate::functions::{can_be_probed, functions};
use crate::guest::{AtEnd, Killed, Missed, io, one_by_one, programs, quiet, refused, sh, wait_until};
use crate::pagecache::{go, prepare};
use crate::{Case, cases};

/// `Outer`: the oldest kernel attaches functions one by one, and the newest has a link for all of them. Those between
/// have nothing new.
pub const CASES: &[Case] = cases![
    ctracer_finds_what_takes_a_struct(Once),
    ctracer_lives_are_what_io_did,
    ctracer_distinguishes_every_kind_of_bio,
    ctracer_ends_each_bio_of_a_chain,
    ctracer_nests_as_function_graph_does(Outer),
    ctracer_filters(Once),
    ctracer_traces_other_classes(Once),
    ctracer_tells_threads_apart_that_had_the_same_stack(Outer),
    ctracer_ends_in_every_phase(Outer),
    ctracer_keeps_what_it_cannot_write(Once),
];

/// Some of the functions that each bio passes through. Attaching all of them one by one, as on 5.10 and 6.1, takes
/// long.
pub const SOME: &str = "--functions submit_bio* --functions blk_mq_s*_bio* --functions *split*";

pub const FILE: &str = "/tmp/ctracer.rec";

/// Starts ctracer with these options.
pub fn start(options: &str) -> Running {
    crate::guest::start(&format!("ctracer --output {FILE} --lines 3 {options}"))
}

/// Ends ctracer, and returns what it recorded. If the kernel has not shown some calls, as a preemptible one may, the
/// case starts over.
pub fn end(stage: Running) -> Tree {
    let tree = end_as_it_is(stage);
    if let Some(missed @ 1..) = tree.losses.as_ref().and_then(|losses| losses.suppressed) {
        eprintln!("{missed} calls were not shown");
        panic_any(Missed);
    }
    tree
}

pub fn end_as_it_is(stage: Running) -> Tree {
    let seen = stage.end(Signal::SIGINT).unwrap();
    assert!(seen.status.success(), "{seen:?}");
    tree(&seen)
}

pub fn tree(seen: &Observation) -> Tree {
    let recording = Recording::read(Path::new(FILE)).unwrap();
    assert!(!recording.cut, "{seen:?}");
    Tree::new(recording)
}

/// What ctracer recorded while `work` ran.
fn watch<T>(options: &str, work: impl FnOnce() -> T) -> (Tree, T) {
    let stage = start(options);
    let done = work();
    (end(stage), done)
}

pub fn name<'a>(tree: &'a Tree, call: &Call) -> &'a str {
    &tree.function(call).unwrap().name
}

/// The kernel's number for a device, by which we find its bios.
pub fn number(device: &str) -> u32 {
    let dev = fs::read_to_string(format!("/sys/class/block/{}/dev", crate::guest::name(device))).unwrap();
    let (major, minor) = dev.trim().split_once(':').unwrap();
    major.parse::<u32>().unwrap() << 20 | minor.parse::<u32>().unwrap()
}

/// The lives of a device's bios with this operation, in the order in which they were submitted.
pub fn lives<'a>(tree: &'a Tree, device: &str, operation: &str) -> Vec<&'a Life> {
    let number = number(device);
    let is_it = |life: &&Life| life.bio.device == number && tree.operation(&life.bio) == operation;
    tree.lives.iter().filter(is_it).collect()
}

/// Properties of any recording.
pub fn check(tree: &Tree) {
    let losses = tree.losses.clone().unwrap();
    assert_eq!(losses.lost.iter().sum::<u64>(), 0);
    let mut open = 0;
    for call in &tree.calls {
        open += u64::from(call.end.is_none());
        let Some(parent) = call.parent.map(|parent| &tree.calls[parent]) else { continue };
        assert!(parent.place.time <= call.place.time && parent.end >= call.end, "{parent:?} {call:?}");
        assert_eq!(call.depth, parent.depth + 1);
        assert_eq!(call.place.interrupt, parent.place.interrupt);
    }
    // The calls that the kernel suppressed may be returns; 5.10 and 6.1 do not count them.
    if let Some(suppressed) = losses.suppressed {
        assert!(open <= suppressed + 1, "{open} calls have no return, {suppressed} are missing");
    }
    for life in &tree.lives {
        assert_eq!(name(tree, &tree.calls[life.calls[0]]), "submit_bio");
        assert_eq!(tree.calls[life.calls[0]].object, life.object);
        if life.end.is_some() {
            assert_eq!(name(tree, &tree.calls[*life.calls.last().unwrap()]), "bio_endio");
        }
    }
}

fn ctracer_finds_what_takes_a_struct() {
    let functions = functions();
    let can_be_probed = can_be_probed();
    for class in ["bio", "request"] {
        let text = sh(&format!("ctracer list --class {class}"));
        let argument =
            |classes: &[Option<String>]| classes.iter().position(|found| found.as_deref() == Some(class));
        let truth: BTreeMap<_, _> = functions
            .iter()
            .filter_map(|(name, classes)| Some((name.clone(), argument(classes)? + 1)))
            .collect();
        let (mut good, mut bad) = (BTreeMap::new(), BTreeSet::new());
        for line in text.lines() {
            if let Some(names) = line.strip_prefix("  ") {
                bad.extend(names.split(' ').map(str::to_owned));
            } else if let Some((argument, prototype)) = line.split_once(' ').filter(|_| line.ends_with(';')) {
                let name = prototype.split('(').next().unwrap().split([' ', '*']).next_back().unwrap();
                good.insert(name.to_owned(), argument.parse::<usize>().unwrap());
            }
        }
        assert!(good.len() > 50, "{text}");
        for (function, argument) in &good {
            assert!(can_be_probed.contains(function), "{function}");
            assert_eq!(truth.get(function), Some(argument), "{function}");
        }
        let all: BTreeSet<_> = good.keys().cloned().chain(bad.iter().cloned()).collect();
        assert_eq!(all, truth.keys().cloned().collect());
        assert!(bad.is_disjoint(&can_be_probed), "{bad:?}");
    }
}

fn ctracer_lives_are_what_io_did() {
    quiet();
    let (tree, done) = watch(SOME, || io("write /dev/scratch --count 50 --size 8192"));
    check(&tree);
    let lives = lives(&tree, RAW_DEVICE, "write");
    assert_eq!(lives.len(), tree.lives.len(), "there was nothing else");
    assert_eq!(lives.len() as u64, done.count);
    for (nth, life) in lives.iter().enumerate() {
        assert_eq!((life.bio.sector, life.bio.bytes, life.status), (16 * nth as u64, 8192, 0));
        assert!(life.end.is_some() && life.calls.len() >= 4, "{life:?}");
        let submit = &tree.calls[life.calls[0]];
        assert_eq!(tree.tasks[submit.task].pid, done.pid);
        // `io` waits for each of them, so they are within the time that it reports.
        assert!(done.first_ns <= life.start && life.end.unwrap() <= done.last_ns, "{life:?} {done:?}");
        let next = lives.get(nth + 1).map_or(u64::MAX, |next| next.start);
        assert!(life.end.unwrap() < next);
    }
    // An interrupt ended at least one of them, and its calls are not the task's.
    let ended = |life: &&Life| tree.calls[*life.calls.last().unwrap()].place.interrupt;
    assert!(lives.iter().any(ended));
}

fn ctracer_distinguishes_every_kind_of_bio() {
    quiet();
    let (tree, done) = watch(SOME, || {
        let work = [
            "write /dev/part --count 5",
            "read-direct /dev/scratch --count 6",
            "write /dev/scratch --size 1048576 --count 2",
        ];
        let done = work.map(io);
        sh("blkdiscard -o 1048576 -l 65536 /dev/scratch");
        sh("dd if=/dev/zero of=/dev/scratch bs=4096 count=3 seek=900 conv=fsync,notrunc");
        done
    });
    check(&tree);
    let [written, read, large] = done;
    let sizes =
        |done: &Done| (0..done.count).map(|nth| nth * done.bytes / done.count / 512).collect::<Vec<_>>();
    let sectors = |lives: &[&Life]| lives.iter().map(|life| life.bio.sector).collect::<Vec<_>>();
    // A partition has its own sectors and its own name.
    let part = lives(&tree, PART_DEVICE, "write");
    assert_eq!(sectors(&part), sizes(&written));
    assert!(tree.device(part[0].bio.device, part[0].start).ends_with("p1"));
    assert_eq!(sectors(&lives(&tree, RAW_DEVICE, "read"))[..read.count as usize], sizes(&read));
    // One life for any number of pieces, which end before it does.
    let writes = lives(&tree, RAW_DEVICE, "write");
    let whole: Vec<_> = writes.iter().filter(|life| life.bio.bytes == 1 << 20).collect();
    assert_eq!(whole.len() as u64, large.count);
    for life in whole {
        let objects: BTreeSet<_> = life.calls.iter().map(|call| tree.calls[*call].object).collect();
        assert!(objects.len() > 1, "it has no pieces: {life:?}");
        let end = &tree.calls[*life.calls.last().unwrap()];
        assert_eq!(life.end, Some(end.place.time));
        let ended = life.calls.iter().map(|call| &tree.calls[*call]);
        let ended = ended.filter(|call| name(&tree, call) == "bio_endio").map(|call| call.object);
        assert_eq!(ended.collect::<BTreeSet<_>>(), objects, "each piece ends");
    }
    let discards = lives(&tree, RAW_DEVICE, "discard");
    assert_eq!(discards.iter().map(|life| u64::from(life.bio.bytes)).sum::<u64>(), 65536);
    assert_eq!(discards[0].bio.sector, 2048);
    let flushes = lives(&tree, RAW_DEVICE, "flush");
    assert_eq!(flushes.len(), 1);
    let cached: u64 =
        writes.iter().filter(|life| life.bio.sector >= 7200).map(|life| u64::from(life.bio.bytes)).sum();
    assert!(cached >= 3 * 4096, "{cached}");
    assert!(tree.lives.iter().all(|life| life.end.is_some()));
}

/// The kernel zeros a large range with many bios, each chained to the next one.
fn ctracer_ends_each_bio_of_a_chain() {
    quiet();
    ends_each_bio_of_a_chain(RAW_DEVICE, "writezeroes");
    // A disk that must be written to. The first bio takes longest, and its end is that of all others, too.
    let [slow, fast] = [("slow", PIECES[1]), ("fast", PIECES[0])];
    let [slow, fast] = [slow, fast].map(|(name, time)| NullBlk::new(name, time).unwrap());
    let disk = Linear::new("chain", &[(&slow.device, 8), (&fast.device, (60 << 11) - 8)]).unwrap();
    ends_each_bio_of_a_chain(disk.device.to_str().unwrap(), "write");
}

fn ends_each_bio_of_a_chain(disk: &str, operation: &str) {
    const BYTES: u64 = 60 << 20;
    let file = fs::File::options().write(true).open(disk).unwrap();
    let zero = || fallocate(&file, FallocateFlags::FALLOC_FL_ZERO_RANGE, 0, BYTES as i64).unwrap();
    let (tree, ()) = watch(SOME, zero);
    check(&tree);
    let lives = lives(&tree, disk, operation);
    assert_eq!(lives.iter().map(|life| u64::from(life.bio.bytes)).sum::<u64>(), BYTES, "{operation}");
    assert!(lives.len() > 30, "{operation}: {} lives", lives.len());
    let open = lives.iter().filter(|life| life.end.is_none()).count();
    assert_eq!(open, 0, "{operation}: of {} lives without an end", lives.len());
    // Each waits for the one before it, and the process for the last.
    assert!(lives.iter().zip(&lives[1..]).all(|(life, next)| life.end <= next.end));
    let ends = tree.calls.iter().filter(|call| name(&tree, call) == "bio_endio");
    assert_eq!(lives.last().unwrap().end, ends.map(|call| call.place.time).max());
}

/// What each `submit_bio()` calls, by depth.
fn below_submit_bio(calls: &[(usize, String)]) -> BTreeSet<Vec<(usize, String)>> {
    let submits = calls.iter().enumerate().filter(|(_, (_, name))| name == "submit_bio");
    let below = submits.map(|(nth, (depth, _))| {
        let inner = calls[nth + 1..].iter().take_while(|(inner, _)| inner > depth);
        inner.map(|(inner, name)| (inner - depth, name.clone())).collect()
    });
    below.collect()
}

/// Writes of this process, as ctracer and then as the kernel's own tracer see them. An interrupt or another task may come in
/// the middle of some, but not of all.
fn ctracer_nests_as_function_graph_does() {
    quiet();
    let write = || one_by_one("write /dev/scratch", 16);
    let (tree, _) = watch(SOME, write);
    check(&tree);
    let ours = tree.calls.iter().filter(|call| !call.place.interrupt);
    let ours: Vec<_> = ours.map(|call| (call.depth as usize, name(&tree, call).to_owned())).collect();
    let is_traced = |name: &str| tree.header.functions.iter().any(|function| function.name == name);
    let graph = FunctionGraph::of(std::process::id(), is_traced).unwrap();
    let (_, text) = graph.record(|| Ok(write())).unwrap();
    let theirs = text.lines().filter_map(|line| {
        // CPU) DURATION | CALL, which is `name();`, or `name() {`, and later `}`.
        let (_, call) = line.split_once('|')?;
        let (name, _) = call.trim().split_once("()").filter(|(name, _)| !name.starts_with('}'))?;
        Some(((call.len() - call.trim_start().len()) / 2, name.to_owned()))
    });
    let theirs: Vec<_> = theirs.collect();
    let [ours, theirs] = [ours, theirs].map(|calls| below_submit_bio(&calls));
    assert!(ours.intersection(&theirs).any(|calls| calls.len() > 2), "{ours:?} {theirs:?}");
}

fn ctracer_filters() {
    quiet();
    // Two disks and two processes; returns the id of the one that is traced.
    let beside_another = |disk: &str, options: &str| {
        let one = prepare(&format!("write {disk} --count 20"));
        let pid = one.id();
        let stage = start(&format!("--pid {pid} {options}"));
        let other = thread::spawn(|| io("write /dev/scratch --count 20"));
        go(one);
        other.join().unwrap();
        let tree = end(stage);
        check(&tree);
        no_return_without_its_call();
        (tree, pid)
    };
    let (tree, _) = beside_another("/dev/part", SOME);
    assert_eq!((tree.lives.len(), lives(&tree, PART_DEVICE, "write").len()), (20, 20));
    assert!(tree.lives.iter().all(|life| life.end.is_some()), "another process's interrupt ends it");

    let disk = fs::canonicalize(RAW_DEVICE).unwrap();
    let options = format!("--device {} --functions *submit_bio* --exclude __*", disk.display());
    let (tree, _) = watch(&options, || {
        io("write /dev/part --count 10");
        io("write /dev/scratch --count 10")
    });
    assert_eq!((tree.lives.len(), lives(&tree, RAW_DEVICE, "write").len()), (10, 10));
    no_return_without_its_call();
    let names: BTreeSet<_> = tree.header.functions.iter().map(|function| function.name.clone()).collect();
    assert!(names.contains("bio_endio") && names.contains("submit_bio_noacct"), "{names:?}");
    let fits = |name: &String| name == "bio_endio" || name.contains("submit_bio") && !name.starts_with("__");
    assert!(names.iter().all(fits), "{names:?}");

    // The kernel reuses requests for any task, so with `--pid`, ctracer does not follow a request to another task.
    // The submitter calls one of these on each kernel; the last ones run in an interrupt.
    let functions =
        ["blk_mq_start_request", "blk_account_io_start", "__rq_qos_track", "*complete_rq", "*end_request"];
    let functions = functions.map(|glob| format!("--functions {glob}")).join(" ");
    let (tree, pid) = beside_another("/dev/scratch", &format!("--class request {functions}"));
    assert!(tree.calls.iter().all(|call| tree.tasks[call.task].pid == pid && !call.place.interrupt));

    let stage = start(&format!("--max-events 25 {SOME}"));
    io("write /dev/scratch --count 30");
    let seen = stage.wait().unwrap();
    assert!(seen.status.success());
    let recorded = self::tree(&seen);
    assert_eq!(recorded.calls.len(), 25);
}

/// If ctracer does not record a call, it must not send the call's return either.
#[track_caller]
fn no_return_without_its_call() {
    let records = Recording::read(Path::new(FILE)).unwrap().records;
    let calls = records.iter().filter(|record| matches!(record, Record::Call(_))).count();
    let returns = records.iter().filter(|record| matches!(record, Record::Return(_))).count();
    assert!(0 < returns && returns <= calls, "{returns} returns, {calls} calls");
}

fn ctracer_traces_other_classes() {
    quiet();
    let (tree, done) =
        watch("--class request --functions blk_mq_s*_request", || io("write /dev/scratch --count 12"));
    check(&tree);
    assert!(tree.lives.is_empty());
    let started = tree.calls.iter().filter(|call| name(&tree, call) == "blk_mq_start_request").count();
    assert_eq!(started as u64, done.count);
    assert!(tree.calls.iter().all(|call| call.bio.is_none() && call.object != 0));
}

/// The kernel gives the stack of a thread that has ended to the next one, and the programs know a thread by its stack.
fn ctracer_tells_threads_apart_that_had_the_same_stack() {
    quiet();
    // Each of these processes writes one page when it closes the disk. None of them gets a name of its own.
    let command = "for i in $(seq 20); do (echo a > /dev/scratch) & echo $!; wait; done";
    let (tree, said) = watch("", || sh(command));
    check(&tree);
    let began = |life: &&Life| &tree.tasks[tree.calls[life.calls[0]].task];
    let writers: Vec<_> = lives(&tree, RAW_DEVICE, "write").iter().map(began).collect();
    if writers.iter().any(|task| task.comm.starts_with("kworker/")) {
        // After a sync(), the kernel's flusher looks once more for what to write. It may find a page before the shell closes
        // the disk.
        panic_any(Missed);
    }
    let pids: Vec<u32> = said.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(writers.iter().map(|task| task.tid).collect::<Vec<_>>(), pids);
}

/// Whether a link can hold all functions.
pub fn has_session() -> bool {
    let kallsyms = fs::read_to_string("/proc/kallsyms").unwrap();
    [" bpf_session_is_return\n", " register_fprobe_ips\n"].iter().all(|name| kallsyms.contains(name))
}

fn ctracer_ends_in_every_phase() {
    quiet();
    let before = programs();
    let nothing_stays = || wait_until("its programs are gone", || programs() == before);
    // While it attaches, or right after.
    sh(&format!("rm -f {FILE}"));
    let mut command = Command::new("ctracer");
    let mut child = Killed(command.args(["--output", FILE]).stdout(Stdio::null()).spawn().unwrap());
    wait_until("its programs are loaded", || programs() != before);
    kill(child.pid(), Signal::SIGINT).unwrap();
    let status = child.0.wait().unwrap();
    nothing_stays();
    assert_eq!(status.success(), Recording::read(Path::new(FILE)).is_ok(), "{status}");

    // While it records.
    let stage = start(SOME);
    io("write /dev/scratch --count 5");
    let tree = end(stage);
    nothing_stays();
    assert_eq!(tree.lives.len(), 5);

    // Killed while it records. The part that it has written can be opened.
    let stage = start(SOME);
    io("write /dev/scratch --count 5");
    wait_until("the last of them is in the file", || {
        let recording = Recording::read(Path::new(FILE)).unwrap();
        Tree::new(recording).lives.iter().filter(|life| life.end.is_some()).count() == 5
    });
    stage.end(Signal::SIGKILL).unwrap();
    nothing_stays();
    assert!(
        sh(&format!("ctracer show {FILE} 2>&1"))
            .contains("lives: 5, without an end: 0, what was lost is not known")
    );
    // Wherever the file is cut.
    let whole = fs::read(FILE).unwrap();
    for length in (whole.len() / 2..whole.len()).step_by(whole.len() / 20) {
        let cut = Recording::parse(&whole[..length], FILE).unwrap();
        assert!(!cut.records.is_empty());
    }
    // An old recording is not taken for the output of a run that can't begin.
    let text = refused(&format!("ctracer --output {FILE} --class bioo"));
    assert!(!text.contains("kept") && fs::read(FILE).unwrap() == whole, "{text}");
}

fn ctracer_keeps_what_it_cannot_write() {
    quiet();
    sh("mkdir -p /tmp/small && mount -t tmpfs -o size=16k small /tmp/small");
    let _unmount = AtEnd("umount /tmp/small");
    let stage = crate::guest::start(&format!("ctracer --html /tmp/small/x.html --lines 3 {SOME}"));
    io("write /dev/scratch --count 50");
    let seen = stage.end(Signal::SIGINT).unwrap();
    assert_eq!(seen.status.code(), Some(1), "{seen:?}");
    assert!(seen.stderr.contains("No space left"), "{seen:?}");
    let show = seen.stderr.lines().find_map(|line| line.strip_prefix("The recording is kept. Show it: "));
    assert!(show.unwrap().starts_with("ctracer show /tmp/"), "{seen:?}");
    let text = sh(&format!("{} 2>&1", show.unwrap()));
    assert!(text.contains("lives: 50,") && !text.contains("cut short"), "{text}");
}
