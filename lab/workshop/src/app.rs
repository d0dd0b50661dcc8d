//! What a learner reads and writes: the programs' files, the working copies, diffs, hints, solutions, progress. All of it
//! comes from the engine of `cargo lab exercise`.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use axum::http::StatusCode;
use common::{Error, OrCause, Result};
use lab::clinic::{self, Case};
use lab::exercise;
use machine::workbook::copies::{self, Change, Files};
use machine::workbook::{Program, Workbook, diff};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::asking::Asking;
use crate::response::{Refusal, WithStatus};
use crate::terminals::lock;
use crate::words::Words;
use crate::work::{Kind, Work};

pub const LARGEST: usize = 1 << 20;

const COLUMNS: usize = 100;

/// A file as the page edits it.
#[derive(Debug, Serialize)]
pub struct Text {
    path: PathBuf,
    text: String,
    version: String,
}

/// The workbook, as far as learners see it.
pub struct App {
    pub workbook: Workbook,
    /// The clinic's.
    cases: Vec<Case>,
    pub words: Words,
    pub asking: Asking,
    /// Who may write into the working copies, and the versions that were saved of each file, the newest last.
    turn: Mutex<HashMap<PathBuf, Vec<String>>>,
}

impl App {
    pub fn new(workbook: Workbook) -> Result<Self> {
        // Without its folder, there is no clinic.
        let cases = clinic::cases(&workbook).unwrap_or_default();
        let (words, asking) = (Words::new(&workbook), Asking::new(&workbook)?);
        Ok(Self { words, asking, cases, workbook, turn: Mutex::default() })
    }

