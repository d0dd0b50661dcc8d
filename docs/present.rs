//! The view for a projector: slides, what each stage changes, one item at a time, and each case of the verifier clinic
//! in three steps. It is a single file that needs nothing else. Its scripts and its style are in `docs/present`.
//!
//! The scripts are TypeScript. After you change them, type `make present`, which needs npm, and commit the bundle
//! `present.js`, too, so that nobody else needs npm. `npm run lock` updates the lock file.
//!
//! This is our own and not reveal.js. We tried its version 6.0.2 with the whole deck in December 2026. Its code steps show
//! neither removed lines nor the words that changed, which are the lesson. So it would replace about 300 of 967 lines of
//! TypeScript, and none of the Rust, and the page would have 20,684 elements and not 216. The presenter's window is blank after a
//! reload, and on a phone, code has letters of 7.5 pixels and not 12. It would print all steps, which ours doesn't.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use ::questions::Asked;
use common::trace_pipe::Line;
use common::{Error, OrCause, Result};
use lab::clinic::{self, Case};
use lab::exercise::{self, Exercise};
use machine::workbook::diff::{self, FileDiff, Item, Kind, Reading};
use machine::workbook::{Program, Workbook};
use mdbook_markdown::pulldown_cmark::{Event, Tag, TagEnd, html};
use mdbook_markdown::{MarkdownOptions, new_cmark_parser};
use serde_json::{Value, json};
use upkeep::publish::record;

use crate::hands;
use crate::life;
use crate::mysteries;
use crate::pages;
use crate::plans::{self, Plan, Slot};
use crate::readme;
use crate::slides::{self, Slide};

/// How long a class works on an exercise that is in no plan, and those whose text says how long.
const MINUTES: u32 = 15;
const LONGER: [(&str, u32); 2] = [("half an hour", 30), ("an hour", 60)];
/// The items of a stage that teach nothing, and are on its page only.
const NEEDED: [&str; 4] = ["#include", "LICENSE", "use", "bpf"];
/// The colors of all pictures. Each has them, too, because in the book it is alone.
const PALETTE: &str = include_str!("palette.css");
/// The picture of all stages, with a group such as `stage-03` for each.
const MAP: &str = "stage-map.svg";
/// How the last paragraph of a stage's lesson begins, and how many words of it a slide shows at most.
const SO: &str = "So now you ";
const SO_WORDS: usize = 15;
/// How a line of code begins in a note.
const CODE: &str = "    ";
/// How the lines begin that libbpf and the verifier write around a log.
const FRAMES: [&str; 3] = ["libbpf: ", "-- END PROG LOAD LOG --", "processed "];
/// How a note begins that is for the time before the run.
const BEFORE: &str = "Before running";

/// What a picture gets of a window of 1280 x 720 pixels, and the smallest letters that can be read from the last row.
const FRAME: [f64; 2] = [1241.0, 570.0];
const LEAST: f64 = 18.0;

/// The smallest letters of a picture on a slide, which shows it whole, in pixels.
fn letters(svg: &str) -> Option<f64> {
    let (_, view) = svg.split_once("viewBox=\"0 0 ")?;
    let (width, height) = view.split_once('"')?.0.split_once(' ')?;
    let scale = (FRAME[0] / width.parse::<f64>().ok()?).min(FRAME[1] / height.parse::<f64>().ok()?);
    let sizes = svg.split("font-size=\"").skip(1).map(|rest| rest.split('"').next()?.parse::<f64>().ok());
    let least = sizes.collect::<Option<Vec<_>>>()?.into_iter().min_by(f64::total_cmp)?;
    Some(least * scale)
}

/// In the book, a picture follows the system. Here it follows the key.
fn in_page(style: &str) -> String {
    style.replace("@media (prefers-color-scheme: dark)", ":root[data-theme=\"dark\"]")
}

