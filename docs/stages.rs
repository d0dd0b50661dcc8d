//! What is put into mdBook's hands: the chapters, and a page for every stage.

use std::path::{Path, PathBuf};

use lab::workbook::{Stage, Workbook};
use mdbook_preprocessor::book::{Book, BookItem, Chapter, SectionNumber};
use mdbook_preprocessor::errors::Result;
use mdbook_preprocessor::{Preprocessor, PreprocessorContext};

use crate::{directives, links};

/// The chapter that the stages' pages are below.
const PARENT: &str = "stages.md";

/// Adds the stages' pages and fills every chapter in.
pub struct Stages {
    workbook: Workbook,
}

impl Stages {
    /// With the stages of this workbook.
    pub fn new(workbook: Workbook) -> Self {
        Self { workbook }
    }

    /// A stage's page is its README.
    fn page(&self, stage: &Stage, parent: &Chapter) -> Chapter {
        let question = stage.title.split_inclusive('?').next().unwrap_or_default();
        let number = format!("{:02}", stage.number);
        let parents = parent.parent_names.iter().chain([&parent.name]).cloned().collect();
        let mut page = Chapter::new(
            &format!("{number} {question}"),
            format!("{{{{#readme {number}}}}}\n"),
            format!("stages/{number}.md"),
            parents,
        );
        page.source_path = None;
        // In the table of contents the depth of this number is the page's depth.
        let above = parent.number.as_deref().cloned().unwrap_or_default();
        page.number = Some(SectionNumber::new([above, vec![stage.number]].concat()));
        page
    }

    fn filled_in(&self, chapter: &Path, text: &str) -> common::Result<String> {
        let text = pictures(text);
        // The chapter's own links first: those of a README that it includes start from another folder.
        let folder = Path::new("docs/src").join(chapter.parent().unwrap_or(Path::new("")));
        let text = links::rewrite(&self.workbook, &folder, chapter, &text)?;
        directives::expand(&self.workbook, chapter, &text)
    }
}

impl Preprocessor for Stages {
    fn name(&self) -> &str {
        "stages"
    }

    fn run(&self, _: &PreprocessorContext, mut book: Book) -> Result<Book> {
        let mut result = Ok(());
        book.for_each_mut(|item| {
            let BookItem::Chapter(chapter) = item else { return };
            if chapter.path.as_deref() == Some(Path::new(PARENT)) {
                let pages = self.workbook.all_stages().map(|stage| self.page(stage, chapter));
                chapter.sub_items = pages.map(BookItem::Chapter).collect();
            }
        });
        book.for_each_chapter_mut(|chapter| {
            let path: PathBuf = chapter.path.clone().unwrap_or_default();
            match self.filled_in(&path, &chapter.content) {
                Ok(text) if path.starts_with("stages") => chapter.content = presented(&path, &text),
                Ok(text) => chapter.content = text,
                Err(error) => result = Err(error),
            }
        });
        result?;
        Ok(book)
    }
}

/// A stage's page, with the way to the view for a projector below the heading of what changed.
fn presented(path: &Path, text: &str) -> String {
    let number = path.file_stem().unwrap_or_default().display();
    let link = format!("\n[Present this diff](../present.html#{number})\n");
    text.split_inclusive('\n')
        .flat_map(|line| [line, if line.starts_with("## What changed") { &link } else { "" }])
        .collect()
}

/// A picture within a text, `<svg>` to `</svg>`, is one block of HTML for Markdown if no line of it is blank.
fn pictures(text: &str) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut inside = false;
    for line in text.split_inclusive('\n') {
        if line.starts_with("<svg") {
            inside = true;
            filled.push_str("<div class=\"picture\">\n");
        }
        if !inside || !line.trim().is_empty() {
            filled.push_str(line);
        }
        if inside && line.trim_end().ends_with("</svg>") {
            inside = false;
            filled.push_str("\n</div>\n\n");
        }
    }
    filled
}
