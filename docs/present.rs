//! The view for a projector: what each stage changes, one item at a time, and each case of the verifier clinic in three
//! steps. It is a single file that needs nothing else.

use common::Result;
use lab::learn::clinic::{self, Case};
use lab::workbook::diff::{self, FileDiff, Item, Kind, Reading};
use lab::workbook::{Stage, Workbook};
use serde_json::{Value, json};

/// The page.
///
/// # Errors
/// If a source can't be read.
pub fn page(workbook: &Workbook) -> Result<String> {
    let stages = workbook.stages.iter().map(|stage| of_stage(workbook, stage));
    let cases = clinic::cases(workbook)?;
    let lessons = stages.chain(cases.iter().map(of_case)).collect::<Result<Vec<_>>>()?;
    // The end tag of a script in our data would end our own script.
    let data = Value::from(lessons).to_string().replace('<', "\\u003c");
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
    let number = format!("{:02}", stage.number);
    Ok(json!({
        "id": number,
        "name": format!("Stage {number}"),
        "page": format!("stages/{number}.html"),
        "title": stage.title,
        "idea": format!("Adds {}.", stage.adds),
        "adds": format!("adds {}", stage.adds),
        "parts": match stage.parent {
            Some(parent) => format!("What changes from stage {parent:02}"),
            None => "The first program, item by item".to_owned(),
        },
        "steps": steps,
        "kept": kept.collect::<Vec<_>>(),
    }))
}

/// The program, what the newest kernel that refuses it says, and the cure. The line that is refused, and the words of
/// the kernel, are marked.
fn of_case(case: &Case) -> Result<Value> {
    let kernel = case.kernel().unwrap_or_default();
    let (log, refusal) = (case.log(kernel).unwrap_or_default(), case.refusal(kernel));
    let refused = refusal.as_ref().and_then(|refusal| refusal.place.as_ref()?.location.as_ref());
    let refused = refused.map(|location| location.line as usize);
    let words = refusal.as_ref().map_or(&[][..], |refusal| &refusal.words);
    let lines = |text: &str, is_marked: &dyn Fn(usize, &str) -> bool| -> Vec<Value> {
        let line = |(nth, line): (usize, &str)| {
            json!([if is_marked(nth + 1, line) { "mark" } else { "same" }, [[false, line]]])
        };
        text.lines().enumerate().map(line).collect()
    };
    let mut steps = vec![
        json!({ "file": case.file, "item": "the program", "part": "lesson",
            "lines": lines(&case.source, &|nth, _| Some(nth) == refused) }),
        json!({ "file": format!("Linux {kernel}"), "item": "what the kernel says", "part": "lesson",
            "lines": lines(&log, &|_, line| words.iter().any(|words| line.contains(words.as_str()))) }),
    ];
    let file = FileDiff { name: case.file.clone(), items: diff::of_texts(&case.source, &case.cured()?) };
    let changed = file.items.iter().filter(|item| item.is_changed());
    steps.extend(changed.map(|item| step(&file, item, "the cure")));
    Ok(json!({
        "id": format!("case-{}", case.number()),
        "name": format!("Case {}", case.number()),
        "page": format!("clinic/{}.html", case.number()),
        "title": case.title,
        "idea": case.mistake.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', ""),
        "parts": "The program, the kernel's answer, and the cure",
        "steps": steps,
        "kept": [],
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
