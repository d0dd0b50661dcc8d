//! The ways to count and time bios: each counts every bio, and times it between bounds that don't depend on the
//! machine's speed.

use std::panic::panic_any;
use std::path::Path;
use std::time::Duration;

use common::preflight::release;
use guest::null_blk::NullBlk;
use guest::system::{Setting, queue};
use guest::truth::disk_ios;
use measure::ways::{Watching, start};
use wire::ways::{WAYS, Way, named, number};

use crate::guest::{Missed, around, io, quiet};
use crate::{Case, cases};

pub const CASES: &[Case] = cases![
    ways_count_and_time_each_bio,
    ways_that_time_a_call_contain_the_bio,
    ways_that_a_kernel_lacks_are_refused,
];

const WRITES: u64 = 200;

/// Our ways, and whether this kernel has each.
fn ours() -> impl Iterator<Item = (&'static Way, bool)> {
    let release = release();
    let mut numbers = release.split('.').map(|number| number.parse().unwrap_or(0));
    let version = (numbers.next().unwrap(), numbers.next().unwrap());
    // Debian built 6.1 without CONFIG_FPROBE, and for arm64 6.12, too.
    let is_without = version == (6, 1) || cfg!(target_arch = "aarch64") && version == (6, 12);
    let has = move |way: &Way| version >= way.since && (way.option.is_none() || !is_without);
    WAYS.iter().filter(|way| !way.is_peer).map(move |way| (way, has(way)))
}

fn is_call(way: &Way) -> bool {
    way.times.starts_with("the call")
}

/// The sum of the times in ns, if the way has counted all writes and nothing else.
fn sum(way: &Way, watching: Watching) -> u64 {
    let text = watching.end().unwrap();
    if (way.missed)(&text).is_some_and(|missed| missed > 0) {
        eprintln!("{}: {text}", way.name);
        panic_any(Missed);
    }
    assert_eq!((way.counted)(&text), Some(WRITES), "{}: {text}", way.name);
    for unpaired in ["Starts without an end: ", "starts not recorded: "] {
        assert_eq!(number(&text, unpaired), Some(0), "{}: {text}", way.name);
    }
    assert!(number(&text, "ends without a start: ").is_none_or(|ends| ends == 0), "{}: {text}", way.name);
    number(&text, "ns: ").unwrap()
}

fn writes(device: &Path) -> u64 {
    let before = disk_ios().unwrap();
    let done = io(&format!("write {} --count {WRITES}", device.display()));
    assert_eq!(disk_ios().unwrap() - before, WRITES);
    around(&done)
}

/// On a disk with a known completion time, a bio's life takes at least that long; and all of them together take no
/// longer than the time around the writes.
fn ways_count_and_time_each_bio() {
    const COMPLETION: Duration = Duration::from_millis(1);
    quiet();
    let disk = NullBlk::new("known", COMPLETION).unwrap();
    for (way, _) in ours().filter(|(_, is_here)| *is_here) {
        let watching = start(way, &disk.device.to_string_lossy()).unwrap();
        let around = writes(&disk.device);
        let sum = sum(way, watching);
        let least = if is_call(way) { WRITES } else { WRITES * COMPLETION.as_nanos() as u64 };
        assert!((least..=around).contains(&sum), "{}: {sum} of {around} ns, at least {least}", way.name);
    }
}

/// On a disk that completes within the call of submit_bio(), the call contains the bio's life as the tracepoints see
/// it.
fn ways_that_time_a_call_contain_the_bio() {
    quiet();
    let disk = NullBlk::with("inside", Duration::ZERO, &[("irqmode", 0)]).unwrap();
    let device = disk.device.to_string_lossy();
    // A scheduler would hand the request to another thread.
    let _scheduler = Setting::new(queue(&device, "scheduler").unwrap(), "none").unwrap();
    let inner = named("tp_btf, map").unwrap();
    for (way, _) in ours().filter(|(way, is_here)| *is_here && is_call(way)) {
        let [calls, lives] = [way, inner].map(|way| start(way, &device).unwrap());
        let around = writes(&disk.device);
        let (calls, lives) = (sum(way, calls), sum(inner, lives));
        assert!(lives < calls && calls < around, "{}: {lives} < {calls} < {around}", way.name);
    }
}

fn ways_that_a_kernel_lacks_are_refused() {
    for (way, _) in ours().filter(|(_, is_here)| !is_here) {
        let Err(error) = start(way, "/dev/scratch") else { panic!("{} starts", way.name) };
        let (kind, (major, minor)) = (way.name.split(',').next().unwrap(), way.since);
        for part in [
            &format!("Error: this kernel has no {kind}\n"),
            "evidence: ",
            &format!("boot Linux {major}.{minor} or newer"),
        ] {
            assert!(error.to_string().contains(part), "{part:?} is not in: {error}");
        }
    }
}
