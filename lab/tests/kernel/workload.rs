//! The workload tool `io` does what its report says, as the kernel counts it.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use guest::null_blk::{NullBlk, long_enough};
use guest::system::queue;

use crate::guest::{AtEnd, around, io, quiet, stat};
use crate::requests::in_flight;
use crate::{Case, cases};

pub const CASES: &[Case] = cases![
    io_has_as_many_in_flight_as_it_says(NoFentry),
    io_notes_an_end_while_it_waits_for_the_next_begin(NoFentry),
    io_names_the_setting_that_forbids_io_uring(NoFentry),
];

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

/// An I/O that ends early, on a disk of 1 ms, and the next one begins a second later.
fn io_notes_an_end_while_it_waits_for_the_next_begin() {
    quiet();
    let disk = NullBlk::new("early", Duration::from_millis(1)).unwrap();
    for engine in ["libaio", "io_uring"] {
        for pause in ["--interval 1000", "--rate_iops 1"] {
            let work =
                format!("write {} --engine {engine} --iodepth 4 --count 4 {pause}", disk.device.display());
            let done = io(&work);
            assert!(around(&done) >= 3_000_000_000, "{done}");
            assert!(done.clock.as_ref().unwrap().p50_us < 1e6, "{done}");
        }
    }
}

fn io_names_the_setting_that_forbids_io_uring() {
    const SETTING: &str = "/proc/sys/kernel/io_uring_disabled";
    quiet();
    let work = ["write", "/dev/scratch", "--engine", "io_uring"];
    if !Path::new(SETTING).exists() {
        guest::running::io(&work).unwrap();
        return;
    }
    assert_eq!(fs::read_to_string(SETTING).unwrap(), "0\n", "what Debian sets");
    let _end = AtEnd("echo 0 > /proc/sys/kernel/io_uring_disabled");
    fs::write(SETTING, "2").unwrap();
    let error = guest::running::io(&work).unwrap_err().to_string();
    for part in
        ["cannot use io_uring", "kernel.io_uring_disabled is 2", "fix:", "sysctl kernel.io_uring_disabled=0"]
    {
        assert!(error.contains(part), "{error}");
    }
}