/// The page.
pub fn page(workbook: &Workbook) -> Result<String> {
    let slides = slides::all(workbook, &life::words(workbook)?)?;
    let plans = plans::all(workbook)?;
    let longest = plans.iter().max_by_key(|plan| plan.minutes).map_or(&[][..], |plan| &plan.slots);
    let theory = |id: &str| slides.iter().find(|part| part.id == id && !part.title.is_empty());
    let mut parts = Vec::new();
    let mut cases = mysteries::all(&workbook.root)?;
    let mut stages = workbook.catalog.stages.iter().peekable();
    // In the order of the longest plan, so that an instructor only goes on. It leaves out some stages.
    for slot in longest {
        let number = slot.name.parse::<u32>().ok();
        while let Some(stage) = stages.next_if(|stage| Some(stage.number) <= number) {
            parts.push(of_stage(workbook, &slides, &plans, stage)?);
        }
        parts.extend(theory(&slot.name).map(|part| of_theory(part, &slot.commands)));
        parts.extend(cases.extract_if(.., |case| case["id"] == *slot.name));
        if slot.is_break() {
            parts.push(of_break(slot));
        }
    }
    for stage in stages {
        parts.push(of_stage(workbook, &slides, &plans, stage)?);
    }
    let is_planned = |part: &&slides::Part| longest.iter().any(|slot| slot.name == part.id);
    let unplanned = slides.iter().filter(|part| !part.title.is_empty() && !is_planned(part));
    parts.extend(unplanned.map(|part| of_theory(part, &[])));
    parts.extend(cases);
    for case in clinic::cases(workbook)? {
        parts.push(of_case(&case)?);
    }
    let slides: Vec<_> = slides.iter().flat_map(|part| &part.slides).collect();
    let mut files: BTreeSet<_> =
        slides.iter().map(|slide| &*slide.picture).filter(|file| !file.is_empty()).collect();
    files.insert(MAP);
    let picture = |file: &&str| {
        let path = workbook.root.join("docs/src").join(file);
        let svg = fs::read_to_string(&path).or_cause(format!("cannot read {}", path.display()))?;
        let letters = letters(&svg).unwrap_or_default();
        if letters < LEAST {
            return Err(Error::new(format!("{file} does not fit a slide"))
                .evidence(format!("its smallest letters would have {letters:.1} px of {LEAST}"))
                .fix("draw it lower, leave something out, or make two pictures of it"));
        }
        // The page has the palette, once for all pictures.
        let svg = in_page(&svg.replacen(PALETTE, "", 1));
        let lines: Vec<_> = svg.lines().map(str::trim_start).collect();
        Ok(((*file).to_owned(), lines.join("\n").into()))
    };
    let pictures = files.iter().map(picture).collect::<Result<serde_json::Map<_, _>>>()?;
    for slide in slides {
        let svg = pictures.get(&slide.picture).and_then(Value::as_str).unwrap_or_default();
        for group in slide.steps.iter().flat_map(|step| &step.groups) {
            if !svg.contains(&format!("id=\"{group}\"")) {
                return Err(
                    Error::new(format!("{} has no group {group}", slide.picture)).evidence(&slide.title)
                );
            }
        }
    }
    let data = json!({ "parts": parts, "pictures": pictures, "plans": plans.iter().map(of_plan).collect::<Vec<_>>() });
    // In a script, nothing may look like its end, or like a comment.
    let data = data.to_string().replace("</", "<\\/").replace("<!--", "\\u003c!--");
    Ok(include_str!("present/present.html")
        .replace("{{css}}", include_str!("present/present.css").trim_end())
        .replace("{{palette}}", in_page(PALETTE).trim_end())
        .replace("{{js}}", include_str!("present/present.js").trim_end())
        .replace("{{data}}", &data))
}

/// What the presenter's clock needs of a plan.
fn of_plan(plan: &Plan) -> Value {
    let slot = |slot: &Slot| json!({ "name": slot.name, "title": slot.title, "at": slot.at, "minutes": slot.minutes });
    json!({ "minutes": plan.minutes, "slots": plan.slots.iter().map(slot).collect::<Vec<_>>() })
}

/// A text, with a clock unless it takes no minutes.
fn text(id: &str, title: &str, markdown: &str, minutes: u32, say: &str) -> Value {
    json!({
        "kind": "text", "id": id, "title": title, "text": html_of(markdown), "minutes": minutes, "say": say, "ask": [],
    })
}

fn of_break(slot: &Slot) -> Value {
    let name = &slot.name;
    json!({
        "id": name, "name": "", "title": slot.title, "page": "instructor.html", "idea": "",
        "steps": [text(name, &slot.title, "", slot.minutes, "Press t: the clock shows when we go on.")],
    })
}

