//! The workload tool `io` does what its report says, as the kernel counts it.

use std::fs;
use std::thread;
use std::time::Duration;

use guest::null_blk::{NullBlk, long_enough};
use guest::system::queue;

use crate::guest::{io, quiet, stat};
use crate::requests::in_flight;
use crate::{Case, cases};

pub const CASES: &[Case] = cases![io_has_as_many_in_flight_as_it_says(NoFentry, Once),];

/// Reads and writes of a disk with a known completion time. The disk's counters know how many there are, and how long all
/// of them took.
fn io_has_as_many_in_flight_as_it_says() {
    const COUNT: u64 = 96;
    quiet();
    for (engine, depth) in [("sync", 1), ("libaio", 1), ("libaio", 32), ("io_uring", 1), ("io_uring", 32)] {
        let count = if depth == 1 { 4 } else { COUNT };
        long_enough(Duration::from_millis(100), |time| {
            let disk = NullBlk::with("deep", time, &[("hw_queue_depth", 64)])?;
            let device = disk.device.to_str().unwrap();
            fs::write(queue(device, "scheduler")?, "none").unwrap();
            let before = stat(device);
            let work = format!(
                "write {device} --engine {engine} --iodepth {depth} --count {count} --rwmixread 25 --random"
            );
            let (done, most) = thread::scope(|scope| {
                let work = scope.spawn(|| io(&work));
                // The kernel looks at one tag after the other, so it may count an I/O and the one that follows it. Two
                // looks in a row don't.
                let (mut most, mut last) = (0, 0);
                while !work.is_finished() {
                    let now: u64 = in_flight(device).iter().sum();
                    most = most.max(now.min(last));
                    last = now;
                    thread::sleep(Duration::from_millis(1));
                }
                (work.join().unwrap(), most)
            });
            let counted = stat(device).into_iter().zip(before).map(|(after, before)| (after - before) as f64);
            let counted: Vec<_> = counted.collect();
            let clock = done.clock.as_ref().unwrap();
            eprintln!("{engine}, {time:?}, up to {most} in flight: {done}\n  {counted:?}");
            assert_eq!((clock.reads, clock.writes), (count / 4, count - count / 4));
            assert_eq!((counted[0], counted[4]), (clock.reads as f64, clock.writes as f64));
            assert!(most <= depth, "{most} in flight");
            // What it saw is never shorter than what the disk took, and never longer than all of it.
            let took = time.as_secs_f64() * 1e6;
            let all = (done.last_ns - done.first_ns) as f64 / 1e3;
            assert!(clock.p50_us >= took && clock.mean_us >= took && clock.max_us <= all, "{took}");
            assert!(all >= took * count as f64 / depth as f64 && clock.iops <= depth as f64 * 1e6 / took);
            // The disk's ms for all I/Os. Its own time for each ends before the workload's.
            assert!(counted[10] * 1e3 <= clock.mean_us * count as f64 + 1e3 * count as f64);
            let depth_on_average = counted[10] * 1e3 / all;
            let is_as_asked = most == depth && depth_on_average > depth as f64 * 0.6;
            Ok((is_as_asked && clock.p50_us < took * 1.5).then_some(()))
        })
        .unwrap();
    }
}
