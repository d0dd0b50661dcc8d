//! What a learner reads and writes: the programs' files, the working copies, diffs, hints, solutions, progress. All of it
//! comes from the engine of `cargo lab exercise`.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::UNIX_EPOCH;

use axum::http::StatusCode;
use common::{Error, OrCause, Result};
use lab::clinic::{self, Case};
use lab::exercise::{self, Exercise};
use machine::workbook::copies::{self, Change, Files};
use machine::workbook::{Program, Workbook, diff};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::asking::Asking;
use crate::cases;
use crate::response::{Refusal, WithStatus};
use crate::terminals::lock;
use crate::words::Words;

/// The size of the largest file that somebody may save.
pub const LARGEST: usize = 1 << 20;

/// What the page has for the clinic where an exercise has its program.
const CLINIC: &str = "clinic";

/// How wide the page shows a hint.
const COLUMNS: usize = 100;

/// A file as the page edits it.
#[derive(Debug, Serialize)]
pub struct Text {
    path: PathBuf,
    text: String,
    version: String,
}

/// What a learner has of an exercise.
#[derive(Debug)]
pub struct Work {
    /// The exercise.
    pub id: String,
    /// What it started with.
    pub start: Files,
    /// What it has now.
    pub files: Files,
}

/// The workbook, as far as learners see it.
#[derive(Debug)]
pub struct App {
    workbook: Workbook,
    /// The clinic's.
    cases: Vec<Case>,
    /// What the editor completes with.
    pub words: Words,
    /// The questions.
    pub asking: Asking,
    /// Who may write into the working copies, and the versions that were saved of each file, the newest last.
    turn: Mutex<HashMap<PathBuf, Vec<String>>>,
}

impl App {
    /// The course of this workbook.
    ///
    /// # Errors
    /// If its questions can't be read.
    pub fn new(workbook: Workbook) -> Result<Self> {
        // Without its folder, there is no clinic.
        let cases = clinic::cases(&workbook).unwrap_or_default();
        let (words, asking) = (Words::new(&workbook), Asking::new(&workbook)?);
        Ok(Self { words, asking, cases, workbook, turn: Mutex::default() })
    }

