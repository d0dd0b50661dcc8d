//! What a learner does in a browser, for the tests that need one.

#![allow(dead_code, reason = "each test uses a part of this")]

use std::fs;
use std::path::Path;

use base64::Engine;
use lab::exercise;
use machine::workbook::Workbook;
use serde_json::{Value, json};

use crate::common::Server;
use crate::reader::Reader;

pub const ALT: u32 = 1;
pub const CONTROL: u32 = 2;
pub const SHIFT: u32 = 8;

/// What has the focus while somebody types in a terminal.
pub const TERMINAL: &str = ".xterm-helper-textarea";

/// An expression: whether a visible element with this `data-test` has this text.
pub fn shows(hook: &str, text: &str) -> String {
    format!(
        "[...document.querySelectorAll('[data-test=\"{hook}\"]')].some((e) => e.checkVisibility() && e.textContent.includes({}))",
        json!(text)
    )
}

/// A browser at this address.
pub fn browser_at(url: &str) -> Reader {
    let mut browser = Reader::start();
    browser.size(1280, 800);
    browser.visit(url);
    browser
}

/// A browser that is connected to the workshop.
pub fn visit(server: &Server) -> Reader {
    let mut page = browser_at(&server.url);
    page.sees(&[("progress", "cases done")]);
    page
}

/// The same, and the lesson is there.
pub fn open(server: &Server) -> Reader {
    let mut page = visit(server);
    page.until("document.querySelector('#lesson-title').textContent !== 'Lesson'");
    page
}

/// The same, and an exercise of stage 03 was started, by its button in the lesson.
pub fn start(server: &Server, exercise: &str) -> Reader {
    let mut page = open(server);
    page.click_in_lesson("stages/03.html", "lesson-start", &format!(" {exercise}"));
    page.edits("bio_trace.bpf.c");
    page
}

impl Reader {
    /// Waits until each of these hooks shows its text.
    #[track_caller]
    pub fn sees(&mut self, all: &[(&str, &str)]) {
        all.iter().for_each(|(hook, text)| self.until(&shows(hook, text)));
    }

    /// Waits until what matches this selector has the focus.
    #[track_caller]
    pub fn focuses(&mut self, selector: &str) {
        self.poll(&format!("document.activeElement.matches({})", json!(selector)));
    }

    pub fn focus(&mut self, selector: &str) {
        self.eval(&format!("document.querySelector({}).focus()", json!(selector)));
    }

    /// Waits until somebody who listens has heard this last.
    #[track_caller]
    pub fn hears(&mut self, text: &str) {
        self.until(&format!("document.querySelector('#heard').textContent === {}", json!(text)));
    }

    /// Waits until the editor has exactly this text.
    #[track_caller]
    pub fn has_text(&mut self, text: &str) {
        self.until(&format!("workshop.text() === {}", json!(text)));
    }

    /// Waits until the terminal shows this.
    #[track_caller]
    pub fn prints(&mut self, text: &str) {
        self.until(&format!("workshop.terminalText().includes({})", json!(text)));
    }

    /// Clicks a button when a mouse could: it is enabled, and nothing covers it.
    #[track_caller]
    pub fn click(&mut self, hook: &str) {
        let button = format!("document.querySelector('[data-test=\"{hook}\"]:not(:disabled)')");
        let middle = "((r) => document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2))";
        self.until(&format!(
            "{button}?.checkVisibility() && {button}.contains({middle}({button}.getBoundingClientRect()))"
        ));
        self.eval(&format!("{button}.click()"));
    }

    /// Waits until a button of the lesson is there, whose label ends with this, and clicks it.
    pub fn click_in_lesson(&mut self, page: &str, hook: &str, end: &str) {
        self.eval(&format!("document.querySelector('#book').contentWindow.location.href = '/book/{page}'"));
        let button = format!(
            "[...document.querySelectorAll('[data-test=\"{hook}\"]')]
                .find((b) => !b.disabled && b.ariaLabel.endsWith({}))",
            json!(end)
        );
        // Look and click at once: between the two, the page may be replaced.
        let click = format!("(button => button && (button.click(), true))({button})");
        self.poll_frame(&format!("location.pathname === '/book/{page}' && {click}"));
    }

    /// Chooses from a list of the page, perhaps several times without a pause.
    pub fn choose(&mut self, list: &str, names: &[&str]) {
        self.eval(&format!(
            "for (const name of {}) (l => {{ l.value = name; l.dispatchEvent(new Event('change')) }})(document.querySelector('#{list}'))",
            json!(names)
        ));
    }

    /// Goes to an exercise or a stage by its address.
    pub fn go(&mut self, name: &str) {
        self.eval(&format!("location.hash = '#{name}'"));
        self.until(&format!("document.title.startsWith('{name}:')"));
    }

    pub fn reload(&mut self) {
        self.loading(|browser| drop(browser.call("Page.reload", json!({}))));
    }

