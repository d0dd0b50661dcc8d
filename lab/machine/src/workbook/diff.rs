//! The difference between two stages, which is the lesson. We compare item by item, so we can fold unchanged
//! functions and keep together what belongs together.

use std::fmt::Write;
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use common::Result;
use similar::{Algorithm, ChangeTag, DiffOp, DiffTag, TextDiff, capture_diff_slices};

use crate::workbook::copies::{self, Change, Files};
use crate::workbook::{Program, Workbook};

/// How many unchanged lines to show around a change.
const CONTEXT: usize = 3;

/// Items with different names count as one renamed item if this share of their text is the same.
const ALIKE: f32 = 0.4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Same,
    Gone,
    New,
}

/// A line of either side, without its line ending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub kind: Kind,
    /// Its text in pieces, each with whether it changed within the line.
    pub pieces: Vec<(bool, String)>,
}

/// A function, map, type or similar item at the top level of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its name, or both names if it was renamed.
    pub name: String,
    pub lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiff {
    /// Its path within the stage, such as `src/main.rs`; both paths if they differ.
    pub name: String,
    pub items: Vec<Item>,
}

/// How much of a difference to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The changes and the lines near them.
    Folded,
    Full,
}

impl Item {
    pub fn is_changed(&self) -> bool {
        self.lines.iter().any(|line| line.kind != Kind::Same)
    }

    /// Whether it has this name, on either side.
    fn is_called(&self, name: &str) -> bool {
        self.name.split(" -> ").any(|side| side == name)
    }

    /// Whether anything but comments changed.
    pub fn is_changed_code(&self) -> bool {
        let is_comment = |line: &Line| {
            let text = line.text();
            ["//", "/*", "*"].iter().any(|start| text.trim_start().starts_with(start))
        };
        self.lines.iter().any(|line| line.kind != Kind::Same && !is_comment(line))
    }

    /// What a view shows of it, with long unchanged stretches folded.
    fn parts(&self, extent: Extent) -> Vec<Part<'_>> {
        let as_before = |lines: usize| match lines {
            1 => Part::Fold(format!("{}: as before", self.name)),
            _ => Part::Fold(format!("{}: {lines} lines as before", self.name)),
        };
        if extent == Extent::Folded && !self.is_changed() {
            return vec![as_before(self.lines.len())];
        }
        let near = |nth: usize| {
            let from = nth.saturating_sub(CONTEXT);
            let to = (nth + CONTEXT + 1).min(self.lines.len());
            self.lines[from..to].iter().any(|line| line.kind != Kind::Same)
        };
        let mut parts = Vec::new();
        let mut nth = 0;
        while nth < self.lines.len() {
            let stretch = (nth..self.lines.len()).take_while(|nth| !near(*nth)).count();
            // A fold takes a line, too.
            if extent == Extent::Folded && stretch > 1 {
                // Nobody can read the second half of a comment.
                let in_comment = |line: &&Line| {
                    let text = line.text();
                    line.kind == Kind::Same && ["* ", "*/"].iter().any(|is| text.trim_start().starts_with(is))
                };
                let stretch = stretch + self.lines[nth + stretch..].iter().take_while(in_comment).count();
                parts.push(as_before(stretch));
                nth += stretch;
            } else {
                parts.extend(self.lines[nth..nth + stretch.max(1)].iter().map(Part::Line));
                nth += stretch.max(1);
            }
        }
        parts
    }
}

impl Line {
    pub fn text(&self) -> String {
        self.pieces.iter().map(|(_, text)| text.as_str()).collect()
    }
}

/// A diff in reading order. Unchanged items are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The items whose change is the lesson. A source appears twice if the reading order returns to it.
    pub lesson: Vec<FileDiff>,
    /// The other items that changed: counters, reports and options.
    pub bookkeeping: Vec<FileDiff>,
}

impl Reading {
    /// Puts the items with these names first, in this order; see [`Program::lesson`].
    pub fn of(files: &[FileDiff], lesson: &[&str]) -> Self {
        let changed = files.iter().flat_map(|file| file.items.iter().map(move |item| (file, item)));
        let changed: Vec<_> = changed.filter(|(_, item)| item.is_changed()).collect();
        let named = lesson.iter().filter_map(|name| changed.iter().find(|(_, item)| item.is_called(name)));
        let is_lesson = |item: &Item| lesson.iter().any(|name| item.is_called(name));
        let rest = changed.iter().filter(|(_, item)| !is_lesson(item));
        Self { lesson: by_file(named), bookkeeping: by_file(rest) }
    }
}

