//! What a learner compiles before the first line of a stage: our crates with their lines, and how many libraries of others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use common::{OrCause, Result};
use machine::host::folders::files;
use machine::host::tools::output;
use machine::workbook::{Program, Workbook};

use crate::publish::tables::{markdown, rounded};

/// The table, with lines rounded to hundreds, so that it shows growth and not each change.
///
/// # Errors
/// If Cargo fails, or a source can't be read.
pub fn table(workbook: &Workbook) -> Result<String> {
    let mut tree = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    tree.current_dir(&workbook.root).args(["tree", "--quiet", "--edges", "normal,build", "--prefix", "none"]);
    let stage = workbook.catalog.stage("03")?.package();
    tree.args(["lab", "guest", "starter", stage].iter().flat_map(|package| ["--package", package]));
    let listed = output(&mut tree)?.stdout;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    // NAME vVERSION, for ours with (FOLDER), and perhaps (proc-macro) or (*).
    let crates: BTreeSet<_> = listed.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    let root = format!("({}/", workbook.root.display());
    let (mut rows, mut others, mut sum) = (Vec::new(), BTreeSet::new(), 0);
    for name in crates.into_iter().filter(|name| !name.is_empty()) {
        let Some((_, folder)) = name.split_once(&root) else {
            others.insert(name.trim_end_matches(" (proc-macro)"));
            continue;
        };
        let folder = folder.trim_end_matches(')');
        let mut lines = lines(&workbook.root.join(folder).join("src"))?;
        if folder == "lab/guest" {
            lines += checks(workbook)?;
        }
        sum += lines;
        rows.push(vec![format!("`{folder}`"), rounded(lines)]);
    }
    rows.sort();
    rows.insert(0, vec!["crate".to_owned(), "lines of Rust".to_owned()]);
    rows.push(vec!["together".to_owned(), rounded(sum)]);
    rows.push(vec!["libraries of others".to_owned(), others.len().to_string()]);
    Ok(markdown(rows))
}

/// How many lines of Rust a folder has, unit tests included.
fn lines(folder: &Path) -> Result<u64> {
    files(folder, "rs")?.iter().map(|file| lines_of(file)).sum()
}

/// How many lines the checks have that stand beside their programs, and are compiled with the guest.
fn checks(workbook: &Workbook) -> Result<u64> {
    workbook.catalog.programs().map(|program| lines_of(&program.folder().join("check.rs"))).sum()
}

fn lines_of(file: &Path) -> Result<u64> {
    let text = fs::read_to_string(file).or_cause(format!("cannot read {}", file.display()))?;
    Ok(text.lines().count() as u64)
}
