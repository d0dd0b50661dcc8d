//! What we give to mdBook: the chapters, and a page for every stage, every example and every case of the clinic.

use std::path::{Path, PathBuf};

use lab::clinic::{self, Case};
use machine::workbook::{Program, Workbook};
use mdbook_preprocessor::book::{Book, BookItem, Chapter, SectionNumber};
use mdbook_preprocessor::errors::Result;
use mdbook_preprocessor::{Preprocessor, PreprocessorContext};

use crate::{directives, links};

/// The folders of programs. Their pages are below the chapter of the same name.
const FOLDERS: [&str; 2] = ["stages", "examples"];

/// The path of a program's page in the book, such as `stages/03.md`.
pub fn page_of(program: &dyn Program) -> PathBuf {
    program.page().with_extension("md")
}

/// Adds the programs' pages and expands the directives in every chapter.
pub struct Programs {
    workbook: Workbook,
}

impl Programs {
    /// For the stages and examples of this workbook.
    pub fn new(workbook: Workbook) -> Self {
        Self { workbook }
    }

    /// A program's page is its README.
    fn page(&self, program: &dyn Program, nth: u32, parent: &Chapter) -> Chapter {
        let name = program.name();
        // The title of a stage's page is its question; that of an example's is its name.
        let title = match name.parse::<u32>() {
            Ok(_) => format!("{name} {}", program.title().split_inclusive('?').next().unwrap_or_default()),
            Err(_) => name.clone(),
        };
        below(parent, nth, &title, page_of(program), format!("{{{{#readme {name}}}}}\n"))
    }

    fn filled_in(&self, chapter: &Path, text: &str) -> common::Result<String> {
        let text = pictures(text);
        // First the chapter's own links, because the links of a README that it includes start from another folder.
        let folder = Path::new("docs/src").join(chapter.parent().unwrap_or(Path::new("")));
        let text = links::rewrite(&self.workbook, &folder, chapter, &text)?;
        directives::expand(&self.workbook, chapter, &text)
    }
}

/// A page below a chapter.
fn below(parent: &Chapter, nth: u32, title: &str, path: PathBuf, content: String) -> Chapter {
    let parents = parent.parent_names.iter().chain([&parent.name]).cloned().collect();
    let mut page = Chapter::new(title, content, path, parents);
    page.source_path = None;
    // The depth of this number is the page's depth in the table of contents.
    let above = parent.number.as_deref().cloned().unwrap_or_default();
    page.number = Some(SectionNumber::new([above, vec![nth]].concat()));
    page
}

impl Preprocessor for Programs {
    fn name(&self) -> &str {
        "programs"
    }

    fn run(&self, _: &PreprocessorContext, mut book: Book) -> Result<Book> {
        let cases = clinic::cases(&self.workbook)?;
        let mut result = Ok(());
        book.for_each_mut(|item| {
            let BookItem::Chapter(chapter) = item else { return };
            let Some(path) = &chapter.path else { return };
            if let Some(folder) =
                FOLDERS.iter().find(|folder| *path == Path::new(folder).with_extension("md"))
            {
                let programs =
                    self.workbook.catalog.programs().filter(|program| page_of(*program).starts_with(folder));
                let pages = programs.zip(1..).map(|(program, nth)| self.page(program, nth, chapter));
                chapter.sub_items = pages.map(BookItem::Chapter).collect();
            } else if *path == Path::new("clinic.md") {
                let page = |(case, nth): (&Case, u32)| {
                    let (number, title) = (case.number(), format!("{} {}", case.number(), case.title));
                    let path = format!("clinic/{number}.md").into();
                    let present = format!("[Present this case](../present.html#case-{number})");
                    below(chapter, nth, &title, path, format!("{{{{#case {number}}}}}\n\n{present}\n"))
                };
                chapter.sub_items = cases.iter().zip(1..).map(page).map(BookItem::Chapter).collect();
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

/// A stage's page, with links to what only the book has: the view for a projector, below the heading of the stage's
/// change; and the page of a recording, below its picture.
fn presented(path: &Path, text: &str) -> String {
    let number = path.file_stem().unwrap_or_default().display();
    let present = format!("\n[Present this diff](../present.html#{number})\n");
    let has_diff = text.contains("<!-- lesson:begin");
    let link = |line: &str| match line {
        _ if has_diff && line.starts_with("## The change") => present.clone(),
        _ if line.contains("/ctracer.png)") => "\n[Open this page](../ctracer.html)\n".to_owned(),
        _ => String::new(),
    };
    text.split_inclusive('\n').map(|line| line.to_owned() + &link(line)).collect()
}

/// Removes blank lines from inline SVG, because Markdown ends a block of HTML at a blank line.
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
