//! The book and its handouts as PDFs, for A4 and for Letter paper. Chromium makes them.
//!
//! | file | contains |
//! |---|---|
//! | `seat-card.pdf` | what people type, and what a line says: one page, for each seat |
//! | `glossary.pdf` | the technical words: one page |
//! | `slow-disk.pdf` | the questions that find a slow disk, and the causes: one page |
//! | `exercises.pdf` | the exercises, each stage on pages of its own |
//! | `questions.pdf` | the stages' questions for pairs, cards to cut out, and the answers at the end |
//! | `concept-test.pdf` | the two forms of the concept test, and their key |
//! | `plans.pdf` | the instructor's plans, each on pages of its own |
//! | `book.pdf` | the book, without what one looks up or opens on a screen |
//!
//! After a change of this file or of a style sheet in `docs/print`, look at the pages:
//! `pdftoppm -r 60 -png target/print/a4/plans.pdf page`.

use std::fs;
use std::path::Path;

use browser::Chromium;
use common::report::print_text;
use common::{OrCause, Result};
use machine::workbook::{Program, Workbook};
use mdbook_markdown::pulldown_cmark::{Event, Tag, TagEnd, html};
use mdbook_markdown::{MarkdownOptions, new_cmark_parser};

use crate::{readme, sheets};

/// The sizes of paper, by their names in CSS. Each has its own folder.
const SIZES: [&str; 2] = ["A4", "Letter"];

/// Makes all PDFs, in the folders `a4` and `letter` below `folder`. The book must have a page `print.html`.
pub fn all(workbook: &Workbook, book: &Path, folder: &Path) -> Result<()> {
    let handouts = [
        ("seat-card", chapter(workbook, "seat-card.md")?),
        ("glossary", glossary(workbook)?),
        ("slow-disk", slow_disk(workbook)?),
        ("exercises", exercises(workbook)?),
        ("questions", sheets::questions(workbook)?),
        ("concept-test", sheets::concept_test(workbook)?),
        ("plans", plans(workbook)?),
    ];
    let whole = book.join("print.html");
    let whole = fs::read_to_string(&whole).or_cause(format!("cannot read {}", whole.display()))?;
    let scratch = tempfile::tempdir().or_cause("cannot make a folder for pages")?;
    // The pages and the pictures in them are in different folders.
    let mut browser = Chromium::start(&["--allow-file-access-from-files"])?;
    let mut pdf = |page: &Path, file: &Path| {
        browser.open(page, "")?;
        browser.pdf(file)
    };
    for size in SIZES {
        let folder = folder.join(size.to_lowercase());
        fs::create_dir_all(&folder).or_cause(format!("cannot make {}", folder.display()))?;
        for (name, markdown) in &handouts {
            let page = scratch.path().join(format!("{name}.html"));
            write(&page, &handout(workbook, name, markdown, size))?;
            pdf(&page, &folder.join(name).with_extension("pdf"))?;
        }
        // The style sheets, fonts and pictures are beside this page. It asks for a printer when it has loaded, and a
        // page can't be printed twice at the same time.
        let page = book.join(format!("print-{size}.html"));
        let style = format!(
            "<script>window.print = () => {{}};</script>\n<style>@page {{ size: {size}; }}\n{}</style>\n</head>",
            include_str!("print/book.css")
        );
        write(&page, &without_links_to_files(&whole).replacen("</head>", &style, 1))?;
        pdf(&page, &folder.join("book.pdf"))?;
        print_text(folder.display())?;
    }
    Ok(())
}

fn chapter(workbook: &Workbook, file: &str) -> Result<String> {
    let path = workbook.root.join("docs/src").join(file);
    fs::read_to_string(&path).or_cause(format!("cannot read {}", path.display()))
}

/// A page for Chromium. Links lead nowhere on paper, so only their text stays.
fn handout(workbook: &Workbook, name: &str, markdown: &str, size: &str) -> String {
    let events = new_cmark_parser(markdown, &MarkdownOptions::default()).flat_map(|event| match event {
        Event::Start(Tag::Link { .. }) | Event::End(TagEnd::Link) => Vec::new(),
        Event::Code(code) => unbroken(&code),
        other => vec![other],
    });
    let mut body = String::new();
    html::push_html(&mut body, events);
    include_str!("print/handout.html")
        .replace("{{name}}", name)
        .replace("{{size}}", size)
        .replace("{{pictures}}", &workbook.root.join("docs/src").display().to_string())
        .replace("{{css}}", include_str!("print/handout.css"))
        .replace("{{body}}", &body)
}