    /// The clinic's case that the page calls so, such as `clinic-01`.
    pub fn case(&self, id: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.id() == id)
    }

    /// Whether programs run right here, in the workshop's guest.
    pub fn is_in_guest(&self) -> bool {
        self.workbook.is_in_guest()
    }

    /// The workbook itself.
    pub fn workbook(&self) -> &Workbook {
        &self.workbook
    }

    /// The top folder of the workbook.
    pub fn root(&self) -> &Path {
        &self.workbook.root
    }

    /// The folder of all working copies, in which actions run.
    pub fn mine(&self) -> &Path {
        &self.workbook.mine
    }

    /// The programs, the exercises, and how far the learner is.
    pub fn state(&self) -> Result<(Value, Value)> {
        let (done, shown) = (exercise::done(&self.workbook)?, exercise::shown_hints(&self.workbook)?);
        let parent = |name: &str| {
            let stage = self.workbook.catalog.stage(name).ok()?;
            Some(self.workbook.catalog.parent(stage).ok()?.name())
        };
        let programs: Vec<_> = self
            .workbook
            .catalog
            .programs()
            .map(|program| {
                let name = program.name();
                json!({
                    "title": program.title,
                    "page": program.page().with_extension("html"),
                    "parent": parent(&name),
                    "name": name,
                })
            })
            .collect();
        let exercises = self.exercises()?;
        let mut exercises: Vec<_> = exercises
            .iter()
            .map(|exercise| {
                let id = exercise.id();
                let is_done = done.contains(&id);
                let state = match (exercise.copy(&self.workbook).is_dir(), is_done) {
                    (false, _) => "new",
                    (true, false) => "started",
                    (true, true) => "done",
                };
                json!({
                    "program": exercise.program.name(),
                    "title": exercise.title,
                    "state": state,
                    // Also of a copy that has been removed since.
                    "done": is_done,
                    "hints": exercise.hints.len(),
                    "stamp": stamp(&exercise.copy(&self.workbook)),
                    // Their texts.
                    "shown": hints(&id, &exercise.hints, &shown),
                    "id": id,
                })
            })
            .collect();
        exercises.extend(self.cases.iter().map(|case| {
            let (id, copy) = (case.id(), case.copy(&self.workbook));
            let (is_done, hints) = (done.contains(&id), case.hints());
            let state = match (copy.exists(), is_done) {
                (false, _) => "new",
                (true, false) => "started",
                (true, true) => "done",
            };
            json!({
                "program": CLINIC,
                "title": case.title,
                "state": state,
                "done": is_done,
                "hints": hints.len(),
                "stamp": modified(&copy).map(|time| time.to_string()),
                "shown": self::hints(&id, &hints, &shown),
                "id": id,
            })
        }));
        Ok((json!(programs), json!(exercises)))
    }

    /// Files that programs wrote beside the working copies, such as `bio.html`, which a browser can show.
    pub fn results(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.workbook.mine).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<_> = names.filter(|name| crate::pages::is_result(name)).collect();
        names.sort();
        names
    }

    /// The exercises that have numbers. Whole stages, which learners can write too, are for a terminal: they have the
    /// names of the stages.
    fn exercises(&self) -> Result<Vec<Exercise<'_>>> {
        let mut exercises = exercise::all(&self.workbook)?;
        exercises.retain(|exercise| exercise.number > 0);
        Ok(exercises)
    }

    /// The exercise of this name.
    pub fn exercise(&self, name: &str) -> Result<Exercise<'_>, Refusal> {
        exercise::find(&self.workbook, name).status(StatusCode::NOT_FOUND)
    }

    /// The stage or example of this name.
    pub fn program(&self, name: &str) -> Result<&Program, Refusal> {
        self.workbook.catalog.program(name).status(StatusCode::NOT_FOUND)
    }

    /// A program's own files.
    pub fn files_of(&self, program: &str) -> Result<Vec<Text>, Refusal> {
        Ok(texts(copies::files(self.program(program)?)?))
    }

    /// The files of a working copy.
    pub fn files(&self, name: &str) -> Result<Vec<Text>, Refusal> {
        if let Some(case) = self.case(name) {
            return Ok(texts(cases::working_copy(&self.workbook, case)?));
        }
        Ok(texts(
            exercise::working_copy(&self.workbook, &self.exercise(name)?).status(StatusCode::NOT_FOUND)?,
        ))
    }

    /// What a stage changes in its parent.
    pub fn change_of(&self, program: &str) -> Result<(String, Vec<Change>), Refusal> {
        self.program(program)?;
        let new = self.workbook.catalog.stage(program)?;
        let old = self.workbook.catalog.parent(new)?;
        Ok((diff::head(old, new), copies::changes(copies::files(old)?, copies::files(new)?)))
    }

    /// What the learner changed since the start.
    pub fn change(&self, name: &str) -> Result<(String, Vec<Change>), Refusal> {
        if let Some(case) = self.case(name) {
            let mine = cases::working_copy(&self.workbook, case)?;
            let head = format!("From the refused program of {name} to yours");
            return Ok((head, cases::changes(&cases::start(case), &mine)));
        }
        let exercise = self.exercise(name)?;
        exercise::changes(&self.workbook, &exercise).status(StatusCode::NOT_FOUND)
    }

    /// What our solution changes in the starting point, or in what the learner has.
    pub fn solution(
        &self,
        name: &str,
        peek: bool,
        from_mine: bool,
    ) -> Result<(String, Vec<Change>), Refusal> {
        if let Some(case) = self.case(name) {
            return cases::cure(&self.workbook, case, peek, from_mine);
        }
        let exercise = self.exercise(name)?;
        let is_open = peek || exercise::done(&self.workbook)?.contains(&exercise.id());
        let solution = exercise::our_solution(&self.workbook, &exercise, peek, "exercise solution");
        let status = if is_open { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::FORBIDDEN };
        let solution = solution.status(status)?;
        let (head, old) = if from_mine {
            let mine = exercise::working_copy(&self.workbook, &exercise).status(StatusCode::NOT_FOUND)?;
            (format!("From your {name} (red) to ours (green)"), mine)
        } else {
            let start = exercise.starting_point(&exercise.binary())?;
            (format!("From the starting point of {name} to our solution"), start)
        };
        Ok((head, copies::changes(old, solution)))
    }

    /// Makes the working copy, or with `again` discards it and makes a new one.
    pub fn start(&self, name: &str, again: bool) -> Result<String, Refusal> {
        let _turn = lock(&self.turn);
        let status = |is_there| match is_there && !again {
            true => StatusCode::CONFLICT,
            false => StatusCode::INSUFFICIENT_STORAGE,
        };
        if let Some(case) = self.case(name) {
            let is_there = case.copy(&self.workbook).exists();
            return clinic::start(&self.workbook, case, again).status(status(is_there));
        }
        let exercise = self.exercise(name)?;
        let status = status(exercise.copy(&self.workbook).is_dir());
        exercise::start(&self.workbook, &exercise, again).status(status)
    }

    /// The next hint, with those before it.
    pub fn hint(&self, name: &str) -> Result<Value, Refusal> {
        let _turn = lock(&self.turn);
        let (id, all) = match self.case(name) {
            Some(case) => {
                clinic::hint(&self.workbook, case, COLUMNS)?;
                (case.id(), case.hints())
            }
            None => {
                let exercise = self.exercise(name)?;
                exercise::next_hint(&self.workbook, &exercise, COLUMNS)?;
                (exercise.id(), exercise.hints)
            }
        };
        // The page has its own title, and a button for the next one.
        Ok(json!({ "shown": hints(&id, &all, &exercise::shown_hints(&self.workbook)?) }))
    }

    /// Saves a file of a working copy, unless somebody else has changed it since this version. Returns the new version,
    /// or what the file has now, and whether it has had this text in between.
    pub fn save(
        &self,
        name: &str,
        path: &str,
        version: &str,
        text: &str,
    ) -> Result<Result<String, (Text, bool)>, Refusal> {
        if text.len() > LARGEST {
            return Err(Refusal(StatusCode::PAYLOAD_TOO_LARGE, too_large(path)));
        }
        let mut turn = lock(&self.turn);
        let file = match self.case(name) {
            Some(case) => case.copy(&self.workbook),
            None => self.exercise(name)?.started(&self.workbook).status(StatusCode::NOT_FOUND)?.join(path),
        };
        let new = self::version(text);
        let saved = turn.entry(file.clone()).or_default();
        let mut write = || {
            replace(&file, text).status(StatusCode::INSUFFICIENT_STORAGE)?;
            saved.push(new.clone());
            Ok::<_, Refusal>(())
        };
        // Somebody removed it while the learner typed.
        if is_source(Path::new(path)) && !file.exists() {
            return write().map(|()| Ok(new));
        }
        // Only what a working copy has can be changed, so no path leads elsewhere.
        let files = self.files(name)?;
        let Some(file) = files.into_iter().find(|file| file.path == Path::new(path)) else {
            let error = Error::new(format!("{name} has no file {path}"))
                .fix("a working copy's files are those that the editor shows");
            return Err(Refusal(StatusCode::NOT_FOUND, error));
        };
        if file.version != version && file.text != text {
            let since = saved.iter().rposition(|old| old == version).map_or(0, |at| at + 1);
            return Ok(Err((file, saved[since..].contains(&new))));
        }
        if file.text != text {
            write()?;
        }
        Ok(Ok(new))
    }

    /// What the learner has of each exercise that was started, whole stages included, or why that can't be read.
    pub fn works(&self) -> Result<Vec<Result<Work, (String, Error)>>> {
        let exercises = exercise::all(&self.workbook)?;
        let work = |exercise: &Exercise<'_>| {
            let start = exercise.starting_point(&exercise.binary())?;
            Ok(Work { id: exercise.id(), start, files: exercise::working_copy(&self.workbook, exercise)? })
        };
        let started = exercises.iter().filter(|exercise| exercise.copy(&self.workbook).is_dir());
        let started = started.map(|exercise| work(exercise).map_err(|error| (exercise.id(), error)));
        let cases = self.cases.iter().filter(|case| case.copy(&self.workbook).exists());
        let cases = cases.map(|case| match cases::working_copy(&self.workbook, case) {
            Ok(files) => Ok(Work { id: case.id(), start: cases::start(case), files }),
            Err(Refusal(_, error)) => Err((case.id(), error)),
        });
        Ok(started.chain(cases).collect())
    }

    /// Whether an exercise has this name, and this is the path of a source in its working copy.
    pub fn takes(&self, id: &str, path: &Path) -> bool {
        match self.case(id) {
            Some(case) => path == Path::new(&case.file),
            None => is_source(path) && self.exercise(id).is_ok_and(|exercise| exercise.id() == id),
        }
    }

    /// Whether this would change a working copy that is there.
    pub fn would_lose(&self, id: &str, files: &Files) -> bool {
        let now = match self.case(id) {
            Some(case) => cases::working_copy(&self.workbook, case).ok(),
            None => {
                let exercise = self.exercise(id).ok();
                exercise.and_then(|exercise| exercise::working_copy(&self.workbook, &exercise).ok())
            }
        };
        let differs = |(path, text): &(PathBuf, String)| {
            files.iter().any(|(restored, new)| restored == path && new != text)
        };
        now.is_some_and(|now| now.iter().any(differs))
    }

    /// Writes these sources, which it takes, into a working copy, which is made first if there is none.
    pub fn restore(&self, id: &str, files: &Files) -> Result<(), Refusal> {
        let _turn = lock(&self.turn);
        if let Some(case) = self.case(id) {
            return files.iter().try_for_each(|(_, text)| {
                replace(&case.copy(&self.workbook), text).status(StatusCode::INSUFFICIENT_STORAGE)
            });
        }
        let exercise = self.exercise(id)?;
        let copy = exercise.copy(&self.workbook);
        if !copy.is_dir() {
            exercise::start(&self.workbook, &exercise, false)?;
        }
        for (path, text) in files {
            replace(&copy.join(path), text).status(StatusCode::INSUFFICIENT_STORAGE)?;
        }
        Ok(())
    }
}

