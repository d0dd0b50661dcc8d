//! Makes one program of all stages and examples: takes the sources of each into a module of its own.
//!
//! A stage's `main.rs` is a lesson and knows nothing of this. So each copy differs in a few words from what a learner reads:
//! where its skeleton is, what its own modules and its program are called, what its `--help` says first, who parses its options,
//! and it has no tests.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::{env, fmt::Write};

fn main() -> Result<(), Box<dyn Error>> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let root = here.parent().ok_or("this crate has no folder above")?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for folder in ["stages", "examples", "common/build/include", "common/build/vmlinux"] {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    println!("cargo::rerun-if-env-changed=CLANG");

    let (mut modules, mut list) = (String::new(), String::new());
    for kind in ["example", "stage"] {
        let mut folders: Vec<_> = root
            .join(format!("{kind}s"))
            .read_dir()?
            .map(|entry| Ok(entry?.path()))
            .collect::<std::io::Result<_>>()?;
        folders.sort();
        for folder in folders.into_iter().filter(|folder| folder.join("Cargo.toml").exists()) {
            let cargo: toml::Table = fs::read_to_string(folder.join("Cargo.toml"))?.parse()?;
            let about = &cargo["package"]["metadata"][kind];
            let name = match cargo.get("bin") {
                Some(bin) => bin[0]["name"].as_str(),
                None => cargo["package"]["name"].as_str(),
            };
            let name = name.ok_or("a program without a name")?;
            let made = out.join(name);
            fs::create_dir_all(&made)?;
            let needs = about.get("needs").and_then(toml::Value::as_array).into_iter().flatten();
            let mut sections: Vec<_> = needs.filter_map(toml::Value::as_str).map(str::to_owned).collect();
            if sections.is_empty() {
                sections = self::sections(&folder)?;
            }
            // A library has its skeleton itself.
            if folder.join("src/bpf").exists() && !folder.join("src/lib.rs").exists() {
                // As its own build script runs, so that the debug information names the same files.
                env::set_current_dir(&folder)?;
                common_build::build(&folder, &made)?;
            }
            let about = cargo["package"]["description"].as_str().ok_or("a program without a description")?;
            copy(name, about, &folder.join("src"), &made)?;
            writeln!(
                modules,
                "#[allow(unused_imports)]\n#[path = {:?}]\npub mod {name};",
                made.join("main.rs")
            )?;
            writeln!(
                list,
                "Tool {{ name: {name:?}, is_stage: {}, sections: &{sections:?}, command: {name}::command, run: {name}::run }},",
                kind == "stage",
            )?;
        }
    }
    fs::write(out.join("tools.rs"), format!("{modules}\npub const TOOLS: &[Tool] = &[{list}];\n"))?;
    Ok(())
}

/// The sections of a program's BPF source, such as `kprobe/submit_bio`.
fn sections(package: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut found = Vec::new();
    for entry in package.join("src/bpf").read_dir()? {
        let source = fs::read_to_string(entry?.path())?;
        let section = |line: &str| Some(line.strip_prefix("SEC(\"")?.strip_suffix("\")")?.to_owned());
        found.extend(source.lines().filter_map(section));
    }
    Ok(found)
}

/// Copies a program's Rust source.
fn copy(name: &str, about: &str, from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    for entry in from.read_dir()? {
        let file = entry?.path();
        if file.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let mut text = fs::read_to_string(&file)?
            .replace("env!(\"OUT_DIR\")", &format!("env!(\"OUT_DIR\"), \"/{name}\""))
            .replace("crate::", &format!("crate::tools::{name}::"))
            .replace("env!(\"CARGO_BIN_NAME\")", &format!("{name:?}"))
            .replace("version, about)]", &format!("version, about = {about:?})]"))
            .replace("Args::parse()", "crate::options::<Args>()")
            // They run in the program's own crate.
            .replace("#[cfg(test)]", "#[cfg(any())]");
        if file.ends_with("main.rs") {
            if !text.contains("crate::options::<Args>()") {
                return Err(format!("{}: its options are not parsed by Args::parse()", file.display()).into());
            }
            text.push_str("\npub fn run() -> common::Result<std::process::ExitCode> {\n    Ok(std::process::Termination::report(main()?))\n}\n");
            text.push_str(
                "\npub fn command() -> clap::Command {\n    <Args as clap::CommandFactory>::command()\n}\n",
            );
        }
        fs::write(to.join(file.file_name().unwrap_or_default()), text)?;
    }
    Ok(())
}
