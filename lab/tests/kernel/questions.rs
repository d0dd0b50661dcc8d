//! The answers to the questions are what runs show.

use std::collections::BTreeMap;
use std::panic::panic_any;
use std::process::Command;

use common::Result;
use guest::running::{Observation, Running};
use guest::system::Setting;
use guest::truth::skipped;
use machine::workbook::Workbook;
use machine::workbook::copies::{self, Files};
use nix::sys::signal::Signal;
use questions::{Question, Run, Truth};
use wire::catalog::Program;
use wire::disks::FS_MOUNT;
use wire::workload::{Done, Workload};

use crate::guest::{Missed, io, quiet, wait_until, with_ext4};
use crate::variants::edit;
use crate::{Case, cases};

pub const CASES: &[Case] = cases![the_answers_to_the_questions_are_what_runs_show];

/// A stage's binary, its questions, and the sources that they quote. The guest has no folders of stages.
macro_rules! asked {
    ($binary:literal, $folder:literal, $bpf:literal) => {
        (
            $binary,
            include_str!(concat!("../../../stages/", $folder, "/questions.toml")),
            [
                ("src/main.rs", include_str!(concat!("../../../stages/", $folder, "/src/main.rs"))),
                ($bpf, include_str!(concat!("../../../stages/", $folder, "/", $bpf))),
            ],
        )
    };
}

type Asked = (&'static str, &'static str, [(&'static str, &'static str); 2]);

const ASKED: &[Asked] = &[
    asked!("stage01", "stage01_submit_bio_call_time", "src/bpf/bio_trace.bpf.c"),
    asked!("stage02", "stage02_bio_endio_call_time", "src/bpf/bio_trace.bpf.c"),
    asked!("stage03", "stage03_bio_latency_map", "src/bpf/bio_trace.bpf.c"),
    asked!("stage04", "stage04_max_latency", "src/bpf/bio_trace.bpf.c"),
    asked!("stage05", "stage05_max_latency_sector", "src/bpf/bio_trace.bpf.c"),
    asked!("stage06", "stage06_max_latency_stacktrace", "src/bpf/bio_trace.bpf.c"),
    asked!("stage07", "stage07_latency_other_section", "src/bpf/bio_trace.bpf.c"),
    asked!("stage08", "stage08_pagecache_miss_counts", "src/bpf/pagecache_trace.bpf.c"),
    asked!("stage09", "stage09_pagecache_miss_pid_filter", "src/bpf/pagecache_trace.bpf.c"),
    asked!("stage10", "stage10_every_bio_function", "src/bpf/bio_trace.bpf.c"),
];

/// The stage that starts what it watches.
const STARTS_IO: &str = "stage09";

/// How often to look for what happens only sometimes.
const TRIES: usize = 30;

/// The binary of a stage that is changed for a question.
fn variant(stage: &str, question: &Question) -> String {
    format!("{stage}-asked-{}", question.id)
}

/// The stages that are changed for questions.
pub fn variants(workbook: &Workbook) -> impl Iterator<Item = Result<(String, Files)>> {
    let with_questions: Vec<_> =
        workbook.catalog.stages.iter().filter(|stage| stage.folder.join(questions::FILE).exists()).collect();
    let of_stage = |stage: &dyn Program| -> Result<Vec<(String, Files)>> {
        let binary = stage.binary();
        assert!(ASKED.iter().any(|(asked, ..)| *asked == binary), "nothing proves the questions of {binary}");
        let changed = |question: Question| {
            let truth = question.truth.as_ref().filter(|truth| !truth.change.is_empty())?;
            let name = variant(&binary, &question);
            let files = copies::files(stage).and_then(|mut files| {
                copies::rename(&mut files, stage, &name);
                edit(&mut files, &name, truth.change.iter().map(|change| (&*change.from, &*change.to)))?;
                Ok((name.clone(), files))
            });
            Some(files)
        };
        questions::of(stage.folder())?.into_iter().filter_map(changed).collect()
    };
    let all: Result<Vec<_>> = with_questions.into_iter().map(|stage| of_stage(stage)).collect();
    match all {
        Ok(all) => all.into_iter().flatten().map(Ok).collect::<Vec<_>>(),
        Err(error) => vec![Err(error)],
    }
    .into_iter()
}

