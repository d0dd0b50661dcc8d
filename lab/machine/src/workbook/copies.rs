//! Copies of stages and examples that somebody changes: a learner's, and the tests'. They have their own workspace, but
//! the same dependencies and the same target folder, so building a copy takes no longer than rebuilding the original.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use common::{OrCause, Result};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::Serialize;

use crate::signals;
use crate::workbook::{Program, Toolchain, Workbook};

/// The last words of the cause if a copy's own source is to blame.
pub const DOES_NOT_COMPILE: &str = "does not compile";

/// The files of a stage or an example, by their paths in its folder.
pub type Files = Vec<(PathBuf, String)>;

/// A file on both sides of a change. On one of them, it may not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Its path in the folder of its program.
    pub path: PathBuf,
    pub old: Option<String>,
    pub new: Option<String>,
}

/// The files that make up a stage or an example; see [`files_in`].
pub fn files(program: &Program) -> Result<Files> {
    files_in(&program.folder)
}

/// The files that make up the program in this folder, in this order: its BPF source if it has one, with headers, its `main.rs`, its
/// build script if it has one, its manifest, and its other modules.
pub fn files_in(folder: &Path) -> Result<Files> {
    let sources = |of: &str, end: &str| listed(&folder.join(of), end).collect::<BTreeSet<_>>();
    let main = folder.join("src/main.rs");
    let modules = sources("src", ".rs").into_iter().filter(|path| *path != main);
    let build = Some(folder.join("build.rs")).filter(|path| path.exists());
    let bpf = sources("src/bpf", ".bpf.c").into_iter().chain(sources("src/bpf", ".h"));
    let paths = bpf.chain([main.clone()]).chain(build).chain([folder.join("Cargo.toml")]).chain(modules);
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).or_cause(format!("cannot read {}", path.display()))?;
        Ok((path.strip_prefix(folder).unwrap_or(&path).to_owned(), text))
    };
    paths.map(read).collect()
}

/// What is in a folder and has a name with this ending; nothing if there is no such folder.
pub(super) fn listed(folder: &Path, end: &str) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(move |path| path.to_string_lossy().ends_with(end))
}

pub fn bpf_source(copy: &Path) -> Option<PathBuf> {
    listed(&copy.join("src/bpf"), ".bpf.c").next()
}

/// Gives a copy its own name, for the package and the binary. It is not a stage or an example any more.
pub fn rename(files: &mut Files, program: &Program, name: &str) {
    for (path, text) in files {
        if path.ends_with("Cargo.toml") {
            *text = text
                .replace(program.package(), name)
                .replace(&format!("\"{}\"", program.binary()), &format!("\"{name}\""));
        }
    }
}

/// Writes a copy's files, except those that are unchanged, because Cargo rebuilds whatever is newer.
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

/// The copies in a folder, by the names of their packages. What would make Cargo refuse to build any copy is left out:
/// incomplete copies, and a learner's backup, which has the same package in a folder of another name.
pub fn packages(folder: &Path) -> BTreeMap<String, PathBuf> {
    let package = |path: PathBuf| {
        let manifest = fs::read_to_string(path.join("Cargo.toml")).ok()?;
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))?;
        let folder = path.file_name()?.to_string_lossy().replace('.', "-");
        Some((name == format!("my{folder}"), name.to_owned(), path))
    };
    let mut found: Vec<_> =
        listed(folder, "").filter(|path| path.join("src/main.rs").exists()).filter_map(package).collect();
    // The last one of each name stays.
    found.sort();
    found.into_iter().map(|(_, name, path)| (name, path)).collect()
}

/// Waits until nobody else builds in this folder, or changes its workspace. The kernel releases the lock however its
/// holder ends.
///
/// # Errors
/// If there is no such folder, or we are to end.
pub fn lock(folder: &Path) -> Result<Flock<fs::File>> {
    let cannot = || format!("cannot lock {}", folder.display());
    let mut file = fs::File::open(folder).or_cause(cannot())?;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((back, Errno::EWOULDBLOCK)) => file = back,
            Err((_, error)) => return Err(error).or_cause(cannot()),
        }
        signals::check()?;
        thread::sleep(Duration::from_millis(20));
    }
}

/// Writes a new copy into a folder, in place of the one of that name, and adds it to the folder's workspace.
pub fn replace(workbook: &Workbook, folder: &Path, name: &str, files: &Files) -> Result<()> {
    fs::create_dir_all(folder).or_cause(format!("cannot make {}", folder.display()))?;
    let _lock = lock(folder)?;
    let copy = folder.join(name);
    if copy.exists() {
        fs::remove_dir_all(&copy).or_cause(format!("cannot remove {}", copy.display()))?;
    }
    write(&copy, files)?;
    write_workspace(workbook, folder)
}

