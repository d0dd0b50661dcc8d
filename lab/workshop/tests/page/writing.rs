//! The editor, and that nothing is lost of what is written there.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::common::Server;
use crate::learner::{CONTROL, SHIFT, start, visit};
use crate::reader::Reader;
use crate::{alone, alone_at_03_1};

/// The BPF source of exercise 03.1 and 03.2.
const SOURCE: &str = "src/bpf/bio_trace.bpf.c";

/// Opens the address of a new start in a second tab, and closes that. The first one has its key then, too.
pub fn open_again(page: &mut Reader, server: &Server) {
    let open = format!("window.open('{}')", server.url);
    page.call("Runtime.evaluate", json!({ "expression": open, "userGesture": true }));
    page.in_other_window(|other| {
        other.sees(&[("progress", "cases done")]);
        assert_eq!(other.eval("location.href.includes('token')"), false);
        // It has no draft any more, which the next tab would find.
        other.until("/^(Saved|Read only)/.test(document.querySelector('#saved').textContent)");
        other.call("Page.close", json!({}));
    });
    page.until("document.querySelector('#banner').hidden");
}

fn is_offline(page: &mut Reader, offline: bool) {
    let network =
        json!({ "offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1 });
    page.call("Network.emulateNetworkConditions", network);
}

#[test]
fn nothing_typed_is_lost() {
    let mut server = Server::start();
    let mut page = start(&server, "03.2");
    let file = server.mine().join("03.2").join(SOURCE);
    let saved = || fs::read_to_string(&file).unwrap();

    // The server is killed while somebody types.
    page.write("/* before */\n");
    page.click("new-shell");
    page.sees(&[("terminal-tab", "Shell 1")]);
    server.end(Signal::SIGKILL);
    page.replace("/* while nobody listened */\n");
    page.sees(&[("banner", "The workshop does not answer")]);
    assert_eq!(saved(), "/* before */\n");
    // Chromium delays sockets after many have failed, so nobody tries to open one until the server is back.
    page.eval(
        "window.sockets = 0; window.WebSocket = class extends WebSocket {
            constructor(...of) { super(...of); window.sockets += 1; } }; 0",
    );
    let asked =
        "performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/api/state')).length";
    page.poll(&format!("{asked} >= 3"));
    server.again();
    page.sees(&[("banner", "Open the address")]);
    open_again(&mut page, &server);
    assert_eq!(page.eval("window.sockets"), 1);
    page.sees(&[("saved", "Saved")]);
    assert_eq!(saved(), "/* while nobody listened */\n");

    // It hangs.
    server.signal(Signal::SIGSTOP);
    page.sees(&[("banner", "The workshop does not answer")]);
    server.signal(Signal::SIGCONT);
    page.until("document.querySelector('#banner').hidden");

    // The browser is offline.
    is_offline(&mut page, true);
    page.replace("/* offline */\n");
    page.sees(&[("banner", "The workshop does not answer")]);
    page.enter(CONTROL | SHIFT);
    page.sees(&[("panel", "are not saved")]);
    is_offline(&mut page, false);
    page.until("document.querySelector('#banner').hidden");
    page.sees(&[("saved", "Saved")]);
    assert_eq!(saved(), "/* offline */\n");
    page.until("document.querySelector('#panel').hidden");

    // A second tab of the browser writes to the file. The first one shows that, unless it has text that is not saved.
    page.call("Runtime.evaluate", json!({ "expression": "window.open('/')", "userGesture": true }));
    page.in_other_window(|other| {
        other.sees(&[("progress", "cases done")]);
        other.click_in_lesson("stages/03.html", "lesson-start", " 03.2");
        other.edits("bio_trace.bpf.c");
        other.write("/* in the second tab */\n");
    });
    page.has_text("/* in the second tab */\n");

    // Somebody else changes the file before this tab could save its text.
    is_offline(&mut page, true);
    page.focus(".cm-content");
    page.insert("/* mine */");
    page.until("workshop.text().includes('/* mine */')");
    fs::write(&file, "/* another editor */\n").unwrap();
    is_offline(&mut page, false);
    page.sees(&[("conflict", "changed this file")]);
    // Whoever compares the two can still choose.
    page.click("compare");
    page.until("document.querySelector('#compared .merge')");
    assert_eq!(saved(), "/* another editor */\n");
    page.click("take-other");
    page.has_text("/* another editor */\n");
    page.until("document.querySelector('#conflict').hidden");

    // Somebody removes the file before this tab could save its text. The text makes it anew.
    is_offline(&mut page, true);
    page.replace("/* again */\n");
    fs::remove_file(&file).unwrap();
    is_offline(&mut page, false);
    page.sees(&[("saved", "Saved")]);
    assert_eq!(saved(), "/* again */\n");
    // Otherwise its tab goes, too.
    fs::remove_file(&file).unwrap();
    page.until("![...document.querySelectorAll('[data-test=\"tab\"]')].some((tab) => tab.dataset.key.endsWith('.c'))");
    page.until("workshop.text().includes('fn main()')");
    page.sees(&[("saved", "Run or Check compiles it")]);
}

#[test]
fn another_kernel_boots_into_the_same_page() {
    let (_folder, mut server, mut page) = alone_at_03_1();
    page.until("document.querySelector('#kernel')?.value === '6.12'");
    page.replace("/* before */\n");
    // An arrow key asks, and moves no focus.
    page.focus("#kernel");
    page.chord("ArrowDown", 40, 0);
    page.sees(&[("panel", "Boot Linux 7.2?")]);
    page.focuses("#kernel");
    // All that is on the screen is saved first.
    page.click("boot");
    assert!(server.wait().success());
    let file = server.mine().join("03.1").join(SOURCE);
    assert_eq!(fs::read_to_string(&file).unwrap(), "/* before */\n");
    page.sees(&[("banner", "Linux 7.2 is booting")]);
    page.until("document.querySelector('#kernel')?.disabled");
    page.replace("/* meanwhile */\n");
    server.again();
    page.until("document.querySelector('#banner').hidden");
    page.until("(k => k?.value === '7.2' && !k.disabled)(document.querySelector('#kernel'))");
    page.hears("Linux 7.2 runs now");
    page.sees(&[("saved", "Saved")]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "/* meanwhile */\n");
    // One that ends for another reason is started again by the learner.
    server.kill();
    page.sees(&[("banner", "start it again")]);
}

/// What is typed after some lines of a program, what is offered then, and the end of what is said of the first choice. A member
/// may be behind others, and behind a macro. Nothing is offered that this kernel lacks, that this kind of program may not call,
/// or that is only a word of a comment.
#[derive(serde::Deserialize)]
struct Completion {
    typed: String,
    offered: Vec<String>,
    #[serde(default)]
    about: String,
}

#[test]
fn the_editor_knows_the_kernel() {
    let server = Server::start();
    let mut page = start(&server, "03.2");
    let names = "[...document.querySelectorAll('.cm-tooltip-autocomplete .cm-completionLabel')].map((o) => o.textContent)";
    let info = "(document.querySelector('.cm-completionInfo')?.textContent ?? '')";
    let own = "struct {\n\t__uint(type, BPF_MAP_TYPE_HASH);\n} my_starts SEC(\".maps\");\n\nu64 my_count;\n\nstruct bio *bio;\n";
    let completions: Vec<Completion> = serde_json::from_str(include_str!("completions.json")).unwrap();
    for Completion { typed, offered, about } in completions {
        page.replace(own);
        let (all, last) = typed.split_at(typed.len() - 1);
        page.insert(all);
        page.until(&format!("workshop.text().endsWith({})", json!(all)));
        page.press(last);
        let first = format!("JSON.stringify({names}.slice(0, {}))", offered.len());
        page.until(&format!("{first} === '{}'", json!(offered)));
        page.until(&format!("{info}.endsWith({})", json!(about)));
    }
    // Not before the list has stood there for a moment, because Enter could be meant for the text.
    page.eval("new Promise((done) => setTimeout(() => done(true), 200))");
    page.enter(0);
    let program = "SEC(\"fentry/submit_bio_wait\")\nint BPF_PROG(submit_bio_wait_entry, struct bio *bio)\n{\n\t\n\treturn 0;\n}";
    page.has_text(&format!("{own}{program}"));
    // What is said of one choice covers no other, also where it does not fit beside the list.
    page.replace("\t\t\t\t\tbpf_get_cu");
    page.press("r");
    page.until(&format!("{info}.includes('bpf_get_current_ancestor_cgroup_id')"));
    page.eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))");
    page.poll(
        "(([list, info]) => info && (info.left >= list.right || info.top >= list.bottom || info.bottom <= list.top))(
            ['.cm-tooltip-autocomplete > ul', '.cm-completionInfo'].map((it) => document.querySelector(it)?.getBoundingClientRect()))",
    );
    page.is_well();
}

