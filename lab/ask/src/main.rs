//! `cargo lab ask 03`: asks the questions of a stage, an example or a chapter, one at a time, and remembers which ones were
//! answered.
//!
//! It is a program apart from `cargo lab`, which builds it when somebody asks for questions: the library that reads them
//! would make everybody's first build longer.

#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

mod concept;
mod half;
mod session;

use std::fs;
use std::io::{IsTerminal, stdin, stdout};
use std::process::ExitCode;

use ask::answers::{self, Answers};
use ask::arguments;
use clap::Parser;
use common::{OrCause, Result};
use machine::terminal;
use machine::workbook::Workbook;
use questions::concept::When;
use questions::{Asked, Question};

use crate::session::{Agenda, Session};

/// How many questions a review has at most.
const REVIEWED: usize = 3;

/// Ask about a stage, an example or a chapter: first what its run will show, then why
#[derive(Parser)]
#[command(name = "cargo lab ask", bin_name = "cargo lab ask", version)]
struct Ask {
    /// The stage, such as 03, the example, such as bitehist, or the chapter, such as load [default: what is due for review of
    /// earlier stages]
    #[arg(value_name = "SUBJECT")]
    subject: Option<String>,
    /// Ask again what you have answered
    #[arg(long, requires = "subject")]
    again: bool,
    /// Take the concept test instead, before or after the course: 15 questions, in about as many minutes
    #[arg(long, value_name = "WHEN", conflicts_with_all = ["subject", "again"])]
    test: Option<When>,
}

/// What the questions are about.
struct Subject {
    name: String,
    title: String,
    questions: Vec<Question>,
    /// When to answer the first of them.
    before: &'static str,
    /// What to do between those and the others.
    then: String,
}

impl Subject {
    fn find(workbook: &Workbook, name: &str) -> Result<Self> {
        if questions::chapters(&workbook.root)?.iter().any(|chapter| chapter == name) {
            let page = format!("docs/src/{name}.md");
            let text =
                fs::read_to_string(workbook.root.join(&page)).or_cause(format!("cannot read {page}"))?;
            return Ok(Self {
                name: name.to_owned(),
                title: text.lines().next().unwrap_or_default().trim_start_matches("# ").to_owned(),
                questions: questions::of_chapter(&workbook.root, name)?,
                before: "before you read on",
                then: format!("Now read the chapter: {page}"),
            });
        }
        let program = workbook.catalog.program(name)?;
        let questions = questions::of(&program.folder)?;
        Ok(Self {
            name: program.name(),
            title: program.title.clone(),
            before: "before you run it",
            then: format!(
                "Now run it, in another terminal: cargo lab run {name}{}",
                arguments(program, &questions)
            ),
            questions,
        })
    }
}

fn main() -> Result<ExitCode> {
    let ask = Ask::parse();
    let workbook = Workbook::read()?;
    if let Some(when) = ask.test {
        return session(|session| concept::take(&workbook, when, session));
    }
    match &ask.subject {
        Some(name) => about(&workbook, &Subject::find(&workbook, name)?, ask.again),
        None => review(&workbook),
    }
}

fn session<T>(act: impl FnOnce(&mut Session<'_>) -> Result<T>) -> Result<T> {
    act(&mut Session {
        input: &mut stdin().lock(),
        output: &mut stdout(),
        columns: terminal::columns(),
        is_terminal: stdin().is_terminal() && stdout().is_terminal(),
    })
}

/// Asks about something.
fn about(workbook: &Workbook, subject: &Subject, again: bool) -> Result<ExitCode> {
    let Subject { name, title, questions: all, before, then } = subject;
    let answers = Answers::read(workbook)?;
    let id = |question: &Question| format!("{name}/{}", question.id);
    let when = |question: &Question| match question.asked {
        Asked::Before => (*before).to_owned(),
        Asked::After => String::new(),
    };
    let left: Vec<_> = all
        .iter()
        .filter(|question| again || !answers.has(&id(question)))
        .map(|question| (question.clone(), when(question)))
        .collect();
    if left.is_empty() {
        return terminal::print(&format!(
            "You have answered all {} questions of {name}. To answer them again: cargo lab ask {name} --again\n",
            all.len()
        ));
    }
    let agenda = Agenda {
        title: format!("{name}: {title}"),
        questions: &left,
        command: format!("cargo lab ask {name}"),
        then: Some(then.clone()),
    };
    session(|session| {
        session.ask(&agenda, |nth, tries| answers::remember(workbook, &id(&left[nth].0), tries, false))
    })?;
    match due(workbook)?.len() {
        0 => Ok(ExitCode::SUCCESS),
        due => terminal::print(&format!(
            "Due for review, from earlier stages: {due}. To answer: cargo lab ask\n"
        )),
    }
}

/// Asks what is due.
fn review(workbook: &Workbook) -> Result<ExitCode> {
    let due = due(workbook)?;
    if due.is_empty() {
        return terminal::print(
            "Nothing is due for review. What you have answered about a stage comes back two stages later.\n",
        );
    }
    let (ids, left): (Vec<_>, Vec<_>) =
        due.into_iter().map(|(id, stage, question)| (id, (question, format!("about stage {stage}")))).unzip();
    let agenda = Agenda {
        title: "What do you remember?".to_owned(),
        questions: &left,
        command: "cargo lab ask".to_owned(),
        then: None,
    };
    session(|session| {
        session.ask(&agenda, |nth, tries| answers::remember(workbook, &ids[nth], tries, tries == 1))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The questions that are due for review, each with its name in the whole workbook and its stage: those that took most
/// tries first.
fn due(workbook: &Workbook) -> Result<Vec<(String, String, Question)>> {
    let mut all = Vec::new();
    for stage in &workbook.catalog.stages {
        for question in questions::of(&stage.folder)? {
            all.push((stage.number, format!("{}/{}", stage.name(), question.id), question));
        }
    }
    let answers = Answers::read(workbook)?;
    let due = answers.due(all.iter().map(|(stage, id, _)| (*stage, id.as_str())));
    let found = due.into_iter().take(REVIEWED).filter_map(|id| all.iter().find(|(_, of, _)| of == id));
    Ok(found.map(|(stage, id, question)| (id.clone(), format!("{stage:02}"), question.clone())).collect())
}