fn by_file<'a>(items: impl Iterator<Item = &'a (&'a FileDiff, &'a Item)>) -> Vec<FileDiff> {
    let mut files = Vec::<FileDiff>::new();
    for (file, item) in items {
        match files.last_mut().filter(|last| last.name == file.name) {
            Some(last) => last.items.push((*item).clone()),
            None => files.push(FileDiff { name: file.name.clone(), items: vec![(*item).clone()] }),
        }
    }
    files
}

/// The sources of two stages, the BPF source first.
pub fn between(old: &Program, new: &Program) -> Result<Vec<FileDiff>> {
    Ok(of_files(&copies::files(old)?, &copies::files(new)?))
}

pub fn head(old: &Program, new: &Program) -> String {
    format!("From stage {:02} to stage {:02}, which adds {}", old.number, new.number, new.adds)
}

/// What a stage changes in its parent. In the first stage, everything is new.
pub fn of_stage(workbook: &Workbook, stage: &Program) -> Result<Vec<FileDiff>> {
    if stage.parent.is_some() {
        return between(workbook.catalog.parent(stage)?, stage);
    }
    let new = copies::files(stage)?;
    let old = new.iter().map(|(path, _)| (path.clone(), String::new())).collect();
    Ok(of_files(&old, &new))
}

/// The sources of two stages or of copies, as returned by [`copies::files`]: the files that people read.
pub fn of_files(old: &Files, new: &Files) -> Vec<FileDiff> {
    let file = |((from, old), (to, new)): (&(PathBuf, String), &(PathBuf, String))| FileDiff {
        name: match from == to {
            true => to.display().to_string(),
            false => format!("{} -> {}", from.display(), to.display()),
        },
        items: of_texts(old, new),
    };
    old.iter().zip(new).filter(|(_, (path, _))| path.starts_with("src")).map(file).collect()
}

pub fn of_changes(changes: &[Change]) -> Vec<FileDiff> {
    let text = |side: &Option<String>| side.clone().unwrap_or_default();
    let file = |Change { path, old, new }: &Change| FileDiff {
        name: path.display().to_string(),
        items: of_texts(&text(old), &text(new)),
    };
    changes.iter().map(file).collect()
}

/// The items of two texts, matched by name.
pub fn of_texts(old: &str, new: &str) -> Vec<Item> {
    let (olds, news) = (items(old), items(new));
    let names = |items: &[(String, String)]| items.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let mut found = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, &names(&olds), &names(&news)) {
        let (tag, from, to) = op.as_tag_tuple();
        let (from, to) = (&olds[from], &news[to]);
        if tag == DiffTag::Equal {
            found.extend(from.iter().zip(to).map(|((name, old), (_, new))| item(name.clone(), old, new)));
        } else {
            found.extend(renamed(from, to));
        }
    }
    found
}

/// Matches items that have no namesake on the other side: two similar items are one item that was renamed, but a program is
/// never a renamed function.
fn renamed(olds: &[(String, String)], news: &[(String, String)]) -> Vec<Item> {
    let mut found = Vec::new();
    let mut rest = olds;
    for (name, new) in news {
        let is_program = |text: &str| text.contains("SEC(\"");
        let is_alike = |(_, old): &(String, String)| {
            is_program(old) == is_program(new) && TextDiff::from_lines(old, new).ratio() >= ALIKE
        };
        let alike = rest.iter().position(is_alike);
        let Some(nth) = alike else {
            found.push(item(name.clone(), "", new));
            continue;
        };
        found.extend(rest[..nth].iter().map(|(name, old)| item(name.clone(), old, "")));
        let (old_name, old) = &rest[nth];
        found.push(item(format!("{old_name} -> {name}"), old, new));
        rest = &rest[nth + 1..];
    }
    found.extend(rest.iter().map(|(name, old)| item(name.clone(), old, "")));
    found
}

fn item(name: String, old: &str, new: &str) -> Item {
    let diff = TextDiff::from_lines(old, new);
    let line = |op: &DiffOp| -> Vec<Line> {
        // Otherwise, words of lines that have nothing to do with each other would be compared.
        let is_line_by_line = op.old_range().len() == op.new_range().len();
        // By default, half a second ends the search, and a busy machine would get another diff.
        diff.iter_inline_changes_deadline(op, None)
            .map(|change| Line {
                kind: match change.tag() {
                    ChangeTag::Equal => Kind::Same,
                    ChangeTag::Delete => Kind::Gone,
                    ChangeTag::Insert => Kind::New,
                },
                pieces: change
                    .iter_strings_lossy()
                    .map(|(changed, text)| {
                        (changed && is_line_by_line, text.trim_end_matches('\n').to_owned())
                    })
                    .filter(|(_, text)| !text.is_empty())
                    .collect(),
            })
            .collect()
    };
    Item { name, lines: diff.ops().iter().flat_map(line).collect() }
}

