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
use crate::learner::{ALT, CONTROL, TERMINAL, open, shows, start, visit};
use crate::reader::Reader;
use crate::writing::open_again;

/// A workshop without the book and the lab, with two kernels to choose from, and a folder.
fn alone() -> (TempDir, Server) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let server = Server::with_kernels(&folder.path().join("status"));
    (folder, server)
}

/// The same, and a page in which exercise 03.1 is open.
fn alone_at_03_1() -> (TempDir, Server, Reader) {
    let (folder, server) = alone();
    server.post("/api/works/03.1/start");
    let mut page = visit(&server);
    // What the page shows first must not come after the exercise.
    page.sees(&[("panel", "Welcome")]);
    page.go("03.1");
    (folder, server, page)
}

#[test]
fn a_learner_does_exercise_03_1() {
    let server = Server::start();
    start(&server, "03.1").does_exercise_03_1(&server);
}

#[test]
fn the_map_leads_to_what_is_next_and_to_the_clinic() {
    let server = Server::start();
    let mut page = start(&server, "03.2");
    let top = "document.querySelector('#code .cm-scroller').scrollTop";
    page.eval(&format!("{top} = 300"));
    page.poll(&format!("{top} > 0"));
    page.click("map");
    page.sees(&[("map-03.2", "◐"), ("map-next", "Go on: 03.2")]);
    page.click("map-clinic-01");
    page.click("start");
    page.edits("latency.bpf.c");
    // A file begins at its top, wherever the one before it was.
    page.poll(&format!("{top} < 9"));
    page.poll_frame("document.querySelector('.log-view .step.refused')");
    page.until("!document.querySelector('#run').checkVisibility()");
    page.click("check");
    page.sees(&[("verdict", "clinic-01 is not right yet")]);
    page.click("verdict-log");
    page.poll_frame("location.href.endsWith('/clinic/01.html#step-by-step')");
    let broken = "int broken;\nint x = nothing;\n";
    page.write(broken);
    page.until("document.querySelector('.cm-lintRange-error')?.textContent === 'nothing'");
    assert_eq!(fs::read_to_string(server.mine().join("clinic-01/latency.bpf.c")).unwrap(), broken);
    page.is_well();
}

#[test]
fn it_can_be_used_with_keys_alone_and_in_the_dark() {
    let server = Server::start();
    let mut page = start(&server, "03.2");
    let digit = |page: &mut Reader, digit: u32| page.chord(&digit.to_string(), 48 + digit, ALT);
    page.chord("F1", 112, 0);
    page.until("document.querySelector('[data-test=\"keys-dialog\"]').open");
    page.press("Escape");
    page.until("!document.querySelector('[data-test=\"keys-dialog\"]').open");
    for (key, pane) in [(2, "editor"), (3, "terminals"), (2, "editor")] {
        digit(&mut page, key);
        page.focuses(&format!(":is(#{pane}, #{pane} *)"));
    }
    page.click("new-shell");
    page.focuses(TERMINAL);
    // At 200 %, the panes are below each other.
    page.size(640, 400);
    for (key, pane) in [(1, "lesson"), (3, "terminals"), (2, "editor"), (3, "terminals")] {
        digit(&mut page, key);
        page.until(&format!(
            "(({{ top, bottom }}) => top > -1 && bottom < innerHeight + 1)(document.querySelector('#{pane}').getBoundingClientRect())"
        ));
    }
    // A question before a run leaves room to read the program.
    page.size(1280, 720);
    for stage in 1..=10 {
        page.go(&format!("{stage:02}"));
        page.enter(CONTROL);
        page.until("document.querySelector('#panel .question')?.checkVisibility()");
        has_room(&mut page, 10.0, 7.0);
        let hidden = "(p => p.scrollHeight - p.clientHeight)(document.querySelector('#panel'))";
        assert_eq!(page.eval(hidden), 0);
        page.click("panel-close");
    }
    // Enter answers, also where one of several is chosen.
    page.go("02");
    page.enter(CONTROL);
    page.focuses("#panel [type=radio]");
    page.eval("document.activeElement.click()");
    page.enter(0);
    page.sees(&[("status", "Run of 02")]);
    for (width, height) in [(1280, 800), (1920, 1080), (1024, 700)] {
        for scheme in ["light", "dark"] {
            page.size(width, height);
            page.scheme(scheme);
            let is_dark = "(([r, g, b]) => r + g + b < 384)(getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number))";
            page.poll(&format!("{is_dark} === {}", scheme == "dark"));
            page.poll("((all) => all.scrollWidth <= innerWidth && all.scrollHeight <= innerHeight)(document.scrollingElement)");
            // No command in the lesson is cut off.
            let code = "[...document.querySelectorAll('main :not(pre) > code')]";
            let cut = "code.getBoundingClientRect().right > code.ownerDocument.documentElement.clientWidth";
            page.poll_frame(&format!("{code}.length && !{code}.some((code) => {cut})"));
        }
    }
    page.is_well();
}

