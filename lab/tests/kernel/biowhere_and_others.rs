//! biowhere agrees with what others measure of the same I/Os: fio by its own clock, the kernel for `/proc/diskstats`, and
//! blktrace.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use common::Result;
use common::preflight::release;
use guest::null_blk::{NullBlk, long_enough};
use guest::system::queue;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;

use crate::biowhere::{Io, end, ns, start};
use crate::guest::{end_exact, io, quiet, sh, stat, wait_until};
use crate::{Case, cases};

pub const CASES: &[Case] = cases![
    biowhere_agrees_with_fio(Peers, Once),
    biowhere_sees_what_is_polled(Peers, Once),
    biowhere_agrees_with_btt(Peers, Once),
    biowhere_agrees_with_the_kernels_statistics,
];

/// The output of `--summary --json`.
#[derive(Debug, Deserialize)]
struct Summary {
    seconds: f64,
    groups: [Group; 1],
}

#[derive(Debug, Deserialize)]
struct Group {
    ios: u64,
    depth: f64,
    ns: BTreeMap<String, Times>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Times {
    #[serde(alias = "50.000000")]
    p50: f64,
    #[serde(alias = "99.000000")]
    p99: f64,
}

/// The output of `fio --output-format=json`.
#[derive(Debug, Deserialize)]
struct Fio {
    jobs: [Job; 1],
}

#[derive(Debug, Deserialize)]
struct Job {
    read: Reads,
}

#[derive(Debug, Deserialize)]
struct Reads {
    total_ios: u64,
    /// From before the system call that submits an I/O.
    lat_ns: Clock,
    /// With libaio and io_uring, from after it.
    clat_ns: Clock,
}

#[derive(Debug, Deserialize)]
struct Clock {
    mean: f64,
    percentile: Times,
}

/// biowhere rounds a percentile up by at most 1 %, and fio takes the middle of one of 64 buckets for each power of two.
const ROUNDED: f64 = 1.02;

/// fio's last bucket begins at 17 s.
const LONGEST: f64 = 17e9;

/// What two clocks that look at the same I/O may differ: a bucket.
const BUCKET: f64 = 0.05;

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= other * BUCKET
}

/// A disk of known time that works on so many I/Os at a time. With a scheduler, others wait there.
fn disk(time: Duration, at_a_time: u128, scheduler: &str) -> Result<NullBlk> {
    let disk = NullBlk::with("known", time, &[("hw_queue_depth", at_a_time)])?;
    let device = disk.device.to_str().unwrap();
    fs::write(queue(device, "scheduler")?, scheduler).unwrap();
    fs::write(queue(device, "nomerges")?, "2").unwrap();
    if scheduler != "none" {
        fs::write(queue(device, "nr_requests")?, "64").unwrap();
    }
    Ok(disk)
}

