//! `cargo lab ask --test`: the concept test, before and after the course. Its answers stay in a file in `mine`.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use common::{Error, OrCause, Result};
use machine::workbook::Workbook;
use questions::concept::{self, Answered, EXPORT, FORMS, When};
use questions::{Judgment, Question};

use crate::session::Session;

/// Asks the questions of a form, and keeps the answers.
///
/// # Errors
/// If the learner has taken this half of the test, or the file can't be read or written.
pub fn take(workbook: &Workbook, when: When, session: &mut Session<'_>) -> Result<ExitCode> {
    let (path, mut answers) = kept(&workbook.mine)?;
    if answers.iter().any(|answered| answered.when == when) {
        return Err(Error::new(format!("you have taken the test {when} the course already"))
            .evidence(format!("{} has your answers", path.display()))
            .fix("give this file to your instructor; to start over, delete it"));
    }
    let form = match answers.first() {
        Some(first) => concept::other(first.form),
        None => FORMS[usize::from(random() & 1 == 1)],
    };
    let questions = concept::form(&workbook.root, form)?;
    let Some(given) = session.test(when, &questions)? else {
        session.say("\nThe test is not finished, so nothing of it is kept.\n")?;
        return Ok(ExitCode::SUCCESS);
    };
    answers.extend(questions.iter().zip(given).map(|(question, (answer, seconds))| Answered {
        when,
        form,
        question: question.id.clone(),
        answer,
        seconds,
    }));
    fs::create_dir_all(&workbook.mine)
        .and_then(|()| fs::write(&path, concept::export(&answers)))
        .or_cause(format!("cannot write {}", path.display()))?;
    let scores = match when {
        When::Before => String::new(),
        When::After => scores(workbook, &answers)?,
    };
    let shown = path.strip_prefix(&workbook.root).unwrap_or(&path).display();
    session.say(&format!(
        "\nThank you. {scores}Your answers and their times are in {shown}, and nowhere else.\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// The learner's file, which need not exist yet, and the answers in it.
fn kept(mine: &Path) -> Result<(PathBuf, Vec<Answered>)> {
    let names = fs::read_dir(mine).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_export = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(EXPORT) && name.ends_with(".tsv")
    };
    let Some(path) = names.into_iter().find(is_export) else {
        return Ok((mine.join(format!("{EXPORT}{:016x}.tsv", random())), Vec::new()));
    };
    let text = fs::read_to_string(&path).or_cause(format!("cannot read {}", path.display()))?;
    let answers = concept::import(&text).map_err(|error| {
        error
            .with_cause(format!("{} is damaged", path.display()))
            .fix("move it away, and take the test again")
    })?;
    Ok((path, answers))
}

/// How many answers are right, of those before and of those after.
fn scores(workbook: &Workbook, answers: &[Answered]) -> Result<String> {
    let score = |when: When| -> Result<Option<String>> {
        let given: Vec<_> = answers.iter().filter(|answered| answered.when == when).collect();
        let Some(first) = given.first() else { return Ok(None) };
        let questions = concept::form(&workbook.root, first.form)?;
        let is_right = |answered: &Answered| {
            let is_it = |question: &&Question| question.id == answered.question;
            let question = questions.iter().find(is_it);
            question.is_some_and(|question| question.judge(&answered.answer.to_string()) == Judgment::Right)
        };
        let right = given.iter().filter(|answered| is_right(answered)).count();
        Ok(Some(format!("{right} of {} {when} the course", given.len())))
    };
    let scores: Vec<_> = [score(When::Before)?, score(When::After)?].into_iter().flatten().collect();
    Ok(format!("Right: {}. ", scores.join(", ")))
}

/// A number that nobody has chosen.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            cells.len() == 5 && cells[4].parse::<u64>().is_ok()
        };
        assert!(text.lines().skip(1).all(is_plain), "{text}");
    }
}
