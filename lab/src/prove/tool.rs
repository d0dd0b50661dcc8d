//! Brings a tool into the guest: one of ours, a program of this machine, or packages of Debian.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use common::{Error, OrCause, Result};
use machine::apt::unpack_whole;
use machine::kernels::Series;
use machine::workbook::Workbook;
use wire::arch::Arch;
use wire::prove::Tool;

use crate::exercise;
use crate::prove::adapter::{Adapter, ROOT};
use crate::prove::{Options, adapter};

/// The Debian suite whose tools we prove: the one with the newest.
const SUITE: [&str; 1] = ["sid"];

/// A tool that is ready for a guest.
pub struct Ready {
    /// How to read what it prints, if anybody knows.
    pub adapter: Option<Adapter>,
    pub tool: Tool,
    pub binaries: Vec<PathBuf>,
    /// Files of this machine, and their paths in the guest.
    pub copies: Copies,
    /// Debian's version of its package.
    pub version: Option<String>,
}

/// Builds, fetches or finds what was named.
pub fn ready(workbook: &Workbook, options: &Options) -> Result<Ready> {
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

    let mut ready = Ready {
        tool: Tool { argv: command.clone(), attached: None, behind: 1, root: None },
        adapter: None,
        binaries: workbook.build_tools()?,
        copies: Vec::new(),
        version: None,
    };
    if let Some(adapter) = &adapter {
        let argv = if command.is_empty() { adapter.argv() } else { command.clone() };
        ready.tool = adapter.tool(argv);
    }
    let package = options.package.clone().or_else(|| adapter.as_ref()?.package.clone());
    ready.adapter = adapter;
    match (&own, program, package) {
        _ if !command.is_empty() && options.package.is_none() => ready.of_this_machine(None)?,
        (Some(own), ..) => {
            ready.tool.argv[0] = own.binary();
            ready.binaries.push(exercise::build(workbook, own)?);
        }
        (None, Some(program), _) => ready.binaries = workbook.build_only(&[program])?,
        (None, None, Some(_)) if !(options.boot.arch == Arch::X86 && Arch::HERE == Arch::X86) => {
            return Err(Error::new("the lab fetches Debian's tools only for x86_64")
                .fix("prove a program of this machine: cargo lab prove TOOL -- COMMAND"));
        }
        (None, None, Some(packages)) => {
            let packages: Vec<_> = packages.split(' ').collect();
            let (copies, version) = of_debian(workbook, &SUITE, &packages)?;
            (ready.copies, ready.version) = (copies, Some(version));
            ready.tool.root = Some(ROOT.to_owned());
            ready.give("given")?;
        }
        (None, None, None) => ready.of_this_machine(tool.as_deref())?,
    }
    Ok(ready)
}

impl Ready {
    /// Takes the program of its command line from this machine. An adapter means those beside it.
    fn of_this_machine(&mut self, adapter: Option<&str>) -> Result<()> {
        let folder = adapter.and_then(|file| Path::new(file).parent()).unwrap_or(Path::new(""));
        let file = on_this_machine(folder, &self.tool.argv[0])?;
        self.tool.argv[0] = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.binaries.push(file);
        self.give("bin")
    }

    /// Copies the files of this machine that its arguments name into a folder of the guest.
    fn give(&mut self, folder: &str) -> Result<()> {
        let root = self.tool.root.clone().unwrap_or_default();
        for word in self.tool.argv.iter_mut().skip(1) {
            let file = PathBuf::from(&*word);
            if file.is_file() && !(file.is_absolute() && self.tool.root.is_some()) {
                let name = file.file_name().unwrap_or_default();
                let place = Path::new("/").join(folder).join(name);
                self.copies.push((file.clone(), inside(Path::new(&root).join(folder).join(name).as_path())));
                *word = place.to_string_lossy().into_owned();
            }
        }
        Ok(())
    }

    /// The kernel's headers, for a tool that compiles when it starts.
    pub fn headers(&self, workbook: &Workbook, series: Series, release: &str) -> Result<Copies> {
        if !self.adapter.as_ref().is_some_and(|adapter| adapter.headers) {
            return Ok(Vec::new());
        }
        Ok(of_debian(workbook, series.suites, &[&format!("linux-headers-{release}")])?.0)
    }
}

/// A program by its path from a folder, or in `PATH`.
fn on_this_machine(folder: &Path, name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<_> = std::env::split_paths(&path).map(|folder| folder.join(name)).collect();
    places.insert(0, folder.join(name));
    let file = places.into_iter().find(|file| file.is_file());
    file.ok_or_else(|| Error::new(format!("there is no program {name}")).fix("name its path"))
}

/// The file with the versions of the packages that were unpacked.
const VERSION: &str = ".version";

/// Files of the host, and their paths in the guest.
type Copies = Vec<(PathBuf, PathBuf)>;

/// Packages of Debian suites and all that they depend on, for the folder [`ROOT`] of a guest; and their versions. The next
/// command finds them here.
pub fn of_debian(workbook: &Workbook, suites: &[&str], packages: &[&str]) -> Result<(Copies, String)> {
    let above = workbook.state_dir().join("tools");
    let folder = above.join(format!("{}-{}", suites.join("+"), packages.join("+")));
    let cannot = || format!("cannot use {}", folder.display());
    if !folder.join(VERSION).exists() {
        eprintln!("Fetching {} of Debian {}, and what it needs ...", packages.join(", "), suites.join(", "));
        fs::create_dir_all(&above).or_cause(cannot())?;
        let new = tempfile::tempdir_in(&above).or_cause(cannot())?;
        let versions = unpack_whole(suites, packages, new.path())?;
        for name in ["bin", "sbin", "lib", "lib64"].into_iter().filter(|name| !new.path().join(name).exists())
        {
            symlink(Path::new("usr").join(name), new.path().join(name)).or_cause(cannot())?;
        }
        fs::write(new.path().join(VERSION), versions.join(", ")).or_cause(cannot())?;
        let _ = fs::remove_dir_all(&folder);
        fs::rename(new.keep(), &folder).or_cause(cannot())?;
    }
    let version = fs::read_to_string(folder.join(VERSION)).or_cause(cannot())?;
    eprintln!("{} {version}, kept in {}", packages.join(", "), folder.display());
    let mut copies = Vec::new();
    add(&folder, Path::new(ROOT), &mut copies)?;
    Ok((copies, version))
}

/// What no tool reads.
const UNREAD: [&str; 6] = ["doc", "man", "locale", "info", "lintian", "bash-completion"];

/// Lists the files and links of a folder, with their paths in the guest.
fn add(folder: &Path, place: &Path, copies: &mut Copies) -> Result<()> {
    let cannot = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(folder).or_cause(cannot())? {
        let entry = entry.or_cause(cannot())?;
        let (path, name) = (entry.path(), entry.file_name());
        let is_unread = folder.ends_with("usr/share") && UNREAD.iter().any(|unread| name == *unread);
        if entry.file_type().or_cause(cannot())?.is_dir() {
            if !is_unread {
                add(&path, &place.join(name), copies)?;
            }
        } else {
            copies.push((path, inside(&place.join(name))));
        }
    }
    Ok(())
}

/// A path of the guest, as its archive has it.
fn inside(path: &Path) -> PathBuf {
    path.strip_prefix("/").unwrap_or(path).to_owned()
}