/// Counts who has passed an exercise, if a plan does.
fn checkpoint(plans: &[Plan], exercise: &Exercise<'_>, solution: &[Value]) -> Option<Value> {
    let id = &exercise.id();
    let name = format!("passed-{id}");
    let slots = plans.iter().flat_map(|plan| plan.slots.iter().map(move |slot| (plan, slot)));
    let slots: Vec<_> = slots.filter(|(_, slot)| slot.name == name).collect();
    let (_, first) = slots.first()?;
    let skip =
        slots.iter().map(|(plan, slot)| format!("- in the plan of {} minutes: {}", plan.minutes, slot.skip));
    let show = first.commands.join(", then ");
    let mut say = vec![
        "If at least two thirds of the pairs have passed, go on.".to_owned(),
        format!("If fewer have, type {show}, and explain it. Then skip, to catch up:"),
    ];
    say.extend(skip);
    say.extend(exercise.hints.last().map(|hint| format!("The solution in words: {}", plain(hint))));
    let shown = format!(
        "One hand for each pair: raise it if this command says that your program is right.\n\n`{}`",
        check_of(id)
    );
    let mut checkpoint = text(&name, &first.title, &shown, 0, &say.join("\n"));
    checkpoint["solution"] = solution.into();
    Some(checkpoint)
}

/// All of an exercise.
fn say_of(exercise: &Exercise<'_>) -> String {
    [&exercise.start, &exercise.goal, &exercise.check].map(|text| plain(text)).join("\n")
}

/// How long a class works on an exercise.
fn minutes_of(slot: Option<&Slot>, exercise: &Exercise<'_>) -> u32 {
    let said = || LONGER.iter().find(|(words, _)| exercise.goal.contains(words)).map(|(_, minutes)| *minutes);
    slot.map(|slot| slot.minutes).or_else(said).unwrap_or(MINUTES)
}

/// What a solution changes in the starting point, an item at a time.
fn solution_of(exercise: &Exercise<'_>) -> Result<Vec<Value>> {
    let name = exercise.binary();
    let files = diff::of_files(&exercise.starting_point(&name)?, &exercise.solved(&name)?);
    let items = files.iter().flat_map(|file| file.items.iter().map(move |item| (file, item)));
    Ok(items
        .filter(|(_, item)| item.is_changed())
        .map(|(file, item)| of_item(file, item, "lesson", ""))
        .collect())
}

fn start_of(id: &str) -> String {
    format!("cargo lab exercise start {id}")
}

fn check_of(id: &str) -> String {
    format!("cargo lab exercise check {id}")
}

/// What everybody types, in a sentence for the presenter.
fn to_type(commands: &[String]) -> String {
    if commands.is_empty() { String::new() } else { format!("Type: {}", commands.join(", then ")) }
}

fn of_theory(part: &slides::Part, commands: &[String]) -> Value {
    json!({
        "id": part.id,
        "name": "",
        "title": part.title,
        "page": part.slides.first().map_or("index.html".to_owned(), |slide| page_of(&slide.link)),
        // A text says itself what to type.
        "idea": if part.slides.iter().any(|slide| slide.picture.is_empty()) { String::new() } else { to_type(commands) },
        "steps": part.slides.iter().flat_map(|slide| of_slide(&part.id, slide)).collect::<Vec<_>>(),
    })
}

/// Where the book has a section: `load.html#open` for `load.md#open`.
fn page_of(link: &str) -> String {
    link.replacen(".md", ".html", 1)
}

fn of_slide(part: &str, slide: &Slide) -> Vec<Value> {
    if slide.picture.is_empty() {
        let mut shown = text(part, &slide.title, &slide.text, 0, &slide.say.replace('`', ""));
        shown["ask"] = asked(&slide.ask).into();
        shown["page"] = page_of(&slide.link).into();
        return vec![shown];
    }
    // Asked before the last step, which often shows the answer.
    let last = slide.steps.len().saturating_sub(2);
    // A group that a step names again is neither hidden before nor dimmed then.
    let groups = |steps: &[slides::Step], but: &[slides::Step]| -> Vec<String> {
        let names = steps.iter().flat_map(|step| &step.groups);
        names.filter(|name| !but.iter().any(|step| step.groups.contains(name))).cloned().collect()
    };
    let earlier = |nth: usize| match nth + 1 < slide.steps.len() {
        true => groups(&slide.steps[..nth], &slide.steps[nth..=nth]),
        false => Vec::new(), // the last step shows everything
    };
    let step = |(nth, step): (usize, &slides::Step)| {
        json!({
            "kind": "picture", "title": slide.title, "picture": slide.picture, "page": page_of(&slide.link),
            "earlier": earlier(nth), "now": step.groups, "later": groups(&slide.steps[nth + 1..], &slide.steps[..=nth]),
            "caption": step.caption.replace('`', ""), "say": slide.say.replace('`', ""),
            "ask": if nth == last { asked(&slide.ask) } else { Vec::new() },
        })
    };
    slide.steps.iter().enumerate().map(step).collect()
}

