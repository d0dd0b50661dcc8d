//! Generated blocks in Markdown files, between `<!-- NAME:begin SUM -->` and `<!-- NAME:end -->`: tables, diffs, recorded
//! output, exercises. SUM is that of the text between, so that an edit by hand is found out and not written over.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use common::{Error, OrCause, Result};

use crate::learn::{doctor, exercise};
use crate::measure::peers;
use crate::measure::{channels, drift};
use crate::publish::{record, schedule};
use crate::workbook::copies;
use crate::workbook::diff::{self, Extent, FileDiff};
use crate::workbook::{Example, Program, Stage, Workbook};

/// A block: its file, its name, and what is to be in it; `None` if another command writes it.
struct Block {
    file: PathBuf,
    name: &'static str,
    text: Option<String>,
}

/// All blocks of the workbook.
fn blocks(workbook: &Workbook) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut add = |file: PathBuf, name, text| blocks.push(Block { file, name, text: Some(text) });
    let top = workbook.root.join("README.md");
    let docs = workbook.root.join("docs/src");
    add(top.clone(), "output", console("cargo lab run 03", &record::of(workbook.stage("03")?)?));
    add(top.clone(), "stages", stages(workbook, |stage| format!("stages/{}", stage.package())));
    add(top, "examples", examples(workbook, |example| format!("examples/{}", example.name())));
    for stage in &workbook.stages {
        let readme = stage.folder.join("README.md");
        add(readme.clone(), "facts", facts(stage)?);
        add(readme.clone(), "diff", lesson(workbook, stage)?);
        add(readme.clone(), "output", format!("```\n{}```\n", record::of(stage)?));
        let exercises: Vec<_> = exercise::of(stage)?.iter().map(exercise::Exercise::markdown).collect();
        add(readme, "exercises", exercises.join("\n"));
    }
    for tool in &workbook.tools {
        let readme = tool.folder.join("README.md");
        add(readme.clone(), "facts", facts(tool)?);
        add(readme, "output", format!("```\n{}```\n", record::of(tool)?));
    }
    for example in &workbook.examples {
        add(example.folder.join("README.md"), "output", format!("```\n{}```\n", record::of(example)?));
    }
    add(docs.join("stages.md"), "stages", stages(workbook, |stage| format!("stages/{:02}.md", stage.number)));
    let page = |example: &Example| format!("examples/{}.md", example.name());
    add(docs.join("examples.md"), "examples", examples(workbook, page));
    add(docs.join("kernel-moved.md"), "kernels", drift::kernels_table(&workbook.root)?);
    add(docs.join("kernel-moved.md"), "functions", drift::table(&workbook.root)?);
    add(docs.join("through-the-wall.md"), "channels", channels::table(&workbook.root)?);
    add(docs.join("instructor.md"), "schedule", schedule::tables(workbook)?);
    for name in peers::COMPARED {
        let file = workbook.program(name)?.folder().join("README.md");
        blocks.push(Block { file, name: "peers", text: None });
    }
    Ok(blocks)
}

/// The table of the stages.
fn stages(workbook: &Workbook, link: impl Fn(&Stage) -> String) -> String {
    let mut table = "| stage | question | adds | minutes |\n|---|---|---|---|\n".to_owned();
    for stage in workbook.all_stages() {
        let Stage { number, title, adds, minutes, .. } = stage;
        let _ = writeln!(table, "| [{number:02}]({}) | {title} | {adds} | {minutes} |", link(stage));
    }
    table
}

/// The table of the examples.
fn examples(workbook: &Workbook, link: impl Fn(&Example) -> String) -> String {
    let mut table = "| example | does | from |\n|---|---|---|\n".to_owned();
    for example in &workbook.examples {
        let Example { title, text, .. } = example;
        let _ = writeln!(table, "| [{}]({}) | {title} | {text} |", example.name(), link(example));
    }
    table
}

