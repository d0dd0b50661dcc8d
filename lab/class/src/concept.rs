//! `cargo class test FOLDER`: what a folder of exports of the concept test says about its questions, and about what a class
//! has learned. `docs/src/concept-test.md` explains how to read it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::{Error, OrCause, Result};
use machine::workbook::Workbook;
use questions::concept::{self, Answered, FORMS, When};
use questions::{Form, Judgment, Question, letter};

/// With fewer sheets than this, what we would say about a single question is mostly chance.
const ENOUGH: usize = 30;

/// The answers of one learner to one form.
#[derive(Debug)]
struct Sheet {
    when: When,
    form: char,
    /// For each question, in the order of the form: the letter, whether it is right, and the seconds.
    answers: Vec<(char, bool, u64)>,
}

impl Sheet {
    fn score(&self) -> usize {
        self.answers.iter().filter(|(_, is_right, _)| *is_right).count()
    }
}

/// What the exports in a folder say, as a table.
///
/// # Errors
/// If the folder can't be read, has no exports, or has one that is damaged.
pub fn statistics(workbook: &Workbook, folder: &Path) -> Result<String> {
    let forms = FORMS.map(|form| concept::form(&workbook.root, form));
    let [a, b] = forms;
    let forms = [a?, b?];
    let mut learners = Vec::new();
    let unreadable = || format!("cannot read {}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).or_cause(unreadable())? {
        paths.push(entry.or_cause(unreadable())?.path());
    }
    paths.sort();
    for path in paths.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "tsv"))
    {
        let text = fs::read_to_string(&path).or_cause(format!("cannot read {}", path.display()))?;
        let sheets = concept::import(&text).and_then(|answers| sheets(&answers, &forms));
        learners.push(sheets.map_err(|error| {
            error.with_cause(format!("{} is no export of the concept test", path.display()))
        })?);
    }
    if learners.is_empty() {
        return Err(Error::new(format!("there are no exports in {}", folder.display()))
            .evidence(format!("no file {}….tsv", concept::EXPORT))
            .fix("collect these files from the learners: they are in `mine` after `cargo lab ask --test after`"));
    }
    Ok(table(&learners, &forms))
}

/// The sheets of an export.
fn sheets(answers: &[Answered], forms: &[Vec<Question>; 2]) -> Result<Vec<Sheet>> {
    let mut sheets = Vec::new();
    for when in [When::Before, When::After] {
        let given: Vec<_> = answers.iter().filter(|answered| answered.when == when).collect();
        let Some(first) = given.first() else { continue };
        let questions = &forms[usize::from(first.form == FORMS[1])];
        let judged = questions.iter().zip(&given).map(|(question, answered)| {
            let is_it = question.id == answered.question && answered.form == first.form;
            let is_right = question.judge(&answered.answer.to_string()) == Judgment::Right;
            is_it.then_some((answered.answer, is_right, answered.seconds))
        });
        let answers: Option<Vec<_>> = judged.collect();
        match answers {
            Some(answers) if given.len() == questions.len() => {
                sheets.push(Sheet { when, form: first.form, answers });
            }
            _ => {
                return Err(Error::new("these are not the answers to one form")
                    .evidence(format!("{} answers {when} the course", given.len())));
            }
        }
    }
    Ok(sheets)
}