fn asked(questions: &[[String; 2]]) -> Vec<Value> {
    let plain = |text: &str| text.replace('`', "");
    questions
        .iter()
        .map(|[question, answer]| json!({ "question": plain(question), "answer": plain(answer) }))
        .collect()
}

/// The run, the picture, the difference, questions and the exercises.
fn of_stage(workbook: &Workbook, slides: &[slides::Part], plans: &[Plan], stage: &Program) -> Result<Value> {
    let files = diff::of_stage(workbook, stage)?;
    let lesson = workbook
        .catalog
        .parent(stage)
        .map_or_else(|_| Vec::new(), |parent| workbook.catalog.lesson(parent, stage));
    let Reading { lesson, bookkeeping } = Reading::of(&files, &lesson);
    let number = format!("{:02}", stage.number);
    let explanation = paragraphs(&explanation(&readme::section_of(stage, "The change")?));
    // In the first stage, everything is the lesson.
    let rest = if stage.parent.is_some() { "bookkeeping" } else { "lesson" };
    let parts = [(&lesson, "lesson"), (&bookkeeping, rest)];
    let changed = parts.iter().flat_map(|(files, part)| files.iter().map(move |file| (file, *part)));
    let changed = changed.flat_map(|(file, part)| file.items.iter().map(move |item| (file, item, part)));
    // Comments are not part of the lesson, and what is gone is on the page.
    let is_gone = |item: &Item| item.lines.iter().all(|line| line.kind == Kind::Gone);
    let is_shown = |item: &Item| item.is_changed_code() && !is_gone(item) && !NEEDED.contains(&&*item.name);
    let mut changed: Vec<_> = changed.filter(|(_, item, _)| is_shown(item)).collect();
    // The kernel's side first, because user space uses its names.
    changed.sort_by_key(|(file, _, _)| file.name.ends_with(".rs"));
    let items: Vec<_> = changed.iter().map(|(_, item, _)| *item).collect();
    let said = about(&items, &explanation);
    let changes =
        changed.iter().zip(&said).flat_map(|((file, item, part), say)| change(file, item, part, say));
    let notes = readme::teach(workbook, Path::new("present.md"), stage, "Instructor")?.unwrap_or_default();
    let parts: Vec<_> = slides.iter().filter(|part| part.id == number).collect();
    let tasks: Vec<_> = parts.iter().flat_map(|part| &part.tasks).collect();
    let slides: Vec<_> = parts.iter().flat_map(|part| &part.slides).collect();
    let quiz = questions::of(&stage.folder)?;
    let mut exercises = Vec::new();
    for exercise in exercise::of(stage)?.into_iter().filter(|exercise| exercise.number > 0) {
        let nth = exercises.iter().filter(|step: &&Value| step["kind"] == "exercise").count();
        let task = tasks.get(nth).ok_or_else(|| {
            Error::new(format!("exercise {} has no task for its slide", exercise.id()))
                .fix("docs/slides/README.md explains the format")
        })?;
        let solution = solution_of(&exercise)?;
        let slot = plans.iter().flat_map(|plan| &plan.slots).find(|slot| slot.name == exercise.id());
        let whom = if slot.is_some() { "" } else { " For whoever is fast, or at home." };
        exercises.push(json!({
            "kind": "exercise", "id": exercise.id(), "title": exercise.title, "optional": slot.is_none(),
            "text": html_of(&format!(
                "{task}\n\n`{}`  \n`{}`\n\nIn the browser: *Start {}*, and *Check*.{whom}",
                start_of(&exercise.id()), check_of(&exercise.id()), exercise.id()
            )),
            "minutes": minutes_of(slot, &exercise),
            "hints": exercise.hints.iter().map(|hint| plain(hint)).collect::<Vec<_>>(),
            "say": say_of(&exercise), "ask": [], "solution": solution,
        }));
        exercises.extend(checkpoint(plans, &exercise, &solution));
    }
    let slot = plans.iter().flat_map(|plan| &plan.slots).find(|slot| slot.name == number);
    let commands = slot.map_or(&[][..], |slot| &slot.commands);
    // What to ask before the class sees what the program prints is said at the title.
    let notes = plain(&notes);
    let (before, after): (Vec<_>, Vec<_>) = notes.lines().partition(|line| line.starts_with(BEFORE));
    let say = format!("{}\n{}", to_type(commands), after.join("\n"));
    let output = record::of(stage)?;
    let hands = |asked: Asked, title: &str| -> Vec<Value> {
        let asked = quiz.iter().filter(|question| question.asked == asked);
        asked.flat_map(|question| hands::of(question, title, &output)).collect()
    };
    // A new stage may not be on the map yet.
    let map = workbook.root.join("docs/src").join(MAP);
    let map = fs::read_to_string(&map).or_cause(format!("cannot read {}", map.display()))?;
    let is_there = map.contains(&format!("id=\"stage-{number}\""));
    let mut all: Vec<_> = is_there.then(|| here(stage, &number)).into_iter().collect();
    all.extend(hands(Asked::Before, "Before we run it"));
    let prediction = quiz.iter().find(|question| question.asked == Asked::Before);
    let lit = prediction.map(|question| hands::deciding(question, &output)).unwrap_or_default();
    all.extend(run(workbook, stage, &lit, say.trim_start())?);
    all.extend(slides.iter().flat_map(|slide| of_slide(&number, slide)));
    all.extend(changes);
    let mut why = hands(Asked::After, "Did you see why?");
    // A class answers one of them.
    why.iter_mut().skip(2).for_each(|step| step["extra"] = true.into());
    all.extend(why);
    all.push(so(stage, &number)?);
    all.extend(exercises);
    Ok(json!({
        "id": number,
        "name": format!("Stage {number}"),
        "page": format!("stages/{number}.html"),
        "title": stage.title,
        "idea": format!("Adds {}.", stage.adds),
        "before": before.join("\n"),
        "adds": format!("adds {}", stage.adds),
        "steps": all,
    }))
}

