//! What the examples print is true.

use std::collections::BTreeMap;
use std::thread;

use common::histogram::Histogram;
use guest::truth::{histogram, histograms};
use wire::workload::Done;

use crate::guest::{end_exact as end, io, quiet, start};
use crate::pagecache::{go, prepare};
use crate::{Case, cases};

pub const CASES: &[Case] = cases![
    bitehist_and_bitesize_put_each_size_into_its_bucket(NoFentry),
    bitesize_counts_the_processes_that_it_is_asked_for(Outer),
];

/// What `io` did, in KiB.
fn truth<'a>(done: impl IntoIterator<Item = &'a Done>) -> Histogram {
    let one = |done: &Done| {
        let slot = Histogram::slot(done.bytes / done.count / 1024);
        (0..=slot).map(|nth| if nth == slot { done.count } else { 0 }).collect()
    };
    done.into_iter().map(one).sum()
}

/// Sizes on both sides of the buckets' boundaries, two processes at the same time, and more than one interval.
fn bitehist_and_bitesize_put_each_size_into_its_bucket() {
    quiet();
    let [hist, size] = ["bitehist 0.1", "bitesize 0.1"].map(start);
    let mut done: Vec<_> = [(512, 3), (2048, 4), (3584, 1), (65024, 5)]
        .map(|(size, count)| io(&format!("write /dev/scratch --size {size} --count {count}")))
        .into();
    let small = prepare("write /dev/scratch --count 25 --interval 10");
    let large = prepare("write /dev/part --size 65536 --threads 2 --count 20");
    done.extend([small, large].map(|child| thread::spawn(|| go(child))).map(|io| io.join().unwrap()));
    let hist = end(hist);
    // More than fits into a request: one bio, but several requests.
    done.push(io("write /dev/scratch --size 1048576 --count 3"));
    let size = end(size);

    let huge = done.len() - 1;
    assert_eq!(histogram(&hist.stdout), truth(&done[..huge]), "{}", hist.stdout);
    let processes = done.iter().map(|done| (done.pid, truth([done]))).collect();
    assert_eq!(histograms(&size.stdout), processes, "{}", size.stdout);
    // The last but one took longer than two intervals.
    assert!(hist.stdout.split("\n\n").count() > 2, "{}", hist.stdout);
}

fn bitesize_counts_the_processes_that_it_is_asked_for() {
    quiet();
    let [first, second] = ["write /dev/scratch --count 5", "write /dev/scratch --count 9"].map(prepare);
    let pid = second.id().to_string();
    let [one, full] = [start(&format!("bitesize --pid {pid}")), start("bitesize --processes 1")];
    let [first, second] = [first, second].map(go);
    let [one, full] = [one, full].map(end);

    let of = |done: &Done| BTreeMap::from([(done.pid, truth([done]))]);
    assert_eq!(histograms(&one.stdout), of(&second), "{}", one.stdout);
    assert!(one.stdout.contains(&format!("\nPID: {pid} UID: 0 CMD: io\n")), "{}", one.stdout);
    assert!(!one.stderr.contains("warning"), "{}", one.stderr);
    assert_eq!(histograms(&full.stdout), of(&first), "{}", full.stdout);
    assert!(full.stderr.contains("warning: 9 I/Os are not counted"), "{}", full.stderr);
}