/// Turns a folder into the workspace of all copies in it.
fn write_workspace(workbook: &Workbook, folder: &Path) -> Result<()> {
    let read =
        |name: &str| fs::read_to_string(workbook.root.join(name)).or_cause(format!("cannot read {name}"));
    let root = workbook.root.display().to_string().replace('\\', r"\\").replace('"', "\\\"");
    let packages = packages(folder);
    let mut members: Vec<_> =
        packages.values().filter_map(|path| Some(format!("{:?}", path.file_name()?))).collect();
    members.sort();
    // Only the members and their paths differ.
    let manifest: Vec<_> = read("Cargo.toml")?
        .lines()
        .filter(|line| !line.starts_with("default-members"))
        .map(|line| match line.starts_with("members") {
            true => format!("members = [{}]", members.join(", ")),
            false => line.replace(r#"path = ""#, &format!(r#"path = "{root}/"#)),
        })
        .collect();
    write_file(&folder.join("Cargo.toml"), &(manifest.join("\n") + "\n"))?;
    // Cargo removes what the copies do not need.
    write_file(&folder.join("Cargo.lock"), &read("Cargo.lock")?)?;
    Ok(())
}

/// Builds these copies and returns their binaries. The compiler prints to stderr.
pub fn build(workbook: &Workbook, folder: &Path, names: &[&str]) -> Result<Vec<PathBuf>> {
    // Otherwise, Cargo could read what another build is writing. Two builds would wait for each other anyway.
    let _lock = lock(folder)?;
    if let Toolchain::Recorded(recorded) = &workbook.toolchain {
        return names.iter().map(|name| recorded.build(workbook, folder, name)).collect();
    }
    write_workspace(workbook, folder)?;
    let mut cargo = workbook.cargo_build();
    cargo.current_dir(folder).args(["--quiet", "--offline"]);
    cargo.args(names.iter().flat_map(|name| ["--package", name]));
    let what = if let [name] = names { name } else { "one of the copies" };
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    workbook.compile(cargo, &names, &format!("{what} {DOES_NOT_COMPILE}"))
}

/// The sources that differ. In two stages, the one BPF source may have different names.
pub fn changes(mut old: Files, new: Files) -> Vec<Change> {
    old.retain(|(path, _)| path.starts_with("src"));
    let names: Vec<_> = new.iter().map(|(path, _)| path.clone()).collect();
    let is_bpf = |path: &Path| path.to_string_lossy().ends_with(".bpf.c");
    let mut changes = Vec::new();
    for (path, text) in new.into_iter().filter(|(path, _)| path.starts_with("src")) {
        let same = old.iter().position(|(before, _)| *before == path);
        let renamed =
            || old.iter().position(|(before, _)| is_bpf(before) && is_bpf(&path) && !names.contains(before));
        let before = same.or_else(renamed).map(|at| old.remove(at).1);
        if before.as_deref() != Some(&*text) {
            changes.push(Change { path, old: before, new: Some(text) });
        }
    }
    changes.extend(old.into_iter().map(|(path, text)| Change { path, old: Some(text), new: None }));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_compared_by_name() {
        let files = |files: &[(&str, &str)]| -> Files {
            files.iter().map(|(path, text)| (path.into(), (*text).to_owned())).collect()
        };
        let old = files(&[
            ("src/bpf/b.bpf.c", "b"),
            ("src/main.rs", "m"),
            ("Cargo.toml", "c"),
            ("src/gone.rs", "g"),
        ]);
        let new = files(&[
            ("src/bpf/a.bpf.c", "a"),
            ("src/bpf/b.bpf.c", "b2"),
            ("src/main.rs", "m"),
            ("Cargo.toml", "d"),
        ]);
        insta::assert_debug_snapshot!(changes(old.clone(), new));
        let renamed = files(&[("src/bpf/other.bpf.c", "b2"), ("src/main.rs", "m"), ("src/gone.rs", "g")]);
        insta::assert_debug_snapshot!(changes(old, renamed));
    }

    #[test]
    fn a_backup_is_not_the_copy() {
        let folder = tempfile::tempdir().unwrap();
        for (name, package) in
            [("03.1-old", "my03-1"), ("03.1", "my03-1"), ("bak", "my03-1"), ("3", "my03"), ("broken", "")]
        {
            fs::create_dir_all(folder.path().join(name).join("src")).unwrap();
            fs::write(folder.path().join(name).join("src/main.rs"), "").unwrap();
            let manifest = format!("[package]\nname = {package:?}\n\n[[bin]]\nname = \"other\"\n");
            fs::write(folder.path().join(name).join("Cargo.toml"), manifest).unwrap();
        }
        fs::remove_file(folder.path().join("broken/Cargo.toml")).unwrap();
        let found = packages(folder.path());
        let found: Vec<_> = found.iter().map(|(name, path)| (&**name, path.file_name().unwrap())).collect();
        assert_eq!(found, [("my03", "3".as_ref()), ("my03-1", "03.1".as_ref())]);
    }
}
