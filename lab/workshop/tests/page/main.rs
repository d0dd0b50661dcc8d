//! Works in the workshop as a learner does, in a real browser, with real guests: `make page-test`.

mod access;
#[path = "../common/case.rs"]
mod case;
#[path = "../common/mod.rs"]
mod common;
mod door;
mod firefox;
#[path = "../common/learner.rs"]
mod learner;
#[path = "../../../../docs/tests/browser/reader.rs"]
mod reader;
#[path = "../common/socket.rs"]
mod socket;
mod terminal;
mod writing;

use std::fs;

use nix::sys::signal::Signal;
use serde_json::json;
use tempfile::TempDir;
use wire::mystery::CAUSES;

use crate::access::has_room;
use crate::common::Server;
use crate::firefox::Firefox;
use crate::learner::{
    ALT, CONTROL, choose, click, does_exercise_03_1, edits, open, picture, shows, start, visit, write, wrong,
};
use crate::reader::Reader;
use crate::writing::open_again;

/// A workshop without the book and the lab, with two kernels to choose from, and a folder.
fn alone() -> (TempDir, Server) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let server = Server::with_kernels(&folder.path().join("status"));
    (folder, server)
}

#[test]
fn a_learner_does_exercise_03_1() {
    let server = Server::start();
    let mut browser = start(&server, "03.1");
    does_exercise_03_1(&server, &mut browser);
}

#[test]
fn the_map_leads_to_what_is_next_and_to_the_clinic() {
    let server = Server::start();
    let mut browser = start(&server, "03.2");
    let top = "document.querySelector('#code .cm-scroller').scrollTop";
    browser.eval(&format!("{top} = 300"));
    browser.poll(&format!("{top} > 0"));
    click(&mut browser, "map");
    browser.until(&shows("map-03.2", "◐"));
    browser.until(&shows("map-next", "Go on: 03.2"));
    click(&mut browser, "map-clinic-01");
    click(&mut browser, "start");
    edits(&mut browser, "latency.bpf.c");
    // A file begins at its top, wherever the one before it was.
    browser.poll(&format!("{top} < 9"));
    browser.poll_frame("document.querySelector('.log-view .step.refused')");
    browser.until("!document.querySelector('#run').checkVisibility()");
    click(&mut browser, "check");
    browser.until(&shows("verdict", "clinic-01 is not right yet"));
    click(&mut browser, "verdict-log");
    browser.poll_frame("location.href.endsWith('/clinic/01.html#step-by-step')");
    write(&mut browser, "int broken;\nint x = nothing;\n");
    browser.until("document.querySelector('.cm-lintRange-error')?.textContent === 'nothing'");
    assert_eq!(
        fs::read_to_string(server.mine().join("clinic-01/latency.bpf.c")).unwrap(),
        "int broken;\nint x = nothing;\n"
    );
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
    click(&mut browser, "new-shell");
    browser.until("document.activeElement.className === 'xterm-helper-textarea'");
    // At 200 %, the panes are below each other.
    browser.size(640, 400);
    for (digit, pane) in [("1", "lesson"), ("3", "terminals"), ("2", "editor"), ("3", "terminals")] {
        browser.chord(digit, 48 + digit.parse::<u32>().unwrap(), ALT);
        browser.until(&format!(
            "(({{ top, bottom }}) => top > -1 && bottom < innerHeight + 1)(document.querySelector('#{pane}').getBoundingClientRect())"
        ));
    }
    // A question before a run leaves room to read the program.
    browser.size(1280, 720);
    for stage in 1..=10 {
        browser.eval(&choose("open", &format!("{stage:02}")));
        browser.until(&format!("document.title.startsWith('{stage:02}:')"));
        browser.chord("Enter", 13, CONTROL);
        browser.until("document.querySelector('#panel .question')?.checkVisibility()");
        has_room(&mut browser, 10.0, 7.0);
        assert_eq!(
            browser.eval("(p => p.scrollHeight - p.clientHeight)(document.querySelector('#panel'))"),
            0
        );
        click(&mut browser, "panel-close");
    }
    // Enter answers, also where one of several is chosen.
    browser.eval(&choose("open", "02"));
    browser.until("document.title.startsWith('02:')");
    browser.chord("Enter", 13, CONTROL);
    browser.until("document.activeElement.matches('#panel [type=radio]')");
    browser.eval("document.activeElement.click()");
    browser.chord("Enter", 13, 0);
    browser.until(&shows("status", "Run of 02"));
    for (width, height) in [(1280, 800), (1920, 1080), (1024, 700)] {
        for scheme in ["light", "dark"] {
            browser.size(width, height);
            browser.scheme(scheme);
            let is_dark = "(([r, g, b]) => r + g + b < 384)(getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number))";
            browser.until(&format!("{is_dark} === {}", scheme == "dark"));
            let fits = "document.scrollingElement.scrollWidth <= innerWidth && document.scrollingElement.scrollHeight <= innerHeight";
            browser.until(fits);
            // No command in the lesson is cut off.
            let code = "[...document.querySelectorAll('main :not(pre) > code')]";
            let cut = "code.getBoundingClientRect().right > code.ownerDocument.documentElement.clientWidth";
            browser.poll_frame(&format!("{code}.length && !{code}.some((code) => {cut})"));
        }
    }
    assert_eq!(wrong(&mut browser), [""; 0]);
}