#[test]
fn errors_are_marked_while_you_type() {
    let server = Server::start();
    let mut page = start(&server, "03.2");
    let text = server.file("03.2", SOURCE);
    page.replace(&format!("{text}\nint broken(void)\n{{\n\treturn nothing;\n}}\n"));
    page.sees(&[("saved", "does not compile"), ("tab", "bio_trace.bpf.c1")]);
    page.until("document.querySelector('.cm-lintRange-error')?.textContent === 'nothing'");
    // A newer text ends the compilation of the one before, and keys don't wait for either.
    page.replace(&text);
    page.sees(&[("saved", "compiling")]);
    "// while it compiles".chars().for_each(|key| page.press(&key.to_string()));
    page.sees(&[("saved", "Saved, compiles")]);
    page.until("!document.querySelector('.cm-lintRange-error')");
    // What compiles is checked, if the learner wants that.
    page.click("check-on-save");
    page.sees(&[("status", "Check of 03.2")]);
    page.click("stop");
    page.sees(&[("status", "was stopped")]);
    page.write(&format!("{text}\n"));
    page.sees(&[("status", "Check of 03.2: ")]);
    page.is_well();
}

#[test]
fn a_file_from_the_desktop_replaces_the_open_one() {
    let (folder, server) = alone();
    server.post("/api/works/03.1/start");
    let mut page = visit(&server);
    page.sees(&[("panel", "Welcome")]);
    let drop_file = |page: &mut Reader, place: &str, name: &str, bytes: &[u8]| {
        let file = folder.path().join(name);
        fs::write(&file, bytes).unwrap();
        let side =
            |side: &str| format!("document.querySelector('{place}').getBoundingClientRect().{side} + 60");
        let (x, y) = (page.eval(&side("left")), page.eval(&side("top")));
        for kind in ["dragEnter", "dragOver", "drop"] {
            let data = json!({ "items": [], "files": [file], "dragOperationsMask": 1 });
            page.call("Input.dispatchDragEvent", json!({ "type": kind, "x": x, "y": y, "data": data }));
        }
    };
    // A stage is read only.
    drop_file(&mut page, "#text", "mine.c", b"int mine;\n");
    page.sees(&[("panel", "Nothing that you can change is open.")]);
    page.go("03.1");
    page.replace("/* before */\n");
    drop_file(&mut page, "#text", "mine.c", b"int mine;\r\nint other;\r\n");
    page.has_text("int mine;\nint other;\n");
    page.sees(&[("panel", "now has the text of mine.c"), ("saved", "Saved")]);
    assert_eq!(server.file("03.1", SOURCE), "int mine;\nint other;\n");
    page.chord("z", 90, CONTROL);
    page.has_text("/* before */\n");
    // What does not fit changes nothing.
    for (name, bytes, cause) in [
        ("main.rs", &b"fn main() {}"[..], "of another kind"),
        ("mine.c", b"\xff\xfe\0", "is not text"),
        ("large.c", &vec![b' '; (1 << 20) + 1], "is too large"),
    ] {
        drop_file(&mut page, "#text", name, bytes);
        page.sees(&[("panel", cause)]);
    }
    // On a terminal, nothing happens. The lesson has no origin, so there Chromium shows the file in a tab of its own.
    drop_file(&mut page, "#terminals", "mine.c", b"int mine;\n");
    let files = page.call("Target.getTargets", json!({}))["targetInfos"].to_string();
    assert_eq!(files.matches("file:").count(), 0);
    drop_file(&mut page, "#book", "mine.c", b"int mine;\n");
    page.until("workshop.text() === '/* before */\\n' && location.hash === '#03.1'");
}

