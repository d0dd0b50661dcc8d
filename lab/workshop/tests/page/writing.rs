//! The editor, and that nothing is lost of what is written there.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::alone;
use crate::common::Server;
use crate::learner::{
    CONTROL, SHIFT, choose, click, click_in_lesson, edits, picture, replace, shows, start, visit, write,
    wrong,
};
use crate::reader::Reader;

/// Opens the address of a new start in a second tab, and closes that. The first one has its key then, too.
pub fn open_again(browser: &mut Reader, server: &Server) {
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
fn another_kernel_boots_into_the_same_page() {
    let (_folder, mut server) = alone();
    server.post("/api/works/03.1/start");
    let mut browser = visit(&server);
    browser.until("document.querySelector('#kernel')?.value === '6.12'");
    browser.eval(&choose("open", "03.1"));
    browser.until("workshop.text().includes('SEC(')");
    replace(&mut browser, "/* before */\n");
    // An arrow key asks, and moves no focus.
    browser.eval("document.querySelector('#kernel').focus()");
    browser.chord("ArrowDown", 40, 0);
    browser.until(&shows("panel", "Boot Linux 7.2?"));
    assert_eq!(browser.eval("document.activeElement.id"), "kernel");
    // All that is on the screen is saved first.
    click(&mut browser, "boot");
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
    assert_eq!(browser.eval("document.querySelector('#heard').textContent"), "Linux 7.2 runs now");
    browser.until(&shows("saved", "Saved"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "/* meanwhile */\n");
    // One that ends for another reason is started again by the learner.
    server.kill();
    browser.until(&shows("banner", "start it again"));
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
    // On a terminal, nothing happens. The lesson has no origin, so there Chromium shows the file in a tab of its own.
    drop_file(&mut browser, "#terminals", "mine.c", b"int mine;\n");
    let files = browser.call("Target.getTargets", json!({}))["targetInfos"].to_string();
    assert_eq!(files.matches("file:").count(), 0);
    drop_file(&mut browser, "#book", "mine.c", b"int mine;\n");
    browser.until("workshop.text() === '/* before */\\n' && location.hash === '#03.1'");
}

#[test]
fn nothing_is_red_any_more_once_the_work_is_saved() {
    let (_folder, server) = alone();
    server.post("/api/works/03.1/start");
    let mut browser = visit(&server);
    browser.until(&shows("panel", "Welcome"));
    browser.eval("location.hash = '#03.1'");
    browser.until("document.title.startsWith('03.1:')");
    // What is shown in red, and what somebody who listens has heard last.
    let red = "[...document.querySelectorAll('.bad, #trouble')].filter((it) => it.checkVisibility() && it.textContent).map((it) => it.id).join()";
    assert_eq!(browser.eval(red), "");
    // No connection, and then a server that can't save. Neither Run nor Check goes on then.
    let refuse = |status: u16| {
        format!(
            "window.fetch = window.other ??= window.fetch; window.fetch = (path, options) => options?.method !== 'PUT'
                ? window.other(path, options) : {status} ? Promise.resolve(Response.json({{ cause: 'no room' }}, {{ status: {status} }}))
                : Promise.reject(new TypeError()); 0"
        )
    };
    for (status, cause) in [(0, "Not saved: the workshop does not answer"), (507, "Not saved: no room")] {
        for runs in [false, true] {
            browser.eval(&refuse(status));
            replace(&mut browser, &format!("// {status} {runs}\n"));
            browser.until(&shows("saved", cause));
            if runs {
                browser.chord("Enter", 13, CONTROL | SHIFT);
                browser.until(&shows("panel", "are not saved"));
            }
            let is_told = status > 0 || runs;
            browser.until(&format!(
                "{red} === '{}'",
                if is_told { "panel,trouble,saved" } else { "trouble,saved" }
            ));
            browser.eval("window.fetch = window.other; 0");
            browser.until(&format!("{red} === ''"));
            assert_eq!(browser.eval("document.querySelector('#panel').hidden"), true);
            assert_eq!(server.file("03.1", "src/bpf/bio_trace.bpf.c"), format!("// {status} {runs}\n"));
        }
    }
}

/// A tab that closes hears no answer, so its draft stays in the browser.
#[test]
fn what_a_closing_tab_has_saved_is_no_conflict() {
    let (_folder, server) = alone();
    server.post("/api/works/03.1/start");
    let mut browser = visit(&server);
    browser.until(&shows("progress", "cases done"));
    let file = server.mine().join("03.1/src/bpf/bio_trace.bpf.c");
    let draft = "Object.keys(localStorage).some((key) => key.includes(':draft:'))";
    let again = |browser: &mut Reader| {
        // The same address with another fragment would load nothing.
        browser.visit(&format!("{}/run", server.origin()));
        browser.visit(&format!("{}/#03.1", server.origin()));
        browser.until("document.title.startsWith('03.1:')");
    };
    for (is_sent, text) in [(true, "/* while it closed */\n"), (false, "/* never sent */\n")] {
        again(&mut browser);
        browser.eval(&format!(
            "BeforeUnloadEvent.prototype.preventDefault = () => {{}};
            window.fetch = ((fetch) => (path, options) => options?.method === 'PUT'
                ? ({is_sent} && fetch(path, options), new Promise(() => {{}})) : fetch(path, options))(fetch); 0"
        ));
        replace(&mut browser, text);
        browser.until(draft);
        while is_sent && fs::read_to_string(&file).unwrap() != text {}
        // Another editor goes on with it.
        let other = format!("/* another editor */\n{text}");
        fs::write(&file, &other).unwrap();
        again(&mut browser);
        if is_sent {
            browser.until(&format!("workshop.text() === {}", json!(other)));
            browser.until(&shows("saved", "Saved"));
            assert_eq!(
                browser.eval(&format!("{draft} || !document.querySelector('#conflict').hidden")),
                false
            );
        } else {
            browser.until(&shows("conflict", "changed this file"));
            assert_eq!(browser.eval("workshop.text()"), text);
        }
    }
}
