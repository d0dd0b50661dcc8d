//! A workshop in a guest, whose work the host keeps. The host here is `common/host.rs`.

#[path = "common/case.rs"]
mod case;
mod common;
#[path = "common/host.rs"]
mod host;
#[path = "common/socket.rs"]
mod socket;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::common::{Response, Server};
use crate::host::{Host, has};

const MAIN: &str = "/api/works/03.2/file?path=src/main.rs";

/// A server with these arguments, whose standard error goes to a file.
fn server(arguments: &[&str]) -> Server {
    server_with(arguments, None)
}

fn server_with(arguments: &[&str], stderr: Option<PathBuf>) -> Server {
    let arguments: Vec<_> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    Server::with(move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_workshop"));
        command.args(["--driver", "/bin/echo", "--book", "/"]).args(&arguments);
        if let Some(path) = &stderr {
            command.stderr(fs::File::create(path).unwrap());
        }
        command
    })
}

/// A server whose work this host keeps.
fn kept(host: &Host) -> Server {
    kept_at(host, &host.port())
}

fn kept_at(host: &Host, port: &Path) -> Server {
    server(&["--keep", port.to_str().unwrap(), "--tftp", &host.tftp.to_string()])
}

/// The guest is gone, and with it `mine`. The next one starts.
fn next_guest(host: &Host, server: &mut Server) {
    server.kill();

    fs::remove_dir_all(server.mine()).unwrap();
    host.before_start();
    server.again();
}

/// Saves the file that was last seen like this.
fn save(server: &Server, text: &str) -> Response {
    let files = server.get("/api/works/03.2/files").json();
    let mut files = files["files"].as_array().unwrap().iter();
    let version = files.find(|file| file["path"] == "src/main.rs").unwrap()["version"].clone();
    server.page("PUT", MAIN, &format!("If-Match: {}", version.as_str().unwrap()), text.as_bytes())
}

fn main_rs(server: &Server) -> String {
    fs::read_to_string(server.mine().join("03.2/src/main.rs")).unwrap()
}

fn unkept(server: &Server) -> Value {
    server.get("/api/state").json()["unkept"].clone()
}

#[test]
fn work_outlasts_a_killed_server() {
    let host = Host::new();
    let mut server = kept(&host);
    server.post("/api/works/03.2/start");
    server.post("/api/works/03.2/hint");
    assert_eq!(save(&server, "one\n").status, 200);
    let url = server.url.clone();
    next_guest(&host, &mut server);
    assert_eq!(main_rs(&server), "one\n");
    let state = server.get("/api/state").json();
    let exercise = state["exercises"].as_array().unwrap().iter().find(|one| one["id"] == "03.2").unwrap();
    assert_eq!(
        (exercise["state"].as_str(), exercise["shown"].as_array().unwrap().len()),
        (Some("started"), 1)
    );
    // The port and the folder are the same, the key is not, and nobody else reads it.
    assert_eq!(server.origin(), url.split_once("/#").unwrap().0);
    assert_ne!(server.url, url);
    let secret = fs::metadata(server.mine().join("workshop.json")).unwrap();
    assert_eq!(secret.permissions().mode() & 0o777, 0o600);
    // The session after that starts from the snapshot.
    next_guest(&host, &mut server);
    assert_eq!(main_rs(&server), "one\n");
    // Start over.
    server.post("/api/works/03.2/start?again=true");
    next_guest(&host, &mut server);
    assert!(main_rs(&server).contains("fn main()"));
    // Upload.
    assert_eq!(save(&server, "two\n").status, 200);
    let zip = server.get("/api/work.zip").body;
    server.post("/api/works/03.2/start?again=true");
    assert_eq!(server.page("POST", "/api/work?replace=true", "", &zip).status, 200);
    next_guest(&host, &mut server);
    assert_eq!(main_rs(&server), "two\n");
}