#[test]
fn nothing_is_red_any_more_once_the_work_is_saved() {
    let (_folder, server, mut page) = alone_at_03_1();
    // What is shown in red, and what somebody who listens has heard last.
    let red = "[...document.querySelectorAll('.bad, #trouble')].filter((it) => it.checkVisibility() && it.textContent).map((it) => it.id).join()";
    assert_eq!(page.eval(red), "");
    // No connection, and then a server that can't save. Neither Run nor Check goes on then.
    for (status, cause) in [(0, "Not saved: the workshop does not answer"), (507, "Not saved: no room")] {
        for runs in [false, true] {
            page.eval(&format!(
                "window.fetch = window.other ??= window.fetch; window.fetch = (path, options) => options?.method !== 'PUT'
                    ? window.other(path, options) : {status} ? Promise.resolve(Response.json({{ cause: 'no room' }}, {{ status: {status} }}))
                    : Promise.reject(new TypeError()); 0"
            ));
            let text = format!("// {status} {runs}\n");
            page.replace(&text);
            page.sees(&[("saved", cause)]);
            if runs {
                page.enter(CONTROL | SHIFT);
                page.sees(&[("panel", "are not saved")]);
            }
            let places = if status > 0 || runs { "panel,trouble,saved" } else { "trouble,saved" };
            page.until(&format!("{red} === '{places}'"));
            page.eval("window.fetch = window.other; 0");
            page.until(&format!("{red} === ''"));
            assert_eq!(page.eval("document.querySelector('#panel').hidden"), true);
            assert_eq!(server.file("03.1", SOURCE), text);
        }
    }
}