/// Code that ends a line only between words. A browser would also end one after the first hyphen of `--io`.
fn unbroken(code: &str) -> Vec<Event<'static>> {
    let words = code.split_inclusive(' ').flat_map(|word| {
        [
            Event::InlineHtml("<span>".into()),
            Event::Text(word.trim_end().to_owned().into()),
            Event::InlineHtml("</span>".into()),
            Event::Text(word[word.trim_end().len()..].to_owned().into()),
        ]
    });
    let begin = std::iter::once(Event::InlineHtml("<code>".into()));
    begin.chain(words).chain([Event::InlineHtml("</code>".into())]).collect()
}

/// The flow chart, and what the causes predict.
fn slow_disk(workbook: &Workbook) -> Result<String> {
    let text = chapter(workbook, "slow-disk.md")?;
    let causes = text.split("## The causes\n").nth(1).unwrap_or_default();
    let table: String =
        causes.lines().filter(|line| line.starts_with('|')).map(|line| format!("{line}\n")).collect();
    Ok(format!("# How to find a slow disk\n\n![](slow-disk-flow.svg)\n\n{table}"))
}

/// The glossary, a paragraph for each entry, without the links at its end.
fn glossary(workbook: &Workbook) -> Result<String> {
    let text = chapter(workbook, "glossary.md")?;
    let entries = text.split("\n### ").skip(1).map(|entry| {
        let (term, meaning) = entry.trim_end().split_once('\n').unwrap_or((entry, ""));
        format!("\n**{term}:** {}\n", without_last_links(meaning))
    });
    Ok(format!("# Glossary\n{}", entries.collect::<String>()))
}

fn without_last_links(paragraph: &str) -> &str {
    let mut end = paragraph.len();
    let events: Vec<_> =
        new_cmark_parser(paragraph, &MarkdownOptions::default()).into_offset_iter().collect();
    for (event, range) in events.iter().rev() {
        if matches!(event, Event::End(TagEnd::Link)) && range.end == end {
            end = paragraph[..range.start].trim_end_matches([',', ' ', '\n']).len();
        }
    }
    &paragraph[..end]
}

/// The exercises of each stage, without hints and answers.
fn exercises(workbook: &Workbook) -> Result<String> {
    let sheet = |stage: &Program| {
        let text = readme::section_for_book(workbook, Path::new("print.md"), stage, "Exercises")?;
        Ok(format!("# Stage {:02}: {}\n\n{}\n", stage.number, stage.title, without_details(&text)))
    };
    workbook.catalog.stages.iter().map(sheet).collect()
}

/// Leaves out what the reader has to unfold.
fn without_details(text: &str) -> String {
    let mut depth = 0;
    let is_shown = |line: &&str| {
        let line = line.trim_start();
        let was_shown = depth == 0;
        depth += usize::from(line.starts_with("<details"));
        let is_shown = was_shown && depth == 0;
        depth -= usize::from(line.contains("</details>"));
        is_shown
    };
    text.split_inclusive('\n').filter(is_shown).collect()
}

/// The plans, each with its own heading.
fn plans(workbook: &Workbook) -> Result<String> {
    let text = chapter(workbook, "plans.md")?;
    let plans = text
        .split("\n## ")
        .filter(|section| section.lines().next().is_some_and(|heading| heading.ends_with(" minutes")));
    Ok(plans.map(|plan| format!("# A class of {plan}\n")).collect())
}

/// On paper, only links within the document and to the network lead anywhere. Of the others, the text stays, unless the
/// link is a paragraph of its own.
fn without_links_to_files(page: &str) -> String {
    let mut rest = page;
    let mut text = String::with_capacity(page.len());
    while let Some((before, link)) = rest.split_once("<a ") {
        text.push_str(before);
        let (tag, after) = link.split_once('>').unwrap_or((link, ""));
        let (content, end) = after.split_once("</a>").unwrap_or((after, ""));
        let target = tag.split_once("href=\"").map_or("", |(_, target)| target);
        if target.starts_with('#') || target.starts_with("http") {
            text.push_str(&format!("<a {tag}>{content}</a>"));
        } else if !(before.ends_with("<p>") && end.starts_with("</p>")) {
            text.push_str(content);
        }
        rest = end;
    }
    text + rest
}

fn write(page: &Path, html: &str) -> Result<()> {
    fs::write(page, html).or_cause(format!("cannot write {}", page.display()))
}
