//! For people with a keyboard, an input method, a screen reader, weak eyes or a small window.

use std::fs;

use serde_json::json;

use crate::learner::{ALT, CONTROL, SHIFT, TERMINAL, visit};
use crate::reader::Reader;
use crate::{alone, alone_at_03_1};

/// Lets axe look at what the page shows, in light and dark.
fn look(page: &mut Reader, what: &str, wrong: &mut Vec<String>) {
    for scheme in ["light", "dark"] {
        page.scheme(scheme);
        page.until(&format!("document.documentElement.dataset.theme === '{scheme}'"));
        wrong.extend(page.barriers().into_iter().map(|barrier| format!("{what}, {scheme}: {barrier}")));
        // What marks code in a text is neither shown nor read.
        let marks = page.eval(
            "[...document.querySelectorAll('body :not(script, style, option)')].flatMap((it) => [it.title, it.ariaLabel,
                ...(it.closest('#screens, .cm-content') ? [] : [...it.childNodes].map((one) => one.nodeValue))])
                .filter((text) => text?.includes('`'))",
        );
        wrong.extend(marks.as_array().unwrap().iter().map(|text| format!("{what}: {text}")));
    }
}

/// How many lines of the program and of the terminal have room at least.
pub fn has_room(page: &mut Reader, lines: f64, rows: f64) {
    let room =
        |selector: &str, high: f64| format!("document.querySelector('{selector}').clientHeight / {high}");
    let room = [room("#code .cm-scroller", 19.5), room("#screens", 15.0)].map(|of| page.eval(&of).as_f64());
    assert!(room[0] >= Some(lines) && room[1] >= Some(rows), "{room:?}, and not {lines} and {rows}");
}

