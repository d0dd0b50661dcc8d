//! `cargo upkeep sync`: updates all generated blocks of the workbook, which are tables, diffs, recorded output and
//! exercises.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use common::trace_pipe::Line;
use common::{Error, OrCause, Result};
use lab::{doctor, exercise};
use machine::workbook::copies;
use machine::workbook::diff::{self, Reading};
use machine::workbook::{Program, Workbook};

use crate::publish::blocks::{Markers, checksum, replace};
use crate::publish::tables::markdown;
use crate::publish::{clinic, included, record};

struct Block {
    file: PathBuf,
    name: String,
    text: String,
}

/// All blocks of the workbook.
fn blocks(workbook: &Workbook) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut add = |file: PathBuf, name: &str, text| {
        blocks.push(Block { file, name: name.to_owned(), text });
    };
    let top = workbook.root.join("README.md");
    let docs = workbook.root.join("docs/src");
    let answer = record::of(workbook.catalog.stage("11")?)?;
    let ios: Vec<_> = answer.lines().take(5).map(|line| format!("{line}\n")).collect();
    add(top.clone(), "answer", console("cargo lab run 11", &ios.concat()));
    let first = record::of(workbook.catalog.stage("01")?)?;
    let calls = first.lines().filter(|line| Line::parse(line).is_some()).take(2);
    let calls: Vec<_> = calls.map(|line| format!("{line}\n")).collect();
    let calls = console("cargo lab run 01", &(calls.concat() + "...\n"));
    add(top.clone(), "calls", calls.clone());
    add(docs.join("start.md"), "calls", calls);
    add(top, "stages", stages(workbook, false, |stage| format!("stages/{}", stage.package())));
    add(docs.join("install.md"), "systems", systems(&docs)?);
    for stage in &workbook.catalog.stages {
        let readme = stage.folder.join("README.md");
        add(readme.clone(), "facts", facts(stage)?);
        let [lesson, bookkeeping] = change(workbook, stage)?;
        add(readme.clone(), "lesson", lesson);
        add(readme.clone(), "bookkeeping", bookkeeping);
        add(readme.clone(), "output", format!("```\n{}```\n", record::of(stage)?));
        add(readme, "exercises", exercises(stage)?);
    }
    for example in &workbook.catalog.examples {
        let readme = example.folder.join("README.md");
        add(readme.clone(), "output", format!("```\n{}```\n", record::of(example)?));
        let exercises = exercises(example)?;
        if !exercises.is_empty() {
            add(readme, "exercises", exercises);
        }
    }
    add(
        docs.join("stages.md"),
        "stages",
        stages(workbook, true, |stage| format!("../../stages/{}", stage.package())),
    );
    add(docs.join("examples.md"), "examples", examples(workbook));
    add(docs.join("clinic.md"), "cases", clinic::tables(workbook)?);
    add(docs.join("clinic-words.md"), "compared", clinic::compared(workbook)?);
    add(docs.join("clinic-words.md"), "messages", clinic::messages(workbook)?);
    for page in included::pages(workbook)? {
        let text = fs::read_to_string(&page).or_cause(format!("cannot read {}", page.display()))?;
        for name in included::names(&text) {
            let text = included::text(workbook, name).map_err(|error| in_page(&page, name, &error))?;
            add(page.clone(), name, text);
        }
    }
    Ok(blocks)
}

fn in_page(page: &Path, name: &str, error: &Error) -> Error {
    Error::new(format!("the block {name:?} of {} can't be written", page.display())).evidence(error)
}

/// The table of the systems on which lab/distro-test has run.
fn systems(docs: &Path) -> Result<String> {
    let path = docs.join("systems.tsv");
    let text = fs::read_to_string(&path).or_cause(format!("cannot read {}", path.display()))?;
    Ok(markdown(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()))
}

/// The table of the stages.
fn stages(workbook: &Workbook, has_idea: bool, link: impl Fn(&Program) -> String) -> String {
    let [head, rule] = if has_idea { [" adds |", "---|"] } else { [""; 2] };
    let mut table = format!("| stage | question |{head} minutes |\n|---|---|{rule}---|\n");
    for stage in &workbook.catalog.stages {
        let Program { number, title, adds, minutes, .. } = stage;
        let idea = if has_idea { format!(" {adds} |") } else { String::new() };
        let _ = writeln!(table, "| [{number:02}]({}) | {title} |{idea} {minutes} |", link(stage));
    }
    table
}

/// The table of the examples.
fn examples(workbook: &Workbook) -> String {
    let mut table = "| example | does | from |\n|---|---|---|\n".to_owned();
    for example in &workbook.catalog.examples {
        let Program { title, text, .. } = example;
        let name = example.name();
        let _ = writeln!(table, "| [{name}](../../examples/{name}) | {title} | {text} |");
    }
    table
}

