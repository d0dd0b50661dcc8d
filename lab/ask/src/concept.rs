//! `cargo lab ask --test`: the concept test, before and after the course.

use std::process::ExitCode;

use common::Result;
use machine::workbook::Workbook;
use questions::concept::When;

use crate::half::Half;
use crate::session::Session;

/// Asks the questions of a form, and keeps the answers.
///
/// # Errors
/// If the learner has taken this half of the test, or the file can't be read or written.
pub fn take(workbook: &Workbook, when: When, session: &mut Session<'_>) -> Result<ExitCode> {
    let half = Half::begin(workbook, when)?;
    let Some(given) = session.test(when, &half.questions)? else {
        session.say("\nThe test is not finished, so nothing of it is kept.\n")?;
        return Ok(ExitCode::SUCCESS);
    };
    let said = half.keep(given)?;
    session.say(&format!("\n{said}\n"))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use questions::concept;

    use super::*;
    use crate::half::kept;

    /// A learner who always types the same.
    fn taken(workbook: &Workbook, when: When, typed: &str) -> (String, Result<ExitCode>) {
        let mut output = Vec::new();
        let mut session =
            Session { input: &mut typed.as_bytes(), output: &mut output, columns: 80, is_terminal: false };
        let result = take(workbook, when, &mut session);
        (String::from_utf8(output).unwrap(), result)
    }

    #[test]
    fn the_other_form_comes_after_the_course_and_nothing_is_revealed() {
        let mine = tempfile::tempdir().unwrap();
        let workbook = Workbook { mine: mine.path().to_owned(), ..Workbook::read().unwrap() };
        // A test that ends in its middle is not kept.
        taken(&workbook, When::Before, "a\nb\n").1.unwrap();
        assert_eq!(kept(mine.path()).unwrap().1, []);

        // A letter that is none is asked for again; an empty line skips.
        let (said, result) = taken(&workbook, When::Before, &format!("z\n\n{}", "b\n".repeat(14)));
        result.unwrap();
        assert!(said.contains("Type a letter from A to D.") && said.contains("Question 15 of 15"), "{said}");
        assert!(!said.contains("Right") && !said.contains("No."), "{said}");
        let (path, before) = kept(mine.path()).unwrap();
        let letters: String = before.iter().map(|answered| answered.answer).collect();
        assert_eq!(letters, format!("-{}", "B".repeat(14)));
        assert!(taken(&workbook, When::Before, "").1.is_err());

        let (said, result) = taken(&workbook, When::After, &"c\n".repeat(15));
        result.unwrap();
        let (again, all) = kept(mine.path()).unwrap();
        assert_eq!((again, all.len()), (path.clone(), 30));
        assert!(said.contains("Right: "), "{said}");
        assert_eq!(all[15].form, concept::other(before[0].form));
        // Answers and times, and nothing else.
        let text = fs::read_to_string(path).unwrap();
        let is_plain = |line: &str| {
            let cells: Vec<_> = line.split('\t').collect();
            cells.len() == 6 && cells[4].parse::<u64>().is_ok()
        };
        assert!(text.lines().skip(1).all(is_plain), "{text}");
    }
}
