//! `cargo lab eject`: makes a stage or an example a crate of its own, which needs nothing of the workbook any more.
//!
//! What its `main.rs` calls comes along: the crates of the workbook on which it depends, without their tests. The versions of
//! all other crates are those of our lock.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use common::{Error, OrCause, Result};
use machine::terminal::print;
use machine::workbook::copies::{self, Files};
use machine::workbook::{Program, Workbook};

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
    let ours = |name: &str| read(&workbook.root.join(name));
    let root = ours("Cargo.toml")?;
    let manifest = read(&from.join("Cargo.toml"))?;

    // Our crates that it needs, by their folders, and the names of all crates that these name.
    let (mut folders, mut names, mut left) = (BTreeSet::new(), BTreeSet::new(), vec![manifest.clone()]);
    while let Some(manifest) = left.pop() {
        for name in wanted(&manifest) {
            let path = root.lines().find_map(|line| line.strip_prefix(&format!("{name} = {{ path = \"")));
            if let (true, Some(path)) = (names.insert(name.to_owned()), path) {
                let path = path.split('"').next().unwrap_or_default();
                folders.insert(path.to_owned());
                left.push(ours(&format!("{path}/Cargo.toml"))?);
            }
        }
    }

    let mut all = Files::new();
    add(from, Path::new("src"), &mut all)?;
    if let Ok(build) = read(&from.join("build.rs")) {
        all.push(("build.rs".into(), build));
    }
    // ctracer's main.rs calls its own library.
    let library = [program.package(), name].map(|name| format!("use {}::", name.replace('-', "_")));
    for (_, text) in &mut all {
        *text = text.replace(&library[0], &library[1]);
    }
    for path in &folders {
        add(&workbook.root, Path::new(path), &mut all)?;
    }
    for (path, text) in &mut all {
        if path == Path::new("common/src/lab.rs") {
            *text = text.replace("TOOL.get().copied()\n", &format!("Some({:?})\n", program.binary()));
        }
    }
    for file in ["Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT", "LICENSE-GPL-2.0"] {
        all.push((file.into(), ours(file)?));
    }
    let section = |head: &str, text: &str| {
        let section = text.split_once(&format!("\n[{head}]\n")).map_or("", |(_, rest)| rest);
        section.split("\n[").next().unwrap_or_default().trim_end().to_owned()
    };
    let is_named = |line: &&str| line.split_once(" = ").is_some_and(|(name, _)| names.contains(name));
    let versions = section("workspace.dependencies", &root);
    let versions: Vec<_> = versions.lines().filter(is_named).collect();
    let (versions, members) = (versions.join("\n"), Vec::from_iter(&folders));
    let began = program.binary();
    let about = manifest.lines().find(|line| line.starts_with("description = ")).unwrap_or_default();
    all.push((
        "Cargo.toml".into(),
        format!(
            "[package]\nname = {name:?}\n{about}\nversion.workspace = true\nedition.workspace = true\nlicense.workspace = true\npublish.workspace = true\n\n\
             [dependencies]\n{}\n\n[build-dependencies]\n{}\n\n\
             [workspace]\nresolver = \"1\"\nmembers = {members:?}\n\n[workspace.package]\n{}\n\n[workspace.lints]\n\n\
             [workspace.dependencies]\n{versions}\n",
            section("dependencies", &manifest),
            section("build-dependencies", &manifest),
            section("workspace.package", &root),
        ),
    ));
    all.push((
        "README.md".into(),
        format!(
            "# {name}\n\nIt began as {began} of the BPF storage workbook, and is yours now.\n\n\
             ```sh\ncargo build                   # needs clang, libelf-dev and zlib1g-dev\nsudo target/debug/{name}\n```\n\n\
             - `src/bpf` runs in the kernel, and `src/main.rs` loads it.\n\
             - `common` is what the workbook's programs share, and `common/build` compiles the BPF source with its `vmlinux.h`. \
             Take out what you don't need.\n\
             - The BPF source is under GPL-2.0, and the Rust code under MIT or Apache-2.0.\n"
        ),
    ));
    all.push((".gitignore".into(), "/target\n".to_owned()));
    fs::create_dir_all(folder).or_cause(format!("cannot make {}", folder.display()))?;
    copies::write(folder, &all)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).or_cause(format!("cannot read {}", path.display()))
}

/// The names of a manifest's dependencies, each in a line such as `clap.workspace = true`.
fn wanted(manifest: &str) -> impl Iterator<Item = &str> {
    let (_, dependencies) = manifest.split_once("dependencies]\n").unwrap_or_default();
    dependencies.lines().filter_map(|line| line.strip_suffix(".workspace = true"))
}

/// Adds the files of a folder, without tests and without the crates in folders of their own.
fn add(root: &Path, folder: &Path, files: &mut Files) -> Result<()> {
    let cannot = || format!("cannot read {}", folder.display());
    for entry in root.join(folder).read_dir().or_cause(cannot())? {
        let path = folder.join(entry.or_cause(cannot())?.file_name());
        let whole = root.join(&path);
        if whole.is_file() {
            let text = read(&whole)?;
            let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            files.push((path, code.to_owned()));
        } else if !["tests", "examples", "snapshots"].iter().any(|name| path.ends_with(name))
            && !whole.join("Cargo.toml").exists()
        {
            add(root, &path, files)?;
        }
    }
    Ok(())
}
