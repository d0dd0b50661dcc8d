//! Copies of stages that somebody changes: a learner's, and the tests'. They are a workspace of their own, with the same
//! dependencies, built where those are built already, so that a copy costs what an edit of the stage would.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Error, OrCause, Result};

use crate::workbook::{Program, Stage, Workbook};

/// A stage's files, by their path in its folder.
pub type Files = Vec<(PathBuf, String)>;

/// What makes a stage: its BPF source, its `main.rs`, its build script and its manifest, in this order.
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

/// Gives a copy a name of its own, which is that of its package and of its binary. It is no stage any more.
pub fn rename(files: &mut Files, stage: &Stage, name: &str) {
    for (path, text) in files {
        if path.ends_with("Cargo.toml") {
            *text = text
                .replace(stage.package(), name)
                .replace(&format!("\"{}\"", stage.binary()), &format!("\"{name}\""));
        }
    }
}

/// Writes a copy's files, but none that holds this text already: Cargo builds again what is newer.
///
/// # Errors
/// If that is not possible.
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

/// Makes a folder the workspace of all copies in it.
///
/// # Errors
/// If its files can't be written.
pub fn workspace(workbook: &Workbook, folder: &Path) -> Result<()> {
    let read =
        |name: &str| fs::read_to_string(workbook.root.join(name)).or_cause(format!("cannot read {name}"));
    // What is no whole copy would stop all the others.
    let is_whole =
        |path: &Path| ["Cargo.toml", "build.rs", "src/main.rs"].iter().all(|file| path.join(file).exists());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut members: Vec<_> = entries
        .filter(|path| is_whole(path))
        .filter_map(|path| Some(format!("{:?}", path.file_name()?)))
        .collect();
    members.sort();
    // The members and where they are differ; all else is the same.
    let manifest: Vec<_> = read("Cargo.toml")?
        .lines()
        .filter(|line| !line.starts_with("default-members"))
        .map(|line| match line.starts_with("members") {
            true => format!("members = [{}]", members.join(", ")),
            false => line.replace(r#"path = ""#, &format!(r#"path = "{}/"#, workbook.root.display())),
        })
        .collect();
    write_file(&folder.join("Cargo.toml"), &(manifest.join("\n") + "\n"))?;
    // Cargo takes out of it what it does not need.
    write_file(&folder.join("Cargo.lock"), &read("Cargo.lock")?)?;
    Ok(())
}

/// Builds copies by their names and gives their binaries. The compiler's words go to stderr.
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
            .evidence("the compiler's words above")
            .fix(format!("mend it in {}", folder.display())));
    }
    Ok(names.iter().map(|name| workbook.binaries().join(name)).collect())
}
