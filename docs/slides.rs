//! The slides of the projector's view: pictures of the book, which build up step by step. `docs/slides/README.md`
//! explains the format.

use std::fs;
use std::path::Path;

use common::{Error, OrCause, Result};
use machine::workbook::Workbook;

use crate::readme;

/// Some slides that belong together: a part of the theory, or those of a stage.
#[derive(Debug, Default)]
pub struct Part {
    /// The slot in the plans, such as `bpf`, or the stage, such as `03`.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its slides.
    pub slides: Vec<Slide>,
    /// What to do in each exercise of a stage, in order, in few words.
    pub tasks: Vec<String>,
}

/// A picture or a text, and what to say about it.
#[derive(Debug, Default)]
pub struct Slide {
    /// Its title.
    pub title: String,
    /// The picture's file in `docs/src`. Empty: the slide has a text.
    pub picture: String,
    /// What a slide without a picture shows, in Markdown.
    pub text: String,
    /// The section of the book, such as `load.md#build-from-c-to-an-object`.
    pub link: String,
    /// What is shown, step by step.
    pub steps: Vec<Step>,
    /// What the presenter says.
    pub say: String,
    /// What the presenter asks, with the answer to expect.
    pub ask: Vec<[String; 2]>,
}

/// What a step shows.
#[derive(Debug)]
pub struct Step {
    /// The names of groups of the picture; none: everything.
    pub groups: Vec<String>,
    /// The sentence below the picture.
    pub caption: String,
}

/// How many words of a task a class reads, and still looks at its own screen.
const WORDS: usize = 25;

/// The theory, and each stage's slides from its `teach.md`, with `words` for what is measured, such as `{took}`.
pub fn all(workbook: &Workbook, words: &[(&str, String)]) -> Result<Vec<Part>> {
    let theory = workbook.root.join("docs/slides/theory.md");
    let text = fs::read_to_string(&theory).or_cause(format!("cannot read {}", theory.display()))?;
    let mut texts = vec![(theory, text)];
    for stage in &workbook.catalog.stages {
        // Its links are then those of a chapter.
        let slides = readme::teach(workbook, Path::new("present.md"), stage, "Slides")?;
        let slides = slides.map(|slides| format!("# {:02}\n\n{slides}", stage.number));
        texts.extend(slides.map(|slides| (stage.folder.join("teach.md"), slides)));
    }
    let mut parts = Vec::new();
    for (file, mut text) in texts {
        for (name, word) in words {
            text = text.replace(name, word);
        }
        let wrong = |error: Error| {
            Error::new(format!("{} has a wrong slide", file.display()))
                .evidence(error)
                .fix("docs/slides/README.md explains the format")
        };
        parts.extend(parse(&text).map_err(wrong)?);
    }
    Ok(parts)
}

