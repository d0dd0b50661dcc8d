//! biowhere agrees with what others measure of the same I/Os: the kernel for `/proc/diskstats`.

use std::fs;
use std::time::Duration;

use guest::null_blk::{NullBlk, long_enough};
use guest::system::queue;

use crate::biowhere::{end, ns, start};
use crate::guest::{io, quiet, sh};
use crate::{Case, cases};

pub const CASES: &[Case] = cases![biowhere_agrees_with_the_kernels_statistics];

/// What two clocks that look at the same I/O may differ.
const BUCKET: f64 = 0.05;

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= other * BUCKET
}

/// The kernel begins to count when an I/O has its request, as QUEUE does, and ends after it has ended the bio. So the wait
/// for a scheduler is in its time, and the wait for a request is not.
fn biowhere_agrees_with_the_kernels_statistics() {
    const COUNT: u64 = 48;
    quiet();
    sh("modprobe mq-deadline || true");
    for scheduler in ["mq-deadline", "none"] {
        long_enough(Duration::from_millis(50), |time| {
            let disk = NullBlk::with("counted", time, &[("hw_queue_depth", 1)])?;
            let device = disk.device.to_str().unwrap();
            fs::write(queue(device, "scheduler")?, scheduler).unwrap();
            fs::write(queue(device, "nomerges")?, "2").unwrap();
            if scheduler != "none" {
                fs::write(queue(device, "nr_requests")?, "64").unwrap();
            }
            let stat = queue(device, "../stat")?;
            let stat = || -> Vec<u64> {
                let text = fs::read_to_string(&stat).unwrap();
                text.split_whitespace().map(|number| number.parse().unwrap()).collect()
            };
            let tool = start(&format!("-d {device}"));
            let before = stat();
            io(&format!(
                "write {device} --engine libaio --iodepth 8 --count {COUNT} --rwmixread 50 --random"
            ));
            // The kernel ends a bio before it counts the request. Until the tool has ended, it has done that.
            let ios = end(tool);
            let counted: Vec<_> = stat().iter().zip(before).map(|(after, before)| after - before).collect();
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
                // The kernel rounds both readings down to a millisecond.
                assert!(ours <= (ms + 1) * 1_000_000, "{what}");
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
