//! What the server answers, and whom it refuses. No browser, no guest: the driver here is a script.

#[path = "common/case.rs"]
mod case;
mod common;
#[path = "common/socket.rs"]
mod socket;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Cursor, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tungstenite::Message;

use crate::common::{Response, Server, connect};
use crate::socket::{socket, type_in, until, until_it};

/// A server with a book of one page, and with this instead of the driver.
fn server(driver: &str) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().join("driver");
    // If we wrote it ourselves, a child that another test starts meanwhile could still have it open, and the kernel
    // executes no file that is open for writing.
    let write = "printf '#!/bin/sh\\n%s\\n' \"$2\" > \"$1\" && chmod 755 \"$1\"";
    let mut shell = Command::new("sh");
    let status = shell.args(["-c", write, "sh"]).arg(&program).arg(driver).status().unwrap();
    assert!(status.success());
    let book = folder.path().join("book");
    fs::create_dir(&book).unwrap();
    fs::write(book.join("start.html"), "<script src=\"x.js\"></script><script>let a;</script>").unwrap();
    let server = Server::with(move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_workshop"));
        command.arg("--driver").arg(&program).arg("--book").arg(&book);
        command
    });
    (server, folder)
}

fn idle() -> (Server, tempfile::TempDir) {
    server("echo \"$@\"")
}

#[test]
fn only_the_page_that_was_opened_with_the_printed_address_gets_in() {
    let (server, _folder) = idle();
    let (port, proof) = (server.port(), server.proof());
    let host = format!("127.0.0.1:{port}");
    let ask = |line: &str, head: &str| server.ask(&format!("{line} HTTP/1.1\n{head}"), b"").status;
    let get = |path: &str, head: &str| ask(&format!("GET {path}"), head);
    // The page has no secrets. No request but this test's has the address's key.
    assert_eq!(
        [get("/", &format!("Host: {host}")), get("/book/start.html", &format!("Host: {host}"))],
        [200, 200]
    );
    let (_, key) = server.url.split_once("#token=").unwrap();
    let wrong = format!("{}{}", &proof[..63], if proof.ends_with('0') { "1" } else { "0" });
    for (path, head) in [
        ("/api/state".to_owned(), format!("Host: {host}")),
        ("/api/state".to_owned(), format!("Host: {host}\nX-Proof: {wrong}")),
        ("/api/state".to_owned(), format!("Host: {host}\nX-Proof: {key}")),
        (
            "/api/state".to_owned(),
            format!("Host: {host}\nCookie: workshop-{port}={proof}\nOrigin: http://{host}"),
        ),
        (format!("/api/state?token={key}"), format!("Host: {host}\nX-Proof: ")),
        (format!("/results/{key}/bio.html"), format!("Host: {host}\nX-Proof: {proof}")),
    ] {
        assert_eq!(get(&path, &head), 401, "{path}: {head}");
    }
    assert_eq!(ask("POST /api/terminals", &format!("Host: {host}\nOrigin: http://{host}")), 401);
    assert_eq!(ask("POST /api/terminals", &format!("Host: {host}\nX-Proof: {proof}")), 200);
    // A forwarded port, or one that browsers don't name.
    for host in [&*host, "localhost:9000", "127.0.0.1"] {
        assert_eq!(get("/api/state", &format!("Host: {host}\nX-Proof: {proof}")), 200, "{host}");
    }
    // A foreign name that leads here.
    assert_eq!(get("/", &format!("Host: evil.example:{port}")), 421);
    // Nobody else gets a socket.
    let upgrade = "Connection: Upgrade, close\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==";
    for protocols in ["", "\nSec-WebSocket-Protocol: workshop", "\nSec-WebSocket-Protocol: workshop, x"] {
        assert_eq!(get("/api/events", &format!("Host: {host}\n{upgrade}{protocols}")), 401, "{protocols}");
    }
}

/// Somebody takes the port and answers all requests of the open page, which proves itself to them for their run and for
/// the one that they have seen.
#[test]
fn what_a_page_gives_to_somebody_on_our_port_is_worth_nothing() {
    let status = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut server = Server::with_kernels(&status.path().join("status"));
    let state = |server: &Server, proof: &str| {
        let head = format!("GET /api/state HTTP/1.1\nHost: 127.0.0.1:{}\nX-Proof: {proof}", server.port());
        server.ask(&head, b"").status
    };
    let (url, first) = (server.url.clone(), server.proof());
    assert_eq!(state(&server, &first), 200);
    // It goes on with another kernel: the page's key stays, and its proof is another one.
    server.boot("7.2");
    server.again();
    let second = server.proof();
    assert_eq!((&server.url, [&first, &second].map(|proof| state(&server, proof))), (&url, [401, 200]));
    // If somebody has taken its port meanwhile, they may let the page prove itself to that run.
    server.boot("6.12");
    let taken = TcpListener::bind(("127.0.0.1", server.port())).unwrap();
    server.again();
    assert_ne!(server.origin(), url.split_once("/#").unwrap().0);
    assert_ne!(server.url.split_once('#').unwrap().1, url.split_once('#').unwrap().1);
    drop(taken);
    // It is started again, after it was killed, and after its end: also the key is another one.
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let before = server.url.clone();
        server.end(signal);
        server.again();
        assert_eq!(server.origin(), before.split_once("/#").unwrap().0);
        assert_ne!(server.url, before);
        assert_eq!(state(&server, &second), 401);
    }
}

#[test]
fn connections_without_a_proof_keep_nobody_out() {
    let (server, _folder) = idle();
    // One of the page's, which waits for its next request.
    let mut known = BufReader::new(connect(server.port()));
    let request = format!("{}\n\n", server.page_head("GET", "/api/state")).replace('\n', "\r\n");
    let ask = |known: &mut BufReader<TcpStream>| {
        known.get_mut().write_all(request.as_bytes()).unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") && known.read_line(&mut head).unwrap() > 0 {}
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        known.read_exact(&mut vec![0; length.parse().unwrap()]).unwrap();
    };
    ask(&mut known);
    let half = |nth: usize| {
        let mut stream = connect(server.port());
        stream.write_all(if nth.is_multiple_of(2) { b"GET / HTTP/1.1\r\nHo" } else { b"" }).unwrap();
        stream
    };
    let mut idle: Vec<_> = (0..300).map(half).collect();
    assert_eq!(server.get("/api/state").status, 200);
    ask(&mut known);
    // The oldest is gone.
    assert_eq!(idle[0].read(&mut [0]).unwrap_or_default(), 0);
    let files = fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().count();
    assert!(files < 150, "{files}");
    // Nobody has a connection for ever. A head that takes too long gets no answer, or one that says so.
    let mut rest = Vec::new();
    idle[299].read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"), "{rest:?}");
}

