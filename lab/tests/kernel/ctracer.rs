//! ctracer: the functions that it finds, and the calls and lives that it records.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::panic_any;
use std::path::Path;
use std::thread;
use std::time::Duration;

use ctracer::recording::{Record, Recording};
use ctracer::tree::{Call, Life, Tree};
use guest::device_mapper::{Linear, PIECES, with_split};
use guest::null_blk::NullBlk;
use guest::running::{Observation, Running};
use guest::system::Setting;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::signal::Signal;
use toolkit::ftrace;
use wire::disks::{PART_DEVICE, RAW_DEVICE};
use wire::workload::Done;

use crate::functions::{can_be_probed, functions};
use crate::guest::{Missed, around, io, is_in, quiet, sh, wait_until};
use crate::latency::{READERS, busy_disk};
use crate::pagecache::{go, prepare};
use crate::{Case, cases, or_soak};

/// `Outer`: the oldest kernel attaches functions one by one, and the newest has a link for all of them. Those between
/// have nothing new.
pub const CASES: &[Case] = cases![
    ctracer_finds_what_takes_a_struct(Once),
    ctracer_lives_are_what_io_did,
    ctracer_distinguishes_every_kind_of_bio,
    ctracer_lives_last_until_the_last_piece_ends,
    ctracer_shows_the_wait_for_a_busy_disk_in_the_queue,
    ctracer_ends_each_bio_of_a_chain,
    ctracer_nests_as_function_graph_does(Outer),
    ctracer_filters(Once),
    ctracer_says_where_bios_without_lives_come_from,
    ctracer_names_the_disk_that_has_a_number_at_the_time,
    ctracer_loses_nothing(Outer),
    ctracer_traces_other_classes(Once),
    ctracer_sees_a_thread_change_its_name(Outer),
    ctracer_tells_threads_apart_that_had_the_same_stack(Outer),
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

/// Pieces on disks of different speed; each piece is the last to end in one case.
fn ctracer_lives_last_until_the_last_piece_ends() {
    quiet();
    with_split(|disk, size| {
        let (tree, done) = watch(SOME, || io(&format!("write {disk} --count 1 --size {size}")));
        check(&tree);
        let [life] = lives(&tree, disk, "write")[..] else { panic!("{:?}", tree.lives) };
        assert_eq!(u64::from(life.bio.bytes), size);
        assert!(Duration::from_nanos(life.duration().unwrap()) >= PIECES[2], "{life:?}");
        assert!(done.first_ns <= life.start && life.end.unwrap() <= done.last_ns, "{life:?} {done:?}");
        let ends = tree.calls.iter().filter(|call| name(&tree, call) == "bio_endio");
        assert_eq!(life.end, ends.map(|call| call.place.time).max(), "nothing ended later: {life:?}");
        Ok(())
    })
    .unwrap();
}

/// With a scheduler, readers wait in the queue of a busy disk, and it takes as long as was set for each.
fn ctracer_shows_the_wait_for_a_busy_disk_in_the_queue() {
    quiet();
    let (time, took, tool) = busy_disk(|device| start(&format!("--device {device} {SOME}")));
    let (time, tree) = (time.as_nanos() as u64, end(tool));
    let parts: Vec<_> = tree.lives.iter().map(|life| life.parts().unwrap()).collect();
    assert_eq!(parts.len() as u64, READERS, "{parts:?}");
    for (life, parts) in tree.lives.iter().zip(&parts) {
        assert_eq!(Some(parts.iter().sum()), life.duration(), "{parts:?}");
    }
    let sum = |part: usize| parts.iter().map(|parts| parts[part]).sum::<u64>();
    let each: u64 = took.iter().map(around).sum();
    let all = took.iter().map(|done| done.last_ns).max().unwrap()
        - took.iter().map(|done| done.first_ns).min().unwrap();
    assert!((READERS * time..=all).contains(&sum(2)), "{all}: {parts:?}");
    // The second waits for the first, the third for two, and so on.
    let least = time * (READERS * (READERS - 1) / 2 - READERS + 1);
    assert!((least..=each).contains(&sum(1)), "{least} to {each}: {parts:?}");
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

/// The calls of direct writes, as (depth, name): what a `submit_bio()` calls, and what a `bio_endio()` calls. Returns
/// the most frequent sequence, because occasionally an interrupt or another task's work intervenes.
type Shapes = [Vec<(usize, String)>; 2];

fn shapes(calls: &[(usize, String)]) -> Shapes {
    ["submit_bio", "bio_endio"].map(|root| {
        let mut count = BTreeMap::new();
        for (nth, (depth, name)) in calls.iter().enumerate() {
            if name == root {
                let inner = calls[nth + 1..].iter().take_while(|(inner, _)| inner > depth);
                let shape: Vec<_> = inner.map(|(inner, name)| (inner - depth, name.clone())).collect();
                *count.entry(shape).or_insert(0) += 1;
            }
        }
        count.into_iter().max_by_key(|(_, count)| *count).map(|(shape, _)| shape).unwrap_or_default()
    })
}

fn ctracer_nests_as_function_graph_does() {
    quiet();
    let (tree, _) = watch("", || io("write /dev/scratch --count 30"));
    check(&tree);
    // Each function that ctracer offers is attached.
    assert_eq!(
        tree.header.functions.len(),
        sh("ctracer list | grep -c ';$'").trim().parse::<usize>().unwrap()
    );
    // A function whose first argument is another one gets the same bios.
    let bios = |is_first: bool| -> BTreeSet<_> {
        let argument = |call: &&Call| tree.header.functions[call.function].argument;
        let calls = tree.calls.iter().filter(|call| (argument(call) == 1) == is_first);
        calls.map(|call| call.object).collect()
    };
    assert!(!bios(false).is_empty() && bios(false).is_subset(&bios(true)), "{:x?}", bios(false));
    // The calls of each stack separately, in order.
    let mut ours = BTreeMap::<_, Vec<_>>::new();
    for call in &tree.calls {
        let stack =
            (call.place.interrupt, if call.place.interrupt { 0 } else { call.place.tid }, call.place.cpu);
        ours.entry(stack).or_default().push((call.depth as usize, name(&tree, call).to_owned()));
    }
    let ours = shapes(&ours.into_values().flatten().collect::<Vec<_>>());

    let names: Vec<_> = tree.header.functions.iter().map(|function| function.name.as_str()).collect();
    // ftrace shows an interrupt's calls inside the function that it interrupts, unless they are left out.
    let [submit, _] = shapes(&function_graph(&names, "0"));
    let [_, end] = shapes(&function_graph(&names, "1"));
    let theirs = [submit, end];
    assert!(theirs[0].len() > 3 && !theirs[1].is_empty(), "{theirs:?}");
    assert_eq!(ours, theirs);
}

/// The calls of some direct writes as ftrace sees them, with or without those in interrupts. On 5.10 and 6.1, only
/// the whole machine's trace can do this, but no instance.
fn function_graph(names: &[&str], interrupts: &str) -> Vec<(usize, String)> {
    let at = |file: &str| Path::new("/sys/kernel/tracing").join(file);
    // By their numbers: for each name, the kernel would search all its functions.
    let list = fs::read_to_string(at("available_filter_functions")).unwrap();
    fs::write(at("set_ftrace_filter"), ftrace::numbers(&list, |name| names.contains(&name))).unwrap();
    let tracer = Setting::new(at("current_tracer"), "function_graph").unwrap();
    let option = Setting::new(at("options/funcgraph-irqs"), interrupts).unwrap();
    fs::write(at("trace"), "").unwrap();
    io("write /dev/scratch --count 30");
    let text = fs::read_to_string(at("trace")).unwrap();
    drop(option);
    drop(tracer);
    fs::write(at("set_ftrace_filter"), "").unwrap();
    assert!(!text.contains("LOST"), "{text}");

    let mut calls = BTreeMap::<_, Vec<_>>::new();
    for line in text.lines() {
        // CPU) DURATION | CALL, which is `name();`, or `name() {`, and later `}`.
        let Some((cpu, (_, call))) =
            line.split_once(')').and_then(|(cpu, rest)| Some((cpu, rest.split_once('|')?)))
        else {
            continue;
        };
        if let Some((name, _)) = call.trim().split_once("()").filter(|(name, _)| !name.starts_with('}')) {
            let depth = (call.len() - call.trim_start().len() - 2) / 2;
            calls.entry(cpu.trim().to_owned()).or_default().push((depth, name.to_owned()));
        }
    }
    calls.into_values().flatten().collect()
}

fn ctracer_filters() {
    quiet();
    // Two disks and two processes.
    let one = prepare("write /dev/part --count 20");
    let stage = start(&format!("--pid {} {SOME}", one.id()));
    let other = thread::spawn(|| io("write /dev/scratch --count 20"));
    go(one);
    other.join().unwrap();
    let tree = end(stage);
    check(&tree);
    assert_eq!((tree.lives.len(), lives(&tree, PART_DEVICE, "write").len()), (20, 20));
    assert!(tree.lives.iter().all(|life| life.end.is_some()), "another process's interrupt ends it");
    no_return_without_its_call();

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
    let one = prepare("write /dev/scratch --count 20");
    let pid = one.id();
    // The submitter calls one of these on each kernel; the last ones run in an interrupt.
    let functions =
        ["blk_mq_start_request", "blk_account_io_start", "__rq_qos_track", "*complete_rq", "*end_request"];
    let functions = functions.map(|glob| format!("--functions {glob}")).join(" ");
    let stage = start(&format!("--pid {pid} --class request {functions}"));
    let other = thread::spawn(|| io("write /dev/scratch --count 20"));
    go(one);
    other.join().unwrap();
    let tree = end(stage);
    check(&tree);
    no_return_without_its_call();
    assert!(tree.calls.iter().all(|call| tree.tasks[call.task].pid == pid && !call.place.interrupt));

    let stage = start(&format!("--max-events 25 {SOME}"));
    io("write /dev/scratch --count 30");
    let seen = stage.wait().unwrap();
    assert!(seen.status.success());
    let recorded = self::tree(&seen);
    assert_eq!(recorded.calls.len(), 25);
}

/// device-mapper makes a copy of each bio for the disk below, and hands it to submit_bio_noacct().
fn ctracer_says_where_bios_without_lives_come_from() {
    quiet();
    let below = NullBlk::new("below", Duration::from_millis(1)).unwrap();
    let upper = Linear::new("upper", &[(&below.device, 4096)]).unwrap();
    let upper = upper.device.to_str().unwrap();
    let seen = [below.device.to_str().unwrap(), upper].map(|device| {
        let stage = start(&format!("--device {device} {SOME}"));
        io(&format!("write {upper} --count 32"));
        let seen = stage.end(Signal::SIGINT).unwrap();
        let tree = tree(&seen);
        (tree.calls.len() >= 32, tree.lives.len(), seen.stderr)
    });
    let advice = format!("to see lives of its bios: --device {}\n", upper.strip_prefix("/dev/").unwrap());
    assert!(matches!(&seen[0], (true, 0, said) if said.contains(&advice)), "{seen:?}");
    assert!(matches!(&seen[1], (true, 32, said) if !said.contains("warning: ")), "{seen:?}");
}

fn ctracer_names_the_disk_that_has_a_number_at_the_time() {
    quiet();
    if is_in("..5.19") {
        return; // There, null_blk names its disks after their numbers.
    }
    let stage = start(SOME);
    let numbers = ["before", "after"].map(|name| {
        let disk = NullBlk::new(name, Duration::from_millis(1)).unwrap();
        let device = disk.device.to_str().unwrap();
        io(&format!("write {device} --count 8"));
        let is_named = || fs::read(FILE).unwrap().windows(name.len()).any(|part| part == name.as_bytes());
        wait_until("ctracer has looked at its name", is_named);
        number(device)
    });
    let tree = end(stage);
    assert_eq!(numbers[0], numbers[1]);
    // The kernel has read a new disk's partition table.
    let is_write = |life: &&Life| tree.operation(&life.bio) == "write";
    let lives = tree.lives.iter().filter(|life| life.bio.device == numbers[0]).filter(is_write);
    let names: Vec<_> = lives.map(|life| tree.device(life.bio.device, life.start)).collect();
    let eight = |name: &str| names.iter().filter(|other| *other == name).count();
    assert_eq!((eight("before"), eight("after"), names.len()), (8, 8, 16), "{names:?}");
}

/// If ctracer does not record a call, it must not send the call's return either.
#[track_caller]
fn no_return_without_its_call() {
    let records = Recording::read(Path::new(FILE)).unwrap().records;
    let calls = records.iter().filter(|record| matches!(record, Record::Call(_))).count();
    let returns = records.iter().filter(|record| matches!(record, Record::Return(_))).count();
    assert!(0 < returns && returns <= calls, "{returns} returns, {calls} calls");
}

/// Two threads do `count` I/Os each, and each I/O is a life.
fn ctracer_loses_nothing() {
    let count: u64 = or_soak(2_500, 25_000);
    quiet();
    let stage = start(SOME);
    io(&format!("write /dev/scratch --size 512 --threads 2 --count {count}"));
    // Its memory does not grow with its recording: it is the ring buffer, which is mapped twice, and its tables.
    let status = fs::read_to_string(format!("/proc/{}/status", stage.pid())).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    let memory: u64 = memory.unwrap().parse().unwrap();
    assert!(memory < 96 << 10, "{memory} KiB");
    let tree = end_as_it_is(stage);
    check(&tree);
    let ended = tree.lives.iter().filter(|life| life.end.is_some()).count() as u64;
    let sectors: BTreeSet<_> = tree.lives.iter().map(|life| life.bio.sector).collect();
    assert_eq!(sectors.len(), tree.lives.len());
    // All of them; or, on a preemptible kernel, all except those that it reports as missed.
    let told = tree.losses.as_ref().and_then(|losses| losses.suppressed).unwrap_or_default();
    assert!(ended <= 2 * count && ended + told >= 2 * count, "{ended} lives, {told} calls not shown");
    assert!(sectors.iter().all(|sector| *sector < 2 * count));
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

    // Its first argument, a struct of two words, is in two registers, so the inode is in the third.
    let options = "--class inode --functions timestamp_truncate --functions setattr_copy";
    let (tree, _) = watch(options, || sh("touch -d @1 /tmp/touched"));
    check(&tree);
    let inodes = |function| {
        let calls = tree.calls.iter().filter(|call| tree.tasks[call.task].comm == "touch");
        calls.filter(|call| name(&tree, call) == function).map(|call| call.object).collect::<BTreeSet<_>>()
    };
    // This function has the inode in another register, and is called only for the file that was touched.
    let (touched, looked_at) = (inodes("setattr_copy"), inodes("timestamp_truncate"));
    assert!(touched.len() == 1 && touched.is_subset(&looked_at), "{touched:x?} {looked_at:x?}");
}

/// The programs send a thread's name only once, and again when it changes.
fn ctracer_sees_a_thread_change_its_name() {
    quiet();
    // The shell writes one page when it closes the disk, and then becomes io, which writes three.
    let (tree, _) =
        watch("", || sh("echo a > /dev/scratch; exec io write --count 3 --size 4096 /dev/scratch"));
    check(&tree);
    let mut writers = BTreeMap::<&str, (BTreeSet<u32>, usize)>::new();
    for life in lives(&tree, "/dev/scratch", "write") {
        let task = &tree.tasks[tree.calls[life.calls[0]].task];
        let (tids, count) = writers.entry(&task.comm).or_default();
        tids.insert(task.tid);
        *count += 1;
    }
    if writers.keys().any(|name| name.starts_with("kworker/")) {
        // After a sync(), the kernel's flusher looks once more for what to write. If it gets no CPU for a while, it may
        // find the shell's page before the shell closes the disk.
        panic_any(Missed);
    }
    let [(io, (tids, 3)), (shell, (same, 1))] = &writers.into_iter().collect::<Vec<_>>()[..] else {
        panic!("{:?}", tree.tasks);
    };
    assert!(
        (*io, *shell) == ("io", "sh") && tids == same && tids.len() == 1,
        "{io} {tids:?} {shell} {same:?}"
    );
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
        panic_any(Missed); // see above
    }
    let pids: Vec<u32> = said.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(writers.iter().map(|task| task.tid).collect::<Vec<_>>(), pids);
}
