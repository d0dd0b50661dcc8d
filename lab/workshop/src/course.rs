//! What a learner reads and writes: the programs' files, the working copies, diffs, hints, solutions, progress. All of it
//! comes from the engine of `cargo lab exercise`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use axum::http::StatusCode;
use common::{Error, OrCause, Result};
use lab::learn::exercise::{self, Exercise};
use lab::workbook::copies::{self, Files};
use lab::workbook::{Program, Workbook};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::answer::{Refusal, WithStatus};

/// The size of the largest file that somebody may save.
pub const LARGEST: usize = 1 << 20;

/// How wide the page shows a hint.
const COLUMNS: usize = 100;

/// A file as the page edits it.
#[derive(Debug, Serialize)]
pub struct Text {
    path: PathBuf,
    text: String,
    version: String,
}

/// A file on both sides of a change.
#[derive(Debug, Serialize)]
pub struct Change {
    path: PathBuf,
    old: String,
    new: String,
}

/// The workbook, as far as learners see it.
#[derive(Debug)]
pub struct Course(Workbook);

impl Course {
    /// The course of this workbook.
    pub fn new(workbook: Workbook) -> Self {
        Self(workbook)
    }

    /// The top folder of the workbook.
    pub fn root(&self) -> &Path {
        &self.0.root
    }

    /// The folder of all working copies, in which actions run.
    pub fn mine(&self) -> &Path {
        &self.0.mine
    }

    /// The programs, the exercises, and how far the learner is.
    pub fn state(&self) -> Result<(Value, Value)> {
        let (done, shown) = (exercise::done(&self.0)?, exercise::shown_hints(&self.0)?);
        let folder =
            |program: &dyn Program| if program.name().parse::<u32>().is_ok() { "stages" } else { "examples" };
        let parent = |name: &str| {
            let stage = self.0.stage(name).ok()?;
            Some(self.0.parent(stage).ok()?.name())
        };
        let programs: Vec<_> = self
            .0
            .programs()
            .map(|program| {
                let name = program.name();
                json!({
                    "title": program.title(),
                    "page": format!("{}/{name}.html", folder(program)),
                    "parent": parent(&name),
                    "name": name,
                })
            })
            .collect();
        let exercises = self.exercises()?;
        let exercises: Vec<_> = exercises
            .iter()
            .map(|exercise| {
                let id = exercise.id();
                let state = match (done.contains(&id), exercise.copy(&self.0).is_dir()) {
                    (true, _) => "done",
                    (false, true) => "started",
                    (false, false) => "new",
                };
                json!({
                    "program": exercise.program.name(),
                    "title": exercise.title,
                    "state": state,
                    "hints": exercise.hints.len(),
                    "shown": shown.iter().filter(|of| **of == id).count().min(exercise.hints.len()),
                    "id": id,
                })
            })
            .collect();
        Ok((json!(programs), json!(exercises)))
    }

