//! Questions: one to answer before a stage runs, others after it. They are in `questions.toml`, beside the stage or the
//! example; those about a chapter are in `docs/questions`, and their paths begin at the top folder.
//!
//! | key | holds |
//! |---|---|
//! | `id` | its name within the file |
//! | `asked` | `before` or `after` the run |
//! | `text`, `hint`, `explanation` | Markdown: plain paragraphs, with code between backticks |
//! | `choice` | its options, three to six; or else one of the next three |
//! | `line` | options that are lines of the file `from`, such as `src/main.rs` |
//! | `number` | the `answer`, how far off it may be (`within`), and known `wrong` numbers |
//! | `order` | lines of the file `from`, in the order in which they are there; the reader gets them mixed |
//! | `truth` | how a run decides, see [`truth`]; not for `order`, which the file decides |
//!
//! A file with `test = true` is a form of the [concept test](concept). Its questions have no `asked`, `hint` and
//! `explanation`.
//!
//! An option has a `value`, which is what the truth is if the option is right. The others also have a `why`: why somebody
//! believes them. A test runs the stage on every kernel, or reads what was recorded, and fails if the truth is not the value
//! of the option without a `why`. What a page's table of measurements answers is `measured`, and no test compares it.

#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use common::{Error, OrCause, Result};
use serde::Deserialize;

pub mod concept;
pub mod truth;
mod watched;

use crate::truth::Shows;
pub use crate::truth::{Run, Truth};
pub use crate::watched::{Seen, Watched};

/// The file's name.
pub const FILE: &str = "questions.toml";

/// The folder of the questions about chapters, from the top folder.
pub const CHAPTERS: &str = "docs/questions";

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its name within its file.
    pub id: String,
    /// When to ask it.
    pub asked: Asked,
    /// The question.
    pub text: String,
    /// What answers it.
    pub form: Form,
    /// For a reader who is stuck.
    pub hint: String,
    /// Why the right answer is right.
    pub explanation: String,
    /// How a run decides; `None` if a file does.
    pub truth: Option<Truth>,
}

/// When to ask a question.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Asked {
    /// Before the run: a prediction.
    Before,
    After,
}

/// What answers a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// One of several.
    Choice {
        options: Vec<Answer>,
        /// Which of them is right.
        right: usize,
        /// Whether they are lines of code.
        is_code: bool,
    },
    Number {
        /// The right one.
        answer: u64,
        /// How far off it may be.
        within: u64,
        /// Wrong ones that people believe.
        wrong: Vec<Wrong>,
    },
    /// Cards to put in order.
    Order {
        /// The cards in their right order.
        cards: Vec<String>,
        /// The order in which to show them: numbers of cards.
        mixed: Vec<usize>,
    },
}

/// An option of a question.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// What the truth is if this is right.
    pub value: String,
    pub text: String,
    /// Why somebody believes it, and what is wrong with it; nothing if it is right.
    #[serde(default)]
    pub why: String,
}

/// A wrong number that people believe.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Wrong {
    /// The number.
    pub value: u64,
    /// Why somebody believes it, and what is wrong with it.
    pub why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFile {
    #[serde(default)]
    test: bool,
    question: Vec<Written>,
}