fn results_key(server: &Server) -> String {
    server.get("/api/state").json()["results_key"].as_str().unwrap().to_owned()
}

#[test]
fn each_page_has_its_policy() {
    let (server, _folder) = idle();
    let policy = |path: &str| {
        let answer = server.get(path);
        assert_eq!(answer.status, 200, "{answer:?}");
        let line = answer.head.lines().find_map(|line| line.strip_prefix("content-security-policy: "));
        line.unwrap_or_default().to_owned()
    };
    fs::write(server.mine().join("bio.html"), "<script>fetch('/api/state')</script>").unwrap();
    let result = format!("/results/{}/bio.html", results_key(&server));
    let policies = ["/", "/book/start.html", &result].map(policy);
    insta::assert_snapshot!(policies.join("\n\n"));
}

#[test]
fn no_path_leads_out_of_its_folder() {
    let (server, folder) = idle();
    server.post("/api/works/03.2/start");
    fs::write(folder.path().join("secret.html"), "secret").unwrap();
    std::os::unix::fs::symlink(folder.path().join("secret.html"), server.mine().join("link.html")).unwrap();
    // The first of these leads to the address with the secret.
    fs::write(server.mine().join("open-workshop.html"), "secret").unwrap();
    fs::write(server.mine().join(".hidden.html"), "hidden").unwrap();
    fs::write(server.mine().join("03.2/page.html"), "not a result").unwrap();
    for path in [
        "/results/KEY/open-workshop.html",
        "/results/KEY/.hidden.html",
        "/results/KEY/03.2%2fpage.html",
        "/book/../secret.html",
        "/book/..%2fsecret.html",
        "/book/%2e%2e/secret.html",
        "/book//etc/passwd",
        "/book/%2fetc%2fpasswd",
        "/results/KEY/..%2fdriver",
        "/results/KEY/link.html",
        "/results/KEY/workshop.json",
        "/api/programs/..%2f03/files",
    ] {
        let answer = server.get(&path.replace("KEY", &results_key(&server)));
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
    }
    for path in ["../03.1/src/main.rs", "/etc/passwd", "src/../src/main.rs", "src/new.sh", "src/a/b.rs", ""] {
        let answer = server.page("PUT", &format!("/api/works/03.2/file?path={path}"), "If-Match: x", b"text");
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
    }
}

#[test]
fn sizes_are_bounded() {
    let (server, _folder) = idle();
    server.post("/api/works/03.2/start");
    let large = vec![b'x'; (1 << 20) + 1];
    let path = "/api/works/03.2/file?path=src/main.rs";
    assert_eq!(server.page("PUT", path, "If-Match: x", &large).status, 413);
    assert_eq!(server.page("POST", "/api/work", "", &vec![b'x'; (8 << 20) + 1]).status, 413);
    // A gigabyte is refused before it is sent.
    let head = format!("{}\nContent-Length: 1073741824", server.page_head("POST", "/api/work"));
    assert_eq!(server.ask(&head, b"").status, 413);
    let answer = server.page("POST", "/api/work", "", b"no zip");
    assert_eq!(
        (answer.status, answer.json()["cause"].clone()),
        (400, json!("this is not a zip that the workshop made"))
    );
    let arguments = json!({ "name": "03", "arguments": "x".repeat(1001) }).to_string();
    let answer = server.page("POST", "/api/run", "", arguments.as_bytes());
    assert_eq!(answer.status, 422, "{answer:?}");
}

fn main_rs(server: &Server, work: &str) -> Value {
    let files = server.get(&format!("/api/works/{work}/files")).json();
    let mut files = files["files"].as_array().unwrap().iter();
    files.find(|file| file["path"] == "src/main.rs").unwrap().clone()
}

#[test]
fn a_change_from_elsewhere_is_not_overwritten() {
    let (server, _folder) = idle();
    server.post("/api/works/03.2/start");
    let file = server.mine().join("03.2/src/main.rs");
    let path = "/api/works/03.2/file?path=src/main.rs";
    let put = |version: &str, text: &str| {
        server.page("PUT", path, &format!("If-Match: {version}"), text.as_bytes())
    };
    let first = main_rs(&server, "03.2")["version"].as_str().unwrap().to_owned();
    let saved = put(&first, "one\n");
    assert_eq!((saved.status, fs::read_to_string(&file).unwrap()), (200, "one\n".to_owned()));
    let second = saved.json()["version"].as_str().unwrap().to_owned();
    // Another tab still has the first version.
    let refused = put(&first, "other\n");
    assert_eq!((refused.status, fs::read_to_string(&file).unwrap()), (409, "one\n".to_owned()));
    assert_eq!(
        (refused.json()["text"].clone(), refused.json()["version"].clone()),
        (json!("one\n"), json!(second))
    );
    let third = put(&second, "two\n");
    assert_eq!(third.status, 200);
    // Nobody else changed it, so the same text again is no conflict.
    assert_eq!(put(&second, "two\n").status, 200);
    // A text that was saved after the version on which it builds is an old one, also if nobody heard that it was saved.
    fs::write(&file, "three\n").unwrap();
    let third = third.json()["version"].as_str().unwrap().to_owned();
    for (version, text, was_saved) in [
        (&first, "two\n", true),
        (&third, "two\n", false),
        (&third, "one\n", false),
        (&first, "new\n", false),
    ] {
        let refused = put(version, text);
        assert_eq!((refused.status, &refused.json()["was_saved"]), (409, &json!(was_saved)), "{text}");
    }
    let names: Vec<_> =
        file.parent().unwrap().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "temporary files are left: {names:?}");
}

