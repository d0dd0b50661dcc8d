//! How a chapter includes parts of the stages instead of copying them. A directive is alone on its line:
//!
//! | directive | becomes |
//! |---|---|
//! | `{{#readme 03}}` | the README of stage 03; `top` is the workbook's |
//! | `{{#readme 03 How it works}}` | the section with that heading |
//! | `{{#notes 03}}` | the notes for instructors of stage 03 |
//! | `{{#output 03}}` | the recorded output of stage 03 |
//! | `{{#transcript load}}` | the recorded commands of that name and what they print |
//! | `{{#case 03}}` | the page of case 03 of the verifier clinic; `table` is a table of all cases, `messages` one of public messages, `compared` one with the words of Linux 7.3 |
//! | `{{#item 03 bio_endio_entry}}` | that item of stage 03's BPF source |
//! | `{{#item 03 main.rs main}}` | that item of another source of stage 03 |
//! | `{{#item common/src/args.rs RunArgs}}` | that item of a file below the top folder, or below docs/src |

use std::fs;
use std::path::{Path, PathBuf};

use common::{Error, OrCause, Result};
use lab::clinic;
use machine::workbook::diff;
use machine::workbook::{Program, Stage, Workbook};
use mdbook_markdown::pulldown_cmark::{Event, Tag};
use mdbook_markdown::{MarkdownOptions, new_cmark_parser};
use upkeep::publish::{self, record, transcripts};

use crate::links;

/// Replaces every directive of a chapter.
///
/// # Errors
/// If there is no such directive, stage, item, heading or output. The error names the chapter and the directive.
pub fn expand(workbook: &Workbook, chapter: &Path, text: &str) -> Result<String> {
    let mut expanded = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let directive = line.trim().strip_prefix("{{#").and_then(|line| line.strip_suffix("}}"));
        match directive {
            None if line.contains("{{#") => {
                return Err(wrong(
                    chapter,
                    line.trim(),
                    &Error::new("it is unknown, or not alone on its line"),
                ));
            }
            None => expanded.push_str(line),
            Some(directive) => {
                let words: Vec<_> = directive.split_whitespace().collect();
                let text =
                    one(workbook, chapter, &words).map_err(|error| wrong(chapter, line.trim(), &error))?;
                expanded.push_str(text.trim_end());
                expanded.push('\n');
            }
        }
    }
    Ok(expanded)
}

fn wrong(chapter: &Path, directive: &str, error: &Error) -> Error {
    Error::new(format!("{}: {directive} cannot be replaced", chapter.display()))
        .evidence(error)
        .fix("docs/directives.rs lists the directives; {{#include}} needs a file below docs/src")
}

fn one(workbook: &Workbook, chapter: &Path, words: &[&str]) -> Result<String> {
    match words {
        ["readme", "top", heading @ ..] => readme(workbook, chapter, &workbook.root, heading),
        ["readme", program, heading @ ..] => {
            readme(workbook, chapter, workbook.catalog.program(program)?.folder(), heading)
        }
        ["notes", stage] => notes(workbook, chapter, workbook.catalog.stage(stage)?),
        ["output", stage] => {
            Ok(fenced("text", record::of(workbook.catalog.stage(stage)?)?.trim_matches('\n')))
        }
        ["transcript", name] => Ok(fenced("console", &transcripts::of(&workbook.root, name)?)),
        ["case", "table"] => publish::clinic::table(workbook),
        ["case", "compared"] => publish::clinic::compared(workbook),
        ["case", "messages"] => publish::clinic::messages(workbook),
        ["case", number] => publish::clinic::page(&clinic::find(workbook, number)?),
        ["item", path, name] if path.contains('/') => item(&below(workbook, path)?, path, name),
        ["item", stage, name] => {
            let stage = workbook.catalog.stage(stage)?;
            let [bpf, _] = stage.sources()?;
            item(&bpf, &format!("stage {:02}", stage.number), name)
        }
        ["item", stage, file, name] => {
            let stage = workbook.catalog.stage(stage)?;
            let folders = ["", "src", "src/bpf"].map(|folder| stage.folder.join(folder).join(file));
            let path = folders.into_iter().find(|path| path.is_file());
            let whose = format!("stage {:02}", stage.number);
            item(
                &path.ok_or_else(|| Error::new(format!("{whose} has no {file}")))?,
                &format!("{whose}, {file}"),
                name,
            )
        }
        _ => Err(Error::new("there is no such directive, or its arguments are wrong")),
    }
}