/// The whole report.
fn table(learners: &[Vec<Sheet>], forms: &[Vec<Question>; 2]) -> String {
    let sheets: Vec<_> = learners.iter().flatten().collect();
    let of = |when: When| sheets.iter().copied().filter(|sheet| sheet.when == when).collect::<Vec<_>>();
    let (before, after) = (of(When::Before), of(When::After));
    let both: Vec<_> =
        learners.iter().filter_map(|sheets| <&[Sheet; 2]>::try_from(&sheets[..]).ok()).collect();
    let mut text = format!(
        "{:<12}{:>7}{:>7}{:>6}{:>16}{:>7}{:>9}  {}\n",
        "question",
        "before",
        "after",
        "gain",
        "discrimination",
        "A - B",
        "seconds",
        "most common wrong answer"
    );
    for (nth, question) in forms[0].iter().enumerate() {
        let share = |sheets: &[&Sheet]| mean(sheets.iter().map(|sheet| f64::from(sheet.answers[nth].1)));
        let percent =
            |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.0} %", 100.0 * share));
        let number = |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.2}"));
        let gain =
            gain(both.iter().map(|pair| pair.each_ref().map(|sheet| f64::from(sheet.answers[nth].1))), 1.0);
        let discrimination = (after.len() >= ENOUGH).then(|| discrimination(&after, nth)).flatten();
        let of_form = FORMS.map(|form| {
            let all: Vec<_> = sheets.iter().copied().filter(|sheet| sheet.form == form).collect();
            (all.len() >= ENOUGH).then(|| share(&all)).flatten()
        });
        let apart = of_form[0].zip(of_form[1]).map(|(a, b)| a - b);
        text += &format!(
            "{:<12}{:>7}{:>7}{:>6}{:>16}{:>7}{:>9}  {}\n",
            question.id,
            percent(share(&before)),
            percent(share(&after)),
            number(gain),
            number(discrimination),
            number(apart),
            median(sheets.iter().map(|sheet| sheet.answers[nth].2)),
            wrong(&sheets, forms, nth)
        );
    }
    text += &format!("\n{} exports, {} of them with both halves.\n", learners.len(), both.len());
    let all = forms[0].len();
    let scores = both.iter().map(|pair| pair.each_ref().map(|sheet| sheet.score() as f64));
    let gained: Vec<_> = scores.clone().map(|[before, after]| after - before).collect();
    if let (Some(gained), Some(error), Some(gain)) =
        (mean(gained.iter().copied()), error(&gained), gain(scores, all as f64))
    {
        text += &format!(
            "Of {all} questions, a learner answers {gained:.1} more after the course (95 % confidence: {:.1} to {:.1}); gain {gain:.2}.\n",
            gained - 1.96 * error,
            gained + 1.96 * error
        );
    }
    if after.len() < ENOUGH {
        text += &format!(
            "With {} sheets after the course, nothing can be said about a single question: that takes {ENOUGH}.\n",
            after.len()
        );
    }
    text
}

fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = numbers.fold((0, 0.0), |(count, sum), number| (count + 1, sum + number));
    (count > 0).then(|| sum / f64::from(count))
}

/// The standard error of a mean.
fn error(numbers: &[f64]) -> Option<f64> {
    let center = mean(numbers.iter().copied())?;
    let count = numbers.len() as f64;
    let variance = numbers.iter().map(|number| (number - center).powi(2)).sum::<f64>() / (count - 1.0);
    (numbers.len() > 1).then(|| (variance / count).sqrt())
}

/// Which part of what was missing before was there after.
fn gain(pairs: impl Iterator<Item = [f64; 2]> + Clone, all: f64) -> Option<f64> {
    let before = mean(pairs.clone().map(|[before, _]| before))?;
    let after = mean(pairs.map(|[_, after]| after))?;
    (before < all).then(|| (after - before) / (all - before))
}

/// The correlation of a question with the score of the others.
fn discrimination(sheets: &[&Sheet], nth: usize) -> Option<f64> {
    let pairs = sheets.iter().map(|sheet| {
        let this = f64::from(sheet.answers[nth].1);
        (this, sheet.score() as f64 - this)
    });
    let (this, rest) =
        (mean(pairs.clone().map(|(this, _)| this))?, mean(pairs.clone().map(|(_, rest)| rest))?);
    let sum =
        |of: fn(f64, f64) -> f64| pairs.clone().map(|(one, other)| of(one - this, other - rest)).sum::<f64>();
    let scale = (sum(|one, _| one * one) * sum(|_, other| other * other)).sqrt();
    (scale > 0.0).then(|| sum(|one, other| one * other) / scale)
}

fn median(numbers: impl Iterator<Item = u64>) -> u64 {
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}

/// The wrong option that most learners chose, in either form.
fn wrong(sheets: &[&Sheet], forms: &[Vec<Question>; 2], nth: usize) -> String {
    let mut counts: BTreeMap<(char, char), usize> = BTreeMap::new();
    for sheet in sheets {
        let (answer, is_right, _) = sheet.answers[nth];
        if !is_right && answer != '-' {
            *counts.entry((sheet.form, answer)).or_default() += 1;
        }
    }
    let Some(((form, answer), count)) = counts.into_iter().max_by_key(|(_, count)| *count) else {
        return "none".to_owned();
    };
    let of_form = sheets.iter().filter(|sheet| sheet.form == form).count();
    let text = match &forms[usize::from(form == FORMS[1])][nth].form {
        Form::Choice { options, .. } => {
            let chosen = (0..options.len()).find(|option| letter(*option) == answer);
            chosen.map_or(String::new(), |option| options[option].text.clone())
        }
        _ => String::new(),
    };
    format!("form {}, {answer}, {count} of {of_form}: {text}", form.to_ascii_uppercase())
}

#[cfg(test)]
mod tests;
