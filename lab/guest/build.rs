//! Lists the `check.rs` of each stage and example: a module for each, and the table of their checks.

use std::env::var_os;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

fn main() -> io::Result<()> {
    let folder = |name| PathBuf::from(var_os(name).unwrap_or_default());
    let (top, out) = (folder("CARGO_MANIFEST_DIR").join("../.."), folder("OUT_DIR"));
    let top = fs::canonicalize(top)?;
    // Not from the root folder on: somebody may move the workbook with what is built.
    let from_out = match out.strip_prefix(&top) {
        Ok(below) => below.iter().map(|_| "..").collect(),
        Err(_) => top.clone(),
    };
    let (mut modules, mut table) = (String::new(), String::new());
    for kind in ["stages", "examples"] {
        let mut names: Vec<_> = fs::read_dir(top.join(kind))?
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .filter(|name| top.join(kind).join(name).join("Cargo.toml").exists())
            .collect();
        names.sort();
        for folder in names {
            // Stage 03 is the folder stage03_bio_latency_map.
            let stage = folder.strip_prefix("stage").and_then(|name| name.split('_').next());
            let module = stage.map_or(folder.clone(), |number| format!("stage{number}"));
            let path = from_out.join(Path::new(kind)).join(&folder).join("check.rs");
            let _ = writeln!(modules, "#[path = {path:?}]\npub mod {module};");
            let _ = writeln!(table, "    ({:?}, &{module}::CHECK),", stage.unwrap_or(&folder));
        }
    }
    let all = "/// By the stage's number or the example's name.\npub const ALL: &[(&str, &Check)]";
    fs::write(out.join("checks.rs"), format!("{modules}\n{all} = &[\n{table}];\n"))?;
    // A new stage is a new package, with a line in this file. Its folder would stand for all sources of all stages.
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    Ok(())
}