#[test]
fn solved_mysteries_and_notes_outlast_the_guest_and_the_patient_does_not() {
    let host = Host::new();
    let mut server = kept(&host);
    let note = |server: &Server, words: &str| {
        assert_eq!(case::make(server, &json!({ "note": { "words": [words] } })).status, 200);
    };
    case::play(&server, 7);
    note(&server, "one\nline");
    note(&server, "80 ms");
    case::make(&server, &json!({ "answer": { "cause": "slow-disk", "place": "a", "number": ["80"] } }));
    next_guest(&host, &mut server);
    let mine = ["Seed 7. 1:01 of 10:00. one line", "Seed 7. 1:01 of 10:00. 80 ms"];
    let listed = case::listed(&server);
    assert_eq!([&listed["done"], &listed["notes"]], [&json!(true), &json!(mine)]);
    assert_eq!(server.get("/api/state").json()["mystery"], Value::Null);
    // The notes of another game come after them.
    case::play(&server, 8);
    note(&server, "80 ms");
    assert_eq!(case::listed(&server)["notes"].as_array().unwrap()[2], "Seed 8. 1:01 of 10:00. 80 ms");
}

#[test]
fn a_plain_file_can_be_the_port() {
    let host = Host::new();
    let mut server = kept_at(&host, &host.file("work.new"));
    server.post("/api/works/03.2/start");
    assert_eq!(save(&server, "one\n").status, 200);
    next_guest(&host, &mut server);
    assert_eq!((main_rs(&server), unkept(&server)), ("one\n".to_owned(), Value::Null));
}

#[test]
fn a_torn_last_entry_is_ignored() {
    let host = Host::new();
    let mut server = kept(&host);
    server.post("/api/works/03.2/start");
    save(&server, "one\n");
    save(&server, "two\n");
    server.kill();
    let work = host.new_work();
    assert!(work[work.len() - 512..].starts_with(b"two\n"));
    fs::write(host.file("work.new"), &work[..work.len() - 510]).unwrap();
    next_guest(&host, &mut server);
    assert_eq!(main_rs(&server), "one\n");
}

#[test]
fn a_session_without_a_whole_snapshot_changes_nothing() {
    let host = Host::new();
    let mut server = kept(&host);
    server.post("/api/works/03.2/start");
    save(&server, "one\n");
    server.kill();
    fs::remove_dir_all(server.mine()).unwrap();
    host.before_start();
    // The first file fits, and the others do not.
    host.leave_room(600);
    server.again();
    assert_eq!(unkept(&server)["cause"], "your laptop has not stored your work");
    assert!(!has(&host.new_work(), ".workshop-complete"));
    host.leave_room(u64::MAX);
    next_guest(&host, &mut server);
    assert_eq!(main_rs(&server), "one\n");
}

#[test]
fn what_commands_change_is_stored_too() {
    let host = Host::new();
    let mut server = kept(&host);
    server.post("/api/works/03.2/start");
    let (helper, temporary) = (server.mine().join("03.2/src/helper.rs"), server.mine().join(".helper"));
    fs::write(&temporary, "// by another editor\n").unwrap();
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o750)).unwrap();
    fs::rename(&temporary, &helper).unwrap();
    fs::write(server.mine().join("done.txt"), "03.2\n").unwrap();
    // None of these is work.
    fs::create_dir_all(server.mine().join("target/debug")).unwrap();
    for name in ["target/debug/large", "03.2/src/.saving-x", ".hidden"] {
        fs::write(server.mine().join(name), "// temporary\n").unwrap();
    }
    host.wait_for("// by another editor\n");
    host.wait_for("done.txt");
    fs::write(server.mine().join("03.2/src/second.rs"), "// the second\n").unwrap();
    host.wait_for("// the second\n");
    next_guest(&host, &mut server);
    assert!(!has(&fs::read(host.file("work")).unwrap(), "// temporary"));
    assert_eq!(fs::read_to_string(server.mine().join("done.txt")).unwrap(), "03.2\n");
    assert_eq!(fs::metadata(&helper).unwrap().permissions().mode() & 0o777, 0o750);
    assert_eq!(fs::read_to_string(&helper).unwrap(), "// by another editor\n");
    fs::remove_file(&helper).unwrap();
    host.wait_for("03.2/src/.wh.helper.rs");
    next_guest(&host, &mut server);
    assert!(!helper.exists() && server.mine().join("03.2/src/second.rs").exists());
}

