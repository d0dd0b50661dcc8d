//! Show: prints a recording as text or JSON, or writes it as a page for a browser or a trace for Perfetto.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{self, Path, PathBuf};

use clap::Args;
use common::{Error, OrCause, Result, report};
use path_clean::clean;

use crate::page;
use crate::recording::Recording;
use crate::tree::Tree;

pub mod json;
pub mod perfetto;
pub mod text;

/// How to show a recording.
#[derive(Args, Clone, Debug, Default)]
pub struct ShowArgs {
    /// Print the whole recording as one JSON document
    #[arg(long, conflicts_with_all = ["life", "slowest", "lines"])]
    pub json: bool,

    /// Print the lives of the bio at this address, across all threads and CPUs
    #[arg(long, value_name = "ADDRESS", value_parser = address, conflicts_with = "slowest")]
    pub life: Option<u64>,

    /// Print the N lives that took longest
    #[arg(long, value_name = "N")]
    pub slowest: Option<usize>,

    /// Print at most N lines of the call tree
    #[arg(long, value_name = "N")]
    pub lines: Option<usize>,

    /// Write a page for a browser, with the calls, each bio's data and life, and all lives over time
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write a trace that you can open in Perfetto and Chrome (trace-event JSON)
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
}

/// The page of a recording. If it is part of a book, `book` is the address of the book's page on ctracer.
pub fn html(tree: &Tree, book: Option<&str>) -> Result<String> {
    Ok(page::html(&json(&json::View::of(tree))?, book))
}

impl ShowArgs {
    /// Checks before the recording that we can show it with these options and write all files. Changes no file.
    pub fn check(&self, class: &str, output: Option<&Path>) -> Result<()> {
        self.check_class(class)?;
        let mut files = BTreeSet::new();
        for file in [output, self.html.as_deref(), self.perfetto.as_deref()].into_iter().flatten() {
            check_file(file).map_err(|error| {
                Error::new(format!("cannot write {}", file.display()))
                    .evidence(error)
                    .fix("name a file in a folder that exists and that you may write to")
            })?;
            // A file has many names, such as x and ./x.
            if !files.insert(path::absolute(file).map(clean).unwrap_or_default()) {
                return Err(Error::new("two outputs cannot go to the same file")
                    .evidence(format!("{} is named more than once", file.display()))
                    .fix("choose different files"));
            }
        }
        Ok(())
    }

    fn check_class(&self, class: &str) -> Result<()> {
        if class == "bio" || self.life.is_none() && self.slowest.is_none() {
            return Ok(());
        }
        Err(Error::new(format!("a struct {class} has no lives to show"))
            .evidence("--life and --slowest work only for bios, whose beginning and end we trace")
            .fix("leave out --life and --slowest"))
    }

    /// Reads a recording and shows it.
    pub fn show(&self, recording: &Path) -> Result<()> {
        let recording = Recording::read(recording)?;
        self.check_class(&recording.header.class)?;
        if recording.cut {
            eprintln!("warning: the recording is cut short; this shows what it has up to the cut");
        }
        let tree = Tree::new(recording);
        if let Some(file) = &self.html {
            write(file, &html(&tree, None)?)?;
        }
        if let Some(file) = &self.perfetto {
            write(file, &perfetto::trace(&tree)?)?;
        }
        if self.json {
            eprintln!("{}", text::Summary(&tree));
            return report::print_text(json(&json::View::of(&tree))?);
        }
        match (self.life, self.slowest) {
            (Some(object), _) => report::print_text(text::lives_of(&tree, object)?)?,
            (None, Some(most)) => report::print_text(text::slowest(&tree, most))?,
            // With --html or --perfetto, the file is the output.
            (None, None) if self.html.is_some() || self.perfetto.is_some() => {}
            (None, None) => report::print_text(text::tree(&tree, self.lines))?,
        }
        report::print(text::Summary(&tree))
    }
}

fn check_file(file: &Path) -> io::Result<()> {
    match fs::metadata(file) {
        Ok(there) if there.is_file() || there.is_dir() => {
            OpenOptions::new().append(true).open(file).map(drop)
        }
        // We don't open a pipe, because closing it again would be the end of input for its reader.
        Ok(_) => Ok(()),
        Err(_) => {
            OpenOptions::new().write(true).create_new(true).open(file)?;
            fs::remove_file(file)
        }
    }
}

/// The document as text.
pub(crate) fn json(document: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(document).or_cause("cannot write JSON")
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).or_cause(format!("cannot write {}", file.display()))
}