#[test]
fn firefox_shows_the_lesson_edits_and_has_terminals() {
    const ENTER: &str = "\u{e007}";
    let server = Server::start();
    server.post("/api/works/03.2/start");
    let mut browser = Firefox::start();
    browser.visit(&server.url);
    browser.until(&shows("progress", "cases done"));
    browser.until("document.querySelector('#lesson-title').textContent !== 'Lesson'");
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

/// Fills in a field, or chooses from a list.
fn fill(browser: &mut Reader, hook: &str, value: &str) {
    let field = format!("document.querySelector('[data-test=\"{hook}\"]')");
    browser.until(&format!("{field}?.checkVisibility()"));
    browser.eval(&format!(
        "(f => {{ f.value = {}; f.dispatchEvent(new Event('change')) }})({field})",
        json!(value)
    ));
}

#[test]
fn a_mystery_is_solved() {
    let server = Server::start();
    let mut browser = open(&server);
    click(&mut browser, "map");
    click(&mut browser, "map-mystery-01");
    browser.until("document.querySelector('#lesson-title').textContent === 'How to find a slow disk'");
    fill(&mut browser, "seed", "1");
    click(&mut browser, "start");
    browser.until(&shows("complaint", "Since Tuesday"));
    // By a key, which still has its place when the answer is there.
    browser.until("document.activeElement.className === 'xterm-helper-textarea'");
    browser.eval("document.querySelector('[data-test=look]').focus()");
    browser.chord("Enter", 13, 0);
    browser.until(&shows("now", "; normal: "));
    assert_eq!(browser.eval("document.activeElement.dataset.test"), "look");
    fill(&mut browser, "note", "as long as it is");
    click(&mut browser, "add-note");
    browser.until(&shows("notes", "as long as it is"));
    let heard = |text: &str| format!("document.querySelector('#heard').textContent === '{text}'");
    browser.until(&heard("The note is written down"));

    // Nobody sees the solution by accident.
    click(&mut browser, "solution");
    browser.until(&shows("panel", "No answer was right yet"));
    click(&mut browser, "peek");
    browser.until(&heard("The commands of an expert run now. Each takes some seconds."));
    // It ends in `CAUSE: WHAT. Place: PLACE or PLACE. Number: WHICH, from LOW to HIGH.`
    browser.until(&shows("way", ". Place: "));
    browser.until(&heard("An expert\\'s way is complete. The button Solution goes to it."));
    let way = browser.eval("document.querySelector('[data-test=\"way\"]').textContent");
    let (cause, rest) = way.as_str().unwrap().rsplit_once(". Place: ").unwrap();
    let cause = CAUSES.iter().find(|one| cause.ends_with(&format!("{}: {}", one.word, one.what))).unwrap();
    let place = rest.split([' ', '.']).next().unwrap();
    let (_, numbers) = rest.split_once(", from ").unwrap();
    let (low, high) = numbers.split_once(".").unwrap().0.split_once(" to ").unwrap();
    let number = low.parse::<u32>().unwrap().midpoint(high.parse().unwrap());

    // The guest has the clock, so a page that comes back continues.
    let time = |browser: &mut Reader| {
        browser.until(&shows("clock", " of 10:00"));
        let now = "(([m, s]) => 60 * m + +s)(document.querySelector('[data-test=\"clock\"]').textContent.split(/[: ]/))";
        browser.eval(now).as_u64().unwrap()
    };
    let before = time(&mut browser);
    browser.loading(|browser| {
        browser.call("Page.reload", json!({}));
    });
    browser.until(&shows("notes", "as long as it is"));
    browser.until(&shows("way", ". Place: "));
    let after = time(&mut browser);
    assert!(0 < before && before <= after, "{before}, {after}");

    // The form asks what the cause asks, and the card says what is wrong.
    assert_eq!(browser.eval("document.querySelector('[data-test=\"place\"]').checkVisibility()"), false);
    fill(&mut browser, "cause", cause.word);
    browser.until(&shows("answer-form", cause.number));
    fill(&mut browser, "place", "nowhere");
    fill(&mut browser, "number", &number.to_string());
    click(&mut browser, "answer");
    for words in
        ["2 of 3 are right", "✓ cause", "✗ placewrong. ", "✓ number", "A wrong answer costs a minute"]
    {
        browser.until(&shows("verdict", words));
    }
    browser.until(&shows("answers", ": 2 of 3"));
    picture(&mut browser, "mystery.webp");
    fill(&mut browser, "place", place);
    click(&mut browser, "answer");
    browser.until(&shows("verdict", "mystery-01 is solved"));
    browser.until(&shows("clock", "Solved after "));
    click(&mut browser, "verdict-way");
    browser.until("document.activeElement.dataset.test === 'way'");
    click(&mut browser, "verdict-fix");
    browser.until(&shows("now", "; before the fix: "));

    // The learner measures in the guest of the case.
    browser.until("workshop.terminalText().includes('case 01:')");
    click(&mut browser, "end");
    browser.until(&shows("solved", "solved"));
    browser.until(&shows("status", "mystery-01 ended"));
    assert!(fs::read_to_string(server.mine().join("mystery-01.txt")).unwrap().starts_with("Seed 1. "));
    click(&mut browser, "map");
    browser.until(&shows("map-mystery-01", "01 ✓"));
    assert_eq!(wrong(&mut browser), [""; 0]);
}

#[test]
fn a_link_opens_an_exercise_and_its_lesson() {
    let server = Server::start();
    let mut browser = open(&server);
    assert_eq!(browser.eval("location.href"), format!("{}/#01", server.origin()));
    let at = |browser: &mut Reader, exercise: &str| {
        browser.poll(&format!(
            "location.hash === '#{exercise}' && document.querySelector('#open').value === '{exercise}'"
        ));
        browser.poll_frame(&format!(
            "[...document.querySelectorAll('h3')]
                .some((h3) => h3.textContent.startsWith('{exercise} ') && Math.abs(h3.getBoundingClientRect().top) < 50)"
        ));
    };
    browser.eval("location.hash = '#04.1'");
    at(&mut browser, "04.1");
    // The lesson has a link at each exercise.
    browser.eval_in_frame("document.querySelector('.workshop-link[href=\"/#04.2\"]').click()");
    at(&mut browser, "04.2");
    browser.eval("history.back()");
    at(&mut browser, "04.1");
    // A reload leaves the lesson where it is.
    browser.eval_in_frame("scrollTo(0, 300)");
    browser.poll("JSON.parse(localStorage.getItem('workshop:lesson-top'))?.top === 300");
    browser.loading(|browser| {
        browser.call("Page.reload", json!({}));
    });
    browser.until(&shows("progress", "cases done"));
    browser.poll_frame("scrollY === 300");
    browser.eval("location.hash = '#99.9'");
    browser.until(&shows("panel", "Nothing in this course is called 99.9."));
    browser.until("location.hash === '#04.1'");
    // In a new tab.
    browser.call("Runtime.evaluate", json!({ "expression": "window.open('/#03.2')", "userGesture": true }));
    browser.in_other_window(|other| at(other, "03.2"));
    assert_eq!(wrong(&mut browser), [""; 0]);
}

#[test]
fn the_concept_test_asks_and_shows_no_answer() {
    let (_folder, mut server) = alone();
    let mut browser = visit(&server);
    browser.until(&shows("progress", "cases done"));
    click(&mut browser, "map");
    click(&mut browser, "test-before");
    for nth in 1..=15 {
        if nth == 2 {
            // Whoever closes it, or loads the page again, goes on later.
            browser.until(&shows("test-dialog", "Question 2 of 15"));
            browser.press("Escape");
            browser.until("!document.querySelector('#test').open");
            browser.loading(|browser| {
                browser.call("Page.reload", json!({}));
            });
            browser.until(&shows("progress", "cases done"));
            click(&mut browser, "map");
            click(&mut browser, "test-before");
        }
        if nth == 15 {
            server.end(Signal::SIGKILL);
        }
        browser.until(&shows("test-dialog", &format!("Question {nth} of 15")));
        if nth == 1 {
            picture(&mut browser, "test.webp");
            // Without a mouse.
            browser.eval("document.querySelector('#test input').checked = true");
            browser.chord("Enter", 13, 0);
        } else {
            click(&mut browser, "test-next");
        }
    }
    // Without the server, the answers wait for it.
    browser.until(&shows("test-dialog", "does not answer"));
    server.again();
    browser.until(&shows("banner", "Open the address"));
    open_again(&mut browser, &server);
    browser.until("document.querySelector('#banner').hidden");
    click(&mut browser, "test-end");
    browser.until(&shows("test-said", "Thank you. Your answers and their times are in "));
    // Whoever listens hears that with the button.
    browser.until(
        "document.getElementById(document.activeElement.getAttribute('aria-describedby'))?.textContent.startsWith('Thank you.')",
    );
    let names = || fs::read_dir(server.mine()).unwrap().map(|entry| entry.unwrap().path());
    let kept = names().find(|path| path.extension().is_some_and(|extension| extension == "tsv")).unwrap();
    let answers = questions::concept::import(&fs::read_to_string(kept).unwrap()).unwrap();
    let letters: String = answers.iter().map(|answered| answered.answer).collect();
    assert_eq!(letters, format!("A{}", "-".repeat(14)));
    browser.press("Escape");
    click(&mut browser, "map");
    browser.until("document.querySelector('[data-test=\"test-export\"]')?.checkVisibility()");
    assert_eq!(browser.eval("document.querySelectorAll('[data-test=\"test-before\"]').length"), 0);
    picture(&mut browser, "map.webp");
}
