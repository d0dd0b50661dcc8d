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
            &[
                ("src/main.rs", include_str!(concat!("../../../stages/", $folder, "/src/main.rs"))),
                ($bpf, include_str!(concat!("../../../stages/", $folder, "/", $bpf))),
            ],
        )
    };
    // An example or a chapter, whose questions quote nothing.
    ($name:literal, $file:literal) => {
        ($name, include_str!(concat!("../../../", $file)), &[])
    };
}

type Asked = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

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
    asked!("bigreads", "examples/bigreads/questions.toml"),
    asked!("biolatency", "examples/biolatency/questions.toml"),
    asked!("bitehist", "examples/bitehist/questions.toml"),
    asked!("bitesize", "examples/bitesize/questions.toml"),
    asked!("ctracer", "examples/ctracer/questions.toml"),
    asked!("hello_clone", "examples/hello_clone/questions.toml"),
    asked!("hello_perf_output", "examples/hello_perf_output/questions.toml"),
    asked!("page_cache_scenario", "examples/page_cache_scenario/questions.toml"),
    asked!("tracex3", "examples/tracex3/questions.toml"),
    // The chapters with a question that a run answers.
    asked!("histograms", "docs/questions/histograms.toml"),
    asked!("load", "docs/questions/load.toml"),
    asked!("slow-disk", "docs/questions/slow-disk.toml"),
    asked!("storage-stack", "docs/questions/storage-stack.toml"),
    // The concept test.
    asked!("form a", "docs/questions/concept/a.toml"),
    asked!("form b", "docs/questions/concept/b.toml"),
];

/// The stage that starts what it watches.
const STARTS_IO: &str = "stage09";

/// How often to repeat a run in which nothing happened.
const TRIES: usize = 30;

/// The binary of a program that is changed for a question.
fn variant(stage: &str, question: &Question) -> String {
    format!("{stage}-asked-{}", question.id)
}

/// The programs that are changed for questions.
pub fn variants(workbook: &Workbook) -> impl Iterator<Item = Result<(String, Files)>> {
    let is_asked = |name: &str| {
        assert!(ASKED.iter().any(|(asked, ..)| *asked == name), "nothing proves the questions of {name}");
    };
    let of_program = |program: &dyn Program| -> Result<Vec<(String, Files)>> {
        let binary = program.binary();
        let questions = questions::of(program.folder())?;
        if !questions.is_empty() {
            is_asked(&binary);
        }
        let changed = |question: Question| {
            let truth = question.truth.as_ref().filter(|truth| !truth.change.is_empty())?;
            let name = variant(&binary, &question);
            let files = copies::files(program).and_then(|mut files| {
                copies::rename(&mut files, program, &name);
                edit(&mut files, &name, truth.change.iter().map(|change| (&*change.from, &*change.to)))?;
                Ok((name.clone(), files))
            });
            Some(files)
        };
        questions.into_iter().filter_map(changed).collect()
    };
    let of_chapters = || -> Result<()> {
        for chapter in questions::chapters(&workbook.root)? {
            let questions = questions::of_chapter(&workbook.root, &chapter)?;
            let is_run =
                |question: &Question| question.truth.as_ref().is_some_and(|truth| truth.recorded.is_none());
            if questions.iter().any(is_run) {
                is_asked(&chapter);
            }
        }
        Ok(())
    };
    let all: Result<Vec<_>> = workbook.catalog.programs().map(of_program).collect();
    match of_chapters().and(all) {
        Ok(all) => all.into_iter().flatten().map(Ok).collect::<Vec<_>>(),
        Err(error) => vec![Err(error)],
    }
    .into_iter()
}

fn the_answers_to_the_questions_are_what_runs_show() {
    let (mut wrong, mut runs) = (Vec::new(), BTreeMap::new());
    for &(asked, text, sources) in ASKED {
        let source = |name: &str| Ok(sources.iter().find(|(of, _)| *of == name).unwrap().1.to_owned());
        for question in questions::parse(asked.as_ref(), text, source).unwrap() {
            let Some(truth) = question.truth.as_ref().filter(|truth| truth.recorded.is_none()) else {
                continue;
            };
            let program = truth.program.as_deref().unwrap_or(asked);
            let binary =
                if truth.change.is_empty() { program.to_owned() } else { variant(program, &question) };
            let key = (binary.clone(), truth.io.clone(), truth.arguments.clone());
            let mut tries = 1..TRIES;
            let proof = loop {
                let (seen, pid, ios) = runs.entry(key.clone()).or_insert_with(|| run(&binary, truth));
                let run = Run { stdout: &seen.stdout, stderr: &seen.stderr, pid: *pid, ios: *ios };
                let happened = truth.unless.is_none() || truth.of(&run).ok() != truth.unless;
                if happened || tries.next().is_none() {
                    break question.prove(&run);
                }
                runs.remove(&key);
            };
            wrong.extend(proof.err().map(|error| format!("{asked}: {error}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// What a program printed beside its I/O, with the process id of `io` and the number of its I/Os.
fn run(binary: &str, truth: &Truth) -> (Observation, u32, u64) {
    let argv: Vec<_> = [binary].into_iter().chain(truth.arguments.split_whitespace()).collect();
    let arguments = match truth.io.parse().unwrap() {
        Workload::Io(arguments) => arguments,
        Workload::None => {
            with_ext4();
            return (run_to_its_end(&argv), 0, 0);
        }
    };
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
    let Ok(stage) = Running::start(&argv) else {
        let seen = run_to_its_end(&argv);
        let refused = "the kernel's verifier refused a BPF program";
        assert!(seen.stderr.contains(refused), "{binary}: {}", seen.stderr);
        return (seen, 0, 0);
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

/// A program that ends by itself.
fn run_to_its_end(argv: &[&str]) -> Observation {
    let output = Command::new(argv[0]).args(&argv[1..]).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Observation { stdout: text(output.stdout), stderr: text(output.stderr), status: output.status }
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