/// The top-level items of a C or Rust source, each with its name and its text: everything between blank lines outside
/// of braces.
pub fn items(source: &str) -> Vec<(String, String)> {
    let mut depth = 0;
    let mut items: Vec<String> = Vec::new();
    let mut open = false;
    for line in source.split_inclusive('\n') {
        if depth == 0 && line.trim().is_empty() {
            open = false;
            continue;
        }
        match items.last_mut() {
            Some(item) if open => item.push_str(line),
            _ => items.push(line.to_owned()),
        }
        open = true;
        depth += line.matches('{').count() as i32 - line.matches('}').count() as i32;
    }
    items.into_iter().map(|text| (name(&text), text)).collect()
}

fn name(text: &str) -> String {
    let is_comment = |line: &&str| ["//", "/*", " *", "#["].iter().any(|start| line.starts_with(start));
    let mut code = text.lines().filter(|line| !is_comment(line));
    if let Some((_, map)) = text.rsplit_once("\n} ")
        && let Some((map, _)) = map.split_once(" SEC(\".maps\")")
    {
        return map.to_owned();
    }
    let Some(first) = code.find(|line| !line.starts_with("SEC(")) else {
        return "about".to_owned();
    };
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let after = |mark: &str| first.split_once(mark).map(|(_, rest)| word(rest));
    if first.starts_with("#include") {
        return "#include".to_owned();
    }
    if first.starts_with("use ") {
        return "use".to_owned();
    }
    let marks = ["BPF_KPROBE(", "BPF_KRETPROBE(", "BPF_PROG(", "#define ", "struct ", "enum ", "mod ", "fn "];
    // A function's return type and its parameters may also be structs.
    let is_function = first.contains('(') && !first.contains("BPF_");
    if let Some(name) = marks.iter().filter(|_| !is_function).find_map(|mark| after(mark)) {
        return name;
    }
    // A function, or a group of global variables.
    let head = |line: &str| {
        let head = line.split(['(', ';', '[', '=']).next().unwrap_or(line).trim_end();
        head.rsplit([' ', '*']).next().unwrap_or(head).to_owned()
    };
    if is_function {
        return head(first);
    }
    let rest = code.filter(|line| line.contains(';')).map(head);
    [head(first)].into_iter().chain(rest).collect::<Vec<_>>().join(", ")
}

/// For a terminal: in color, with changes within a line underlined, and one line for each unchanged item.
pub fn terminal(files: &[FileDiff], extent: Extent) -> String {
    let style = |style: Style, text: &str| format!("{}{text}{}", style.render(), style.render_reset());
    let fold = Style::new().dimmed();
    let mut text = String::new();
    for file in files {
        let _ = writeln!(text, "\n{}", style(Style::new().bold(), &file.name));
        for part in parts(file, extent) {
            let _ = match part {
                Part::Blank => writeln!(text),
                Part::Fold(what) => writeln!(text, "{}", style(fold, &format!("@@ {what} @@"))),
                Part::Line(line) => {
                    let (mark, colour) = match line.kind {
                        Kind::Same => (' ', Style::new()),
                        Kind::Gone => ('-', AnsiColor::Red.on_default()),
                        Kind::New => ('+', AnsiColor::Green.on_default()),
                    };
                    // If everything is new, there is nothing to highlight.
                    let mixed = line.pieces.iter().any(|(changed, _)| !changed);
                    let pieces = line.pieces.iter().map(|(changed, text)| {
                        let marked = if *changed && mixed { colour.underline().bold() } else { colour };
                        style(marked, text)
                    });
                    writeln!(text, "{}{}", style(colour, &mark.to_string()), pieces.collect::<String>())
                }
            };
        }
    }
    text
}

