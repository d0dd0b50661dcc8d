//! A workshop in a guest, whose work the host keeps. As QEMU does, the host here starts the launcher's script for each
//! connection.

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use zip::ZipArchive;

use crate::common::{Response, Server};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../class/kit/keep");

/// The host.
struct Host {
    folder: tempfile::TempDir,
    address: SocketAddr,
}

impl Host {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = Self { folder, address: listener.local_addr().unwrap() };
        let work = host.work();
        fs::create_dir(&work).unwrap();
        host.limit("unlimited");
        thread::spawn(move || {
            for stream in listener.incoming() {
                let [stdin, stdout] =
                    [stream.as_ref().unwrap(); 2].map(|stream| OwnedFd::from(stream.try_clone().unwrap()));
                let words = format!("trap '' XFSZ; ulimit -f $(cat ../limit); exec sh {SCRIPT}");
                let mut shell = Command::new("sh");
                shell.args(["-c", &words]).current_dir(&work).stdin(stdin).stdout(stdout);
                if shell.status().is_err() {
                    return;
                }
            }
        });
        host
    }

    /// The folder of the work.
    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// How many blocks of 512 bytes a file may have there.
    fn limit(&self, blocks: &str) {
        fs::write(self.folder.path().join("limit"), blocks).unwrap();
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

    /// A file that is kept.
    fn file(&self, name: &str) -> Option<String> {
        let mut zip = ZipArchive::new(File::open(self.work().join("work.zip")).ok()?).unwrap();
        let mut text = String::new();
        zip.by_name(name).ok()?.read_to_string(&mut text).unwrap();
        Some(text)
    }

    /// Waits until a file is kept like this, or not at all.
    fn wait_for(&self, name: &str, text: Option<&str>) {
        let deadline = Instant::now() + Duration::from_secs(300);
        while self.file(name).as_deref() != text {
            assert!(Instant::now() < deadline, "{name} is {:?}", self.file(name));
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Everything was killed, and the guest's files are gone. The next guest starts.
fn next_guest(server: &mut Server) {
    server.kill();
    fs::remove_dir_all(server.mine()).unwrap();
    server.again();
}

/// Saves the file that learners write, and returns the answer.
fn save(server: &Server, text: &str) -> Response {
    server.save_over(&server.version("03.2", "src/main.rs"), "03.2", "src/main.rs", text)
}

fn main_rs(server: &Server) -> String {
    fs::read_to_string(server.mine().join("03.2/src/main.rs")).unwrap()
}

#[test]
fn work_outlasts_whatever_is_killed() {
    let host = Host::new();
    let mut server = host.server();
    server.post("/api/works/03.2/start");
    server.post("/api/works/03.2/hint");
    assert_eq!(save(&server, "one\n").status, 200);
    let url = server.url.clone();
    next_guest(&mut server);
    assert_eq!(main_rs(&server), "one\n");
    let state = server.state();
    let exercise = state["exercises"].as_array().unwrap().iter().find(|one| one["id"] == "03.2").unwrap();
    assert_eq!((&exercise["state"], exercise["shown"].as_array().unwrap().len()), (&json!("started"), 1));
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
    assert_eq!(fs::read_dir(host.work()).unwrap().count(), 1);
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
    let others = ["target/debug/large", "03.2/src/.saving-x", ".hidden"];
    for name in others {
        fs::write(server.mine().join(name), "// temporary\n").unwrap();
    }
    host.wait_for("03.2/src/helper.rs", Some("// by another editor\n"));
    assert_eq!(others.map(|name| host.file(name)), [None, None, None]);
    next_guest(&mut server);
    assert_eq!(fs::metadata(&helper).unwrap().permissions().mode() & 0o777, 0o750);
    fs::remove_file(&helper).unwrap();
    host.wait_for("03.2/src/helper.rs", None);
    // What the last programs wrote is stored at the end.
    fs::write(server.mine().join("last.txt"), "the last word").unwrap();
    assert!(server.end(Signal::SIGTERM).success());
    assert_eq!(host.file("last.txt").unwrap(), "the last word");
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing() {
    let host = Host::new();
    let mut server = host.server();
    server.post("/api/works/03.2/start");
    assert_eq!(save(&server, "one\n").status, 200);
    host.limit("1");
    let text = "two\n".repeat(200_000);
    let refused = save(&server, &text);
    refused.is_refused(507, "your laptop has not stored your work");
    assert!(refused.text().contains("File too large"), "{refused:?}");
    assert_eq!(server.state()["unkept"]["cause"], refused.json()["cause"]);
    next_guest(&mut server);
    assert_eq!(main_rs(&server), "one\n");
    // The page tries the same again.
    assert_eq!(save(&server, &text).status, 507);
    host.limit("unlimited");
    assert_eq!(save(&server, &text).status, 200);
    assert_eq!(server.state()["unkept"], Value::Null);
    next_guest(&mut server);
    assert_eq!(main_rs(&server), text);
}

#[test]
fn work_that_cannot_be_read_is_not_replaced() {
    let host = Host::new();
    let path = host.work().join("work.zip");
    let damaged = "no zip".repeat(100);
    fs::write(&path, &damaged).unwrap();
    let mut server = host.server();
    let cause = "cannot read your work of the last session, so your laptop keeps no new work";
    assert_eq!(server.state()["unkept"]["cause"], cause);
    server.post("/api/works/03.2/start");
    assert_eq!(save(&server, "one\n").status, 200);
    // The launcher must not say that the work is kept.
    assert_eq!(server.end(Signal::SIGTERM).code(), Some(1));
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
    assert_eq!(server.state()["unkept"]["evidence"], format!("{LOST}\nlarge.txt (1048577 bytes)"));
    // Together, they are too much. Small files come first, so this concerns no source.
    fs::write(server.mine().join("15"), vec![b'x'; 1 << 20]).unwrap();
    assert_eq!(save(&server, "one\n").status, 200);
    let both = format!("{LOST}\n9 (1048576 bytes)\nlarge.txt (1048577 bytes)");
    assert_eq!(server.state()["unkept"]["evidence"], both);
    assert_eq!(host.file("03.2/src/main.rs").unwrap(), "one\n");
    assert_eq!(server.end(Signal::SIGTERM).code(), Some(1));
}
