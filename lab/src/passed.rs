//! The code of an exercise that has passed.

use std::time::{SystemTime, UNIX_EPOCH};

use common::{OrCause, Result};
use machine::workbook::Workbook;
use wire::passed::{Passed, SEATS};

use crate::exercise::{Exercise, change_list};

/// The file in `mine` with the learner's seat.
const SEAT: &str = "seat.txt";

/// The code, now; `None` if it is no exercise of a stage.
pub fn code(workbook: &Workbook, exercise: &Exercise<'_>) -> Result<Option<String>> {
    let (Ok(stage), 1..) = (workbook.catalog.stage(&exercise.program.name()), exercise.number) else {
        return Ok(None);
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let minute = (now.as_secs() / 60 % (24 * 60)) as u32;
    let seat = seat(workbook)?;
    Ok(Passed { stage: stage.number, number: exercise.number, minute, seat }.code())
}

/// The learner's seat, which is drawn the first time.
fn seat(workbook: &Workbook) -> Result<u32> {
    let drawn = getrandom::u32().or_cause("the kernel has no random numbers")? % SEATS;
    change_list(workbook, SEAT, |lines| {
        if let Some(seat) = lines.iter().find_map(|line| line.parse().ok().filter(|seat| *seat < SEATS)) {
            return seat;
        }
        *lines = vec![
            "# Who you are in the codes of passed exercises: drawn by chance.".to_owned(),
            drawn.to_string(),
        ];
        drawn
    })
}

#[cfg(test)]
mod tests {
    use crate::exercise;

    use super::*;

    #[test]
    fn the_exercises_of_the_stages_have_codes_and_a_learner_keeps_the_seat() {
        let mine = tempfile::tempdir().unwrap();
        let workbook = Workbook { mine: mine.path().to_owned(), ..Workbook::read().unwrap() };
        for exercise in exercise::all(&workbook).unwrap() {
            let is_counted =
                exercise.id().starts_with(|first: char| first.is_ascii_digit()) && exercise.number > 0;
            assert_eq!(code(&workbook, &exercise).unwrap().is_some(), is_counted, "{}", exercise.id());
        }
        assert_eq!(seat(&workbook).unwrap(), seat(&workbook).unwrap());
    }
}
