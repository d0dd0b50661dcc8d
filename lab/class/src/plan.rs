//! The plans of a class, minute by minute. They are in `docs/plans/plans.json`, and the README beside it explains the
//! format. The times that their commands take are in `times.tsv`, and `cargo class rehearse --record` measures these.

use std::collections::BTreeMap;
use std::fs;

use common::{Error, OrCause, Result};
use lab::exercise;
use machine::workbook::{Program, Stage, Workbook};
use serde::{Deserialize, Serialize};

/// The plans, and the measured times, from the top folder.
const PLANS: &str = "docs/plans/plans.json";
const TIMES: &str = "docs/plans/times.tsv";

/// How many words an instructor says in a minute. Speakers of English say about 150, and people who present in a
/// foreign language say 23 % less: Hincks, "Speaking rate and information content in English lingua franca oral
/// presentations", 2010. Whoever tells a section in their own words needs about as many as the section has.
pub const SPOKEN: f64 = 115.0;

/// How many words people read in a minute. The average for texts in English is 238, and most adults are between 175 and
/// 300: Brysbaert, "How many words do we read per minute?", 2019. We take the slowest of these, because an exercise has
/// names of functions in it, and many read it in a foreign language.
pub const READ: f64 = 175.0;

/// The least that an exercise takes, which is what `CONTRIBUTING.md` promises.
const GOAL: f64 = 600.0;
/// How often a pair checks an exercise: once in vain.
const CHECKS: f64 = 2.0;
/// How long it takes to count the hands at a checkpoint.
const HANDS: f64 = 30.0;

/// What a slot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The instructor explains.
    Theory,
    /// Everybody runs a program, and the instructor explains it.
    Run,
    /// Everybody works in pairs.
    Exercise,
    /// The instructor counts who has come along.
    Checkpoint,
    /// Nobody works.
    Break,
}

/// A plan.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// How long it takes.
    pub minutes: u32,
    /// Why these stages: a sentence without its subject, which is the plan.
    pub why: String,
    /// What happens, in this order.
    pub slots: Vec<Slot>,
    /// What to leave out if time is short, in this order: names of slots, each group as a whole.
    pub cut: Vec<Vec<String>>,
}

/// A part of a plan.
#[derive(Clone, Debug, Serialize)]
pub struct Slot {
    /// `03` for the run of a stage, `03.1` for an exercise, a word for another slot.
    pub name: String,
    /// What it is for.
    pub kind: Kind,
    /// When it begins, in minutes.
    pub at: u32,
    /// How long it takes.
    pub minutes: u32,
    /// What it is about.
    pub title: String,
    /// What the instructor tells, or what everybody reads.
    pub text: Vec<Section>,
    /// What is typed.
    pub commands: Vec<String>,
    /// For an exercise: the one for those who are done early.
    pub next: Option<String>,
    /// For a checkpoint: the exercise that everyone has passed.
    pub passed: Option<String>,
    /// For a checkpoint: the slots to leave out if fewer than two thirds have.
    pub skip: Vec<String>,
    /// How many seconds the commands took when they were measured; `None` if one was not.
    pub machine: Option<f64>,
}

/// A section of the book.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Section {
    /// Where it is in the book, such as `load.md#build-from-c-to-an-object`.
    pub link: String,
    /// Its heading.
    pub title: String,
    /// How many words of prose it has.
    pub words: usize,
}

impl Slot {
    /// Whether it is an exercise of a stage, such as `03.1`, which has a check and a solution.
    pub fn is_of_stage(&self) -> bool {
        self.kind == Kind::Exercise && self.name.contains('.')
    }

    /// How many seconds it takes to tell or to read the text.
    pub fn words(&self) -> f64 {
        let words: usize = self.text.iter().map(|section| section.words).sum();
        let per_minute = if self.kind == Kind::Exercise { READ } else { SPOKEN };
        words as f64 * 60.0 / per_minute
    }

    /// How many seconds the slot takes at least, if its commands take that many.
    pub fn needs(&self, machine: f64) -> f64 {
        match self.kind {
            Kind::Exercise => (self.words() + machine).max(GOAL),
            Kind::Checkpoint => HANDS + machine,
            Kind::Theory | Kind::Run | Kind::Break => self.words() + machine,
        }
    }

    /// How often each of its commands is typed.
    pub fn times_typed(&self, command: &str) -> f64 {
        if is_check(command) { CHECKS } else { 1.0 }
    }
}

/// Whether this is the command that checks an exercise.
pub fn is_check(command: &str) -> bool {
    command.starts_with("cargo lab exercise check ")
}

