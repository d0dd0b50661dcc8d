//! Runs that start, end and are killed at the same moment don't disturb each other.

use std::fs;
use std::thread;

use clap::Parser;
use common::args::RunArgs;
use common::trace_pipe::TracePipe;
use guest::running::Observation;
use nix::sys::signal::Signal;

use crate::guest::{instances, io, programs, quiet, start, wait_until};
use crate::{Case, cases, or_soak};

pub const CASES: &[Case] =
    cases![trace_pipes_are_made_at_the_same_moment(Outer), stages_start_at_the_same_moment(Outer),];

/// How many of them start at the same moment.
const STARTS: usize = 8;

const ROUNDS: usize = 12;

#[derive(Parser)]
struct Options {
    #[command(flatten)]
    run: RunArgs,
}

/// What a run does before and after its programs are loaded, without them: so 96 starts take little time. Each run
/// also removes what others have left, and one of each round leaves something.
fn trace_pipes_are_made_at_the_same_moment() {
    let args = Options::parse_from(["stage01"]).run;
    quiet();
    thread::scope(|scope| {
        let starts = (0..STARTS).map(|nth| {
            let args = &args;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    if round % STARTS == nth {
                        let left = format!("/sys/kernel/tracing/instances/bpf-workbook-1-{round}");
                        fs::create_dir(left).unwrap();
                    }
                    let pipe = TracePipe::matching(args, Some(&["submit_bio() called: %llu".to_owned()]));
                    drop(pipe.map_err(|error| error.to_string()).unwrap());
                }
            })
        });
        for start in starts.collect::<Vec<_>>() {
            start.join().unwrap();
        }
    });
    // Whoever comes first removes what was left.
    drop(TracePipe::matching(&args, Some(&["submit_bio() called: %llu".to_owned()])).unwrap());
    assert_eq!(instances(), [""; 0]);
}

/// Different stages, and two of one.
const TOGETHER: [&str; STARTS] =
    ["stage01", "stage03", "stage07", "stage08", "stage01", "stage06", "bigreads --printk", "biolatency"];

fn stages_start_at_the_same_moment() {
    quiet();
    let before = programs();
    for round in 0..or_soak(4, 50) {
        let stages = thread::scope(|scope| {
            TOGETHER.map(|command| scope.spawn(move || start(command))).map(|start| start.join().unwrap())
        });
        io("write /dev/scratch --count 4");
        // They end at the same moment, too, and one of them leaves its trace pipe.
        let seen = thread::scope(|scope| {
            let ends = stages.into_iter().enumerate().map(|(nth, stage)| {
                let signal = if nth == 5 { Signal::SIGKILL } else { Signal::SIGINT };
                scope.spawn(move || stage.end(signal).unwrap())
            });
            let ends: Vec<_> = ends.collect();
            ends.into_iter().map(|end| end.join().unwrap()).collect::<Vec<Observation>>()
        });
        for (nth, seen) in seen.iter().enumerate() {
            let what = format!("round {round}, {:?}: {seen:?}", TOGETHER[nth]);
            assert!(nth == 5 || seen.status.success() && !seen.stderr.contains("cannot remove"), "{what}");
        }
        // Stage 01 runs twice, and stages 03 and 06 print the same text: each of these has both runs' lines.
        assert_eq!([0, 4, 1].map(|nth| seen[nth].lines().len()), [8, 8, 24], "round {round}");
    }
    start("stage01").end(Signal::SIGINT).unwrap();
    assert_eq!(instances(), [""; 0]);
    wait_until("the programs are gone", || programs() == before);
}
