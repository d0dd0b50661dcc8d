//! `cargo lab prove`: gives a tool a workload whose numbers are known, and grades what it prints.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use common::{Error, OrCause, Result};
use machine::boot::Boot;
use machine::kernels::{MATRIX, Series};
use machine::lock::Lock;
use machine::qemu::MEMORY;
use machine::terminal::print;
use machine::vm::Vm;
use machine::workbook::Workbook;
use serde::{Deserialize, Serialize};
use wire::prove::{Played, Scene, Tool};

pub mod adapter;
mod cost;
pub mod grade;
mod show;
pub mod tool;

use adapter::Adapter;
use grade::Grade;
use tool::Ready;

/// How long a scene may take.
const LIMIT: Duration = Duration::from_secs(1200);

#[derive(Args)]
pub struct Options {
    /// A stage, such as 03, an example, such as biolatency, another tool that has an adapter, such as biosnoop-libbpf, or
    /// the path of an adapter of yours, such as prove.toml
    #[arg(value_name = "TOOL", required_unless_present = "command")]
    tool: Option<String>,
    /// Prove your own working copy of a stage or of an exercise, such as 03.1
    #[arg(long, requires = "tool")]
    mine: bool,
    /// Only this scene, which may be named more than once [default: all of them]
    #[arg(long = "scene", value_name = "NAME")]
    scenes: Vec<String>,
    /// Debian packages, separated by spaces, that have the command after `--`
    #[arg(long, value_name = "NAMES", requires = "command")]
    package: Option<String>,
    /// Print JSON, a line for each scene
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print a table in Markdown, a row for each scene
    #[arg(long)]
    markdown: bool,
    /// Count the instructions that the tool takes for each I/O, instead
    #[arg(long, conflicts_with_all = ["json", "markdown", "scenes"])]
    cost: bool,
    #[command(flatten)]
    boot: Boot,
    /// A program of this machine or of --package, and its arguments, which may name a scene's disk, such as @disk. With TOOL,
    /// its output is read by that tool's adapter
    #[arg(last = true)]
    command: Vec<String>,
}

/// What became of a tool in a scene.
#[derive(Serialize)]
struct Proved<'a> {
    kernel: &'a str,
    /// Debian's version, if it is of Debian.
    version: Option<&'a str>,
    scene: &'a Scene,
    played: Played,
    /// None if nobody knows how to read what it printed.
    grades: Vec<Grade>,
    /// Why it is wrong in this scene, if it is, and if somebody knows.
    why: Option<&'a str>,
}

/// All scenes.
pub fn scenes() -> Result<Vec<Scene>> {
    #[derive(Deserialize)]
    struct File {
        scene: Vec<Scene>,
    }
    let file: File =
        toml::from_str(include_str!("../../prove/scenes.toml")).or_cause("cannot read the scenes")?;
    Ok(file.scene)
}

/// The adapter of a tool: `lab/prove/tools/NAME.toml`, or a file of somebody's own.
pub fn adapter(workbook: &Workbook, name: &str) -> Result<Adapter> {
    let file = match name.ends_with(".toml") {
        true => PathBuf::from(name),
        false => folder(workbook).join(format!("{name}.toml")),
    };
    let text = fs::read_to_string(&file)
        .or_cause(format!("nobody has said how to read what {name} prints: {}", file.display()));
    Adapter::of(&text.map_err(|error| {
        error.fix("write that file, as others beside it are; or prove a command: cargo lab prove -- COMMAND")
    })?)
}

pub fn folder(workbook: &Workbook) -> PathBuf {
    workbook.root.join("lab/prove/tools")
}

/// Grades what a tool printed.
pub fn grades(adapter: &Adapter, scene: &Scene, played: &Played) -> Result<Vec<Grade>> {
    let report = adapter.read(&format!("{}\n{}", played.stdout, played.stderr))?;
    Ok(grade::grades(scene, played, adapter, &report))
}

