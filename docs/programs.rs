//! What we give to mdBook: the chapters, and a page for every stage, every example and every case of the clinic.

use std::fs;
use std::path::{Path, PathBuf};

use common::{Error, OrCause};
use lab::clinic::{self, Case};
use machine::workbook::{Program, Workbook};
use mdbook_preprocessor::book::{Book, BookItem, Chapter, SectionNumber};
use mdbook_preprocessor::errors::Result;
use mdbook_preprocessor::{Preprocessor, PreprocessorContext};
use serde::Serialize;
use serde_json::json;
use upkeep::publish;

use crate::{links, questions, readme};

/// The folders of programs. Their pages are below the chapter of the same name.
const FOLDERS: [&str; 2] = ["stages", "examples"];

/// The path of a program's page in the book, such as `stages/03.md`.
pub fn page_of(program: &Program) -> PathBuf {
    program.page().with_extension("md")
}

/// Adds the pages of the programs and of the clinic's cases, and makes every chapter's links fit the book.
pub struct Programs {
    workbook: Workbook,
}

impl Programs {
    /// For the stages and examples of this workbook.
    pub fn new(workbook: Workbook) -> Self {
        Self { workbook }
    }

    /// A program's page is its README.
    fn page(&self, program: &Program, nth: u32, parent: &Chapter) -> common::Result<Chapter> {
        let name = program.name();
        // The title of a stage's page is its question; that of an example's is its name.
        let title = match name.parse::<u32>() {
            Ok(_) => format!("{name} {}", program.title.split_inclusive('?').next().unwrap_or_default()),
            Err(_) => name.clone(),
        };
        let path = page_of(program);
        let text = presented(&path, &readme::page(&self.workbook, &path, program)?);
        let text = questions::in_program(&name, &text, &::questions::of(&program.folder)?)?;
        let source = program.folder.strip_prefix(&self.workbook.root).unwrap_or(&program.folder);
        Ok(below(parent, nth, &title, path, text, &source.join("README.md")))
    }

    fn case(&self, case: &Case, nth: u32, parent: &Chapter) -> common::Result<Chapter> {
        let (number, title) = (case.number(), format!("{} {}", case.number(), case.title));
        let path = PathBuf::from(format!("clinic/{number}.md"));
        let text = with_steps(case, &publish::clinic::page(case)?)?;
        let text = links::rewrite(&self.workbook, &Path::new("lab/clinic").join(&case.name), &path, &text)?;
        let present = format!("[Present this case](../present.html#case-{number})");
        let source = Path::new("lab/clinic").join(&case.name).join("case.md");
        Ok(below(parent, nth, &title, path, format!("{text}\n{present}\n"), &source))
    }

    /// The chapter with a section of each stage's `teach.md`, in place of the text that says where they are.
    fn with_stages(&self, chapter: &Path, text: String) -> common::Result<String> {
        let Some((before, rest)) = text.split_once("<!-- each stage: ") else { return Ok(text) };
        let heading = rest.split(" -->").next().unwrap_or_default();
        let mut all = before.to_owned();
        for stage in &self.workbook.catalog.stages {
            if let Some(section) = readme::teach(&self.workbook, chapter, stage, heading)? {
                all += &format!("### Stage {:02}\n\n{section}\n\n", stage.number);
            }
        }
        Ok(all + rest.find("\n## ").map_or("", |after| &rest[after..]))
    }

    /// The chapter with links that work in the book, and with the pages below it.
    fn fill(&self, chapter: &mut Chapter) -> common::Result<()> {
        let Some(path) = chapter.path.clone() else { return Ok(()) };
        let folder = Path::new("docs/src");
        let text = links::rewrite(&self.workbook, folder, &path, &chapter.content)?;
        let text = self.with_stages(&path, text)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let text = with_pictures(&self.workbook.root.join(folder), &text)?;
        let asked = ::questions::of_chapter(&self.workbook.root, &name)?;
        chapter.content = questions::in_chapter(&name, &text, &asked)?;
        let pages: common::Result<Vec<_>> = if let Some(folder) =
            FOLDERS.iter().find(|folder| path == Path::new(folder).with_extension("md"))
        {
            let programs =
                self.workbook.catalog.programs().filter(|program| page_of(program).starts_with(folder));
            programs.zip(1..).map(|(program, nth)| self.page(program, nth, chapter)).collect()
        } else if path == Path::new("clinic.md") {
            chapter.content = with_look_up(&chapter.content)?;
            let cases = clinic::cases(&self.workbook)?;
            cases.iter().zip(1..).map(|(case, nth)| self.case(case, nth, chapter)).collect()
        } else {
            return Ok(());
        };
        chapter.sub_items = pages?.into_iter().map(BookItem::Chapter).collect();
        Ok(())
    }
}

