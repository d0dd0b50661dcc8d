//! The answers to the questions are what runs show.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::panic::panic_any;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{OrCause, Result};
use guest::running::{Observation, Running};
use guest::system::Setting;
use guest::truth::skipped;
use machine::workbook::Workbook;
use machine::workbook::copies::{self, Files};
use nix::sys::signal::Signal;
use questions::{Question, Run, Truth};
use serde::{Deserialize, Serialize};
use wire::disks::FS_MOUNT;
use wire::workload::{Done, Workload};

use crate::guest::{Missed, io, quiet, wait_until, with_ext4};
use crate::variants::edit;
use crate::{Case, cases};

pub const CASES: &[Case] = cases![the_answers_to_the_questions_are_what_runs_show(X86),];

/// A program, a chapter, or a form of the concept test, with its questions: the guest has no folders.
#[derive(Deserialize, Serialize)]
struct Asked {
    /// The program's binary, or the name of the other two.
    name: String,
    text: String,
    /// The files that the text quotes.
    sources: BTreeMap<String, String>,
    /// Whether the program starts what it watches.
    starts_io: bool,
}

/// Where the guest has them.
const ASKED: &str = "/bin/asked.json";

/// Writes the questions that a run answers into a file for the guest.
pub fn write(workbook: &Workbook, folder: &Path) -> Result<PathBuf> {
    let root = &workbook.root;
    let mut asked = Vec::new();
    let mut add = |name: String, file: PathBuf, folder: &Path, starts_io: bool| -> Result<()> {
        let read = |path: &Path| fs::read_to_string(path).or_cause(format!("cannot read {}", path.display()));
        let (text, sources) = (read(&file)?, RefCell::new(BTreeMap::new()));
        let source = |name: &str| {
            let text = read(&folder.join(name))?;
            sources.borrow_mut().insert(name.to_owned(), text.clone());
            Ok(text)
        };
        if questions::parse(&file, &text, source)?.iter().any(|question| is_run(question).is_some()) {
            asked.push(Asked { name, text, sources: sources.into_inner(), starts_io });
        }
        Ok(())
    };
    for program in workbook.catalog.programs() {
        let file = program.folder.join(questions::FILE);
        if file.exists() {
            add(program.binary(), file, &program.folder, program.command.is_some())?;
        }
    }
    let chapters = root.join(questions::CHAPTERS);
    for name in questions::chapters(root)?.into_iter().chain(["concept/a", "concept/b"].map(str::to_owned)) {
        let file = chapters.join(&name).with_extension("toml");
        add(name, file, root, false)?;
    }
    let file = folder.join("asked.json");
    let text = serde_json::to_string(&asked).or_cause("cannot write the questions")?;
    fs::write(&file, text).or_cause("cannot write the questions")?;
    Ok(file)
}

/// How a run answers a question, if one does.
fn is_run(question: &Question) -> Option<&Truth> {
    question.truth.as_ref().filter(|truth| truth.recorded.is_none())
}

/// How often to repeat a run in which nothing happened.
const TRIES: usize = 30;

/// The binary of a program that is changed for a question.
fn variant(stage: &str, question: &Question) -> String {
    format!("{stage}-asked-{}", question.id)
}

/// The programs that are changed for questions.
pub fn variants(workbook: &Workbook) -> Result<Vec<(String, Files)>> {
    let mut variants = Vec::new();
    for program in workbook.catalog.programs() {
        for question in questions::of(&program.folder)? {
            let Some(truth) = question.truth.as_ref().filter(|truth| !truth.change.is_empty()) else {
                continue;
            };
            let name = variant(&program.binary(), &question);
            let mut files = copies::files(program)?;
            copies::rename(&mut files, program, &name);
            edit(&mut files, &name, &truth.change)?;
            variants.push((name, files));
        }
    }
    Ok(variants)
}

fn the_answers_to_the_questions_are_what_runs_show() {
    let (mut wrong, mut runs) = (Vec::new(), BTreeMap::new());
    let all: Vec<Asked> = serde_json::from_str(&fs::read_to_string(ASKED).unwrap()).unwrap();
    let starts_io = |program: &str| all.iter().any(|asked| asked.starts_io && asked.name == program);
    for Asked { name: asked, text, sources, .. } in &all {
        let source = |name: &str| Ok(sources[name].clone());
        for question in questions::parse(asked.as_ref(), text, source).unwrap() {
            let Some(truth) = is_run(&question) else { continue };
            let program = truth.program.as_deref().unwrap_or(asked);
            let binary =
                if truth.change.is_empty() { program.to_owned() } else { variant(program, &question) };
            let key = (binary.clone(), truth.io.clone(), truth.arguments.clone());
            let mut tries = 1..TRIES;
            let proof = loop {
                let (seen, pid, ios) =
                    runs.entry(key.clone()).or_insert_with(|| run(&binary, truth, starts_io(program)));
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
fn run(binary: &str, truth: &Truth, starts_io: bool) -> (Observation, u32, u64) {
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
    if starts_io {
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
        let is_written = || fs::read_to_string("/proc/vmstat").unwrap().contains("\nnr_writeback 0\n");
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
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        Some(line.replacen("<...>", name.trim(), 1))
    };
    stdout.lines().map(|line| named(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}
