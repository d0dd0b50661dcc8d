//! The mysteries as the deck shows them: each case is played with two seeds that have different causes, and the solution
//! shown at once. A file in `docs/mysteries` has what the player saw.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Error, OrCause, Result};
use machine::vm::{Stream, Vm};
use wire::mystery::{Case, cause_of};

/// The last line of a case's introduction begins with this word.
pub const LINES: &str = " exit ";
const FOLDER: &str = "docs/mysteries";
/// How long a case takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// The recordings of a case: two, or none yet.
///
/// # Errors
/// If the folder can't be read.
pub fn files(root: &Path, case: &Case) -> Result<Vec<PathBuf>> {
    let folder = root.join(FOLDER);
    let entries = fs::read_dir(&folder).or_cause(format!("cannot read {}", folder.display()))?;
    let begin = format!("{}-", case.number);
    let is_ours =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begin));
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_ours).collect();
    files.sort();
    Ok(files)
}

/// Plays a case with one seed after the other, each in a guest from `boot`, until both causes have come.
///
/// # Errors
/// If a case can't be played or saved.
pub fn record(root: &Path, case: &Case, boot: impl Fn() -> Result<Vm>) -> Result<()> {
    for old in files(root, case)? {
        fs::remove_file(&old).or_cause(format!("cannot remove {}", old.display()))?;
    }
    let mut first = None;
    for seed in 1_u64.. {
        let text = play(&mut boot()?, case, seed)?;
        let cause = cause(&text)
            .ok_or_else(|| Error::new(format!("case {} shows no solution", case.number)).evidence(&text))?;
        if first.as_deref() == Some(cause) {
            continue;
        }
        let file = root.join(FOLDER).join(format!("{}-{seed}.txt", case.number));
        fs::write(&file, &text).or_cause(format!("cannot write {}", file.display()))?;
        if first.is_some() {
            return Ok(());
        }
        first = Some(cause.to_owned());
    }
    Ok(())
}

/// The cause that a solution names.
fn cause(text: &str) -> Option<&str> {
    let words = text.lines().filter_map(|line| line.split_once(": "));
    words.map(|(word, _)| word).find(|word| cause_of(word).is_some())
}

fn play(guest: &mut Vm, case: &Case, seed: u64) -> Result<String> {
    let command = format!("echo 'solution --peek' | mystery start {} --seed {seed}", case.number);
    guest.start(&["sh", "-c", &command], None)?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let status = guest.finish(Some(LIMIT), |stream, bytes| {
        match stream {
            Stream::Stdout => stdout.extend_from_slice(bytes),
            Stream::Stderr => stderr.extend_from_slice(bytes),
        }
        Ok(())
    })?;
    if status != 0 {
        return Err(Error::new(format!("case {} failed with {status}", case.number))
            .evidence(String::from_utf8_lossy(&stderr)));
    }
    let text = String::from_utf8_lossy(&stdout);
    Ok(text.trim().lines().map(|line| format!("{}\n", line.trim_end())).collect())
}
