//! For people with a keyboard, an input method, a screen reader, weak eyes or a small window.

use serde_json::json;

use crate::alone;
use crate::learner::{click, shows, visit};
use crate::reader::Reader;

/// Lets axe look at what the page shows, in light and dark.
fn look(browser: &mut Reader, what: &str, wrong: &mut Vec<String>) {
    for scheme in ["light", "dark"] {
        browser.scheme(scheme);
        browser.until(&format!("document.documentElement.dataset.theme === '{scheme}'"));
        wrong.extend(browser.barriers().into_iter().map(|barrier| format!("{what}, {scheme}: {barrier}")));
    }
}

#[test]
fn axe_finds_no_barrier_and_small_windows_have_room() {
    let (_folder, server) = alone();
    server.post("/api/works/03.1/start");
    let mut browser = visit(&server);
    browser.size(1280, 720);
    let mut wrong = Vec::new();
    browser.until(&shows("panel", "Welcome"));
    look(&mut browser, "a stage", &mut wrong);
    browser.eval("location.hash = '#03.1'");
    browser.until("document.title.startsWith('03.1:')");
    click(&mut browser, "hint");
    browser.until(&shows("panel", "Hint 1 of"));
    let lines = "document.querySelector('#code .cm-scroller').clientHeight / 19.5";
    assert!(browser.eval(lines).as_f64() > Some(8.0), "{}", browser.eval(lines));
    // This one can't be checked, but has a card.
    click(&mut browser, "check");
    browser.until(&shows("verdict", "could not be checked"));
    let rows = "document.querySelector('#screens').clientHeight / 15";
    assert!(browser.eval(rows).as_f64() > Some(6.0), "{}", browser.eval(rows));
    click(&mut browser, "hint");
    look(&mut browser, "a hint and a verdict", &mut wrong);
    click(&mut browser, "diff");
    browser.until("document.querySelector('#compared').textContent !== ''");
    look(&mut browser, "a comparison", &mut wrong);
    for button in ["map", "keys"] {
        click(&mut browser, button);
        look(&mut browser, button, &mut wrong);
        browser.press("Escape");
    }
    click(&mut browser, "map");
    click(&mut browser, "test-before");
    browser.until(&shows("test-dialog", "Question 1 of"));
    look(&mut browser, "the test", &mut wrong);
    browser.press("Escape");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for width in [390, 768, 1280, 1920] {
        browser.size(width, 844);
        browser
            .until(&format!("innerWidth === {width} && document.scrollingElement.scrollWidth <= innerWidth"));
    }
}

#[test]
fn a_screen_reader_reads_the_terminals() {
    let (_folder, server) = alone();
    let mut browser = visit(&server);
    click(&mut browser, "new-shell");
    browser.until("document.activeElement.className === 'xterm-helper-textarea'");
    browser.call("Input.insertText", json!({ "text": "echo $((40+2)) is read" }));
    browser.chord("Enter", 13, 0);
    browser.until("workshop.terminalText().includes('42 is read')");
    browser.eval("document.querySelector('[data-test=\"read-terminals\"]').click()");
    browser.until("[...document.querySelectorAll('.xterm-accessibility-tree > *')].some((row) => row.textContent.startsWith('42 is read'))");
    let tree = browser.call("Accessibility.getFullAXTree", json!({}));
    let names = |name: &str| {
        let nodes = tree["nodes"].as_array().unwrap();
        nodes.iter().any(|node| node["name"]["value"].as_str().is_some_and(|value| value.trim() == name))
    };
    assert!(names("42 is read") && names("Terminal: Shell 1"), "{tree}");
    // Tab still belongs to the shell.
    browser.eval("document.querySelector('.xterm-helper-textarea').focus()");
    browser.chord("Tab", 9, 0);
    assert_eq!(browser.eval("document.activeElement.className"), "xterm-helper-textarea");
}

#[test]
fn the_keys_of_an_input_method_are_its_own() {
    let (_folder, server) = alone();
    let mut browser = visit(&server);
    browser.until(&shows("panel", "Welcome"));
    browser.eval(
        "window.runs = 0; window.fetch = ((fetch) => (path, ...more) => {
            if (path === '/api/run') window.runs += 1;
            return fetch(path, ...more); })(window.fetch);
        document.querySelector('#arguments').focus()",
    );
    browser.compose("\u{306b}");
    assert_eq!(browser.eval("document.querySelector('#arguments').value"), "\u{306b}");
    // A key that composes is not one of the page's.
    browser.call(
        "Input.imeSetComposition",
        json!({ "text": "\u{306b}", "selectionStart": 1, "selectionEnd": 1 }),
    );
    browser.chord("F1", 112, 0);
    assert_eq!(browser.eval("document.querySelector('#keys').open"), false);
    browser.call("Input.insertText", json!({ "text": "\u{306b}" }));
    assert_eq!(browser.eval("window.runs"), 0);
    browser.chord("Enter", 13, 0);
    browser.until("window.runs === 1");
}
