//! The questions on paper, as Markdown for `print.rs`: a sheet for pairs, the cards to cut out, and the answers at the end.

use ::questions::concept::{self, FORMS};
use ::questions::{Answer, Form, Question, letter};
use common::Result;
use machine::workbook::Workbook;

use crate::questions::code;

/// The questions of the stages: a page for each stage, then the cards, then the answers.
pub fn questions(workbook: &Workbook) -> Result<String> {
    let (mut sheets, mut cards, mut answers) = (String::new(), String::new(), String::new());
    for stage in &workbook.catalog.stages {
        let heading = format!("Stage {:02}: {}", stage.number, stage.title);
        let questions = ::questions::of(&stage.folder)?;
        sheets += &format!("# {heading}\n\n{}", questions.iter().zip(1..).map(asked).collect::<String>());
        answers += &format!("\n## {heading}\n\n{}", questions.iter().map(answered).collect::<String>());
        cards.extend(questions.iter().filter_map(|question| to_cut(&heading, question)));
    }
    Ok(format!("{sheets}\n# Cards to cut out\n\n{cards}\n# Answers\n{answers}"))
}

/// The two forms of the concept test, and their key.
pub fn concept_test(workbook: &Workbook) -> Result<String> {
    let (mut sheets, mut keys) = (String::new(), String::new());
    for form in FORMS {
        let name = form.to_ascii_uppercase();
        let questions = concept::form(&workbook.root, form)?;
        let asked: String = questions.iter().zip(1..).map(asked).collect();
        sheets += &format!(
            "# What do you know? Form {name}\n\nMark one answer to each question. Don't write your name.\n\n{asked}"
        );
        let key = questions.iter().zip(1..).map(|(question, nth)| format!("{nth} {}", question.solution()));
        keys += &format!("\n**Form {name}:** {}\n", key.collect::<Vec<_>>().join(", "));
    }
    Ok(format!("{sheets}\n# Key\n{keys}"))
}

/// A question with its number, and room for the answer.
fn asked((question, nth): (&Question, usize)) -> String {
    let options = |options: &[Answer], is_code: bool| -> String {
        let option = |(nth, option): (usize, &Answer)| {
            let text = if is_code { format!("`{}`", option.text) } else { option.text.clone() };
            format!("- **{}** {text}\n", letter(nth))
        };
        options.iter().enumerate().map(option).collect()
    };
    let answer = match &question.form {
        Form::Choice { options: all, is_code, .. } => options(all, *is_code),
        Form::Number { .. } => "Your number: <span class=\"blank\"></span>\n".to_owned(),
        Form::Order { cards, .. } => {
            format!("The letters of your {} cards in order: <span class=\"blank\"></span>\n", cards.len())
        }
    };
    format!("<div class=\"asked\">\n\n**{nth}.** {}\n\n{answer}\n</div>\n\n", question.text)
}

/// The cards of a question, mixed as on a screen.
fn to_cut(heading: &str, question: &Question) -> Option<String> {
    let Form::Order { cards, mixed } = &question.form else { return None };
    let card = |(nth, card): (usize, &usize)| {
        format!("<div class=\"card\"><b>{}</b> {}</div>\n", letter(nth), code(&cards[*card]))
    };
    let cards: String = mixed.iter().enumerate().map(card).collect();
    Some(format!("<div class=\"asked\">\n\n**{heading}**\n\n<div class=\"cut\">\n{cards}</div>\n</div>\n\n"))
}

/// The answer to a question, and why.
fn answered(question: &Question) -> String {
    format!("1. **{}.** {}\n", question.solution(), question.explanation.replace("\n\n", " "))
}
