//! The concept test in the page: the same halves, and the same file of answers, as `cargo lab ask --test`.

use ask::half::{self, Half};
use axum::http::StatusCode;
use common::{Error, OrCause};
use machine::workbook::Workbook;
use questions::Form;
use questions::concept::When;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::response::{Refusal, WithStatus};

/// A half as the page sends it.
#[derive(Debug, Deserialize)]
pub struct Taken {
    form: char,
    answers: Vec<Given>,
}

#[derive(Debug, Deserialize)]
struct Given {
    question: String,
    /// A letter, or `-`.
    answer: char,
    seconds: u64,
}

fn when(name: &str) -> Result<When, Refusal> {
    name.parse().map_err(|error: String| Refusal(StatusCode::NOT_FOUND, Error::new(error)))
}

/// Which halves the learner has taken. A damaged file is no reason to show nothing else.
pub fn state(workbook: &Workbook) -> Value {
    half::taken(workbook).unwrap_or_default().iter().map(When::to_string).collect()
}

/// The questions of a half, without anything that reveals an answer.
pub fn questions(workbook: &Workbook, name: &str) -> Result<Value, Refusal> {
    let half = Half::begin(workbook, when(name)?, None).status(StatusCode::CONFLICT)?;
    let question = |question: &questions::Question| {
        let options: Vec<_> = match &question.form {
            Form::Choice { options, .. } => options.iter().map(|option| &*option.text).collect(),
            _ => Vec::new(),
        };
        json!({ "id": question.id, "text": question.text, "options": options })
    };
    Ok(json!({ "form": half.form, "questions": half.questions.iter().map(question).collect::<Vec<_>>() }))
}

/// Keeps the answers of a half. Returns what to tell the learner.
pub fn keep(workbook: &Workbook, name: &str, Taken { form, answers }: &Taken) -> Result<String, Refusal> {
    let half = Half::begin(workbook, when(name)?, Some(*form)).status(StatusCode::CONFLICT)?;
    let asked = half.questions.iter().map(|question| &question.id);
    let is_letter = |answer: char| answer == '-' || ('A'..='D').contains(&answer);
    if half.form != *form
        || !asked.eq(answers.iter().map(|given| &given.question))
        || !answers.iter().all(|given| is_letter(given.answer))
    {
        return Err(Error::new("these are not the answers of this test").fix("take it again"))
            .status(StatusCode::CONFLICT);
    }
    Ok(half.keep(answers.iter().map(|given| (given.answer, given.seconds)))?)
}

/// The name and the text of the learner's file.
pub fn export(workbook: &Workbook) -> Result<(String, String), Refusal> {
    let (path, answers) = half::kept(&workbook.mine)?;
    if answers.is_empty() {
        return Err(Error::new("you have not taken the test yet")).status(StatusCode::NOT_FOUND);
    }
    let text = std::fs::read_to_string(&path).or_cause(format!("cannot read {}", path.display()))?;
    Ok((path.file_name().unwrap_or_default().to_string_lossy().into_owned(), text))
}
