//! Stage 07 counts each read and each write of a disk once, as the disk's own counters do.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use guest::device_mapper::Linear;
use guest::null_blk::{NullBlk, long_enough};
use guest::running::Observation;
use guest::system::{Setting, queue};
use guest::truth::{self, Event, disk_ios};
use wire::disks::RAW_DEVICE;

use crate::guest::{
    AtEnd, end_exact, io, is_in, one_by_one, quiet, refused, sh, start, stat, trace, wait_until, watch_while,
    with_ext4,
};
use crate::stages::check_durations;
use crate::{Case, biowhere, cases};

pub const CASES: &[Case] = cases![
    stage07_times_each_direct_write_once(NoFentry),
    stage07_measures_a_disk_that_takes_20_ms(NoFentry),
    stage07_counts_the_parts_of_a_split_write(NoFentry),
    stage07_counts_no_flush,
    stage07_needs_no_iostats(Outer),
    stage07_counts_the_requests_of_disks_on_others,
    requests_of_dm_multipath_count_twice,
    stage03_does_not_count_commands_for_the_driver,
    stage07_counts_a_request_that_fails_in_part_once(X86),
    stage07_counts_a_request_that_is_started_twice_once(X86),
    stage07_counts_ends_without_a_start,
];

/// Counts flushes that were submitted on their own, without data to write: `blkdev_issue_flush()`; and commands to a
/// zone. The disks' counters count each of them as a write.
pub struct EmptyFlushes;

impl EmptyFlushes {
    const TRACE: &str = "/sys/kernel/tracing/instances/flushes";

    pub fn new() -> Self {
        sh(&format!(
            "mkdir {0} && cd {0}/events/block/block_bio_queue && echo nr_sector == 0 > filter && echo 1 > enable",
            Self::TRACE
        ));
        Self
    }

    pub fn count(&self) -> u64 {
        let trace = fs::read_to_string(format!("{}/trace", Self::TRACE)).unwrap();
        trace.lines().filter(|line| line.contains("block_bio_queue: ")).count() as u64
    }
}

impl Drop for EmptyFlushes {
    fn drop(&mut self) {
        sh(&format!("echo 0 > {0}/events/block/block_bio_queue/enable; rmdir {0}", Self::TRACE));
    }
}

/// How many reads and how many writes of a disk are in flight.
pub fn in_flight(device: &str) -> [u64; 2] {
    let counts = fs::read_to_string(queue(device, "../inflight").unwrap()).unwrap();
    let counts: Vec<_> = counts.split_whitespace().map(|count| count.parse().unwrap()).collect();
    counts.try_into().unwrap()
}

/// What stage 07 or a variant of it prints while `work` runs, and how many reads and writes of data the disks count
/// meanwhile.
fn watch_requests(stage: &str, work: impl FnOnce()) -> (Observation, u64) {
    sh("sync");
    let flushes = EmptyFlushes::new();
    let (seen, before) = watch_while(stage, || {
        let before = disk_ios().unwrap();
        work();
        before
    });
    (seen, disk_ios().unwrap() - before - flushes.count())
}

/// The same for stage 07. Every read and write that the disks counted has a duration, and nothing is left over.
fn watch_all(work: impl FnOnce()) -> (Observation, u64) {
    let (seen, ios) = watch_requests("stage07", work);
    let trace = trace(&seen);
    assert_eq!((trace.not_measured, trace.durations.len() as u64), (Some(0), ios), "{}", seen.stdout);
    (seen, ios)
}

fn stage07_times_each_direct_write_once() {
    quiet();
    // Built in on 5.10 and 6.1, so there is no module to load.
    sh("modprobe mq-deadline || true");
    for scheduler in ["none", "mq-deadline"] {
        let chosen = queue("/dev/scratch", "scheduler").unwrap();
        let _setting = Setting::new(&chosen, scheduler).unwrap();
        assert!(fs::read_to_string(chosen).unwrap().contains(&format!("[{scheduler}]")), "{scheduler}");
        let (seen, ios) = watch_all(|| drop(io("write /dev/scratch --count 64")));
        let trace = trace(&seen);
        assert_eq!((trace.started, trace.completed, ios), (64, 64, 64), "{scheduler}: {}", seen.stdout);
        // Without flushes and partial completions: start, completion and duration of one request after the other.
        for (nth, lines) in trace.events.chunks(3).enumerate() {
            let [
                (_, Event::Start { rq }),
                (_, Event::Complete { rq: completed }),
                (_, Event::Duration { .. }),
            ] = lines
            else {
                panic!("{scheduler}, request {nth}: {lines:?}")
            };
            assert_eq!(rq, completed);
        }
    }
}

fn stage07_measures_a_disk_that_takes_20_ms() {
    const COMPLETION: Duration = Duration::from_millis(20);
    quiet();
    let disk = NullBlk::new("slow", COMPLETION).unwrap();
    let write = format!("write {}", disk.device.display());
    let mut writes = Vec::new();
    let (seen, ios) = watch_all(|| writes = one_by_one(&write, 25));
    assert_eq!(ios, 25);
    check_durations(&trace(&seen).durations, COMPLETION, &writes);
}

