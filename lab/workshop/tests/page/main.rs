//! Works in the workshop as a learner does, in a real browser, with real guests: `make page-test`.

mod access;
#[path = "../common/mod.rs"]
mod common;
mod door;
#[path = "../common/learner.rs"]
mod learner;
#[path = "../../../../docs/tests/browser/reader.rs"]
mod reader;
#[path = "../common/socket.rs"]
mod socket;
mod terminal;
mod writing;

use std::fs;

use serde_json::json;
use tempfile::TempDir;

use crate::access::has_room;
use crate::common::Server;
use crate::learner::{ALT, CONTROL, TERMINAL, open, start, visit};
use crate::reader::Reader;

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
