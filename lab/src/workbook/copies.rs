//! Copies of stages that somebody changes: a learner's, and the tests'. They have their own workspace, but the same
//! dependencies and the same target folder, so building a copy takes no longer than rebuilding the stage.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Error, OrCause, Result};

use crate::workbook::{Program, Stage, Workbook};

/// A stage's files, by their paths in its folder.
pub type Files = Vec<(PathBuf, String)>;

/// The files that make up a stage: its BPF source, its `main.rs`, its build script and its manifest, in this order.
///
/// # Errors
/// If a file can't be read.
pub fn files(stage: &Stage) -> Result<Files> {
    let [bpf, main] = stage.sources()?;
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).or_cause(format!("cannot read {}", path.display()))?;
        Ok((path.strip_prefix(&stage.folder).unwrap_or(&path).to_owned(), text))
    };
    [bpf, main, stage.folder.join("build.rs"), stage.folder.join("Cargo.toml")]
        .into_iter()
        .map(read)
        .collect()
}

/// Gives a copy its own name, for the package and the binary. It is not a stage any more.
pub fn rename(files: &mut Files, stage: &Stage, name: &str) {
    for (path, text) in files {
        if path.ends_with("Cargo.toml") {
            *text = text
                .replace(stage.package(), name)
                .replace(&format!("\"{}\"", stage.binary()), &format!("\"{name}\""));
        }
    }
}

/// Writes a copy's files, except those that are unchanged, because Cargo rebuilds whatever is newer.
///
/// # Errors
/// If a file can't be written.
pub fn write(folder: &Path, files: &Files) -> Result<()> {
    files.iter().try_for_each(|(path, text)| write_file(&folder.join(path), text))
}

fn write_file(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let cannot = || format!("cannot write {}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(path)).or_cause(cannot())?;
    fs::write(path, text).or_cause(cannot())
}

/// Turns a folder into the workspace of all copies in it.
///
/// # Errors
/// If its files can't be written.
pub fn workspace(workbook: &Workbook, folder: &Path) -> Result<()> {
    let read =
        |name: &str| fs::read_to_string(workbook.root.join(name)).or_cause(format!("cannot read {name}"));
    // Leave out incomplete copies, because Cargo would refuse to build any copy.
    let is_whole =
        |path: &Path| ["Cargo.toml", "build.rs", "src/main.rs"].iter().all(|file| path.join(file).exists());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut members: Vec<_> = entries
        .filter(|path| is_whole(path))
        .filter_map(|path| Some(format!("{:?}", path.file_name()?)))
        .collect();
    members.sort();
    // Only the members and their paths differ.
    let manifest: Vec<_> = read("Cargo.toml")?
        .lines()
        .filter(|line| !line.starts_with("default-members"))
        .map(|line| match line.starts_with("members") {
            true => format!("members = [{}]", members.join(", ")),
            false => line.replace(r#"path = ""#, &format!(r#"path = "{}/"#, workbook.root.display())),
        })
        .collect();
    write_file(&folder.join("Cargo.toml"), &(manifest.join("\n") + "\n"))?;
    // Cargo removes what the copies do not need.
    write_file(&folder.join("Cargo.lock"), &read("Cargo.lock")?)?;
    Ok(())
}

/// Builds these copies and returns their binaries. The compiler prints to stderr.
///
/// # Errors
/// If one does not compile.
pub fn build(workbook: &Workbook, folder: &Path, names: &[&str]) -> Result<Vec<PathBuf>> {
    workspace(workbook, folder)?;
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    cargo.current_dir(folder).args(["build", "--quiet", "--offline", "--target-dir"]).arg(&workbook.target);
    cargo.args(names.iter().flat_map(|name| ["--package", name]));
    let status = cargo.status().or_cause("cannot start cargo")?;
    if !status.success() {
        crate::host::interrupt::check()?;
        let what = if let [name] = names { name } else { "one of the copies" };
        return Err(Error::new(format!("{what} does not compile"))
            .evidence("the compiler's errors above")
            .fix(format!("fix it in {}", folder.display())));
    }
    Ok(names.iter().map(|name| workbook.binaries().join(name)).collect())
}