/// fio's clock begins before an I/O is submitted and ends after fio has seen its end, so each TOTAL is within one `lat`.
/// fio's `clat` is a little shorter: with libaio and io_uring, it begins when the system call that submits returns. All of
/// them are the same, within a bucket, if the disk takes much longer than the processor.
fn biowhere_agrees_with_fio() {
    // At the end, fio looks at the last I/Os of an engine when all of them are done. So what waits in the queue of a disk
    // that takes one at a time is a thread's.
    const RUNS: [(&str, u64, u64, u128); 6] = [
        ("sync", 1, 1, 64),
        ("libaio", 1, 1, 64),
        ("libaio", 32, 1, 64),
        ("io_uring", 1, 1, 64),
        ("io_uring", 32, 1, 64),
        ("sync", 1, 8, 1),
    ];
    quiet();
    sh("modprobe mq-deadline || true");
    for (engine, depth, threads, at_a_time) in RUNS {
        let each = match (depth, threads) {
            (1, 1) => 8,
            (1, _) => 4,
            _ => 96,
        };
        long_enough(Duration::from_millis(200), |time| {
            let disk = disk(time, at_a_time, "mq-deadline")?;
            let device = disk.device.to_str().unwrap();
            let tool = start(&format!("--summary -d {device}"));
            let fio = sh(&format!(
                "fio --name=job --filename={device} --rw=randread --bs=4k --direct=1 --ioengine={engine} \
                 --iodepth={depth} --numjobs={threads} --thread --group_reporting --number_ios={each} \
                 --clocksource=clock_gettime --lat_percentiles=1 --clat_percentiles=1 --percentile_list=50:99 \
                 --output-format=json"
            ));
            let seen = end_exact(tool);
            let summary: Summary = serde_json::from_str(&seen.stdout).unwrap();
            let fio: Fio = serde_json::from_str(&fio[fio.find('{').unwrap()..]).unwrap();
            let ([group], [Job { read }]) = (&summary.groups, &fio.jobs);
            let what = format!("{engine}, {depth}, a disk of {time:?} for {at_a_time}: {group:?} {read:?}");
            eprintln!("{what}");
            let count = each * threads;
            assert_eq!((group.ios, read.total_ios), (count, count), "{what}");
            let [total, queue, disk] = ["total", "queue", "disk"].map(|part| group.ns[part]);
            let (lat, clat, time) = (&read.lat_ns.percentile, &read.clat_ns.percentile, ns(time) as f64);
            let mean = group.depth * summary.seconds * 1e9 / count as f64;
            assert!(mean <= read.lat_ns.mean * 1.000_001, "{mean}: {what}");
            let is_within = |ours, theirs| ours <= theirs * ROUNDED || theirs > LONGEST;
            assert!(is_within(total.p50, lat.p50) && is_within(total.p99, lat.p99), "{what}");
            assert!(disk.p50 >= time, "{what}");
            let is_queue = at_a_time > 1 || is_near(queue.p50, clat.p50 - time);
            let is_exact = is_near(disk.p50, time)
                && is_near(total.p50, clat.p50)
                && is_near(total.p99, clat.p99)
                && is_queue;
            Ok(is_exact.then_some(()))
        })
        .unwrap();
    }
}

/// The kernel begins to count when an I/O has its request, as QUEUE does, and ends after it has ended the bio. So the wait
/// for a scheduler is in its time, and the wait for a request is not.
fn biowhere_agrees_with_the_kernels_statistics() {
    const COUNT: u64 = 48;
    quiet();
    sh("modprobe mq-deadline || true");
    for scheduler in ["mq-deadline", "none"] {
        long_enough(Duration::from_millis(50), |time| {
            let disk = disk(time, 1, scheduler)?;
            let device = disk.device.to_str().unwrap();
            let tool = start(&format!("-d {device}"));
            let before = stat(device);
            io(&format!(
                "write {device} --engine libaio --iodepth 8 --count {COUNT} --rwmixread 50 --random"
            ));
            // The kernel ends a bio before it counts the request. Until the tool has ended, it has done that.
            let ios = end(tool);
            let counted: Vec<_> =
                stat(device).iter().zip(before).map(|(after, before)| after - before).collect();
            let sum = |operation: &str| -> [u64; 3] {
                let mut sums = [0; 3];
                for io in ios.iter().filter(|io| io.operation == operation) {
                    let parts = io.parts();
                    for (sum, ns) in sums.iter_mut().zip([parts.before, parts.queue, parts.disk]) {
                        *sum += ns;
                    }
                }
                sums
            };
            let (reads, writes) = (sum("read"), sum("write"));
            let what = format!("{scheduler}, {time:?}: {reads:?} {writes:?} {counted:?}");
            eprintln!("{what}");
            assert_eq!((counted[0], counted[4], ios.len() as u64), (COUNT / 2, COUNT / 2, COUNT), "{what}");
            let both: Vec<_> = reads.iter().zip(writes).map(|(reads, writes)| reads + writes).collect();
            let mut is_exact = true;
            for (parts, ms) in [(&reads[..], counted[3]), (&writes, counted[7]), (&both, counted[10])] {
                let ours = parts[1] + parts[2];
                is_exact &= is_near(ours as f64, ms as f64 * 1e6);
            }
            // Without a scheduler, io_submit(2) waits for the only request, so each but the first waits for the one before.
            let waited = if scheduler == "none" { both[0] } else { both[1] };
            assert!(waited > COUNT * ns(time) / 2, "{what}");
            Ok(is_exact.then_some(()))
        })
        .unwrap();
    }
}

