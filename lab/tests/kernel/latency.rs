//! The examples that show latencies count each I/O once, in the bucket for its disk's latency, and under its name.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use guest::device_mapper::Linear;
use guest::null_blk::{NullBlk, long_enough};
use guest::running::Running;
use guest::system::{Setting, evict, queue};
use guest::truth::disk_reads_and_writes;
use nix::sys::stat::{major, minor};
use nix::unistd::{Pid, gettid};
use serde_json::Value;
use wire::disks::RAW_DEVICE;
use wire::workload::Done;

use crate::guest::{
    AtEnd, around, end_exact, io, is_in, name, one_by_one, quiet, refused, sh, start, stat, wait_until,
    with_ext4,
};
use crate::{Case, biowhere, cases, ctracer};

pub const CASES: &[Case] = cases![
    biolatency_has_each_request_in_its_bucket(NoFentry),
    tools_show_how_long_requests_wait,
    biolatency_names_the_kinds_of_io,
    biolatency_reports_that_the_kernel_keeps_no_time,
    biolatency_looks_at_a_disk_that_makes_requests(Outer),
    tracex3_has_each_request_in_its_place(NoFentry),
];

/// What biolatency counted for the requests of one disk and one kind.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    pub count: u64,
    total: u64,
    /// Smallest value of a bucket, and count.
    buckets: BTreeMap<u64, u64>,
}

pub type Kinds = BTreeMap<(String, String), Latency>;

/// Ends a biolatency with `-j` and adds up its intervals, by disk and flags.
pub fn end(stage: Running) -> (Kinds, String) {
    let seen = end_exact(stage);
    let mut kinds = Kinds::new();
    let intervals = seen.stdout.lines().count() as u64;
    for interval in serde_json::Deserializer::from_str(&seen.stdout).into_iter::<Value>() {
        for row in interval.unwrap()["latency"].as_array().unwrap() {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let number = |value: &Value| value.as_u64().unwrap();
            let latency = kinds.entry((text("disk"), text("flags"))).or_default();
            latency.count += number(&row["count"]);
            latency.total += number(&row["total"]);
            for bucket in row["histogram"].as_array().unwrap() {
                *latency.buckets.entry(number(&bucket["from"])).or_default() += number(&bucket["count"]);
            }
        }
    }
    for latency in kinds.values() {
        let Latency { count, total, buckets } = latency;
        assert_eq!(buckets.values().sum::<u64>(), *count, "{kinds:?}");
        // The sum is counted separately, and must be possible with these buckets. It is rounded down in each
        // interval.
        let least: u64 = buckets.iter().map(|(from, count)| from * count).sum();
        let most: u64 = buckets.iter().map(|(from, count)| (from * 2).max(2) * count).sum();
        assert!(*total + intervals >= least && *total <= most, "{kinds:?}");
    }
    (kinds, seen.stderr)
}

/// Each I/O that ended within a time including the queue also did so without it.
fn assert_no_shorter(queued: &Kinds, without: &Kinds) {
    for (kind, queued) in queued {
        let without = &without[kind];
        assert_eq!(queued.count, without.count, "{kind:?}");
        assert!(queued.total >= without.total, "{kind:?}: {queued:?} {without:?}");
        let up_to =
            |latency: &Latency, end: u64| latency.buckets.range(..=end).map(|(_, count)| count).sum::<u64>();
        for end in without.buckets.keys().chain(queued.buckets.keys()) {
            assert!(up_to(queued, *end) <= up_to(without, *end), "{kind:?}: {queued:?} {without:?}");
        }
    }
}

/// Compares buckets, by their smallest value, with the time around each of the I/Os. There must be as many, none in a
/// bucket before the disk's, and none later than these times allow. On an idle machine, they allow only the disk's
/// bucket.
fn assert_possible(buckets: &BTreeMap<u64, u64>, disk: u64, took: &[u64]) {
    let from = |from: u64| buckets.range(from..).map(|(_, count)| count).sum::<u64>();
    assert_eq!((from(0), from(disk)), (took.len() as u64, took.len() as u64), "{buckets:?}");
    for start in buckets.keys() {
        let most = took.iter().filter(|time| *time >= start).count() as u64;
        assert!(from(*start) <= most, "{} from {start} on: {buckets:?} {took:?}", from(*start));
    }
}

