//! Four threads at once: whatever counts I/O sees each of their I/Os exactly once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use guest::null_blk::NullBlk;
use guest::truth::{self, Event, histogram, histograms};
use serde_json::Value;

use crate::ctracer;
use crate::guest::{end_exact, io, quiet, start, trace, watch_exact};
use crate::stages::of_bios;
use crate::{Case, cases};

pub const CASES: &[Case] = cases![
    stage02_sees_each_end_of_four_writers,
    stages_time_each_bio_of_four_writers,
    stage07_times_each_request_of_four_writers,
    ctracer_follows_each_bio_of_four_writers,
    ctracer_sees_each_end_in_a_task,
    examples_count_each_write_of_four_writers,
];

/// The sum over all four threads.
const WRITES: usize = 1_000;

fn four_writers() -> String {
    format!("write /dev/scratch --size 512 --threads 4 --count {}", WRITES / 4)
}

fn stage02_sees_each_end_of_four_writers() {
    quiet();
    let (seen, _) = watch_exact("stage02", &four_writers());
    let trace = trace(&seen);
    assert_eq!((trace.submits, trace.ends), (WRITES, WRITES));
}

/// Every start has one end and one duration, which is their difference, less what printing took; and the slowest is the
/// slowest of all.
fn stages_time_each_bio_of_four_writers() {
    quiet();
    for (number, ..) in of_bios().filter(|(_, lines, _)| *lines >= 3) {
        let (seen, _) = watch_exact(&format!("stage{number:02}"), &four_writers());
        let mut trace = trace(&seen);
        let (mut in_flight, mut expected) = (BTreeMap::new(), Vec::new());
        // The pipe returns the lines in the order of their times, but two CPUs may print at the same time.
        let mut starts_and_ends: Vec<_> = trace
            .events
            .iter()
            .filter_map(|(_, event)| match *event {
                Event::Submit { bio, ns } => Some((ns, bio, true)),
                Event::End { bio, ns } => Some((ns, bio, false)),
                _ => None,
            })
            .collect();
        starts_and_ends.sort_unstable();
        for (ns, bio, is_start) in starts_and_ends {
            if is_start {
                assert_eq!(in_flight.insert(bio, ns), None, "stage {number}: submitted twice");
            } else {
                let Some(start) = in_flight.remove(&bio) else {
                    panic!("stage {number}: {bio:?} ends at {ns} without a start\n{}", seen.stdout)
                };
                expected.push(ns - start);
            }
        }
        trace.durations.sort_unstable();
        expected.sort_unstable();
        assert_eq!((trace.durations.len(), in_flight.len()), (WRITES, 0), "stage {number}");
        // The clock is read once more, after the first line is printed.
        let is_less =
            std::iter::zip(&trace.durations, &expected).all(|(found, most)| 0 < *found && found < most);
        assert!(is_less && trace.not_measured == Some(0), "stage {number}: {}", seen.stdout);
        if (4..=6).contains(&number) {
            assert_eq!(Some(&truth::slowest(&seen).unwrap().duration()), trace.durations.last());
        }
    }
}

fn stage07_times_each_request_of_four_writers() {
    quiet();
    let before = truth::disk_ios().unwrap();
    let (seen, _) = watch_exact("stage07", &four_writers());
    let ios = (truth::disk_ios().unwrap() - before) as usize;
    let trace = trace(&seen);
    let requests: BTreeSet<_> = trace
        .events
        .iter()
        .filter_map(|(_, event)| if let Event::Start { rq } = event { Some(rq) } else { None })
        .collect();
    assert!(requests.len() > 1, "never two requests at the same time");
    assert_eq!((trace.durations.len(), trace.events.len()), (ios, 3 * ios));
    assert_eq!(trace.not_measured, Some(0));
}

/// All have a life. A session shows each call in a task, too: it may miss only those in an interrupt that comes in the
/// middle of its program.
fn ctracer_follows_each_bio_of_four_writers() {
    quiet();
    let stage = ctracer::start(ctracer::SOME);
    io(&four_writers());
    let tree = ctracer::end_as_it_is(stage);
    ctracer::check(&tree);
    let ended = tree.lives.iter().filter(|life| life.end.is_some()).count();
    assert_eq!((tree.lives.len(), ended), (WRITES, WRITES));
    for name in ["submit_bio_noacct", "blk_mq_submit_bio"] {
        let function = tree.header.functions.iter().position(|function| function.name == name);
        let calls = tree.calls.iter().filter(|call| Some(call.function) == function);
        assert!(
            !ctracer::has_session() || calls.filter(|call| call.end.is_some()).count() == WRITES,
            "{name}"
        );
    }
}

/// A disk whose bios end in the tasks that submit them. A preemptible kernel may switch to another task in the middle of
/// a program for such an end.
fn ctracer_sees_each_end_in_a_task() {
    quiet();
    // Without an interrupt, and without requests.
    let disk = NullBlk::with("tasks", Duration::ZERO, &[("irqmode", 0), ("queue_mode", 0)]).unwrap();
    let stage = ctracer::start(ctracer::SOME);
    io(&format!("write {} --size 512 --threads 4 --count {WRITES}", disk.device.display()));
    let tree = ctracer::end_as_it_is(stage);
    ctracer::check(&tree);
    let ended = tree.lives.iter().filter(|life| life.end.is_some()).count();
    assert_eq!((tree.lives.len(), ended), (4 * WRITES, 4 * WRITES));
    assert!(tree.calls.iter().all(|call| !call.place.interrupt));
}

fn examples_count_each_write_of_four_writers() {
    quiet();
    let examples = ["bitehist", "bitesize", "biolatency -j", "tracex3 --json"].map(start);
    let before = truth::disk_ios().unwrap();
    let done = io(&four_writers());
    let requests = truth::disk_ios().unwrap() - before;
    let [hist, size, latency, heat] = examples.map(|example| {
        let seen = end_exact(example);
        assert!(!seen.stderr.contains("warning"), "{seen:?}");
        seen.stdout
    });
    assert_eq!(histogram(&hist).count(), requests, "{hist}");
    assert_eq!(histograms(&size)[&done.pid].count(), WRITES as u64, "{size}");
    assert_eq!(count(&latency, "latency"), requests, "{latency}");
    assert_eq!(count(&heat, "cells"), requests, "{heat}");
}

/// The sum of all `count`s in a list of each interval's JSON.
fn count(text: &str, list: &str) -> u64 {
    let intervals = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let lists = intervals.map(|interval| interval.unwrap()[list].as_array().unwrap().clone());
    lists.flatten().map(|entry| entry["count"].as_u64().unwrap()).sum()
}
