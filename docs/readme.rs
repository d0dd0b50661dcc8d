//! What the book takes from the READMEs of the stages and examples, and from what helps to teach a stage.

use std::fs;
use std::path::Path;

use common::{Error, OrCause, Result};
use machine::workbook::{Program, Workbook};
use mdbook_markdown::pulldown_cmark::{Event, Tag};
use mdbook_markdown::{MarkdownOptions, new_cmark_parser};

use crate::links;

/// The README of a program, with links that work in this chapter of the book.
pub fn page(workbook: &Workbook, chapter: &Path, program: &Program) -> Result<String> {
    for_book(workbook, chapter, program, &text_of(program)?)
}

/// The section with this heading of a program's README, with links that work in this chapter of the book.
pub fn section_for_book(
    workbook: &Workbook,
    chapter: &Path,
    program: &Program,
    heading: &str,
) -> Result<String> {
    for_book(workbook, chapter, program, section(&text_of(program)?, heading)?)
}

fn for_book(workbook: &Workbook, chapter: &Path, program: &Program, text: &str) -> Result<String> {
    let folder = program.folder.strip_prefix(&workbook.root).unwrap_or(&program.folder);
    links::rewrite(workbook, folder, chapter, text)
}

/// The sections of a stage's `teach.md`, each if it needs one.
const TAUGHT: [&str; 4] = ["Instructor", "Slides", "Troubles", "What moved"];

/// The section with this heading of a stage's `teach.md`, if it has one, with links that work in this chapter of the book.
pub fn teach(workbook: &Workbook, chapter: &Path, stage: &Program, heading: &str) -> Result<Option<String>> {
    let path = stage.folder.join("teach.md");
    let text = fs::read_to_string(&path).or_cause(format!("cannot read {}", path.display()))?;
    // Nobody would see what is under another heading.
    let headings: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    if let Some(other) = headings.iter().find(|heading| !TAUGHT.contains(heading)) {
        let known = TAUGHT.join(", ");
        return Err(Error::new(format!("{} has the heading {other:?}", path.display()))
            .evidence("no page shows what is below it")
            .fix(format!("the headings are {known}")));
    }
    if !headings.contains(&heading) {
        return Ok(None);
    }
    for_book(workbook, chapter, stage, section(&text, heading)?.trim()).map(Some)
}

/// The section with this heading of a stage's README.
pub fn section_of(stage: &Program, heading: &str) -> Result<String> {
    section(&text_of(stage)?, heading).map(str::to_owned)
}

/// The text below a heading, up to the next heading of the same rank.
fn section<'a>(text: &'a str, heading: &str) -> Result<&'a str> {
    let parser = new_cmark_parser(text, &MarkdownOptions::default());
    let mut headings = Vec::new();
    for (event, range) in parser.into_offset_iter() {
        if let Event::Start(Tag::Heading { level, .. }) = event {
            headings.push((level, text[range.clone()].trim_matches(['#', ' ', '\n']), range));
        }
    }
    let Some(nth) = headings.iter().position(|(_, name, _)| *name == heading) else {
        let names: Vec<_> = headings.iter().map(|(_, name, _)| *name).collect();
        return Err(Error::new(format!("there is no heading {heading:?}"))
            .evidence(format!("there are: {}", names.join(", "))));
    };
    let (level, _, range) = &headings[nth];
    let end = headings[nth + 1..]
        .iter()
        .find(|(other, ..)| other <= level)
        .map_or(text.len(), |(.., next)| next.start);
    Ok(&text[range.end..end])
}

/// The README of a program.
pub fn text_of(program: &Program) -> Result<String> {
    let path = program.folder.join("README.md");
    fs::read_to_string(&path).or_cause(format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_ends_at_the_next_of_its_rank() {
        let text =
            "# A\n\none\n\n## B\n\ntwo\n\n### C\n\nthree\n\n```sh\n# no heading\n```\n\n## D\n\nfour\n";
        assert_eq!(section(text, "B").unwrap().trim(), "two\n\n### C\n\nthree\n\n```sh\n# no heading\n```");
        assert_eq!(section(text, "D").unwrap().trim(), "four");
        let error = section(text, "Nothing").unwrap_err().to_string();
        assert!(error.contains("there is no heading \"Nothing\""), "{error}");
    }

    #[test]
    fn what_helps_to_teach_is_under_a_heading_that_a_page_shows() {
        let (workbook, folder) = (Workbook::read().unwrap(), tempfile::tempdir().unwrap());
        let stage = Program { folder: folder.path().to_owned(), ..workbook.catalog.stages[0].clone() };
        let teach = |text: &str, heading: &str| {
            fs::write(folder.path().join("teach.md"), text).unwrap();
            super::teach(&workbook, Path::new("x.md"), &stage, heading)
        };
        assert_eq!(teach("# T\n\n## Troubles\n\nOne\n", "Troubles").unwrap().as_deref(), Some("One"));
        assert_eq!(teach("# T\n\n## Troubles\n\nOne\n", "Slides").unwrap(), None);
        let error = teach("# T\n\n## Trouble\n\nOne\n", "Troubles").unwrap_err().to_string();
        assert!(error.contains("\"Trouble\"") && error.contains("Instructor, Slides, Troubles"), "{error}");
    }
}
