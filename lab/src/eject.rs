//! `cargo lab eject`: makes a stage or an example a crate of its own, which needs nothing of the workbook any more.
//!
//! What its `main.rs` calls comes along: the crates of the workbook on which it depends, without their tests. The versions of
//! all other crates are those of our lock.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use common::{Error, OrCause, Result};
use machine::terminal::print;
use machine::workbook::copies::{self, Files};
use machine::workbook::{Program, Workbook};

/// What of the workbook a program's crates need.
struct Needed {
    /// The folders of our crates, by their paths in the workbook.
    folders: BTreeSet<String>,
    /// The names of all crates that are dependencies.
    names: BTreeSet<String>,
}

/// Writes the program in a folder, with all that it needs, into a new folder of this name.
///
/// # Errors
/// If there is such a folder, or if no crate can have this name.
pub fn run(workbook: &Workbook, program: &Program, from: &Path, name: &str) -> Result<ExitCode> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(is_name) {
        return Err(Error::new(format!("a crate can't be called {name}"))
            .evidence("a name begins with a letter, and has small letters, digits, - and _")
            .fix(format!("choose another one: cargo lab eject {} my-tool", program.name())));
    }
    let folder = env::current_dir().or_cause("cannot find this folder")?.join(name);
    if folder.exists() {
        return Err(Error::new(format!("there is something called {name} already"))
            .evidence(folder.display())
            .fix("remove it, or choose another name"));
    }
    eject(workbook, program, from, name, &folder)?;
    print(&format!("{} is now a crate of its own. Next: cd {name} && cat README.md\n", program.name()))
}

/// Writes the crate into this folder.
pub fn eject(workbook: &Workbook, program: &Program, from: &Path, name: &str, folder: &Path) -> Result<()> {
    let read = |path: &Path| fs::read_to_string(path).or_cause(format!("cannot read {}", path.display()));
    let ours = |name: &str| read(&workbook.root.join(name));
    let root = ours("Cargo.toml")?;
    let manifest = own_manifest(&read(&from.join("Cargo.toml"))?, program, name);
    let needed = needed(workbook, &root, &manifest)?;

    let mut all = Files::new();
    add(from, Path::new("src"), &mut all)?;
    if let Ok(build) = fs::read_to_string(from.join("build.rs")) {
        all.push(("build.rs".into(), build));
    }
    all.push((
        "Cargo.toml".into(),
        format!("{}\n\n{}\n", manifest.trim_end(), workspace(&root, &needed).trim_end()),
    ));
    all.push(("Cargo.lock".into(), ours("Cargo.lock")?));
    all.push(("README.md".into(), readme(program, name)));
    all.push((".gitignore".into(), "/target\n".to_owned()));
    for license in ["LICENSE-APACHE", "LICENSE-MIT", "LICENSE-GPL-2.0"] {
        all.push((license.into(), ours(license)?));
    }
    for crate_folder in &needed.folders {
        add(&workbook.root, Path::new(crate_folder), &mut all)?;
    }
    for (path, text) in &mut all {
        if path == Path::new("common/src/lab.rs") {
            *text = text.replace("TOOL.get().copied()\n", &format!("Some({:?})\n", program.binary()));
        }
    }
    fs::create_dir_all(folder).or_cause(format!("cannot make {}", folder.display()))?;
    copies::write(folder, &all)
}

/// The sections of a manifest, each with its head.
fn sections(manifest: &str) -> impl Iterator<Item = (&str, &str)> {
    let starts: Vec<_> =
        manifest.match_indices('[').map(|(at, _)| at).filter(|at| is_line(manifest, *at)).collect();
    let ends: Vec<_> = starts.iter().skip(1).copied().chain([manifest.len()]).collect();
    starts.into_iter().zip(ends).map(|(start, end)| {
        let section = &manifest[start..end];
        (section.lines().next().unwrap_or_default(), section)
    })
}

fn is_line(text: &str, at: usize) -> bool {
    at == 0 || text.as_bytes()[at - 1] == b'\n'
}

/// The manifest of a program that is no stage or example any more, and has its own name.
fn own_manifest(manifest: &str, program: &Program, name: &str) -> String {
    let keep = |head: &str| {
        !["[package.metadata.", "[[bin]]", "[dev-dependencies]"].iter().any(|kind| head.starts_with(kind))
    };
    let mut text = String::new();
    for (_, section) in sections(manifest).filter(|(head, _)| keep(head)) {
        for line in section.lines() {
            text += &match line.split_once(" = ") {
                Some(("name", _)) => format!("name = {name:?}"),
                Some(("description", _)) => {
                    format!("description = \"Began as {} of the BPF storage workbook\"", program.binary())
                }
                _ => line.to_owned(),
            };
            text.push('\n');
        }
    }
    text
}

