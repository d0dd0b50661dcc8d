//! `cargo lab ask 03`: asks the questions of a stage, one at a time, and remembers which ones were answered.
//!
//! It is a program apart from `cargo lab`, which builds it when somebody asks for questions: the library that reads them
//! would make everybody's first build longer.

#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

mod session;

use std::collections::BTreeSet;
use std::io::{IsTerminal, stdin, stdout};
use std::process::ExitCode;

use clap::Parser;
use common::{Error, Result};
use lab::exercise::{change_list, read_list};
use machine::terminal;
use machine::workbook::{Program, Workbook};
use questions::Question;

use crate::session::{Answered, Session};

/// The file in `mine` that remembers the answers: a question, and at which try it was answered.
const ANSWERS: &str = "answers.txt";

/// Ask about a stage: first what its run will show, then why
#[derive(Parser)]
#[command(name = "cargo lab ask", bin_name = "cargo lab ask", version)]
struct Ask {
    /// The stage, such as 03
    #[arg(value_name = "STAGE")]
    program: String,
    /// Ask again what you have answered
    #[arg(long)]
    again: bool,
}

fn main() -> Result<ExitCode> {
    let ask = Ask::parse();
    let workbook = Workbook::read()?;
    let program = workbook.catalog.program(&ask.program)?;
    let name = program.name();
    let all = questions::of(program.folder())?;
    if all.is_empty() {
        return Err(Error::new(format!("{name} has no questions yet"))
            .evidence(format!("these have: {}", with_questions(&workbook)?.join(", ")))
            .fix("name one of them: cargo lab ask 01"));
    }
    let answered = if ask.again { BTreeSet::new() } else { answered(&workbook)? };
    let mut left = all.clone();
    left.retain(|question| !answered.contains(&id(program, question)));
    if left.is_empty() {
        return terminal::print(&format!(
            "You have answered all {} questions of {name}. To answer them again: cargo lab ask {name} --again\n",
            all.len()
        ));
    }
    let mut session = Session {
        input: &mut stdin().lock(),
        output: &mut stdout(),
        columns: terminal::columns(),
        is_terminal: stdin().is_terminal() && stdout().is_terminal(),
    };
    session.ask(&name, program.title(), &left, |question, answered| {
        remember(&workbook, &id(program, question), answered)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A question's name in the whole workbook, such as `03/lines`.
fn id(program: &dyn Program, question: &Question) -> String {
    format!("{}/{}", program.name(), question.id)
}

/// The stages and examples that have questions.
fn with_questions(workbook: &Workbook) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for program in workbook.catalog.programs() {
        if !questions::of(program.folder())?.is_empty() {
            names.push(program.name());
        }
    }
    Ok(names)
}

/// The questions that the learner has answered.
fn answered(workbook: &Workbook) -> Result<BTreeSet<String>> {
    let lines = read_list(workbook, ANSWERS)?;
    Ok(lines.iter().filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect())
}

/// Remembers that a question was answered. The last time counts.
fn remember(workbook: &Workbook, id: &str, answered: Answered) -> Result<()> {
    change_list(workbook, ANSWERS, |lines| {
        lines.retain(|line| line.split(' ').next() != Some(id));
        lines.push(format!("{id} {}", answered.tries));
        lines.sort();
    })
}
