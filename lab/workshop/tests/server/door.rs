//! Whom the server refuses, and what each page may do.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::common::{Server, connect, proof_of};
use crate::idle;

/// Only the page that was opened with the printed address gets in, and no path leads out of its folder.
#[test]
fn each_request_gets_its_status() {
    let (server, folder) = idle();
    server.post("/api/works/03.2/start");
    let (mine, secret) = (server.mine(), folder.path().join("secret.html"));
    fs::write(&secret, "secret").unwrap();
    std::os::unix::fs::symlink(&secret, mine.join("link.html")).unwrap();
    for name in ["open-workshop.html", ".hidden.html", "03.2/page.html"] {
        fs::write(mine.join(name), "no result").unwrap();
    }
    // No request but this test's has the address's key.
    let (port, proof, key) = (server.port().to_string(), server.proof(), server.key());
    let wrong = format!("{}{}", &proof[..63], if proof.ends_with('0') { "1" } else { "0" });
    let upgrade = "Connection: Upgrade, close; Upgrade: websocket; Sec-WebSocket-Version: 13; Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==";
    let results = server.state()["results_key"].as_str().unwrap().to_owned();
    for line in include_str!("requests.txt").lines().filter(|line| line.starts_with(char::is_numeric)) {
        let words = [("UPGRADE", upgrade), ("WRONG", &wrong), ("HOST", "127.0.0.1:PORT"), ("PORT", &port)];
        let words = words.into_iter().chain([("PROOF", &*proof), ("KEY", key), ("RESULTS", &results)]);
        let request = words.fold(line.to_owned(), |line, (word, value)| line.replace(word, value));
        let [status, method, rest] = request.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
        let (path, head) = rest.split_once(' ').unwrap();
        let head = head.trim().replace("; ", "\n");
        let answer = server.ask(&format!("{method} {path} HTTP/1.1\nHost: {head}"), b"");
        assert_eq!(answer.status.to_string(), status, "{line}: {answer:?}");
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
    let (url, origin, key) = (server.url.clone(), server.origin(), server.key().to_owned());
    let first = server.proof();
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
    assert_ne!((server.origin(), server.key()), (origin, &*key));
    assert_eq!(state(&server, &proof_of(&server.run(), &key)), 401);
    drop(taken);
    // It is started again, after it was killed, and after its end: also the key is another one.
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let (origin, key) = (server.origin(), server.key().to_owned());
        server.end(signal);
        server.again();
        assert_eq!(server.origin(), origin);
        assert_ne!(server.key(), key);
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
    let result = format!("/results/{}/bio.html", server.state()["results_key"].as_str().unwrap());
    let policies = ["/", "/book/start.html", &result].map(policy);
    insta::assert_snapshot!(policies.join("\n\n"));
}

#[test]
fn sizes_are_bounded() {
    let (server, _folder) = idle();
    server.post("/api/works/03.2/start");
    let large = "x".repeat((1 << 20) + 1);
    assert_eq!(server.save_over("x", "03.2", "src/main.rs", &large).status, 413);
    assert_eq!(server.page("POST", "/api/work", "", &vec![b'x'; (8 << 20) + 1]).status, 413);
    server
        .page("POST", "/api/work", "", b"no zip")
        .is_refused(400, "this is not a zip that the workshop made");
    let run = json!({ "name": "03", "arguments": "x".repeat(1001) });
    server.send("POST", "/api/run", &run).is_refused(422, "these arguments are too long");
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