/// The workspace of such a program: the workbook's own, with the crates that are needed.
fn workspace(root: &str, needed: &Needed) -> String {
    let mut text = String::new();
    for (head, section) in sections(root) {
        let is_needed =
            |line: &&str| line.split_once(" = ").is_some_and(|(name, _)| needed.names.contains(name));
        match head {
            "[workspace]" => {
                let members: Vec<_> = needed.folders.iter().map(|folder| format!("{folder:?}")).collect();
                text += &format!("[workspace]\nresolver = \"1\"\nmembers = [{}]\n\n", members.join(", "));
            }
            "[workspace.dependencies]" => {
                let lines: Vec<_> = section.lines().filter(is_needed).collect();
                text += &format!("{head}\n{}\n\n", lines.join("\n"));
            }
            _ if head.starts_with("[workspace.") => {
                // What follows it may begin with a comment.
                let lines = section.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
                text += &format!("{}\n\n", lines.collect::<Vec<_>>().join("\n"));
            }
            _ => {}
        }
    }
    text
}

/// Follows the dependencies of a manifest that are crates of the workbook.
fn needed(workbook: &Workbook, root: &str, manifest: &str) -> Result<Needed> {
    let mut needed = Needed { folders: BTreeSet::new(), names: BTreeSet::new() };
    let mut left = vec![manifest.to_owned()];
    while let Some(manifest) = left.pop() {
        let lists =
            sections(&manifest).filter(|(head, _)| ["[dependencies]", "[build-dependencies]"].contains(head));
        let names: Vec<_> = lists
            .flat_map(|(_, section)| section.lines().filter_map(|line| line.split_once(".workspace")))
            .collect();
        for (name, _) in names {
            if !needed.names.insert(name.to_owned()) {
                continue;
            }
            let ours = root
                .lines()
                .find_map(|line| line.strip_prefix(&format!("{name} = {{ path = \""))?.split('"').next());
            if let Some(folder) = ours {
                needed.folders.insert(folder.to_owned());
                let file = workbook.root.join(folder).join("Cargo.toml");
                left.push(fs::read_to_string(&file).or_cause(format!("cannot read {}", file.display()))?);
            }
        }
    }
    Ok(needed)
}

/// Adds the files of one of our crates, without its tests and without the crates in folders of its own.
fn add(root: &Path, folder: &Path, files: &mut Files) -> Result<()> {
    let cannot = || format!("cannot read {}", folder.display());
    for entry in root.join(folder).read_dir().or_cause(cannot())? {
        let path = folder.join(entry.or_cause(cannot())?.file_name());
        let (whole, name) =
            (root.join(&path), path.file_name().and_then(|name| name.to_str()).unwrap_or_default());
        if whole.is_dir() {
            if !["tests", "examples", "snapshots", "target"].contains(&name)
                && !whole.join("Cargo.toml").exists()
            {
                add(root, &path, files)?;
            }
        } else {
            let text = fs::read_to_string(&whole).or_cause(cannot())?;
            files.push((path.clone(), without_tests(&path, text)));
        }
    }
    Ok(())
}

fn without_tests(path: &Path, text: String) -> String {
    if path.ends_with("Cargo.toml") {
        return sections(&text)
            .filter(|(head, _)| *head != "[dev-dependencies]")
            .map(|(_, section)| section)
            .collect();
    }
    match text.split_once("\n#[cfg(test)]\nmod tests {") {
        Some((code, _)) => code.to_owned(),
        None => text,
    }
}

fn readme(program: &Program, name: &str) -> String {
    let what = PathBuf::from(program.folder.file_name().unwrap_or_default()).display().to_string();
    format!(
        "# {name}\n\n\
         It began as `{what}` of the BPF storage workbook, and is yours now.\n\n\
         ```sh\ncargo build                   # needs clang, libelf-dev and zlib1g-dev\nsudo target/debug/{name}\n```\n\n\
         - `src/bpf` runs in the kernel, and `src/main.rs` loads it.\n\
         - `common` is what the workbook's programs share, and `common/build` compiles the BPF source with its `vmlinux.h`. \
           Take out what you don't need.\n\
         - The BPF source is under GPL-2.0, and the Rust code under MIT or Apache-2.0.\n"
    )
}