/// A question as it is in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    asked: Option<Asked>,
    text: String,
    #[serde(default)]
    hint: String,
    #[serde(default)]
    explanation: String,
    truth: Option<Truth>,
    choice: Option<Vec<Answer>>,
    line: Option<WrittenLine>,
    number: Option<WrittenNumber>,
    order: Option<WrittenOrder>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenLine {
    from: String,
    options: Vec<Answer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenNumber {
    answer: u64,
    #[serde(default)]
    within: u64,
    #[serde(default)]
    wrong: Vec<Wrong>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenOrder {
    from: String,
    cards: Vec<String>,
}

/// The questions about the program in this folder; none if it has no such file.
pub fn of(folder: &Path) -> Result<Vec<Question>> {
    read(&folder.join(FILE), folder)
}

/// The questions about a chapter of the book, such as `load`; none if it has none. `root` is the top folder.
pub fn of_chapter(root: &Path, chapter: &str) -> Result<Vec<Question>> {
    read(&root.join(CHAPTERS).join(chapter).with_extension("toml"), root)
}

/// The chapters that have questions; none in the guest of a room kit, which has no chapters.
pub fn chapters(root: &Path) -> Result<Vec<String>> {
    let folder = root.join(CHAPTERS);
    let unreadable = || format!("cannot read {}", folder.display());
    let mut names = Vec::new();
    if !folder.exists() {
        return Ok(names);
    }
    for entry in fs::read_dir(&folder).or_cause(unreadable())? {
        let path = entry.or_cause(unreadable())?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

/// The questions of a file, which quotes files below a folder.
fn read(path: &Path, folder: &Path) -> Result<Vec<Question>> {
    let read = |path: &Path| fs::read_to_string(path).or_cause(format!("cannot read {}", path.display()));
    if !path.exists() {
        return Ok(Vec::new());
    }
    parse(path, &read(path)?, |name| read(&folder.join(name)))
}

/// The questions in a file's text. `source` reads the files that it quotes.
pub fn parse(path: &Path, text: &str, source: impl Fn(&str) -> Result<String>) -> Result<Vec<Question>> {
    let file: WrittenFile = toml::from_str(text).map_err(|error| {
        let at = path.display();
        Error::new(format!("{at} is malformed")).evidence(error).fix(format!("correct the line in {at}"))
    })?;
    let mut ids = BTreeSet::new();
    let check = |written: Written| {
        let id = written.id.clone();
        let is_new = ids.insert(id.clone());
        let checked =
            if is_new { question(written, file.test, &source) } else { Err(wrong("its id is there twice")) };
        checked.map_err(|Mistake { what, fix }| {
            let at = path.display();
            Error::new(format!("the question {id:?} in {at} can't be asked")).evidence(what).fix(fix)
        })
    };
    file.question.into_iter().map(check).collect()
}

/// What is wrong with a question.
struct Mistake {
    what: String,
    fix: String,
}

fn wrong(what: impl Into<String>) -> Mistake {
    Mistake {
        what: what.into(),
        fix: "correct it there; lab/questions/src/lib.rs explains the keys".to_owned(),
    }
}

impl From<Error> for Mistake {
    fn from(error: Error) -> Self {
        wrong(error.to_string())
    }
}

fn question(
    written: Written,
    is_test: bool,
    source: &impl Fn(&str) -> Result<String>,
) -> Result<Question, Mistake> {
    let Written { id, asked, text, hint, explanation, truth, choice, line, number, order } = written;
    if id.is_empty() || !id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        return Err(wrong("its id has other letters than a to z, digits and hyphens"));
    }
    if text.trim().is_empty() {
        return Err(wrong("its text is empty"));
    }
    // A test gives no hint, and explains nothing.
    for (name, is_there) in [
        ("asked", asked.is_some()),
        ("hint", !hint.trim().is_empty()),
        ("explanation", !explanation.trim().is_empty()),
    ] {
        match (is_test, is_there) {
            (true, true) => return Err(wrong(format!("a test has no {name}"))),
            (false, false) => return Err(wrong(format!("its {name} is empty"))),
            _ => {}
        }
    }
    let form = match (choice, line, number, order) {
        (Some(options), None, None, None) => choice_of(options, false)?,
        (None, Some(line), None, None) => {
            let texts: Vec<_> = line.options.iter().map(|option| option.text.as_str()).collect();
            let source = source(&line.from)?;
            if let Some(text) = texts.iter().find(|text| !source.lines().any(|line| line.trim() == **text)) {
                return Err(wrong(format!("{} has no line {text:?}", line.from)));
            }
            choice_of(line.options, true)?
        }
        (None, None, Some(number), None) => number_of(number)?,
        (None, None, None, Some(order)) => {
            in_order(&order.cards, &order.from, &source(&order.from)?)?;
            Form::Order { mixed: mixed(&order.cards), cards: order.cards }
        }
        _ => return Err(wrong("it must have one of choice, line, number and order")),
    };
    let needs_truth = !matches!(form, Form::Order { .. });
    if truth.is_some() != needs_truth {
        return Err(wrong(if needs_truth {
            "it has no truth"
        } else {
            "its file decides, so it needs no truth"
        }));
    }
    let [text, hint, explanation] = [text, hint, explanation].map(|text| in_paragraphs(&text));
    let asked = asked.unwrap_or(Asked::After);
    if let Some(unless) = truth.as_ref().and_then(|truth| truth.unless.as_ref()) {
        let is_wrong = |option: &Answer| option.value == *unless && !option.why.is_empty();
        if !matches!(&form, Form::Choice { options, .. } if options.iter().any(is_wrong)) {
            return Err(wrong("`unless` is not the value of a wrong option"));
        }
    }
    Ok(Question { id, asked, text, form, hint, explanation, truth })
}

/// A text with a line for each paragraph, and an empty one between them.
fn in_paragraphs(text: &str) -> String {
    let paragraphs = text.trim().split("\n\n").map(|text| text.replace('\n', " "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

fn choice_of(options: Vec<Answer>, is_code: bool) -> Result<Form, Mistake> {
    let right: Vec<_> = (0..options.len()).filter(|nth| options[*nth].why.is_empty()).collect();
    let [right] = right[..] else {
        return Err(wrong(format!("{} options have no why, and one should", right.len())));
    };
    if !(3..=6).contains(&options.len()) {
        return Err(wrong(format!("it has {} options, and 3 to 6 are good", options.len())));
    }
    let rights = options.iter().filter(|option| option.value == options[right].value).count();
    if rights > 1 {
        return Err(wrong(format!("{rights} options have the value {:?}", options[right].value)));
    }
    Ok(Form::Choice { options, right, is_code })
}

fn number_of(number: WrittenNumber) -> Result<Form, Mistake> {
    let WrittenNumber { answer, within, wrong: others } = number;
    if let Some(other) = others.iter().find(|other| other.value.abs_diff(answer) <= within) {
        return Err(wrong(format!("{} is wrong and right", other.value)));
    }
    Ok(Form::Number { answer, within, wrong: others })
}

/// Whether these are lines of a file, in this order.
fn in_order(cards: &[String], from: &str, source: &str) -> Result<(), Mistake> {
    if cards.len() < 3 {
        return Err(wrong("an order needs three cards"));
    }
    if cards.iter().collect::<BTreeSet<_>>().len() < cards.len() {
        return Err(wrong("two cards are the same"));
    }
    let mut lines = source.lines().map(str::trim);
    for card in cards {
        if !lines.any(|line| line == card) {
            let what =
                if source.lines().any(|line| line.trim() == card) { "in this place" } else { "at all" };
            return Err(wrong(format!("{from} does not have the card {card:?} {what}")));
        }
    }
    Ok(())
}

/// The alphabetical order of these cards, or the reverse one if that is the right one.
fn mixed(cards: &[String]) -> Vec<usize> {
    let mut order: Vec<_> = (0..cards.len()).collect();
    order.sort_by_key(|card| &cards[*card]);
    if order.is_sorted() {
        order.reverse();
    }
    order
}

/// What becomes of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgment {
    Right,
    /// It is wrong. Why somebody believes it, if we know.
    Wrong(Option<String>),
    /// It is no answer to this question; what would be.
    Unclear(String),
}

impl Question {
    /// What to type, such as `A to C`.
    pub fn expects(&self) -> String {
        match &self.form {
            Form::Choice { options, .. } => format!("A to {}", letter(options.len() - 1)),
            Form::Number { .. } => "A number".to_owned(),
            Form::Order { cards, .. } => format!("The {} letters in order", cards.len()),
        }
    }

    /// Judges an answer: a letter, a number, or the letters of all cards in order.
    pub fn judge(&self, answer: &str) -> Judgment {
        let answer: String = answer.chars().filter(|c| !c.is_whitespace() && *c != ',').collect();
        let unclear = |text: &str| Judgment::Unclear(text.to_owned());
        match &self.form {
            Form::Choice { options, right, .. } => {
                match (0..options.len()).find(|nth| is_letter(&answer, *nth)) {
                    Some(nth) if nth == *right => Judgment::Right,
                    Some(nth) => Judgment::Wrong(Some(options[nth].why.clone())),
                    None => unclear(&format!("Type a letter from A to {}.", letter(options.len() - 1))),
                }
            }
            Form::Number { answer: right, within, wrong } => match answer.parse::<u64>() {
                Ok(number) if number.abs_diff(*right) <= *within => Judgment::Right,
                Ok(number) => {
                    let known = wrong.iter().find(|wrong| wrong.value == number);
                    Judgment::Wrong(known.map(|known| known.why.clone()))
                }
                Err(_) => unclear("Type a number, such as 3."),
            },
            Form::Order { cards, mixed } => {
                let letters: Vec<_> = answer.chars().map(|c| c.to_string()).collect();
                let given: Vec<_> = letters
                    .iter()
                    .filter_map(|given| (0..cards.len()).find(|nth| is_letter(given, *nth)))
                    .map(|nth| mixed[nth])
                    .collect();
                let all: BTreeSet<_> = given.iter().collect();
                if all.len() < cards.len() || letters.len() > cards.len() {
                    return unclear(&format!("Type each of the {} letters once.", cards.len()));
                }
                match given.iter().enumerate().find(|(place, card)| place != *card) {
                    None => Judgment::Right,
                    Some((0, _)) => Judgment::Wrong(Some("Another card comes first.".to_owned())),
                    Some((place, _)) => {
                        let first = if place == 1 {
                            "The first card is".to_owned()
                        } else {
                            format!("The first {place} cards are")
                        };
                        Judgment::Wrong(Some(format!("{first} right. The next one comes later.")))
                    }
                }
            }
        }
    }

    /// The words for what a run shows: the option that has this value, or the value itself.
    pub fn words<'a>(&'a self, value: &'a str) -> &'a str {
        match &self.form {
            Form::Choice { options, .. } => {
                let option = options.iter().find(|option| option.value == value);
                option.map_or(value, |option| &option.text)
            }
            Form::Number { .. } | Form::Order { .. } => value,
        }
    }

    /// The value of an answer, as a run would show it.
    pub fn value_of<'a>(&'a self, answer: &'a str) -> &'a str {
        match &self.form {
            Form::Choice { options, .. } => {
                let option = (0..options.len()).find(|nth| is_letter(answer, *nth));
                option.map_or(answer, |nth| &options[nth].value)
            }
            Form::Number { .. } | Form::Order { .. } => answer,
        }
    }

    /// The right answer, as it is to be typed.
    pub fn solution(&self) -> String {
        match &self.form {
            Form::Choice { right, .. } => letter(*right).to_string(),
            Form::Number { answer, .. } => answer.to_string(),
            Form::Order { cards, mixed } => {
                let place = |card| mixed.iter().position(|shown| *shown == card).unwrap_or_default();
                (0..cards.len()).map(|card| letter(place(card))).collect()
            }
        }
    }

    /// Compares the truth of a run with the answer that the file says is right.
    pub fn prove(&self, run: &Run<'_>) -> Result<()> {
        let Some(truth) = self.truth.as_ref().filter(|truth| truth.shows != Shows::Measured) else {
            return Ok(());
        };
        let shown = truth
            .of(run)
            .map_err(|error| error.with_cause(format!("nothing answers the question {:?}", self.id)))?;
        let said = match &self.form {
            Form::Choice { options, right, .. } => options[*right].value.clone(),
            Form::Number { answer, .. } => answer.to_string(),
            Form::Order { .. } => return Ok(()),
        };
        let is_right = match &self.form {
            Form::Number { answer, within, .. } => {
                shown.parse::<u64>().is_ok_and(|shown| shown.abs_diff(*answer) <= *within)
            }
            _ => shown == said,
        };
        if is_right {
            return Ok(());
        }
        Err(Error::new(format!("the answer to the question {:?} is wrong: {said:?}", self.id))
            .evidence(format!("the run shows {shown:?}:\n{}{}", run.stdout, run.stderr))
            .fix("give the option with that value no why, or ask something else"))
    }
}

/// The letter of an option or a card.
pub fn letter(nth: usize) -> char {
    ('A'..='Z').nth(nth).unwrap_or('?')
}

fn is_letter(text: &str, nth: usize) -> bool {
    text.eq_ignore_ascii_case(&letter(nth).to_string())
}

#[cfg(test)]
mod tests;