#[test]
fn every_exercise_can_be_started_downloaded_and_uploaded() {
    let (server, _folder) = idle();
    let ids = |server: &Server, state: &str| -> BTreeSet<String> {
        let all = server.get("/api/state").json();
        let exercises = all["exercises"].as_array().unwrap().iter();
        exercises
            .filter(|one| one["state"] == state)
            .map(|one| one["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = ids(&server, "new");
    assert!(all.len() >= 18, "{all:?}");
    for id in &all {
        server.post(&format!("/api/works/{id}/start"));
        assert_eq!(server.page("POST", &format!("/api/works/{id}/start"), "", b"").status, 409);
        assert_eq!(server.get(&format!("/api/works/{id}/solution?peek=false")).status, 403);
        let solution = server.get(&format!("/api/works/{id}/solution?peek=true"));
        assert!(!solution.json()["files"].as_array().unwrap().is_empty(), "{solution:?}");
        // Nothing has been changed yet, so both comparisons show the same files.
        let from_mine = server.get(&format!("/api/works/{id}/solution?peek=true&mine=true")).json();
        assert_eq!(from_mine["head"], format!("From your {id} (red) to ours (green)"));
        assert_eq!(from_mine["files"], solution.json()["files"]);
        let hint = server.post(&format!("/api/works/{id}/hint")).json();
        assert_eq!(hint["shown"].as_array().unwrap().len(), 1);
    }
    // A whole stage is started in a terminal, and is work, too.
    server.post("/api/works/03/start");
    let mine = server.mine().join("03.2/src/main.rs");
    let text = fs::read_to_string(&mine).unwrap() + "// mine\n";
    let stage = fs::read_to_string(server.mine().join("03/src/main.rs")).unwrap() + "// my stage\n";
    fs::write(&mine, &text).unwrap();
    fs::write(server.mine().join("03/src/main.rs"), &stage).unwrap();
    let zip = server.get("/api/work.zip");
    assert_eq!(zip.status, 200);
    let mut archive = zip::ZipArchive::new(Cursor::new(&zip.body)).unwrap();
    assert!(archive.by_name("03.1.patch").is_err(), "only what was changed has a patch");
    let made = archive.by_name("03.2.patch").unwrap().last_modified().unwrap();
    assert!(made.year() > 1980, "{made}");
    let (other, _other_folder) = idle();
    let restored = other.page("POST", "/api/work", "", &zip.body);
    assert_eq!(restored.status, 200, "{restored:?}");
    assert_eq!(restored.json()["restored"].as_array().unwrap().len(), all.len() + 1);
    assert_eq!(fs::read_to_string(other.mine().join("03/src/main.rs")).unwrap(), stage);
    assert_eq!(
        (ids(&other, "started"), fs::read_to_string(other.mine().join("03.2/src/main.rs")).unwrap()),
        (all, text)
    );
    let diff = other.get("/api/works/03.2/diff").json();
    assert_eq!(diff["files"].as_array().unwrap().len(), 1);
    assert_eq!(other.get("/api/works/03.2/solution?mine=true").status, 403);
    let from_mine = other.get("/api/works/03.2/solution?peek=true&mine=true").json();
    let mut changes = from_mine["files"].as_array().unwrap().iter();
    let main = changes.find(|change| change["path"] == "src/main.rs").unwrap();
    assert!(main["old"].as_str().unwrap().ends_with("// mine\n"), "{main}");
    // Nothing is replaced without asking.
    let mine = other.mine().join("03.2/src/main.rs");
    fs::write(&mine, "newer").unwrap();
    let refused = other.page("POST", "/api/work?replace=false", "", &zip.body);
    assert_eq!(refused.json()["cause"], "this would replace your files of 03.2");
    assert_eq!((refused.status, fs::read_to_string(&mine).unwrap()), (409, "newer".to_owned()));
    assert_eq!(other.page("POST", "/api/work?replace=true", "", &zip.body).status, 200);
    assert_ne!(fs::read_to_string(&mine).unwrap(), "newer");
    // What a learner added comes along.
    fs::write(server.mine().join("03.2/src/helper.rs"), "// helper\n").unwrap();
    fs::write(server.mine().join("03.2/src/bpf/helper.h"), "/* helper */\n").unwrap();
    let zip = server.get("/api/work.zip");
    assert_eq!(other.page("POST", "/api/work?replace=true", "", &zip.body).status, 200);
    assert_eq!(fs::read_to_string(other.mine().join("03.2/src/helper.rs")).unwrap(), "// helper\n");
    assert_eq!(fs::read_to_string(other.mine().join("03.2/src/bpf/helper.h")).unwrap(), "/* helper */\n");
    // Reset.
    other.post("/api/works/03.2/start?again=true");
    assert_eq!(other.get("/api/works/03.2/diff").json()["files"], json!([]));
}

/// A zip with these files.
fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn work_that_was_zipped_again_is_restored() {
    let (server, _folder) = idle();
    let upload = |files: &[(&str, &[u8])]| server.page("POST", "/api/work?replace=true", "", &zipped(files));
    let latin: &[u8] = b"// Universit\xe4t\n";
    for (nth, files) in [
        // Safari unpacks what it downloads. The Finder then zips the folder, with its own files.
        &[
            ("my-work/03.2/src/main.rs", &b"0"[..]),
            ("my-work/.DS_Store", latin),
            ("my-work/03.2/.DS_Store", latin),
            ("__MACOSX/my-work/03.2/src/._main.rs", latin),
        ][..],
        // Windows, and an old PowerShell.
        &[("03.2\\src\\main.rs", b"1"), ("03.2\\src\\Thumbs.db", latin), ("03.2\\desktop.ini", latin)],
        &[("me/my work/03.2/src/main.rs", b"2"), ("notes.txt", latin), ("03.2.patch", latin)],
        &[("../03.2/src/main.rs", b"3"), ("03.2/../src/main.rs", b"no"), ("03.2/src/bpf/../main.rs", b"no")],
    ]
    .into_iter()
    .enumerate()
    {
        let answer = upload(files);
        assert_eq!((answer.status, &answer.json()["restored"]), (200, &json!(["03.2"])), "{answer:?}");
        let main = fs::read_to_string(server.mine().join("03.2/src/main.rs")).unwrap();
        assert_eq!(main, nth.to_string());
    }
    // What can't be restored is named in few words.
    let name = |nth: u32| format!("03.2/src/f{nth}.rs");
    let names: Vec<_> = (0..17).map(name).collect();
    let million = vec![b'x'; 1 << 20];
    let many: Vec<_> = names.iter().map(|name| (&**name, &million[..])).collect();
    let long = format!("03.2/src/{}.rs", "x".repeat(60_000));
    let large = vec![b'x'; (1 << 20) + 1];
    for (files, cause) in [
        (&[("03.2/src/main.rs", latin)][..], "03.2/src/main.rs is not text in UTF-8"),
        (&many, "this zip is too large"),
        (&[("03.2/src/f.rs", &large)], "03.2/src/f.rs is too large"),
        (&[(&long, latin)], "this is not a zip that the workshop made"),
        (&[("a/03.2/src/a.rs", b""), ("b/03.2/src/a.rs", b"")], "03.2/src/a.rs is in this zip twice"),
    ] {
        let answer = upload(files);
        assert_eq!((answer.status, &answer.json()["cause"]), (400, &json!(cause)));
        assert!(answer.body.len() < 500, "{answer:?}");
    }
}

#[test]
fn a_terminal_stays_when_the_page_goes() {
    let (server, _folder) = idle();
    let id = server.post("/api/terminals").json()["id"].clone();
    let path = format!("/api/terminals/{id}");
    let mut page = socket(&server, &path);
    page.send(Message::Text(r#"{"cols":97,"rows":31}"#.into())).unwrap();
    page.send(Message::Binary("stty size; echo done-$((1+1))\n".into())).unwrap();
    let seen = until(&mut page, "done-2");
    assert!(seen.contains("31 97"), "{seen}");
    drop(page);
    let mut again = socket(&server, &path);
    until(&mut again, "done-2");
    // A second page sees the same, and what comes.
    let mut second = socket(&server, &path);
    until(&mut second, "done-2");
    again.send(Message::Binary("echo more-$((2+2))\n".into())).unwrap();
    until(&mut again, "more-4");
    until(&mut second, "more-4");
    assert_eq!(server.page("DELETE", &path, "", b"").status, 200);
    assert_eq!(server.get("/api/state").json()["terminals"], json!([]));
}

#[test]
fn ctrl_c_discards_what_was_typed_but_nothing_that_was_printed() {
    let (server, _folder) = idle();
    let id = server.post("/api/terminals").json()["id"].clone();
    let mut page = socket(&server, &format!("/api/terminals/{id}"));
    type_in(&mut page, "sh -c 'echo start-$((0+1)); exec sleep 100'\n");
    until(&mut page, "start-1");
    type_in(&mut page, "exit\n");
    until(&mut page, "exit\r\n");
    type_in(&mut page, "unfinished");
    until(&mut page, "unfinished");
    type_in(&mut page, "\u{3}");
    // No echo shall come between the numbers, and some of them have to wait for a server that is slow.
    type_in(
        &mut page,
        "stty -echo; trap '' INT; sh -c 'echo pid-$$; exec seq 0 20000'; echo over-$((1+1))\n",
    );
    let mut seen = until(&mut page, "\n1\r\n");
    let pid = seen.rsplit_once("pid-").unwrap().1.lines().next().unwrap();
    let stat = format!("/proc/{pid}/stat");
    for _ in 0..5 {
        server.signal(Signal::SIGSTOP);
        // Until it has filled the terminal, or written all.
        while fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") R ")) {}
        type_in(&mut page, "\u{3}");
        server.signal(Signal::SIGCONT);
    }
    seen += &until(&mut page, "over-2");
    let lines: BTreeSet<_> = seen.lines().collect();
    let lost: Vec<_> = (1..=20000).filter(|number| !lines.contains(&*number.to_string())).collect();
    assert!(lost.is_empty(), "{} lines are lost, the first of them {}", lost.len(), lost[0]);
}

#[test]
fn neither_ctrl_s_nor_a_stopped_program_outlasts_stop() {
    let (server, _folder) = server(
        "trap 'echo over; exit 7' INT; echo pid-$$.; [ \"$2\" = 01 ] && kill -STOP $$; while :; do echo line; sleep 0.01; done",
    );
    for name in ["03", "01"] {
        let run = act(&server, "/api/run", &json!({ "name": name })).json();
        let mut terminal = socket(&server, &format!("/api/terminals/{}", run["terminal"]));
        let seen = until(&mut terminal, ".\r\n");
        let pid = seen.rsplit_once("pid-").unwrap().1.split_once('.').unwrap().0;
        let stat = format!("/proc/{pid}/stat");
        type_in(&mut terminal, "\u{13}echo");
        match name {
            // It is still there, after the letters that came after Ctrl-S.
            "03" => {
                until(&mut terminal, "echo");
                until(&mut terminal, "line\r\n");
            }
            _ => while !fs::read_to_string(&stat).unwrap().contains(") T ") {},
        }
        server.post(&format!("/api/terminals/{}/interrupt", run["terminal"]));
        until(&mut terminal, "over");
        let is_it = |action: &Value| action["name"] == name;
        assert_eq!(socket::ended(&server, is_it)["status"], 7, "{name}");
    }
}

#[test]
fn what_is_typed_waits_until_the_program_reads_it() {
    let (server, _folder) = server("stty -echo; echo started; read go < go; wc -c; echo over-$((1+1))");
    nix::unistd::mkfifo(&server.mine().join("go"), nix::sys::stat::Mode::S_IRWXU).unwrap_or_default();
    let run = act(&server, "/api/run", &json!({ "name": "03" })).json();
    let mut terminal = socket(&server, &format!("/api/terminals/{}", run["terminal"]));
    until(&mut terminal, "started");
    // As the page sends a long text: in pieces. All of it is more than what any buffer on the way holds.
    let (piece, count) = (("x".repeat(63) + "\r").repeat(1024), 128);
    let typist = terminal.get_ref().try_clone().unwrap();
    let sender = std::thread::spawn({
        let piece = piece.clone();
        move || {
            let mut socket =
                tungstenite::WebSocket::from_raw_socket(typist, tungstenite::protocol::Role::Client, None);
            for _ in 0..count {
                socket.send(Message::Binary(piece.clone().into_bytes().into())).unwrap();
            }
            socket.send(Message::Binary("\u{4}".into())).unwrap();
        }
    });
    fs::write(server.mine().join("go"), "").unwrap();
    let seen = until(&mut terminal, "over-2");
    sender.join().unwrap();
    assert!(seen.contains(&(piece.len() * count).to_string()), "{seen}");
}

#[test]
fn from_five_terminals_on_an_ended_one_makes_room() {
    let (server, _folder) = idle();
    let numbers = |server: &Server| -> Vec<u64> {
        let state = server.get("/api/state").json();
        state["terminals"].as_array().unwrap().iter().map(|one| one["id"].as_u64().unwrap()).collect()
    };
    for _ in 0..5 {
        server.post("/api/terminals");
    }
    server.post("/api/terminals");
    assert_eq!(numbers(&server), [1, 2, 3, 4, 5, 6]);
    let mut third = socket(&server, "/api/terminals/3");
    type_in(&mut third, "exit 7\n");
    while server.get("/api/state").json()["terminals"][2]["status"] != 7 {}
    server.post("/api/terminals");
    assert_eq!(numbers(&server), [1, 2, 4, 5, 6, 7]);
}

#[test]
fn there_are_at_most_eight_terminals() {
    let (server, _folder) = idle();
    for _ in 0..8 {
        server.post("/api/terminals");
    }
    let refused = server.page("POST", "/api/terminals", "", b"");
    assert_eq!(
        (refused.status, refused.json()["cause"].clone()),
        (429, json!("there are 8 terminals already"))
    );
    assert_eq!(server.page("DELETE", "/api/terminals/3", "", b"").status, 200);
    server.post("/api/terminals");
}

/// Waits until the only action has ended, and returns it.
fn ended(server: &Server) -> Value {
    socket::ended(server, |_| true)
}

fn act(server: &Server, path: &str, body: &Value) -> Response {
    server.page("POST", path, "", body.to_string().as_bytes())
}

#[test]
fn actions_are_the_drivers_commands() {
    let (server, _folder) = server(
        "printf '\\033[1merror\\033[0m[E0308]: mismatched types\\n  \\033[34m-->\\033[0m 03.2/src/main.rs:23:18\\n'
         echo \"Error: the kernel's verifier refused a BPF program: it may be NULL\"
         printf '  evidence: in entry, a.bpf.c line 46:\\n  fix:      test it:\\n                if (!it)\\n'
         echo \"driver: $@ in $(basename \"$PWD\")\"; echo 'Error: it is not right'; exit 3",
    );
    assert_eq!(act(&server, "/api/check", &json!({ "name": "03.2" })).status, 404, "it is not started");
    server.post("/api/works/03.2/start");
    let check = act(&server, "/api/check", &json!({ "name": "03.2" }));
    assert_eq!(check.status, 200, "{check:?}");
    let action = ended(&server);
    assert_eq!((&action["status"], &action["cause"]), (&json!(3), &json!("it is not right")));
    assert_eq!(
        action["diagnostics"],
        json!([
            { "path": "src/main.rs", "line": 23, "column": 18, "severity": "error", "message": "mismatched types" },
            { "path": "src/bpf/a.bpf.c", "line": 46, "column": null, "severity": "error",
              "message": "the verifier refuses this: it may be NULL\ntest it:\n    if (!it)" },
        ])
    );
    let mut terminal = socket(&server, &format!("/api/terminals/{}", action["terminal"]));
    let seen = until(&mut terminal, "driver: exercise check 03.2 --verdict /");
    // The file for the verdict is our own affair.
    let plain = seen.replace("\u{1b}[0m", "");
    assert!(plain.contains("$ cargo lab exercise check 03.2\r\n"), "{seen}");
    assert_eq!(action["verdict"], Value::Null);
}

#[test]
fn a_check_writes_its_verdict() {
    let fault = json!({ "expected": "8 lines", "seen": "one", "lines": ["io-7: a"], "before": 0, "printed": 1, "wrong": 0 });
    let right = json!({ "right": "8 lines", "code": "6AG8-001N" });
    for (status, verdict) in [(1, json!({ "wrong": fault, "code": null })), (0, right)] {
        let (server, _folder) = server(&format!("echo '{verdict}' > \"$5\"; exit {status}"));
        server.post("/api/works/03.2/start");
        act(&server, "/api/check", &json!({ "name": "03.2" }));
        let action = ended(&server);
        assert_eq!((&action["status"], &action["verdict"]), (&json!(status), &verdict));
    }
}

#[test]
fn a_newer_compilation_or_a_check_ends_the_one_before() {
    let (server, _folder) = server(
        "[ \"$2\" = compile ] || exit 0; [ -e quick ]; slow=$?; echo $$ > started
         [ $slow = 0 ] || exec sleep 1000
         echo 'Error: it does not compile' >&2
         echo '  evidence: /w/03.2/src/bpf/a.bpf.c:7:2: error: no such thing' >&2; exit 1",
    );
    server.post("/api/works/03.2/start");
    let started = server.mine().join("started");
    nix::unistd::mkfifo(&started, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let compile = || {
        let (port, head) = (server.port(), server.page_head("POST", "/api/works/03.2/compile"));
        let answer = std::thread::spawn(move || common::send(port, &head, b"").json());
        let pid = fs::read_to_string(&started).unwrap();
        (answer, Path::new("/proc").join(pid.trim()))
    };
    let (first, process) = compile();
    fs::write(server.mine().join("quick"), "").unwrap();
    let (second, _) = compile();
    assert_eq!(first.join().unwrap(), json!({ "compiled": null }));
    assert_eq!(
        second.join().unwrap()["compiled"],
        json!({ "compiles": false, "diagnostics": [
            { "path": "src/bpf/a.bpf.c", "line": 7, "column": 2, "severity": "error", "message": "no such thing" },
        ] })
    );
    while process.exists() {}
    fs::remove_file(server.mine().join("quick")).unwrap();
    let (third, process) = compile();
    act(&server, "/api/check", &json!({ "name": "03.2" }));
    assert_eq!(third.join().unwrap(), json!({ "compiled": null }));
    while process.exists() {}
}

#[test]
fn a_run_answers_the_prediction_made_before_it() {
    // Two rounds of `io`: the second one shows that the first is over.
    let line = |pid: u32| format!("io-{pid} [000] ...21 2.310423: submit_bio() called: {pid}");
    let lines: Vec<_> = [(8, 8), (9, 1)].iter().flat_map(|(pid, all)| vec![line(*pid); *all]).collect();
    let (server, _folder) = server(&format!("printf '{}\\n'; exec sleep 1000", lines.join("\\n")));
    let question = |id: &str| {
        let state = server.get("/api/state").json();
        let all = state["questions"].as_array().unwrap();
        all.iter().find(|question| question["id"] == id).unwrap_or_else(|| panic!("{all:?}")).clone()
    };
    let open = json!({ "id": "01/lines", "program": "01", "arguments": "", "tries": null });
    assert_eq!(question("01/lines"), open);
    assert_eq!(question("05/sector")["arguments"], "--io \"write --count 1 --seek 100 /dev/part\"");
    assert_eq!(question("01/order")["arguments"], Value::Null);
    let put = |id: &str, tries: u32| {
        server
            .page("PUT", &format!("/api/answers/{id}"), "", json!({ "tries": tries }).to_string().as_bytes())
            .status
    };
    assert_eq!([put("01/lines", 0), put("01/order", 3), put("01/nothing", 1)], [200, 200, 404]);
    assert_eq!([&question("01/lines")["tries"], &question("01/order")["tries"]], [0, 3]);

    let run = |answer: &str| {
        let prediction = json!({ "id": "01/lines", "answer": answer });
        act(&server, "/api/run", &json!({ "name": "01", "prediction": prediction }))
    };
    assert_eq!(run("many").status, 422);
    let first = run("16").json();
    assert_eq!(first["outcome"]["seen"], Value::Null);
    let mut terminal = socket(&server, &format!("/api/terminals/{}", first["terminal"]));
    until(&mut terminal, &line(9));
    // The run goes on, and its answer is there.
    let outcome = server.get("/api/state").json()["actions"][0]["outcome"].clone();
    let seen = json!({ "value": "8", "lines": vec![line(8); 8] });
    assert_eq!(
        [&outcome["predicted"], &outcome["seen"], &outcome["is_right"], &outcome["right"]],
        [&json!("16"), &seen, &json!(false), &json!("8")]
    );
    assert!(outcome["why"].as_str().unwrap().starts_with("That counts each block twice"), "{outcome}");
    assert_eq!(question("01/lines")["tries"], 2);
    run("8");
    assert_eq!(question("01/lines")["tries"], 1);
    let answers = fs::read_to_string(server.mine().join("answers.txt")).unwrap();
    assert_eq!(answers, "01/lines 1\n01/order 3\n");
}

#[test]
fn a_mystery_is_played_by_its_guest() {
    // The driver ends with its case.
    let (server, _folder) = server(
        "echo \"$@\"; door=${6#*=}; until [ -e $door ]; do sleep 0.1; done; while [ -e $door ]; do sleep 0.1; done",
    );
    assert_eq!(case::make(&server, &json!("look")).status, 404);
    assert_eq!(act(&server, "/api/mysteries/99/start", &json!({})).status, 404);
    let about = server.get("/api/mysteries").json();
    assert_eq!(about["causes"].as_array().unwrap().len(), 15);
    assert_eq!(about["causes"][0]["word"], "slow-disk");
    let new = json!({ "id": "mystery-01", "title": "Half of the volume is slow", "state": "new", "done": false, "notes": [] });
    assert_eq!(case::listed(&server), new);

    let mut events = socket(&server, "/api/events");
    case::play(&server, 7);
    // A page hears of it, and later that only time has passed.
    let mut heard = Vec::new();
    while heard.iter().filter(|event: &&Value| event["kind"] == "alive").count() < 4 {
        let Message::Text(text) = events.read().unwrap() else { continue };
        heard.push(serde_json::from_str(&text).unwrap());
    }
    let of_the_case: Vec<_> = heard
        .iter()
        .map(|event| &event["state"]["mystery"]["played"])
        .filter(|played| played.is_object())
        .collect();
    assert!(matches!(of_the_case[..], [played] if played["complaint"] == "It is slow."), "{heard:?}");
    assert_eq!(case::listed(&server)["state"], "started");
    for number in ["01", "02"] {
        let again = act(&server, &format!("/api/mysteries/{number}/start"), &json!({}));
        assert_eq!((again.status, again.json()["cause"].clone()), (409, json!("a case is open already")));
    }

    let look = case::make(&server, &json!("look"));
    assert_eq!(look.json()["said"], json!([{ "text": "80 ms" }]));
    assert_eq!(server.get("/api/state").json()["mystery"]["now"], json!([{ "text": "80 ms" }]));
    let refused = case::make(&server, &json!({ "solution": { "peek": false } }));
    assert_eq!((refused.status, refused.json()["cause"].clone()), (422, json!("no answer was right yet")));
    let way = case::make(&server, &json!({ "solution": { "peek": true } }));
    assert_eq!(way.json()["said"], server.get("/api/state").json()["mystery"]["way"]);
    assert_eq!(case::make(&server, &json!({ "note": { "words": ["x".repeat(4000)] } })).status, 422);
    assert_eq!(case::make(&server, &json!("win")).status, 422);

    let wrong = json!({ "answer": { "cause": "swap", "place": "a", "number": [] } });
    assert_eq!(case::make(&server, &wrong).json()["said"][0]["graded"][0]["is_right"], false);
    assert_eq!(case::listed(&server)["done"], false);
    let right = json!({ "answer": { "cause": "slow-disk", "place": "a", "number": ["80"] } });
    assert_eq!(case::make(&server, &right).json()["said"][0]["graded"][0]["is_right"], true);
    assert_eq!(case::listed(&server)["done"], true);

    // Whoever closes its terminal ends it.
    let id = server.get("/api/state").json()["actions"][0]["terminal"].clone();
    assert_eq!(server.page("DELETE", &format!("/api/terminals/{id}"), "", b"").status, 200);
    let state = server.get("/api/state").json();
    assert_eq!([&state["mystery"], &state["mysteries"][0]["done"]], [&Value::Null, &json!(true)]);
    assert_eq!(case::make(&server, &json!("look")).status, 404);
}

#[test]
fn an_action_runs_as_soon_as_its_kernel_is_named() {
    let (server, _folder) = server("shift 2; echo \"$@\"; echo shown; exec sleep 1000");
    for (line, phase) in [
        ("Booting Linux 6.12.1 ...", "booting"),
        ("Kernel 6.12.1 without KVM, up after 3.0 s", "running"),
        ("Kernel 6.12.1, this guest's own", "running"),
        ("Kernel 6.12.1 is old", "compiling"),
    ] {
        let arguments = format!("\"{line}\"");
        let action = act(&server, "/api/run", &json!({ "name": "03", "arguments": arguments })).json();
        let mut terminal = socket(&server, &format!("/api/terminals/{}", action["terminal"]));
        until(&mut terminal, &format!("{line}\r\nshown"));
        assert_eq!(server.get("/api/state").json()["actions"][0]["phase"], phase, "{line}");
        server.post(&format!("/api/terminals/{}/interrupt", action["terminal"]));
        ended(&server);
    }
}

#[test]
fn a_second_run_ends_the_first_and_takes_its_terminal() {
    let (server, _folder) = server(
        "echo $$ >> pids; trap 'echo ended; exit 0' INT; echo \"started: $@\"; while :; do sleep 0.1; done",
    );
    let run = json!({ "name": "03", "arguments": "--io 'write --count 4' -- --lines 9" });
    let first = act(&server, "/api/run", &run).json();
    let mut terminal = socket(&server, &format!("/api/terminals/{}", first["terminal"]));
    let seen = until(&mut terminal, "started: run 03 --io write --count 4 -- --lines 9");
    assert!(seen.contains("$ cargo lab run 03 --io 'write --count 4' -- --lines 9"), "{seen}");
    // Two clicks at once are one run after the other.
    let both = [0; 2].map(|_| {
        let (port, head, body) = (server.port(), server.page_head("POST", "/api/run"), run.to_string());
        std::thread::spawn(move || common::send(port, &head, body.as_bytes()))
    });
    let both = both.map(|click| click.join().unwrap());
    assert!(
        both.iter().all(|run| run.status == 200 && run.json()["terminal"] == first["terminal"]),
        "{both:?}"
    );
    let is_last = |seen: &str| {
        let runs: Vec<_> = seen.split("$ cargo lab run").collect();
        runs.len() == 3 && runs[2].contains("started: ")
    };
    let seen = until_it(&mut terminal, is_last);
    assert!(seen.starts_with("ended") || seen.starts_with("^Cended"), "{seen}");
    assert_eq!(server.get("/api/state").json()["actions"].as_array().unwrap().len(), 1);
    // Stop.
    server.post(&format!("/api/terminals/{}/interrupt", first["terminal"]));
    assert_eq!(ended(&server)["status"], 0);
    let pids = fs::read_to_string(server.mine().join("pids")).unwrap();
    assert!(pids.lines().all(|pid| !Path::new("/proc").join(pid).exists()), "{pids}");
}

#[test]
fn a_program_that_reads_nothing_does_not_hold_up_its_output() {
    let (server, _folder) =
        server("trap 'echo ended; exit 0' INT; echo started; while :; do sleep 0.1; done");
    let run = act(&server, "/api/run", &json!({ "name": "03" })).json();
    let mut terminal = socket(&server, &format!("/api/terminals/{}", run["terminal"]));
    until(&mut terminal, "started");
    for _ in 0..200 {
        terminal.send(Message::Binary(vec![b'x'; 4096].into())).unwrap();
    }
    server.post(&format!("/api/terminals/{}/interrupt", run["terminal"]));
    until(&mut terminal, "ended");
}

#[test]
fn only_one_workshop_runs_and_the_next_one_continues() {
    let (mut server, folder) = idle();
    let first = server.url.clone();
    let mine = server.mine();
    let start = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_workshop"));
        command
            .arg("--driver")
            .arg(folder.path().join("driver"))
            .arg("--book")
            .arg(folder.path().join("book"));
        command.arg("--no-browser").args(arguments).env("LAB_MINE", &mine).output().unwrap()
    };
    let second = start(&[]);
    assert!(second.status.success());
    assert_eq!(
        String::from_utf8_lossy(&second.stdout),
        format!("The workshop is running already: {first}\n")
    );
    let (other, _other_folder) = idle();
    let port = other.port().to_string();
    assert!(server.end(Signal::SIGTERM).success());
    let taken = start(&["--port", &port]);
    assert!(!taken.status.success());
    insta::assert_snapshot!(String::from_utf8_lossy(&taken.stderr).replace(&port, "PORT"));
    let blocked = start(&["--port", "6000"]);
    insta::assert_snapshot!(String::from_utf8_lossy(&blocked.stderr));
    // After a start on no port, the next one takes the first port.
    server.again();
    assert_eq!(server.origin(), first.split_once("/#").unwrap().0);
    assert_eq!(fs::metadata(mine.join("workshop.json")).unwrap().permissions().mode() & 0o777, 0o600);
}

/// A program that does not end when it is asked to keeps the server, which answers nobody. The next one waits for it.
#[test]
fn the_next_one_waits_for_one_that_is_ending() {
    let (mut first, _folder) =
        server("trap 'echo asked' HUP; echo started; until [ -e go ]; do sleep 0.1; done");
    let run = act(&first, "/api/run", &json!({ "name": "03" })).json();
    let mut terminal = socket(&first, &format!("/api/terminals/{}", run["terminal"]));
    until(&mut terminal, "started");
    first.signal(Signal::SIGTERM);
    until(&mut terminal, "asked");
    let mut second = Command::new(env!("CARGO_BIN_EXE_workshop"));
    second.args(["--driver", "/bin/false", "--book", "/", "--no-browser"]).env("LAB_MINE", first.mine());
    let mut second = second.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut words = BufReader::new(second.stderr.take().unwrap()).lines();
    let waits = "Waiting for the workshop before, whose programs have yet to end ...";
    assert_eq!(words.next().unwrap().unwrap(), waits);
    fs::write(first.mine().join("go"), "").unwrap();
    assert!(first.wait().success());
    let said = BufReader::new(second.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    assert!(said.starts_with("The workshop: http://127.0.0.1:"), "{said}");
    second.kill().unwrap();
    second.wait().unwrap();
}

/// The file that leads a browser there: other users can see the arguments of a program.
#[test]
fn a_browser_gets_a_private_file() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (mine, opened) = (folder.path().join("mine"), folder.path().join("opened"));
    fs::create_dir(&mine).unwrap();
    // Another file was there before, and something leads to a file of somebody's.
    let (file, other) = (mine.join("open-workshop.html"), folder.path().join("other"));
    fs::write(&other, "theirs").unwrap();
    std::os::unix::fs::symlink(&other, &file).unwrap();
    nix::unistd::mkfifo(&opened, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let browser = folder.path().join("xdg-open");
    let script =
        format!("printf '#!/bin/sh\\necho \"$1\" > {}\\n' > \"$1\" && chmod 755 \"$1\"", opened.display());
    assert!(Command::new("sh").args(["-c", &script, "sh"]).arg(&browser).status().unwrap().success());
    let mut server = Command::new(env!("CARGO_BIN_EXE_workshop"));
    server.args(["--driver", "/bin/false", "--book", "/"]).env("LAB_MINE", &mine);
    server.env("PATH", format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap()));
    let mut server = server.stdout(Stdio::null()).spawn().unwrap();
    assert_eq!(fs::read_to_string(&opened).unwrap().trim_end(), file.to_str().unwrap());
    assert_eq!(fs::symlink_metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&file).unwrap().contains("url=http://127.0.0.1:"));
    assert_eq!(fs::read_to_string(&other).unwrap(), "theirs");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn it_announces_its_address() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let status = folder.path().join("status");
    fs::write(&status, "ready 6.12\n").unwrap();
    let mut server = Server::with({
        let status = status.clone();
        move || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_workshop"));
            command.args(["--driver", "/bin/false", "--book", "/", "--announce"]).arg(&status);
            command
        }
    });
    // The end comes after the announcement.
    server.end(Signal::SIGTERM);
    let url = &server.url;
    assert_eq!(fs::read_to_string(&status).unwrap(), format!("ready 6.12\nurl {url}\n"));
}

#[test]
fn the_concept_test_is_kept_as_in_a_terminal() {
    let (server, _folder) = idle();
    let put = |when: &str, body: &Value| {
        server.page("PUT", &format!("/api/test/{when}"), "", body.to_string().as_bytes())
    };
    let taken = |half: &Value, answer: &str| -> Value {
        let questions = half["questions"].as_array().unwrap();
        let answer = |question: &Value| json!({ "question": question["id"], "answer": answer, "seconds": 7 });
        json!({ "form": half["form"], "answers": questions.iter().map(answer).collect::<Vec<_>>() })
    };
    assert_eq!(server.get("/api/test.tsv").status, 404);
    let before = server.get("/api/test/before").json();
    let questions = before["questions"].as_array().unwrap();
    assert!(questions.len() == 15 && questions.iter().all(|question| question["options"][3].is_string()));
    // Nothing that reveals an answer leaves the server.
    let mut keys: Vec<_> = questions.iter().flat_map(|one| one.as_object().unwrap().keys()).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys, ["id", "options", "text"]);
    for wrong in [
        json!({ "form": "c", "answers": [] }),
        json!({ "form": before["form"], "answers": [] }),
        taken(&before, "E"),
    ] {
        // The page forgets answers that no longer fit, and keeps those that only could not be saved.
        assert_eq!(put("before", &wrong).status, 409);
    }
    let said = put("before", &taken(&before, "B")).json()["said"].clone();
    assert!(said.as_str().unwrap().starts_with("Thank you. Your answers and their times are in "), "{said}");
    assert_eq!(put("before", &taken(&before, "B")).status, 409, "not twice");
    assert_eq!(server.get("/api/test/during").status, 404);
    assert_eq!(server.get("/api/state").json()["tests"], json!(["before"]));
    // The other form comes after the course.
    let after = server.get("/api/test/after").json();
    assert_ne!(after["form"], before["form"]);
    assert_eq!(put("after", &taken(&before, "A")).status, 409);
    let said = put("after", &taken(&after, "-")).json()["said"].clone();
    assert!(
        said.as_str().unwrap().contains("Right: ") && said.as_str().unwrap().contains(", 0 of 15 after"),
        "{said}"
    );
    let export = server.get("/api/test.tsv");
    assert!(export.head.contains("filename=\"concept-test-"), "{}", export.head);
    let answers = questions::concept::import(export.text()).unwrap();
    assert_eq!((answers.len(), answers[0].answer, answers[15].answer, answers[0].seconds), (30, 'B', '-', 7));
}

