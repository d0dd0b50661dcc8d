//! What the workbook contains: the stages and examples with their metadata. A room kit's guest has the same, as data.

use std::path::{Path, PathBuf};

use common::{Error, OrCause, Result};
use serde::{Deserialize, Serialize};

use crate::workload::Workload;

/// A program that the lab runs: a stage, from `[package.metadata.stage]` of its `Cargo.toml`, or an example, from
/// `[package.metadata.example]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Program {
    /// The question that it answers, or what an example does.
    pub title: String,
    /// The workload to run beside it, if not `write`.
    pub io: Option<String>,
    /// The command to observe when the lab runs it without arguments, if it needs one.
    pub command: Option<String>,
    pub folder: PathBuf,

    /// Of a stage: 3 for stage 03. An example has none: 0.
    pub number: u32,
    /// The stage that it is compared with, from which it was made.
    pub parent: Option<u32>,
    /// Its one idea.
    pub adds: String,
    /// Each attach point, map type and helper that its parent doesn't use. A test compares this with the compiled object.
    pub new: Vec<String>,
    /// The items of its sources whose change is the lesson, in the order that teaches best. An item is called what it
    /// defines, or `#include`, `about`, `use`, `bpf`.
    pub lesson: Vec<String>,
    /// The other items that change: counters, options and reports. A diff shows them after the lesson.
    pub bookkeeping: Vec<String>,
    /// How long a class takes for it, with one exercise.
    pub minutes: u32,
    /// What the check finds in its parent, checked as this stage: any other fault would teach something else.
    pub parent_fails: Option<String>,
    /// Whether the demo leaves it out, because it takes too long to begin and to end.
    pub slow: bool,
    /// How many words of its page a reader may see before the exercises, if more than usual.
    pub words: Option<usize>,
    /// In how many lines of code it may differ from its parent, if in more than usual.
    pub lines: Option<usize>,

    /// Of an example: the text that it comes from, with its year.
    pub text: String,
    /// Whether the demo runs it.
    pub demo: bool,
    /// What it needs of a kernel, as sections of BPF programs name it, such as `fentry/bio_endio` or `tracer/function_graph`;
    /// if there are none, the sections of its source say it.
    #[serde(default)]
    pub needs: Vec<String>,
}

impl Program {
    /// Whether this stage is still a copy of its parent: nothing is its lesson.
    pub fn is_copy(&self) -> bool {
        self.parent.is_some() && self.lesson.is_empty()
    }

    /// Its name for `cargo lab`, such as `03` or `bitehist`.
    pub fn name(&self) -> String {
        if self.number > 0 { format!("{:02}", self.number) } else { self.package().to_owned() }
    }

    /// Its binary's name, such as `stage03` or `bitehist`.
    pub fn binary(&self) -> String {
        if self.number > 0 { format!("stage{:02}", self.number) } else { self.name() }
    }

    /// The name of its folder, which is also the name of its package.
    pub fn package(&self) -> &str {
        self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Its page in the book, without the file's ending, such as `stages/03`.
    pub fn page(&self) -> PathBuf {
        let folder = self.folder.parent().and_then(Path::file_name).unwrap_or_default();
        Path::new(folder).join(self.name())
    }

    /// The command with which the guest runs a binary as this program. It contains the workload, by default the
    /// program's own, and the binary, by default with the command to observe.
    pub fn argv(&self, binary: &str, io: Option<&Workload>, arguments: &[String]) -> Vec<String> {
        let command = self.command.as_ref().filter(|_| arguments.is_empty());
        let io = match (io, command) {
            (Some(Workload::Io(arguments)), _) => arguments.join(" "),
            (Some(Workload::None), _) | (None, Some(_)) => "none".to_owned(),
            (None, None) => self.io.clone().unwrap_or_else(|| "write".to_owned()),
        };
        let start = ["guest", "beside", "--io", &io, binary].map(str::to_owned);
        let command = command.iter().flat_map(|command| ["--"].into_iter().chain(command.split(' ')));
        start.into_iter().chain(arguments.iter().cloned()).chain(command.map(str::to_owned)).collect()
    }

    /// Its BPF source and its `main.rs`, in the order in which to read them.
    pub fn sources(&self) -> Result<[PathBuf; 2]> {
        let folder = self.folder.join("src/bpf");
        let entries = folder.read_dir().or_cause(format!("cannot list {}", folder.display()))?;
        let mut paths = entries.flatten().map(|entry| entry.path());
        let bpf = paths.find(|path| path.to_string_lossy().ends_with(".bpf.c"));
        let bpf = bpf.ok_or_else(|| Error::new(format!("{} has no NAME.bpf.c", folder.display())))?;
        Ok([bpf, self.folder.join("src/main.rs")])
    }
}

/// All stages and examples.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Catalog {
    pub stages: Vec<Program>,
    pub examples: Vec<Program>,
}

impl Catalog {
    pub fn programs(&self) -> impl Iterator<Item = &Program> {
        self.stages.iter().chain(&self.examples)
    }

    /// The stage of this name, found as by [`Catalog::stage`], or the example.
    pub fn program(&self, name: &str) -> Result<&Program> {
        if let Some(example) = self.examples.iter().find(|example| example.package() == name) {
            return Ok(example);
        }
        // Only the name of a stage begins with a digit.
        if name.trim_start_matches("stage").starts_with(|c: char| c.is_ascii_digit()) {
            return self.stage(name);
        }
        let known: Vec<_> = self.programs().map(Program::name).collect();
        Err(Error::new(format!("there is no stage or example {name}"))
            .evidence(format!("there are {}", known.join(", ")))
            .fix("see what they do: cargo lab list"))
    }

    /// The stage called `3`, `03`, `stage03` or `stage03_bio_latency_map`.
    pub fn stage(&self, name: &str) -> Result<&Program> {
        let number = name.strip_prefix("stage").unwrap_or(name);
        let number = number.split('_').next().and_then(|number| number.parse::<u32>().ok());
        let found = self.stages.iter().find(|stage| Some(stage.number) == number || stage.package() == name);
        found.ok_or_else(|| {
            let known: Vec<_> = self.stages.iter().map(|stage| format!("{:02}", stage.number)).collect();
            Error::new(format!("there is no stage {name}"))
                .evidence(format!("the stages are {}", known.join(", ")))
                .fix("see what they do: cargo lab list")
        })
    }

    /// The items whose change is the lesson from one stage to another: those of the new stage, and of the stages in
    /// between.
    pub fn lesson(&self, old: &Program, new: &Program) -> Vec<&str> {
        let mut names = Vec::new();
        let mut stage = self.stages.iter().find(|stage| stage.number == new.number);
        while let Some(this) = stage.filter(|stage| stage.number != old.number) {
            names.extend(this.lesson.iter().map(String::as_str));
            stage = self.parent(this).ok();
        }
        names
    }

    /// The stage that a stage is compared with, from which it was made.
    /// The first one has none.
    pub fn parent(&self, stage: &Program) -> Result<&Program> {
        let parent = self.stages.iter().find(|other| Some(other.number) == stage.parent);
        parent.ok_or_else(|| {
            Error::new(format!("stage {:02} has no stage before it", stage.number))
                .evidence("its Cargo.toml names no parent")
                .fix(format!("name two stages: cargo lab diff {:02} OTHER", stage.number))
        })
    }
}