/// A README, or the section with one of its headings, with links that work in the book and with the code that it names.
///
/// # Errors
/// If there is no such heading, or a link of the README leads nowhere.
pub fn readme(workbook: &Workbook, chapter: &Path, folder: &Path, heading: &[&str]) -> Result<String> {
    let path = folder.join("README.md");
    let text = read(&path)?;
    let text = if heading.is_empty() { &text } else { section(&text, &heading.join(" "))? };
    let folder = folder.strip_prefix(&workbook.root).unwrap_or(folder);
    expand(workbook, chapter, &links::rewrite(workbook, folder, chapter, text)?)
}

/// The notes for instructors, with links that work in the book.
fn notes(workbook: &Workbook, chapter: &Path, stage: &Stage) -> Result<String> {
    let folder = stage.folder.strip_prefix(&workbook.root).unwrap_or(&stage.folder);
    links::rewrite(workbook, folder, chapter, &notes_of(stage)?)
}

/// The notes for instructors, which are folded in the README.
///
/// # Errors
/// If there are none.
pub fn notes_of(stage: &Stage) -> Result<String> {
    let text = read(&stage.folder.join("README.md"))?;
    let notes = text.split_once("<summary>Instructor notes</summary>");
    let notes = notes.and_then(|(_, rest)| rest.split_once("</details>"));
    let (notes, _) =
        notes.ok_or_else(|| Error::new(format!("stage {:02} has no notes for instructors", stage.number)))?;
    Ok(notes.trim().to_owned())
}

/// The section with this heading of a stage's README.
///
/// # Errors
/// If there is none.
pub fn section_of(stage: &Stage, heading: &str) -> Result<String> {
    section(&read(&stage.folder.join("README.md"))?, heading).map(str::to_owned)
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

fn item(path: &Path, whose: &str, name: &str) -> Result<String> {
    let items = diff::items(&read(path)?);
    let whole = items.iter().find(|(found, _)| found == name).map(|(_, text)| text.as_str());
    // Global variables form one item, so look for the line of this one.
    let line = || {
        let (_, text) = items.iter().find(|(found, _)| found.split(", ").any(|found| found == name))?;
        text.lines().find(|line| line.contains(name))
    };
    let Some(text) = whole.or_else(line) else {
        let names: Vec<_> = items.iter().map(|(name, _)| name.as_str()).collect();
        return Err(Error::new(format!("{whose} has no item {name}"))
            .evidence(format!("there are: {}", names.join(", "))));
    };
    let language = match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => "rust",
        Some("c" | "h") => "c",
        _ => "text",
    };
    Ok(fenced(language, text.trim_end()))
}

fn fenced(language: &str, text: &str) -> String {
    format!("```{language}\n{}\n```\n", text.trim_end_matches('\n'))
}

fn below(workbook: &Workbook, path: &str) -> Result<PathBuf> {
    let paths = [workbook.root.join(path), workbook.root.join("docs/src").join(path)];
    let found = paths.into_iter().find(|path| path.is_file());
    found.ok_or_else(|| Error::new(format!("there is no file {path}")))
}

