//! Show: what a recording says, as text, as JSON, as a page for a browser and as a trace for Perfetto.

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

/// How to show it.
#[derive(Args, Clone, Debug, Default)]
pub struct ShowArgs {
    /// Print all of it as one JSON document
    #[arg(long, conflicts_with_all = ["life", "slowest", "lines"])]
    pub json: bool,

    /// Print the lives of the bio at this address, through all threads and CPUs
    #[arg(long, value_name = "ADDRESS", value_parser = address, conflicts_with = "slowest")]
    pub life: Option<u64>,

    /// Print the N lives that took longest
    #[arg(long, value_name = "N")]
    pub slowest: Option<usize>,

    /// Print no more than N lines of the call tree
    #[arg(long, value_name = "N")]
    pub lines: Option<usize>,

    /// Write a page that a browser shows: the calls, each bio's data and its life, and all lives over time
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write a trace that Perfetto and Chrome open (trace-event JSON)
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
}

impl ShowArgs {
    /// Whether a recording of this class, kept in `output`, can be shown so; asked before there is one. Changes no file.
    ///
    /// # Errors
    /// If it has no lives that could be shown, or a file can't be written.
    pub fn check(&self, class: &str, output: Option<&Path>) -> Result<()> {
        self.check_class(class)?;
        let mut files = BTreeSet::new();
        for file in [output, self.html.as_deref(), self.perfetto.as_deref()].into_iter().flatten() {
            check_file(file).map_err(|error| {
                Error::new(format!("cannot write {}", file.display()))
                    .evidence(error)
                    .fix("name a file in a folder that exists and that you may write to")
            })?;
            // One file has many names: x, ./x.
            if !files.insert(path::absolute(file).map(clean).unwrap_or_default()) {
                return Err(Error::new("each file can hold one thing only")
                    .evidence(format!("{} is named more than once", file.display()))
                    .fix("name another one"));
            }
        }
        Ok(())
    }

    fn check_class(&self, class: &str) -> Result<()> {
        if class == "bio" || self.life.is_none() && self.slowest.is_none() {
            return Ok(());
        }
        Err(Error::new(format!("of a struct {class} no lives are known"))
            .evidence("--life and --slowest are for bios, which have a beginning and an end that are traced")
            .fix("leave them out"))
    }

    /// Reads a recording and shows it.
    ///
    /// # Errors
    /// If the file can't be read or is none of ours, or what it says can't be written.
    pub fn show(&self, recording: &Path) -> Result<()> {
        let recording = Recording::read(recording)?;
        self.check_class(&recording.header.class)?;
        if recording.cut {
            eprintln!("warning: the recording is cut short; this is what it has up to the cut");
        }
        let tree = Tree::new(recording);
        if let Some(file) = &self.html {
            write(file, &page::html(&json(&json::View::of(&tree))?))?;
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
            // Who asked for a file has it.
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
        // Of a pipe, its reader would take this for the end.
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
    use crate::tree::tests::two_writes;

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
    }

    #[test]
    fn the_summary_tells_what_is_missing() {
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
    fn what_cannot_be_shown_is_told_before_it_is_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let output = at("recording");
        let check = |show: &ShowArgs, class| show.check(class, Some(&output));
        let told = |show: ShowArgs, class| {
            let error = check(&show, class).unwrap_err().to_string();
            error.replace(folder.path().to_str().unwrap(), "FOLDER")
        };
        let html = |path: PathBuf| ShowArgs { html: Some(path), ..ShowArgs::default() };
        insta::assert_snapshot!(told(html(at("nowhere/x.html")), "bio"));
        insta::assert_snapshot!(told(html(at("")), "bio"));
        insta::assert_snapshot!(told(html(output.clone()), "bio"));
        insta::assert_snapshot!(told(ShowArgs { slowest: Some(1), ..ShowArgs::default() }, "request"));
        let same = at("..").join(folder.path().file_name().unwrap()).join("recording");
        assert!(told(html(same), "bio").starts_with("each file can hold one thing only\n"));
        assert!(told(html(PathBuf::new()), "bio").starts_with("cannot write \n"));
        // Nothing is made, and a page of before is there until there is another.
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
        // It would tell that there was a writer, who is gone.
        assert_eq!(poll(&mut poll_fd, PollTimeout::ZERO), Ok(0));
    }

    #[test]
    fn addresses_are_hexadecimal() {
        assert_eq!((address("0xff11"), address("ff11")), (Ok(0xff11), Ok(0xff11)));
        assert!(address("bio").is_err());
    }
}