fn the_answers_to_the_questions_are_what_runs_show() {
    let mut wrong = Vec::new();
    for &(stage, text, sources) in ASKED {
        let source = |name: &str| Ok(sources.iter().find(|(of, _)| *of == name).unwrap().1.to_owned());
        let mut runs = BTreeMap::new();
        for question in questions::parse(stage.as_ref(), text, source).unwrap() {
            let Some(truth) = &question.truth else { continue };
            let binary = if truth.change.is_empty() { stage.to_owned() } else { variant(stage, &question) };
            let key = (binary.clone(), truth.io.clone());
            let mut prove = || {
                let (seen, pid, ios) = runs.entry(key.clone()).or_insert_with(|| run(&binary, truth));
                let run = Run { stdout: &seen.stdout, stderr: &seen.stderr, pid: *pid, ios: *ios };
                question.prove(&run).inspect_err(|_| drop(runs.remove(&key)))
            };
            let mut proof = prove();
            for _ in 1..if truth.sometimes { TRIES } else { 1 } {
                proof = proof.or_else(|_| prove());
            }
            wrong.extend(proof.err().map(|error| format!("{stage}: {error}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// What a stage printed beside its I/O, with the process id of `io` and the number of its I/Os.
fn run(binary: &str, truth: &Truth) -> (Observation, u32, u64) {
    let Ok(Workload::Io(arguments)) = truth.io.parse() else { panic!("{:?} is no I/O", truth.io) };
    let arguments = arguments.join(" ");
    match arguments.contains(FS_MOUNT) {
        true => with_ext4(),
        false => quiet(),
    }
    // Once unobserved, which makes the file, and leaves nothing to be written later.
    io(&arguments);
    nix::unistd::sync();
    if binary.starts_with(STARTS_IO) {
        let argv: Vec<_> = [binary, "--", "io"].into_iter().chain(arguments.split(' ')).collect();
        let seen = Running::start(&argv).unwrap().wait().unwrap();
        let done = seen.stdout.lines().find(|line| line.starts_with("io ")).unwrap_or_default();
        let done: Done = done.parse().unwrap();
        return (seen, done.pid, done.count);
    }
    let Ok(stage) = Running::start(&[binary]) else {
        let output = Command::new(binary).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains("the kernel's verifier refused a BPF program"), "{binary}: {stderr}");
        return (Observation { stdout: String::new(), stderr, status: output.status }, 0, 0);
    };
    let done = io(&arguments);
    if done.kind == "write-cached" {
        // The kernel writes dirty pages after half a minute, and looks for them every few seconds.
        let _soon = ["dirty_expire_centisecs", "dirty_writeback_centisecs"]
            .map(|name| Setting::new(format!("/proc/sys/vm/{name}"), "10").unwrap());
        let is_written = || std::fs::read_to_string("/proc/vmstat").unwrap().contains("\nnr_writeback 0\n");
        wait_until("the kernel has written what is dirty", || stage.lines() > 0 && is_written());
    }
    let mut seen = stage.end(Signal::SIGINT).unwrap();
    seen.stdout = with_names(&seen.stdout);
    if truth.change.is_empty() && skipped(&seen).is_some_and(|skipped| skipped > 0) {
        panic_any(Missed);
    }
    (seen, done.pid, done.count)
}

/// The tracer doesn't know the name of a task that has not been switched away from since; the kernel does.
fn with_names(stdout: &str) -> String {
    let named = |line: &str| {
        let pid = line.strip_prefix("<...>-")?.split(' ').next()?;
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        Some(line.replacen("<...>", name.trim(), 1))
    };
    stdout.lines().map(|line| named(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}