fn stage07_counts_the_parts_of_a_split_write() {
    quiet();
    let limit = fs::read_to_string(queue("/dev/scratch", "max_sectors_kb").unwrap()).unwrap();
    let limit: u64 = limit.trim().parse().unwrap();
    let (_, ios) = watch_all(|| drop(io("write /dev/scratch --count 1 --size 1048576")));
    assert!(ios >= 1024 / limit && ios > 1, "{ios} parts, {limit} KiB at most");
}

/// The stage sees flushes start and complete, but does not count them.
fn stage07_counts_no_flush() {
    with_ext4();
    let fsync = || {
        let mut file = fs::File::create("/mnt/fsync").unwrap();
        file.write_all(&[0xb1; 16 * 4096]).unwrap();
        file.sync_all().unwrap();
    };
    for work in [&fsync as &dyn Fn(), &|| drop(io("sync /mnt/dirty --count 64"))] {
        let (seen, ios) = watch_all(work);
        let trace = trace(&seen);
        assert!(trace.started as u64 > ios, "no flush was started: {}", seen.stdout);
        assert!(trace.completed > trace.started, "a write after a flush completes twice: {}", seen.stdout);
    }
}

/// The kernel's own counters can be switched off, and then its functions that count have nothing to do.
fn stage07_needs_no_iostats() {
    quiet();
    let write = || drop(io("write /dev/scratch --count 64"));
    let without = || Setting::new(queue("/dev/scratch", "iostats").unwrap(), "0").unwrap();

    let off = without();
    let (seen, ios) = watch_requests("stage07", write);
    drop(off);
    assert_eq!((ios, trace(&seen).durations.len()), (0, 64), "{}", seen.stdout);

    // With a function at the end, as in 2019.
    if is_in("..6.0") {
        let error = refused("stage07-function");
        assert!(error.contains("this kernel has no function blk_account_io_completion.part.0"), "{error}");
        return;
    }
    let (seen, ios) = watch_requests("stage07-function", write);
    let whole = trace(&seen);
    assert_eq!((whole.not_measured, whole.durations.len() as u64), (Some(0), ios), "{}", seen.stdout);
    let off = without();
    let (seen, _) = watch_requests("stage07-function", write);
    drop(off);
    let trace = trace(&seen);
    assert_eq!((trace.started, trace.completed, trace.durations.len()), (64, 0, 0), "{}", seen.stdout);
}

/// What a disk has read and written, by its own counters.
pub fn ios_of(device: &str) -> u64 {
    let stat = stat(device);
    stat[0] + stat[4]
}

/// A loop device has its own request queue, and its driver writes to the file, which is on tmpfs here. device-mapper passes
/// each bio on: both disks count it, but there is only one request, for the disk below.
fn stage07_counts_the_requests_of_disks_on_others() {
    quiet();
    sh("modprobe loop && dd if=/dev/zero of=/tmp/loop bs=1M count=1 && losetup /dev/loop0 /tmp/loop");
    let _removed = AtEnd("losetup -d /dev/loop0; rm /tmp/loop");
    let linear = Linear::new("linear", &[(&fs::canonicalize(RAW_DEVICE).unwrap(), 4096)]).unwrap();
    for counting in [&["/dev/loop0"][..], &[linear.device.to_str().unwrap(), RAW_DEVICE]] {
        let counts = || counting.iter().map(|disk| ios_of(disk)).collect::<Vec<_>>();
        let before = counts();
        let write = format!("write {} --count 32", counting[0]);
        let (seen, _) = watch_requests("stage07", || drop(io(&write)));
        let trace = trace(&seen);
        assert!(counts().iter().zip(before).all(|(after, before)| after - before == 32), "{counting:?}");
        let requests = [trace.started, trace.completed, trace.durations.len()];
        assert_eq!((requests, trace.not_measured), ([32; 3], Some(0)), "{}", seen.stdout);
    }
}

