//! The view for a projector: what each stage changes, one item at a time. It is a single file that needs nothing
//! else.

use common::Result;
use lab::workbook::diff::{self, FileDiff, Item, Kind, Reading};
use lab::workbook::{Stage, Workbook};
use serde_json::{Value, json};

/// The page.
///
/// # Errors
/// If a source can't be read.
pub fn page(workbook: &Workbook) -> Result<String> {
    let stages = workbook.stages.iter().map(|stage| of_stage(workbook, stage)).collect::<Result<Vec<_>>>()?;
    // The end tag of a script in our data would end our own script.
    let data = Value::from(stages).to_string().replace('<', "\\u003c");
    Ok(include_str!("present/present.html")
        .replace("{{css}}", include_str!("present/present.css").trim_end())
        .replace("{{js}}", include_str!("present/present.js").trim_end())
        .replace("{{data}}", &data))
}

fn of_stage(workbook: &Workbook, stage: &Stage) -> Result<Value> {
    let files = diff::of_stage(workbook, stage)?;
    let lesson = workbook.parent(stage).map_or_else(|_| Vec::new(), |parent| workbook.lesson(parent, stage));
    let Reading { lesson, bookkeeping } = Reading::of(&files, &lesson);
    let steps = |files: &[FileDiff], part: &str| -> Vec<Value> {
        let items = files.iter().flat_map(|file| file.items.iter().map(move |item| (file, item)));
        // Comments are not part of the lesson.
        items.filter(|(_, item)| item.is_changed_code()).map(|(file, item)| step(file, item, part)).collect()
    };
    // In the first stage, everything is the lesson.
    let rest = if stage.parent.is_some() { "bookkeeping" } else { "lesson" };
    let steps = [steps(&lesson, "lesson"), steps(&bookkeeping, rest)].concat();
    let items = files.iter().flat_map(|file| &file.items);
    let kept = items.filter(|item| !item.is_changed()).map(|item| item.name.as_str());
    Ok(json!({
        "number": stage.number,
        "parent": stage.parent,
        "title": stage.title,
        "adds": stage.adds,
        "steps": steps,
        "kept": kept.collect::<Vec<_>>(),
    }))
}

fn step(file: &FileDiff, item: &Item, part: &str) -> Value {
    let line = |line: &diff::Line| {
        let kind = match line.kind {
            Kind::Same => "same",
            Kind::Gone => "gone",
            Kind::New => "new",
        };
        json!([kind, line.pieces])
    };
    let lines: Vec<_> = item.lines.iter().map(line).collect();
    json!({ "file": file.name, "item": item.name, "part": part, "lines": lines })
}