#[test]
fn firefox_shows_the_lesson_edits_and_has_terminals() {
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
    browser.until(&shows("saved", "Saved"));
    assert!(server.file("03.2", "src/bpf/bio_trace.bpf.c").contains("typed in Firefox"));
    browser.click("#new-shell");
    browser.until(&format!("document.activeElement.matches('{TERMINAL}')"));
    // The last one is Enter.
    browser.press("echo $((40+2)) from the shell\u{e007}");
    browser.until("workshop.terminalText().includes('42 from the shell')");
}

/// Fills in a field, or chooses from a list.
fn fill(page: &mut Reader, hook: &str, value: &str) {
    let field = format!("document.querySelector('[data-test=\"{hook}\"]')");
    page.until(&format!("{field}?.checkVisibility()"));
    page.eval(&format!(
        "(f => {{ f.value = {}; f.dispatchEvent(new Event('change')) }})({field})",
        json!(value)
    ));
}

#[test]
fn a_mystery_is_solved() {
    let server = Server::start();
    let mut page = open(&server);
    page.click("map");
    page.click("map-mystery-01");
    page.until("document.querySelector('#lesson-title').textContent === 'How to find a slow disk'");
    fill(&mut page, "seed", "1");
    page.click("start");
    page.sees(&[("complaint", "Since Tuesday")]);
    // By a key, which still has its place when the answer is there.
    page.focuses(TERMINAL);
    page.focus("[data-test=look]");
    page.enter(0);
    page.sees(&[("now", "; normal: ")]);
    page.focuses("[data-test=look]");
    fill(&mut page, "note", "as long as it is");
    page.click("add-note");
    page.sees(&[("notes", "as long as it is")]);
    page.hears("The note is written down");

    // Nobody sees the solution by accident.
    page.click("solution");
    page.sees(&[("panel", "No answer was right yet")]);
    page.click("peek");
    page.hears("The commands of an expert run now. Each takes some seconds.");
    // It ends in `CAUSE: WHAT. Place: PLACE or PLACE. Number: WHICH, from LOW to HIGH.`
    page.sees(&[("way", ". Place: ")]);
    page.hears("An expert's way is complete. The button Solution goes to it.");
    let way = page.eval("document.querySelector('[data-test=\"way\"]').textContent");
    let (cause, rest) = way.as_str().unwrap().rsplit_once(". Place: ").unwrap();
    let cause = CAUSES.iter().find(|one| cause.ends_with(&format!("{}: {}", one.word, one.what))).unwrap();
    let place = rest.split([' ', '.']).next().unwrap();
    let (_, numbers) = rest.split_once(", from ").unwrap();
    let (low, high) = numbers.split_once(".").unwrap().0.split_once(" to ").unwrap();
    let number = low.parse::<u32>().unwrap().midpoint(high.parse().unwrap());

    // The guest has the clock, so a page that comes back continues.
    let time = |page: &mut Reader| {
        page.sees(&[("clock", " of 10:00")]);
        let now = "(([m, s]) => 60 * m + +s)(document.querySelector('[data-test=\"clock\"]').textContent.split(/[: ]/))";
        page.eval(now).as_u64().unwrap()
    };
    let before = time(&mut page);
    page.reload();
    page.sees(&[("notes", "as long as it is"), ("way", ". Place: ")]);
    let after = time(&mut page);
    assert!(0 < before && before <= after, "{before}, {after}");

    // The form asks what the cause asks, and the card says what is wrong.
    assert_eq!(page.eval("document.querySelector('[data-test=\"place\"]').checkVisibility()"), false);
    fill(&mut page, "cause", cause.word);
    page.sees(&[("answer-form", cause.number)]);
    fill(&mut page, "place", "nowhere");
    fill(&mut page, "number", &number.to_string());
    page.click("answer");
    page.sees(&[("verdict", "2 of 3 are right"), ("verdict", "✓ cause"), ("verdict", "✗ placewrong. ")]);
    page.sees(&[
        ("verdict", "✓ number"),
        ("verdict", "A wrong answer costs a minute"),
        ("answers", ": 2 of 3"),
    ]);
    fill(&mut page, "place", place);
    page.click("answer");
    page.sees(&[("verdict", "mystery-01 is solved"), ("clock", "Solved after ")]);
    page.click("verdict-way");
    page.focuses("[data-test=way]");
    page.click("verdict-fix");
    page.sees(&[("now", "; before the fix: ")]);

    // The learner measures in the guest of the case.
    page.prints("case 01:");
    page.click("end");
    page.sees(&[("solved", "solved"), ("status", "mystery-01 ended")]);
    assert!(fs::read_to_string(server.mine().join("mystery-01.txt")).unwrap().starts_with("Seed 1. "));
    page.click("map");
    page.sees(&[("map-mystery-01", "01 ✓")]);
    page.is_well();
}

