//! Makes the PDFs, and reads them with Poppler's tools.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use machine::workbook::Workbook;

/// The PDFs of both sizes. They stay for as long as the tests run, so that both tests need to make them only once.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("print");
    text_of(Command::new(env!("CARGO_BIN_EXE_book")).arg("--print").arg(&folder));
    folder
});

/// The sizes, with the width and the height of a page in points.
const SIZES: [(&str, f64, f64); 2] = [("a4", 595.0, 842.0), ("letter", 612.0, 792.0)];

/// The PDFs, with the margin that their style sheet names, in millimeters.
const FILES: [(&str, f64); 8] = [
    ("seat-card", 14.0),
    ("glossary", 14.0),
    ("slow-disk", 14.0),
    ("exercises", 14.0),
    ("questions", 14.0),
    ("concept-test", 14.0),
    ("plans", 14.0),
    ("book", 12.0),
];

/// How far a word's box may stand out above and below, since it is higher than the word. In points.
const SLACK: f64 = 9.0;

fn text_of(command: &mut Command) -> String {
    let output =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; install it: make setup-test"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn file(size: &str, name: &str) -> PathBuf {
    FOLDER.join(size).join(name).with_extension("pdf")
}

/// The text of each page.
fn pages(size: &str, name: &str) -> Vec<String> {
    let text = text_of(Command::new("pdftotext").arg("-layout").arg(file(size, name)).arg("-"));
    let mut pages: Vec<_> = text.split('\x0c').map(str::to_owned).collect();
    pages.pop();
    pages
}

/// The numbers in a line such as `<word xMin="39.7" ...>`.
fn numbers(line: &str) -> Vec<f64> {
    line.split('"').skip(1).step_by(2).map(|number| number.parse().unwrap()).collect()
}

#[test]
fn each_sheet_begins_on_a_page_of_its_own() {
    let workbook = Workbook::read().unwrap();
    for (size, ..) in SIZES {
        for name in ["seat-card", "glossary", "slow-disk"] {
            assert_eq!(pages(size, name).len(), 1, "{name}, {size}");
        }
        let firsts = |name: &str| -> Vec<String> {
            let pages = pages(size, name);
            pages.iter().map(|page| page.trim_start().lines().next().unwrap_or_default().to_owned()).collect()
        };
        let (exercises, questions) = (firsts("exercises"), firsts("questions"));
        for (nth, stage) in workbook.catalog.stages.iter().enumerate() {
            let heading = format!("Stage {:02}: ", stage.number);
            assert_eq!(exercises.iter().filter(|first| first.starts_with(&heading)).count(), 1, "{heading}");
            assert!(questions[nth].starts_with(&heading), "{heading}: {questions:?}");
        }
        // Nobody sees an answer on the page of its question.
        let explained = "Open, load, attach, read. Every stage";
        let pages_with = |text: &str| -> Vec<usize> {
            let pages = pages(size, "questions");
            (0..pages.len()).filter(|nth| pages[*nth].contains(text)).collect()
        };
        let (cards, answers) = (pages_with("Cards to cut out"), pages_with(explained));
        assert!(answers.len() == 1 && cards.len() == 1 && cards[0] < answers[0], "{cards:?}, {answers:?}");
        let test = firsts("concept-test");
        let is_first = |text: &str| test.iter().filter(|first| first.contains(text)).count() == 1;
        assert!(["Form A", "Form B", "Key"].into_iter().all(is_first), "{test:?}");
        let plans: Vec<_> =
            firsts("plans").into_iter().filter(|first| first.starts_with("A class of ")).collect();
        assert_eq!(plans, ["A class of 90 minutes", "A class of 180 minutes", "A class of 240 minutes"]);
        let book = firsts("book");
        // A page of Letter is lower.
        let most = if size == "a4" { 220 } else { 240 };
        assert!(book.len() <= most, "{size}: the book has {} pages", book.len());
        for stage in &workbook.catalog.stages {
            let heading = format!("Stage {:02}: ", stage.number);
            assert_eq!(book.iter().filter(|first| first.starts_with(&heading)).count(), 1, "{heading}");
        }
        let book = pages(size, "book").concat();
        let for_screens = ["The bookkeeping: the rest of the change", "The log of Linux 6.12", "Hint 1 of"];
        assert_eq!(for_screens.into_iter().find(|fold| book.contains(fold)), None);
        let glossary = pages(size, "glossary").concat();
        assert!(glossary.contains("Attach:") && glossary.contains("Write-back:"), "{glossary}");
        assert!(!pages(size, "exercises").concat().contains("Hint 1"), "a sheet has the hints");
    }
}

#[test]
fn nothing_is_cut_off_and_no_link_is_dead() {
    for (size, width, height) in SIZES {
        for (name, margin) in FILES {
            let file = file(size, name);
            let links = text_of(Command::new("pdfinfo").arg("-url").arg(&file));
            let dead = links.lines().skip(1).find(|line| !line.contains("http"));
            assert_eq!(dead, None, "{name}, {size}");
            let margin = margin * 72.0 / 25.4;
            let (mut page, mut words, mut outside) = (0, 0, Vec::new());
            for line in text_of(Command::new("pdftotext").arg("-bbox").arg(&file).arg("-")).lines() {
                let line = line.trim();
                if line.starts_with("<page ") {
                    page += 1;
                    let [wide, high] = numbers(line)[..] else { panic!("{line}") };
                    assert!((wide - width).abs() < 1.0 && (high - height).abs() < 1.0, "{size} is {line}");
                } else if line.starts_with("<word ") {
                    let [left, top, right, bottom] = numbers(line)[..] else { panic!("{line}") };
                    // The page's number is in the lower margin.
                    let is_number = top > height - margin;
                    let is_inside =
                        left > margin - 1.0 && right < width - margin + 1.0 && top > margin - SLACK;
                    if !(is_inside && (is_number || bottom < height - margin + SLACK)) {
                        outside.push(format!("page {page}: {line}"));
                    }
                    words += 1;
                }
            }
            assert!(outside.is_empty(), "{name}, {size}: {}", outside.join("\n"));
            assert!(words > 150, "{name}, {size}: {words} words");
        }
    }
}
