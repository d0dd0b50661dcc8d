//! Builds the workbook's book into a single folder of HTML, which works without a server and without a network.
//!
//! `make docs` builds the book, and `cargo test --package book` checks every link and opens each page in a browser. The
//! chapters are in `docs/src`, and each stage's README is its page. The tables of measurements say when and on
//! which kernels they were measured; the programs of the measurements are in the history, before November 2026.
//!
//! `cargo upkeep record` records what the stages print, and what bpftool, strace and the compiler's tools print about them. It
//! downloads the first two. The programs in `lab/theory` are those that chapters show.

#![deny(unsafe_code)]
#![warn(missing_docs, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

mod hands;
mod life;
mod links;
mod mysteries;
mod pages;
mod plans;
mod present;
mod print;
mod programs;
mod questions;
mod readme;
mod sheets;
mod slides;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use common::report::print_text;
use common::{Error, OrCause, Result};
use ctracer::recording::Recording;
use ctracer::tree::Tree;
use ctracer::view;
use machine::workbook::{Workbook, copies};
use mdbook_driver::MDBook;
use mdbook_driver::book::BookItem;
use mdbook_driver::config::Config;

use crate::programs::Programs;

/// Build the book
#[derive(Parser)]
#[command(name = "book", version)]
struct Args {
    /// The folder to write it to, whose old content is replaced [default: target/book]
    folder: Option<PathBuf>,
    /// Make PDFs of the book and the handouts instead; by default in target/print
    #[arg(long)]
    print: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let workbook = Workbook::read()?;
    let folder =
        args.folder.unwrap_or_else(|| workbook.target.join(if args.print { "print" } else { "book" }));
    let folder = std::path::absolute(&folder).or_cause("cannot find out the folder's absolute path")?;
    if args.print {
        let book = tempfile::tempdir().or_cause("cannot make a folder for the book")?;
        build(&workbook, book.path(), true, REPOSITORY)?;
        return print::all(&workbook, book.path(), &folder);
    }
    // Two workshops that start at the same moment both write the book.
    let beside = folder.parent().unwrap_or(&folder);
    fs::create_dir_all(beside).or_cause(format!("cannot make {}", beside.display()))?;
    let _alone = copies::lock(beside)?;
    check_replaceable(&folder)?;
    build(&workbook, &folder, false, REPOSITORY)?;
    print_text(folder.join("index.html").display())?;
    Ok(())
}

/// Makes sure that nobody loses a folder, because mdBook empties the folder that it writes to.
fn check_replaceable(folder: &Path) -> Result<()> {
    let mut entries = folder.read_dir().into_iter().flatten();
    if entries.next().is_none() || folder.join("index.html").exists() {
        return Ok(());
    }
    Err(Error::new(format!("{} is not empty, and it is not a book", folder.display()))
        .fix("name a new or an empty folder"))
}

/// Where the workbook is published. In our own Cargo.toml, it is only an example.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

fn build(workbook: &Workbook, folder: &Path, print: bool, repository: &str) -> Result<()> {
    let docs = workbook.root.join("docs");
    let said = |error: mdbook_driver::errors::Error| match error.downcast::<Error>() {
        Ok(ours) => ours,
        Err(other) => Error::new("cannot build the book").evidence(format!("{other:#}")),
    };
    let mut config = Config::from_disk(docs.join("book.toml")).map_err(said)?;
    config.build.build_dir = folder.to_owned();
    config.set("output.html.print.enable", print).map_err(said)?;
    if !repository.contains("://example.org/") {
        config.set("output.html.git-repository-url", repository).map_err(said)?;
        let edit = format!("{repository}/edit/main/docs/{{path}}");
        config.set("output.html.edit-url-template", edit).map_err(said)?;
    }
    let mut book = MDBook::load_with_config(&docs, config).map_err(said)?;
    if print {
        // What one looks up needs a search.
        let mut is_reference = false;
        book.book.items.retain(|item| match item {
            BookItem::PartTitle(title) => {
                is_reference = title == "For reference";
                !is_reference
            }
            BookItem::Chapter(chapter) => !is_reference || chapter.name == "If it does not work",
            BookItem::Separator => true,
        });
    }
    // `cargo upkeep record ctracer` makes the recording.
    let recording = Tree::new(Recording::read(&docs.join("src/ctracer.rec"))?);
    let present = present::page(workbook)?;
    book.with_preprocessor(Programs::new(workbook.clone()));
    book.build().map_err(said)?;
    let page = folder.join("present.html");
    fs::write(&page, present).or_cause(format!("cannot write {}", page.display()))?;
    // The page that ctracer makes of a recording.
    let ctracer = view::html(&recording, Some("examples/ctracer.html"))?;
    let page = folder.join("ctracer.html");
    fs::write(&page, ctracer).or_cause(format!("cannot write {}", page.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_book_links_to_the_source_of_each_page() {
        let (workbook, folder) = (Workbook::read().unwrap(), tempfile::tempdir().unwrap());
        build(&workbook, folder.path(), false, "https://example.com/workbook").unwrap();
        let edits = |page: &str| {
            let text = fs::read_to_string(folder.path().join(page)).unwrap();
            let (_, rest) = text.split_once("https://example.com/workbook/edit/main/docs/src/").unwrap();
            workbook.root.join("docs/src").join(rest.split('"').next().unwrap())
        };
        for (page, source) in [
            ("load.html", "docs/src/load.md"),
            ("stages/03.html", "stages/stage03_bio_latency_map/README.md"),
            ("examples/bitehist.html", "examples/bitehist/README.md"),
            ("clinic/01.html", "lab/clinic"),
        ] {
            let found = edits(page).canonicalize().unwrap();
            assert!(found.starts_with(workbook.root.join(source).canonicalize().unwrap()), "{found:?}");
        }
    }
}
