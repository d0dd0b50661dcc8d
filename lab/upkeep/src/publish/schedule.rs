//! The plans of a class as tables.

use std::fmt::Write;

use class::plan::{self, Kind, Plan, Slot};
use common::Result;
use machine::workbook::{Program, Workbook};

/// What the plans have: a row for each.
pub fn overview(workbook: &Workbook) -> Result<String> {
    let mut text =
        "| plan | stages | theory | runs | exercises | checkpoints and breaks |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for plan in plan::all(workbook)? {
        let minutes = |kinds: &[Kind]| -> u32 {
            plan.slots.iter().filter(|slot| kinds.contains(&slot.kind)).map(|slot| slot.minutes).sum()
        };
        let stages = plan.slots.iter().filter(|slot| workbook.catalog.stage(&slot.name).is_ok());
        let stages: Vec<_> = stages.map(|slot| slot.name.as_str()).collect();
        let _ = writeln!(
            text,
            "| [{0} minutes](plans.md#{0}-minutes) | {1} | {2} | {3} | {4} | {5} |",
            plan.minutes,
            stages.join(", "),
            minutes(&[Kind::Theory]),
            minutes(&[Kind::Run]),
            minutes(&[Kind::Exercise]),
            minutes(&[Kind::Checkpoint, Kind::Break])
        );
    }
    Ok(text)
}

/// The plans, minute by minute, one below the other.
pub fn tables(workbook: &Workbook) -> Result<String> {
    let tables: String = plan::all(workbook)?.iter().map(|plan| table(workbook, plan) + "\n").collect();
    Ok(format!(
        "{tables}## How the minutes are counted\n\nEach slot is at least as long as its commands take on two processors without KVM, plus \
         the time to say its text,\n{} words a minute, or to read it, {}. An exercise has ten minutes or more. A test adds up the \
         slots.\n",
        plan::SPOKEN,
        plan::READ
    ))
}

fn table(workbook: &Workbook, plan: &Plan) -> String {
    let mut text = format!(
        "## {} minutes\n\nThis plan {}.\n\n| at | min | | what | type |\n|---|---|---|---|---|\n",
        plan.minutes, plan.why
    );
    for slot in &plan.slots {
        let commands: Vec<_> = slot.commands.iter().map(|command| format!("`{command}`")).collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            clock(slot.at),
            slot.minutes,
            format!("{:?}", slot.kind).to_lowercase(),
            what(workbook, plan, slot),
            commands.join("<br>")
        );
    }
    text += "\n**Cut first**, of what is still to come and in this order:\n\n";
    for (group, nth) in plan.cut.iter().zip(1..) {
        let _ = writeln!(text, "{nth}. {}", saved(plan, group));
    }
    text
}

fn clock(minutes: u32) -> String {
    format!("{}:{:02}", minutes / 60, minutes % 60)
}

fn what(workbook: &Workbook, plan: &Plan, slot: &Slot) -> String {
    let link =
        |section: &plan::Section| format!("[{}]({})", section.title, in_repository(workbook, &section.link));
    match slot.kind {
        Kind::Run if workbook.catalog.stage(&slot.name).is_ok() => {
            let page = in_repository(workbook, &format!("stages/{}.md", slot.name));
            format!("**[{}]({page})** {}", slot.name, slot.title)
        }
        Kind::Exercise if slot.is_of_stage() => {
            let page =
                slot.text.first().map(|section| in_repository(workbook, &section.link)).unwrap_or_default();
            let next = slot.next.as_ref().map(|next| format!("; when done: {next}")).unwrap_or_default();
            format!("**[{}]({page})** {}{next}", slot.name, slot.title)
        }
        Kind::Theory | Kind::Run | Kind::Exercise => {
            // The title leads to the page, if the plan names more than sections of it.
            let (title, sections) = match slot.text.split_first() {
                Some((page, rest)) if !page.link.contains('#') => {
                    (format!("[{}]({})", slot.title, in_repository(workbook, &page.link)), rest)
                }
                _ => (slot.title.clone(), &slot.text[..]),
            };
            let sections: Vec<_> = sections.iter().map(link).collect();
            let colon = if sections.is_empty() { "" } else { ": " };
            format!("**{title}**{colon}{}", sections.join("; "))
        }
        Kind::Checkpoint => {
            format!(
                "**{}** If fewer than two thirds of the pairs have, show the solution and skip {}",
                slot.title,
                saved(plan, &slot.skip)
            )
        }
        Kind::Break => slot.title.clone(),
    }
}

/// A link of the book, such as `stages/03.md#run-it`, as a link that works in the repository, from a chapter.
fn in_repository(workbook: &Workbook, link: &str) -> String {
    let stages =
        workbook.catalog.stages.iter().map(|stage| {
            (format!("stages/{:02}.md", stage.number), format!("../../stages/{}", stage.package()))
        });
    let examples = workbook.catalog.examples.iter().map(|example| {
        (format!("examples/{}.md", example.name()), format!("../../examples/{}", example.name()))
    });
    let page = |(page, folder): (String, String)| link.replacen(&page, &folder, 1);
    stages.chain(examples).map(page).find(|new| new != link).unwrap_or_else(|| link.to_owned())
}

/// Slots to leave out, and what that saves.
pub fn saved(plan: &Plan, names: &[String]) -> String {
    let slots: Vec<_> = plan.slots.iter().filter(|slot| names.contains(&slot.name)).collect();
    let minutes: u32 = slots.iter().map(|slot| slot.minutes).sum();
    let call = |slot: &&Slot| match slot.kind {
        Kind::Theory => format!("*{}*", slot.title),
        _ => slot.name.clone(),
    };
    let names: Vec<_> = slots.iter().map(call).collect();
    let names = match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.join(""),
    };
    format!("{names} ({minutes} minutes)")
}