#[test]
fn it_ends_for_another_kernel() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let status = folder.path().join("status");
    let mut server = Server::with_kernels(&status);
    let boot = |server: &Server, kernel: &str| {
        server.page("POST", "/api/kernel", "", json!({ "kernel": kernel }).to_string().as_bytes())
    };
    let refused = boot(&server, "5.10");
    assert_eq!(
        (refused.status, &refused.json()["evidence"]),
        (404, &json!("the kernels to choose from: 6.12, 7.2"))
    );
    let kernel = |server: &Server| server.get("/api/state").json()["kernel"].clone();
    assert_eq!(kernel(&server), "6.12");
    let url = server.url.clone();
    server.boot("7.2");
    assert!(fs::read_to_string(&status).unwrap().ends_with("\nnext 7.2\n"));
    // The page has the same address.
    server.again();
    assert_eq!((kernel(&server), &server.url), (json!("7.2"), &url));
    let (plain, _folder) = idle();
    assert_eq!((boot(&plain, "7.2").status, kernel(&plain)), (404, Value::Null));
}

#[test]
fn another_address_to_listen_on_is_no_other_host() {
    let server = Server::with(|| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_workshop"));
        command.args(["--driver", "/bin/false", "--book", "/", "--listen", "127.0.0.2"]);
        command
    });
    let port = server.port();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    let status = |host: &str| {
        let mut stream = TcpStream::connect(("127.0.0.2", port)).unwrap();
        write!(stream, "GET / HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(
        ["127.0.0.1", "localhost", "127.0.0.2", "10.0.2.15"].map(status),
        ["200", "200", "421", "421"]
    );
}

