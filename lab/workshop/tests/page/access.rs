//! For people with a keyboard, an input method, a screen reader, weak eyes or a small window.

use std::fs;

use serde_json::{Value, json};

use crate::alone;
use crate::case;
use crate::learner::{ALT, CONTROL, SHIFT, click, shows, visit};
use crate::reader::Reader;

/// Lets axe look at what the page shows, in light and dark.
fn look(browser: &mut Reader, what: &str, wrong: &mut Vec<String>) {
    for scheme in ["light", "dark"] {
        browser.scheme(scheme);
        browser.until(&format!("document.documentElement.dataset.theme === '{scheme}'"));
        wrong.extend(browser.barriers().into_iter().map(|barrier| format!("{what}, {scheme}: {barrier}")));
        // What marks code in a text is neither shown nor read.
        let marks = browser.eval(
            "[...document.querySelectorAll('body :not(script, style, option)')].flatMap((it) => [it.title, it.ariaLabel,
                ...(it.closest('#screens, .cm-content') ? [] : [...it.childNodes].map((one) => one.nodeValue))])
                .filter((text) => text?.includes('`'))",
        );
        wrong.extend(marks.as_array().unwrap().iter().map(|text| format!("{what}: {text}")));
    }
}

/// How many lines of the program and of the terminal have room at least.
pub fn has_room(browser: &mut Reader, lines: f64, rows: f64) {
    let room =
        |selector: &str, high: f64| format!("document.querySelector('{selector}').clientHeight / {high}");
    let room =
        [room("#code .cm-scroller", 19.5), room("#screens", 15.0)].map(|of| browser.eval(&of).as_f64());
    assert!(room[0] >= Some(lines) && room[1] >= Some(rows), "{room:?}, and not {lines} and {rows}");
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
    has_room(&mut browser, 10.0, 10.0);
    // Beside a card of usual length, and beside a long one.
    for (fault, rows) in [("8 lines", 10.0), (&*"much of `it` ".repeat(50), 8.0)] {
        let verdict = json!({ "wrong": { "expected": fault, "seen": fault, "lines": ["io-7: a"], "before": 0, "printed": 1,
            "wrong": 0 }, "code": null });
        fs::write(server.mine().join("exercise"), format!("echo '{verdict}' > $4; exit 1")).unwrap();
        click(&mut browser, "check");
        browser.until(&shows("verdict", fault.replace('`', "").trim_end()));
        has_room(&mut browser, 10.0, rows);
    }
    click(&mut browser, "hint");
    browser.until(&shows("panel", "Hint 1 of"));
    has_room(&mut browser, 9.0, 8.0);
    look(&mut browser, "a hint and a verdict", &mut wrong);
    // A key goes through all of it.
    browser.eval("document.querySelector('#lesson-start').focus()");
    for place in ["panel", "editor", "verdict", "terminals", "top", "lesson"] {
        browser.chord("F6", 117, 0);
        browser.until(&format!(
            "[...document.querySelectorAll('#lesson, #panel, #editor, #verdict, #terminals, #top')]
                .filter((place) => place.contains(document.activeElement)).pop()?.id === '{place}'"
        ));
    }
    let error = "printf 'error: no `it` here\\n  --> 03.1/src/main.rs:1:1\\n'; exit 1";
    fs::write(server.mine().join("exercise"), error).unwrap();
    click(&mut browser, "check");
    browser.until(&shows("status", "no it here"));
    browser.eval("document.querySelector('.cm-content').focus()");
    browser.chord("F8", 119, 0);
    browser.until("document.querySelector('.cm-tooltip .cm-diagnostic')");
    look(&mut browser, "an error in the program", &mut wrong);
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
    let tree = browser.call("Accessibility.getFullAXTree", json!({}));
    let mut nodes = tree["nodes"].as_array().unwrap().iter();
    let asks = |node: &Value| {
        node["name"]["value"].as_str().is_some_and(|name| name.starts_with("Question 1 of 15 "))
    };
    assert!(nodes.any(|node| node["role"]["value"] == "group" && asks(node)), "{tree}");
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
        "window.runs = []; window.fetch = ((fetch) => (path, ...more) => {
            if (path === '/api/run') window.runs.push(JSON.parse(more[0].body).arguments);
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
    // An Enter of its own runs the program, with all that was written: no Enter before it did.
    browser.chord("Enter", 13, 0);
    browser.until("window.runs.length > 0");
    assert_eq!(browser.eval("window.runs"), json!(["\u{306b}\u{306b}"]));
    // An Escape discards the composition, and not the panel in which it is.
    browser.eval("document.querySelector('.cm-content').focus()");
    let open = "document.activeElement.matches('.cm-panel input')";
    for (key, code, modifiers) in [("f", 70, CONTROL), ("g", 71, CONTROL | ALT)] {
        browser.chord(key, code, modifiers);
        browser.until(open);
        browser.call(
            "Input.imeSetComposition",
            json!({ "text": "\u{306b}", "selectionStart": 1, "selectionEnd": 1 }),
        );
        browser.chord("Escape", 27, 0);
        assert_eq!(browser.eval(open), true, "{key}");
        browser.call("Input.insertText", json!({ "text": "" }));
        browser.chord("Escape", 27, 0);
        browser.until("document.querySelector('.cm-content') === document.activeElement");
    }
}