/// Nobody is told when a polled I/O is done: whoever submitted it asks the driver until it is.
fn biowhere_sees_what_is_polled() {
    // null_blk has had queues for it since 5.17.
    if release().starts_with("5.10") {
        assert!(NullBlk::with("polled", Duration::ZERO, &[("poll_queues", 1)]).is_err());
        return;
    }
    quiet();
    let disk = NullBlk::with("polled", Duration::ZERO, &[("poll_queues", 1)]).unwrap();
    let device = disk.device.to_str().unwrap();
    let polled = || fs::read_to_string(queue(device, "io_poll").unwrap()).unwrap();
    assert_eq!(polled(), "1\n");
    let tool = start(&format!("-d {device}"));
    let fio = sh(&format!(
        "fio --name=job --filename={device} --rw=randread --bs=4k --direct=1 --ioengine=io_uring --hipri --iodepth=4 \
         --number_ios=96 --clocksource=clock_gettime --lat_percentiles=1 --output-format=json"
    ));
    let ios = end(tool);
    let fio: Fio = serde_json::from_str(&fio[fio.find('{').unwrap()..]).unwrap();
    let [Job { read }] = &fio.jobs;
    assert_eq!((ios.len() as u64, read.total_ios), (96, 96), "{ios:?}");
    let total: u64 = ios.iter().map(|io| io.total).sum();
    assert!(total as f64 <= read.lat_ns.mean * 96.0, "{total}: {read:?}");
}

/// What blktrace has seen and btt has summed up: how often, and how long on average, in nanoseconds. Without
/// a scheduler, nothing is inserted.
fn from_btt(text: &str, what: &str) -> (u64, f64) {
    let Some(line) = text.lines().find(|line| line.starts_with(what)) else { return (0, 0.0) };
    let cells: Vec<_> = line.split_whitespace().collect();
    (cells[4].parse().unwrap(), cells[2].parse::<f64>().unwrap() * 1e9)
}

/// btt's names: an I/O is *q*ueued, *g*ets a request, is *i*nserted into a scheduler, issued to the *d*river, and *c*ompleted.
fn biowhere_agrees_with_btt() {
    const COUNT: u64 = 48;
    quiet();
    sh("mount -t debugfs debugfs /sys/kernel/debug || true; modprobe mq-deadline || true");
    for scheduler in ["mq-deadline", "none"] {
        long_enough(Duration::from_millis(50), |time| {
            let disk = disk(time, 1, scheduler)?;
            let device = disk.device.to_str().unwrap();
            sh("rm -rf /tmp/btt; mkdir /tmp/btt");
            // Into a file of its own, it would write only half a megabyte at a time.
            let run = fs::File::create("/tmp/btt/run").unwrap();
            let mut blktrace =
                Command::new("blktrace").args(["-d", device, "-o", "-"]).stdout(run).spawn().unwrap();
            wait_until("blktrace records", || {
                io(&format!("read-direct {device} --count 1"));
                fs::metadata("/tmp/btt/run").unwrap().len() > 0
            });
            let tool = start(&format!("-d {device} --op write"));
            io(&format!("write {device} --engine libaio --iodepth 8 --count {COUNT} --random"));
            let ios = end(tool);
            kill(Pid::from_raw(blktrace.id() as i32), Signal::SIGINT).unwrap();
            blktrace.wait().unwrap();
            let text = sh("cd /tmp/btt && blkparse -q -a write -O -i - -d run.bin < run && btt -i run.bin");
            let sum = |part: fn(&Io) -> u64| ios.iter().map(part).sum::<u64>() as f64;
            let total = sum(|io| io.total);
            let what = format!("{scheduler}, {time:?}: {ios:?} {text}");
            let mut is_exact = true;
            for (names, ours) in [
                (&["Q2G"][..], sum(|io| io.parts().before)),
                (&["G2I", "I2D"], sum(|io| io.parts().queue)),
                (&["D2C"], sum(|io| io.parts().disk)),
                (&["Q2C"], total),
            ] {
                let theirs = names
                    .iter()
                    .map(|name| from_btt(&text, name))
                    .map(|(count, ns)| count as f64 * ns)
                    .sum::<f64>();
                eprintln!("{scheduler}, {time:?}: {names:?} {theirs} {ours}");
                is_exact &= (ours - theirs).abs() <= total * BUCKET;
            }
            assert_eq!((ios.len() as u64, from_btt(&text, "Q2C").0), (COUNT, COUNT), "{what}");
            Ok(is_exact.then_some(()))
        })
        .unwrap();
    }
}
