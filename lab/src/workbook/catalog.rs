//! The workbook as Cargo knows it: the stages and the examples with their metadata, and where their binaries are.

use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{MetadataCommand, Package};
use common::{Error, OrCause, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::host::interrupt;
use crate::shared::workload::Workload;

/// Cargo's profile for the room kit.
const SMALL: &str = "kit";

/// A stage, from `[package.metadata.stage]` of its `Cargo.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// 3 for stage 03.
    pub number: u32,
    /// The stage that its diff is taken against.
    pub parent: Option<u32>,
    /// The question it answers.
    pub title: String,
    /// Its one idea.
    pub adds: String,
    /// Every attach point, map type and helper that its parent has not. A tool does not say.
    #[serde(default)]
    pub new: Vec<String>,
    /// How long a class takes for it.
    pub minutes: u32,
    /// The workload beside it, if it is not `write`.
    pub io: Option<String>,
    /// The command it looks at when it is run in the lab without arguments, if it wants one.
    pub command: Option<String>,
    /// Whether it is a tool, and no lesson: longer, without a parent and without exercises.
    #[serde(default)]
    pub tool: bool,
    /// Its folder.
    #[serde(default)]
    pub folder: PathBuf,
}

/// An example, from `[package.metadata.example]` of its `Cargo.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// What it does.
    pub title: String,
    /// The text that it comes from, and the text's year.
    pub text: String,
    /// The workload beside it, if it is not `write`.
    pub io: Option<String>,
    /// The command it looks at when it is run in the lab without arguments, if it wants one.
    pub command: Option<String>,
    /// The tracer of ftrace that it shows instead of having BPF programs.
    pub tracer: Option<String>,
    /// Its folder.
    #[serde(default)]
    pub folder: PathBuf,
}

/// What the lab runs: a stage or an example.
pub trait Program {
    /// Its folder.
    fn folder(&self) -> &Path;

    /// What `cargo lab` calls it, such as `03` or `bitehist`.
    fn name(&self) -> String;

    /// The question that it answers.
    fn title(&self) -> &str;

    /// Its binary's name, such as `stage03` or `bitehist`.
    fn binary(&self) -> String;

    /// The workload beside it, and the command it looks at, if its `Cargo.toml` names them.
    fn beside(&self) -> (Option<&str>, Option<&str>);

    /// The tracer of ftrace that it shows, if it has no BPF programs.
    fn tracer(&self) -> Option<&str> {
        None
    }

    /// Its folder's name, which also is its package's.
    fn package(&self) -> &str {
        self.folder().file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// What the lab starts in the guest to run a binary as this program: the workload beside it, by default what the program
    /// is about, and the binary, by default with the command that it looks at.
    fn argv(&self, binary: &str, io: Option<&Workload>, arguments: &[String]) -> Vec<String> {
        let (own_io, command) = self.beside();
        let command = command.filter(|_| arguments.is_empty());
        let io = match (io, command) {
            (Some(Workload::Io(arguments)), _) => arguments.join(" "),
            (Some(Workload::None), _) | (None, Some(_)) => "none".to_owned(),
            (None, None) => own_io.unwrap_or("write").to_owned(),
        };
        let start = ["guest", "beside", "--io", &io, binary].map(str::to_owned);
        let command = command.iter().flat_map(|command| ["--"].into_iter().chain(command.split(' ')));
        start.into_iter().chain(arguments.iter().cloned()).chain(command.map(str::to_owned)).collect()
    }

    /// Its BPF source and its `main.rs`, in the order in which they are read.
    ///
    /// # Errors
    /// If the folder can't be listed.
    fn sources(&self) -> Result<[PathBuf; 2]> {
        let folder = self.folder().join("src/bpf");
        let entries = folder.read_dir().or_cause(format!("cannot list {}", folder.display()))?;
        let bpf = entries
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.to_string_lossy().ends_with(".bpf.c"));
        let bpf = bpf.ok_or_else(|| Error::new(format!("{} has no NAME.bpf.c", folder.display())))?;
        Ok([bpf, self.folder().join("src/main.rs")])
    }
}

impl Program for Stage {
    fn folder(&self) -> &Path {
        &self.folder
    }