/// What the class knows now. What it can't see yet is for the presenter.
fn so(stage: &Program, number: &str) -> Result<Value> {
    let page = readme::text_of(stage)?;
    let (now, not_yet) = closing(&page).map_err(|error| {
        Error::new(format!("stage {number} has no closing slide")).evidence(error).fix(
            "write what you know now after `So now you`, and in the next sentence what you can't see yet",
        )
    })?;
    Ok(text(number, "So …", &format!("# {now}"), 0, &not_yet))
}

/// The paragraph of a lesson that says what we know now, as plain text: its first sentence, and the others.
fn closing(page: &str) -> Result<(String, String)> {
    let closing = page.split("\n\n").find(|paragraph| paragraph.starts_with(SO)).map(plain);
    let closing =
        closing.ok_or_else(|| Error::new(format!("no paragraph of the page begins with {SO:?}")))?;
    let (now, not_yet) = closing
        .split_once(". ")
        .ok_or_else(|| Error::new("the page does not say what one can't see yet").evidence(&closing))?;
    if now.split(' ').count() > SO_WORDS {
        return Err(Error::new(format!("the page sums up in more than {SO_WORDS} words")).evidence(now));
    }
    Ok((format!("N{}.", now.trim_start_matches("So n")), not_yet.to_owned()))
}

/// The number of the line that the newest kernel refuses.
fn refused_line(case: &Case) -> Option<usize> {
    let refusal = case.refusal(case.kernel()?)?;
    Some(refusal.place?.location?.line as usize)
}

/// A paragraph as plain text, and the code that it names.
type Paragraph = (String, Vec<String>);

/// The paragraphs of an explanation. A paragraph that begins with *Open*, *Load*, ... names the comment of this step.
fn paragraphs(markdown: &str) -> Vec<Paragraph> {
    let mut paragraphs = vec![Paragraph::default()];
    let mut is_strong = false;
    for event in new_cmark_parser(markdown, &MarkdownOptions::default()) {
        let Some((text, code)) = paragraphs.last_mut() else { break };
        match event {
            Event::Start(Tag::Strong) => is_strong = text.is_empty(),
            Event::End(TagEnd::Strong) => is_strong = false,
            Event::Text(part) => {
                if is_strong {
                    code.push(format!("// {}:", part.trim_end_matches('.').to_uppercase()));
                }
                text.push_str(&part);
            }
            Event::Code(part) => {
                text.push_str(&part);
                code.push(part.trim_end_matches("()").to_owned());
            }
            Event::SoftBreak => text.push(' '),
            Event::Start(Tag::Paragraph | Tag::Item) if !text.is_empty() => {
                paragraphs.push(Paragraph::default());
            }
            _ => {}
        }
    }
    paragraphs
}

fn changed_text(item: &Item) -> String {
    let changed = item.lines.iter().filter(|line| line.kind != Kind::Same);
    changed.map(|line| format!("{}\n", line.text())).collect()
}

