//! Builds the book and reads every page of it: each link must lead somewhere, and nothing may come from the network.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::thread;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{BufferQueue, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer};
use lab::clinic;
use machine::workbook::{Workbook, copies};
use mdbook_markdown::pulldown_cmark::{Event, Tag, TagEnd};
use mdbook_markdown::{MarkdownOptions, new_cmark_parser};
use sha2::{Digest, Sha256};

/// The parts of a page's tags that we check.
#[derive(Default)]
struct Page {
    ids: Vec<String>,
    /// Tag, attribute and value.
    links: Vec<(String, String, String)>,
}

/// We use the tokens of html5ever, the parser that mdBook itself uses, because we have it anyway.
#[derive(Default)]
struct Tags(RefCell<Page>);

impl TokenSink for Tags {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        if let Token::TagToken(tag) = token
            && tag.kind == TagKind::StartTag
        {
            let mut page = self.0.borrow_mut();
            for attribute in &tag.attrs {
                let value = attribute.value.to_string();
                match &*attribute.name.local {
                    "id" => page.ids.push(value),
                    name @ ("href" | "src" | "srcset" | "poster" | "data" | "xlink:href") => {
                        page.links.push((tag.name.to_string(), name.to_owned(), value));
                    }
                    _ => {}
                }
            }
            // The content of a script is not HTML.
            if &*tag.name == "script" {
                return TokenSinkResult::RawData(html5ever::tokenizer::states::RawKind::ScriptData);
            }
        }
        TokenSinkResult::Continue
    }
}

fn parse(html: &str) -> Page {
    let tokenizer = Tokenizer::new(Tags::default(), Default::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(html));
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.0.into_inner()
}

fn book() -> (tempfile::TempDir, PathBuf) {
    let temp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let folder = temp.path().join("book");
    let output = Command::new(env!("CARGO_BIN_EXE_book")).arg(&folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (temp, folder)
}

/// Every file below a folder, by its path from there.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut left = vec![folder.to_owned()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
        } else {
            found.insert(path.strip_prefix(folder).unwrap().to_owned());
        }
    }
    found
}

fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => assert!(normal.pop(), "{} is outside of the book", path.display()),
            other => normal.push(other),
        }
    }
    normal
}

#[test]
fn every_link_leads_somewhere_and_nothing_comes_from_the_network() {
    let (_temp, folder) = book();
    let files = files(&folder);
    let pages: BTreeMap<_, _> = files
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "html"))
        .map(|path| (path.clone(), parse(&fs::read_to_string(folder.join(path)).unwrap())))
        .collect();
    let workbook = Workbook::read().unwrap();
    let cases = clinic::cases(&workbook).unwrap();
    let stages = workbook.catalog.stages;
    let presented: Vec<_> = stages.iter().map(|stage| format!("{:02}", stage.number)).collect();
    let presented =
        [presented, cases.iter().map(|case| format!("case-{}", case.number())).collect()].concat();
    let mut wrong = Vec::new();
    for (path, page) in &pages {
        let mut seen = BTreeSet::new();
        for id in page.ids.iter().filter(|id| !seen.insert(*id)) {
            wrong.push(format!("{}: the id {id} is there twice", path.display()));
        }
        for (tag, attribute, value) in &page.links {
            let outside = value.contains("://") || value.starts_with("//");
            if outside && tag == "a" || value.starts_with("data:") {
                continue;
            }
            let at = format!("{}: <{tag} {attribute}=\"{value}\">", path.display());
            if outside {
                wrong.push(format!("{at} comes from the network"));
                continue;
            }
            let (target, fragment) = value.split_once('#').unwrap_or((value, ""));
            let target = match target {
                "" => path.clone(),
                target => normal(&path.parent().unwrap().join(target)),
            };
            if !files.contains(&target) {
                wrong.push(format!("{at} leads nowhere"));
            } else if target == Path::new("present.html") {
                // Its script knows the stages and the cases.
                let id = fragment.split('/').next().unwrap_or_default();
                if !fragment.is_empty() && !presented.iter().any(|known| known == id) {
                    wrong.push(format!("{at} leads to nothing that it presents"));
                }
            } else if !fragment.is_empty()
                && pages.get(&target).is_some_and(|page| !page.ids.iter().any(|id| id == fragment))
            {
                wrong.push(format!("{at} leads to no such place of the page"));
            }
        }
    }
    for stage in &stages {
        let page = PathBuf::from(format!("stages/{:02}.html", stage.number));
        let present = format!("../present.html#{:02}", stage.number);
        if !pages.get(&page).is_some_and(|page| page.links.iter().any(|(.., value)| *value == present)) {
            wrong.push(format!("{} has no link to {present}", page.display()));
        }
    }
    for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "css")) {
        let css = fs::read_to_string(folder.join(path)).unwrap();
        if css.contains("url(http")
            || css.contains("url(\"http")
            || css.contains("url('http")
            || css.contains("@import")
        {
            wrong.push(format!("{} loads something from elsewhere", path.display()));
        }
    }
    assert!(pages.len() > stages.len() && wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_same_sources_give_the_same_book() {
    let ((_one, one), (_two, two)) = (book(), book());
    assert_eq!(files(&one), files(&two));
    for path in files(&one) {
        assert!(
            fs::read(one.join(&path)).unwrap() == fs::read(two.join(&path)).unwrap(),
            "{} differs",
            path.display()
        );
    }
}

/// The chapters in `docs/src`, each with its file's name.
fn chapters() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut names = files(&folder);
    names.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    names
        .iter()
        .map(|name| (name.display().to_string(), fs::read_to_string(folder.join(name)).unwrap()))
        .collect()
}

