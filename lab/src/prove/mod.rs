//! `cargo lab prove`: gives a tool a workload whose numbers are known, and grades what it prints.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use common::{Error, OrCause, Result};
use machine::apt::{LOADER, unpack_whole};
use machine::boot::Boot;
use machine::terminal::print;
use machine::vm::Vm;
use machine::workbook::Workbook;
use serde::{Deserialize, Serialize};
use wire::arch::Arch;
use wire::prove::{Played, Scene, Tool};

use crate::exercise;

pub mod adapter;
pub mod grade;

use adapter::Adapter;
use grade::Grade;

/// How long a scene may take.
const LIMIT: Duration = Duration::from_secs(1200);

/// The Debian suite whose tools we prove: the one with the newest.
const SUITE: &str = "sid";

#[derive(Args)]
pub struct Options {
    /// A stage, such as 03, an example, such as biolatency, or another tool that has an adapter, such as biosnoop-libbpf
    #[arg(value_name = "TOOL", required_unless_present = "command")]
    tool: Option<String>,
    /// Prove your own working copy of a stage or of an exercise, such as 03.1
    #[arg(long, requires = "tool")]
    mine: bool,
    /// Only this scene, which may be named more than once [default: all of them]
    #[arg(long = "scene", value_name = "NAME")]
    scenes: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    boot: Boot,
    /// A program of this machine and its arguments, which may name a scene's disk, such as @disk. With TOOL, its output is
    /// read by that tool's adapter
    #[arg(last = true)]
    command: Vec<String>,
}

/// What became of a tool in a scene.
#[derive(Serialize)]
struct Proved<'a> {
    scene: &'a Scene,
    played: Played,
    /// None if nobody knows how to read what it printed.
    grades: Vec<Grade>,
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

