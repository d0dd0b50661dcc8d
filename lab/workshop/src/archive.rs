//! *Download my work* and *Upload*: a zip with the files of every exercise that was started, and a patch for each that
//! was changed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read, Write};
use std::path::PathBuf;

use axum::http::StatusCode;
use chrono::Local;
use common::{Error, OrCause, Result};
use machine::workbook::copies::Files;
use machine::workbook::diff;
use zip::write::SimpleFileOptions;
use zip::{DateTime, ZipArchive, ZipWriter};

use crate::app::{App, LARGEST, too_large};
use crate::response::{Refusal, WithStatus};
use crate::work::Work;

pub const LARGEST_ARCHIVE: usize = 8 << 20;
/// How many files it may have. All exercises together have about two hundred.
const MOST_FILES: usize = 1000;
/// How many bytes they may have together.
const LARGEST_SUM: usize = 16 << 20;

/// Packs the sources of everything that the learner started, as [`copies::files_in`] lists them. What can't be read is
/// listed in a file.
///
/// [`copies::files_in`]: machine::workbook::copies::files_in
pub fn pack(app: &App) -> Result<Vec<u8>> {
    let cannot = "cannot pack your work";
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    // An archive cannot express years before 1980.
    let now = DateTime::try_from(Local::now().naive_local()).unwrap_or_default();
    let options = SimpleFileOptions::default().last_modified_time(now);
    let mut add = |name: String, text: &str| {
        zip.start_file(name, options).or_cause(cannot)?;
        zip.write_all(text.as_bytes()).or_cause(cannot)
    };
    let mut left_out = String::new();
    for work in app.works()?.filter(Work::is_started) {
        let id = work.id();
        let files = work.files().map_err(|Refusal(_, error)| error);
        match files.and_then(|files| Ok((work.start_files()?, files))) {
            Ok((start, files)) => {
                let (start, now) = same_names(&start, &files);
                let patch = diff::patch(&start, &now);
                if !patch.is_empty() {
                    add(format!("{id}.patch"), &patch)?;
                }
                for (path, text) in &files {
                    add(format!("{id}/{}", path.display()), text)?;
                }
            }
            Err(error) => left_out += &format!("{id} is left out.\n{error}\n\n"),
        }
    }
    if !left_out.is_empty() {
        add("left-out.txt".to_owned(), &left_out)?;
    }
    Ok(zip.finish().or_cause(cannot)?.into_inner())
}

/// Both sides with the same names in the same order, as a patch compares them. A file that one side lacks is empty there.
fn same_names(old: &Files, new: &Files) -> (Files, Files) {
    let names: BTreeSet<_> = old.iter().chain(new).map(|(path, _)| path).collect();
    let side = |files: &Files| -> Files {
        let text = |path: &PathBuf| files.iter().find(|(name, _)| name == path).map_or("", |(_, text)| text);
        names.iter().map(|path| ((*path).clone(), text(path).to_owned())).collect()
    };
    (side(old), side(new))
}

/// Puts the sources of such an archive back. Returns the exercises. Other text is lost only if `replace` is set.
pub fn restore(app: &App, bytes: &[u8], replace: bool) -> Result<Vec<String>, Refusal> {
    let works = read(app, bytes).status(StatusCode::BAD_REQUEST)?;
    let lost: Vec<_> =
        works.iter().filter(|(id, files)| app.would_lose(id, files)).map(|(id, _)| &**id).collect();
    if !lost.is_empty() && !replace {
        let error = Error::new(format!("this would replace your files of {}", lost.join(", ")))
            .evidence("your files differ from those in the zip")
            .fix("download your work first, if you want to keep it");
        return Err(Refusal(StatusCode::CONFLICT, error));
    }
    works.iter().try_for_each(|(id, files)| app.restore(id, files))?;
    Ok(works.into_keys().collect())
}

/// The files of each exercise in the archive.
fn read(app: &App, bytes: &[u8]) -> Result<BTreeMap<String, Files>> {
    let cannot = "this is not a zip that the workshop made";
    let mut zip = ZipArchive::new(Cursor::new(bytes)).or_cause(cannot)?;
    if zip.len() > MOST_FILES {
        return Err(Error::new(cannot).evidence(format!("it has {} files", zip.len())));
    }
    let mut works: BTreeMap<String, Files> = BTreeMap::new();
    let mut sum = 0;
    for nth in 0..zip.len() {
        let file = zip.by_index(nth).or_cause(cannot)?;
        // The patches are for people, and some programs add files of their own.
        let Some((id, path)) = file.name().ok().and_then(|name| place(app, &name)) else { continue };
        let name = format!("{id}/{}", path.display());
        let mut bytes = Vec::new();
        // What the archive says about sizes may be wrong.
        file.take(LARGEST as u64 + 1).read_to_end(&mut bytes).or_cause(format!("cannot unpack {name}"))?;
        sum += bytes.len();
        if bytes.len() > LARGEST {
            return Err(too_large(&name));
        }
        if sum > LARGEST_SUM {
            return Err(Error::new("this zip is too large")
                .evidence(format!("its sources may have {LARGEST_SUM} bytes together"))
                .fix("leave out what is not your work"));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            Error::new(format!("{name} is not text in UTF-8"))
                .evidence(error.utf8_error())
                .fix("save it as UTF-8 in your editor, and zip it again")
        })?;
        let files = works.entry(id).or_default();
        if files.iter().any(|(other, _)| *other == path) {
            return Err(Error::new(format!("{name} is in this zip twice"))
                .fix("leave one of its folders out: which of the two is meant, nobody knows"));
        }
        files.push((path, text));
    }
    match works.is_empty() {
        true => Err(Error::new(cannot).evidence("it has no files of an exercise")),
        false => Ok(works),
    }
}

/// The exercise and the path in its working copy: `03.1/src/main.rs`. Who unpacked our zip and zipped it again may have
/// one folder more above it, and backslashes.
fn place(app: &App, name: &str) -> Option<(String, PathBuf)> {
    let name = name.replace('\\', "/");
    let parts: Vec<_> = name.split('/').collect();
    (0..parts.len()).find_map(|at| {
        let path = PathBuf::from(parts[at + 1..].join("/"));
        app.takes(parts[at], &path).then(|| (parts[at].to_owned(), path))
    })
}