/// A page without its generated blocks.
fn by_hand(page: &str) -> String {
    let (mut text, mut is_generated) = (String::new(), false);
    for line in page.split_inclusive('\n') {
        is_generated = is_generated || line.starts_with("<!-- ") && line.contains(":begin");
        if !is_generated {
            text.push_str(line);
        }
        is_generated = is_generated && !line.contains(":end -->");
    }
    text
}

#[test]
fn chapters_copy_no_code() {
    let mut wrong = Vec::new();
    for (name, text) in chapters() {
        let text = by_hand(&text);
        let fences = text.lines().filter_map(|line| line.trim_start().strip_prefix("```"));
        for kind in fences.step_by(2).filter(|kind| !["sh", "console"].contains(kind)) {
            wrong.push(format!("{name}: a block of {kind:?}; use the markers of an item or a transcript"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The pages for teachers and those for reference are looked up, and not read one after the other.
#[test]
fn each_page_ends_in_its_next_step() {
    let summary = include_str!("../src/SUMMARY.md");
    let (read, _) = summary.split_once("# Teaching").unwrap();
    let is_read = |name: &str| read.contains(&format!("({name})"));
    let endings = chapters().into_iter().filter(|(name, _)| is_read(name)).filter(|(_, text)| {
        let last = text.trim_end().rsplit("\n\n").next().unwrap();
        !last.starts_with("**Next**") && !text.contains("\n## What comes next\n")
    });
    let endings: Vec<_> = endings.map(|(name, _)| name).collect();
    assert!(endings.is_empty(), "these end without **Next**: {}", endings.join(", "));
}

/// People read the pages on GitHub, too, which knows neither the book's pages nor commands for mdBook.
#[test]
fn each_page_reads_right_on_github() {
    let workbook = Workbook::read().unwrap();
    let programs = workbook.catalog.programs().map(|program| program.folder.join("README.md"));
    let chapters = chapters().into_iter().map(|(name, _)| workbook.root.join("docs/src").join(name));
    let tops = ["README.md", "CONTRIBUTING.md"].map(|name| workbook.root.join(name));
    let mut wrong = Vec::new();
    for page in tops.into_iter().chain(programs).chain(chapters) {
        let text = fs::read_to_string(&page).unwrap();
        if text.contains("{{#") {
            wrong.push(format!("{}: {{{{#", page.display()));
        }
        // The folder above a file's page there is the repository, which has its releases in another one.
        let is_ours = |target: &String| !target.contains(':') && target != "../../releases/latest";
        for target in targets(&text).into_iter().filter(is_ours) {
            let (file, fragment) = target.split_once('#').unwrap_or((&target, ""));
            let mut file = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            if file.is_dir() && !fragment.is_empty() {
                file.push("README.md");
            }
            let is_there = match fs::read_to_string(&file) {
                // A picture shows there what its fragment names.
                Ok(text) if !fragment.is_empty() && file.extension().is_some_and(|end| end == "svg") => {
                    text.contains(&format!("id=\"{fragment}\""))
                }
                Ok(text) if !fragment.is_empty() && !file.ends_with("case.md") => {
                    text.lines().any(|line| line.starts_with('#') && anchor(line) == fragment)
                }
                _ => file.exists(),
            };
            if !is_there {
                wrong.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "These lead nowhere:\n{}", wrong.join("\n"));
}

/// Where the links and pictures of a page lead.
fn targets(markdown: &str) -> Vec<String> {
    let events = new_cmark_parser(markdown, &MarkdownOptions::default());
    let targets = events.filter_map(|event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.to_string()),
        _ => None,
    });
    targets.collect()
}

/// The id that GitHub gives to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().chars();
    let kept = kept.filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// How many words of a page a reader sees at most; of a stage's page, before the exercises. Tables, code, folds and
/// generated blocks don't count, nor do the questions, which are not in the README.
const BUDGET: usize = 500;

#[test]
fn each_page_keeps_to_its_budget() {
    let workbook = Workbook::read().unwrap();
    let mut wrong = Vec::new();
    let stages = workbook.catalog.stages.iter();
    let stages = stages.map(|stage| (stage.folder.join("README.md"), stage.words.unwrap_or(BUDGET)));
    let top = [
        ("README.md", 700),
        ("CONTRIBUTING.md", 1_500),
        ("docs/src/slow-disk.md", 1_700),
        ("docs/src/play.md", 350),
        ("docs/src/busy-disk.md", 450),
        ("docs/src/normal.md", 250),
        ("docs/src/true-stories.md", 650),
    ];
    let top = top.map(|(name, budget)| (workbook.root.join(name), budget));
    for (path, budget) in top.into_iter().chain(stages) {
        let (page, name) = (fs::read_to_string(&path).unwrap(), path.display());
        let words = visible(&by_hand(page.split("\n## Exercises\n").next().unwrap()));
        if words > budget {
            wrong.push(format!("{name}: {words} words, and {budget} are enough"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The flow chart is the page on a slide: each of its commands is on the page.
#[test]
fn the_flow_chart_has_the_pages_commands() {
    let [chart, page] = [include_str!("../src/slow-disk-flow.svg"), include_str!("../src/slow-disk.md")];
    let texts =
        chart.split("font-family=\"monospace\"").skip(1).map(|text| text.split(['>', '<']).nth(1).unwrap());
    let commands: Vec<_> =
        texts.flat_map(|text| text.split("; ").flat_map(|text| text.split(", "))).collect();
    let missing: Vec<_> = commands.iter().filter(|command| !page.contains(**command)).collect();
    assert!(commands.len() > 9 && missing.is_empty(), "{missing:?}");
}

/// How many words of prose a reader sees before unfolding anything. A link counts as its text, and code within a line as
/// its words.
fn visible(markdown: &str) -> usize {
    let (mut words, mut folds, mut hidden) = (0, 0, 0);
    for event in new_cmark_parser(markdown, &MarkdownOptions::default()) {
        match event {
            Event::Start(Tag::Table(_) | Tag::CodeBlock(_) | Tag::Image { .. }) => hidden += 1,
            Event::End(TagEnd::Table | TagEnd::CodeBlock | TagEnd::Image) => hidden -= 1,
            Event::Html(html) | Event::InlineHtml(html) => {
                folds += html.matches("<details").count();
                folds -= html.matches("</details").count();
            }
            Event::Text(text) | Event::Code(text) if hidden == 0 && folds == 0 => {
                words += text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
            }
            _ => {}
        }
    }
    words
}

#[test]
fn only_what_a_reader_sees_counts() {
    let page = "# One two\n\n[three](x.md) `four five` - six.\n\n| no | no |\n|---|---|\n| no | no |\n\n```sh\nno\n```\n\n\
        <details>\n<summary>no</summary>\n\nno\n\n</details>\n\n![no](x.svg)\n\n<!-- a:begin -->\nno\n<!-- a:end -->\nseven\n";
    assert_eq!(visible(&by_hand(page)), 7);
}

#[test]
fn a_folder_with_something_else_in_it_is_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("thesis.txt"), "years of work").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_book")).arg(temp.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("is not empty, and it is not a book"), "{said}");
    assert!(temp.path().join("thesis.txt").exists());
}

/// Two workshops that start at the same moment both write the book, and each first removes the one that is there.
#[test]
fn the_book_is_written_once_at_a_time() {
    let temp = tempfile::tempdir().unwrap();
    let book = temp.path().join("book");
    let other = copies::lock(temp.path()).unwrap();
    let mut writer = Command::new(env!("CARGO_BIN_EXE_book")).arg(&book).spawn().unwrap();
    // It sleeps only to wait for the other.
    let waits_in = format!("/proc/{}/wchan", writer.id());
    while !fs::read_to_string(&waits_in).unwrap().contains("nanosleep") {
        assert!(writer.try_wait().unwrap().is_none(), "it did not wait");
        thread::yield_now();
    }
    assert!(!book.exists());
    drop(other);
    assert!(writer.wait().unwrap().success() && book.join("index.html").exists());
}

/// Words that the pages also use in their everyday sense.
const EVERYDAY: [&str; 9] = ["Guest", "Hit", "Link", "Load", "Map", "Miss", "Page", "Process", "Stack"];

/// A term's first page in reading order explains it: the glossary names this page, or the page links to the term's
/// entry or to the page that the glossary names.
#[test]
fn a_terms_first_page_explains_it() {
    let workbook = Workbook::read().unwrap();
    let read = |path: &str| fs::read_to_string(workbook.root.join("docs/src").join(path)).unwrap();
    // Each page by its name in the glossary, in the order in which people read. Tables of contents are left out.
    let programs = workbook.catalog.programs().map(|program| {
        let folder = program.folder.strip_prefix(&workbook.root).unwrap().display();
        let text = fs::read_to_string(program.folder.join("README.md")).unwrap();
        (format!("../../{folder}"), text)
    });
    let (summary, background) = (read("SUMMARY.md"), "# Background");
    let chapters = summary.split_once(background).unwrap().1.split(['(', ')']);
    let chapters = chapters.filter(|path| path.ends_with(".md") && *path != "glossary.md");
    let pages: Vec<_> = programs.chain(chapters.map(|path| (path.to_owned(), read(path)))).collect();
    let words: Vec<_> = pages.iter().map(|(_, text)| prose(text)).collect();

    let mut wrong = Vec::new();
    let glossary = read("glossary.md");
    for entry in glossary.split("\n### ").skip(1) {
        let (heading, text) = entry.split_once('\n').unwrap();
        let introduced: Vec<_> =
            text.split("](").skip(1).map(|rest| rest.split([')', '#']).next().unwrap()).collect();
        let anchor = heading.to_lowercase().replace([',', ':'], "").replace(' ', "-");
        for (nth, term) in heading.split(", ").enumerate().filter(|(_, term)| !EVERYDAY.contains(term)) {
            let term = term.to_lowercase();
            let forms = [format!(" {term} "), format!(" {term}s "), format!(" {term}es ")];
            let first = words.iter().position(|words| forms.iter().any(|form| words.contains(form)));
            let Some((page, text)) = first.map(|first| &pages[first]) else { continue };
            let links_to =
                |target: &str| [')', '#'].iter().any(|end| text.contains(&format!("{target}{end}")));
            let mut introduced = [introduced.first(), introduced.get(nth)].into_iter().flatten();
            if !links_to(&format!("glossary.md#{anchor}"))
                && introduced.all(|name| name != page && !links_to(name))
            {
                wrong.push(format!("{page} is the first to say {term:?}, and does not explain it"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\nLink the term there to the glossary.", wrong.join("\n"));
}

/// The words of a page in lower case, with a blank around each, and other signs. Code and the targets of links are left
/// out.
fn prose(markdown: &str) -> String {
    let mut words = String::new();
    for text in markdown.split("```").step_by(2).flat_map(|text| text.split('`').step_by(2)) {
        for (nth, part) in text.split("](").enumerate() {
            let part = if nth == 0 { part } else { part.split_once(')').map_or("", |(_, rest)| rest) };
            for letter in part.chars() {
                match letter {
                    '-' | '_' => words.push(letter),
                    _ if letter.is_alphanumeric() => words.extend(letter.to_lowercase()),
                    _ if letter.is_whitespace() || "[]*".contains(letter) => words.push(' '),
                    _ => words += " . ",
                }
            }
        }
    }
    words.split_whitespace().flat_map(|word| [word, " "]).fold(String::from(" "), |all, word| all + word)
}

/// `npm run build` writes the checksum of the sources into the first line of each bundle.
#[test]
fn the_scripts_are_built() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("present");
    let mut sources: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "ts"));
    sources.sort();
    let mut hash = Sha256::new();
    for source in &sources {
        hash.update(fs::read(source).unwrap());
    }
    let hash: String = hash.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    for name in ["present.js", "book.js"] {
        let bundle = fs::read_to_string(folder.join(name)).unwrap();
        let first = bundle.lines().next().unwrap();
        assert!(
            first.ends_with(&hash),
            "{name} is older than its sources: {first:?}, now {hash}; fix: make present"
        );
    }
}

/// A color of the palette in light, what it colors, and the same color in dark.
type Color = (String, String, String);

/// The colors in `docs/palette.css`, which the pictures copy: a picture must work alone.
fn palette() -> (String, BTreeSet<Color>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(folder.join("palette.css")).unwrap();
    let rules = |text: &str| -> BTreeMap<(String, String), String> {
        let rules = text.split('}').filter_map(|rule| rule.split_once('{')).map(|(name, values)| {
            let name = name.trim().to_owned();
            let values = values.split(';').filter_map(|value| value.split_once(':'));
            let values = values.map(|(what, value)| (what.trim().to_owned(), value.trim().to_owned()));
            values.map(move |(what, value)| ((name.clone(), what), value)).collect::<Vec<_>>()
        });
        rules.flatten().collect()
    };
    let (light, dark) = text.split_once("@media (prefers-color-scheme: dark) {").unwrap();
    let dark = rules(dark);
    let light = rules(light).into_iter().filter(|(_, value)| value.starts_with('#'));
    let colors = light.map(|(key, value)| (value, key.1.clone(), dark[&key].clone())).collect();
    (text, colors)
}

#[test]
fn all_pictures_have_one_palette() {
    let (text, colors) = palette();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    let pictures = files(&folder).into_iter().filter(|path| path.extension().is_some_and(|end| end == "svg"));
    for path in pictures {
        let name = path.display();
        let svg = fs::read_to_string(folder.join(&path)).unwrap();
        let (style, body) = svg.split_once("</style>").unwrap();
        if style.contains("[fill=") {
            // An older picture names its colors where it uses them, and has a rule for each in the dark.
            for rule in style.split('[').skip(1) {
                let known = colors.iter().any(|(light, what, dark)| {
                    rule.trim_end().starts_with(&format!("{what}=\"{light}\"] {{ {what}: {dark} }}"))
                });
                if !known {
                    wrong.push(format!("{name}: [{}", rule.trim_end()));
                }
            }
            for what in ["fill", "stroke"] {
                for color in
                    body.split(&format!(" {what}=\"#")).skip(1).filter_map(|rest| rest.split('"').next())
                {
                    if !style.contains(&format!("[{what}=\"#{color}\"]")) {
                        wrong.push(format!("{name}: {what} #{color} has no dark color"));
                    }
                }
            }
        } else if !style.contains(&text) {
            wrong.push(format!("{name}: its palette is another one"));
        } else if body.replace("href=\"#", "").contains("=\"#") {
            wrong.push(format!("{name}: a color that is not in the palette"));
        }
    }
    assert!(wrong.is_empty(), "{}\nThe palette is docs/palette.css.", wrong.join("\n"));
}