/// The file as it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plans {
    slot: BTreeMap<String, Described>,
    plan: Vec<Written>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    kind: Option<Kind>,
    title: Option<String>,
    #[serde(default)]
    tell: Vec<String>,
    #[serde(default)]
    commands: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    minutes: u32,
    why: String,
    slots: Vec<Entry>,
    cut: Vec<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    slot: Option<String>,
    passed: Option<String>,
    minutes: u32,
    #[serde(default)]
    skip: Vec<String>,
}

/// All plans, the shortest first.
///
/// # Errors
/// If the file is malformed, or names a stage, an exercise or a section that doesn't exist.
pub fn all(workbook: &Workbook) -> Result<Vec<Plan>> {
    let path = workbook.root.join(PLANS);
    let text = fs::read_to_string(&path).or_cause(format!("cannot read {}", path.display()))?;
    let malformed = |error| Error::new(format!("{} is malformed", path.display())).evidence(error);
    let Plans { slot: described, plan: written } = serde_json::from_str(&text).map_err(malformed)?;
    let times = times(workbook)?;
    let plan = |written: Written| {
        let mut at = 0;
        let slots = written.slots.into_iter().map(|entry| {
            let mut slot = resolve(workbook, &described, entry)?;
            slot.at = at;
            at += slot.minutes;
            let time = |command: &String| Some(slot.times_typed(command) * times.get(command)?);
            slot.machine = slot.commands.iter().map(time).sum();
            Ok(slot)
        });
        let slots = slots.collect::<Result<_>>()?;
        Ok(Plan { minutes: written.minutes, why: written.why, slots, cut: written.cut })
    };
    written.into_iter().map(plan).collect()
}

/// The plan of this length.
///
/// # Errors
/// Those of [`all`], or if there is none.
pub fn find(workbook: &Workbook, minutes: u32) -> Result<Plan> {
    let plans = all(workbook)?;
    let known: Vec<_> = plans.iter().map(|plan| plan.minutes.to_string()).collect();
    plans.into_iter().find(|plan| plan.minutes == minutes).ok_or_else(|| {
        Error::new(format!("there is no plan of {minutes} minutes"))
            .evidence(format!("the plans have {} minutes", known.join(", ")))
            .fix(format!("name one of these; or write your own in {PLANS}"))
    })
}

fn resolve(workbook: &Workbook, described: &BTreeMap<String, Described>, entry: Entry) -> Result<Slot> {
    let slot = |name: &str, kind, title: &str| Slot {
        name: name.to_owned(),
        kind,
        at: 0,
        minutes: entry.minutes,
        title: title.to_owned(),
        text: Vec::new(),
        commands: Vec::new(),
        next: None,
        passed: None,
        skip: Vec::new(),
        machine: None,
    };
    if let Some(id) = entry.passed {
        let title = format!("Who has passed {id}?");
        let commands = vec![format!("cargo lab exercise solution {id} --peek")];
        let skip = entry.skip;
        return Ok(Slot { commands, passed: Some(id), skip, ..slot("checkpoint", Kind::Checkpoint, &title) });
    }
    let name = entry.slot.unwrap_or_default();
    if name == "break" {
        return Ok(slot(&name, Kind::Break, "A break"));
    }
    if name.contains('.') {
        return of_exercise(workbook, &name, slot(&name, Kind::Exercise, ""));
    }
    let unknown = || Error::new(format!("{PLANS} does not describe the slot {name:?}"));
    let Described { kind, title, tell, commands } = described.get(&name).cloned().ok_or_else(unknown)?;
    let (kind, title, tell) = match workbook.catalog.stage(&name) {
        Ok(stage) => (Kind::Run, stage.title.clone(), told(stage)),
        Err(_) => (kind.ok_or_else(unknown)?, title.ok_or_else(unknown)?, tell),
    };
    let text = tell.iter().map(|link| section(workbook, link)).collect::<Result<_>>()?;
    Ok(Slot { text, commands, ..slot(&name, kind, &title) })
}

/// What an instructor tells about a stage: its page, up to the exercises. What the numbers mean is for a longer class.
fn told(stage: &Stage) -> Vec<String> {
    let page = format!("stages/{}.md", stage.name());
    ["", "#run-it", "#the-idea", "#the-change"].iter().map(|section| format!("{page}{section}")).collect()
}

fn of_exercise(workbook: &Workbook, id: &str, slot: Slot) -> Result<Slot> {
    let exercise = exercise::find(workbook, id)?;
    let next = exercise::of(exercise.program)?.iter().map(exercise::Exercise::id).find(|other| other != id);
    let words = [&exercise.title, &exercise.goal, &exercise.start, &exercise.check];
    let words = words.iter().map(|text| text.split_whitespace().count()).sum();
    let title = exercise.title.clone();
    let link = format!("stages/{}.md#{}", exercise.program.name(), anchor(&format!("{id} {title}")));
    Ok(Slot {
        text: vec![Section { link, title: title.clone(), words }],
        commands: ["start", "check"].map(|what| format!("cargo lab exercise {what} {id}")).to_vec(),
        next,
        title,
        ..slot
    })
}