/// dm-multipath is the only target with requests. Each becomes a request of the disk below.
fn requests_of_dm_multipath_count_twice() {
    quiet();
    let below = NullBlk::new("path", Duration::from_millis(1)).unwrap();
    let disk = Linear::multipath("multipath", &below.device, 4096).unwrap();
    let devices = [&disk.device, &below.device].map(|device| device.to_str().unwrap());
    let tools = ["bitehist", "biolatency -Dj"].map(start);
    let before = devices.map(ios_of);
    let (seen, _) = watch_requests("stage07", || drop(io(&format!("write {} --count 32", devices[0]))));
    let trace = trace(&seen);
    let ios = [0, 1].map(|nth| ios_of(devices[nth]) - before[nth]);
    assert_eq!((ios, trace.started, trace.durations.len()), ([32, 32], 64, 64), "{}", seen.stdout);
    let [bitehist, biolatency] = tools.map(end_exact);
    assert_eq!(truth::histogram(&bitehist.stdout).count(), 64, "{}", bitehist.stdout);
    for device in devices {
        let row = format!(r#""disk":"{}","count":32,"#, device.strip_prefix("/dev/").unwrap());
        assert!(biolatency.stdout.contains(&row), "{}", biolatency.stdout);
    }
}

/// The kernel asks a disk for its size and its features with commands that it doesn't submit as bios.
fn stage03_does_not_count_commands_for_the_driver() {
    quiet();
    let disk = ScsiDebug::new("");
    let rescan = queue(disk.0.to_str().unwrap(), "../device/rescan").unwrap();
    let before = disk_ios().unwrap();
    let (seen, ()) = watch_while("stage03", || fs::write(rescan, "1").unwrap());
    let trace = trace(&seen);
    assert!(trace.ends > 0, "no command has data");
    assert_eq!(trace.events.len(), trace.ends, "{}", seen.stdout);
    assert_eq!((trace.not_measured, disk_ios().unwrap() - before), (Some(0), 0), "{}", seen.stdout);
}

/// The kernel's emulated SCSI disk, with options; its name is `/dev/sdX`.
struct ScsiDebug(PathBuf);

impl ScsiDebug {
    fn new(options: &str) -> Self {
        sh(&format!("modprobe sd_mod && modprobe scsi_debug dev_size_mb=16 {options}"));
        let disk = || {
            let disks = fs::read_dir("/sys/block").unwrap().flatten().map(|disk| disk.file_name());
            let disk =
                disks.filter_map(|name| name.into_string().ok()).find(|name| name.starts_with("sd"))?;
            Some(Path::new("/dev").join(disk))
        };
        wait_until("there is a SCSI disk", || disk().is_some_and(|disk| disk.exists()));
        Self(disk().unwrap())
    }
}

impl Drop for ScsiDebug {
    fn drop(&mut self) {
        sh("rmmod scsi_debug");
    }
}

/// Ten sectors from 0x1234 on can't be read. The kernel completes what comes before them, then fails the rest.
fn stage07_counts_a_request_that_fails_in_part_once() {
    quiet();
    let disk = ScsiDebug::new("opts=2");
    let (seen, ios) = watch_all(|| {
        let device = disk.0.to_str().unwrap();
        for (sector, size, good) in [
            (0, 4096, true),
            (0x1228, 4096, true),
            (0x1230, 4096, false),
            (0x1234, 512, false),
            (0x1240, 4096, true),
        ] {
            let (size, seek) = (size.to_string(), (sector * 512 / size).to_string());
            let read = ["read-direct", device, "--count", "1", "--size", &size, "--seek", &seek];
            assert_eq!(guest::running::io(&read).is_ok(), good, "sector {sector:#x}");
        }
    });
    assert_eq!(ios, 5, "{}", seen.stdout);
    assert!(trace(&seen).completed > 5, "no completion of a part: {}", seen.stdout);
}

/// A host that reports every fifth command as busy, so the kernel starts the request again later.
/// biowhere says how often.
fn stage07_counts_a_request_that_is_started_twice_once() {
    quiet();
    let disk = ScsiDebug::new("opts=0x8000 every_nth=5");
    let mut ios = Vec::new();
    let (seen, counted) = watch_all(|| {
        let tool = biowhere::start("");
        io(&format!("write {} --count 20", disk.0.display()));
        ios = biowhere::end_as_it_is(tool);
    });
    let started = trace(&seen).started as u64;
    assert!(started > counted, "the disk was never busy: {}", seen.stdout);
    let again: u64 = ios.iter().map(|io| u64::from(io.requeues)).sum();
    assert_eq!((ios.len() as u64, again), (counted, started - counted), "{ios:?}");
}

/// Four requests that started before the stage, and end while it watches.
fn stage07_counts_ends_without_a_start() {
    quiet();
    let (seen, ios) = long_enough(Duration::from_secs(1), |time| {
        let disk = NullBlk::new("slow", time)?;
        let device = disk.device.to_str().unwrap().to_owned();
        fs::write(queue(&device, "nomerges")?, "2").unwrap();
        let write = format!("write {device} --threads 4 --count 1");
        let writer = thread::spawn(move || io(&write));
        let writes = || in_flight(&device)[1] == 4;
        // On a busy machine, the first may end before the last begins, or before the stage is attached.
        wait_until("four writes are in flight", || writes() || writer.is_finished());
        let mut are_in_flight = false;
        let seen = watch_requests("stage07", || {
            are_in_flight = writes();
            drop(writer.join().unwrap());
        });
        Ok(are_in_flight.then_some(seen))
    })
    .unwrap();
    let trace = trace(&seen);
    assert_eq!((trace.started, trace.completed, trace.durations.len()), (0, 4, 0), "{}", seen.stdout);
    assert_eq!((trace.not_measured, ios), (Some(4), 4));
}
