//! Generated blocks that a page asks for itself: the name of the block says what it shows.
//!
//! | block | shows |
//! |---|---|
//! | `item 03 bio_endio_entry` | that item of stage 03's BPF source |
//! | `item 03 main.rs main` | that item of another source of stage 03 |
//! | `item common/src/args.rs RunArgs` | that item of a file, by its path from the top folder |
//! | `transcript load` | the recorded commands of that name, and what they print |
//!
//! To add one, write both markers and run `cargo upkeep sync`.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use common::{Error, OrCause, Result};
use machine::workbook::Workbook;
use machine::workbook::diff;

use crate::publish::recordings;

/// What the names of these blocks begin with.
const KINDS: [&str; 2] = ["item ", "transcript "];

/// The names of these blocks in a page.
pub fn names(page: &str) -> impl Iterator<Item = &str> {
    let markers = page.lines().filter_map(|line| line.strip_prefix("<!-- ")?.split_once(":begin"));
    markers.map(|(name, _)| name).filter(|name| KINDS.iter().any(|kind| name.starts_with(kind)))
}

/// All chapters of the book, and all READMEs.
pub fn pages(workbook: &Workbook) -> Result<Vec<PathBuf>> {
    let docs = workbook.root.join("docs/src");
    let entries = docs.read_dir().or_cause(format!("cannot read {}", docs.display()))?;
    let mut pages: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    pages.retain(|path| path.extension() == Some(OsStr::new("md")));
    pages.sort();
    pages.extend(workbook.catalog.programs().map(|program| program.folder.join("README.md")));
    pages.push(workbook.root.join("README.md"));
    Ok(pages)
}

/// The text of the block with this name.
pub fn text(workbook: &Workbook, name: &str) -> Result<String> {
    let words: Vec<_> = name.split_whitespace().collect();
    match words[..] {
        ["transcript", name] => {
            Ok(format!("```console\n{}\n```\n", recordings::transcript(&workbook.root, name)?.trim_end()))
        }
        ["item", path, name] if path.contains('/') => item(&workbook.root.join(path), name),
        ["item", stage, name] => item(&workbook.catalog.stage(stage)?.sources()?[0], name),
        ["item", stage, file, name] => {
            item(&workbook.catalog.stage(stage)?.folder.join("src").join(file), name)
        }
        _ => Err(Error::new(format!("there is no generated block {name:?}"))),
    }
}

/// An item of a source, as a block of code.
fn item(path: &Path, name: &str) -> Result<String> {
    let source = fs::read_to_string(path).or_cause(format!("cannot read {}", path.display()))?;
    let items = diff::items(&source);
    let whole = items.iter().find(|(found, _)| found == name).map(|(_, text)| text.as_str());
    // Global variables form one item, so look for the line of this one.
    let line = || {
        let (_, text) = items.iter().find(|(found, _)| found.split(", ").any(|found| found == name))?;
        text.lines().find(|line| line.contains(name))
    };
    let Some(text) = whole.or_else(line) else {
        let names: Vec<_> = items.iter().map(|(name, _)| name.as_str()).collect();
        return Err(Error::new(format!("{} has no item {name}", path.display()))
            .evidence(format!("there are: {}", names.join(", "))));
    };
    let language = if path.extension() == Some(OsStr::new("rs")) { "rust" } else { "c" };
    Ok(format!("```{language}\n{}\n```\n", text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Result<String> {
        text(&Workbook::read().unwrap(), name)
    }

    #[test]
    fn items_come_from_the_sources() {
        let text = of("item 03 bio_endio_entry").unwrap();
        assert!(text.contains("\nSEC(\"fentry/bio_endio\")\nint BPF_PROG(bio_endio_entry"), "{text}");
        assert!(text.starts_with("```c\n") && text.ends_with("return 0;\n}\n```\n"), "{text}");
        let text = of("item 03 main.rs Args").unwrap();
        assert!(text.starts_with("```rust\n#[derive(Parser)]\n"), "{text}");
        let text = of("item 07 not_measured").unwrap();
        assert!(text.starts_with("```c\nu64 not_measured;") && text.lines().count() == 3, "{text}");
        let text = of("item common/src/args.rs RunArgs").unwrap();
        assert!(text.contains("pub struct RunArgs {"), "{text}");
    }

    #[test]
    fn an_error_names_what_is_missing() {
        for (name, told) in [
            ("item 03 nothing", "has no item nothing"),
            ("item 03 nothing.c nothing", "nothing.c"),
            ("item 44 main", "there is no stage 44"),
            ("item docs/nothing.rs main", "cannot read"),
            ("transcript nothing", "cargo upkeep record nothing"),
            ("item 03", "there is no generated block"),
        ] {
            let error = of(name).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn the_names_are_in_the_markers() {
        let page = "<!-- item 03 main:begin 12 -->\n<!-- facts:begin -->\n<!-- transcript load:begin -->\n`<!-- item x:begin`";
        assert_eq!(names(page).collect::<Vec<_>>(), ["item 03 main", "transcript load"]);
    }
}