/// The exercises of a stage or an example.
fn exercises(program: &Program) -> Result<String> {
    let exercises: Vec<_> = exercise::of(program)?.iter().map(exercise::Exercise::markdown).collect();
    Ok(exercises.join("\n"))
}

/// What a stage adds, what it probes, and how long a class takes for it.
fn facts(stage: &Program) -> Result<String> {
    let mut probes: Vec<(String, String)> = Vec::new();
    for section in doctor::sections(stage)? {
        let (kind, name) = match section.trim_start_matches('?').split_once('/') {
            Some((kind, name)) => (kind.replace("tp_btf", "tracepoint"), format!(" `{name}`")),
            // User space chooses the functions.
            None => (section.clone(), String::new()),
        };
        match probes.last_mut() {
            Some((before, same)) if *same == name && *before == kind => {}
            // User space loads one of the two.
            Some((before, same)) if *same == name && section.starts_with('?') => {
                *before += &format!(" or {kind}");
            }
            _ => probes.push((kind, name)),
        }
    }
    let probes = probes.iter().map(|(kind, name)| format!("{kind}{name}")).collect::<Vec<_>>().join(", ");
    Ok(format!(
        "| adds | probes | minutes |\n|---|---|---|\n| {} | {probes} | {} |\n",
        stage.adds, stage.minutes
    ))
}

/// What changed since a stage's parent: the lesson, and the bookkeeping, folded. For the first stage, the parts are
/// all that runs in the kernel, and of what runs in user space, the steps, and all of it, folded.
fn change(workbook: &Workbook, stage: &Program) -> Result<[String; 2]> {
    if let Ok(parent) = workbook.catalog.parent(stage) {
        let Reading { lesson, bookkeeping } =
            Reading::of(&diff::between(parent, stage)?, &workbook.catalog.lesson(parent, stage));
        let rest = diff::markdown(&bookkeeping);
        let rest = if rest.trim().is_empty() {
            String::new()
        } else {
            folded("The bookkeeping: the rest of the change", &rest)
        };
        return Ok([diff::markdown(&lesson), rest]);
    }
    let [(bpf, kernel), (main, user), ..] = &copies::files(stage)?[..] else {
        return Err(Error::new(format!("{} has no sources", stage.name())));
    };
    let whole = |path: &Path, language: &str, text: &str| {
        format!("`{}`\n\n```{language}\n{text}```\n", path.display())
    };
    let rest = folded("All of this file", &whole(main, "rust", user));
    Ok([whole(bpf, "c", kernel), format!("{}\n{rest}", whole(main, "rust", &steps(user)))])
}

fn folded(summary: &str, text: &str) -> String {
    format!("<details class=\"screen\">\n<summary>{summary}</summary>\n\n{text}\n</details>\n")
}

/// The steps of a `main.rs`: each comment such as `// OPEN: ...` with the line below it.
fn steps(main: &str) -> String {
    let lines: Vec<_> = main.lines().collect();
    let is_step = |line: &str| {
        let name = line.trim_start().strip_prefix("// ").and_then(|text| text.split_once(": "));
        name.is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase()))
    };
    let steps = lines.windows(2).filter(|lines| is_step(lines[0]));
    steps.map(|lines| format!("{}\n{}\n", lines[0].trim_start(), lines[1].trim_start())).collect()
}

fn console(command: &str, output: &str) -> String {
    format!("```console\n$ {command}\n{output}```\n")
}

/// Writes all blocks that are out of date. Returns which ones it wrote.
///
/// # Errors
/// If a block was edited by hand and `force` is not set, or if a file has no place for its block.
pub fn write(workbook: &Workbook, force: bool) -> Result<String> {
    let mut said = String::new();
    for Block { file, name, text } in blocks(workbook)? {
        if replace(&file, &name, &text, force)? {
            let _ = writeln!(said, "{}: {name}", shown(workbook, &file));
        }
    }
    if said.is_empty() {
        said.push_str("All generated blocks are up to date.\n");
    }
    Ok(said)
}

/// Checks that all blocks are up to date.
///
/// # Errors
/// If one is not; the error lists which, and what to do.
pub fn check(workbook: &Workbook) -> Result<String> {
    let mut stale = Vec::new();
    for Block { file, name, text } in blocks(workbook)? {
        let found = Markers::find(&file, &name)?;
        if text != found.text() || found.checksum != checksum(&text) {
            stale.push(format!("{}: {name}", shown(workbook, &file)));
        }
    }
    if stale.is_empty() {
        return Ok("All generated blocks are up to date.\n".to_owned());
    }
    Err(Error::new("generated blocks are out of date")
        .evidence(stale.join("\n"))
        .fix("write them: cargo upkeep sync"))
}

fn shown(workbook: &Workbook, file: &Path) -> String {
    file.strip_prefix(&workbook.root).unwrap_or(file).display().to_string()
}