/// The adapter of a tool: `lab/prove/tools/NAME.toml`.
pub fn adapter(workbook: &Workbook, name: &str) -> Result<Adapter> {
    let file = folder(workbook).join(format!("{name}.toml"));
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
pub fn grades(adapter: &Adapter, played: &Played) -> Result<Vec<Grade>> {
    let report = adapter.read(&format!("{}\n{}", played.stdout, played.stderr))?;
    Ok(grade::grades(played, &report))
}

pub fn run(options: &Options) -> Result<ExitCode> {
    let workbook = options.boot.workbook()?;
    let all = scenes()?;
    if let Some(unknown) = options.scenes.iter().find(|name| !all.iter().any(|scene| scene.name == **name)) {
        let names: Vec<_> = all.iter().map(|scene| &*scene.name).collect();
        return Err(Error::new(format!("there is no scene {unknown}"))
            .fix(format!("name one of {}", names.join(", "))));
    }
    let folder = tempfile::tempdir().or_cause("cannot make a folder")?;
    let (adapter, argv, binaries) = find(&workbook, options, folder.path())?;
    let tool = match &adapter {
        Some(adapter) => adapter.tool(argv),
        None => Tool { argv, attached: None, behind: 1 },
    };
    let mut guest = options.boot.boot_with(&workbook, binaries)?;
    let mut faults = false;
    for scene in all.iter().filter(|scene| options.scenes.is_empty() || options.scenes.contains(&scene.name))
    {
        let played = play(&mut guest, scene, &tool)?;
        let grades = match (&adapter, &played.failed) {
            (Some(adapter), None) => grades(adapter, &played)?,
            _ => Vec::new(),
        };
        faults |= played.failed.is_some() || grades.iter().any(|grade| grade.verdict.is_fault());
        let proved = Proved { scene, played, grades };
        print(&if options.json {
            serde_json::to_string(&proved).or_cause("cannot write JSON")? + "\n"
        } else {
            proved.shown()
        })?;
    }
    Ok(if faults { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The tool's adapter, if it has one, its command line, and the programs that the guest needs for it.
fn find(
    workbook: &Workbook,
    options: &Options,
    folder: &Path,
) -> Result<(Option<Adapter>, Vec<String>, Vec<PathBuf>)> {
    let Options { tool, mine, command, .. } = options;
    let own = match tool {
        Some(name) if *mine => Some(exercise::find(workbook, name)?),
        _ => None,
    };
    let program = match (&own, tool) {
        (Some(own), _) => Some(own.program),
        (None, Some(name)) => workbook.catalog.program(name).ok(),
        (None, None) => None,
    };
    let name = program.map(|program| program.binary()).or_else(|| tool.clone());
    let adapter = name.map(|name| adapter(workbook, &name)).transpose()?;
    // Its errors are better before a kernel boots.
    adapter.as_ref().map(|adapter| adapter.read("")).transpose()?;
    if let [name, arguments @ ..] = &command[..] {
        let file = on_this_machine(name)?;
        let mut argv = vec![file.file_name().unwrap_or_default().to_string_lossy().into_owned()];
        argv.extend_from_slice(arguments);
        let binaries = workbook.build_tools()?.into_iter().chain([file]).collect();
        return Ok((adapter, argv, binaries));
    }
    let adapter = adapter.ok_or_else(|| Error::new("no tool was named"))?;
    let mut argv: Vec<_> = adapter.command.split(' ').map(str::to_owned).collect();
    let binaries = match (&own, program, &adapter.package) {
        (Some(own), ..) => {
            argv[0] = own.binary();
            workbook.build_tools()?.into_iter().chain([exercise::build(workbook, own)?]).collect()
        }
        (None, Some(program), _) => workbook.build_only(&[program])?,
        (None, None, Some(_)) if !(options.boot.arch == Arch::X86 && Arch::HERE == Arch::X86) => {
            return Err(Error::new("the lab fetches Debian's tools only for x86_64")
                .fix("prove a program of this machine: cargo lab prove TOOL -- COMMAND"));
        }
        (None, None, Some(package)) => {
            let binaries = of_debian(package, &argv[0], folder)?;
            let loader = ["--library-path", "/bin"].map(str::to_owned);
            argv[0] = format!("/bin/{}", argv[0]);
            argv = [format!("/bin/{LOADER}")].into_iter().chain(loader).chain(argv).collect();
            workbook.build_tools()?.into_iter().chain(binaries).collect()
        }
        (None, None, None) => {
            return Err(Error::new("this tool is not ours, and its adapter names no package of Debian")
                .fix("name the package in the adapter, or a program: cargo lab prove TOOL -- COMMAND"));
        }
    };
    Ok((Some(adapter), argv, binaries))
}

/// A program by its path, or in `PATH`.
fn on_this_machine(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<_> = std::env::split_paths(&path).map(|folder| folder.join(name)).collect();
    places.insert(0, PathBuf::from(name));
    let file = places.into_iter().find(|file| file.is_file());
    file.ok_or_else(|| Error::new(format!("there is no program {name}")).fix("name its path"))
}

/// A program of a Debian package, its libraries, and the loader that belongs to them.
fn of_debian(package: &str, name: &str, folder: &Path) -> Result<Vec<PathBuf>> {
    eprintln!("Fetching {package} of Debian {SUITE}, and what it needs ...");
    unpack_whole(SUITE, &[package], folder)?;
    let usr = folder.join("usr");
    let libraries = usr.join("lib/x86_64-linux-gnu");
    let program =
        ["bin", "sbin"].map(|place| usr.join(place).join(name)).into_iter().find(|file| file.exists());
    let program = program.ok_or_else(|| Error::new(format!("{package} has no program {name}")))?;
    let loader = libraries.join(LOADER);
    let mut list = std::process::Command::new(&loader);
    list.arg("--library-path").arg(&libraries).arg("--list").arg(&program);
    let list = machine::host::tools::output(&mut list)?;
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    // NAME => PATH (ADDRESS)
    let path = |line: &str| Some(PathBuf::from(line.split_once(" => ")?.1.split(' ').next()?));
    let needed = list.lines().filter_map(path).filter(|path| path.is_absolute());
    Ok([program, loader].into_iter().chain(needed).collect())
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

impl Proved<'_> {
    fn shown(&self) -> String {
        let Self { scene, played, grades } = self;
        let mut text = format!("\n{}: {}\n", scene.name, scene.says);
        if let Some(why) = &played.failed {
            return text + &format!("  The tool did not run: {why}\n{}{}", played.stdout, played.stderr);
        }
        if grades.is_empty() {
            text += "  Nobody knows how to read what it printed, so compare it with what happened:\n";
            for io in &played.done {
                let what = if io.is_write { "wrote" } else { "read" };
                text += &format!(
                    "  process {} {what} {} times {} bytes on {}\n",
                    io.pid, io.count, io.size, io.disk
                );
            }
            for disk in &played.disks {
                text +=
                    &format!("  {} is {} and takes {} us for each I/O\n", disk.name, disk.device, disk.us);
            }
            return text + &played.stdout + &played.stderr;
        }
        let rows: Vec<_> = grades.iter().map(|grade| [&*grade.of, &*grade.truth, &*grade.said]).collect();
        let width = |nth: usize| rows.iter().map(|row| row[nth].chars().count()).max().unwrap_or_default();
        let [of, truth, said] = [width(0), width(1).max(8), width(2).max(7)];
        text += &format!("  {:of$}  {:truth$}  {:said$}\n", "", "happened", "it says");
        for (grade, [what, happened, it_says]) in grades.iter().zip(rows) {
            let says = grade.verdict.says();
            text += &format!("  {what:of$}  {happened:truth$}  {it_says:said$}  {says}\n");
        }
        text
    }
}