/// Whether a text has this name, and not only as a part of a longer one.
fn mentions(text: &str, name: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (text[..at].chars().next_back(), text[at + name.len()..].chars().next());
        let goes_on_before = name.starts_with(is_name) && before.is_some_and(is_name);
        let goes_on_after = name.ends_with(is_name) && after.is_some_and(is_name);
        !goes_on_before && !goes_on_after
    })
}

/// How well a paragraph fits an item: whether it names its step or the item, and how much of what the item changes.
fn fit(item: &Item, (_, code): &Paragraph) -> (bool, bool, usize) {
    let changed = changed_text(item);
    let names: Vec<_> = item.name.split([',', ' ']).collect();
    let is_step = code.iter().any(|code| code.starts_with("// ") && changed.contains(code.as_str()));
    let is_named = code.iter().any(|code| names.contains(&code.as_str()));
    (is_step, is_named, code.iter().filter(|code| mentions(&changed, code)).count())
}

/// What the page says about each item: each paragraph at the item that it fits best, and the first of these if it fits
/// several equally well. About an item that it does not explain, we say which of the others it uses.
fn about(items: &[&Item], explanation: &[Paragraph]) -> Vec<String> {
    let mut said = vec![Vec::new(); items.len()];
    for paragraph in explanation {
        let fits = items.iter().enumerate().map(|(nth, item)| (fit(item, paragraph), Reverse(nth)));
        if let Some((best, Reverse(nth))) = fits.max()
            && best > (false, false, 0)
        {
            said[nth].push(paragraph.0.as_str());
        }
    }
    let names = |item: &Item| -> Vec<String> {
        item.name.split([',', ' ']).filter(|name| *name != "->").map(str::to_owned).collect()
    };
    let uses = |item: &Item, other: &Item| {
        item.name != other.name && names(other).iter().any(|name| mentions(&changed_text(item), name))
    };
    let text = |(item, said): (&&Item, Vec<&str>)| {
        let used: Vec<_> = items.iter().filter(|other| uses(item, other)).map(|other| &*other.name).collect();
        let user = items.iter().find(|other| uses(other, item));
        match user {
            _ if !said.is_empty() => said.join("\n"),
            _ if !used.is_empty() => format!("Nothing new here: it uses {}.", used.join(" and ")),
            Some(user) => format!("Go on: {} uses it, and there it is explained.", user.name),
            None => "Go on, unless somebody asks.".to_owned(),
        }
    };
    items.iter().zip(said).map(text).collect()
}

/// Where a stage is among the others.
fn here(stage: &Program, number: &str) -> Value {
    let caption = stage.parent.map_or_else(
        || "Here it begins.".to_owned(),
        |parent| format!("Stage {number} begins as a copy of stage {parent:02}."),
    );
    json!({
        "kind": "picture", "title": "You are here", "picture": MAP, "page": "stages.html", "here": true,
        "earlier": [], "now": [format!("stage-{number}")], "later": [], "ask": [],
        "from": stage.parent.map(|parent| format!("stage-{parent:02}")),
        "caption": caption, "say": "Where we come from, and where the arrows lead.",
    })
}

/// The recorded run. Marked are the lines that answer the prediction; if that is all of its events, the first line with a
/// word that its parent does not print.
fn run(workbook: &Workbook, stage: &Program, lit: &[&str], notes: &str) -> Result<Vec<Value>> {
    let output = record::of(stage)?;
    let before = workbook.catalog.parent(stage).map_or_else(|_| Ok(output.clone()), record::of)?;
    let mut known: BTreeSet<_> = words(&before).collect();
    let events = output.lines().filter(|line| Line::parse(line).is_some()).count();
    let tasks = output.lines().filter_map(Line::parse).map(|line| task(&line).len());
    let width = tasks.max().unwrap_or_default();
    let tells_nothing = lit.is_empty() || lit.len() >= events;
    let line = |line| {
        let is_lit = if tells_nothing {
            words(line).filter(|word| known.insert(word)).count() > 0
        } else {
            lit.contains(&line)
        };
        json!([if is_lit { "mark" } else { "same" }, [[false, narrow(line, width)]]])
    };
    Ok(pages::of(json!({
        "kind": "code", "file": record::typed_command(stage)?, "item": "what it prints, shortened", "part": "run",
        "lines": output.trim_matches('\n').lines().map(line).collect::<Vec<_>>(), "say": notes, "ask": [],
    })))
}

fn task(Line { task, pid, .. }: &Line<'_>) -> String {
    format!("{task}-{pid}")
}