pub fn run(options: &Options) -> Result<ExitCode> {
    if options.cost {
        return cost::run(options);
    }
    if options.markdown {
        print(show::HEAD)?;
    }
    let mut faults = false;
    each(options, |proved| {
        faults |= !proved.is_well();
        print(&if options.json {
            serde_json::to_string(proved).or_cause("cannot write JSON")? + "\n"
        } else if options.markdown {
            proved.row()
        } else {
            proved.shown()
        })
        .map(drop)
    })?;
    Ok(if faults { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Plays all scenes for a tool, on one kernel after the other.
fn each(options: &Options, mut then: impl FnMut(&Proved) -> Result<()>) -> Result<()> {
    let workbook = options.boot.workbook()?;
    let mut all = scenes()?;
    if let Some(unknown) = options.scenes.iter().find(|name| !all.iter().any(|scene| scene.name == **name)) {
        let names: Vec<_> = all.iter().map(|scene| &*scene.name).collect();
        return Err(Error::new(format!("there is no scene {unknown}"))
            .fix(format!("name one of {}", names.join(", "))));
    }
    let ready = tool::ready(&workbook, options)?;
    let counts = ready.adapter.as_ref().map_or_else(Default::default, |adapter| adapter.counts);
    // Somebody may name a disk that not every scene has.
    let disks = ready.tool.argv.iter().filter_map(|word| Some(word.rsplit_once('@')?.1));
    let disks: Vec<_> =
        disks.filter(|name| all.iter().any(|scene| scene.has(name))).map(str::to_owned).collect();
    all.retain(|scene| match options.scenes.is_empty() {
        true => scene.counts.contains(&counts) && disks.iter().all(|name| scene.has(name)),
        false => options.scenes.contains(&scene.name),
    });
    for boot in kernels(options, &ready)? {
        let mut guest = start(&workbook, &boot, &ready)?;
        for scene in &all {
            let played = play(&mut guest, scene, &ready.tool)?;
            let grades = match (&ready.adapter, &played.failed) {
                (Some(adapter), None) => grades(adapter, scene, &played)?,
                _ => Vec::new(),
            };
            let why = ready.adapter.as_ref().and_then(|adapter| adapter.why(&scene.name));
            let version = ready.version.as_deref();
            then(&Proved { kernel: &boot.kernel, version, scene, played, grades, why })?;
        }
    }
    Ok(())
}

/// How to boot each kernel on which the tool should be proved.
fn kernels(options: &Options, ready: &Ready) -> Result<Vec<Boot>> {
    let mut names = match &*options.boot.kernel {
        "all" => MATRIX.iter().map(|series| series.name).collect(),
        one => vec![one],
    };
    if let Some(Adapter { kernels: its, .. }) = ready.adapter.as_ref().filter(|it| !it.kernels.is_empty()) {
        names.retain(|kernel| its.iter().any(|its| its == kernel));
        if names.is_empty() {
            let what = format!("this tool is not meant for Linux {}", options.boot.kernel);
            return Err(Error::new(what)
                .evidence(format!("by its own words, it is for {}", its.join(", ")))
                .fix(format!("choose another kernel: --kernel {}", its[0])));
        }
    }
    Ok(names.iter().map(|name| Boot { kernel: (*name).to_owned(), ..options.boot.clone() }).collect())
}

/// Boots a kernel with the tool in it.
fn start(workbook: &Workbook, boot: &Boot, ready: &Ready) -> Result<Vm> {
    let kernel = &boot.kernel;
    let mut machine = boot.machine(workbook, ready.binaries.clone())?;
    machine.copies = ready.copies.clone();
    if let Ok(series) = Series::of(kernel) {
        let lock = Lock::read()?;
        let release = &lock.kernel(boot.arch, kernel)?.source.package.release;
        machine.copies.extend(ready.headers(workbook, series, release)?);
    }
    let size: u64 =
        machine.copies.iter().filter_map(|(file, _)| Some(fs::symlink_metadata(file).ok()?.len())).sum();
    // Once in the archive, once out of it, and something to work with.
    machine.memory = MEMORY + 3 * (size >> 20) as u32;
    boot.start(&machine)
}

fn play(guest: &mut Vm, scene: &Scene, tool: &Tool) -> Result<Played> {
    let cannot = "cannot ask the guest";
    let [asked, how] = [serde_json::to_string(scene), serde_json::to_string(tool)];
    let seen = guest.output(&["guest", "prove", &asked.or_cause(cannot)?, &how.or_cause(cannot)?], LIMIT)?;
    if seen.status != 0 {
        return Err(Error::new(format!("the scene {} can't be played", scene.name)).evidence(seen.stderr));
    }
    serde_json::from_slice(&seen.stdout).or_cause("cannot read what the guest says")
}
