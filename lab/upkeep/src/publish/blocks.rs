//! Generated blocks, between the comments `<!-- NAME:begin SUM -->` and `<!-- NAME:end -->`. SUM is a checksum of the text between them. With it we detect
//! edits by hand, and don't overwrite them.

use std::fs;
use std::path::Path;

use common::{Error, OrCause, Result};
use machine::workbook::diff::{self, Extent, FileDiff};

/// Puts a text into its block, and returns whether that changed the file. The rest of the file stays as it is.
///
/// # Errors
/// If the block was edited by hand, unless `force` is set; or if the file has no such block.
pub fn replace(file: &Path, name: &str, text: &str, force: bool) -> Result<bool> {
    let found = Markers::find(file, name)?;
    let old = found.text();
    if !found.checksum.is_empty() && found.checksum != checksum(old) && old != text && !force {
        let changes = FileDiff { name: file.display().to_string(), items: diff::of_texts(old, text) };
        return Err(Error::new(format!("{}: somebody edited the generated block {name:?}", file.display()))
            .evidence(anstream::adapter::strip_str(&format!(
                "cargo upkeep sync would make this change:{}",
                diff::terminal(&[changes], Extent::Folded)
            )))
            .fix("move your edit to the source of the block; or discard it: cargo upkeep sync --force"));
    }
    let first = format!("<!-- {name}:begin {} -->\n", checksum(text));
    let whole = [found.before(), &first, text, found.after()].concat();
    if whole == found.whole {
        return Ok(false);
    }
    fs::write(file, whole).or_cause(format!("cannot write {}", file.display()))?;
    Ok(true)
}

/// Where a block is in its file.
pub(crate) struct Markers {
    whole: String,
    /// Where its first marker begins, where its text begins, and where its last marker begins.
    begin: usize,
    text: usize,
    end: usize,
    /// The checksum in its first marker; empty if there is none.
    pub checksum: String,
}

impl Markers {
    pub(crate) fn find(file: &Path, name: &str) -> Result<Self> {
        let whole = fs::read_to_string(file).or_cause(format!("cannot read {}", file.display()))?;
        let (first, last) = (format!("<!-- {name}:begin"), format!("<!-- {name}:end -->"));
        let none = || {
            Error::new(format!("{} has no place for the block {name:?}", file.display()))
                .evidence(format!("there is no line {first} -->, or no line {last} after it"))
                .fix("put both lines back where the block belongs; or, if you removed them by mistake: git checkout")
        };
        let begin = whole.find(&first).ok_or_else(none)?;
        let text = begin + whole[begin..].find('\n').ok_or_else(none)? + 1;
        let end = text + whole[text..].find(&last).ok_or_else(none)?;
        let rest = whole[begin + first.len()..text].trim_end();
        let checksum = rest.strip_suffix("-->").unwrap_or(rest).trim().to_owned();
        Ok(Self { whole, begin, text, end, checksum })
    }

    fn before(&self) -> &str {
        &self.whole[..self.begin]
    }

    pub(crate) fn text(&self) -> &str {
        &self.whole[self.text..self.end]
    }

    fn after(&self) -> &str {
        &self.whole[self.end..]
    }
}

/// A short checksum of a text.
pub(crate) fn checksum(text: &str) -> String {
    let mut sum = flate2::Crc::new();
    sum.update(text.as_bytes());
    format!("{:08x}", sum.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let file =
            file("before\n<!-- a:begin -->\nold\n<!-- a:end -->\nafter\n<!-- b:begin -->\n<!-- b:end -->");
        assert!(replace(file.path(), "a", "new\n", false).unwrap());
        let text = fs::read_to_string(file.path()).unwrap();
        let begin = format!("<!-- a:begin {} -->", checksum("new\n"));
        assert_eq!(
            text,
            format!("before\n{begin}\nnew\n<!-- a:end -->\nafter\n<!-- b:begin -->\n<!-- b:end -->")
        );
        assert!(!replace(file.path(), "a", "new\n", false).unwrap(), "nothing left to do");
    }

    #[test]
    fn an_edit_by_hand_is_shown_and_not_written_over() {
        let file = file("<!-- a:begin -->\n<!-- a:end -->\n");
        replace(file.path(), "a", "ours\n", false).unwrap();
        let edited = fs::read_to_string(file.path()).unwrap().replace("ours", "theirs");
        fs::write(file.path(), &edited).unwrap();
        let error = replace(file.path(), "a", "new\n", false).unwrap_err().to_string();
        assert!(error.contains("theirs") && error.contains("--force"), "{error}");
        assert_eq!(fs::read_to_string(file.path()).unwrap(), edited);
        assert!(replace(file.path(), "a", "new\n", true).unwrap());
    }

    #[test]
    fn a_file_without_the_markers_is_an_error() {
        let file = file("<!-- a:begin -->\nno end\n");
        let error = replace(file.path(), "a", "new\n", false).unwrap_err().to_string();
        assert!(error.contains("has no place for the block \"a\""), "{error}");
    }
}
