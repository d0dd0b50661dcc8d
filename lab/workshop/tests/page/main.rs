//! Works in the workshop as a learner does, in a real browser, with real guests: `make page-test`.

#[path = "../../../../docs/tests/browser/chromium.rs"]
mod chromium;
#[path = "../common/mod.rs"]
mod common;
mod firefox;

use std::fs;
use std::path::Path;

use base64::Engine;
use lab::learn::exercise;
use lab::workbook::Workbook;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::chromium::Chromium;
use crate::common::Server;
use crate::firefox::Firefox;

/// A browser in which the workshop is open.
fn open(server: &Server) -> Chromium {
    let mut browser = Chromium::start();
    browser.size(1280, 800);
    browser.visit(&server.url);
    browser.until(&format!(
        "{} && document.querySelector('#lesson-title').textContent !== 'Lesson'",
        shows("progress", "exercises done")
    ));
    browser
}

/// An expression: whether the element with this `data-test` is visible and has this text.
fn shows(hook: &str, text: &str) -> String {
    format!(
        "[...document.querySelectorAll('[data-test=\"{hook}\"]')].some((e) => e.checkVisibility() && e.textContent.includes({}))",
        json!(text)
    )
}

/// Clicks a button when a mouse could: it is enabled, and nothing covers it.
fn click(browser: &mut Chromium, hook: &str) {
    let button = format!("document.querySelector('[data-test=\"{hook}\"]:not(:disabled)')");
    let middle = "((r) => document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2))";
    browser.until(&format!(
        "{button}?.checkVisibility() && {button}.contains({middle}({button}.getBoundingClientRect()))"
    ));
    browser.eval(&format!("{button}.click()"));
}

/// Waits until a button of the lesson is there, whose label ends with this, and clicks it.
fn click_in_lesson(browser: &mut Chromium, page: &str, hook: &str, end: &str) {
    let inner = "document.querySelector('#book').contentDocument";
    browser.eval(&format!("document.querySelector('#book').contentWindow.location.href = '/book/{page}'"));
    let button = format!(
        "[...{inner}?.querySelectorAll('[data-test=\"{hook}\"]') ?? []]
            .find((b) => !b.disabled && b.ariaLabel.endsWith({}))",
        json!(end)
    );
    browser.poll(&format!("{inner}?.location.pathname === '/book/{page}' && {button}"));
    browser.eval(&format!("{button}.click()"));
}

/// Waits until the file is in the editor, which then has the focus.
fn edits(browser: &mut Chromium, path: &str) {
    browser.until(&format!(
        "document.querySelector('[data-test=\"tab\"][aria-selected=\"true\"]')?.dataset.key?.endsWith({})
            && document.querySelector('.cm-focused')",
        json!(path)
    ));
}

/// A browser in which an exercise of stage 03 was started, by its button in the lesson.
fn start(server: &Server, exercise: &str) -> Chromium {
    let mut browser = open(server);
    click_in_lesson(&mut browser, "stages/03.html", "lesson-start", &format!(" {exercise}"));
    edits(&mut browser, "bio_trace.bpf.c");
    browser
}

/// Replaces the text of the file in the editor with keys, and waits until it is saved.
fn write(browser: &mut Chromium, text: &str) {
    browser.eval("document.querySelector('.cm-content').focus()");
    browser.chord("a", 65, CONTROL);
    browser.call("Input.insertText", json!({ "text": text }));
    // The editor notices it a little later, and until then the old text is saved.
    browser.until(&format!("workshop.text() === {}", json!(text)));
    browser.until(&shows("saved", "Saved"));
}

const CONTROL: u32 = 2;

#[test]
fn a_learner_does_exercise_03_1() {
    let server = Server::start();
    let mut browser = start(&server, "03.1");

    // The starting point fails for its stated reason.
    click(&mut browser, "check");
    browser.until(&shows("status", "03.1 is not right yet"));
    assert!(browser.eval("workshop.terminalText()").as_str().unwrap().contains("03.1 is not right yet"));

    picture(&mut browser, "workshop.webp");

    // Not before the check has passed.
    click(&mut browser, "solution");
    browser.until(&shows("panel", "check has not passed yet"));
    click(&mut browser, "hint");
    browser.until(&shows("panel", "Hint 1 of"));

    // An error of the compiler is shown at its line.
    let text = browser.eval("workshop.text()").as_str().unwrap().to_owned();
    write(&mut browser, &text.replacen("u64 key", "u65 key", 1));
    browser.chord("Enter", 13, CONTROL | SHIFT);
    browser.until(&format!(
        "{} && document.querySelector('.cm-lintRange-error')",
        shows("status", "failed at bio_trace.bpf.c:")
    ));

    // As a learner, with what we would write.
    let workbook = Workbook::read().unwrap();
    let exercise = exercise::find(&workbook, "03.1").unwrap();
    let solved = exercise.solved(&exercise.binary()).unwrap();
    for (path, solution) in solved.iter().filter(|(path, _)| path.starts_with("src")) {
        let name = path.file_name().unwrap().to_str().unwrap();
        browser.eval(&format!("document.querySelector('[data-test=\"tab\"][data-key$=\"{name}\"]').click()"));
        edits(&mut browser, name);
        write(&mut browser, solution);
        assert_eq!(fs::read_to_string(server.mine().join("03.1").join(path)).unwrap(), *solution);
    }
    click(&mut browser, "check");
    browser.until(&shows("status", "passed"));
    browser.until(&shows("progress", "1 of"));
    click(&mut browser, "solution");
    browser.until("document.querySelector('.cm-deletedChunk, .cm-changedLine, .cm-insertedLine')");
    assert_eq!(wrong(&mut browser), [""; 0]);
}