#[test]
fn axe_finds_no_barrier_and_small_windows_have_room() {
    let (_folder, server) = alone();
    server.post("/api/works/03.1/start");
    let mut page = visit(&server);
    let driver = |script: &str| fs::write(server.mine().join("exercise"), script).unwrap();
    page.size(1280, 720);
    let mut wrong = Vec::new();
    page.sees(&[("panel", "Welcome")]);
    look(&mut page, "a stage", &mut wrong);
    page.go("03.1");
    page.click("hint");
    page.sees(&[("panel", "Hint 1 of")]);
    has_room(&mut page, 10.0, 10.0);
    // Beside a card of usual length, and beside a long one.
    for (fault, rows) in [("8 lines", 10.0), (&*"much of `it` ".repeat(50), 8.0)] {
        let verdict = json!({ "wrong": { "expected": fault, "seen": fault, "lines": ["io-7: a"], "before": 0, "printed": 1,
            "wrong": 0 } });
        driver(&format!("echo '{verdict}' > $4; exit 1"));
        page.click("check");
        page.sees(&[("verdict", fault.replace('`', "").trim_end())]);
        has_room(&mut page, 10.0, rows);
    }
    page.click("hint");
    page.sees(&[("panel", "Hint 1 of")]);
    has_room(&mut page, 9.0, 8.0);
    look(&mut page, "a hint and a verdict", &mut wrong);
    // A key goes through all of it.
    page.focus("#lesson-start");
    for place in ["panel", "editor", "verdict", "terminals", "top", "lesson"] {
        page.chord("F6", 117, 0);
        page.until(&format!(
            "[...document.querySelectorAll('#lesson, #panel, #editor, #verdict, #terminals, #top')]
                .filter((place) => place.contains(document.activeElement)).pop()?.id === '{place}'"
        ));
    }
    driver("printf 'error: no `it` here\\n  --> 03.1/src/main.rs:1:1\\n'; exit 1");
    page.click("check");
    page.sees(&[("status", "no it here")]);
    page.focus(".cm-content");
    page.chord("F8", 119, 0);
    page.until("document.querySelector('.cm-tooltip .cm-diagnostic')");
    look(&mut page, "an error in the program", &mut wrong);
    page.click("diff");
    page.until("document.querySelector('#compared').textContent !== ''");
    look(&mut page, "a comparison", &mut wrong);
    for button in ["map", "keys"] {
        page.click(button);
        look(&mut page, button, &mut wrong);
        page.press("Escape");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for width in [390, 768, 1280, 1920] {
        page.size(width, 844);
        page.until(&format!("innerWidth === {width} && document.scrollingElement.scrollWidth <= innerWidth"));
    }
}

#[test]
fn a_screen_reader_reads_the_terminals_and_hears_what_appears_elsewhere() {
    let (_folder, server) = alone();
    let mut page = visit(&server);
    page.sees(&[("panel", "Welcome")]);
    page.focus("#panel button");
    page.enter(0);
    page.focuses("#book");
    // A shell has no line in the status.
    page.shell("exit");
    page.hears("Shell 1 ended");
    page.shell("echo $((40+2)) is read");
    page.prints("42 is read");
    page.eval("document.querySelector('[data-test=\"read-terminals\"]').click()");
    page.until("[...document.querySelectorAll('.xterm-accessibility-tree > *')].some((row) => row.textContent.startsWith('42 is read'))");
    for name in ["42 is read", "Terminal: Shell 2"] {
        page.has_node(|node| node["name"]["value"].as_str().is_some_and(|value| value.trim() == name));
    }
    // Tab still belongs to the shell.
    page.focus(&format!(".shown {TERMINAL}"));
    page.chord("Tab", 9, 0);
    page.focuses(TERMINAL);
    // What is lost is said before the button that has the focus.
    for dialog in ["reset", "replace"] {
        page.eval(&format!(
            "document.querySelector('#replace-text').textContent = 'This replaces your changes';
            document.querySelector('#{dialog}-dialog').showModal()"
        ));
        page.has_node(|node| {
            let said = node["description"]["value"].as_str().unwrap_or_default();
            node["role"]["value"] == "dialog" && said.contains("your changes")
        });
        page.press("Escape");
    }
}

#[test]
fn the_keys_of_an_input_method_are_its_own() {
    let (_folder, server) = alone();
    let mut page = visit(&server);
    page.sees(&[("panel", "Welcome")]);
    let composes = |page: &mut Reader| {
        let text = json!({ "text": "\u{306b}", "selectionStart": 1, "selectionEnd": 1 });
        page.call("Input.imeSetComposition", text);
    };
    page.eval(
        "window.runs = []; window.fetch = ((fetch) => (path, ...more) => {
            if (path === '/api/run') window.runs.push(JSON.parse(more[0].body).arguments);
            return fetch(path, ...more); })(window.fetch);
        document.querySelector('#arguments').focus()",
    );
    page.compose("\u{306b}");
    assert_eq!(page.eval("document.querySelector('#arguments').value"), "\u{306b}");
    // A key that composes is not one of the page's.
    composes(&mut page);
    page.chord("F1", 112, 0);
    assert_eq!(page.eval("document.querySelector('#keys').open"), false);
    page.insert("\u{306b}");
    // An Enter of its own runs the program, with all that was written: no Enter before it did.
    page.enter(0);
    page.until("window.runs.length > 0");
    assert_eq!(page.eval("window.runs"), json!(["\u{306b}\u{306b}"]));
    // An Escape discards the composition, and not the panel in which it is.
    page.focus(".cm-content");
    for (key, code, modifiers) in [("f", 70, CONTROL), ("g", 71, CONTROL | ALT)] {
        page.chord(key, code, modifiers);
        page.focuses(".cm-panel input");
        composes(&mut page);
        page.chord("Escape", 27, 0);
        assert_eq!(page.eval("document.activeElement.matches('.cm-panel input')"), true, "{key}");
        page.insert("");
        page.chord("Escape", 27, 0);
        page.focuses(".cm-content");
    }
}

#[test]
fn what_goes_when_it_is_pressed_leaves_the_focus_to_its_place() {
    let (_folder, server, mut page) = alone_at_03_1();
    let script = |name: &str, text: &str| fs::write(server.mine().join(name), text).unwrap();
    script("exercise", "echo error: no; exit 1");
    // The bar at the top is one of the places.
    page.eval("document.activeElement.blur()");
    page.chord("F6", 117, SHIFT);
    page.focuses("#done");
    let press = |page: &mut Reader, hook: &str| {
        let button = format!("document.querySelector('[data-test=\"{hook}\"]')");
        page.until(&format!("{button}?.checkVisibility() && !{button}.disabled"));
        page.eval(&format!("{button}.focus()"));
        page.enter(0);
    };
    let leaves = |page: &mut Reader, hook: &str, place: &str| {
        press(page, hook);
        page.until(&format!(
            "(has => has.matches(':enabled, [contenteditable], .cm-content') && has.checkVisibility()
                && has.dataset.test !== '{hook}' && has.closest('{place}'))(document.activeElement)"
        ));
    };
    page.click("hint");
    leaves(&mut page, "panel-close", "#code");
    // What opens is named.
    leaves(&mut page, "diff", "#files");
    assert_eq!(page.eval("document.activeElement.textContent"), "Diff of 03.1");
    press(&mut page, "check");
    leaves(&mut page, "verdict-close", "#screens");
    script("exercise", "sleep 1000");
    press(&mut page, "check");
    leaves(&mut page, "stop", "#editor");
}