/// A tab that closes hears no answer, so its draft stays in the browser.
#[test]
fn what_a_closing_tab_has_saved_is_no_conflict() {
    let (_folder, server, mut page) = alone_at_03_1();
    let file = server.mine().join("03.1").join(SOURCE);
    let draft = "Object.keys(localStorage).some((key) => key.includes(':draft:'))";
    let again = |page: &mut Reader| {
        // The same address with another fragment would load nothing.
        page.visit(&format!("{}/run", server.origin()));
        page.visit(&format!("{}/#03.1", server.origin()));
        page.until("document.title.startsWith('03.1:')");
    };
    for (is_sent, text) in [(true, "/* while it closed */\n"), (false, "/* never sent */\n")] {
        again(&mut page);
        page.eval(&format!(
            "BeforeUnloadEvent.prototype.preventDefault = () => {{}};
            window.fetch = ((fetch) => (path, options) => options?.method === 'PUT'
                ? ({is_sent} && fetch(path, options), new Promise(() => {{}})) : fetch(path, options))(fetch); 0"
        ));
        page.replace(text);
        page.until(draft);
        while is_sent && fs::read_to_string(&file).unwrap() != text {}
        // Another editor goes on with it.
        let other = format!("/* another editor */\n{text}");
        fs::write(&file, &other).unwrap();
        again(&mut page);
        if is_sent {
            page.has_text(&other);
            page.sees(&[("saved", "Saved")]);
            let is_left = format!("{draft} || !document.querySelector('#conflict').hidden");
            assert_eq!(page.eval(&is_left), false);
        } else {
            page.sees(&[("conflict", "changed this file")]);
            assert_eq!(page.eval("workshop.text()"), text);
        }
    }
}
