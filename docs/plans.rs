//! The plans of a class. They are the tables of `docs/src/plans.md`, which an instructor changes by hand: the deck follows what
//! it reads there. A slot's name, in bold, is that of its part in the deck; a stage; or an exercise.

use std::fs;

use common::{Error, OrCause, Result};
use machine::workbook::Workbook;

/// The page.
const PAGE: &str = "docs/src/plans.md";
/// What the cell of a checkpoint has before the name of its exercise, and before what to leave out.
const CHECKPOINT: &str = "Who has passed ";
const SKIP: &str = " and skip ";

/// A plan.
#[derive(Debug)]
pub struct Plan {
    pub minutes: u32,
    pub slots: Vec<Slot>,
}

/// A row of its table.
#[derive(Debug, PartialEq)]
pub struct Slot {
    /// What the deck calls it: `bpf`, `03`, `03.1`, `break-1`, `passed-03.1`.
    pub name: String,
    pub at: u32,
    pub minutes: u32,
    pub title: String,
    /// What is typed.
    pub commands: Vec<String>,
    /// For a checkpoint: what to leave out if fewer than two thirds have passed.
    pub skip: String,
}

impl Slot {
    /// Whether nobody works.
    pub fn is_break(&self) -> bool {
        self.name.starts_with("break-")
    }
}

/// All plans, the shortest first.
pub fn all(workbook: &Workbook) -> Result<Vec<Plan>> {
    let path = workbook.root.join(PAGE);
    parse(&fs::read_to_string(&path).or_cause(format!("cannot read {}", path.display()))?)
}

fn parse(page: &str) -> Result<Vec<Plan>> {
    let mut plans: Vec<Plan> = Vec::new();
    let (mut at, mut breaks) = (0, 0);
    for line in page.lines() {
        let heading = line.strip_prefix("## ").and_then(|title| title.strip_suffix(" minutes")?.parse().ok());
        if let Some(minutes) = heading {
            plans.push(Plan { minutes, slots: Vec::new() });
            (at, breaks) = (0, 0);
        }
        let Some(row) = line.strip_prefix("| ").filter(|row| row.starts_with(|c: char| c.is_ascii_digit()))
        else {
            continue;
        };
        let wrong = || Error::new(format!("{PAGE} has a row that is none of a plan")).evidence(line);
        let cells: Vec<_> = row.trim_end_matches('|').split('|').map(str::trim).collect();
        let (&[clock, minutes, kind, what, commands], Some(plan)) = (&cells[..], plans.last_mut()) else {
            return Err(wrong());
        };
        breaks += u32::from(kind == "break");
        let minutes = minutes.parse().map_err(|_| wrong())?;
        let mut slot = slot(kind, what, breaks).ok_or_else(wrong)?;
        slot.commands = commands.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        if clock != format!("{}:{:02}", at / 60, at % 60) {
            return Err(wrong().fix(format!("the rows before it end at {}:{:02}", at / 60, at % 60)));
        }
        plan.slots.push(Slot { at, minutes, ..slot });
        at += minutes;
    }
    Ok(plans)
}