    /// Types at once.
    pub fn insert(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    pub fn enter(&mut self, modifiers: u32) {
        self.chord("Enter", 13, modifiers);
    }

    /// Opens a shell, and types a line there.
    pub fn shell(&mut self, line: &str) {
        let screens = "[...document.querySelectorAll('.screen')]";
        let before = self.eval(&format!("{screens}.length"));
        self.click("new-shell");
        // Another terminal may have the focus until this one is there.
        let newest = format!("{screens}[{before}]");
        self.until(&format!("{newest}?.contains(document.activeElement)"));
        self.insert(line);
        self.enter(0);
    }

    /// Answers what the page asks before a stage's first run.
    pub fn predict(&mut self, number: &str) {
        self.focuses("#panel .question input");
        self.insert(number);
        self.enter(0);
    }

    /// Waits until the file is in the editor, which then has the focus.
    pub fn edits(&mut self, path: &str) {
        self.until(&format!(
            "document.querySelector('[data-test=\"tab\"][aria-selected=\"true\"]')?.dataset.key?.endsWith({})
                && document.querySelector('.cm-focused')",
            json!(path)
        ));
    }

    /// Shows a file of what is open by its tab.
    fn show(&mut self, name: &str) {
        self.eval(&format!("document.querySelector('[data-test=\"tab\"][data-key$=\"{name}\"]').click()"));
        self.edits(name);
    }

    /// Replaces the text of the file in the editor with keys.
    #[track_caller]
    pub fn replace(&mut self, text: &str) {
        self.focus(".cm-content");
        self.chord("a", 65, CONTROL);
        self.insert(text);
        // The editor notices it a little later, and until then the old text is saved.
        self.has_text(text);
    }

    /// The same, and waits until it is saved.
    #[track_caller]
    pub fn write(&mut self, text: &str) {
        self.replace(text);
        self.sees(&[("saved", "Saved")]);
    }

    /// The nodes that a screen reader gets, of which one must be like this.
    pub fn has_node(&mut self, is_it: impl Fn(&Value) -> bool) {
        let tree = self.call("Accessibility.getFullAXTree", json!({}));
        assert!(tree["nodes"].as_array().unwrap().iter().any(is_it), "{tree}");
    }

    /// Fails if the page did something wrong. The API refuses some of what these tests ask for, and Chromium reports that.
    #[track_caller]
    pub fn is_well(&mut self) {
        let refused = |what: &String| what.contains("/solution?") && what.contains("403");
        let wrong: Vec<_> = self.wrong().into_iter().filter(|what| !refused(what)).collect();
        assert_eq!(wrong, [""; 0]);
    }

    /// Does exercise 03.1, from the page in which it was started to the solution: the check fails, so do the compiler and the
    /// solution's button, and then all is right.
    pub fn does_exercise_03_1(&mut self, server: &Server) {
        // The starting point fails for its stated reason. The card above the terminal has the same words as its last lines.
        self.click("check");
        let wrong = "03.1 is not right yet";
        let missing = "Durations missing or too short: 0: all";
        self.sees(&[("status", wrong), ("verdict", wrong), ("verdict", missing), ("verdict", "line ")]);
        let printed = self.eval("workshop.terminalText()").as_str().unwrap().to_owned();
        let (_, last) = printed.rsplit_once("03.1 is not right yet\n  expected: ").unwrap();
        assert!(last.lines().count() < 8, "{last}");

        // Not before the check has passed.
        self.click("solution");
        self.sees(&[("panel", "check has not passed yet")]);
        self.click("verdict-diff");
        self.until(
            "document.querySelector('#compared').textContent.includes('You have not changed anything yet.')",
        );
        self.click("verdict-hint");
        self.sees(&[("panel", "Hint 1 of")]);
        self.show("bio_trace.bpf.c");

        // An error of the compiler is shown at its line.
        let text = self.eval("workshop.text()").as_str().unwrap().to_owned();
        self.write(&text.replacen("u64 end_time", "u65 end_time", 1));
        self.enter(CONTROL | SHIFT);
        self.sees(&[("status", "failed at bio_trace.bpf.c:")]);
        self.until("document.querySelector('.cm-lintRange-error')");
        // What was said of the program is over when it has changed.
        self.replace(&text);
        self.until(&format!("!{}", shows("status", "failed at")));

        // As a learner, with what we would write. The terminal with the error goes, or it would be in the picture.
        self.eval(
            "document.querySelectorAll('[data-test=close-terminal-tab]').forEach((cross) => cross.click())",
        );
        let workbook = Workbook::read().unwrap();
        let exercise = exercise::find(&workbook, "03.1").unwrap();
        let solved = exercise.solved(&exercise.binary()).unwrap();
        for (path, solution) in solved.iter().filter(|(path, _)| path.starts_with("src")) {
            self.show(path.file_name().unwrap().to_str().unwrap());
            self.write(solution);
            assert_eq!(server.file("03.1", path.to_str().unwrap()), *solution);
        }
        self.click("check");
        self.sees(&[("status", "passed"), ("progress", "1 of"), ("verdict", "03.1 is right")]);
        self.sees(&[("verdict", "Next: 03.2")]);
        self.picture("workshop.webp");
        self.click("solution");
        let differs = "document.querySelector('.cm-deletedChunk, .cm-changedLine, .cm-insertedLine')";
        self.until(differs);
        self.click("toggle");
        self.until(
            "document.querySelector('#compared').textContent.includes('Yours and ours are the same.')",
        );
        self.click("toggle");
        self.until(differs);
        self.is_well();
    }

    /// Saves a picture of the page into the folder `$PICTURES`, for the book.
    fn picture(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("PICTURES") else { return };
        let taken = self.call("Page.captureScreenshot", json!({ "format": "webp", "quality": 70 }));
        let picture = base64::prelude::BASE64_STANDARD.decode(taken["data"].as_str().unwrap()).unwrap();
        // The test runs in its package's folder.
        fs::write(Path::new("../..").join(folder).join(name), picture).unwrap();
    }
}