/// An expression: whether the lesson's heading of this exercise is at the top.
pub fn is_at_heading(exercise: &str) -> String {
    format!(
        "[...document.querySelectorAll('h3')].some((h3) => h3.textContent.startsWith('{exercise} ')
            && Math.abs(h3.getBoundingClientRect().top) < 50)"
    )
}

#[test]
fn a_link_opens_an_exercise_and_its_lesson() {
    let server = Server::start();
    let mut page = open(&server);
    assert_eq!(page.eval("location.href"), format!("{}/#01", server.origin()));
    let at = |browser: &mut Reader, exercise: &str| {
        let is_chosen = format!("document.querySelector('#open').value === '{exercise}'");
        browser.poll(&format!("location.hash === '#{exercise}' && {is_chosen}"));
        browser.poll_frame(&is_at_heading(exercise));
    };
    page.eval("location.hash = '#04.1'");
    at(&mut page, "04.1");
    // The lesson has a link at each exercise.
    page.eval_in_frame("document.querySelector('.workshop-link[href=\"/#04.2\"]').click()");
    at(&mut page, "04.2");
    page.eval("history.back()");
    at(&mut page, "04.1");
    // A reload leaves the lesson where it is.
    page.eval_in_frame("scrollTo(0, 300)");
    page.poll("JSON.parse(localStorage.getItem('workshop:lesson-top'))?.top === 300");
    page.reload();
    page.sees(&[("progress", "cases done")]);
    page.poll_frame("scrollY === 300");
    page.eval("location.hash = '#99.9'");
    page.sees(&[("panel", "Nothing in this course is called 99.9.")]);
    page.until("location.hash === '#04.1'");
    // In a new tab.
    page.call("Runtime.evaluate", json!({ "expression": "window.open('/#03.2')", "userGesture": true }));
    page.in_other_window(|other| at(other, "03.2"));
    page.is_well();
}

#[test]
fn the_concept_test_asks_and_shows_no_answer() {
    let (_folder, mut server) = alone();
    let mut page = visit(&server);
    let begin = |page: &mut Reader| ["map", "test-before"].iter().for_each(|button| page.click(button));
    begin(&mut page);
    for nth in 1..=15 {
        if nth == 2 {
            // Whoever closes it, or loads the page again, goes on later.
            page.sees(&[("test-dialog", "Question 2 of 15")]);
            page.press("Escape");
            page.until("!document.querySelector('#test').open");
            page.reload();
            page.sees(&[("progress", "cases done")]);
            begin(&mut page);
        }
        if nth == 15 {
            server.end(Signal::SIGKILL);
        }
        page.sees(&[("test-dialog", &format!("Question {nth} of 15"))]);
        if nth == 1 {
            // Without a mouse.
            page.eval("document.querySelector('#test input').checked = true");
            page.enter(0);
        } else {
            page.click("test-next");
        }
    }
    // Without the server, the answers wait for it.
    page.sees(&[("test-dialog", "does not answer")]);
    server.again();
    page.sees(&[("banner", "Open the address")]);
    open_again(&mut page, &server);
    page.click("test-end");
    page.sees(&[("test-said", "Thank you. Your answers and their times are in ")]);
    // Whoever listens hears that with the button.
    page.until(
        "document.getElementById(document.activeElement.getAttribute('aria-describedby'))?.textContent.startsWith('Thank you.')",
    );
    let mut names = fs::read_dir(server.mine()).unwrap().map(|entry| entry.unwrap().path());
    let kept = names.find(|path| path.extension().is_some_and(|extension| extension == "tsv")).unwrap();
    let answers = questions::concept::import(&fs::read_to_string(kept).unwrap()).unwrap();
    let letters: String = answers.iter().map(|answered| answered.answer).collect();
    assert_eq!(letters, format!("A{}", "-".repeat(14)));
    page.press("Escape");
    page.click("map");
    page.until("document.querySelector('[data-test=\"test-export\"]')?.checkVisibility()");
    assert_eq!(page.eval("document.querySelectorAll('[data-test=\"test-before\"]').length"), 0);
}
