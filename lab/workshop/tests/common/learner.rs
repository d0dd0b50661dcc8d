//! What a learner does in a browser, for the tests that need one.

#![allow(dead_code, reason = "each test uses a part of this")]

use std::fs;
use std::path::Path;

use base64::Engine;
use lab::exercise;
use machine::workbook::Workbook;
use serde_json::json;

use crate::common::Server;
use crate::reader::Reader;

pub const ALT: u32 = 1;
pub const CONTROL: u32 = 2;
pub const SHIFT: u32 = 8;

/// A browser that visits the workshop.
pub fn visit(server: &Server) -> Reader {
    let mut browser = Reader::start();
    browser.size(1280, 800);
    browser.visit(&server.url);
    browser
}

/// A browser in which the workshop is open.
pub fn open(server: &Server) -> Reader {
    let mut browser = visit(server);
    browser.until(&format!(
        "{} && document.querySelector('#lesson-title').textContent !== 'Lesson'",
        shows("progress", "cases done")
    ));
    browser
}

/// An expression: whether the element with this `data-test` is visible and has this text.
pub fn shows(hook: &str, text: &str) -> String {
    format!(
        "[...document.querySelectorAll('[data-test=\"{hook}\"]')].some((e) => e.checkVisibility() && e.textContent.includes({}))",
        json!(text)
    )
}

/// An expression that chooses from a list of the page.
pub fn choose(list: &str, name: &str) -> String {
    format!(
        "(l => {{ l.value = '{name}'; l.dispatchEvent(new Event('change')) }})(document.querySelector('#{list}'));"
    )
}

/// Clicks a button when a mouse could: it is enabled, and nothing covers it.
pub fn click(browser: &mut Reader, hook: &str) {
    let button =
        format!("document.querySelector('[data-test=\"{hook}\"]:not(:disabled, [aria-disabled=true])')");
    let middle = "((r) => document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2))";
    browser.until(&format!(
        "{button}?.checkVisibility() && {button}.contains({middle}({button}.getBoundingClientRect()))"
    ));
    browser.eval(&format!("{button}.click()"));
}

/// Waits until a button of the lesson is there, whose label ends with this, and clicks it.
pub fn click_in_lesson(browser: &mut Reader, page: &str, hook: &str, end: &str) {
    browser.eval(&format!("document.querySelector('#book').contentWindow.location.href = '/book/{page}'"));
    let button = format!(
        "[...document.querySelectorAll('[data-test=\"{hook}\"]')]
            .find((b) => !b.disabled && b.ariaLabel.endsWith({}))",
        json!(end)
    );
    // Look and click at once: between the two, the page may be replaced.
    let click = format!("(button => button && (button.click(), true))({button})");
    browser.poll_frame(&format!("location.pathname === '/book/{page}' && {click}"));
}

/// Answers what the page asks before a stage's first run.
pub fn predict(browser: &mut Reader, number: &str) {
    browser.until("document.activeElement.matches('#panel .question input')");
    browser.call("Input.insertText", json!({ "text": number }));
    browser.chord("Enter", 13, 0);
}

/// Waits until the file is in the editor, which then has the focus.
pub fn edits(browser: &mut Reader, path: &str) {
    browser.until(&format!(
        "document.querySelector('[data-test=\"tab\"][aria-selected=\"true\"]')?.dataset.key?.endsWith({})
            && document.querySelector('.cm-focused')",
        json!(path)
    ));
}

/// Shows a file of what is open by its tab.
fn show(browser: &mut Reader, name: &str) {
    browser.eval(&format!("document.querySelector('[data-test=\"tab\"][data-key$=\"{name}\"]').click()"));
    edits(browser, name);
}

/// A browser in which an exercise of stage 03 was started, by its button in the lesson.
pub fn start(server: &Server, exercise: &str) -> Reader {
    let mut browser = open(server);
    click_in_lesson(&mut browser, "stages/03.html", "lesson-start", &format!(" {exercise}"));
    edits(&mut browser, "bio_trace.bpf.c");
    browser
}

/// Replaces the text of the file in the editor with keys.
pub fn replace(browser: &mut Reader, text: &str) {
    browser.eval("document.querySelector('.cm-content').focus()");
    browser.chord("a", 65, CONTROL);
    browser.call("Input.insertText", json!({ "text": text }));
    // The editor notices it a little later, and until then the old text is saved.
    browser.until(&format!("workshop.text() === {}", json!(text)));
}

