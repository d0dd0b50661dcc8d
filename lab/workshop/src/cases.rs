//! The clinic's cases, which the page treats as exercises: a program to change, a check, hints, a cure.

use std::fs;
use std::path::PathBuf;

use axum::http::StatusCode;
use common::{Error, OrCause, Result};
use lab::clinic::{self, Case};
use lab::exercise;
use machine::workbook::Workbook;
use machine::workbook::copies::{Change, Files};

use crate::response::{Refusal, WithStatus};

/// The program that is refused.
pub fn start(case: &Case) -> Files {
    vec![(PathBuf::from(&case.file), case.source.clone())]
}

/// What the learner has of it.
pub fn working_copy(workbook: &Workbook, case: &Case) -> Result<Files, Refusal> {
    let copy = case.copy(workbook);
    if !copy.exists() {
        let error = Error::new(format!("there is no working copy of {} yet", case.id()));
        return Err(Refusal(StatusCode::NOT_FOUND, error.fix("start it: the lesson has a button")));
    }
    let text = fs::read_to_string(&copy).or_cause(format!("cannot read {}", copy.display()))?;
    Ok(vec![(PathBuf::from(&case.file), text)])
}

/// The file that differs, if it does.
pub fn changes(old: &Files, new: &Files) -> Vec<Change> {
    let differs = old.iter().zip(new).filter(|(old, new)| old != new);
    let change = |(path, text): &(PathBuf, String), new: &String| Change {
        path: path.clone(),
        old: Some(text.clone()),
        new: Some(new.clone()),
    };
    differs.map(|(old, (_, new))| change(old, new)).collect()
}

/// What our cure changes in the program, or in what the learner has.
pub fn cure(
    workbook: &Workbook,
    case: &Case,
    peek: bool,
    from_mine: bool,
) -> Result<(String, Vec<Change>), Refusal> {
    // Our cure is there if the check has passed.
    let is_open = peek || exercise::done(workbook)?.contains(&case.id());
    let status = if is_open { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::FORBIDDEN };
    clinic::solution(workbook, case, peek).status(status)?;
    let cured = vec![(PathBuf::from(&case.file), case.cured()?)];
    let id = case.id();
    Ok(match from_mine {
        true => {
            (format!("From your {id} (red) to ours (green)"), changes(&working_copy(workbook, case)?, &cured))
        }
        false => (format!("From the refused program of {id} to our cure"), changes(&start(case), &cured)),
    })
}
