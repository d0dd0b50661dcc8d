//! Show: what a recording says, as text, as JSON and as a trace for Perfetto.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use common::{OrCause, Result, report};

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

    /// Write a trace that Perfetto and Chrome open (trace-event JSON)
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
}

impl ShowArgs {
    /// Reads a recording and shows it.
    ///
    /// # Errors
    /// If the file can't be read or is none of ours, or what it says can't be written.
    pub fn show(&self, recording: &Path) -> Result<()> {
        let recording = Recording::read(recording)?;
        if recording.cut {
            eprintln!("warning: the recording is cut short; this is what it has up to the cut");
        }
        let tree = Tree::new(recording);
        if let Some(file) = &self.perfetto {
            write(file, &perfetto::trace(&tree)?)?;
        }
        if self.json {
            eprintln!("{}", text::Summary(&tree));
            return report::print(json(&json::View::of(&tree))?);
        }
        match (self.life, self.slowest) {
            (Some(object), _) => report::print(text::lives_of(&tree, object)?)?,
            (None, Some(most)) => report::print(text::slowest(&tree, most))?,
            // Who asked for a file has it.
            (None, None) if self.perfetto.is_some() => {}
            (None, None) => report::print(text::tree(&tree, self.lines))?,
        }
        report::print(text::Summary(&tree))
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
