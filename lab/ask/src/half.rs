//! A half of the concept test: before the course, or after it. Its answers stay in a file in `mine`.

use std::fs;
use std::path::{Path, PathBuf};

use common::{Error, OrCause, Result};
use machine::workbook::Workbook;
use questions::concept::{self, Answered, EXPORT, FORMS, When};
use questions::{Judgment, Question};

/// A half that a learner takes.
#[derive(Debug)]
pub struct Half<'a> {
    workbook: &'a Workbook,
    when: When,
    /// The form that it asks.
    pub form: char,
    /// The form's questions.
    pub questions: Vec<Question>,
    path: PathBuf,
    answers: Vec<Answered>,
}

impl<'a> Half<'a> {
    /// Begins it. The first half has a form by chance, and the second one the other form.
    ///
    /// # Errors
    /// If the learner has taken this half of the test, or a file can't be read.
    pub fn begin(workbook: &'a Workbook, when: When) -> Result<Self> {
        let (path, answers) = kept(&workbook.mine)?;
        if answers.iter().any(|answered| answered.when == when) {
            return Err(Error::new(format!("you have taken the test {when} the course already"))
                .evidence(format!("{} has your answers", path.display()))
                .fix("give this file to your instructor; to start over, delete it"));
        }
        let form = match answers.first() {
            Some(first) => concept::other(first.form),
            None => FORMS[usize::from(random()? & 1 == 1)],
        };
        let questions = concept::form(&workbook.root, form)?;
        Ok(Self { workbook, when, form, questions, path, answers })
    }

    /// Keeps a letter, or `-`, and the seconds for each question. Returns what to tell the learner.
    pub fn keep(mut self, given: impl IntoIterator<Item = (char, u64)>) -> Result<String> {
        self.answers.extend(self.questions.iter().zip(given).map(|(question, (answer, seconds))| Answered {
            when: self.when,
            form: self.form,
            question: question.id.clone(),
            answer,
            seconds,
            is_right: question.judge(&answer.to_string()) == Judgment::Right,
        }));
        fs::create_dir_all(&self.workbook.mine)
            .and_then(|()| fs::write(&self.path, concept::export(&self.answers)))
            .or_cause(format!("cannot write {}", self.path.display()))?;
        let scores = match self.when {
            When::Before => String::new(),
            When::After => scores(&self.answers),
        };
        let shown = self.path.strip_prefix(&self.workbook.root).unwrap_or(&self.path).display();
        Ok(format!("Thank you. {scores}Your answers and their times are in {shown}, and nowhere else."))
    }
}

/// The learner's file, which need not exist yet, and the answers in it.
pub fn kept(mine: &Path) -> Result<(PathBuf, Vec<Answered>)> {
    let names = fs::read_dir(mine).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_export = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(EXPORT) && name.ends_with(".tsv")
    };
    let Some(path) = names.into_iter().find(is_export) else {
        return Ok((mine.join(format!("{EXPORT}{:016x}.tsv", random()?)), Vec::new()));
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
fn scores(answers: &[Answered]) -> String {
    let score = |when: When| {
        let given: Vec<_> = answers.iter().filter(|answered| answered.when == when).collect();
        let right = given.iter().filter(|answered| answered.is_right).count();
        (!given.is_empty()).then(|| format!("{right} of {} {when} the course", given.len()))
    };
    let scores: Vec<_> = [When::Before, When::After].into_iter().filter_map(score).collect();
    format!("Right: {}. ", scores.join(", "))
}

fn random() -> Result<u64> {
    getrandom::u64().or_cause("the kernel has no random numbers")
}