fn address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16)
        .map_err(|_| "give the address of a bio, such as 0xff3ebb56bcfe0900".to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::OpenOptionsExt;

    use nix::fcntl::OFlag;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;
    use crate::tree::tests::{piece_in_a_chain, two_writes};

    #[test]
    fn the_call_tree() {
        insta::assert_snapshot!(text::tree(&two_writes(), None));
        insta::assert_snapshot!(text::tree(&two_writes(), Some(2)));
        assert_eq!(text::tree(&Tree::default(), None), "No calls.");
    }

    #[test]
    fn lives() {
        let tree = two_writes();
        let slowest = text::slowest(&tree, 7);
        insta::assert_snapshot!(slowest);
        assert_eq!(text::lives_of(&tree, 0xff11).unwrap(), slowest);
        insta::assert_snapshot!(text::lives_of(&tree, 0xff33).unwrap());
        insta::assert_snapshot!(text::lives_of(&tree, 0xff22).unwrap_err());
        assert_eq!(text::slowest(&Tree::default(), 1), "No bio has ended.");
        let chain = piece_in_a_chain();
        let last = |bio| text::lives_of(&chain, bio).unwrap().lines().last().unwrap().to_owned();
        assert!(last(0xff11).ends_with("/* its piece 0xff33 */"));
        assert!(last(0xff22).ends_with("/* chained before it: 0xff33 */"));
    }

    #[test]
    fn the_summary_reports_what_is_missing() {
        let mut tree = two_writes();
        insta::assert_snapshot!(text::Summary(&tree));
        tree.losses = None;
        insta::assert_snapshot!(text::Summary(&tree));
        tree.losses = Some(crate::recording::Losses::default());
        insta::assert_snapshot!(text::Summary(&tree));
    }

    #[test]
    fn json_has_a_column_for_everything() {
        let view = serde_json::to_value(json::View::of(&two_writes())).unwrap();
        insta::assert_snapshot!(serde_json::to_string_pretty(&view).unwrap());
        let calls = view["calls"].as_object().unwrap();
        assert!(calls.values().all(|column| column.as_array().unwrap().len() == 6), "{calls:?}");
        let mut other = two_writes();
        other.header.class = "request".into();
        let view = serde_json::to_value(json::View::of(&other)).unwrap();
        assert!(view["calls"].get("sector").is_none());
    }

    #[test]
    fn a_trace_for_perfetto() {
        let trace: serde_json::Value =
            serde_json::from_str(&perfetto::trace(&two_writes()).unwrap()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let lines: Vec<_> = events.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn what_cannot_be_shown_is_an_error_before_it_is_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let output = at("recording");
        let check = |show: &ShowArgs, class| show.check(class, Some(&output));
        let error = |show: ShowArgs, class| {
            let error = check(&show, class).unwrap_err().to_string();
            error.replace(folder.path().to_str().unwrap(), "FOLDER")
        };
        let html = |path: PathBuf| ShowArgs { html: Some(path), ..ShowArgs::default() };
        insta::assert_snapshot!(error(html(at("nowhere/x.html")), "bio"));
        insta::assert_snapshot!(error(html(at("")), "bio"));
        insta::assert_snapshot!(error(html(output.clone()), "bio"));
        insta::assert_snapshot!(error(ShowArgs { slowest: Some(1), ..ShowArgs::default() }, "request"));
        let same = at("..").join(folder.path().file_name().unwrap()).join("recording");
        assert!(error(html(same), "bio").starts_with("two outputs cannot go to the same file\n"));
        assert!(error(html(PathBuf::new()), "bio").starts_with("cannot write \n"));
        // The check leaves no file behind, and doesn't change an old page.
        check(&html(at("x.html")), "bio").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        fs::write(at("x.html"), "before").unwrap();
        check(&html(at("x.html")), "bio").unwrap();
        assert_eq!(fs::read_to_string(at("x.html")).unwrap(), "before");
    }

    #[test]
    fn a_pipe_is_not_ended_before_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        let reader =
            OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&pipe).unwrap();
        ShowArgs { html: Some(pipe), ..ShowArgs::default() }.check("bio", None).unwrap();
        let mut poll_fd = [PollFd::new(reader.as_fd(), PollFlags::POLLIN)];
        // If the check had opened the pipe, poll() would report that a writer has come and gone.
        assert_eq!(poll(&mut poll_fd, PollTimeout::ZERO), Ok(0));
    }

    #[test]
    fn addresses_are_hexadecimal() {
        assert_eq!((address("0xff11"), address("ff11")), (Ok(0xff11), Ok(0xff11)));
        assert!(address("bio").is_err());
    }
}