/// The section of the book that a link leads to: what is below its heading, up to the next one.
fn section(workbook: &Workbook, link: &str) -> Result<Section> {
    let (page, wanted) = link.split_once('#').unwrap_or((link, ""));
    let program = page.strip_prefix("stages/").or(page.strip_prefix("examples/"));
    let path = match program.and_then(|page| page.strip_suffix(".md")) {
        Some(program) => workbook.catalog.program(program)?.folder().join("README.md"),
        None => workbook.root.join("docs/src").join(page),
    };
    let text = fs::read_to_string(&path).or_cause(format!("cannot read {}", path.display()))?;
    let mut found: Option<Section> = None;
    let (mut is_code, mut is_folded) = (false, false);
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if let (false, Some(title)) = (is_code, heading(line)) {
            if found.is_some() {
                break;
            }
            if wanted.is_empty() || anchor(title) == wanted {
                found = Some(Section { link: link.to_owned(), title: title.replace('`', ""), words: 0 });
            }
        } else if let Some(found) = &mut found {
            is_folded = (is_folded || line.starts_with("<details")) && !line.starts_with("</details");
            // Code, tables, pictures, what is folded, and comments are shown, but not told.
            if !is_code && !is_folded && !line.starts_with(['|', '<', '!', '{']) {
                found.words += line.split_whitespace().count();
            }
        }
    }
    found.ok_or_else(|| {
        Error::new(format!("{PLANS} names {link}, and {} has no such section", path.display()))
    })
}

fn heading(line: &str) -> Option<&str> {
    let title = line.trim_start_matches('#');
    if title.len() < line.len() { title.strip_prefix(' ') } else { None }
}

/// The id that the book gives to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// How many seconds each command took.
pub fn times(workbook: &Workbook) -> Result<BTreeMap<String, f64>> {
    let path = workbook.root.join(TIMES);
    let text = fs::read_to_string(&path).or_cause(format!("cannot read {}", path.display()))?;
    let row = |line: &str| {
        let (command, seconds) = line.split_once('\t')?;
        Some((command.to_owned(), seconds.parse().ok()?))
    };
    Ok(text.lines().filter_map(row).collect())
}

