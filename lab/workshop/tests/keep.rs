//! A workshop in a guest, whose work the host keeps. As QEMU does, the host here starts the launcher's script for each
//! connection.

#[path = "common/case.rs"]
mod case;
mod common;
#[path = "common/socket.rs"]
mod socket;

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use zip::ZipArchive;

use crate::common::{Response, Server};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../class/kit/keep");

/// Many blocks of 512 bytes.
const ENOUGH: u32 = 1 << 20;

/// The host, with the folder of the work.
struct Host {
    folder: tempfile::TempDir,
    address: SocketAddr,
    /// How many blocks a file may have there.
    room: Arc<AtomicU32>,
    ended: Arc<(Mutex<()>, Condvar)>,
}

impl Host {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (room, ended) = (Arc::new(AtomicU32::new(ENOUGH)), Arc::new((Mutex::new(()), Condvar::new())));
        let (here, limit, event) = (folder.path().to_owned(), room.clone(), ended.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let [stdin, stdout] =
                    [stream.as_ref().unwrap(); 2].map(|stream| OwnedFd::from(stream.try_clone().unwrap()));
                let words =
                    format!("trap '' XFSZ; ulimit -f {}; exec sh {SCRIPT}", limit.load(Ordering::SeqCst));
                let mut shell = Command::new("sh");
                shell.args(["-c", &words]).current_dir(&here).stdin(stdin).stdout(stdout);
                if shell.status().is_err() {
                    return;
                }
                drop(event.0.lock().unwrap());
                event.1.notify_all();
            }
        });
        Self { folder, address, room, ended }
    }

    /// A server whose work this host keeps.
    fn server(&self) -> Server {
        let address = self.address.to_string();
        Server::with(move || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_workshop"));
            command.args(["--driver", "/bin/echo", "--book", "/", "--keep", &address]);
            command
        })
    }

    /// Says this to the script, and returns its answer.
    fn say(&self, words: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(words.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The kept files.
    fn files(&self) -> BTreeMap<String, String> {
        let Ok(file) = File::open(self.folder.path().join("work.zip")) else { return BTreeMap::new() };
        let mut zip = ZipArchive::new(file).unwrap();
        let names: Vec<_> = zip.file_names().map(|name| name.unwrap().into_owned()).collect();
        let mut read = |name: &str| {
            let mut text = String::new();
            zip.by_name(name).unwrap().read_to_string(&mut text).unwrap();
            text
        };
        names.into_iter().map(|name| (name.clone(), read(&name))).collect()
    }

    /// Waits until the kept files are like this.
    fn wait_for(&self, is_it: impl Fn(&BTreeMap<String, String>) -> bool) {
        let mut turn = self.ended.0.lock().unwrap();
        while !is_it(&self.files()) {
            let waited = self.ended.1.wait_timeout(turn, Duration::from_secs(300)).unwrap();
            assert!(!waited.1.timed_out(), "{:?}", self.files());
            turn = waited.0;
        }
    }
}

/// Everything was killed, and the guest's files are gone. The next guest starts.
fn next_guest(server: &mut Server) {
    server.kill();
    fs::remove_dir_all(server.mine()).unwrap();
    server.again();
}

/// Saves the file that was last seen like this.
fn save(server: &Server, text: &str) -> Response {
    let files = server.get("/api/works/03.2/files").json();
    let mut files = files["files"].as_array().unwrap().iter();
    let version = files.find(|file| file["path"] == "src/main.rs").unwrap()["version"].clone();
    let version = format!("If-Match: {}", version.as_str().unwrap());
    server.page("PUT", "/api/works/03.2/file?path=src/main.rs", &version, text.as_bytes())
}

fn main_rs(server: &Server) -> String {
    fs::read_to_string(server.mine().join("03.2/src/main.rs")).unwrap()
}

fn unkept(server: &Server) -> Value {
    server.get("/api/state").json()["unkept"].clone()
}

#[test]
fn work_outlasts_whatever_is_killed() {
    let host = Host::new();
    let mut server = host.server();
    server.post("/api/works/03.2/start");
    server.post("/api/works/03.2/hint");
    assert_eq!(save(&server, "one\n").status, 200);
    let note = |server: &Server, words: &str| {
        assert_eq!(case::make(server, &json!({ "note": { "words": [words] } })).status, 200);
    };
    case::play(&server, 7);
    note(&server, "one\nline");
    let url = server.url.clone();
    next_guest(&mut server);
    assert_eq!(main_rs(&server), "one\n");
    let state = server.get("/api/state").json();
    let exercise = state["exercises"].as_array().unwrap().iter().find(|one| one["id"] == "03.2").unwrap();
    assert_eq!((&exercise["state"], exercise["shown"].as_array().unwrap().len()), (&json!("started"), 1));
    assert_eq!(case::listed(&server)["notes"], json!(["Seed 7. 1:01 of 10:00. one line"]));
    assert_eq!(state["mystery"], Value::Null, "the patient is gone");
    // The port and the folder are the same, the key is not, and nobody else reads it.
    assert_eq!(server.origin(), url.split_once("/#").unwrap().0);
    assert_ne!(server.url, url);
    let secret = fs::metadata(server.mine().join("workshop.json")).unwrap();
    assert_eq!(secret.permissions().mode() & 0o777, 0o600);
    // Killed in the middle of sending, or before it said how much.
    for part in ["put 100\nPK", "put\n", "pu", ""] {
        assert!(!host.say(part).contains("kept"));
    }
    next_guest(&mut server);
    assert_eq!(main_rs(&server), "one\n");
    assert_eq!(fs::read_dir(host.folder.path()).unwrap().count(), 1);
    server.post("/api/works/03.2/start?again=true");
    next_guest(&mut server);
    assert!(main_rs(&server).contains("fn main()"));
}

#[test]
fn what_commands_change_is_stored_too() {
    let host = Host::new();
    let mut server = host.server();
    server.post("/api/works/03.2/start");
    let (helper, temporary) = (server.mine().join("03.2/src/helper.rs"), server.mine().join(".helper"));
    fs::write(&temporary, "// by another editor\n").unwrap();
    fs::set_permissions(&temporary, Permissions::from_mode(0o750)).unwrap();
    fs::rename(&temporary, &helper).unwrap();
    // None of these is work.
    fs::create_dir_all(server.mine().join("target/debug")).unwrap();
    for name in ["target/debug/large", "03.2/src/.saving-x", ".hidden"] {
        fs::write(server.mine().join(name), "// temporary\n").unwrap();
    }
    host.wait_for(|files| {
        files.get("03.2/src/helper.rs").is_some_and(|text| text == "// by another editor\n")
    });
    assert!(!host.files().values().any(|text| text == "// temporary\n"));
    next_guest(&mut server);
    assert_eq!(fs::metadata(&helper).unwrap().permissions().mode() & 0o777, 0o750);
    fs::remove_file(&helper).unwrap();
    host.wait_for(|files| !files.contains_key("03.2/src/helper.rs"));
    // What the last programs wrote is stored at the end.
    fs::write(server.mine().join("last.txt"), "the last word").unwrap();
    assert!(server.end(Signal::SIGTERM).success());
    assert_eq!(host.files()["last.txt"], "the last word");
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing() {
    let host = Host::new();
    let mut server = host.server();
    server.post("/api/works/03.2/start");
    assert_eq!(save(&server, "one\n").status, 200);
    host.room.store(1, Ordering::SeqCst);
    let text = "two\n".repeat(200_000);
    let refused = save(&server, &text);
    assert_eq!(refused.status, 507, "{refused:?}");
    let error = refused.json();
    assert_eq!(error["cause"], "your laptop has not stored your work");
    assert!(error["evidence"].as_str().unwrap().contains("File too large"), "{error}");
    assert_eq!(unkept(&server)["cause"], error["cause"]);
    next_guest(&mut server);
    assert_eq!(main_rs(&server), "one\n");
    // The page tries the same again.
    assert_eq!(save(&server, &text).status, 507);
    host.room.store(ENOUGH, Ordering::SeqCst);
    assert_eq!(save(&server, &text).status, 200);
    assert_eq!(unkept(&server), Value::Null);
    next_guest(&mut server);
    assert_eq!(main_rs(&server), text);
}

#[test]
fn work_that_cannot_be_read_is_not_replaced() {
    let host = Host::new();
    let path = host.folder.path().join("work.zip");
    let damaged = "no zip".repeat(100);
    fs::write(&path, &damaged).unwrap();
    let mut server = host.server();
    let problem = unkept(&server);
    let cause = "cannot read your work of the last session, so your laptop keeps no new work";
    assert_eq!(problem["cause"], cause);
    server.post("/api/works/03.2/start");
    assert_eq!(save(&server, "one\n").status, 200);
    assert_eq!(
        server.end(Signal::SIGTERM).code(),
        Some(1),
        "the launcher must not say that the work is kept"
    );
    assert_eq!(fs::read_to_string(path).unwrap(), damaged);
}

#[test]
fn files_that_are_too_large_are_named() {
    let host = Host::new();
    let mut server = host.server();
    fs::write(server.mine().join("large.txt"), vec![b'x'; (1 << 20) + 1]).unwrap();
    (0..15).for_each(|nth| fs::write(server.mine().join(format!("{nth}")), vec![b'x'; 1 << 20]).unwrap());
    server.post("/api/works/03.2/start");
    const LOST: &str = "too large or too many, and lost when the workshop ends:";
    assert_eq!(unkept(&server)["evidence"], format!("{LOST}\nlarge.txt (1048577 bytes)"));
    // Together, they are too much. Small files come first, so this concerns no source.
    fs::write(server.mine().join("15"), vec![b'x'; 1 << 20]).unwrap();
    assert_eq!(save(&server, "one\n").status, 200);
    let both = format!("{LOST}\n9 (1048576 bytes)\nlarge.txt (1048577 bytes)");
    assert_eq!(unkept(&server)["evidence"], both);
    assert_eq!(host.files()["03.2/src/main.rs"], "one\n");
    assert_eq!(server.end(Signal::SIGTERM).code(), Some(1));
}
