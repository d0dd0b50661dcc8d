//! Turns links that work in the repository into links that work in the book.

use std::fs;
use std::path::{Path, PathBuf};

use common::{Error, OrCause, Result};
use machine::workbook::Workbook;
use mdbook_markdown::pulldown_cmark::{Event, LinkType, Tag};
use mdbook_markdown::{MarkdownOptions, new_cmark_parser};
use path_clean::clean;

use crate::programs::page_of;

/// Rewrites the links of a Markdown text from `folder`, below the workbook's top folder, for a `chapter` of the book.
///
/// Links to a stage or an example lead to its page, and links to the top README lead to the start page. A link to a
/// file that is not in the book, such as a source, becomes the file's name. But a link to a patch that is alone in
/// its paragraph becomes the patch, folded.
pub fn rewrite(workbook: &Workbook, folder: &Path, chapter: &Path, text: &str) -> Result<String> {
    let mut rewritten = String::with_capacity(text.len());
    let mut done = 0;
    for (event, range) in new_cmark_parser(text, &MarkdownOptions::default()).into_offset_iter() {
        let Event::Start(
            Tag::Link { link_type: LinkType::Inline, dest_url, .. }
            | Tag::Image { link_type: LinkType::Inline, dest_url, .. },
        ) = event
        else {
            continue;
        };
        let (target, fragment) = match dest_url.split_once('#') {
            Some((target, fragment)) => (target, format!("#{fragment}")),
            None => (&*dest_url, String::new()),
        };
        // An image inside a link that we have rewritten needs no rewriting.
        if range.start < done || target.is_empty() || target.contains("://") || target.starts_with("mailto:")
        {
            continue;
        }
        let whole = &text[range.clone()];
        let is_link = !whole.starts_with('!');
        let path = clean(folder.join(target));
        let (path, fragment) = taught(workbook, &path, &fragment).unwrap_or((path, fragment));
        let new = match page(workbook, &path, is_link) {
            Page::Book(page) => {
                let (name, rest) = whole.split_at(whole.rfind("](").unwrap_or(0));
                let way = format!("{}{fragment}", relative(chapter, &page));
                format!("{name}{}", rest.replacen(&*dest_url, &way, 1))
            }
            Page::Repository(path) => {
                let name = whole.split_once("](").map_or(whole, |(name, _)| name.trim_start_matches('['));
                let alone = text[..range.start].ends_with("\n\n") && text[range.end..].starts_with('\n');
                match path.extension() {
                    Some(extension) if extension == "patch" && alone => folded(name, &path)?,
                    _ if name.contains('`') => name.to_owned(),
                    _ => format!("`{name}`"),
                }
            }
            Page::Nowhere => {
                return Err(Error::new(format!("a link of {} leads nowhere", chapter.display()))
                    .evidence(whole.replace('\n', " "))
                    .fix("fix the link in the chapter, or in the README that the chapter includes"));
            }
        };
        rewritten.push_str(&text[done..range.start]);
        rewritten.push_str(&new);
        done = range.end;
    }
    rewritten.push_str(&text[done..]);
    Ok(rewritten)
}

/// What the book has for a path of the repository.
enum Page {
    /// This page or image, below docs/src.
    Book(PathBuf),
    /// This file, which is not in the book.
    Repository(PathBuf),
    Nowhere,
}

fn page(workbook: &Workbook, path: &Path, is_link: bool) -> Page {
    // Two pages that only the book has: the view of the slides, and the page of which this is a picture.
    if path == Path::new("docs/slides") {
        return Page::Book("present.html".into());
    } else if is_link && path == Path::new("docs/src/ctracer.png") {
        return Page::Book("ctracer.html".into());
    }
    if let Ok(path) = path.strip_prefix("docs/src") {
        return Page::Book(path.to_owned());
    }
    if path == Path::new("README.md") || path == Path::new(".") {
        return Page::Book("start.md".into());
    }
    let at = workbook.root.join(path);
    if let Ok(case) = path.strip_prefix("lab/clinic")
        && at.exists()
    {
        let number = case.to_string_lossy().split('-').next().unwrap_or_default().to_owned();
        return Page::Book(format!("clinic/{number}.md").into());
    }
    let mut programs = workbook.catalog.programs();
    match programs.find(|program| at == program.folder || at == program.folder.join("README.md")) {
        Some(program) => Page::Book(page_of(program)),
        None if at.exists() => Page::Repository(at),
        None => Page::Nowhere,
    }
}

/// Where the book has this section of a stage's `teach.md`.
fn taught(workbook: &Workbook, path: &Path, fragment: &str) -> Option<(PathBuf, String)> {
    let chapter = match fragment {
        "#instructor" => "instructor.md",
        "#troubles" => "troubleshooting.md",
        "#what-moved" => "kernel-moved.md",
        _ => return None,
    };
    let file = workbook.root.join(path);
    let stage = workbook.catalog.stages.iter().find(|stage| stage.folder.join("teach.md") == file)?;
    Some((Path::new("docs/src").join(chapter), format!("#stage-{:02}", stage.number)))
}

/// A patch that opens with a click.
fn folded(name: &str, path: &Path) -> Result<String> {
    let patch = fs::read_to_string(path).or_cause(format!("cannot read {}", path.display()))?;
    Ok(format!("<details>\n<summary>{name}</summary>\n\n```diff\n{}\n```\n\n</details>", patch.trim_end()))
}

/// The relative path from a chapter to a page.
fn relative(chapter: &Path, page: &Path) -> String {
    "../".repeat(chapter.components().count().saturating_sub(1)) + &page.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_a_readme_lead_to_pages_of_the_book() {
        let workbook = Workbook::read().unwrap();
        let folder = Path::new("stages/stage03_bio_latency_map");
        let text = "![I/O](../../docs/src/io-path.svg), [02](../stage02_bio_endio_call_time#try-this), [a\nb](src/main.rs), \
            [README.md](../../README.md), [`x`](build.rs), [a](#b), [c](https://d.example/), [view](../../docs/slides#03), \
            [page](../../docs/src/ctracer.png), ![picture](../../docs/src/ctracer.png), [moved](teach.md#what-moved)";
        let rewritten = rewrite(&workbook, folder, Path::new("stages/03.md"), text).unwrap();
        assert_eq!(
            rewritten,
            "![I/O](../io-path.svg), [02](../stages/02.md#try-this), `a\nb`, [README.md](../start.md), `x`, [a](#b), \
            [c](https://d.example/), [view](../present.html#03), [page](../ctracer.html), ![picture](../ctracer.png), \
            [moved](../kernel-moved.md#stage-03)"
        );
        let dead = rewrite(&workbook, folder, Path::new("stages/03.md"), "[a](../stage99)").unwrap_err();
        assert!(
            dead.to_string().contains("stages/03.md") && dead.to_string().contains("[a](../stage99)"),
            "{dead}"
        );
    }
}
