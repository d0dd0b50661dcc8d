//! How the workshop's guest builds a learner's program: with the two compilers that Cargo would start, and libraries that
//! were compiled when the guest's image was made. The guest has no Cargo, which would take longer to find out that nothing
//! else has changed than both compilers need.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use common::{Error, OrCause, Result};

use crate::host::interrupt;
use crate::shared::kit::WORKBOOK;
use crate::workbook::catalog::{Recorded, Workbook};

/// The workbook of the workshop's guest, if this is one.
pub(super) fn workbook() -> Result<Option<Workbook>> {
    let Ok(text) = fs::read(Path::new("/").join(WORKBOOK)) else { return Ok(None) };
    let workbook: Workbook = serde_json::from_slice(&text).or_cause(format!("{WORKBOOK} is damaged"))?;
    Ok(Some(workbook).filter(|workbook| workbook.recorded.is_some()))
}

impl Recorded {
    /// Builds the copy whose package has this name, if it has changed since the last time. Returns its binary. The
    /// compilers print to stderr what Cargo would print.
    ///
    /// # Errors
    /// If it does not compile.
    pub(super) fn build(&self, workbook: &Workbook, copies: &Path, name: &str) -> Result<PathBuf> {
        let copy = find(copies, name)?;
        let out = workbook.target.join("build").join(name);
        let binary = workbook.binaries().join(name);
        fs::create_dir_all(&out).or_cause(format!("cannot make {}", out.display()))?;
        let binaries = workbook.binaries();
        fs::create_dir_all(&binaries).or_cause(format!("cannot make {}", binaries.display()))?;
        // Ctrl-C ends the compilers, too.
        let does_not_compile = || {
            interrupt::check().err().unwrap_or_else(|| {
                Error::new(format!("{name} does not compile"))
                    .evidence("the compiler's errors above")
                    .fix(format!("fix it in {}", copy.display()))
            })
        };
        // A skeleton is older than its object only while it is being made.
        let skeleton = newest(&out, ".skel.rs");
        let bpf = copy.join("src/bpf");
        if bpf.is_dir() && newest(&bpf, "") >= skeleton {
            let mut generate = Command::new("skeleton");
            generate.current_dir(&copy).env("CARGO_MANIFEST_DIR", &copy).env("OUT_DIR", &out);
            generate.env("CLANG", "clang-22");
            let said =
                generate.stderr(Stdio::inherit()).output().or_cause("cannot start the BPF compiler")?;
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            let errors: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("cargo::error=")).collect();
            errors.iter().for_each(|error| eprintln!("error: {name}: {error}"));
            if !errors.is_empty() {
                return Err(does_not_compile());
            }
        }
        let sources = newest(&copy.join("src"), "").max(newest(&out, ".skel.rs"));
        if sources < modified(&binary) {
            return Ok(binary);
        }
        let main = copy.strip_prefix(copies).unwrap_or(&copy).join("src/main.rs");
        let mut rustc = Command::new("rustc");
        rustc.current_dir(copies).args(&self.rustc);
        rustc.arg("--crate-name").arg(name.replace('-', "_")).arg(main).arg("-o").arg(&binary);
        rustc.env("OUT_DIR", &out).env("CARGO_BIN_NAME", name).env("CARGO_PKG_NAME", name);
        rustc.env("CARGO_PKG_VERSION", env!("CARGO_PKG_VERSION")).env("CARGO_MANIFEST_DIR", &copy);
        if !rustc.status().or_cause("cannot start rustc")?.success() {
            return Err(does_not_compile());
        }
        Ok(binary)
    }
}

/// The folder of the copy whose package has this name.
fn find(copies: &Path, name: &str) -> Result<PathBuf> {
    let line = format!("name = {name:?}");
    let entries = fs::read_dir(copies).or_cause(format!("cannot list {}", copies.display()))?;
    let mut folders = entries.flatten().map(|entry| entry.path());
    let found = folders.find(|folder| {
        fs::read_to_string(folder.join("Cargo.toml"))
            .is_ok_and(|text| text.lines().any(|found| found == line))
    });
    found.ok_or_else(|| {
        Error::new(format!("there is no working copy called {name}"))
            .evidence(format!("no Cargo.toml below {} has the line {line}", copies.display()))
            .fix("start the exercise again: cargo lab exercise start EXERCISE --again")
    })
}

/// When a file was changed; the beginning of time if it is not there.
fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// When the last of a folder's files with this ending was changed. A folder itself counts: a file may have been removed.
fn newest(folder: &Path, end: &str) -> SystemTime {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = entries.filter(|path| path.to_string_lossy().ends_with(end)).map(|path| modified(&path));
    let folder = if end.is_empty() { modified(folder) } else { SystemTime::UNIX_EPOCH };
    files.chain([folder]).max().unwrap_or(SystemTime::UNIX_EPOCH)
}