const SHIFT: u32 = 8;

#[test]
fn stages_run_in_a_terminal_and_leave_files_to_open() {
    let server = Server::start();
    let mut browser = open(&server);
    click_in_lesson(&mut browser, "stages/03.html", "lesson-run", " 03");
    browser.until(&shows("status", "running"));
    browser.until("workshop.terminalText().includes('submit_bio() -> bio_endio() time duration: ')");
    click(&mut browser, "stop");
    browser.until("workshop.terminalText().includes('Starts without an end: ')");
    browser.until(&shows("status", "Run of 03"));

    // A shell of the learner's own, beside it.
    click(&mut browser, "new-shell");
    browser.until(&shows("terminal-tab", "Shell 1"));
    let tabs = "document.querySelectorAll('[data-test=\"terminal-tab\"]').length";
    assert_eq!(browser.eval(tabs), 2);
    browser.until("document.activeElement.className === 'xterm-helper-textarea'");
    browser.call("Input.insertText", json!({ "text": "echo $((40+2)) from the shell" }));
    browser.chord("Enter", 13, 0);
    browser.until("workshop.terminalText().includes('42 from the shell')");

    // After twenty reloads, it still shows what it did.
    for _ in 0..20 {
        browser.loading(|browser| {
            browser.call("Page.reload", json!({}));
        });
        browser.until(&format!("{tabs} === 2"));
    }
    browser.eval("document.querySelectorAll('[data-test=\"terminal-tab\"]')[1].click()");
    browser.until("workshop.terminalText().includes('42 from the shell')");

    // ctracer's page.
    browser.eval(
        "fetch('/api/run', { method: 'POST', headers: { 'Content-Type': 'application/json' },
            body: JSON.stringify({ name: '10', arguments: '-- --duration 3 --html bio.html' }) }).then((r) => r.status)",
    );
    browser.until("document.querySelector('[data-test=\"results\"] a[href$=\"bio.html\"]')");
    let link = browser.eval("document.querySelector('[data-test=\"results\"] a').href");
    browser.visit(link.as_str().unwrap());
    browser.until("document.body.textContent.includes('submit_bio')");
    assert_eq!(wrong(&mut browser), [""; 0]);
}

