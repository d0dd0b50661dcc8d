//! Stages with a few changed lines, to prove what happens then: a map that is too small, or what an exercise promises.
//! They are in `variants.toml`.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use common::{Error, OrCause, Result};
use machine::workbook::Workbook;
use machine::workbook::copies::{self, Files};
use questions::truth::Change;
use serde::Deserialize;

/// The file with all variants.
pub const FILE: &str = include_str!("variants.toml");

#[derive(Deserialize)]
struct Variants {
    variant: Vec<Variant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    /// It begins with the stage's.
    name: String,
    /// The variant of which this is one.
    parent: Option<String>,
    /// A file of the stage that replaces its BPF source.
    bpf: Option<String>,
    #[serde(default)]
    change: Vec<Change>,
}

/// Their binaries, built when they are first needed.
pub fn binaries(workbook: &Workbook) -> Result<Vec<PathBuf>> {
    static BUILT: OnceLock<Result<Vec<PathBuf>>> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let Variants { variant: all } = toml::from_str(FILE).or_cause("cannot read the variants")?;
            let copies = all.iter().map(|variant| {
                let stage = workbook.catalog.stage(variant.name.split('-').next().unwrap_or_default())?;
                let mut files = copies::files(stage)?;
                copies::rename(&mut files, stage, &variant.name);
                let parent = all.iter().find(|other| variant.parent.as_ref() == Some(&other.name));
                for Variant { name, bpf, change, .. } in parent.into_iter().chain([variant]) {
                    if let Some(bpf) = bpf {
                        files[0].1 = fs::read_to_string(stage.folder.join(bpf)).or_cause("cannot read it")?;
                    }
                    edit(&mut files, name, change)?;
                }
                Ok((variant.name.clone(), files))
            });
            let mut copies = copies.collect::<Result<Vec<_>>>()?;
            copies.extend(crate::questions::variants(workbook)?);
            build(workbook, "variants", copies)
        })
        .clone()
}

/// Builds copies of stages by their names, in their own folder.
pub fn build(workbook: &Workbook, folder: &str, copies: Vec<(String, Files)>) -> Result<Vec<PathBuf>> {
    let root = workbook.target.join(folder);
    // Copies that an older version of the tests left there.
    for entry in fs::read_dir(&root).into_iter().flatten().flatten() {
        let is_known = copies.iter().any(|(name, _)| entry.file_name() == **name);
        if entry.path().is_dir() && !is_known {
            fs::remove_dir_all(entry.path()).or_cause("cannot remove an old copy")?;
        }
    }
    copies.iter().try_for_each(|(name, files)| copies::write(&root.join(name), files))?;
    let names: Vec<_> = copies.iter().map(|(name, _)| name.as_str()).collect();
    copies::build(workbook, &root, &names)
}

/// Replaces texts, each of which must be in one of the files once.
pub fn edit(files: &mut Files, name: &str, changes: &[Change]) -> Result<()> {
    for Change { from, to } in changes {
        let places: Vec<_> = files.iter_mut().filter(|(_, text)| text.contains(from)).collect();
        match <[_; 1]>::try_from(places) {
            Ok([(_, text)]) if text.matches(from).count() == 1 => *text = text.replace(from, to),
            _ => return Err(Error::new(format!("{name}: {from:?} is not there once"))),
        }
    }
    Ok(())
}
