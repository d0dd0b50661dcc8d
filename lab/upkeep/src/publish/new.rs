//! The folder of a new stage, which begins as a copy of its parent: all tests pass, and its page says what to write.

use std::path::PathBuf;

use common::{Error, OrCause, Result};
use machine::workbook::{Program, Workbook, copies};

/// What its metadata takes from its parent's.
const KEPT: [&str; 4] = ["minutes", "io", "command", "slow"];

const DESCRIPTION: &str = "description = \"Show one thing\"";

/// Makes the folder, and returns it.
pub fn stage(workbook: &Workbook, number: u32, name: &str, parent: &Program) -> Result<PathBuf> {
    let refused = |evidence: &str| Error::new(format!("stage {number:02} can't be made")).evidence(evidence);
    if let Some(stage) = workbook.catalog.stages.iter().find(|stage| stage.number == number) {
        return Err(refused(&format!("there is {}", stage.package())).fix("choose another number"));
    }
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
        return Err(refused(&format!("its name is {name:?}")).fix("choose a name such as bio_latency_map"));
    }
    let (new, old, package) = (format!("{number:02}"), parent.name(), format!("stage{number:02}_{name}"));
    let folder = parent.folder.with_file_name(&package);
    let title = format!("What does stage {new} show?");
    let mut files = copies::files(parent)?;
    for (path, text) in &mut files {
        if path.ends_with("Cargo.toml") {
            *text = text
                .replace(parent.package(), &package)
                .replace(&format!("\"{}\"", parent.binary()), &format!("\"stage{new}\""));
            let metadata = text.split_once("[package.metadata.stage]\n").and_then(|(head, rest)| {
                let (keys, tail) = rest.split_once("\n\n")?;
                let is_kept =
                    |line: &&str| line.split_once(" = ").is_some_and(|(key, _)| KEPT.contains(&key));
                let kept: String = keys.lines().filter(is_kept).flat_map(|line| [line, "\n"]).collect();
                Some(format!(
                    "{head}[package.metadata.stage]\nnumber = {number}\nparent = {}\ntitle = \"{title}\"\n\
                     adds = \"one idea\"\nnew = []\nlesson = []\n{kept}\n{tail}",
                    parent.number
                ))
            });
            *text = metadata.ok_or_else(|| refused("its parent's Cargo.toml has no metadata"))?;
            // The first line of its --help.
            *text = text
                .lines()
                .flat_map(|line| match line.starts_with("description = ") {
                    true => [DESCRIPTION, "\n"],
                    false => [line, "\n"],
                })
                .collect();
        }
    }
    // These are right for it as long as it is a copy.
    for file in ["output.txt", "questions.toml"] {
        let from = parent.folder.join(file);
        let text = std::fs::read_to_string(&from).or_cause(format!("cannot read {}", from.display()))?;
        files.push((file.into(), text));
    }
    let check = format!(
        "//! What is right for this stage and its exercises. The guest runs this, beside I/O of which it knows everything.\n\n\
         use super::stage{old};\nuse crate::check::Check;\n\n\
         /// See [`Check`].\npub const CHECK: Check = Check {{ exercises: &[], ..stage{old}::CHECK }};\n"
    );
    files.push(("check.rs".into(), check));
    files.push((
        "teach.md".into(),
        format!("# Teach stage {new}\n\n## Instructor\n\n- Show it, and ask what it shows.\n"),
    ));
    let page = include_str!("new-stage.md").replace("{number}", &new).replace("{title}", &title);
    files.push(("README.md".into(), page));
    copies::write(&folder, &files)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::workbook::diff;

    #[test]
    fn a_new_stage_is_its_parent_with_another_number() {
        let workbook = Workbook::read().unwrap();
        let of = |stage: &Program, folder| Program { folder, ..stage.clone() };
        for parent in &workbook.catalog.stages {
            // Its neighbors are in a folder of the test.
            let stages = tempfile::tempdir().unwrap();
            let copy = stages.path().join(parent.package());
            copies::write(&copy, &copies::files(parent).unwrap()).unwrap();
            for file in ["output.txt", "questions.toml"] {
                std::fs::copy(parent.folder.join(file), copy.join(file)).unwrap();
            }
            let parent = of(parent, copy);
            let folder = stage(&workbook, 42, "who_waits", &parent).unwrap();
            assert_eq!(folder, stages.path().join("stage42_who_waits"));
            let items = diff::between(&parent, &of(&parent, folder.clone())).unwrap();
            let mut items = items.iter().flat_map(|file| &file.items);
            assert!(!items.any(|item| item.is_changed()), "{}", parent.package());
            let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            let numbers = format!("number = 42\nparent = {}\n", parent.number);
            assert!(
                manifest.contains(DESCRIPTION)
                    && manifest.contains(&numbers)
                    && !manifest.contains(&parent.binary()),
                "{manifest}"
            );
        }
        for (number, name) in [(3, "who_waits"), (42, "Who waits"), (42, "")] {
            stage(&workbook, number, name, &workbook.catalog.stages[0]).unwrap_err();
        }
    }
}
