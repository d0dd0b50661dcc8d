//! The questions as cards in the pages, and the answers at the page's end, where a reader without a script finds them, and one
//! with paper. In a program's page, the prediction is above the output, and the others above the exercises. In a chapter, the
//! prediction is above the first section, and the others are at the end.
//!
//! `docs/present/questions.ts` makes the cards work.

use ::questions::{Answer, Asked, Form, Question, letter};
use common::{Error, Result};
use mdbook_markdown::pulldown_cmark::html;
use mdbook_markdown::{MarkdownOptions, new_cmark_parser};

/// What a program prints: the prediction comes before it.
const OUTPUT: &str = "<!-- output:begin";
/// The heading below which the other questions come; a page has one of these.
const EXERCISES: [&str; 3] = ["\n## Exercises\n", "\n## Exercise\n", "\n## Things to try\n"];
/// A chapter's first section, and its last paragraph.
const SECTION: &str = "\n## ";
const NEXT: &str = "\n**Next**";

/// A program's page with its questions.
pub fn in_program(name: &str, page: &str, questions: &[Question]) -> Result<String> {
    if questions.is_empty() {
        return Ok(page.to_owned());
    }
    let exercises = EXERCISES.into_iter().find(|heading| page.contains(heading)).unwrap_or(EXERCISES[0]);
    let (start, rest) = page.split_once(OUTPUT).ok_or_else(|| lacks(name, OUTPUT))?;
    let (middle, end) = rest.split_once(exercises).ok_or_else(|| lacks(name, exercises))?;
    let before = cards(name, questions, Asked::Before, "Before you run it", " data-before");
    let after = cards(name, questions, Asked::After, "", "");
    Ok(format!("{start}{before}{OUTPUT}{middle}{exercises}\n{after}{end}{}", answers(questions)))
}

/// A chapter with its questions.
pub fn in_chapter(name: &str, page: &str, questions: &[Question]) -> Result<String> {
    if questions.is_empty() {
        return Ok(page.to_owned());
    }
    let (start, rest) = page.split_once(SECTION).ok_or_else(|| lacks(name, SECTION))?;
    let (middle, end) = rest.rsplit_once(NEXT).ok_or_else(|| lacks(name, NEXT))?;
    let before = cards(name, questions, Asked::Before, "Before you read on", "");
    let after = cards(name, questions, Asked::After, "", "");
    Ok(format!(
        "{start}\n{before}{SECTION}{middle}\n## What do you know now?\n\n{after}{NEXT}{end}{}",
        answers(questions)
    ))
}

fn lacks(name: &str, what: &str) -> Error {
    Error::new(format!("the page of {name} has no place for its questions"))
        .evidence(format!("there is no {:?} in it", what.trim()))
}

/// The cards of the questions that are asked then.
fn cards(name: &str, questions: &[Question], asked: Asked, when: &str, attribute: &str) -> String {
    let numbered = questions.iter().enumerate().filter(|(_, question)| question.asked == asked);
    let when = if when.is_empty() { String::new() } else { format!(" · {when}") };
    numbered
        .map(|(nth, question)| {
            let which = format!("Question {} of {}{when}", nth + 1, questions.len());
            card(name, &which, attribute, question)
        })
        .collect()
}

/// The answers, for the end of the page.
fn answers(questions: &[Question]) -> String {
    let answers: String = questions.iter().map(answer).collect();
    format!(
        "\n<section class=\"answers\">\n<h2>Answers to the questions</h2>\n<ol>\n{answers}</ol>\n</section>\n"
    )
}

/// A question. Markdown ends a block of HTML at an empty line, so there is none.
fn card(name: &str, which: &str, attribute: &str, question: &Question) -> String {
    let id = format!("question-{name}-{}", question.id);
    let solution = question.solution();
    let mut said = String::new();
    let note = |class: &str, of: &str, text: &str| {
        format!("<div class=\"{class}\" data-of=\"{of}\" hidden>{}</div>\n", paragraphs(text))
    };
    let body = match &question.form {
        Form::Choice { options, is_code, .. } => {
            let option = |(nth, option): (usize, &Answer)| {
                let letter = letter(nth).to_string();
                if !option.why.is_empty() {
                    said += &note("why", &letter, &option.why);
                }
                let text = if *is_code { code(&option.text) } else { inline(&option.text) };
                format!(
                    "<li><label><input type=\"radio\" name=\"{id}\" value=\"{letter}\"><span>{text}</span></label></li>\n"
                )
            };
            format!(
                "<ol class=\"options\">\n{}</ol>\n",
                options.iter().enumerate().map(option).collect::<String>()
            )
        }
        Form::Number { wrong, .. } => {
            said.extend(wrong.iter().map(|wrong| note("why", &wrong.value.to_string(), &wrong.why)));
            format!(
                "<p class=\"number\"><label>The number: <input name=\"{id}\" inputmode=\"numeric\" pattern=\"[0-9]+\" \
                 maxlength=\"12\" autocomplete=\"off\" required></label></p>\n"
            )
        }
        Form::Order { cards, mixed } => {
            let card = |(nth, card): (usize, &usize)| {
                format!("<li data-letter=\"{}\">{}</li>\n", letter(nth), code(&cards[*card]))
            };
            format!("<ol class=\"cards\">\n{}</ol>\n", mixed.iter().enumerate().map(card).collect::<String>())
        }
    };
    let within = match &question.form {
        Form::Number { within, .. } => *within,
        _ => 0,
    };
    said += &note("hint", "", &question.hint);
    said += &note("explanation", "", &question.explanation);
    format!(
        "\n<form class=\"question\" id=\"{id}\" data-name=\"{name}/{}\" data-right=\"{solution}\" data-within=\"{within}\"{attribute}>\n\
         <p class=\"which\">{which}</p>\n{}\n{body}{said}</form>\n\n",
        question.id,
        paragraphs(&question.text)
    )
}

/// The answer to a question.
fn answer(question: &Question) -> String {
    let right = match &question.form {
        Form::Choice { .. } | Form::Number { .. } => question.solution(),
        Form::Order { .. } => {
            question.solution().chars().map(|c| c.to_string()).collect::<Vec<_>>().join(", ")
        }
    };
    format!("<li><p><strong>{right}</strong></p>{}</li>\n", paragraphs(&question.explanation))
}

/// A line of code as HTML.
pub fn code(line: &str) -> String {
    let line = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<code>{line}</code>")
}

/// A text of a question as HTML, without an empty line.
fn paragraphs(text: &str) -> String {
    let mut html = String::new();
    html::push_html(&mut html, new_cmark_parser(text, &MarkdownOptions::default()));
    html.replace('\n', "")
}

/// The same for a text that is one paragraph.
fn inline(text: &str) -> String {
    let html = paragraphs(text);
    html.strip_prefix("<p>").and_then(|html| html.strip_suffix("</p>")).unwrap_or(&html).to_owned()
}
