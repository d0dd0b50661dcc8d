//! biowhere agrees with what others measure of the same I/Os: fio by its own clock, and the kernel for `/proc/diskstats`.

use std::fs;
use std::time::Duration;

use common::Result;
use guest::null_blk::{NullBlk, long_enough};
use guest::system::queue;
use serde_json::Value;

use crate::biowhere::{end, ns, start};
use crate::guest::{end_exact, io, quiet, sh, stat};
use crate::{Case, cases};

pub const CASES: &[Case] =
    cases![biowhere_agrees_with_fio(Fio, Once), biowhere_agrees_with_the_kernels_statistics,];

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
    const RUNS: [(&str, u64, u64, u128); 4] =
        [("sync", 1, 1, 64), ("libaio", 32, 1, 64), ("io_uring", 32, 1, 64), ("sync", 1, 8, 1)];
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
            let summary: Value = serde_json::from_str(&seen.stdout).unwrap();
            let fio: Value = serde_json::from_str(&fio[fio.find('{').unwrap()..]).unwrap();
            let (group, read) = (&summary["groups"][0], &fio["jobs"][0]["read"]);
            let what = format!("{engine}, {depth}, a disk of {time:?} for {at_a_time}: {group} {read}");
            eprintln!("{what}");
            let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{what}"));
            let count = (each * threads) as f64;
            assert_eq!((number(&group["ios"]), number(&read["total_ios"])), (count, count), "{what}");
            // The percentiles 50 and 99.
            let ours = |part: &str| ["p50", "p99"].map(|nth| number(&group["ns"][part][nth]));
            let theirs = |clock: &str| {
                ["50.000000", "99.000000"].map(|nth| number(&read[clock]["percentile"][nth]))
            };
            let [total, queue, disk] = ["total", "queue", "disk"].map(ours);
            // The first is from before the system call that submits an I/O, and with libaio and io_uring the second is from
            // after it.
            let ([lat, clat], time) = (["lat_ns", "clat_ns"].map(theirs), ns(time) as f64);
            let mean = number(&group["depth"]) * number(&summary["seconds"]) * 1e9 / count;
            assert!(mean <= number(&read["lat_ns"]["mean"]) * 1.000_001, "{mean}: {what}");
            let is_within = |(ours, theirs): (&f64, f64)| *ours <= theirs * ROUNDED || theirs > LONGEST;
            assert!(total.iter().zip(lat).all(is_within), "{what}");
            assert!(disk[0] >= time, "{what}");
            let is_queue = at_a_time > 1 || is_near(queue[0], clat[0] - time);
            let is_total = total.iter().zip(clat).all(|(ours, theirs)| is_near(*ours, theirs));
            let is_exact = is_near(disk[0], time) && is_total && is_queue;
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
