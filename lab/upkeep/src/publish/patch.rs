//! The two patches of an exercise, made from a working copy.

use std::fs;

use common::{OrCause, Result};
use lab::exercise::{Exercise, shown, working_copy};
use machine::workbook::{Workbook, copies, diff};

/// One of an exercise's patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Patch {
    /// From the stage or the example to the starting point.
    Start,
    /// From the starting point to the solution.
    Solution,
}

/// Makes a patch from the changes in the working copy.
pub fn save(workbook: &Workbook, exercise: &Exercise<'_>, patch: Patch) -> Result<String> {
    let (name, from) = match patch {
        Patch::Start => {
            let mut files = copies::files(exercise.program)?;
            copies::rename(&mut files, exercise.program, &exercise.binary());
            ("start.patch", files)
        }
        Patch::Solution => ("solution.patch", exercise.starting_point(&exercise.binary())?),
    };
    let file = exercise.folder.join(name);
    let text = diff::patch(&from, &working_copy(workbook, exercise)?);
    fs::write(&file, text).or_cause(format!("cannot write {}", file.display()))?;
    Ok(format!("{}\n", shown(workbook, &file)))
}
