//! What runs, and what it prints.

use std::fs;

use serde_json::json;

use crate::alone;
use crate::common::Server;
use crate::learner::{
    CONTROL, choose, click, click_in_lesson, open, picture, predict, shows, start, visit, wrong,
};

#[test]
fn stages_run_in_a_terminal_and_leave_files_to_open() {
    let server = Server::start();
    let mut browser = open(&server);
    // Choosing a stage or an exercise in the list opens its lesson, also if one choice follows on another.
    browser.eval(&choose("open", "02"));
    browser.until("document.querySelector('#lesson-title').textContent.startsWith('02 ')");
    for names in [["04.1", "02.3"], ["02", "02.2"]] {
        browser.eval(&names.map(|name| choose("open", name)).concat());
        browser.poll_frame(&format!(
            "[...document.querySelectorAll('h3')]
                .some((h3) => h3.textContent.startsWith('{} ') && Math.abs(h3.getBoundingClientRect().top) < 50)",
            names[1]
        ));
    }
    click_in_lesson(&mut browser, "stages/03.html", "lesson-run", " 03");
    predict(&mut browser, "8");
    browser.until(&shows("status", "running"));
    browser.until("workshop.terminalText().includes('submit_bio() -> bio_endio() time duration: ')");
    browser.until(&shows("verdict", "The end of this run shows"));
    click(&mut browser, "stop-compare");
    browser.until("workshop.terminalText().includes('Durations missing or too short: ')");
    // The report decides.
    for words in ["You expected something else", "predicted8", "you got0", "its own bio"] {
        browser.until(&shows("verdict", words));
    }
    // Also where the terminals are folded.
    click(&mut browser, "fold-terminals");
    click(&mut browser, "to-lines");
    browser.until("document.activeElement.className === 'xterm-helper-textarea'");
    browser.until(
        "document.querySelector('#heard').textContent.startsWith('Durations missing or too short: 0')",
    );
    assert!(fs::read_to_string(server.mine().join("answers.txt")).unwrap().starts_with("03/left 2"));
    browser.until(&shows("progress", "done, 1 of "));
    // The card in the lesson has its answer, too, and one that is answered there counts here.
    let cards = "[...document.querySelectorAll('form.question')]";
    browser.poll_frame(&format!("{cards}[0]?.matches('.answered') && !{cards}[1].matches('.answered')"));
    browser.eval_in_frame(&format!(
        "(card => {{ card.querySelector(`[value='${{card.dataset.right}}']`).click(); card.requestSubmit() }})({cards}[1])"
    ));
    browser.until(&shows("progress", "done, 2 of "));
    browser.until("!document.querySelector('[data-test=\"stop\"]')");
    // Another stage asks, and what the last one has shown is gone.
    click_in_lesson(&mut browser, "stages/04.html", "lesson-run", " 04");
    browser.until("!document.querySelector('#panel').hidden && document.querySelector('#verdict').hidden");
    click(&mut browser, "panel-close");
    // Nobody is asked twice.
    browser.eval("workshop.scrollUp()");
    click_in_lesson(&mut browser, "stages/03.html", "lesson-run", " 03");
    browser.until(&shows("status", "Run of 03: running"));
    browser.until("document.querySelector('#panel').hidden");
    // Whoever had scrolled up sees the new run's lines.
    browser.poll(
        "workshop.terminalText().split('Durations missing')[1]?.includes('submit_bio(') && workshop.terminalIsAtEnd()",
    );
    // A run ends the one of another stage, whose program makes room for its own.
    browser.eval(&choose("open", "03"));
    browser.until(&shows("saved", "Read only"));
    click_in_lesson(&mut browser, "stages/01.html", "lesson-run", " 01");
    click(&mut browser, "skip");
    browser.until(&shows("status", "Run of 01: running"));
    browser.until(&format!("!{}", shows("status", "Run of 03")));
    browser.until("document.querySelector('#open').value === '01'");
    click(&mut browser, "stop");
    browser.until("!document.querySelector('[data-test=\"stop\"]')");
    browser.until(&shows("status", "Run of 01"));

    // A shell of the learner's own, beside it.
    click(&mut browser, "new-shell");
    browser.until(&shows("terminal-tab", "Shell 1"));
    let tabs = "document.querySelectorAll('[data-test=\"terminal-tab\"]').length";
    assert_eq!(browser.eval(tabs), 3);
    browser.until("document.activeElement.className === 'xterm-helper-textarea'");
    browser.call("Input.insertText", json!({ "text": "echo $((40+2)) from the shell" }));
    browser.chord("Enter", 13, 0);
    browser.until("workshop.terminalText().includes('42 from the shell')");

    // After twenty reloads, it still shows what it did, and the lesson is where it was.
    browser.eval_in_frame("scrollTo(0, 700)");
    browser.poll("JSON.parse(localStorage.getItem('workshop:lesson-top'))?.top === 700");
    for _ in 0..20 {
        browser.loading(|browser| {
            browser.call("Page.reload", json!({}));
        });
        browser.until(&format!("{tabs} === 3"));
        browser.poll_frame("scrollY === 700");
    }
    browser.eval("document.querySelectorAll('[data-test=\"terminal-tab\"]')[2].click()");
    browser.until("workshop.terminalText().includes('42 from the shell')");

    // The lines of the stage that prints the longest ones fit.
    let run = |name: &str, arguments: &str| {
        let body = json!({ "name": name, "arguments": arguments });
        assert_eq!(server.page("POST", "/api/run", "", body.to_string().as_bytes()).status, 200);
    };
    run("07", "--io write -- --lines 40");
    browser.until(
        "workshop.terminalText().includes('blk_mq_start_request() -> block_rq_complete() time duration: ')",
    );
    let longest = "Math.max(...workshop.terminalText().split('\\n').filter((line) => line.includes('time duration')).map((line) => line.length))";
    let fits = format!("[{longest}, workshop.terminalColumns()]");
    let fits = browser.eval(&fits);
    assert!(fits[0].as_f64() <= fits[1].as_f64(), "{fits}");
    // The learner has the last word.
    click(&mut browser, "larger");
    browser.until(&format!("workshop.terminalColumns() < {}", fits[1]));
    click(&mut browser, "smaller");
    browser.until(&format!("workshop.terminalColumns() === {}", fits[1]));

    // ctracer's page.
    run("ctracer", "-- --duration 3 --html bio.html");
    browser.until("document.querySelector('[data-test=\"results\"] a[href$=\"bio.html\"]')");
    let link = browser.eval("document.querySelector('[data-test=\"results\"] a').href");
    browser.visit(link.as_str().unwrap());
    browser.until("document.body.textContent.includes('submit_bio')");
    assert_eq!(wrong(&mut browser), [""; 0]);
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
fn a_trace_line_is_explained() {
    let (folder, server) = alone();
    let mut browser = visit(&server);
    browser.until(&shows("panel", "Welcome"));
    let mut explain = |line: &str| browser.eval(&format!("workshop.explained({})", json!(line)));
    let lines = [
        "io-158       [000] ...21 5.265958: submit_bio() called: 5265923478",
        "          <idle>-0       [001] dNh31     2.291205: bpf_trace_printk: bio_endio() called: 2278141468",
        "   kworker/u4:1-9-8      [010] Dps.     2.293669: bpf_trace_printk: submit_bio(bio=0xff) called: 1",
        " [0] task of mine-7      [000] ?lH.f     2.564785: bpf_trace_printk: ",
    ];
    insta::assert_snapshot!(lines.map(|line| explain(line).as_str().unwrap().to_owned()).join("\n\n\n"));
    for line in ["", "CPU:0 [LOST 7 EVENTS]", "  io-1 [000] .....  1.0: sys_enter: NR 1"] {
        assert!(explain(line).is_null(), "{line:?}");
    }

    // In a terminal, with keys alone.
    click(&mut browser, "new-shell");
    browser.until("document.activeElement.className === 'xterm-helper-textarea'");
    browser.chord("F9", 120, 0);
    browser.until(&shows("panel", "This is not a line of the trace pipe."));
    let file = folder.path().join("lines");
    fs::write(&file, format!("{}\nio-159       [001] d.h21 6.000001: bio_endio() called\nother\n", lines[0]))
        .unwrap();
    browser.call("Input.insertText", json!({ "text": format!("cat {}", file.display()) }));
    browser.chord("Enter", 13, 0);
    browser.until("workshop.terminalText().includes('\\nio-159 ')");
    browser.call(
        "Browser.grantPermissions",
        json!({ "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"] }),
    );
    browser.chord("F9", 120, 0);
    browser.until(&shows("line-text", "in a hard interrupt"));
    click(&mut browser, "line-before");
    browser.until(&shows("line-text", "the task io, thread id 158"));
    browser.chord("Enter", 13, 0);
    browser.until(&shows("line-copy", "Copied"));
    let copied = browser.eval("navigator.clipboard.readText()");
    assert_eq!(copied, browser.eval(&format!("workshop.explained({})", json!(lines[0]))));
    picture(&mut browser, "line.webp");
    browser.press("Escape");
    browser.poll("document.activeElement.className === 'xterm-helper-textarea'");
}

/// A message of more than 1 MiB would end the terminal's socket.
#[test]
fn all_of_a_long_text_is_pasted() {
    let (_folder, server) = alone();
    let mut browser = visit(&server);
    click(&mut browser, "new-shell");
    browser.until("document.activeElement.className === 'xterm-helper-textarea'");
    browser.call(
        "Input.insertText",
        json!({ "text": "stty -echo -icanon; echo $((0+1)) reads; head -c $((3*500000)) | wc -c" }),
    );
    browser.chord("Enter", 13, 0);
    browser.until("workshop.terminalText().includes('1 reads')");
    browser.eval(
        "(data => {
            data.setData('text/plain', 'x'.repeat(1500000));
            document.activeElement.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true }));
        })(new DataTransfer())",
    );
    browser.until("workshop.terminalText().includes('\\n1500000')");
}