/// What a stage adds, where it looks, and how long a class takes for it.
fn facts(stage: &Stage) -> Result<String> {
    let probes = doctor::sections(stage)?.into_iter().filter_map(|section| {
        let (kind, name) = section.trim_start_matches('?').split_once('/')?;
        Some(format!("{} `{name}`", if kind == "tp_btf" { "tracepoint" } else { kind }))
    });
    let probes = probes.collect::<Vec<_>>().join(", ");
    Ok(format!(
        "| adds | probes | minutes |\n|---|---|---|\n| {} | {probes} | {} |\n",
        stage.adds, stage.minutes
    ))
}

/// What changed since a stage's parent; of the first stage, all of it.
fn lesson(workbook: &Workbook, stage: &Stage) -> Result<String> {
    if let Ok(parent) = workbook.parent(stage) {
        return Ok(diff::markdown(&diff::between(parent, stage)?));
    }
    let files = copies::files(stage)?;
    let whole = files.iter().take(2).map(|(path, text)| {
        let language = if path.extension().is_some_and(|end| end == "rs") { "rust" } else { "c" };
        format!("`{}`\n\n```{language}\n{text}```\n", path.display())
    });
    Ok(whole.collect::<Vec<_>>().join("\n"))
}

fn console(command: &str, output: &str) -> String {
    format!("```console\n$ {command}\n{output}```\n")
}

/// Writes all blocks that are out of date. Gives what was written.
///
/// # Errors
/// If a block was edited by hand and this is not to be thrown away by `force`, or a file has no place for its block.
pub fn write(workbook: &Workbook, force: bool) -> Result<String> {
    let mut said = String::new();
    for Block { file, name, text } in blocks(workbook)? {
        // What another command writes is left as it is; only its sum may be missing.
        let (text, force) = match text {
            Some(text) => (text, force),
            None => match Place::find(&file, name)? {
                found if found.sum.is_empty() => (found.text().to_owned(), true),
                _ => continue,
            },
        };
        if replace(&file, name, &text, force)? {
            let _ = writeln!(said, "{}: {name}", shown(workbook, &file));
        }
    }
    if said.is_empty() {
        said.push_str("All generated blocks are up to date.\n");
    }
    Ok(said)
}

/// Checks that all blocks are what they should be.
///
/// # Errors
/// If one is not: which, and what to do.
pub fn check(workbook: &Workbook) -> Result<String> {
    let mut stale = Vec::new();
    for Block { file, name, text } in blocks(workbook)? {
        let found = Place::find(&file, name)?;
        let is_ours = found.sum == sum(found.text());
        if text.as_ref().is_some_and(|text| text != found.text()) {
            stale.push(format!("{}: {name}", shown(workbook, &file)));
        } else if !is_ours {
            let mend = if text.is_some() {
                "cargo lab sync --force"
            } else {
                "git checkout, or the command that makes it"
            };
            stale.push(format!(
                "{}: {name}, edited by hand; to throw that away: {mend}",
                shown(workbook, &file)
            ));
        }
    }
    if stale.is_empty() {
        return Ok("All generated blocks are up to date.\n".to_owned());
    }
    Err(Error::new("generated blocks are out of date")
        .evidence(stale.join("\n"))
        .fix("write them: cargo lab sync"))
}

fn shown(workbook: &Workbook, file: &Path) -> String {
    file.strip_prefix(&workbook.root).unwrap_or(file).display().to_string()
}

