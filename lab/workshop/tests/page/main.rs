//! Works in the workshop as a learner does, in a real browser, with real guests: `make page-test`.

mod access;
#[path = "../common/mod.rs"]
mod common;
mod firefox;
#[path = "../common/learner.rs"]
mod learner;
#[path = "../../../../docs/tests/browser/reader.rs"]
mod reader;

use std::fs;

use nix::sys::signal::Signal;
use serde_json::json;
use tempfile::TempDir;
use wire::mystery::CAUSES;

use crate::common::Server;
use crate::firefox::Firefox;
use crate::learner::{
    ALT, CONTROL, SHIFT, click, click_in_lesson, does_exercise_03_1, edits, open, picture, predict, replace,
    shows, start, visit, write, wrong,
};
use crate::reader::Reader;

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
fn stages_run_in_a_terminal_and_leave_files_to_open() {
    let server = Server::start();
    let mut browser = open(&server);
    // Choosing a stage or an exercise in the list opens its lesson, also if one choice follows on another.
    let choose = |name: &str| {
        format!(
            "(l => {{ l.value = '{name}'; l.dispatchEvent(new Event('change')) }})(document.querySelector('#open'));"
        )
    };
    browser.eval(&choose("02"));
    browser.until("document.querySelector('#lesson-title').textContent.startsWith('02 ')");
    for names in [["04.1", "02.3"], ["02", "02.2"]] {
        browser.eval(&names.map(choose).concat());
        browser.poll(&format!(
            "[...document.querySelector('#book').contentDocument?.querySelectorAll('h3') ?? []]
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
    assert!(fs::read_to_string(server.mine().join("answers.txt")).unwrap().starts_with("03/left 2"));
    browser.until(&shows("progress", "done, 1 of "));
    // The card in the lesson has its answer, too, and one that is answered there counts here.
    let cards = "[...document.querySelector('#book').contentDocument.querySelectorAll('form.question')]";
    browser.poll(&format!("{cards}[0]?.matches('.answered') && !{cards}[1].matches('.answered')"));
    browser.eval(&format!(
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
    browser.eval(&choose("03"));
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
    let lesson = "document.querySelector('#book').contentWindow";
    browser.eval(&format!("{lesson}.scrollTo(0, 700)"));
    browser.poll("JSON.parse(localStorage.getItem('workshop:lesson-top'))?.top === 700");
    for _ in 0..20 {
        browser.loading(|browser| {
            browser.call("Page.reload", json!({}));
        });
        browser.until(&format!("{tabs} === 3"));
        browser.poll(&format!("{lesson}.scrollY === 700"));
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

/// Opens the address of a new start in a second tab, and closes that. The first one has its key then, too.
fn open_again(browser: &mut Reader, server: &Server) {
    let open = format!("window.open('{}')", server.url);
    browser.call("Runtime.evaluate", json!({ "expression": open, "userGesture": true }));
    browser.in_other_window(|other| {
        other.until(&shows("progress", "cases done"));
        assert_eq!(other.eval("location.href.includes('token')"), false);
        // It has no draft any more, which the next tab would find.
        other.until("/^(Saved|Read only)/.test(document.querySelector('#saved').textContent)");
        other.call("Page.close", json!({}));
    });
}

#[test]
fn nothing_typed_is_lost() {
    let mut server = Server::start();
    let mut browser = start(&server, "03.2");
    let file = server.mine().join("03.2/src/bpf/bio_trace.bpf.c");

    // The server is killed while somebody types.
    write(&mut browser, "/* before */\n");
    click(&mut browser, "new-shell");
    browser.until(&shows("terminal-tab", "Shell 1"));
    server.end(Signal::SIGKILL);
    replace(&mut browser, "/* while nobody listened */\n");
    browser.until(&shows("banner", "The workshop does not answer"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "/* before */\n");
    // Chromium delays sockets after many have failed, so nobody tries to open one until the server is back.
    browser.eval(
        "window.sockets = 0; window.WebSocket = class extends WebSocket {
            constructor(...of) { super(...of); window.sockets += 1; } }; 0",
    );
    let asked =
        "performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/api/state')).length";
    browser.poll(&format!("{asked} >= 3"));
    server.again();
    browser.until(&shows("banner", "Open the address"));
    open_again(&mut browser, &server);
    browser.until("document.querySelector('#banner').hidden");
    assert_eq!(browser.eval("window.sockets"), 1);
    browser.until(&shows("saved", "Saved"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "/* while nobody listened */\n");

    // It hangs.
    server.signal(Signal::SIGSTOP);
    browser.until(&shows("banner", "The workshop does not answer"));
    server.signal(Signal::SIGCONT);
    browser.until("document.querySelector('#banner').hidden");

    // The browser is offline.
    let network = |offline: bool| json!({ "offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1 });
    browser.call("Network.emulateNetworkConditions", network(true));
    replace(&mut browser, "/* offline */\n");
    browser.until(&shows("banner", "The workshop does not answer"));
    browser.chord("Enter", 13, CONTROL | SHIFT);
    browser.until(&shows("panel", "are not saved"));
    browser.call("Network.emulateNetworkConditions", network(false));
    browser.until("document.querySelector('#banner').hidden");
    browser.until(&shows("saved", "Saved"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "/* offline */\n");
    browser.until("document.querySelector('#panel').hidden");

    // A second tab of the browser writes to the file. The first one shows that, unless it has text that is not saved.
    browser.call("Runtime.evaluate", json!({ "expression": "window.open('/')", "userGesture": true }));
    browser.in_other_window(|other| {
        other.until(&shows("progress", "cases done"));
        click_in_lesson(other, "stages/03.html", "lesson-start", " 03.2");
        edits(other, "bio_trace.bpf.c");
        write(other, "/* in the second tab */\n");
    });
    browser.until("workshop.text() === '/* in the second tab */\\n'");

    // Somebody else changes the file before this tab could save its text.
    browser.call("Network.emulateNetworkConditions", network(true));
    browser.eval("document.querySelector('.cm-content').focus()");
    browser.call("Input.insertText", json!({ "text": "/* mine */" }));
    browser.until("workshop.text().includes('/* mine */')");
    fs::write(&file, "/* another editor */\n").unwrap();
    browser.call("Network.emulateNetworkConditions", network(false));
    browser.until(&shows("conflict", "changed this file"));
    // Whoever compares the two can still choose.
    click(&mut browser, "compare");
    browser.until("document.querySelector('#compared .merge')");
    assert_eq!(fs::read_to_string(&file).unwrap(), "/* another editor */\n");
    click(&mut browser, "take-other");
    browser.until("workshop.text() === '/* another editor */\\n'");
    browser.until("document.querySelector('#conflict').hidden");

    // Somebody removes the file before this tab could save its text. The text makes it anew.
    browser.call("Network.emulateNetworkConditions", network(true));
    replace(&mut browser, "/* again */\n");
    fs::remove_file(&file).unwrap();
    browser.call("Network.emulateNetworkConditions", network(false));
    browser.until(&shows("saved", "Saved"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "/* again */\n");
    // Otherwise its tab goes, too.
    fs::remove_file(&file).unwrap();
    browser.until("![...document.querySelectorAll('[data-test=\"tab\"]')].some((tab) => tab.dataset.key.endsWith('.c'))");
    browser.until("workshop.text().includes('fn main()')");
    browser.until(&shows("saved", "Run or Check compiles it"));
}

#[test]
fn the_editor_knows_the_kernel() {
    let server = Server::start();
    let mut browser = start(&server, "03.2");
    let names = "[...document.querySelectorAll('.cm-tooltip-autocomplete .cm-completionLabel')].map((o) => o.textContent)";
    let own = "struct {\n\t__uint(type, BPF_MAP_TYPE_HASH);\n} my_starts SEC(\".maps\");\n\nu64 my_count;\n\nstruct bio *bio;\n";
    // A member may be behind others, and behind a macro. Nothing is offered that this kernel lacks, or that this kind of
    // program may not call.
    for (typed, offered, about) in [
        ("bpf_map_look", &["bpf_map_lookup_elem"][..], ""),
        ("my_", &["my_count", "my_starts"], ""),
        ("bio->bi_vcn", &["bi_vcnt"], ""),
        ("bio->bi_cook", &["bi_cookie"], "Not on 5.10."),
        (
            "SEC(\"kprobe/a\")\nint a(void *ctx)\n{\nbio->bi_vcn",
            &["bi_vcnt"],
            "In a kprobe's program, a pointer of the kernel is read with BPF_CORE_READ().",
        ),
        ("bio->bi_iter.bi_", &["bi_bvec_done", "bi_idx", "bi_sector", "bi_size"], ""),
        ("BPF_CORE_READ(bio, bi_bdev, bd_dis", &["bd_disk"], ""),
        ("SEC(\"kprobe/a\")\nint a(void *ctx)\n{\nbpf_get_func_", &["bpf_get_func_ip"], "Not on 5.10."),
        (
            "SEC(\"fentry/a\")\nint a(void *ctx)\n{\nbpf_get_func_",
            &["bpf_get_func_arg", "bpf_get_func_arg_cnt"],
            "Only in fentry and fexit programs.Not on 5.10.",
        ),
        // A name of the file, but no word of its comments.
        ("int a(void)\n{\nint here_x; /* here_not */\nhere_", &["here_x"], ""),
        ("SEC(\"fentry/submit_bio_w", &["submit_bio_wait"], ""),
    ] {
        replace(&mut browser, own);
        let (all, last) = typed.split_at(typed.len() - 1);
        browser.call("Input.insertText", json!({ "text": all }));
        browser.until(&format!("workshop.text().endsWith({})", json!(all)));
        browser.press(last);
        browser.until(&format!(
            "JSON.stringify({names}.slice(0, {})) === '{}'",
            offered.len(),
            json!(offered)
        ));
        browser.until(&format!(
            "(document.querySelector('.cm-completionInfo')?.textContent ?? '').endsWith({})",
            json!(about)
        ));
    }
    browser.until("document.querySelector('.cm-completionInfo')?.textContent === 'int submit_bio_wait(struct bio *bio)'");
    // Not before the list has stood there for a moment, because Enter could be meant for the text.
    browser.eval("new Promise((done) => setTimeout(() => done(true), 200))");
    browser.chord("Enter", 13, 0);
    let program = "SEC(\"fentry/submit_bio_wait\")\nint BPF_PROG(submit_bio_wait_entry, struct bio *bio)\n{\n\t\n\treturn 0;\n}";
    browser.until(&format!("workshop.text() === {}", json!(format!("{own}{program}"))));
    // What is said of one choice covers no other, also where it does not fit beside the list.
    replace(&mut browser, "\t\t\t\t\tbpf_get_cu");
    browser.press("r");
    browser.until("document.querySelector('.cm-completionInfo')?.textContent.includes('bpf_get_current_ancestor_cgroup_id')");
    browser
        .eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))");
    browser.poll(
        "(([list, info]) => info && (info.left >= list.right || info.top >= list.bottom || info.bottom <= list.top))(
            ['.cm-tooltip-autocomplete > ul', '.cm-completionInfo'].map((it) => document.querySelector(it)?.getBoundingClientRect()))",
    );
    assert_eq!(wrong(&mut browser), [""; 0]);
}

#[test]
fn errors_are_marked_while_you_type() {
    let server = Server::start();
    let mut browser = start(&server, "03.2");
    let text = server.file("03.2", "src/bpf/bio_trace.bpf.c");
    replace(&mut browser, &format!("{text}\nint broken(void)\n{{\n\treturn nothing;\n}}\n"));
    browser.until(&shows("saved", "does not compile"));
    browser.until(&shows("tab", "bio_trace.bpf.c1"));
    browser.until("document.querySelector('.cm-lintRange-error')?.textContent === 'nothing'");
    // A newer text ends the compilation of the one before, and keys don't wait for either.
    browser.eval(
        "window.took = []; addEventListener('keydown', () => {
            const start = performance.now();
            requestAnimationFrame(() => setTimeout(() => took.push(performance.now() - start)));
        }, { capture: true })",
    );
    replace(&mut browser, &text);
    browser.until(&shows("saved", "compiling"));
    for key in "// while it compiles".chars() {
        browser.press(&key.to_string());
    }
    let took = browser.eval("took.map(Math.round)");
    println!("ms per key: {took}");
    browser.until(&shows("saved", "Saved, compiles"));
    browser.until("!document.querySelector('.cm-lintRange-error')");
    // What compiles is checked, if the learner wants that.
    click(&mut browser, "check-on-save");
    browser.until(&shows("status", "Check of 03.2"));
    click(&mut browser, "stop");
    browser.until(&shows("status", "was stopped"));
    write(&mut browser, &format!("{text}\n"));
    browser.until(&shows("status", "Check of 03.2: "));
    assert_eq!(wrong(&mut browser), [""; 0]);
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
    browser.until("document.querySelector('#book').contentDocument.querySelector('.log-view .step.refused')");
    browser.until("!document.querySelector('#run').checkVisibility()");
    click(&mut browser, "check");
    browser.until(&shows("verdict", "clinic-01 is not right yet"));
    click(&mut browser, "verdict-log");
    browser.poll(
        "document.querySelector('#book').contentWindow.location.href.endsWith('/clinic/01.html#step-by-step')",
    );
    write(&mut browser, "int broken;\nint x = nothing;\n");
    browser.until("document.querySelector('.cm-lintRange-error')?.textContent === 'nothing'");
    assert_eq!(
        fs::read_to_string(server.mine().join("clinic-01/latency.bpf.c")).unwrap(),
        "int broken;\nint x = nothing;\n"
    );
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
            // No command in the lesson is cut off.
            let code = "[...document.querySelector('#book').contentDocument.querySelectorAll('main :not(pre) > code')]";
            let cut = "code.getBoundingClientRect().right > code.ownerDocument.documentElement.clientWidth";
            browser.until(&format!("{code}.length && !{code}.some((code) => {cut})"));
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
    click(&mut browser, "look");
    browser.until(&shows("now", "; normal: "));
    fill(&mut browser, "note", "as long as it is");
    click(&mut browser, "add-note");
    browser.until(&shows("notes", "as long as it is"));

    // Nobody sees the solution by accident.
    click(&mut browser, "solution");
    browser.until(&shows("panel", "No answer was right yet"));
    click(&mut browser, "peek");
    // It ends in `CAUSE: WHAT. Place: PLACE or PLACE. Number: WHICH, from LOW to HIGH.`
    browser.until(&shows("way", ". Place: "));
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
    let at = |exercise: &str| {
        format!(
            "location.hash === '#{exercise}' && document.querySelector('#open').value === '{exercise}'
                && [...document.querySelector('#book').contentDocument?.querySelectorAll('h3') ?? []]
                    .some((h3) => h3.textContent.startsWith('{exercise} ') && Math.abs(h3.getBoundingClientRect().top) < 50)"
        )
    };
    browser.eval("location.hash = '#04.1'");
    browser.poll(&at("04.1"));
    // The lesson has a link at each exercise.
    browser.eval("document.querySelector('#book').contentDocument.querySelector('.workshop-link[href=\"/#04.2\"]').click()");
    browser.poll(&at("04.2"));
    browser.eval("history.back()");
    browser.poll(&at("04.1"));
    // A reload leaves the lesson where it is.
    browser.eval("document.querySelector('#book').contentWindow.scrollTo(0, 300)");
    browser.poll("JSON.parse(localStorage.getItem('workshop:lesson-top'))?.top === 300");
    browser.loading(|browser| {
        browser.call("Page.reload", json!({}));
    });
    browser.until(&shows("progress", "cases done"));
    browser.poll("document.querySelector('#book').contentWindow.scrollY === 300");
    browser.eval("location.hash = '#99.9'");
    browser.until(&shows("panel", "Nothing in this course is called 99.9."));
    browser.until("location.hash === '#04.1'");
    // In a new tab.
    browser.call("Runtime.evaluate", json!({ "expression": "window.open('/#03.2')", "userGesture": true }));
    browser.in_other_window(|other| other.poll(&at("03.2")));
    assert_eq!(wrong(&mut browser), [""; 0]);
}

#[test]
fn a_file_from_the_desktop_replaces_the_open_one() {
    let (folder, server) = alone();
    server.post("/api/works/03.1/start");
    let mut browser = visit(&server);
    browser.until(&shows("panel", "Welcome"));
    let drop_file = |browser: &mut Reader, place: &str, name: &str, bytes: &[u8]| {
        let file = folder.path().join(name);
        fs::write(&file, bytes).unwrap();
        let side =
            |side: &str| format!("document.querySelector('{place}').getBoundingClientRect().{side} + 60");
        let (x, y) = (browser.eval(&side("left")), browser.eval(&side("top")));
        for kind in ["dragEnter", "dragOver", "drop"] {
            let data = json!({ "items": [], "files": [file], "dragOperationsMask": 1 });
            browser.call("Input.dispatchDragEvent", json!({ "type": kind, "x": x, "y": y, "data": data }));
        }
    };
    // A stage is read only.
    drop_file(&mut browser, "#text", "mine.c", b"int mine;\n");
    browser.until(&shows("panel", "Nothing that you can change is open."));
    browser.eval("location.hash = '#03.1'");
    browser.until("document.title.startsWith('03.1:')");
    replace(&mut browser, "/* before */\n");
    drop_file(&mut browser, "#text", "mine.c", b"int mine;\r\nint other;\r\n");
    browser.until("workshop.text() === 'int mine;\\nint other;\\n'");
    browser.until(&shows("panel", "now has the text of mine.c"));
    browser.until(&shows("saved", "Saved"));
    assert_eq!(server.file("03.1", "src/bpf/bio_trace.bpf.c"), "int mine;\nint other;\n");
    browser.chord("z", 90, CONTROL);
    browser.until("workshop.text() === '/* before */\\n'");
    // What does not fit changes nothing.
    for (name, bytes, cause) in [
        ("main.rs", &b"fn main() {}"[..], "of another kind"),
        ("mine.c", b"\xff\xfe\0", "is not text"),
        ("large.c", &vec![b' '; (1 << 20) + 1], "is too large"),
    ] {
        drop_file(&mut browser, "#text", name, bytes);
        browser.until(&shows("panel", cause));
    }
    // Anywhere else, nothing happens.
    for place in ["#terminals", "#lesson .bar", "#book"] {
        drop_file(&mut browser, place, "mine.c", b"int mine;\n");
    }
    browser.until("workshop.text() === '/* before */\\n' && location.hash === '#03.1'");
    assert_eq!(
        browser.call("Target.getTargets", json!({}))["targetInfos"].to_string().matches("file:").count(),
        0
    );
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
fn another_kernel_boots_into_the_same_page() {
    let (_folder, mut server) = alone();
    server.post("/api/works/03.1/start");
    let mut browser = visit(&server);
    let choose = |id: &str, name: &str| {
        format!(
            "(l => {{ l.value = '{name}'; l.dispatchEvent(new Event('change')) }})(document.querySelector('#{id}'))"
        )
    };
    browser.until("document.querySelector('#kernel')?.value === '6.12'");
    browser.eval(&choose("open", "03.1"));
    browser.until("workshop.text().includes('SEC(')");
    replace(&mut browser, "/* before */\n");
    // All that is on the screen is saved first.
    browser.eval(&choose("kernel", "7.2"));
    assert!(server.wait().success());
    let file = server.mine().join("03.1/src/bpf/bio_trace.bpf.c");
    assert_eq!(fs::read_to_string(&file).unwrap(), "/* before */\n");
    browser.until(&shows("banner", "Linux 7.2 is booting"));
    picture(&mut browser, "booting.webp");
    browser.until("document.querySelector('#kernel')?.disabled");
    replace(&mut browser, "/* meanwhile */\n");
    server.again();
    browser.until("document.querySelector('#banner').hidden");
    browser.until("(k => k?.value === '7.2' && !k.disabled)(document.querySelector('#kernel'))");
    browser.until(&shows("saved", "Saved"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "/* meanwhile */\n");
    // One that ends for another reason is started again by the learner.
    server.kill();
    browser.until(&shows("banner", "start it again"));
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