    /// Files that programs wrote beside the working copies, such as `bio.html`, which a browser can show.
    pub fn results(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0.mine).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<_> = names.filter(|name| crate::pages::is_result(name)).collect();
        names.sort();
        names
    }

    /// The exercises that have numbers. Whole stages, which learners can write too, are for a terminal: they have the
    /// names of the stages.
    fn exercises(&self) -> Result<Vec<Exercise<'_>>> {
        let mut exercises = exercise::all(&self.0)?;
        exercises.retain(|exercise| exercise.number > 0);
        Ok(exercises)
    }

    /// The exercise of this name.
    pub fn exercise(&self, name: &str) -> Result<Exercise<'_>, Refusal> {
        exercise::find(&self.0, name).status(StatusCode::NOT_FOUND)
    }

    /// The stage or example of this name.
    pub fn program(&self, name: &str) -> Result<&dyn Program, Refusal> {
        self.0.program(name).status(StatusCode::NOT_FOUND)
    }

    /// A program's own files.
    pub fn files_of(&self, program: &str) -> Result<Vec<Text>, Refusal> {
        Ok(texts(copies::files(self.program(program)?)?))
    }

    /// The files of a working copy.
    pub fn files(&self, name: &str) -> Result<Vec<Text>, Refusal> {
        Ok(texts(exercise::working_copy(&self.0, &self.exercise(name)?).status(StatusCode::NOT_FOUND)?))
    }

    /// What a stage changes in its parent.
    pub fn change_of(&self, program: &str) -> Result<(String, Vec<Change>), Refusal> {
        self.program(program)?;
        let new = self.0.stage(program)?;
        let old = self.0.parent(new)?;
        let head =
            format!("From stage {:02} to stage {:02}, which adds {}", old.number, new.number, new.adds);
        Ok((head, changes(copies::files(old)?, copies::files(new)?)))
    }

    /// What the learner changed since the start.
    pub fn change(&self, name: &str) -> Result<(String, Vec<Change>), Refusal> {
        let exercise = self.exercise(name)?;
        let mine = exercise::working_copy(&self.0, &exercise).status(StatusCode::NOT_FOUND)?;
        let start = exercise.starting_point(&exercise.binary())?;
        Ok((format!("From the starting point of {name} to yours"), changes(start, mine)))
    }

    /// What our solution changes in the starting point.
    pub fn solution(&self, name: &str, peek: bool) -> Result<(String, Vec<Change>), Refusal> {
        let exercise = self.exercise(name)?;
        let solution = exercise::our_solution(&self.0, &exercise, peek, "exercise solution");
        let solution = solution.status(StatusCode::FORBIDDEN)?;
        let start = exercise.starting_point(&exercise.binary())?;
        Ok((format!("From the starting point of {name} to our solution"), changes(start, solution)))
    }

    /// Makes the working copy, or with `again` discards it and makes a new one.
    pub fn start(&self, name: &str, again: bool) -> Result<String, Refusal> {
        exercise::start(&self.0, &self.exercise(name)?, again).status(StatusCode::CONFLICT)
    }

    /// The next hint.
    pub fn hint(&self, name: &str) -> Result<Value, Refusal> {
        let exercise = self.exercise(name)?;
        let text = exercise::next_hint(&self.0, &exercise, COLUMNS)?;
        let shown = exercise::shown_hints(&self.0)?.iter().filter(|of| *of == name).count();
        Ok(json!({ "text": text, "shown": shown, "hints": exercise.hints.len() }))
    }

    /// Saves a file of a working copy, unless somebody else has changed it since this version. Returns the new version,
    /// or what the file has now.
    pub fn save(
        &self,
        name: &str,
        path: &str,
        version: &str,
        text: &str,
    ) -> Result<Result<String, Text>, Refusal> {
        if text.len() > LARGEST {
            return Err(Refusal(StatusCode::PAYLOAD_TOO_LARGE, too_large(path)));
        }
        let exercise = self.exercise(name)?;
        let files = self.files(name)?;
        // Only what a working copy has can be changed, so no path leads elsewhere.
        let Some(file) = files.into_iter().find(|file| file.path == Path::new(path)) else {
            let error = Error::new(format!("{name} has no file {path}"))
                .fix("a working copy's files are those that the editor shows");
            return Err(Refusal(StatusCode::NOT_FOUND, error));
        };
        if file.version != version && file.text != text {
            return Ok(Err(file));
        }
        if file.text != text {
            replace(&exercise.copy(&self.0).join(path), text)
                .map_err(|error| Refusal(StatusCode::INSUFFICIENT_STORAGE, error))?;
        }
        Ok(Ok(self::version(text)))
    }

    /// The learner's exercises that were started, with the files at the start and now.
    pub fn works(&self) -> Result<Vec<(String, Files, Files)>> {
        let exercises = self.exercises()?;
        let started = exercises.iter().filter(|exercise| exercise.copy(&self.0).is_dir());
        started
            .map(|exercise| {
                let start = exercise.starting_point(&exercise.binary())?;
                Ok((exercise.id(), start, exercise::working_copy(&self.0, exercise)?))
            })
            .collect()
    }

    /// Replaces the files of a working copy, which is made first if there is none. What the exercise doesn't have is
    /// left out.
    pub fn restore(&self, name: &str, files: &Files) -> Result<(), Refusal> {
        let exercise = self.exercise(name)?;
        if !exercise.copy(&self.0).is_dir() {
            exercise::start(&self.0, &exercise, false)?;
        }
        for (path, _) in exercise::working_copy(&self.0, &exercise)? {
            if let Some((_, text)) = files.iter().find(|(restored, _)| *restored == path) {
                replace(&exercise.copy(&self.0).join(path), text)?;
            }
        }
        Ok(())
    }
}

/// The error for a file that is too large.
pub fn too_large(path: &str) -> Error {
    Error::new(format!("{path} is too large"))
        .evidence(format!("a file may have {LARGEST} bytes"))
        .fix("remove some of it: the largest of our sources has less than a tenth of that")
}

/// Writes a file completely or, if the disk is full, not at all.
fn replace(path: &Path, text: &str) -> Result<()> {
    let cannot = || format!("cannot save {}", path.display());
    let folder = path.parent().unwrap_or(path);
    let mut file = tempfile::Builder::new().prefix(".saving-").tempfile_in(folder).or_cause(cannot())?;
    file.write_all(text.as_bytes()).or_cause(cannot())?;
    if let Ok(old) = fs::metadata(path) {
        file.as_file().set_permissions(old.permissions()).or_cause(cannot())?;
    }
    file.persist(path).map_err(|error| error.error).or_cause(cannot())?;
    Ok(())
}

fn texts(files: Files) -> Vec<Text> {
    files.into_iter().map(|(path, text)| Text { version: version(&text), path, text }).collect()
}

/// Names what a file has.
fn version(text: &str) -> String {
    Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The files that differ. Two stages may have different names for a file in the same place.
fn changes(old: Files, new: Files) -> Vec<Change> {
    let pairs =
        old.into_iter().zip(new).filter(|((_, old), (path, new))| path.starts_with("src") && old != new);
    pairs.map(|((_, old), (path, new))| Change { path, old, new }).collect()
}
