//! What the examples print is true.

use std::collections::BTreeMap;
use std::process::Command;
use std::thread;

use guest::running::Running;
use guest::truth::{histogram, histograms};
use toolkit::histogram::Histogram;
use wire::workload::Done;

use crate::guest::{end_exact as end, io, quiet};
use crate::pagecache::{go, prepare};
use crate::{Case, cases};

pub const CASES: &[Case] = cases![
    bitehist_and_bitesize_put_each_size_into_its_bucket(NoFentry),
    bitesize_counts_the_processes_that_it_is_asked_for(Outer),
    bitehist_and_bitesize_end_in_every_way(Once),
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
    let [hist, size] = ["bitehist", "bitesize"].map(|name| Running::start(&[name, "0.1"]).unwrap());
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
    let [one, full] = [["--pid", &pid], ["--processes", "1"]]
        .map(|[name, value]| Running::start(&["bitesize", name, value]).unwrap());
    let [first, second] = [first, second].map(go);
    let [one, full] = [one, full].map(end);

    let of = |done: &Done| BTreeMap::from([(done.pid, truth([done]))]);
    assert_eq!(histograms(&one.stdout), of(&second), "{}", one.stdout);
    assert!(one.stdout.contains(&format!("\nPID: {pid} UID: 0 CMD: io\n")), "{}", one.stdout);
    assert!(!one.stderr.contains("warning"), "{}", one.stderr);
    assert_eq!(histograms(&full.stdout), of(&first), "{}", full.stdout);
    assert!(full.stderr.contains("warning: 9 I/Os are not counted"), "{}", full.stderr);
}

fn bitehist_and_bitesize_end_in_every_way() {
    quiet();
    let run = |script| {
        let output = Command::new("sh").args(["-c", script]).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    // Nothing to count, and COUNT intervals.
    let nothing = ["Nothing was counted.\n"; 3].join("\n");
    assert_eq!(run("bitehist 0.02 3"), (0, nothing, "Tracing. Ctrl-C to end.\n".to_owned()));
    // A closed pipe.
    let (status, stdout, stderr) = run("bitesize 0.02 | head -n 3 | tail -n 1");
    assert_eq!((status, &*stdout, &*stderr), (0, "No I/O.\n", "Tracing. Ctrl-C to end.\n"));
    // No process to look at.
    let (status, stdout, stderr) = run("bitesize --pid 99999999");
    assert_eq!((status, &*stdout), (1, ""));
    assert!(stderr.contains("there is no process 99999999"), "{stderr}");
}
