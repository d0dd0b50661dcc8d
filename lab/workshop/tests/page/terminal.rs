//! What runs, and what it prints.

use std::fs;

use serde_json::json;

use crate::common::Server;
use crate::learner::{CONTROL, TERMINAL, open, shows, start, visit};
use crate::{alone, is_at_heading};

#[test]
fn stages_run_in_a_terminal_and_leave_files_to_open() {
    let server = Server::start();
    let mut page = open(&server);
    // Choosing a stage or an exercise in the list opens its lesson, also if one choice follows on another.
    page.choose("open", &["02"]);
    page.until("document.querySelector('#lesson-title').textContent.startsWith('02 ')");
    for names in [["04.1", "02.3"], ["02", "02.2"]] {
        page.choose("open", &names);
        page.poll_frame(&is_at_heading(names[1]));
    }
    page.click_in_lesson("stages/03.html", "lesson-run", " 03");
    page.predict("8");
    page.sees(&[("status", "running")]);
    page.prints("submit_bio() -> bio_endio() time duration: ");
    page.sees(&[("verdict", "The end of this run shows")]);
    page.click("stop-compare");
    page.prints("Durations missing or too short: ");
    // The report decides.
    page.sees(&[
        ("verdict", "You expected something else"),
        ("verdict", "predicted8"),
        ("verdict", "you got0"),
    ]);
    page.sees(&[("verdict", "its own bio")]);
    // Also where the terminals are folded.
    page.click("fold-terminals");
    page.click("to-lines");
    page.focuses(TERMINAL);
    page.until(
        "document.querySelector('#heard').textContent.startsWith('Durations missing or too short: 0')",
    );
    assert!(fs::read_to_string(server.mine().join("answers.txt")).unwrap().starts_with("03/left 2"));
    page.sees(&[("progress", "done, 1 of ")]);
    // The card in the lesson has its answer, too, and one that is answered there counts here.
    let cards = "[...document.querySelectorAll('form.question')]";
    page.poll_frame(&format!("{cards}[0]?.matches('.answered') && !{cards}[1].matches('.answered')"));
    page.eval_in_frame(&format!(
        "(card => {{ card.querySelector(`[value='${{card.dataset.right}}']`).click(); card.requestSubmit() }})({cards}[1])"
    ));
    page.sees(&[("progress", "done, 2 of ")]);
    page.until("!document.querySelector('[data-test=\"stop\"]')");
    // Another stage asks, and what the last one has shown is gone.
    page.click_in_lesson("stages/04.html", "lesson-run", " 04");
    page.until("!document.querySelector('#panel').hidden && document.querySelector('#verdict').hidden");
    page.click("panel-close");
    // Nobody is asked twice.
    page.eval("workshop.scrollUp()");
    page.click_in_lesson("stages/03.html", "lesson-run", " 03");
    page.sees(&[("status", "Run of 03: running")]);
    page.until("document.querySelector('#panel').hidden");
    // Whoever had scrolled up sees the new run's lines.
    page.poll(
        "workshop.terminalText().split('Durations missing')[1]?.includes('submit_bio(') && workshop.terminalIsAtEnd()",
    );
    // A run ends the one of another stage, whose program makes room for its own.
    page.choose("open", &["03"]);
    page.sees(&[("saved", "Read only")]);
    page.click_in_lesson("stages/01.html", "lesson-run", " 01");
    page.click("skip");
    page.sees(&[("status", "Run of 01: running")]);
    page.until(&format!("!{}", shows("status", "Run of 03")));
    page.until("document.querySelector('#open').value === '01'");
    page.click("stop");
    page.until("!document.querySelector('[data-test=\"stop\"]')");
    page.sees(&[("status", "Run of 01")]);

    // A shell of the learner's own, beside it.
    page.shell("echo $((40+2)) from the shell");
    page.sees(&[("terminal-tab", "Shell 1")]);
    page.prints("42 from the shell");
    let tabs = "document.querySelectorAll('[data-test=\"terminal-tab\"]').length";
    assert_eq!(page.eval(tabs), 3);

    // After twenty reloads, it still shows what it did, and the lesson is where it was.
    page.eval_in_frame("scrollTo(0, 700)");
    page.poll("JSON.parse(localStorage.getItem('workshop:lesson-top'))?.top === 700");
    for _ in 0..20 {
        page.reload();
        page.until(&format!("{tabs} === 3"));
        page.poll_frame("scrollY === 700");
    }
    page.eval("document.querySelectorAll('[data-test=\"terminal-tab\"]')[2].click()");
    page.prints("42 from the shell");

    // The lines of the stage that prints the longest ones fit.
    let run = |name: &str, arguments: &str| {
        let body = json!({ "name": name, "arguments": arguments });
        assert_eq!(server.send("POST", "/api/run", &body).status, 200);
    };
    run("07", "--io write -- --lines 40");
    page.prints("blk_mq_start_request() -> block_rq_complete() time duration: ");
    let longest = "Math.max(...workshop.terminalText().split('\\n').filter((line) => line.includes('time duration')).map((line) => line.length))";
    let fits = page.eval(&format!("[{longest}, workshop.terminalColumns()]"));
    assert!(fits[0].as_f64() <= fits[1].as_f64(), "{fits}");
    // The learner has the last word.
    page.click("larger");
    page.until(&format!("workshop.terminalColumns() < {}", fits[1]));
    page.click("smaller");
    page.until(&format!("workshop.terminalColumns() === {}", fits[1]));

    // ctracer's page.
    run("ctracer", "-- --duration 3 --html bio.html");
    page.until("document.querySelector('[data-test=\"results\"] a[href$=\"bio.html\"]')");
    let link = page.eval("document.querySelector('[data-test=\"results\"] a').href");
    page.visit(link.as_str().unwrap());
    page.until("document.body.textContent.includes('submit_bio')");
    page.is_well();
}