/// Puts a text into its block and says whether that changed the file. All else in the file stays as it is.
///
/// # Errors
/// If what is there was edited by hand, unless `force` is set; or the file has no place for it.
pub fn replace(file: &Path, name: &str, text: &str, force: bool) -> Result<bool> {
    let found = Place::find(file, name)?;
    let old = found.text();
    if !found.sum.is_empty() && found.sum != sum(old) && old != text && !force {
        let changes = FileDiff { name: file.display().to_string(), items: diff::of_texts(old, text) };
        return Err(Error::new(format!("{}: somebody edited the generated block {name:?}", file.display()))
            .evidence(anstream::adapter::strip_str(&format!(
                "what would be written over it:{}",
                diff::terminal(&[changes], Extent::Folded)
            )))
            .fix("move your edit to where the block comes from; or throw it away: cargo lab sync --force"));
    }
    let whole = format!("{}<!-- {name}:begin {} -->\n{text}{}", found.before(), sum(text), found.after());
    if whole == found.whole {
        return Ok(false);
    }
    fs::write(file, whole).or_cause(format!("cannot write {}", file.display()))?;
    Ok(true)
}

/// Where a block is in its file.
struct Place {
    whole: String,
    /// Where its first marker begins, its text begins, and its last marker begins.
    begin: usize,
    text: usize,
    end: usize,
    /// What its first marker says that the sum is; empty if nothing.
    sum: String,
}

impl Place {
    fn find(file: &Path, name: &str) -> Result<Self> {
        let whole = fs::read_to_string(file).or_cause(format!("cannot read {}", file.display()))?;
        let (first, last) = (format!("<!-- {name}:begin"), format!("<!-- {name}:end -->"));
        let none = || {
            Error::new(format!("{} has no place for the block {name:?}", file.display()))
                .evidence(format!("there is no line {first} -->, or behind it none {last}"))
                .fix("put both lines back where the block belongs; or, if you removed them by mistake: git checkout")
        };
        let begin = whole.find(&first).ok_or_else(none)?;
        let text = begin + whole[begin..].find("-->\n").ok_or_else(none)? + "-->\n".len();
        let end = text + whole[text..].find(&last).ok_or_else(none)?;
        let sum = whole[begin + first.len()..text].trim_end().trim_end_matches("-->").trim().to_owned();
        Ok(Self { whole, begin, text, end, sum })
    }

    fn before(&self) -> &str {
        &self.whole[..self.begin]
    }

    fn text(&self) -> &str {
        &self.whole[self.text..self.end]
    }

    fn after(&self) -> &str {
        &self.whole[self.end..]
    }
}

/// A short sum of a text.
fn sum(text: &str) -> String {
    format!("{:08x}", crc32fast::hash(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let file =
            file("before\n<!-- a:begin -->\nold\n<!-- a:end -->\nafter\n<!-- b:begin -->\n<!-- b:end -->");
        assert!(replace(file.path(), "a", "new\n", false).unwrap());
        let text = fs::read_to_string(file.path()).unwrap();
        let begin = format!("<!-- a:begin {} -->", sum("new\n"));
        assert_eq!(
            text,
            format!("before\n{begin}\nnew\n<!-- a:end -->\nafter\n<!-- b:begin -->\n<!-- b:end -->")
        );
        assert!(!replace(file.path(), "a", "new\n", false).unwrap(), "nothing is left to do");
    }

    #[test]
    fn an_edit_by_hand_is_shown_and_not_written_over() {
        let file = file("<!-- a:begin -->\n<!-- a:end -->\n");
        replace(file.path(), "a", "ours\n", false).unwrap();
        let edited = fs::read_to_string(file.path()).unwrap().replace("ours", "theirs");
        fs::write(file.path(), &edited).unwrap();
        let error = replace(file.path(), "a", "new\n", false).unwrap_err().to_string();
        assert!(error.contains("theirs") && error.contains("--force"), "{error}");
        assert_eq!(fs::read_to_string(file.path()).unwrap(), edited);
        assert!(replace(file.path(), "a", "new\n", true).unwrap());
    }

    #[test]
    fn a_file_without_the_markers_is_told() {
        let file = file("<!-- a:begin -->\nno end\n");
        let error = replace(file.path(), "a", "new\n", false).unwrap_err().to_string();
        assert!(error.contains("has no place for the block \"a\""), "{error}");
    }
}