/// Remembers how many seconds commands took. Keeps the time of other commands that are in a plan.
///
/// # Errors
/// If the plans can't be read, or the file can't be written.
pub fn remember(workbook: &Workbook, new: &BTreeMap<String, f64>) -> Result<()> {
    let mut times = times(workbook)?;
    times.extend(new.iter().map(|(command, seconds)| (command.clone(), *seconds)));
    let plans = all(workbook)?;
    let is_typed = |command: &String| {
        plans.iter().flat_map(|plan| &plan.slots).any(|slot| slot.commands.contains(command))
    };
    times.retain(|command, _| is_typed(command));
    let rows: String = times.iter().map(|(command, seconds)| format!("{command}\t{seconds:.1}\n")).collect();
    let path = workbook.root.join(TIMES);
    fs::write(&path, format!("command\tseconds\n{rows}")).or_cause(format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn plans() -> (Workbook, Vec<Plan>) {
        let workbook = Workbook::read().unwrap();
        let plans = all(&workbook).unwrap();
        (workbook, plans)
    }

    fn minutes(plan: &Plan, kind: Kind) -> u32 {
        plan.slots.iter().filter(|slot| slot.kind == kind).map(|slot| slot.minutes).sum()
    }

    #[test]
    fn the_slots_add_up_and_a_third_is_exercises() {
        let (_, plans) = plans();
        assert_eq!(plans.iter().map(|plan| plan.minutes).collect::<Vec<_>>(), [90, 180, 240]);
        for plan in plans {
            let sum: u32 = plan.slots.iter().map(|slot| slot.minutes).sum();
            assert_eq!(sum, plan.minutes, "the slots of {} minutes", plan.minutes);
            let exercises = minutes(&plan, Kind::Exercise);
            assert!(exercises * 3 >= plan.minutes, "{exercises} minutes of exercises in {}", plan.minutes);
        }
    }

    #[test]
    fn each_slot_is_as_long_as_its_words_and_its_commands() {
        let (_, plans) = plans();
        for (plan, slot) in plans.iter().flat_map(|plan| plan.slots.iter().map(move |slot| (plan, slot))) {
            let machine = slot.machine.unwrap_or_else(|| {
                panic!("the time of {:?} is missing: cargo class rehearse --record", slot.commands)
            });
            let (needs, has) = (slot.needs(machine) / 60.0, f64::from(slot.minutes));
            assert!(needs <= has, "{} in {} needs {needs:.1} minutes of {has}", slot.name, plan.minutes);
        }
    }

    /// Nobody sits through two hours, and nobody goes on to a stage without the stage that it is compared with.
    #[test]
    fn a_class_has_breaks_and_no_stage_without_its_parent() {
        let (workbook, plans) = plans();
        for plan in plans {
            let pauses = plan.slots.iter().filter(|slot| slot.kind == Kind::Break).map(|slot| slot.at);
            let ends: Vec<_> = [0].into_iter().chain(pauses).chain([plan.minutes]).collect();
            assert!(ends.windows(2).all(|ends| ends[1] - ends[0] <= 100), "{ends:?}");

            let skipped = plan.slots.iter().filter(|slot| slot.passed.is_some()).map(|slot| &slot.skip);
            for left_out in [&Vec::new()].into_iter().chain(skipped).chain(&plan.cut) {
                let is_left = |name: &String| !left_out.contains(name);
                let names: BTreeSet<_> =
                    plan.slots.iter().map(|slot| &slot.name).filter(|name| is_left(name)).collect();
                for name in &names {
                    let needed = match (name.split_once('.'), workbook.catalog.stage(name)) {
                        (Some((stage, _)), _) => Some(stage.to_owned()),
                        (None, Ok(stage)) => stage.parent.map(|parent| format!("{parent:02}")),
                        _ => None,
                    };
                    let is_here = needed.as_ref().is_none_or(|needed| names.contains(needed));
                    assert!(is_here, "{name} in {}, without {needed:?}", plan.minutes);
                }
            }
        }
    }

    #[test]
    fn a_checkpoint_comes_after_its_exercise_and_before_what_it_skips() {
        let (_, plans) = plans();
        for plan in plans {
            let place = |name: &String| plan.slots.iter().position(|slot| slot.name == *name);
            for (nth, slot) in plan.slots.iter().enumerate() {
                let Some(passed) = &slot.passed else { continue };
                assert!(place(passed).is_some_and(|place| place < nth), "{passed} in {}", plan.minutes);
                assert!(!slot.skip.is_empty(), "the checkpoint of {passed}");
                for skipped in &slot.skip {
                    assert!(place(skipped).is_some_and(|place| place > nth), "{skipped} after {passed}");
                }
            }
            assert!(plan.cut.iter().flatten().all(|name| place(name).is_some()), "{:?}", plan.cut);
            // The guide says why.
            let left_out = plan.slots.iter().flat_map(|slot| &slot.skip).chain(plan.cut.iter().flatten());
            assert!(left_out.into_iter().all(|name| name != "07"), "{}", plan.minutes);
        }
    }

    /// The minutes in the tables of the stages are those of the plans.
    #[test]
    fn a_stage_takes_as_long_as_the_tables_say() {
        let (workbook, plans) = plans();
        for plan in plans {
            for slot in &plan.slots {
                let Ok(stage) = workbook.catalog.stage(&slot.name) else { continue };
                let exercise =
                    plan.slots.iter().find(|other| other.name.starts_with(&format!("{}.", slot.name)));
                let (run, said) = (slot.minutes, stage.minutes);
                match exercise {
                    Some(exercise) => assert_eq!(run + exercise.minutes, said, "{}", slot.name),
                    None => assert!(run < said, "{} takes {run} minutes of {said}", slot.name),
                }
            }
        }
    }

    #[test]
    fn a_pair_without_a_compiler_has_something_to_do() {
        let (workbook, plans) = plans();
        for slot in plans.iter().flat_map(|plan| &plan.slots).filter(|slot| slot.is_of_stage()) {
            let (stage, _) = slot.name.split_once('.').unwrap();
            assert!(section(&workbook, &format!("stages/{stage}.md#look-closer")).is_ok(), "{stage}");
        }
    }

    /// The projector view reads it in this form.
    #[test]
    fn a_plan_can_be_serialized() {
        let (_, plans) = plans();
        let plan = serde_json::to_value(&plans[0]).unwrap();
        let slot = &plan["slots"][4];
        assert_eq!((&slot["kind"], &slot["passed"]), (&"checkpoint".into(), &"01.1".into()), "{slot}");
        assert_eq!((&slot["at"], &slot["minutes"], &plan["minutes"]), (&40.into(), &2.into(), &90.into()));
    }

    #[test]
    fn a_section_is_what_people_hear() {
        let (workbook, _) = plans();
        assert_eq!(anchor("What a program's type decides"), "what-a-programs-type-decides");
        assert_eq!(heading("## Run it"), Some("Run it"));
        assert_eq!((heading("#include"), heading("Run it")), (None, None));
        let section = |link| section(&workbook, link).unwrap();
        let [intro, table] = ["stages/03.md", "stages/03.md#the-idea"].map(section);
        assert_eq!(intro.title, "Stage 03: How long does a bio take?");
        assert!((40..60).contains(&intro.words) && (50..70).contains(&table.words), "{intro:?} {table:?}");
    }
}