#[test]
fn typing_goes_on_while_a_terminal_is_flooded() {
    let server = Server::start();
    let mut page = start(&server, "03.2");
    page.shell("seq -f 'line %.0f of a flood, long enough to be a line of the trace pipe: 0xff1bfd5e41356200' 30000; echo the flood ends");
    page.focus(".cm-content");
    page.chord("a", 65, CONTROL);
    "typed during the flood".chars().for_each(|key| page.press(&key.to_string()));
    page.has_text("typed during the flood");
    page.sees(&[("saved", "Saved")]);
    page.prints("line 30000 of a flood");
    page.prints("\nthe flood ends");
    page.is_well();
}

#[test]
fn a_trace_line_is_explained() {
    let (folder, server) = alone();
    let mut page = visit(&server);
    let mut explain = |line: &str| page.eval(&format!("workshop.explained({})", json!(line)));
    let lines = [
        "io-158       [000] ...21 5.265958: submit_bio() called: 5265923478",
        "          <idle>-0       [001] dNh31     2.291205: bpf_trace_printk: bio_endio() called: 2278141468",
        "   kworker/u4:1-9-8      [010] Dps.     2.293669: bpf_trace_printk: submit_bio(bio=0xff) called: 1",
        " [0] task of mine-7      [000] ?lH.f     2.564785: bpf_trace_printk: ",
    ];
    let first = explain(lines[0]);
    insta::assert_snapshot!(lines.map(|line| explain(line).as_str().unwrap().to_owned()).join("\n\n\n"));
    for line in ["", "CPU:0 [LOST 7 EVENTS]", "  io-1 [000] .....  1.0: sys_enter: NR 1"] {
        assert!(explain(line).is_null(), "{line:?}");
    }

    // In a terminal, with keys alone.
    page.click("new-shell");
    page.focuses(TERMINAL);
    page.chord("F9", 120, 0);
    page.sees(&[("panel", "This is not a line of the trace pipe.")]);
    let file = folder.path().join("lines");
    fs::write(&file, format!("{}\nio-159       [001] d.h21 6.000001: bio_endio() called\nother\n", lines[0]))
        .unwrap();
    page.insert(&format!("cat {}", file.display()));
    page.enter(0);
    page.prints("\nio-159 ");
    let granted = json!({ "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"] });
    page.call("Browser.grantPermissions", granted);
    page.chord("F9", 120, 0);
    page.sees(&[("line-text", "in a hard interrupt")]);
    page.click("line-before");
    page.sees(&[("line-text", "the task io, thread id 158")]);
    page.enter(0);
    page.sees(&[("line-copy", "Copied")]);
    assert_eq!(page.eval("navigator.clipboard.readText()"), first);
    page.press("Escape");
    page.focuses(TERMINAL);
}

/// A message of more than 1 MiB would end the terminal's socket.
#[test]
fn all_of_a_long_text_is_pasted() {
    let (_folder, server) = alone();
    let mut page = visit(&server);
    page.shell("stty -echo -icanon; echo $((0+1)) reads; head -c $((3*500000)) | wc -c");
    page.prints("1 reads");
    page.eval(
        "(data => {
            data.setData('text/plain', 'x'.repeat(1500000));
            document.activeElement.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true }));
        })(new DataTransfer())",
    );
    page.prints("\n1500000");
}