/// The same, and waits until it is saved.
pub fn write(browser: &mut Reader, text: &str) {
    replace(browser, text);
    browser.until(&shows("saved", "Saved"));
}

/// Does exercise 03.1, from the page in which it was started to the solution: the check fails, so do the compiler and the
/// solution's button, and then all is right.
pub fn does_exercise_03_1(server: &Server, browser: &mut Reader) {
    // The starting point fails for its stated reason.
    click(browser, "check");
    browser.until(&shows("status", "03.1 is not right yet"));
    // The card above the terminal has the same words as its last lines.
    for words in ["03.1 is not right yet", "Durations missing or too short: 0: all", "line "] {
        browser.until(&shows("verdict", words));
    }
    let printed = browser.eval("workshop.terminalText()").as_str().unwrap().to_owned();
    let (_, last) = printed.rsplit_once("03.1 is not right yet\n  expected: ").unwrap();
    assert!(last.lines().count() < 8, "{last}");

    picture(browser, "workshop.webp");

    // Not before the check has passed.
    click(browser, "solution");
    browser.until(&shows("panel", "check has not passed yet"));
    click(browser, "verdict-diff");
    browser.until(
        "document.querySelector('#compared').textContent.includes('You have not changed anything yet.')",
    );
    click(browser, "verdict-hint");
    browser.until(&shows("panel", "Hint 1 of"));
    show(browser, "bio_trace.bpf.c");

    // An error of the compiler is shown at its line.
    let text = browser.eval("workshop.text()").as_str().unwrap().to_owned();
    write(browser, &text.replacen("u64 key", "u65 key", 1));
    browser.chord("Enter", 13, CONTROL | SHIFT);
    browser.until(&format!(
        "{} && document.querySelector('.cm-lintRange-error')",
        shows("status", "failed at bio_trace.bpf.c:")
    ));
    // What was said of the program is over when it has changed.
    replace(browser, &text);
    browser.until(&format!("!{}", shows("status", "failed at")));

    // As a learner, with what we would write.
    let workbook = Workbook::read().unwrap();
    let exercise = exercise::find(&workbook, "03.1").unwrap();
    let solved = exercise.solved(&exercise.binary()).unwrap();
    for (path, solution) in solved.iter().filter(|(path, _)| path.starts_with("src")) {
        show(browser, path.file_name().unwrap().to_str().unwrap());
        write(browser, solution);
        assert_eq!(server.file("03.1", path.to_str().unwrap()), *solution);
    }
    click(browser, "check");
    browser.until(&shows("status", "passed"));
    browser.until(&shows("progress", "1 of"));
    browser.until(&shows("verdict", "03.1 is right"));
    browser.until(&shows("verdict", "Next: 03.2"));
    browser.until(&shows("verdict", "In a class, your code is 6"));
    click(browser, "solution");
    browser.until("document.querySelector('.cm-deletedChunk, .cm-changedLine, .cm-insertedLine')");
    click(browser, "toggle");
    browser.until("document.querySelector('#compared').textContent.includes('Yours and ours are the same.')");
    click(browser, "toggle");
    browser.until("document.querySelector('.cm-deletedChunk, .cm-changedLine, .cm-insertedLine')");
    assert_eq!(wrong(browser), [""; 0]);
}

/// Saves a picture of the page into the folder `$PICTURES`, for the book or to look at.
pub fn picture(browser: &mut Reader, name: &str) {
    if let Some(folder) = std::env::var_os("PICTURES") {
        let data = browser.call("Page.captureScreenshot", json!({ "format": "webp", "quality": 70 }))["data"]
            .clone();
        let picture = base64::prelude::BASE64_STANDARD.decode(data.as_str().unwrap()).unwrap();
        // The test runs in its package's folder.
        fs::write(Path::new("../..").join(folder).join(name), picture).unwrap();
    }
}

/// What the page did wrong. The API refuses some of what these tests ask for, and Chromium reports that, too.
pub fn wrong(browser: &mut Reader) -> Vec<String> {
    let all = browser.wrong();
    let refused = |what: &String| what.contains("/solution?") && what.contains("403");
    all.into_iter().filter(|what| !refused(what)).collect()
}