/// The text of a file.
///
/// # Errors
/// If it can't be read.
pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).or_cause(format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String> {
        expand(&Workbook::read().unwrap(), Path::new("beyond.md"), text)
    }

    #[test]
    fn items_come_from_the_sources() {
        let text = expanded("Look:\n\n{{#item 03 bio_endio_entry}}\n\n{{#item 03 main.rs Args}}\n").unwrap();
        assert!(
            text.starts_with("Look:\n\n```c\n/*\n * bio_endio() runs in interrupts.")
                && text.contains("\nSEC(\"fentry/bio_endio\")\nint BPF_PROG(bio_endio_entry"),
            "{text}"
        );
        assert!(text.contains("return 0;\n}\n```\n\n```rust\n/// Print how long"), "{text}");
        let text = expanded("{{#item 03 not_measured}}").unwrap();
        assert!(text.starts_with("```c\nu64 not_measured;") && text.lines().count() == 3, "{text}");
        let text = expanded("{{#item common/src/args.rs RunArgs}}").unwrap();
        assert!(text.contains("pub struct RunArgs {"), "{text}");
    }

    #[test]
    fn each_page_gets_the_code_that_it_names() {
        let workbook = Workbook::read().unwrap();
        for program in workbook.catalog.programs() {
            let text = readme(&workbook, Path::new("examples/page.md"), program.folder(), &[]).unwrap();
            assert!(!text.contains("{{#"), "{}: {text}", program.name());
        }
    }

    #[test]
    fn an_error_names_the_chapter() {
        for (directive, told) in [
            ("{{#item 03 nothing}}", "stage 03 has no item nothing"),
            ("{{#item 03 main.rs nothing}}", "stage 03, main.rs has no item nothing"),
            ("{{#item 03 nothing.c nothing}}", "stage 03 has no nothing.c"),
            ("{{#item 44 main}}", "there is no stage 44"),
            ("{{#item docs/nothing.rs main}}", "there is no file docs/nothing.rs"),
            ("{{#readme 03 Nothing}}", "there is no heading \"Nothing\""),
            ("{{#include nothing.svg}}", "no such directive"),
            ("See {{#item 03 main}}", "not alone on its line"),
        ] {
            let error = expanded(&format!("Text\n{directive}\n")).unwrap_err().to_string();
            assert!(
                error.contains("beyond.md") && error.contains(directive) && error.contains(told),
                "{error}"
            );
        }
    }

    #[test]
    fn an_output_is_a_block() {
        let text = expanded("{{#output 03}}").unwrap();
        assert!(text.starts_with("```text\n ") && text.ends_with("\n```\n"), "{text}");
        assert!(
            text.contains("submit_bio() -> bio_endio() time duration") && text.matches("```").count() == 2,
            "{text}"
        );
    }

    #[test]
    fn a_section_ends_at_the_next_of_its_rank() {
        let text =
            "# A\n\none\n\n## B\n\ntwo\n\n### C\n\nthree\n\n```sh\n# no heading\n```\n\n## D\n\nfour\n";
        assert_eq!(section(text, "B").unwrap().trim(), "two\n\n### C\n\nthree\n\n```sh\n# no heading\n```");
        assert_eq!(section(text, "D").unwrap().trim(), "four");
    }

    #[test]
    fn links_of_a_readme_lead_to_pages_of_the_book() {
        let workbook = Workbook::read().unwrap();
        let folder = Path::new("stages/stage03_bio_latency_map");
        let text = "![I/O](../../docs/src/io-path.svg), [02](../stage02_bio_endio_call_time#try-this), [a\nb](src/main.rs), \
            [README.md](../../README.md), [`x`](build.rs), [a](#b), [c](https://d.example/)";
        let rewritten = links::rewrite(&workbook, folder, Path::new("stages/03.md"), text).unwrap();
        assert_eq!(
            rewritten,
            "![I/O](../io-path.svg), [02](../stages/02.md#try-this), `a\nb`, [README.md](../start.md), `x`, [a](#b), \
            [c](https://d.example/)"
        );
        let dead =
            links::rewrite(&workbook, folder, Path::new("stages/03.md"), "[a](../stage99)").unwrap_err();
        assert!(
            dead.to_string().contains("stages/03.md") && dead.to_string().contains("[a](../stage99)"),
            "{dead}"
        );
    }
}