/// For a README: a code block for each source, in which GitHub colors the removed and added lines.
pub fn markdown(files: &[FileDiff]) -> String {
    let mut text = String::new();
    for file in files {
        if !file.items.iter().any(Item::is_changed) {
            let _ = writeln!(text, "`{}` is the same.\n", file.name);
            continue;
        }
        let _ = writeln!(text, "`{}`\n\n```diff", file.name);
        for part in parts(file, Extent::Folded) {
            let _ = match part {
                Part::Blank => writeln!(text),
                Part::Fold(what) => writeln!(text, "@@ {what} @@"),
                Part::Line(line) => {
                    let mark = match line.kind {
                        Kind::Same => " ",
                        Kind::Gone => "-",
                        Kind::New => "+",
                    };
                    writeln!(text, "{}", format!("{mark}{}", line.text()).trim_end())
                }
            };
        }
        let _ = writeln!(text, "```\n");
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// What a view shows of a source, line by line.
enum Part<'a> {
    Blank,
    Fold(String),
    Line(&'a Line),
}

fn parts(file: &FileDiff, extent: Extent) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut was_folded = true;
    for item in &file.items {
        let is_folded = extent == Extent::Folded && !item.is_changed();
        if !(was_folded && (is_folded || parts.is_empty())) {
            parts.push(Part::Blank);
        }
        was_folded = is_folded;
        parts.extend(item.parts(extent));
    }
    parts
}

/// A patch that turns the files of one stage into those of the other, as returned by [`copies::files`]. It leaves out
/// READMEs and exercises. To apply it: `patch -p1 < PATCH`.
pub fn patch(old: &Files, new: &Files) -> String {
    let mut patch = String::new();
    for ((from, old), (to, new)) in old.iter().zip(new) {
        let mut add = |from: &str, old: &str, to: &str, new: &str| {
            if old != new {
                let diff = TextDiff::from_lines(old, new);
                let _ = write!(patch, "{}", diff.unified_diff().header(from, to));
            }
        };
        let (a, b) = (format!("a/{}", from.display()), format!("b/{}", to.display()));
        if from == to {
            add(&a, old, &b, new);
        } else {
            add(&a, old, "/dev/null", "");
            add("/dev/null", "", &b, new);
        }
    }
    patch
}

/// The lines that differ between two texts: the removed ones and the added ones.
pub fn changed(old: &str, new: &str) -> Vec<String> {
    let diff = TextDiff::from_lines(old, new);
    let changes = diff.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal);
    changes.map(|change| change.value().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "#include \"vmlinux.h\"\n\n/* A map. */\nstruct {\n\t__uint(a, 1);\n} start_map SEC(\".maps\");\n\n\
        u64 lost; /* one */\nu64 found;\n\nSEC(\"kprobe/f\")\nint BPF_KPROBE(f_entry)\n{\n\tcall(1);\n\n\treturn 0;\n}\n";

    #[test]
    fn items_have_the_names_that_people_give_them() {
        let names = |source| items(source).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(OLD), ["#include", "start_map", "lost, found", "f_entry"]);
        let rust = "//! About.\n\nuse a::b;\nuse c;\n\nmod bpf {\n    include!();\n}\n\n/// Doc\n#[derive(A)]\nstruct Args {\n\
            \n    a: u8,\n}\n\nfn main() -> Result<()> {\n    b()\n}\n";
        assert_eq!(names(rust), ["about", "use", "bpf", "Args", "main"]);
        let c = "static __always_inline int add(u32 key, u64 pages)\n{\n}\n\nSEC(\"tracepoint/a/b\")\nint b(struct c *d)\n{\n}\n\n\
            enum count { READ };\n\n#define EEXIST 17\n\nchar LICENSE[] SEC(\"license\") = \"GPL\";\n";
        assert_eq!(names(c), ["add", "b", "count", "EEXIST", "LICENSE"]);
    }

    #[test]
    fn what_stayed_is_folded_and_what_changed_is_shown() {
        let new = OLD.replace("call(1)", "call(2)").replace("u64 lost; /* one */\nu64 found;\n\n", "");
        let file = FileDiff { name: "src/a.c".into(), items: of_texts(OLD, &new) };
        insta::assert_snapshot!(markdown(&[file]));
    }

    #[test]
    fn a_function_that_was_renamed_is_one_item() {
        let new = OLD.replace("f_entry", "g_entry");
        let items = of_texts(OLD, &new);
        assert_eq!(items.last().unwrap().name, "f_entry -> g_entry");
        let program = "SEC(\"kprobe/f\")\nint f(void)\n{\n\tcall(1);\n\treturn 0;\n}\n";
        let function = "static int g(void)\n{\n\tcall(1);\n\treturn 0;\n}\n";
        let items = of_texts(program, function);
        assert_eq!(items.iter().map(|item| &*item.name).collect::<Vec<_>>(), ["g", "f"]);
    }
}