    /// The exercise or the case that the page calls so, such as `03.1` or `clinic-01`.
    pub fn work(&self, name: &str) -> Result<Work<'_>, Refusal> {
        let kind = match self.cases.iter().find(|case| case.id() == name) {
            Some(case) => Kind::Case(case),
            None => {
                let exercise = exercise::find(&self.workbook, name).status(StatusCode::NOT_FOUND)?;
                Kind::Exercise(Box::new(exercise))
            }
        };
        Ok(Work { workbook: &self.workbook, kind })
    }

    pub fn works(&self) -> Result<impl Iterator<Item = Work<'_>>> {
        let exercises = exercise::all(&self.workbook)?.into_iter();
        let kinds =
            exercises.map(|one| Kind::Exercise(Box::new(one))).chain(self.cases.iter().map(Kind::Case));
        Ok(kinds.map(|kind| Work { workbook: &self.workbook, kind }))
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
        let works: Vec<_> = self.works()?.filter_map(|work| work.describe(&done, &shown)).collect();
        Ok((json!(programs), json!(works)))
    }

    /// Files that programs wrote beside the working copies, such as `bio.html`, which a browser can show.
    pub fn results(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.workbook.mine).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<_> = names.filter(|name| crate::pages::is_result(name)).collect();
        names.sort();
        names
    }

    pub fn program(&self, name: &str) -> Result<&Program, Refusal> {
        self.workbook.catalog.program(name).status(StatusCode::NOT_FOUND)
    }

    pub fn files_of(&self, program: &str) -> Result<Value, Refusal> {
        Ok(json!({ "files": texts(copies::files(self.program(program)?)?) }))
    }

    pub fn files(&self, name: &str) -> Result<Value, Refusal> {
        Ok(json!({ "files": texts(self.work(name)?.files()?) }))
    }

    /// What a stage changes in its parent.
    pub fn change_of(&self, program: &str) -> Result<Value, Refusal> {
        self.program(program)?;
        let new = self.workbook.catalog.stage(program)?;
        let old = self.workbook.catalog.parent(new)?;
        Ok(changes(&diff::head(old, new), &copies::changes(copies::files(old)?, copies::files(new)?)))
    }

    /// What the learner changed since the start.
    pub fn change(&self, name: &str) -> Result<Value, Refusal> {
        let work = self.work(name)?;
        let mine = work.files()?;
        let changed = work.changes(work.start_files()?, mine);
        Ok(changes(&format!("From {} to yours", work.origin().0), &changed))
    }

    /// What our solution changes in the starting point, or in what the learner has.
    pub fn solution(&self, name: &str, peek: bool, from_mine: bool) -> Result<Value, Refusal> {
        let work = self.work(name)?;
        let is_open = peek || exercise::done(&self.workbook)?.contains(&work.id());
        let status = if is_open { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::FORBIDDEN };
        let solution = work.solution(peek).status(status)?;
        let (head, old) = match (from_mine, work.origin()) {
            (true, _) => (format!("From your {name} (red) to ours (green)"), work.files()?),
            (false, (start, ours)) => (format!("From {start} to {ours}"), work.start_files()?),
        };
        Ok(changes(&head, &work.changes(old, solution)))
    }

    /// Makes the working copy, or with `again` discards it and makes a new one.
    pub fn start(&self, name: &str, again: bool) -> Result<String, Refusal> {
        let _turn = lock(&self.turn);
        let work = self.work(name)?;
        let is_there = work.is_started() && !again;
        let status = if is_there { StatusCode::CONFLICT } else { StatusCode::INSUFFICIENT_STORAGE };
        work.start(again).status(status)
    }

    /// The next hint, with those before it. The page has its own title, and a button for the next one.
    pub fn hint(&self, name: &str) -> Result<Value, Refusal> {
        let _turn = lock(&self.turn);
        let work = self.work(name)?;
        exercise::next_of(&self.workbook, &work.id(), &work.hints(), "", COLUMNS)?;
        Ok(json!({ "shown": work.shown(&exercise::shown_hints(&self.workbook)?) }))
    }

    /// Saves a file of a working copy, unless somebody else has changed it since this version. Returns the new version,
    /// or an error with what the file has now, and whether it has had this text in between.
    pub fn save(
        &self,
        name: &str,
        path: &str,
        version: &str,
        text: &str,
    ) -> Result<Result<String, Value>, Refusal> {
        if text.len() > LARGEST {
            return Err(Refusal(StatusCode::PAYLOAD_TOO_LARGE, too_large(path)));
        }
        let mut turn = lock(&self.turn);
        let work = self.work(name)?;
        let file = work.folder().join(path);
        let new = self::version(text);
        let saved = turn.entry(file.clone()).or_default();
        let mut write = || {
            replace(&file, text).status(StatusCode::INSUFFICIENT_STORAGE)?;
            saved.push(new.clone());
            Ok::<_, Refusal>(())
        };
        // Somebody removed it while the learner typed.
        if work.is_started() && work.takes(Path::new(path)) && !file.exists() {
            return write().map(|()| Ok(new));
        }
        // Only what a working copy has can be changed, so no path leads elsewhere.
        let Some(file) = texts(work.files()?).into_iter().find(|file| file.path == Path::new(path)) else {
            let error = Error::new(format!("{name} has no file {path}"))
                .fix("a working copy's files are those that the editor shows");
            return Err(Refusal(StatusCode::NOT_FOUND, error));
        };
        if file.version != version && file.text != text {
            let since = saved.iter().rposition(|old| old == version).map_or(0, |at| at + 1);
            let error = Error::new(format!("{path} has changed since you opened it"))
                .evidence("another tab or editor saved it")
                .fix("choose which text to keep");
            let mut conflict = json!(error);
            conflict["text"] = file.text.into();
            conflict["version"] = file.version.into();
            conflict["was_saved"] = saved[since..].contains(&new).into();
            return Ok(Err(conflict));
        }
        if file.text != text {
            write()?;
        }
        Ok(Ok(new))
    }

    /// Whether an exercise has this name, and this is the path of a source in its working copy.
    pub fn takes(&self, id: &str, path: &Path) -> bool {
        self.work(id).is_ok_and(|work| work.id() == id && work.takes(path))
    }

    /// Whether this would change a working copy that is there.
    pub fn would_lose(&self, id: &str, files: &Files) -> bool {
        let now = self.work(id).and_then(|work| work.files()).unwrap_or_default();
        let differs = |(path, text): &(PathBuf, String)| {
            files.iter().any(|(restored, new)| restored == path && new != text)
        };
        now.iter().any(differs)
    }

    /// Writes these sources, which it takes, into a working copy, which is made first if there is none.
    pub fn restore(&self, id: &str, files: &Files) -> Result<(), Refusal> {
        let _turn = lock(&self.turn);
        let work = self.work(id)?;
        // A case is one file, which is one of these.
        if matches!(work.kind, Kind::Exercise(_)) && !work.is_started() {
            work.start(false)?;
        }
        let write = |(path, text): &(PathBuf, String)| replace(&work.folder().join(path), text);
        files.iter().try_for_each(write).status(StatusCode::INSUFFICIENT_STORAGE)
    }
}

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

fn changes(head: &str, files: &[Change]) -> Value {
    json!({ "head": head, "files": files })
}

fn texts(files: Files) -> Vec<Text> {
    files.into_iter().map(|(path, text)| Text { version: version(&text), path, text }).collect()
}

/// Names what a file has.
fn version(text: &str) -> String {
    Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