/// A page below a chapter, and its source below the workbook's top folder.
fn below(parent: &Chapter, nth: u32, title: &str, path: PathBuf, content: String, source: &Path) -> Chapter {
    let parents = parent.parent_names.iter().chain([&parent.name]).cloned().collect();
    let mut page = Chapter::new(title, content, path, parents);
    // As mdBook wants it: from docs/src on.
    page.source_path = Some(Path::new("../..").join(source));
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
        let mut result = Ok(());
        // Those below a chapter come with it.
        for item in &mut book.items {
            if let BookItem::Chapter(chapter) = item {
                result = result.and_then(|()| self.fill(chapter));
            }
        }
        result?;
        Ok(book)
    }
}

/// A program's page, with links to what only the book has: the view for a projector, below the heading of the stage's
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

/// Adds what looks up an error to the clinic, before its second heading. `docs/present/book.ts` fills it.
fn with_look_up(text: &str) -> common::Result<String> {
    let (before, after) =
        text.split_once("\n## ").ok_or_else(|| Error::new("the clinic's chapter has no second heading"))?;
    let known = script(&verifier::known())?;
    Ok(format!(
        "{before}\n## Paste your error\n\n<div class=\"look-up\" hidden>\n\
         <textarea rows=\"4\" spellcheck=\"false\" aria-label=\"Your error\" \
         placeholder=\"R1 invalid mem access 'scalar'\"></textarea>\n\
         <output></output>\n{known}\n</div>\n\n## {after}"
    ))
}

/// Adds the view that steps through a case's logs, before it says how to read them. `docs/present/log.ts` fills it.
fn with_steps(case: &Case, text: &str) -> common::Result<String> {
    let kernels = case.refused_by().into_iter().rev();
    let told: Vec<_> = kernels
        .filter_map(|kernel| {
            Some(json!({ "kernel": kernel, "walk": verifier::walk(&case.log(kernel)?, &[])? }))
        })
        .collect();
    let Some((before, after)) = text.split_once("\n## ").filter(|_| !told.is_empty()) else {
        return Ok(text.to_owned());
    };
    let told = script(&told)?;
    Ok(format!("{before}\n## Step by step\n\n<div class=\"log-view\" hidden>\n{told}\n</div>\n\n## {after}"))
}

/// Data for the page's script.
fn script(data: &impl Serialize) -> common::Result<String> {
    // In a script, nothing may look like its end. Markdown ends a block of HTML at a blank line, and there is none in it.
    let data = serde_json::to_string(data).or_cause("cannot write a page's data as JSON")?;
    Ok(format!("<script type=\"application/json\">{}</script>", data.replace('<', "\\u003c")))
}

/// Puts a picture that has links into the page, because a browser opens only those.
fn with_pictures(folder: &Path, text: &str) -> common::Result<String> {
    let mut filled = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let name =
            line.strip_prefix("![").and_then(|line| line.trim_end().strip_suffix(".svg)")?.split_once("]("));
        let picture = match name {
            Some((_, name)) => {
                let file = folder.join(name).with_extension("svg");
                let svg = fs::read_to_string(&file).or_cause(format!("cannot read {}", file.display()))?;
                // Alone, a picture follows the system. Here it follows the book.
                svg.replace("@media (prefers-color-scheme: dark)", ":is(.navy, .coal, .ayu)")
            }
            None => String::new(),
        };
        if picture.contains("<a ") {
            // Markdown ends a block of HTML at a blank line.
            let lines = picture.lines().filter(|line| !line.trim().is_empty());
            filled.push_str("<div class=\"picture\">\n");
            filled.extend(lines.flat_map(|line| [line, "\n"]));
            filled.push_str("</div>\n");
        } else {
            filled.push_str(line);
        }
    }
    Ok(filled)
}