/// Whether this is the path of a source, such as `src/main.rs` or `src/bpf/trace.bpf.c`. Build scripts and manifests are
/// none: they would decide what runs on this machine.
fn is_source(path: &Path) -> bool {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return false;
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    // No file system has longer ones.
    let is_short = name.len() < 256;
    let ends: &[&str] = match folder.to_str() {
        Some("src") => &[".rs"],
        Some("src/bpf") => &[".bpf.c", ".h"],
        _ => &[],
    };
    is_short
        && name.chars().all(is_plain)
        && !name.starts_with('.')
        && ends.iter().any(|end| name.ends_with(end))
}

/// Changes whenever a source in this working copy does.
fn stamp(copy: &Path) -> Option<String> {
    let entries = |folder: &str| fs::read_dir(copy.join(folder)).into_iter().flatten().flatten();
    let times = entries("src").chain(entries("src/bpf")).filter_map(|entry| modified(&entry.path()));
    copy.is_dir().then(|| times.fold(0, u128::wrapping_add).to_string())
}

/// When a file was changed, in nanoseconds.
fn modified(path: &Path) -> Option<u128> {
    let time = fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(time.as_nanos())
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
    fs::create_dir_all(folder).or_cause(cannot())?;
    let mut file = tempfile::Builder::new().prefix(".saving-").tempfile_in(folder).or_cause(cannot())?;
    file.write_all(text.as_bytes()).or_cause(cannot())?;
    if let Ok(old) = fs::metadata(path) {
        file.as_file().set_permissions(old.permissions()).or_cause(cannot())?;
    }
    // The page forgets its own copy of the text as soon as we answer.
    file.as_file().sync_all().or_cause(cannot())?;
    file.persist(path).map_err(|error| error.error).or_cause(cannot())?;
    Ok(())
}

/// Of these hints of an exercise, those that were shown.
fn hints<'a>(id: &str, all: &'a [String], shown: &[String]) -> &'a [String] {
    let count = shown.iter().filter(|of| *of == id).count();
    &all[..count.min(all.len())]
}

fn texts(files: Files) -> Vec<Text> {
    files.into_iter().map(|(path, text)| Text { version: version(&text), path, text }).collect()
}

/// Names what a file has.
fn version(text: &str) -> String {
    Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sources_are_restored() {
        for path in ["src/main.rs", "src/helper.rs", "src/bpf/x.bpf.c", "src/bpf/x.h"] {
            assert!(is_source(Path::new(path)), "{path}");
        }
        for path in [
            "build.rs",
            "Cargo.toml",
            "src/x.sh",
            "src/.x.rs",
            "src/a/b.rs",
            "../src/main.rs",
            "src/bpf/main.rs",
        ] {
            assert!(!is_source(Path::new(path)), "{path}");
        }
    }
}