#[test]
fn what_appears_elsewhere_is_heard() {
    let (_folder, server) = alone();
    let mut browser = visit(&server);
    browser.until(&shows("panel", "Welcome"));
    browser.eval("document.querySelector('#panel button').focus()");
    browser.chord("Enter", 13, 0);
    browser.until("document.activeElement.id === 'book'");
    // A shell has no line in the status.
    click(&mut browser, "new-shell");
    browser.until("document.activeElement.className === 'xterm-helper-textarea'");
    browser.call("Input.insertText", json!({ "text": "exit" }));
    browser.chord("Enter", 13, 0);
    browser.until("document.querySelector('#heard').textContent === 'Shell 1 ended'");
    // What is lost is said before the button that has the focus.
    for dialog in ["reset", "replace"] {
        browser.eval(&format!(
            "document.querySelector('#replace-text').textContent = 'This replaces your changes';
            document.querySelector('#{dialog}-dialog').showModal()"
        ));
        let tree = browser.call("Accessibility.getFullAXTree", json!({}));
        let mut nodes = tree["nodes"].as_array().unwrap().iter();
        let said = &nodes.find(|node| node["role"]["value"] == "dialog").unwrap()["description"]["value"];
        assert!(said.as_str().is_some_and(|said| said.contains("your changes")), "{dialog}: {said}");
        browser.press("Escape");
    }
}

#[test]
fn what_goes_when_it_is_pressed_leaves_the_focus_to_its_place() {
    let (_folder, server) = alone();
    server.post("/api/works/03.1/start");
    let script = |name: &str, text: &str| fs::write(server.mine().join(name), text).unwrap();
    script("exercise", "echo error: no; exit 1");
    script(
        "mystery",
        "echo mystery \"$@\"; door=${5#*=}; until [ -e $door ]; do sleep 0.1; done; while [ -e $door ]; do sleep 0.1; done",
    );
    let mut browser = visit(&server);
    browser.until(&shows("panel", "Welcome"));
    // The bar at the top is one of the places.
    browser.eval("document.activeElement.blur()");
    browser.chord("F6", 117, SHIFT);
    browser.until("document.activeElement.id === 'done'");
    let press = |browser: &mut Reader, hook: &str| {
        let button = format!("document.querySelector('[data-test=\"{hook}\"]')");
        browser.until(&format!(
            "{button}?.checkVisibility() && {button}.ariaDisabled !== 'true' && !{button}.disabled"
        ));
        browser.eval(&format!("{button}.focus()"));
        browser.chord("Enter", 13, 0);
    };
    let leaves = |browser: &mut Reader, hook: &str, place: &str| {
        press(browser, hook);
        browser.until(&format!(
            "(has => has.matches(':enabled, [contenteditable], .cm-content') && has.checkVisibility()
                && has.dataset.test !== '{hook}' && has.closest('{place}'))(document.activeElement)"
        ));
    };
    leaves(&mut browser, "panel-close", "#code");
    browser.eval("location.hash = '#03.1'");
    browser.until("document.title.startsWith('03.1:')");
    // What opens is named.
    leaves(&mut browser, "diff", "#files");
    assert_eq!(browser.eval("document.activeElement.textContent"), "Diff of 03.1");
    press(&mut browser, "check");
    leaves(&mut browser, "verdict-close", "#screens");
    script("exercise", "sleep 1000");
    press(&mut browser, "check");
    leaves(&mut browser, "stop", "#editor");
    case::play(&server, 7);
    browser.eval("location.hash = '#mystery-02'");
    leaves(&mut browser, "go-to-open", "#editor");
    browser.until(&shows("complaint", "It is slow."));
    let answer = "(form => {
        const field = (name) => form.querySelector(`[data-test=${name}]`);
        field('cause').value = 'slow-disk';
        field('cause').dispatchEvent(new Event('change'));
        field('place').value = field('number').value = '1';
        form.requestSubmit(); })(document.querySelector('[data-test=answer-form]'))";
    browser.eval(answer);
    leaves(&mut browser, "verdict-fix", "#terminals");
    leaves(&mut browser, "end", "#editor");
    browser.until(&shows("status", "mystery-01 ended"));
}
