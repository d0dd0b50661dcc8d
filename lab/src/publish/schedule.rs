//! Schedules for a class, computed from the minutes that each stage takes.

use std::fmt::Write;

use common::Result;

use crate::workbook::Workbook;

/// A class: its length in minutes, the stages that fit, and when there is a break.
struct Class {
    minutes: u32,
    stages: &'static [u32],
    /// After this stage.
    pause: Option<u32>,
}

/// `docs/src/instructor.md` explains which stages are left out.
const CLASSES: [Class; 3] = [
    Class { minutes: 90, stages: &[1, 2, 3, 8], pause: None },
    Class { minutes: 120, stages: &[1, 2, 3, 7, 8], pause: None },
    Class { minutes: 180, stages: &[1, 2, 3, 4, 5, 6, 7, 8], pause: Some(4) },
];

/// How long it takes until everybody's lab runs.
const ARRIVAL: u32 = 10;
/// The length of a break.
const PAUSE: u32 = 10;

/// The schedules as tables, one below the other.
///
/// # Errors
/// If there is no such stage.
pub fn tables(workbook: &Workbook) -> Result<String> {
    let mut text = String::new();
    for class in CLASSES {
        let mut now = 0;
        let mut row = |what: &str, minutes: u32, text: &mut String| {
            let _ = writeln!(text, "| {}:{:02} | {what} | {minutes} |", now / 60, now % 60);
            now += minutes;
        };
        let _ = write!(text, "**{} minutes**\n\n| at | what | minutes |\n|---|---|---|\n", class.minutes);
        row("everybody's lab runs: `make demo`", ARRIVAL, &mut text);
        for number in class.stages {
            let stage = workbook.stage(&number.to_string())?;
            let what = format!("[{number:02}](stages/{number:02}.md) {}", stage.title);
            row(&what, stage.minutes, &mut text);
            if class.pause == Some(*number) {
                row("a break", PAUSE, &mut text);
            }
        }
        row("exercises and questions", minutes_left(workbook, &class)?, &mut text);
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    Ok(text)
}

/// The minutes that no stage takes.
fn minutes_left(workbook: &Workbook, class: &Class) -> Result<u32> {
    let stages = class.stages.iter().map(|number| Ok(workbook.stage(&number.to_string())?.minutes));
    let taken = stages.sum::<Result<u32>>()? + ARRIVAL + class.pause.map_or(0, |_| PAUSE);
    Ok(class.minutes.saturating_sub(taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_time_left_and_no_stage_without_its_parent() {
        let workbook = Workbook::read().unwrap();
        for class in CLASSES {
            assert!(
                minutes_left(&workbook, &class).unwrap() >= 5,
                "{} minutes are not enough",
                class.minutes
            );
            for number in class.stages {
                let parent = workbook.stage(&number.to_string()).unwrap().parent;
                assert!(
                    parent.is_none_or(|parent| class.stages.contains(&parent)),
                    "{number} in {}",
                    class.minutes
                );
            }
        }
    }
}