    fn name(&self) -> String {
        format!("{:02}", self.number)
    }

    fn title(&self) -> &str {
        &self.title
    }

    fn binary(&self) -> String {
        format!("stage{:02}", self.number)
    }

    fn beside(&self) -> (Option<&str>, Option<&str>) {
        (self.io.as_deref(), self.command.as_deref())
    }
}

impl Program for Example {
    fn folder(&self) -> &Path {
        &self.folder
    }

    fn name(&self) -> String {
        self.package().to_owned()
    }

    fn title(&self) -> &str {
        &self.title
    }

    fn binary(&self) -> String {
        self.name()
    }

    fn beside(&self) -> (Option<&str>, Option<&str>) {
        (self.io.as_deref(), self.command.as_deref())
    }

    fn tracer(&self) -> Option<&str> {
        self.tracer.as_deref()
    }
}

/// The workspace.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Workbook {
    /// Its top folder.
    pub root: PathBuf,
    /// Where Cargo builds.
    pub target: PathBuf,
    /// Where the learner's working copies are. Git does not see it.
    pub mine: PathBuf,
    /// The stages that are lessons, by number.
    pub stages: Vec<Stage>,
    /// The stages that are tools, by number.
    pub tools: Vec<Stage>,
    /// The examples by name.
    pub examples: Vec<Example>,
}

impl Workbook {
    /// Asks Cargo.
    ///
    /// # Errors
    /// If Cargo can't tell, or a stage's metadata is not as it should be.
    pub fn read() -> Result<Self> {
        let metadata = MetadataCommand::new()
            .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
            .no_deps()
            .exec()
            .or_cause("cannot ask Cargo about the workspace")?;
        let (mut stages, mut examples) = (Vec::new(), Vec::new());
        for package in &metadata.packages {
            let folder = package.manifest_path.parent().map(PathBuf::from).unwrap_or_default();
            if let Some(stage) = described::<Stage>(package, "stage")? {
                stages.push(Stage { folder, ..stage });
            } else if let Some(example) = described::<Example>(package, "example")? {
                examples.push(Example { folder, ..example });
            }
        }
        stages.sort_by_key(|stage| stage.number);
        let (tools, stages) = stages.into_iter().partition(|stage: &Stage| stage.tool);
        examples.sort_by_key(Program::name);
        Ok(Self {
            root: metadata.workspace_root.clone().into(),
            mine: mine(metadata.workspace_root.as_std_path()),
            target: metadata.target_directory.into(),
            stages,
            tools,
            examples,
        })
    }

    /// The stages, lessons and tools, by number.
    pub fn all_stages(&self) -> impl Iterator<Item = &Stage> {
        self.stages.iter().chain(&self.tools)
    }

    /// The stages, then the examples.
    pub fn programs(&self) -> impl Iterator<Item = &dyn Program> {
        let stages = self.all_stages().map(|stage| stage as &dyn Program);
        stages.chain(self.examples.iter().map(|example| example as &dyn Program))
    }