#[test]
fn nothing_is_left_when_it_ends() {
    let (mut server, _folder) = server("echo \"pid $$.\"; exec sleep 1000");
    let run = act(&server, "/api/run", &json!({ "name": "03" })).json();
    let mut terminal = socket(&server, &format!("/api/terminals/{}", run["terminal"]));
    let seen = until(&mut terminal, ".\r\n");
    let (_, rest) = seen.split_once("pid ").unwrap();
    let process = format!("/proc/{}", rest.split_once('.').unwrap().0);
    assert!(Path::new(&process).exists());
    assert!(server.end(Signal::SIGINT).success());
    assert!(!Path::new(&process).exists());
}

#[test]
fn the_pages_scripts_are_built() {
    use sha2::{Digest, Sha256};
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    let names = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let sources: BTreeSet<_> = names
        .filter(|name| name.ends_with(".ts") || name == "page.css" || name == "package-lock.json")
        .chain(["../../../docs/present/questions.ts".to_owned()])
        .collect();
    let hash = sources
        .iter()
        .fold(Sha256::new(), |hash, name| hash.chain_update(fs::read(folder.join(name)).unwrap()));
    let hash: String = hash.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    for built in ["workshop.js", "workshop.css"] {
        let text = fs::read_to_string(folder.join(built)).unwrap();
        let first = text.lines().next().unwrap();
        assert!(
            first.contains(&hash),
            "{built} is older than its sources ({hash}): {first}\n  fix: make page"
        );
    }
}
