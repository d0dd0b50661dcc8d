//! The code of an exercise that has passed.

use std::time::{SystemTime, UNIX_EPOCH};

use common::{OrCause, Result};
use machine::workbook::Workbook;
use wire::passed::{Passed, SEATS};

use crate::mine;

/// The file in `mine` with the learner's seat.
const SEAT: &str = "seat.txt";

/// The code of this program's exercise with this number, now; `None` if it is none of a stage.
pub fn code(workbook: &Workbook, program: &str, number: u32) -> Result<Option<String>> {
    let (Ok(stage), 1..) = (workbook.catalog.stage(program), number) else { return Ok(None) };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let minute = (now.as_secs() / 60 % (24 * 60)) as u32;
    let seat = seat(workbook)?;
    Ok(Passed { stage: stage.number, number, minute, seat }.code())
}

/// The learner's seat, which is drawn the first time.
fn seat(workbook: &Workbook) -> Result<u32> {
    let drawn = getrandom::u32().or_cause("the kernel has no random numbers")? % SEATS;
    mine::change_lines(workbook, SEAT, |lines| {
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
    use super::*;

    #[test]
    fn the_exercises_of_the_stages_have_codes_and_a_learner_keeps_the_seat() {
        let mine = tempfile::tempdir().unwrap();
        let workbook = Workbook { mine: mine.path().to_owned(), ..Workbook::read().unwrap() };
        for (program, number, is_counted) in
            [("03", 1, true), ("10", 3, true), ("03", 0, false), ("bitehist", 1, false)]
        {
            let code = code(&workbook, program, number).unwrap();
            assert_eq!(code.is_some(), is_counted, "{program}.{number}");
        }
        assert_eq!(seat(&workbook).unwrap(), seat(&workbook).unwrap());
    }
}
