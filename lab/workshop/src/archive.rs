//! *Download my work* and *Upload*: a zip with the files of every exercise that was started, and a patch for each.

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};
use std::path::{Component, Path, PathBuf};

use axum::http::StatusCode;
use common::{Error, OrCause, Result};
use lab::workbook::copies::Files;
use lab::workbook::diff;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use crate::answer::Refusal;
use crate::course::{Course, LARGEST, too_large};

/// The size of the largest archive that we take.
pub const LARGEST_ARCHIVE: usize = 8 << 20;
/// How many files it may have. All exercises together have about a hundred.
const MOST_FILES: usize = 1000;

/// Packs everything that the learner started.
pub fn pack(course: &Course) -> Result<Vec<u8>> {
    let cannot = "cannot pack your work";
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let mut add = |name: String, text: &str| {
        zip.start_file(name, SimpleFileOptions::default()).or_cause(cannot)?;
        zip.write_all(text.as_bytes()).or_cause(cannot)
    };
    for (id, start, files) in course.works()? {
        add(format!("{id}.patch"), &diff::patch(&start, &files))?;
        for (path, text) in &files {
            add(format!("{id}/{}", path.display()), text)?;
        }
    }
    Ok(zip.finish().or_cause(cannot)?.into_inner())
}

/// Puts the files of such an archive back. Returns the exercises.
pub fn restore(course: &Course, bytes: &[u8]) -> Result<Vec<String>, Refusal> {
    let works = read(bytes).map_err(|error| Refusal(StatusCode::BAD_REQUEST, error))?;
    works.iter().try_for_each(|(id, files)| course.restore(id, files))?;
    Ok(works.into_keys().collect())
}

/// The files of each exercise in the archive.
fn read(bytes: &[u8]) -> Result<BTreeMap<String, Files>> {
    let cannot = "this is not a zip that the workshop made";
    let mut zip = ZipArchive::new(Cursor::new(bytes)).or_cause(cannot)?;
    if zip.len() > MOST_FILES {
        return Err(Error::new(cannot).evidence(format!("it has {} files", zip.len())));
    }
    let mut works: BTreeMap<String, Files> = BTreeMap::new();
    for nth in 0..zip.len() {
        let file = zip.by_index(nth).or_cause(cannot)?;
        let name = file.name().or_cause(cannot)?.into_owned();
        // The patches are for people.
        let Some((id, path)) = split(&name) else { continue };
        let mut text = String::new();
        // What the archive says about sizes may be wrong.
        file.take(LARGEST as u64 + 1).read_to_string(&mut text).or_cause(cannot)?;
        if text.len() > LARGEST {
            return Err(too_large(&name));
        }
        works.entry(id).or_default().push((path, text));
    }
    match works.is_empty() {
        true => Err(Error::new(cannot).evidence("it has no files of an exercise")),
        false => Ok(works),
    }
}

/// The exercise and the path in its working copy: `03.1/src/main.rs`.
fn split(name: &str) -> Option<(String, PathBuf)> {
    let (id, path) = name.split_once('/')?;
    let path = Path::new(path);
    let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    (is_inside && path.file_name().is_some()).then(|| (id.to_owned(), path.to_owned()))
}
