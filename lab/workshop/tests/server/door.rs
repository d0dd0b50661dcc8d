//! Whom the server refuses, and what each page may do.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::common::{Server, connect};
use crate::idle;

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