/// What disks that take 2, 20 and 200 ms did at the same time.
pub struct ThreeDisks<T> {
    /// What was started before.
    pub tools: T,
    pub done: Vec<OneDisk>,
    /// What all disks counted.
    pub reads: u64,
    pub writes: u64,
    _disks: [NullBlk; 3],
}

/// What one of them did, one I/O after the other.
pub struct OneDisk {
    pub disk: String,
    pub ms: u64,
    pub kind: &'static str,
    pub took: Vec<Done>,
}

/// Lets each of the three disks do I/O of these kinds.
pub fn three_disks<T>(kinds: &[&'static str], start: impl FnOnce() -> T) -> ThreeDisks<T> {
    quiet();
    let disks =
        [2, 20, 200].map(|ms| NullBlk::new(&format!("takes{ms}"), Duration::from_millis(ms)).unwrap());
    let tools = start();
    let before = disk_reads_and_writes().unwrap();
    let done = thread::scope(|scope| {
        let mut ios = Vec::new();
        for (disk, (ms, count)) in disks.iter().zip([(2, 20), (20, 8), (200, 2)]) {
            for kind in kinds {
                let work = format!("{kind} {}", disk.device.display());
                ios.push((name(&disk.device), ms, *kind, scope.spawn(move || one_by_one(&work, count))));
            }
        }
        let done =
            ios.into_iter().map(|(disk, ms, kind, io)| OneDisk { disk, ms, kind, took: io.join().unwrap() });
        done.collect()
    });
    let after = disk_reads_and_writes().unwrap();
    ThreeDisks { tools, done, reads: after.0 - before.0, writes: after.1 - before.1, _disks: disks }
}

/// All options together, and several intervals.
fn biolatency_has_each_request_in_its_bucket() {
    // The second is attached later, so its programs see an end after the others.
    let start = || ["biolatency -FDmej 0.3", "biolatency -QFDmej"].map(start);
    let run = three_disks(&["write", "read-direct"], start);
    let [(without, told), (queued, told_queued)] = run.tools.map(end);
    assert_eq!(told + &told_queued, "Tracing. Ctrl-C to end.\n".repeat(2));

    let count = |is: &str| {
        let of_kind = without.iter().filter(|((_, flags), _)| flags.ends_with(is));
        of_kind.map(|(_, latency)| latency.count).sum::<u64>()
    };
    assert_eq!((count("Read"), count("Write")), (run.reads, run.writes), "{without:?}");
    assert_eq!(without.len(), 6, "{without:?}");
    for OneDisk { disk, ms, kind, took } in run.done {
        let kind = if kind == "write" { "Write" } else { "Read" };
        let found = without.iter().find(|((name, flags), _)| *name == disk && flags.ends_with(kind));
        let (_, Latency { total, buckets, .. }) = found.unwrap_or_else(|| panic!("{disk}: {without:?}"));
        // The most ms that each I/O can have taken.
        let took: Vec<_> = took.iter().map(|done| around(done) / 1_000_000).collect();
        assert_possible(buckets, 1 << ms.ilog2(), &took);
        // The sum of numbers that were rounded down.
        let most = took.iter().sum::<u64>() + took.len() as u64;
        assert!((ms * took.len() as u64..=most).contains(total), "{disk}, {kind}, {took:?}: {without:?}");
    }
    assert_no_shorter(&queued, &without);
}

/// How many readers [`busy_disk`] has.
const READERS: u64 = 8;

/// A disk that takes one request at a time, and eight readers, so the last one waits for the other seven. We don't
/// use writers, because mq-deadline makes them wait for a request, and then they wait before it and not in the queue.
/// Returns how long the disk takes, what each reader did, and what `start` has started before, for this disk.
fn busy_disk<T>(start: impl Fn(&str) -> T) -> (Duration, Vec<Done>, T) {
    sh("modprobe mq-deadline || true");
    long_enough(Duration::from_millis(50), |time| {
        let disk = NullBlk::with("one", time, &[("hw_queue_depth", 1)])?;
        let device = disk.device.to_str().unwrap();
        for (file, value) in [("scheduler", "mq-deadline"), ("nr_requests", "64"), ("nomerges", "2")] {
            fs::write(queue(device, file)?, value).unwrap();
        }
        let started = start(device);
        let reads = || stat(device)[0];
        // At this point, the kernel has already looked for partitions.
        let before = reads();
        let is_first = || reads() == before;
        let (all_wait, took) = thread::scope(|scope| {
            let (sender, readers) = mpsc::channel();
            let reader = |nth: u64| {
                let (sender, read) = (sender.clone(), format!("read-direct {device} --seek {nth}"));
                move || {
                    sender.send(gettid()).unwrap();
                    one_by_one(&read, 1).remove(0)
                }
            };
            let ios: Vec<_> = (0..READERS).map(|nth| scope.spawn(reader(nth))).collect();
            let readers: Vec<_> = readers.iter().take(ios.len()).collect();
            // If a task waits for something else, there is another number, or none.
            let pread = format!("{} ", nix::libc::SYS_pread64);
            let waits = |reader: &Pid| {
                let call = fs::read_to_string(format!("/proc/self/task/{reader}/syscall"));
                call.is_ok_and(|call| call.starts_with(&pread))
            };
            let all_wait = || readers.iter().all(waits);
            wait_until("all wait", || all_wait() || !is_first());
            // If none has ended by now, all of them wait for the first one in the queue.
            let all_wait = all_wait() && is_first();
            (all_wait, ios.into_iter().map(|io| io.join().unwrap()).collect::<Vec<_>>())
        });
        Ok(all_wait.then_some((time, took, started)))
    })
    .unwrap()
}

/// What happens before a request exists, `-Q` does not see. With a scheduler, readers wait in the queue of a busy disk, and
/// biowhere and ctracer show how long.
fn tools_show_how_long_requests_wait() {
    quiet();
    let (time, took, (tools, biowhere, ctracer)) = busy_disk(|device| {
        let tools = ["biolatency -mej", "biolatency -Qmej"].map(start);
        let biowhere = biowhere::start(&format!("-d {device}"));
        (tools, biowhere, ctracer::start(&format!("--device {device} {}", ctracer::SOME)))
    });
    let tree = ctracer::end(ctracer);
    let [without, queued] = tools.map(|tool| end(tool).0);
    assert_no_shorter(&queued, &without);
    let [without, queued] = [without, queued].map(|kinds| kinds.into_values().next().unwrap());
    assert_eq!((without.count, queued.count), (READERS, READERS));
    let ios = biowhere::end(biowhere);
    assert_eq!(ios.len() as u64, READERS, "{ios:?}");
    let sum = |part: fn(&biowhere::Io) -> u64| ios.iter().map(part).sum::<u64>();
    // One after the other, within the time of all of them.
    let all = took.iter().map(|done| done.last_ns).max().unwrap()
        - took.iter().map(|done| done.first_ns).min().unwrap();
    let each = took.iter().map(around).sum();
    let [time_ms, all_ms, each_ms] =
        [time.as_millis() as u64, all / 1_000_000 + READERS, each / 1_000_000 + READERS];
    let time = time.as_nanos() as u64;
    assert!((READERS * time_ms..=all_ms).contains(&without.total), "{all_ms} ms: {without:?}");
    assert!((READERS * time..=all).contains(&sum(|io| io.parts().disk)), "{all}: {ios:?}");
    // The second waits for the first, the third for two, and so on, and the first takes its own time.
    let waits = READERS * (READERS - 1) / 2;
    let least = time_ms * (waits + 1);
    assert!((least..=each_ms).contains(&queued.total), "{least} to {each_ms} ms: {queued:?}");
    let least = time * (waits + 1 - READERS);
    assert!((least..=each).contains(&sum(|io| io.parts().queue)), "{least} to {each}: {ios:?}");
    assert!(sum(|io| io.total) <= each, "{ios:?}");

    let lives: Vec<_> = tree.lives.iter().map(|life| life.parts().unwrap()).collect();
    assert_eq!(lives.len() as u64, READERS, "{lives:?}");
    for (life, parts) in tree.lives.iter().zip(&lives) {
        assert_eq!(Some(parts.iter().sum()), life.duration(), "{parts:?}");
    }
    let [in_queue, in_disk] = [1, 2].map(|part| lives.iter().map(|parts| parts[part]).sum::<u64>());
    assert!((READERS * time..=all).contains(&in_disk), "{all}: {lives:?}");
    assert!((least..=each).contains(&in_queue), "{least} to {each}: {lives:?}");
}

/// The kernel's own `rwbs` for each request that had bytes, compared with biolatency's name for it.
fn biolatency_names_the_kinds_of_io() {
    const TRACE: &str = "/sys/kernel/tracing/instances/kinds";
    with_ext4();
    let direct = |count: u64| io(&format!("write /mnt/direct --count {count}"));
    let cold = || io("read-cold /mnt/cold --count 64");
    // Create the files.
    let _: [Done; 2] = [direct(4), cold()];
    evict("/mnt/cold").unwrap();
    let _trace =
        AtEnd("cd /sys/kernel/tracing/instances/kinds && echo 0 > events/block/enable; cd ..; rmdir kinds");
    sh(&format!("mkdir {TRACE} && echo 1 > {TRACE}/events/block/block_rq_issue/enable"));
    let stage = start("biolatency -QFj");

    direct(4);
    let mut file = fs::File::create("/mnt/fsync").unwrap();
    file.write_all(&[0xb1; 16 * 4096]).unwrap();
    file.sync_all().unwrap();
    cold();
    sh("sync");
    let (kinds, _) = end(stage);

    let trace = fs::read_to_string(format!("{TRACE}/trace")).unwrap();
    let mut truth = BTreeMap::<String, u64>::new();
    for line in trace.lines() {
        let Some((_, event)) = line.split_once(": block_rq_issue: ") else { continue };
        // 259,0 WS 4096 () ...
        let [_, rwbs, bytes, ..] = event.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        if bytes != "0" {
            *truth.entry(rwbs.to_owned()).or_default() += 1;
        }
    }
    // The letters for the parts of a name. `rwbs` does not show parts without a letter.
    let rwbs = |flags: &str| {
        let letter = |part: &str, letter: &'static str| if flags.contains(part) { letter } else { "" };
        let operation = &flags[flags.rfind('-').map_or(0, |last| last + 1)..][..1];
        let parts = [("ForcedUnitAccess", "F"), ("ReadAhead", "A"), ("Sync", "S"), ("Metadata", "M")];
        operation.to_owned() + &parts.map(|(part, short)| letter(part, short)).concat()
    };
    let mut seen = BTreeMap::<String, u64>::new();
    for ((_, flags), latency) in &kinds {
        *seen.entry(rwbs(flags)).or_default() += latency.count;
    }
    assert_eq!(seen, truth, "{kinds:?}");

    // The block that ends a transaction bypasses the disk's cache. It is metadata since 6.12.
    assert!(kinds.keys().any(|(_, flags)| flags.contains("ForcedUnitAccess-")), "{kinds:?}");
}

/// Before `block_io_start` existed, `-Q` relied on a time that the kernel keeps for its own statistics.
fn biolatency_reports_that_the_kernel_keeps_no_time() {
    quiet();
    let _off = Setting::new(queue("/dev/scratch", "iostats").unwrap(), "0").unwrap();
    let stage = start("biolatency -Qj");
    io("write /dev/scratch --count 4");
    let (kinds, told) = end(stage);
    assert_eq!(kinds.into_values().map(|latency| latency.count).sum::<u64>(), 4);
    let is_old = is_in("..6.5");
    assert_eq!(told.contains("warning: 4 requests count without their time in the queue"), is_old, "{told}");
}

/// `-d` takes a disk's name, its device, or a node with another name, such as those that udev makes in /dev/mapper. Disks
/// that pass their bios on make no requests.
fn biolatency_looks_at_a_disk_that_makes_requests() {
    quiet();
    let [scratch, part] = [RAW_DEVICE, "/dev/part"].map(|device| fs::canonicalize(device).unwrap());
    let (scratch_name, whole) =
        (name(&scratch), part.to_str().unwrap().strip_suffix("p1").map(name).unwrap());
    let tools = ["", " -Q"].map(|option| start(&format!("biolatency -Dj{option} -d {scratch_name}")));
    io("write /dev/scratch --count 5");
    io("write /dev/part --count 3");
    for tool in tools {
        let (kinds, told) = end(tool);
        let found: Vec<_> = kinds.iter().map(|((disk, _), latency)| (disk.as_str(), latency.count)).collect();
        assert_eq!(found, [(scratch_name.as_str(), 5)]);
        assert!(!told.contains("warning"), "{told}");
    }
    let error = refused("biolatency -d sdzz9");
    assert!(error.contains("sdzz9 is not a disk") && error.contains(&scratch_name), "{error}");

    let lower = Linear::new("lower", &[(&scratch, 4096)]).unwrap();
    let upper = Linear::new("upper", &[(&lower.device, 2048), (&part, 2048)]).unwrap();
    let disk = name(&upper.device);
    let mut beneath = [scratch_name, whole];
    beneath.sort();
    let number = fs::metadata(&upper.device).unwrap().rdev();
    sh(&format!("mknod /dev/up b {} {}", major(number), minor(number)));
    let _removed = AtEnd("rm /dev/up");
    for name in [&*disk, "/dev/up"] {
        let error = refused(&format!("biolatency -d {name}"));
        assert!(error.contains(&format!("{disk} makes no requests")), "{error}");
        assert!(error.contains(&format!("beneath it are: {}", beneath.join(" "))), "{error}");
    }
}

/// Rows of a heat map, added up: the smallest latency of a slot in microseconds, and the count.
fn cells(stage: Running) -> BTreeMap<u64, u64> {
    let seen = end_exact(stage);
    assert!(!seen.stderr.contains("warning"), "{seen:?}");
    let mut cells = BTreeMap::new();
    for row in serde_json::Deserializer::from_str(&seen.stdout).into_iter::<Value>() {
        for cell in row.unwrap()["cells"].as_array().unwrap() {
            *cells.entry(cell["from"].as_u64().unwrap()).or_default() += cell["count"].as_u64().unwrap();
        }
    }
    cells
}

/// A late I/O may be in a later slot, but none is in an earlier one.
fn tracex3_has_each_request_in_its_place() {
    let start = || {
        ["tracex3 --json --interval 0.1 --svg /tmp/heatmap.svg", "tracex3 --json --linear 1000"].map(start)
    };
    let run = three_disks(&["write"], start);
    let [log, linear] = run.tools.map(cells);
    // The most microseconds that each write can have taken.
    let took: Vec<_> = run.done.iter().flat_map(|disk| &disk.took).map(|done| around(done) / 1000).collect();
    for cells in [&log, &linear] {
        assert_eq!(cells.values().sum::<u64>(), run.writes, "{cells:?}");
    }
    // 2 ms are in the slot from 1,792 us on, 20 ms from 16,384, 200 ms from 196,608. The linear one ends with 95 ms.
    for (cells, starts) in [(&log, [1792, 16_384, 196_608]), (&linear, [2000, 20_000, 95_000])] {
        assert_possible(cells, starts[0], &took);
        let from = |start: u64| cells.range(start..).map(|(_, count)| count).sum::<u64>();
        assert!(from(starts[1]) >= 10 && from(starts[2]) >= 2, "{cells:?}");
    }
    // A cell's text in the picture: 17:04:00: 2 from 196ms to 229ms
    let svg = fs::read_to_string("/tmp/heatmap.svg").unwrap();
    let titles =
        svg.split("<title>").skip(1).filter_map(|title| title.split_once("</title>")?.0.split_once(" from "));
    let [mut all, mut slowest] = [0; 2];
    for (count, slot) in titles {
        let count: u64 = count.rsplit(' ').next().unwrap().parse().unwrap();
        all += count;
        slowest += if slot == "196ms to 229ms" { count } else { 0 };
    }
    assert_eq!((all, slowest), (30, log.get(&196_608).copied().unwrap_or(0)), "{log:?} {svg}");
    assert!(svg.ends_with("</svg>\n"), "{svg}");
}