#[test]
fn nothing_typed_is_lost() {
    let mut server = Server::start();
    let mut browser = start(&server, "03.2");
    let file = server.mine().join("03.2/src/bpf/bio_trace.bpf.c");

    // The server is killed while somebody types.
    write(&mut browser, "/* before */\n");
    server.end(Signal::SIGKILL);
    browser.eval("document.querySelector('.cm-content').focus()");
    browser.chord("a", 65, CONTROL);
    browser.call("Input.insertText", json!({ "text": "/* while nobody listened */\n" }));
    browser.until("workshop.text() === '/* while nobody listened */\\n'");
    browser.until(&shows("banner", "The workshop does not answer"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "/* before */\n");
    server.again();
    browser.until("document.querySelector('#banner').hidden");
    browser.until(&shows("saved", "Saved"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "/* while nobody listened */\n");

    // It hangs.
    server.signal(Signal::SIGSTOP);
    browser.until(&shows("banner", "The workshop does not answer"));
    server.signal(Signal::SIGCONT);
    browser.until("document.querySelector('#banner').hidden");

    // Somebody else changes the file.
    fs::write(&file, "/* another editor */\n").unwrap();
    browser.eval("document.querySelector('.cm-content').focus()");
    browser.call("Input.insertText", json!({ "text": "/* mine */" }));
    browser.until(&shows("conflict", "changed this file"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "/* another editor */\n");
    click(&mut browser, "take-other");
    browser.until("workshop.text() === '/* another editor */\\n'");
    browser.until("document.querySelector('#conflict').hidden");
}

#[test]
fn typing_goes_on_while_a_terminal_is_flooded() {
    let server = Server::start();
    let mut browser = start(&server, "03.2");
    click(&mut browser, "new-shell");
    browser.until("document.activeElement.className === 'xterm-helper-textarea'");
    browser.call("Input.insertText", json!({ "text": "seq -f 'line %.0f of a flood, long enough to be a line of the trace pipe: 0xff1bfd5e41356200' 30000; echo the flood ends" }));
    browser.chord("Enter", 13, 0);
    // From a key to the frame that shows it.
    browser.eval(
        "window.took = []; addEventListener('keydown', () => {
            const start = performance.now();
            requestAnimationFrame(() => setTimeout(() => took.push(performance.now() - start)));
        }, { capture: true })",
    );
    browser.eval("document.querySelector('.cm-content').focus()");
    browser.chord("a", 65, CONTROL);
    for key in "typed during the flood".chars() {
        browser.press(&key.to_string());
    }
    browser.until("workshop.text() === 'typed during the flood'");
    browser.until(&shows("saved", "Saved"));
    browser.until("workshop.terminalText().includes('line 30000 of a flood')");
    browser.until("workshop.terminalText().includes('\\nthe flood ends')");
    let took = browser.eval("took.map(Math.round)");
    println!("ms per key: {took}");
    assert_eq!(took.as_array().map(Vec::len), Some("typed during the flood".len() + 1));
    assert_eq!(wrong(&mut browser), [""; 0]);
}

#[test]
fn it_can_be_used_with_keys_alone_and_in_the_dark() {
    let server = Server::start();
    let mut browser = start(&server, "03.2");
    browser.chord("F1", 112, 0);
    browser.until("document.querySelector('[data-test=\"keys-dialog\"]').open");
    browser.press("Escape");
    browser.until("!document.querySelector('[data-test=\"keys-dialog\"]').open");
    for (digit, pane) in [("2", "editor"), ("3", "terminals"), ("2", "editor")] {
        browser.chord(digit, 48 + digit.parse::<u32>().unwrap(), ALT);
        browser.until(&format!("document.querySelector('#{pane}').contains(document.activeElement)"));
    }
    for (width, height) in [(1280, 800), (1920, 1080), (1024, 700)] {
        for scheme in ["light", "dark"] {
            browser.size(width, height);
            browser.scheme(scheme);
            let is_dark = "(([r, g, b]) => r + g + b < 384)(getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number))";
            browser.until(&format!("{is_dark} === {}", scheme == "dark"));
            let fits = "document.scrollingElement.scrollWidth <= innerWidth && document.scrollingElement.scrollHeight <= innerHeight";
            browser.until(fits);
        }
    }
    assert_eq!(wrong(&mut browser), [""; 0]);
}

const ALT: u32 = 1;

#[test]
fn firefox_shows_the_lesson_edits_and_has_terminals() {
    const ENTER: &str = "\u{e007}";
    let server = Server::start();
    server.post("/api/works/03.2/start");
    let mut browser = Firefox::start();
    browser.visit(&server.url);
    browser.until(&shows("progress", "exercises done"));
    browser.until("document.querySelector('#book').contentDocument?.querySelector('main h1')");
    // The list of what can be opened.
    browser.eval(
        "(() => { const open = document.querySelector('#open');
            open.value = [...open.options].find((option) => option.textContent.includes('03.2')).value;
            open.dispatchEvent(new Event('change', { bubbles: true })); })()",
    );
    browser.until("window.workshop.text().includes('submit_bio')");
    browser.click(".cm-scroller");
    browser.until("document.querySelector('.cm-focused')");
    browser.press("typed in Firefox");
    browser.until("workshop.text().includes('typed in Firefox')");
    let file = server.mine().join("03.2/src/bpf/bio_trace.bpf.c");
    browser.until(&shows("saved", "Saved"));
    assert!(fs::read_to_string(file).unwrap().contains("typed in Firefox"));
    browser.click("#new-shell");
    browser.until("document.activeElement.className === 'xterm-helper-textarea'");
    browser.press("echo $((40+2)) from the shell");
    browser.press(ENTER);
    browser.until("workshop.terminalText().includes('42 from the shell')");
}

/// Saves a picture of the page into the folder `$PICTURES`, for the book or to look at.
fn picture(browser: &mut Chromium, name: &str) {
    if let Some(folder) = std::env::var_os("PICTURES") {
        let data = browser.call("Page.captureScreenshot", json!({ "format": "webp", "quality": 70 }))["data"]
            .clone();
        let picture = base64::prelude::BASE64_STANDARD.decode(data.as_str().unwrap()).unwrap();
        // The test runs in its package's folder.
        fs::write(Path::new("../..").join(folder).join(name), picture).unwrap();
    }
}

/// What the page did wrong. The API refuses some of what these tests ask for, and Chromium reports that, too.
fn wrong(browser: &mut Chromium) -> Vec<String> {
    let all = browser.wrong();
    let refused = |what: &String| what.contains("/solution?") && what.contains("403");
    all.into_iter().filter(|what| !refused(what)).collect()
}