    /// The stage as [`Workbook::stage`] finds it, or the example of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn program(&self, name: &str) -> Result<&dyn Program> {
        if let Some(example) = self.examples.iter().find(|example| example.package() == name) {
            return Ok(example);
        }
        // Only a stage begins with a number.
        if name.trim_start_matches("stage").starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(self.stage(name)?);
        }
        let known: Vec<_> = self.programs().map(Program::name).collect();
        Err(Error::new(format!("there is no stage or example {name}"))
            .evidence(format!("there are {}", known.join(", ")))
            .fix("see what they do: cargo lab list"))
    }

    /// The stage called `3`, `03`, `stage03` or `stage03_bio_latency_map`.
    ///
    /// # Errors
    /// If there is none.
    pub fn stage(&self, name: &str) -> Result<&Stage> {
        let number = name.strip_prefix("stage").unwrap_or(name);
        let number = number.split('_').next().and_then(|number| number.parse::<u32>().ok());
        let found = self.all_stages().find(|stage| Some(stage.number) == number || stage.package() == name);
        found.ok_or_else(|| {
            let known: Vec<_> = self.all_stages().map(|stage| format!("{:02}", stage.number)).collect();
            Error::new(format!("there is no stage {name}"))
                .evidence(format!("the stages are {}", known.join(", ")))
                .fix("see what they do: cargo lab list")
        })
    }

    /// The stage that a stage's diff is taken against.
    ///
    /// # Errors
    /// If it has none, as the first.
    pub fn parent(&self, stage: &Stage) -> Result<&Stage> {
        let parent = self.stages.iter().find(|other| Some(other.number) == stage.parent);
        parent.ok_or_else(|| {
            Error::new(format!("stage {:02} has no stage before it", stage.number))
                .evidence("its Cargo.toml names no parent")
                .fix(format!("name two stages: cargo lab diff {:02} OTHER", stage.number))
        })
    }

    /// Builds all that runs in a guest and gives the binaries. Cargo's own words go to stderr if it has any.
    ///
    /// # Errors
    /// If it does not compile.
    pub fn build(&self) -> Result<Vec<PathBuf>> {
        self.build_programs(self.programs(), "dev")
    }

    /// The same with Cargo's profile `kit`: small.
    ///
    /// # Errors
    /// If it does not compile.
    pub fn build_small(&self) -> Result<Vec<PathBuf>> {
        self.build_programs(self.programs(), SMALL)
    }

    /// Builds what runs in every guest, and no stage or example.
    ///
    /// # Errors
    /// If it does not compile.
    pub fn build_tools(&self) -> Result<Vec<PathBuf>> {
        self.build_programs(std::iter::empty(), "dev")
    }

    fn build_programs<'a>(
        &self,
        programs: impl Iterator<Item = &'a dyn Program>,
        profile: &str,
    ) -> Result<Vec<PathBuf>> {
        const TOOLS: [&str; 2] = ["io", "guest"];
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let mut command = Command::new(cargo);
        command.current_dir(&self.root).args(["build", "--quiet", "--profile", profile, "--package", "lab"]);
        command.args(TOOLS.iter().flat_map(|tool| ["--bin", tool]));
        let mut names = TOOLS.map(str::to_owned).to_vec();
        for program in programs {
            command.args(["--package", program.package(), "--bin", &program.binary()]);
            names.push(program.binary());
        }
        if profile == SMALL {
            command.env("CARGO_ENCODED_RUSTFLAGS", self.nameless());
        }
        let status = command.status().or_cause("cannot start cargo")?;
        if !status.success() {
            // Ctrl-C ends cargo, too.
            interrupt::check()?;
            return Err(Error::new("the workbook does not compile")
                .evidence("the compiler's words above")
                .fix("mend it, or see what you changed: git diff"));
        }
        let folder = if profile == "dev" { self.binaries() } else { self.target.join(profile) };
        Ok(names.iter().map(|name| folder.join(name)).collect())
    }

    /// What tells rustc to leave this machine's folders out of binaries, which hold the places of their panics: who makes a kit
    /// elsewhere gets the same bytes, and nobody reads there whose home it was. Later ones come first.
    fn nameless(&self) -> String {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
        let folders =
            [(home.as_deref(), "cargo"), (Some(&*self.root), "workbook"), (Some(&*self.target), "target")];
        let flags = folders
            .iter()
            .filter_map(|(from, to)| Some(format!("--remap-path-prefix={}={to}", (*from)?.display())));
        flags.collect::<Vec<_>>().join("\x1f")
    }

    /// Where Cargo puts the binaries of [`Workbook::build`].
    pub fn binaries(&self) -> PathBuf {
        self.target.join("debug")
    }

    /// Where the lab remembers things about this machine.
    pub fn memory(&self) -> PathBuf {
        self.target.join("lab")
    }
}

/// What a package's `Cargo.toml` says of it as a stage or as an example, if it is one.
fn described<T: DeserializeOwned>(package: &Package, kind: &str) -> Result<Option<T>> {
    let told = package.metadata.get(kind).cloned().map(serde_json::from_value).transpose();
    told.or_cause(format!("{}: [package.metadata.{kind}] is not as it should be", package.manifest_path))
}

/// The folder `mine`, unless a test has another one, so that it leaves alone what somebody works on.
fn mine(root: &Path) -> PathBuf {
    std::env::var_os("LAB_MINE").map_or_else(|| root.join("mine"), PathBuf::from)
}