/// What the cell of a slot says.
fn slot(kind: &str, what: &str, breaks: u32) -> Option<Slot> {
    let slot = |name: &str, title: &str, skip: &str| {
        Some(Slot {
            name: name.to_owned(),
            at: 0,
            minutes: 0,
            title: title.to_owned(),
            commands: Vec::new(),
            skip: skip.replace('*', ""),
        })
    };
    if kind == "break" {
        return slot(&format!("break-{breaks}"), what, "");
    }
    let (bold, rest) = what.strip_prefix("**")?.split_once("**")?;
    if let Some(exercise) = bold.strip_prefix(CHECKPOINT).and_then(|rest| rest.strip_suffix('?')) {
        return slot(&format!("passed-{exercise}"), bold, rest.split_once(SKIP)?.1);
    }
    let shown = |text: &str| {
        text.strip_prefix('[').and_then(|text| text.split_once("](")).map(|link| link.0.to_owned())
    };
    let rest = rest.trim();
    let title = shown(rest).unwrap_or_else(|| rest.split([';', ':']).next().unwrap_or_default().to_owned());
    slot(&shown(bold).unwrap_or_else(|| bold.to_owned()), &title, "")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use lab::exercise;

    use super::*;

    #[test]
    fn a_table_is_a_plan() {
        let row = |what: &str| format!("## 90 minutes\n\n| at | min |\n|---|---|\n{what}\n");
        let one = |what: &str| parse(&row(what)).unwrap().remove(0).slots.remove(0);
        let slot = one(
            "| 0:00 | 7 | run | **[01](../a)** When is f() called? | `cargo lab run 01`<br>`x --io \"a b\"` |",
        );
        assert_eq!((&*slot.name, &*slot.title, slot.minutes), ("01", "When is f() called?", 7));
        assert_eq!(slot.commands, ["cargo lab run 01", "x --io \"a b\""]);
        let slot = one("| 0:00 | 7 | theory | **bpf** [What BPF is](a.md): [A](a.md#a); [B](a.md#b) | |");
        assert_eq!((&*slot.name, &*slot.title, slot.commands.len()), ("bpf", "What BPF is", 0));
        let slot = one(
            "| 0:00 | 2 | checkpoint | **Who has passed 01.1?** If few, show it and skip *A* (7 minutes) | `x` |",
        );
        assert_eq!((&*slot.name, &*slot.skip), ("passed-01.1", "A (7 minutes)"));
        assert_eq!(one("| 0:00 | 2 | break | A break | |").name, "break-1");
        for wrong in ["| 0:00 | 7 | run | 01 | |", "| 0:01 | 7 | run | **01** x | |", "| 0:00 | 7 |"] {
            assert!(parse(&row(wrong)).is_err(), "{wrong}");
        }
    }

    /// The slots add up, a third is exercises, nobody sits through two hours, and no stage comes without its parent.
    #[test]
    fn each_plan_can_be_taught() {
        let workbook = Workbook::read().unwrap();
        let plans = all(&workbook).unwrap();
        assert_eq!(plans.iter().map(|plan| plan.minutes).collect::<Vec<_>>(), [90, 180, 240]);
        for Plan { minutes, slots } in &plans {
            assert_eq!(slots.iter().map(|slot| slot.minutes).sum::<u32>(), *minutes);
            let is_exercise = |slot: &&Slot| slot.name.contains('.') || slot.name.starts_with("mystery");
            let exercises: u32 = slots.iter().filter(is_exercise).map(|slot| slot.minutes).sum();
            assert!(exercises * 3 >= *minutes, "{exercises} of {minutes}");
            let pauses = slots.iter().filter(|slot| slot.is_break()).map(|slot| slot.at);
            let ends: Vec<_> = [0].into_iter().chain(pauses).chain([*minutes]).collect();
            assert!(ends.windows(2).all(|ends| ends[1] - ends[0] <= 100), "{ends:?}");
            let mut before = BTreeSet::new();
            for slot in slots {
                let needed = match workbook.catalog.stage(&slot.name) {
                    Ok(stage) => stage.parent.map(|parent| format!("{parent:02}")),
                    Err(_) if slot.name.starts_with(|c: char| c.is_ascii_digit()) => {
                        assert_eq!(exercise::find(&workbook, &slot.name).unwrap().title, slot.title);
                        Some(slot.name[..2].to_owned())
                    }
                    Err(_) => slot.name.strip_prefix("passed-").map(str::to_owned),
                };
                let is_here = needed.as_ref().is_none_or(|needed| before.contains(needed));
                assert!(is_here, "{} in {minutes} before {needed:?}", slot.name);
                before.insert(slot.name.clone());
            }
        }
    }
}