/// A line of a run for the last row: an event without its CPU and its flags, and with the ends of a long address.
fn narrow(line: &str, width: usize) -> String {
    let Some(event) = Line::parse(line) else { return line.to_owned() };
    let (first, rest) = event.message.split_once("=0x").unwrap_or((event.message, ""));
    let digits = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
    let message = match digits {
        ..9 => event.message.to_owned(),
        _ => format!("{first}=0x{}…{}", &rest[..2], &rest[digits - 4..]),
    };
    format!("{:width$} {}: {message}", task(&event), event.time)
}

/// The words that a program prints, without the task in front of them, without numbers, and without names such as that in
/// `bio=0xff...`.
fn words(output: &str) -> impl Iterator<Item = &str> {
    let is_end = |c: char| !c.is_alphanumeric() && c != '_';
    let texts = output.lines().map(|line| Line::parse(line).map_or(line, |line| line.message));
    let named = texts.flat_map(move |text| text.split_inclusive(is_end)).filter(|word| !word.ends_with('='));
    named
        .map(move |word| word.trim_end_matches(is_end))
        .filter(|word| !word.is_empty() && !word.contains(|c: char| c.is_numeric()))
}

/// A section without its code and its generated blocks.
fn explanation(section: &str) -> String {
    let mut is_inside = false;
    let mut text = String::new();
    for line in section.lines() {
        let begins = line.starts_with("<!-- ") && line.contains(":begin ");
        is_inside |= begins;
        if !is_inside {
            text.push_str(line);
            text.push('\n');
        }
        is_inside &= !line.contains(":end -->");
    }
    text
}

/// Markdown as plain text, a line for each paragraph and an indented one for each of code. A heading stands before its
/// first paragraph.
pub fn plain(markdown: &str) -> String {
    let mut text = String::new();
    let mut is_code = false;
    for event in new_cmark_parser(markdown, &MarkdownOptions::default()) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => is_code = true,
            Event::End(TagEnd::CodeBlock) => is_code = false,
            Event::Text(part) if is_code => {
                text.extend(part.lines().map(|line| format!("\n{CODE}{line}")));
                text.push('\n');
            }
            Event::Text(part) | Event::Code(part) => text.push_str(&part),
            Event::SoftBreak => text.push(' '),
            Event::End(TagEnd::Heading(_)) => text.push_str(": "),
            Event::Start(Tag::Emphasis) => text.push('“'),
            Event::End(TagEnd::Emphasis) => text.push('”'),
            Event::End(TagEnd::Paragraph | TagEnd::Item) => text.push('\n'),
            _ => {}
        }
    }
    let lines = text.lines().map(|line| if line.starts_with(CODE) { line.trim_end() } else { line.trim() });
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Markdown as HTML, without links: the projector shows one page.
pub fn html_of(markdown: &str) -> String {
    let events = new_cmark_parser(markdown, &MarkdownOptions::default());
    let is_link =
        |event: &Event<'_>| matches!(event, Event::Start(Tag::Link { .. }) | Event::End(TagEnd::Link));
    let mut text = String::new();
    html::push_html(&mut text, events.filter(|event| !is_link(event)));
    text
}

/// The program, what the newest kernel that refuses it says, and the cure. The line that is refused, and the words of
/// the kernel, are marked.
fn of_case(case: &Case) -> Result<Value> {
    let kernel = case.kernel().unwrap_or_default();
    let (log, refusal) = (case.log(kernel).unwrap_or_default(), case.refusal(kernel));
    let refused = refused_line(case);
    let words = refusal.as_ref().map_or(&[][..], |refusal| &refusal.words);
    let lines = |text: &str, is_marked: &dyn Fn(usize, &str) -> bool| -> Vec<Value> {
        let line = |(nth, line): (usize, &str)| {
            json!([if is_marked(nth + 1, line) { "mark" } else { "same" }, [[false, line]]])
        };
        text.lines().enumerate().map(line).collect()
    };
    let is_said = |line: &str| words.iter().any(|words| line.contains(words.as_str()));
    // What frames the log is the same in every log.
    let is_frame = |line: &&str| FRAMES.iter().any(|frame| line.starts_with(frame)) && !is_said(line);
    let log = log.lines().filter(|line| !is_frame(line)).collect::<Vec<_>>().join("\n");
    let say = plain(&case.text);
    let mut steps = pages::of(
        json!({ "kind": "code", "file": case.file, "item": "the program", "part": "lesson", "say": say, "ask": [],
            "lines": lines(&case.source, &|nth, _| Some(nth) == refused) }),
    );
    steps.extend(pages::of(
        json!({ "kind": "code", "file": format!("Linux {kernel}"), "item": "what the kernel says", "part": "lesson",
            "say": say, "ask": [], "lines": lines(&log, &|_, line| is_said(line)) }),
    ));
    let file = FileDiff { name: case.file.clone(), items: diff::of_texts(&case.source, &case.cured()?) };
    let changed = file.items.iter().filter(|item| item.is_changed());
    steps.extend(changed.flat_map(|item| code(&file, item, "the cure", &say)));
    Ok(json!({
        "id": format!("case-{}", case.number()),
        "name": format!("Case {}", case.number()),
        "page": format!("clinic/{}.html", case.number()),
        "title": case.title,
        "idea": case.mistake.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', ""),
        "steps": steps,
    }))
}

