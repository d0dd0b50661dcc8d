//! What a learner works on: an exercise, or a case of the clinic, which the page treats as one: a program to change, a check,
//! hints, a solution.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use axum::http::StatusCode;
use common::{Error, OrCause, Result};
use lab::clinic::{self, Case};
use lab::exercise::{self, Exercise};
use machine::workbook::Workbook;
use machine::workbook::copies::{self, Change, Files};
use serde_json::{Value, json};

use crate::response::{Refusal, WithStatus};

/// What the page has for the clinic where an exercise has its program.
const CLINIC: &str = "clinic";

pub struct Work<'a> {
    pub workbook: &'a Workbook,
    pub kind: Kind<'a>,
}

pub enum Kind<'a> {
    Exercise(Box<Exercise<'a>>),
    Case(&'a Case),
}
use Kind::{Case as OfClinic, Exercise as OfProgram};

impl Work<'_> {
    /// Such as `03.1` or `clinic-01`.
    pub fn id(&self) -> String {
        match &self.kind {
            OfProgram(exercise) => exercise.id(),
            OfClinic(case) => case.id(),
        }
    }

    /// The words of the driver's command that checks it.
    pub fn check(&self) -> [String; 3] {
        let (part, name) = match &self.kind {
            OfProgram(exercise) => ("exercise", exercise.id()),
            OfClinic(case) => ("clinic", case.number().to_owned()),
        };
        [part.to_owned(), "check".to_owned(), name]
    }

    pub fn hints(&self) -> Vec<String> {
        match &self.kind {
            OfProgram(exercise) => exercise.hints.clone(),
            OfClinic(case) => case.hints(),
        }
    }

    /// Of its hints, those that were shown.
    pub fn shown(&self, all: &[String]) -> Vec<String> {
        let (mut hints, id) = (self.hints(), self.id());
        hints.truncate(all.iter().filter(|of| **of == id).count());
        hints
    }

    /// The folder of the working copy, which may not be there yet.
    pub fn folder(&self) -> PathBuf {
        self.workbook.mine.join(self.id())
    }

    pub fn is_started(&self) -> bool {
        match &self.kind {
            OfProgram(_) => self.folder().is_dir(),
            OfClinic(case) => case.copy(self.workbook).exists(),
        }
    }

    /// As the page lists it, or nothing if it does not: whole stages, which learners can write too, are for a terminal,
    /// because they have the names of the stages.
    pub fn describe(&self, done: &BTreeSet<String>, shown: &[String]) -> Option<Value> {
        let (program, title) = match &self.kind {
            OfProgram(exercise) if exercise.number == 0 => return None,
            OfProgram(exercise) => (exercise.program.name(), &exercise.title),
            OfClinic(case) => (CLINIC.to_owned(), &case.title),
        };
        let id = self.id();
        let is_done = done.contains(&id);
        let state = match (self.is_started(), is_done) {
            (false, _) => "new",
            (true, false) => "started",
            (true, true) => "done",
        };
        Some(json!({
            "program": program,
            "title": title,
            "state": state,
            // Also of a copy that has been removed since.
            "done": is_done,
            "hints": self.hints().len(),
            "stamp": self.is_started().then(|| self.stamp()),
            // Their texts.
            "shown": self.shown(shown),
            "id": id,
        }))
    }

    /// Changes whenever a source in the working copy does.
    fn stamp(&self) -> String {
        let folders: &[_] = if matches!(self.kind, OfClinic(_)) { &[""] } else { &["src", "src/bpf"] };
        let entries =
            |folder: &&str| fs::read_dir(self.folder().join(folder)).into_iter().flatten().flatten();
        let modified = |entry: fs::DirEntry| {
            let time = entry.metadata().ok()?.modified().ok()?;
            Some(time.duration_since(UNIX_EPOCH).ok()?.as_nanos())
        };
        folders.iter().flat_map(entries).filter_map(modified).fold(0, u128::wrapping_add).to_string()
    }

    /// What it starts from, and what we made of that, in words.
    pub fn origin(&self) -> (String, &'static str) {
        match &self.kind {
            OfProgram(exercise) => (format!("the starting point of {}", exercise.id()), "our solution"),
            OfClinic(case) => (format!("the refused program of {}", case.id()), "our cure"),
        }
    }

    /// What a learner begins with.
    pub fn start_files(&self) -> Result<Files> {
        match &self.kind {
            OfProgram(exercise) => exercise.starting_point(&exercise.binary()),
            OfClinic(case) => Ok(vec![(PathBuf::from(&case.file), case.source.clone())]),
        }
    }

    pub fn files(&self) -> Result<Files, Refusal> {
        match &self.kind {
            OfProgram(exercise) => {
                exercise::working_copy(self.workbook, exercise).status(StatusCode::NOT_FOUND)
            }
            OfClinic(case) if self.is_started() => {
                let copy = case.copy(self.workbook);
                let text = fs::read_to_string(&copy).or_cause(format!("cannot read {}", copy.display()))?;
                Ok(vec![(PathBuf::from(&case.file), text)])
            }
            OfClinic(case) => Err(Error::new(format!("there is no working copy of {} yet", case.id()))
                .fix("start it: the lesson has a button"))
            .status(StatusCode::NOT_FOUND),
        }
    }

    /// Our solution, for learners who have passed the check or want to peek.
    pub fn solution(&self, peek: bool) -> Result<Files> {
        match &self.kind {
            OfProgram(exercise) => exercise::our_solution(self.workbook, exercise, peek, "exercise solution"),
            OfClinic(case) => {
                clinic::solution(self.workbook, case, peek)?;
                Ok(vec![(PathBuf::from(&case.file), case.cured()?)])
            }
        }
    }

    pub fn changes(&self, old: Files, new: Files) -> Vec<Change> {
        match &self.kind {
            OfProgram(_) => copies::changes(old, new),
            OfClinic(_) => {
                let differ = old.into_iter().zip(new).filter(|(old, new)| old != new);
                let change = |((path, old), (_, new))| Change { path, old: Some(old), new: Some(new) };
                differ.map(change).collect()
            }
        }
    }

    /// Makes the working copy, or with `again` discards it and makes a new one. Returns what to do.
    pub fn start(&self, again: bool) -> Result<String> {
        match &self.kind {
            OfProgram(exercise) => exercise::start(self.workbook, exercise, again),
            OfClinic(case) => clinic::start(self.workbook, case, again),
        }
    }

    /// Whether this is the path of a source in its working copy.
    pub fn takes(&self, path: &Path) -> bool {
        match &self.kind {
            OfProgram(_) => is_source(path),
            OfClinic(case) => path == Path::new(&case.file),
        }
    }
}

/// Whether this is the path of a source, such as `src/main.rs` or `src/bpf/trace.bpf.c`. Build scripts and manifests are
/// none: they would decide what runs on this machine.
fn is_source(path: &Path) -> bool {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return false;
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let ends: &[&str] = match folder.to_str() {
        Some("src") => &[".rs"],
        Some("src/bpf") => &[".bpf.c", ".h"],
        _ => &[],
    };
    // No file system has longer ones.
    let is_name = name.len() < 256 && name.chars().all(is_plain) && !name.starts_with('.');
    is_name && ends.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sources_are_restored() {
        for path in ["src/main.rs", "src/helper.rs", "src/bpf/x.bpf.c", "src/bpf/x.h"] {
            assert!(is_source(Path::new(path)), "{path}");
        }
        let others = "build.rs Cargo.toml src/x.sh src/.x.rs src/a/b.rs ../src/main.rs src/bpf/main.rs";
        for path in others.split(' ') {
            assert!(!is_source(Path::new(path)), "{path}");
        }
    }
}