#[test]
fn what_the_last_programs_wrote_is_stored_at_the_end() {
    let host = Host::new();
    let mut server = kept(&host);
    fs::write(server.mine().join("last.txt"), "the last word").unwrap();
    assert!(server.end(Signal::SIGTERM).success());
    assert!(has(&host.new_work(), "the last word"));
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing() {
    let host = Host::new();
    let mut server = kept(&host);
    server.post("/api/works/03.2/start");
    assert_eq!(save(&server, "one\n").status, 200);
    // The entry's header fits, and a part of its text does not.
    host.leave_room(700);
    let text = "two\n".repeat(200);
    let refused = save(&server, &text);
    assert_eq!(refused.status, 507, "{refused:?}");
    let error = refused.json();
    assert_eq!(error["cause"], "your laptop has not stored your work");
    assert!(error["evidence"].as_str().unwrap().starts_with("its file work.new has "), "{error}");
    assert_eq!(
        error["fix"],
        "free some space on its disk, and keep this tab open: it tries again every few seconds"
    );
    assert_eq!(unkept(&server)["cause"], error["cause"]);
    let full = host.new_work();
    // The page tries the same again.
    host.leave_room(u64::MAX);
    assert_eq!(save(&server, &text).status, 200);
    assert_eq!(unkept(&server), Value::Null);
    next_guest(&host, &mut server);
    assert_eq!(main_rs(&server), text);
    // If it had ended with the full disk:
    fs::write(host.file("work.new"), full).unwrap();
    next_guest(&host, &mut server);
    assert_eq!(main_rs(&server), "one\n");
}

#[test]
fn a_port_that_fails_is_an_error() {
    let host = Host::new();
    let stderr = host.file("stderr");
    let arguments = ["--keep", "/dev/full", "--tftp", &host.tftp.to_string()];
    let mut server = server_with(&arguments, Some(stderr.clone()));
    let problem = unkept(&server);
    assert_eq!(problem["evidence"], "No space left on device (os error 28)");
    let printed = fs::read_to_string(stderr).unwrap();
    assert!(printed.starts_with("warning: your laptop has not stored your work\n"), "{printed}");
    let refused = server.page("POST", "/api/works/03.2/start", "", b"");
    assert_eq!((refused.status, refused.json()), (507, problem));
    // The copy is there nevertheless, and hints work.
    assert_eq!(server.get("/api/works/03.2/files").status, 200);
    assert_eq!(server.post("/api/works/03.2/hint").json()["shown"].as_array().unwrap().len(), 1);
    assert_eq!(server.end(Signal::SIGTERM).code(), Some(1), "the launcher must know");
}

#[test]
fn work_that_cannot_be_read_is_not_replaced() {
    let host = Host::new();
    fs::File::create(host.file("work")).unwrap().set_len(1 << 30).unwrap();
    let server = kept(&host);
    let problem = unkept(&server);
    assert_eq!(
        problem["cause"],
        "cannot read your work of the last session, so your laptop keeps no new work"
    );
    assert!(problem["evidence"].as_str().unwrap().contains("1073741824 bytes"), "{problem}");
    server.post("/api/works/03.2/start");
    assert_eq!(save(&server, "one\n").status, 200);
    assert_eq!(host.new_work(), b"");
}

#[test]
fn files_that_are_too_large_are_named() {
    let host = Host::new();
    let mut server = kept(&host);
    fs::write(server.mine().join("large.txt"), vec![b'x'; (1 << 20) + 1]).unwrap();
    server.post("/api/works/03.2/start");
    let problem = unkept(&server);
    assert_eq!(
        problem["evidence"],
        "too large or too many, and lost when the workshop ends:\nlarge.txt (1048577 bytes)"
    );
    assert_eq!(
        server.end(Signal::SIGTERM).code(),
        Some(1),
        "the launcher must not say that the work is kept"
    );
}

#[test]
fn what_became_too_large_takes_nothing_else_along() {
    let host = Host::new();
    let mut server = kept(&host);
    server.post("/api/works/03.2/start");
    for nth in 0..15 {
        fs::write(server.mine().join(format!("{nth}.txt")), vec![b'x'; 1 << 20]).unwrap();
    }
    assert_eq!(save(&server, "one\n").status, 200);
    assert_eq!(unkept(&server), Value::Null);
    // Together with this, one of the others is too much. The host keeps it as it was.
    fs::write(server.mine().join("small.txt"), vec![b'y'; 1000 << 10]).unwrap();
    assert_eq!(save(&server, "two\n").status, 200);
    assert_ne!(unkept(&server), Value::Null);
    next_guest(&host, &mut server);
    assert_eq!(main_rs(&server), "two\n");
}