fn code(file: &FileDiff, item: &Item, part: &str, say: &str) -> Vec<Value> {
    pages::of(of_item(file, item, part, say))
}

fn of_item(file: &FileDiff, item: &Item, part: &str, say: &str) -> Value {
    let line = |line: &diff::Line| {
        let kind = match line.kind {
            Kind::Same => "same",
            Kind::Gone => "gone",
            Kind::New => "new",
        };
        json!([kind, line.pieces])
    };
    let lines: Vec<_> = item.lines.iter().map(line).collect();
    json!({
        "kind": "code", "file": file.name, "item": item.name, "part": part, "lines": lines, "say": say, "ask": [],
    })
}

/// A change of a stage, with what its page says about it.
fn change(file: &FileDiff, item: &Item, part: &str, say: &str) -> Vec<Value> {
    let mut shown = of_item(file, item, part, say);
    shown["case"] = case_in(say).into();
    pages::of(shown)
}

/// The part with the case of the clinic that a text names, such as `case 01`.
fn case_in(text: &str) -> Option<String> {
    let mut after = text.split("case ").skip(1).filter_map(|rest| rest.get(..2));
    after.find(|number| number.parse::<u32>().is_ok()).map(|number| format!("case-{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_is_named_again_is_neither_hidden_nor_dimmed() {
        let step = |groups: &[&str]| slides::Step {
            groups: groups.iter().map(|&name| name.to_owned()).collect(),
            caption: String::new(),
        };
        let steps = vec![step(&["bands"]), step(&["bands", "change"]), step(&["column"])];
        let slide = Slide { picture: "heatmap.svg".to_owned(), steps, ..Slide::default() };
        let shown: Vec<_> = of_slide("numbers", &slide)
            .iter()
            .map(|step| (step["earlier"].to_string(), step["later"].to_string()))
            .collect();
        let expected = [("[]", r#"["change","column"]"#), ("[]", r#"["column"]"#), ("[]", "[]")];
        assert_eq!(shown, expected.map(|(earlier, later)| (earlier.to_owned(), later.to_owned())));
    }

    #[test]
    fn a_lesson_ends_in_what_we_know() {
        let page =
            "# 03\n\nSo it runs.\n\nSo now you know `one`\nthing. You can't see\nyet.\n\n## Exercises\n";
        assert_eq!(
            closing(page).unwrap(),
            ("Now you know one thing.".to_owned(), "You can’t see yet.".to_owned())
        );
        closing("So it runs.\n\n").unwrap_err();
        closing("So now you know. \n").unwrap_err();
        closing(&page.replace("one", &"one ".repeat(12))).unwrap_err();
    }

    #[test]
    fn a_line_of_a_run_is_narrow_on_a_slide() {
        let line = "io-158       [001] d.h21 9.976277: bio_endio(bio=0xff47657ff97e0500) called: 9976248544";
        assert_eq!(narrow(line, 8), "io-158   9.976277: bio_endio(bio=0xff…0500) called: 9976248544");
        let [count, report] = ["<idle>-0     [001] ...21 7.200000: read (retval=0x40)", "Max latency 4 ns"];
        assert_eq!(narrow(count, 8), "<idle>-0 7.200000: read (retval=0x40)");
        assert_eq!(narrow(report, 8), report);
    }

    #[test]
    fn a_picture_that_is_high_has_small_letters() {
        let svg = |height| {
            format!("<svg viewBox=\"0 0 860 {height}\" font-size=\"16\"><text font-size=\"15\"/></svg>")
        };
        assert!(letters(&svg(430)).unwrap() >= LEAST);
        assert!(letters(&svg(560)).unwrap() < LEAST);
        assert_eq!(letters("<svg/>"), None);
    }
}