fn parse(text: &str) -> Result<Vec<Part>> {
    let mut parts: Vec<Part> = Vec::new();
    for block in text.split("\n\n").map(str::trim).filter(|block| !block.is_empty()) {
        if let Some(heading) = block.strip_prefix("# ") {
            let (id, title) = heading.split_once(": ").unwrap_or((heading, ""));
            parts.push(Part { id: id.to_owned(), title: title.to_owned(), ..Part::default() });
            continue;
        }
        let part = parts.last_mut().ok_or_else(|| wrong("it begins without a part", block))?;
        if let Some(title) = block.strip_prefix("## ").or_else(|| block.strip_prefix("### ")) {
            part.slides.push(Slide { title: title.to_owned(), ..Slide::default() });
            continue;
        }
        if block.starts_with("- Task: ") {
            part.tasks = block.split("- Task: ").skip(1).map(one_line).collect();
            if part.tasks.iter().any(|task| task.split(' ').count() > WORDS) {
                return Err(wrong(&format!("a task has more than {WORDS} words"), block));
            }
            continue;
        }
        let slide = part.slides.last_mut().ok_or_else(|| wrong("a part begins without a slide", block))?;
        let line = one_line(block);
        if let Some(say) = line.strip_prefix("Say: ") {
            slide.say = say.to_owned();
        } else if let Some(text) = line.strip_prefix("Show: ") {
            slide.text = text.to_owned();
        } else if let Some(asked) = line.strip_prefix("Ask: ") {
            let (question, answer) =
                asked.split_once(" Answer: ").ok_or_else(|| wrong("no answer", block))?;
            slide.ask.push([question.to_owned(), answer.to_owned()]);
        } else if line.starts_with('[') || line.starts_with('!') {
            let (picture, link) = match line.strip_prefix("![](") {
                Some(picture) => picture.split_once(") ").ok_or_else(|| wrong("no link", block))?,
                None => ("", line.as_str()),
            };
            slide.picture = picture.to_owned();
            let link = link.split_once("](").and_then(|(_, link)| link.strip_suffix(')'));
            slide.link = link.ok_or_else(|| wrong("no link", block))?.to_owned();
        } else {
            for line in block.split("\n- ").map(|line| line.trim_start_matches("- ")) {
                slide.steps.push(step(line)?);
            }
        }
    }
    for slide in parts.iter().flat_map(|part| &part.slides) {
        // Either a picture with steps, or a text.
        let [has_picture, has_steps, has_text] =
            [!slide.picture.is_empty(), !slide.steps.is_empty(), !slide.text.is_empty()];
        let shows = has_picture == has_steps && has_picture != has_text && !slide.link.is_empty();
        if !shows || slide.say.is_empty() || slide.ask.is_empty() {
            return Err(Error::new("a slide lacks its picture, its steps, what to say, or a question")
                .evidence(&slide.title));
        }
    }
    Ok(parts)
}

fn step(line: &str) -> Result<Step> {
    let (names, caption) = line.split_once(": ").ok_or_else(|| wrong("a step without a sentence", line))?;
    let groups: Option<Vec<_>> =
        names.split_whitespace().map(|name| name.strip_prefix('#').map(str::to_owned)).collect();
    let groups = match (groups, names) {
        (_, "all") => Vec::new(),
        (Some(groups), _) => groups,
        (None, _) => return Err(wrong("a step needs names of groups, such as #disk, or the word all", line)),
    };
    Ok(Step { groups, caption: one_line(caption) })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn wrong(what: &str, block: &str) -> Error {
    Error::new(what).evidence(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slide_needs_everything() {
        let whole = "# bpf: BPF\n\n## A\n\n![](a.svg) [A](a.md#a)\n\n- #one #two: One.\n- all: Two.\n\nSay: S.\n\n\
                     Ask: Q? Answer: A.\n";
        let parts = parse(whole).unwrap();
        let slide = &parts[0].slides[0];
        assert_eq!((parts[0].id.as_str(), slide.link.as_str()), ("bpf", "a.md#a"));
        assert_eq!(slide.steps[0].groups, ["one", "two"]);
        assert_eq!((slide.steps[1].groups.len(), slide.steps[1].caption.as_str()), (0, "Two."));
        for lacking in ["Say: S.\n", "Ask: Q? Answer: A.", "- #one #two: One.\n- all: Two.\n"] {
            parse(&whole.replace(lacking, "")).unwrap_err();
        }
        parse(&whole.replace("#one #two", "#one two")).unwrap_err();
        let steps = "- #one #two: One.\n- all: Two.";
        parse(&whole.replace(steps, "Show: Two.")).unwrap_err();
        let text = parse(&whole.replace(steps, "Show: Two.").replace("![](a.svg) ", "")).unwrap();
        assert_eq!((text[0].slides[0].text.as_str(), text[0].slides[0].link.as_str()), ("Two.", "a.md#a"));
        let tasks = parse("# 03\n\n- Task: Do\n  it.\n- Task: And this.\n").unwrap();
        assert_eq!(tasks[0].tasks, ["Do it.", "And this."]);
        parse(&format!("# 03\n\n- Task: {}", "word ".repeat(WORDS + 1))).unwrap_err();
    }
}
