//! How the workshop's guest builds a learner's program: with the two compilers that Cargo would start, and libraries that
//! were compiled when the guest's image was made. The guest has no Cargo, which would take longer to find out that nothing
//! else has changed than both compilers need.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use common::{Error, OrCause, Result};
use wire::kit::WORKBOOK;

use crate::signals;
use crate::workbook::copies;
use crate::workbook::{Recorded, Workbook};

/// The workbook of a room kit's guest, if this is one.
pub(super) fn workbook() -> Result<Option<Workbook>> {
    let Ok(text) = fs::read(Path::new("/").join(WORKBOOK)) else { return Ok(None) };
    serde_json::from_slice(&text).or_cause(format!("{WORKBOOK} is damaged")).map(Some)
}

impl Recorded {
    /// The program that compiles BPF programs; see its own first comment.
    pub fn bpf_compiler() -> Command {
        let mut command = Command::new("clinic");
        command.env("CLANG", "clang-22");
        command
    }

    /// Builds the copy whose package has this name, if it has changed since the last time. Returns its binary. The
    /// compilers print to stderr what Cargo would print.
    pub(super) fn build(&self, workbook: &Workbook, copies: &Path, name: &str) -> Result<PathBuf> {
        let copy = find(copies, name)?;
        let out = workbook.target.join("build").join(name);
        let binary = workbook.binaries().join(name);
        fs::create_dir_all(&out).or_cause(format!("cannot make {}", out.display()))?;
        let binaries = workbook.binaries();
        fs::create_dir_all(&binaries).or_cause(format!("cannot make {}", binaries.display()))?;
        // Ctrl-C ends the compilers, too.
        let does_not_compile = || {
            signals::check().err().unwrap_or_else(|| {
                Error::new(format!("{name} does not compile"))
                    .evidence("the compiler's errors above")
                    .fix(format!("fix it in {}", copy.display()))
            })
        };
        let bpf = copy.join("src/bpf");
        if bpf.is_dir() && newest(&bpf, "") >= newest(&out, ".skel.rs") {
            let start = now(&out)?;
            let mut generate = Self::bpf_compiler();
            generate.current_dir(&copy).env("CARGO_MANIFEST_DIR", &copy).env("OUT_DIR", &out);
            let said =
                generate.stderr(Stdio::inherit()).output().or_cause("cannot start the BPF compiler")?;
            let lines = String::from_utf8_lossy(&said.stdout).into_owned();
            let errors: Vec<_> =
                lines.lines().filter_map(|line| line.strip_prefix("cargo::error=")).collect();
            errors.iter().for_each(|error| eprintln!("error: {name}: {error}"));
            if !errors.is_empty() || !said.status.success() {
                return Err(does_not_compile());
            }
            for path in copies::listed(&out, ".skel.rs") {
                set_mtime(&path, start)?;
            }
        }
        let sources = newest(&copy.join("src"), "").max(newest(&out, ".skel.rs"));
        if sources < modified(&binary) {
            return Ok(binary);
        }
        let start = now(&out)?;
        let main = copy.strip_prefix(copies).unwrap_or(&copy).join("src/main.rs");
        let mut rustc = Command::new("rustc");
        rustc.current_dir(copies).args(&self.rustc);
        rustc.arg("--crate-name").arg(name.replace('-', "_")).arg(main).arg("-o").arg(&binary);
        rustc.env("OUT_DIR", &out).env("CARGO_BIN_NAME", name).env("CARGO_PKG_NAME", name);
        rustc.env("CARGO_PKG_VERSION", env!("CARGO_PKG_VERSION")).env("CARGO_MANIFEST_DIR", &copy);
        if !rustc.status().or_cause("cannot start rustc")?.success() {
            return Err(does_not_compile());
        }
        set_mtime(&binary, start)?;
        Ok(binary)
    }
}

/// The time of the folder's file system. The system's own clock may be some milliseconds ahead of it.
fn now(folder: &Path) -> Result<SystemTime> {
    let file = folder.join("start");
    fs::write(&file, "").or_cause(format!("cannot write {}", file.display()))?;
    Ok(modified(&file))
}

/// Dates what a compiler made back to its start. What is saved while it compiles is then newer, and compiled next time.
fn set_mtime(file: &Path, start: SystemTime) -> Result<()> {
    let date = File::open(file).and_then(|file| file.set_modified(start));
    date.or_cause(format!("cannot set the time of {}", file.display()))
}

/// The folder of the copy whose package has this name.
fn find(copies: &Path, name: &str) -> Result<PathBuf> {
    copies::packages(copies).remove(name).ok_or_else(|| {
        Error::new(format!("there is no working copy called {name}"))
            .evidence(format!(
                "no folder in {} has src/main.rs and a Cargo.toml with the line name = {name:?}",
                copies.display()
            ))
            .fix("start the exercise again: cargo lab exercise start EXERCISE --again")
    })
}

/// When a file was changed; the beginning of time if it is not there.
fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// When the last of a folder's files with this ending was changed. A folder itself counts: a file may have been removed.
fn newest(folder: &Path, end: &str) -> SystemTime {
    let files = copies::listed(folder, end).map(|path| modified(&path));
    let folder = if end.is_empty() { modified(folder) } else { SystemTime::UNIX_EPOCH };
    files.chain([folder]).max().unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_saved_during_a_compilation_is_newer_than_its_result() {
        let folder = tempfile::tempdir().unwrap();
        let start = now(folder.path()).unwrap();
        let written = |name: &str, seconds| {
            let path = folder.path().join(name);
            let file = File::create(&path).unwrap();
            file.set_modified(start + Duration::from_secs(seconds)).unwrap();
            path
        };
        let (source, binary) = (written("main.rs", 1), written("binary", 2));
        set_mtime(&binary, start).unwrap();
        assert!(modified(&source) > modified(&binary));
    }
}
