//! The questions: which of them the learner has answered, and what a run shows of the prediction made before it.
//!
//! The page shows them as the book does, with the book's own cards.

use std::str::FromStr;

use ask::answers::{self, Answers};
use axum::http::StatusCode;
use common::{Error, Result};
use machine::workbook::Workbook;
use questions::{Asked, Judgment, Question, Seen, Watched};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wire::workload::{Io, Workload};

use crate::response::Refusal;

pub struct Asking {
    workbook: Workbook,
    all: Vec<About>,
}

struct About {
    /// Its name in the whole workbook, such as `03/order`.
    id: String,
    program: String,
    question: Question,
    /// The arguments of the run that it is about, if it is a prediction of a stage's run.
    arguments: Option<String>,
}

impl About {
    fn new(program: &str, question: Question, arguments: Option<String>) -> Self {
        let arguments = arguments.filter(|_| question.asked == Asked::Before);
        Self { id: format!("{program}/{}", question.id), program: program.to_owned(), question, arguments }
    }
}

/// A learner's prediction, as the page sends it.
#[derive(Debug, Deserialize)]
pub struct Given {
    id: String,
    answer: String,
}

/// What has become of a prediction, for the page.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    id: String,
    predicted: String,
    /// Whether only the end of the run decides.
    at_end: bool,
    /// What the run has shown, and in which lines; nothing as long as it has not.
    seen: Option<Seen>,
    is_right: bool,
    right: String,
    /// Why somebody believes the wrong one.
    why: Option<String>,
    explanation: String,
}

/// A prediction that waits for its run.
pub struct Prediction {
    question: Question,
    watched: Watched,
    pub outcome: Outcome,
}

impl Asking {
    pub fn new(workbook: &Workbook) -> Result<Self> {
        let mut all = Vec::new();
        for program in workbook.catalog.programs() {
            let (name, questions) = (program.name(), questions::of(&program.folder)?);
            let is_stage = workbook.catalog.stage(&name).is_ok();
            let arguments = is_stage.then(|| ask::arguments(program, &questions).trim().to_owned());
            all.extend(questions.into_iter().map(|question| About::new(&name, question, arguments.clone())));
        }
        for chapter in questions::chapters(&workbook.root)? {
            let questions = questions::of_chapter(&workbook.root, &chapter)?;
            all.extend(questions.into_iter().map(|question| About::new(&chapter, question, None)));
        }
        Ok(Self { workbook: workbook.clone(), all })
    }

    /// All of them, and what the learner has answered.
    pub fn state(&self) -> Result<Value> {
        let answers = Answers::read(&self.workbook)?;
        let question = |About { id, program, arguments, .. }: &About| json!({ "id": id, "program": program, "arguments": arguments, "tries": answers.tries(id) });
        Ok(self.all.iter().map(question).collect())
    }

    /// Remembers at which try a question was answered, or with 0 that it was skipped.
    pub fn remember(&self, id: &str, tries: u32) -> Result<(), Refusal> {
        let id = &self.find(id)?.id;
        let remembered = match tries {
            0 => answers::skip(&self.workbook, id),
            _ => answers::remember(&self.workbook, id, tries, false),
        };
        Ok(remembered?)
    }

    /// Remembers that a prediction was made. Only the first try counts, because the run shows the rest.
    pub fn predicted(&self, Outcome { id, is_right, .. }: &Outcome) -> Result<(), Refusal> {
        self.remember(id, if *is_right { 1 } else { 2 })
    }

    /// A prediction, which the page has asked for.
    pub fn predict(&self, Given { id, answer }: &Given) -> Result<Prediction, Refusal> {
        let About { id, question, .. } = self.find(id)?;
        let why = match question.judge(answer) {
            Judgment::Right => None,
            Judgment::Wrong(why) => Some(why.unwrap_or_default()),
            Judgment::Unclear(fix) => {
                return Err(Error::new(format!("{answer:?} does not answer this question")).fix(fix).into());
            }
        };
        let Some(truth) = question.truth.clone() else {
            return Err(Error::new("no run answers this question").evidence(id).into());
        };
        let words = |answer: &str| question.words(question.value_of(answer)).to_owned();
        let outcome = Outcome {
            id: id.clone(),
            predicted: words(answer),
            at_end: !truth.shows.is_in_trace(),
            seen: None,
            is_right: why.is_none(),
            right: words(&question.solution()),
            why: why.filter(|why| !why.is_empty()),
            explanation: question.explanation.clone(),
        };
        let watched = Watched::new(truth.clone(), ios(&truth.io));
        Ok(Prediction { question: question.clone(), watched, outcome })
    }

    fn find(&self, id: &str) -> Result<&About, Refusal> {
        let found = self.all.iter().find(|about| about.id == id);
        found
            .ok_or_else(|| Refusal(StatusCode::NOT_FOUND, Error::new(format!("there is no question {id:?}"))))
    }
}

impl Prediction {
    /// The next line that the run prints. Returns whether it has decided.
    pub fn line(&mut self, line: &str) -> bool {
        self.watched.line(line);
        self.has_decided()
    }

    /// The run has ended. Returns whether that has decided.
    pub fn end(&mut self) -> bool {
        self.watched.end();
        self.has_decided()
    }

    fn has_decided(&mut self) -> bool {
        let Some(seen) = self.watched.seen.take() else { return false };
        let value = self.question.words(&seen.value).to_owned();
        self.outcome.seen = Some(Seen { value, ..seen });
        true
    }
}

/// How many I/Os a workload makes.
fn ios(io: &str) -> u64 {
    let Ok(Workload::Io(arguments)) = Workload::from_str(io) else { return 0 };
    let io = <Io as clap::Parser>::try_parse_from(std::iter::once("io".to_owned()).chain(arguments));
    io.map_or(0, |io| io.kind.parts().1.count * io.kind.parts().1.threads)
}
