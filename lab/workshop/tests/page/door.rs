//! Who else is on this machine: a page at another port, somebody who takes ours, and a port that is forwarded to it.

use std::io::{Read, Write, copy};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tungstenite::WebSocket;
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::Role;

use crate::alone;
use crate::common::{Server, proof_of};
use crate::learner::{click, shows, visit};
use crate::reader::Reader;
use crate::writing::open_again;

/// Another user's server, which keeps what it gets.
struct Other {
    port: u16,
    got: Arc<(Mutex<String>, Condvar)>,
    answers: JoinHandle<()>,
}

impl Other {
    /// At this port, or at any, with these answers.
    fn new(port: u16, answer: impl Fn(&str) -> (u16, String) + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let (port, got) = (listener.local_addr().unwrap().port(), Arc::<(Mutex<String>, Condvar)>::default());
        let keeps = got.clone();
        let answers = thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                // A browser also opens connections that it may need later.
                stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                    head.push(byte[0]);
                }
                if !head.ends_with(b"\r\n\r\n") {
                    continue;
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                if head.starts_with("GET /leave ") {
                    return;
                }
                let (status, body) = answer(head.split(' ').nth(1).unwrap_or_default());
                let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
                let socket = key.map(|key| {
                    let accept = derive_accept_key(key.as_bytes());
                    format!("Upgrade: websocket\r\nSec-WebSocket-Protocol: workshop\r\nSec-WebSocket-Accept: {accept}")
                });
                let plain = format!("Content-Type: text/html\r\nContent-Length: {}", body.len());
                let (status, more) = socket.map_or((status, plain), |more| (101, more));
                let connection = if status == 101 { "Upgrade" } else { "close" };
                let _ = write!(stream, "HTTP/1.1 {status} X\r\nConnection: {connection}\r\n{more}\r\n\r\n");
                let _ = match status {
                    101 => WebSocket::from_raw_socket(stream, Role::Server, None).send(body.into()).is_ok(),
                    _ => stream.write_all(body.as_bytes()).is_ok(),
                };
                *keeps.0.lock().unwrap() += &head;
                keeps.1.notify_all();
            }
        });
        Self { port, got, answers }
    }

    fn wait_for(&self, text: &str) {
        let lacks = |got: &mut String| !got.contains(text);
        let limit = Duration::from_secs(300);
        let (got, ended) = self.got.1.wait_timeout_while(self.got.0.lock().unwrap(), limit, lacks).unwrap();
        assert!(!ended.timed_out(), "{text} never comes: {got}");
    }

    fn leave(self) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(b"GET /leave HTTP/1.1\r\n\r\n").unwrap();
        self.answers.join().unwrap();
    }
}

fn key(server: &Server) -> String {
    server.url.split_once("#token=").unwrap().1.to_owned()
}

fn run(server: &Server) -> String {
    server.ask(&format!("GET /run HTTP/1.1\nHost: 127.0.0.1:{}", server.port()), b"").text().to_owned()
}

/// How the server answers to somebody who wants a shell with this proof.
fn shell(server: &Server, proof: &str) -> u16 {
    let head = format!("POST /api/terminals HTTP/1.1\nHost: 127.0.0.1:{}\nX-Proof: {proof}", server.port());
    server.ask(&head, b"").status
}

#[test]
fn neither_another_port_nor_whoever_takes_ours_gets_a_shell() {
    let (_folder, mut server) = alone();
    let mut browser = visit(&server);
    browser.until(&shows("progress", "cases done"));

    // The learner opens a page of somebody's at another port of this address.
    let page = "<script>
        const ask = (path, more) => fetch(ORIGIN + path, { credentials: 'include', ...more }).then((it) => it.text());
        const socket = (protocols) => new Promise((done, fail) => {
            const socket = new WebSocket(ORIGIN.replace('http', 'ws') + '/api/events', protocols);
            Object.assign(socket, { onopen: done, onerror: fail });
        });
        const frame = Object.assign(document.createElement('iframe'), { src: ORIGIN + '/' });
        const inside = new Promise((done) => { frame.onload = done; }).then(() => frame.contentWindow.localStorage.length);
        document.documentElement.append(frame);
        const all = { run: ask('/run'), state: ask('/api/state'), shell: ask('/api/terminals', { method: 'POST' }), inside,
            blind: ask('/api/terminals', { method: 'POST', mode: 'no-cors' }), socket: socket([]),
            known: socket(['workshop', '0'.repeat(64)]), own: Promise.resolve(document.cookie + localStorage.length) };
        const told = Object.entries(all).map(([name, it]) => it.then((it) => [name, String(it)], () => [name, 'no']));
        Promise.all(told).then((told) => { window.told = Object.fromEntries(told); document.title = 'told'; });
        </script>"
        .replace("ORIGIN", &json!(server.origin()).to_string());
    let other = Other::new(0, move |_| (200, page.clone()));
    browser.visit(&format!("http://127.0.0.1:{}/", other.port));
    browser.until("document.title === 'told'");
    let nothing = json!({ "run": "no", "state": "no", "shell": "no", "inside": "no", "blind": "no", "socket": "no",
        "known": "no", "own": "0" });
    assert_eq!(browser.eval("window.told"), nothing);
    assert_eq!(server.get("/api/state").json()["terminals"], Value::Array(Vec::new()));
    let got = other.got.0.lock().unwrap().to_lowercase();
    assert!(!got.contains("cookie:") && !got.contains(&key(&server)) && !got.contains("proof"), "{got}");
    browser.visit(&server.origin());
    browser.until(&shows("progress", "cases done"));

    // The server ends, and somebody takes its port. What the open page gives them is worth nothing after that.
    let (old_key, old_run, port) = (key(&server), run(&server), server.port());
    let old = server.proof();
    server.end(Signal::SIGKILL);
    let answer = old_run.clone();
    let other = Other::new(port, move |path| (if path == "/run" { 200 } else { 401 }, answer.clone()));
    other.wait_for(&old);
    other.leave();
    server.again();
    assert_eq!(server.port(), port);
    assert_eq!([old, proof_of(&run(&server), &old_key)].map(|proof| shell(&server, &proof)), [401, 401]);
    assert_eq!(shell(&server, &server.proof()), 200);
    browser.until(&shows("banner", "Open the address"));
    open_again(&mut browser, &server);
    browser.until("document.querySelector('#banner').hidden");

    // It ends for another kernel, whose server would have the same key. Somebody takes the port before that one, and lets
    // the page prove itself to it.
    let old_key = key(&server);
    server.boot("7.2");
    let named = Arc::new(Mutex::new(String::new()));
    let answer = named.clone();
    let other = Other::new(port, move |path| match path {
        "/run" => (200, answer.lock().unwrap().clone()),
        _ => (401, String::new()),
    });
    server.again();
    assert_ne!(server.port(), port);
    *named.lock().unwrap() = run(&server);
    let proof = proof_of(&run(&server), &old_key);
    other.wait_for(&proof);
    assert_eq!(shell(&server, &proof), 401);
    other.leave();
}

/// Whoever answers at the port can't prove to the page that it is the workshop, and the lesson's scripts have no origin.
#[test]
fn whoever_takes_our_port_finds_no_key_in_the_open_tab() {
    let (_folder, mut server) = alone();
    let mut browser = visit(&server);
    browser.until(&shows("progress", "cases done"));
    let (port, run, asked) =
        (server.port(), run(&server), server.get("/api/state").json()["questions"].clone());
    let cards = asked.as_array().unwrap().iter().filter(|one| one["program"] == "01").map(|one| {
        format!(
            "<form class=question data-name={}>theirs<iframe src=/ onload=alert()></iframe></form>",
            one["id"]
        )
    });
    let lesson = "<title>theirs</title><script>
        const told = {};
        const tries = {
            storage: () => localStorage.length, page: () => parent.localStorage.length, window: () => open('/').name,
            top: () => { top.location = '/'; return 'yes'; }, worker: () => navigator.serviceWorker.register('/w.js') && 'yes',
        };
        for (const [name, act] of Object.entries(tries)) try { told[name] = act(); } catch { told[name] = 'no'; }
        for (const message of [{ away: location.origin }, { exercise: 'token=theirs' }, { path: 'http://127.0.0.1/', ready: '' }])
            parent.postMessage(message, '*');
        fetch(`/told/${JSON.stringify(told).replaceAll('\"', '')}`);
        </script>"
        .to_owned()
        + &cards.collect::<String>();
    server.end(Signal::SIGKILL);
    let other = Other::new(port, move |path| match path {
        "/run" => (200, run.clone()),
        "/" => (200, "<script>fetch('/stolen/' + localStorage.length)</script>".to_owned()),
        _ if path.starts_with("/api/events") => {
            (200, r#"{"kind":"state","state":{"folder":"theirs"}}"#.to_owned())
        }
        _ if path.starts_with("/book/") => (200, lesson.clone()),
        _ => (200, "{}".to_owned()),
    });
    browser.eval("document.querySelector('#lesson-start').click()");
    other.wait_for("GET /told/");
    browser.until(&shows("banner", "This tab is not connected"));
    // The card of a question is theirs, too.
    browser.eval("document.querySelector('#run').click()");
    browser.until(&shows("panel", "theirs"));
    assert_eq!(browser.eval("document.querySelectorAll('#panel iframe').length"), 0);
    browser.poll_frame("document.title === 'theirs'");
    let got = other.got.0.lock().unwrap().clone();
    let told = "/told/%7Bstorage:no,page:no,window:no,top:no,worker:no%7D";
    assert!(got.contains(told) && !got.contains("/stolen"), "{got}");
    let tabs = browser.call("Target.getTargets", json!({}))["targetInfos"].to_string();
    assert_eq!(tabs.matches(&server.origin()).count(), 1, "{tabs}");
    assert_eq!(browser.eval("localStorage.getItem('workshop:key')"), json!(key(&server)).to_string());
    // Once the workshop is back, nothing of them is left.
    other.leave();
    server.again();
    open_again(&mut browser, &server);
    browser.until("document.querySelector('#banner').hidden");
    browser.poll_frame("document.title !== 'theirs'");
}

/// Forwards a port to this one, as `ssh -L` does.
fn forward(to: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for here in listener.incoming().flatten() {
            let Ok(there) = TcpStream::connect(("127.0.0.1", to)) else { continue };
            for (from, to) in [(&here, &there), (&there, &here)] {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                thread::spawn(move || {
                    let _ = copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    port
}

#[test]
fn behind_a_forwarded_port_the_banner_says_what_to_open_and_covers_no_toolbar() {
    let (_folder, server) = alone();
    let port = forward(server.port());
    let mut browser = Reader::start();
    browser.visit(&format!("http://localhost:{port}/"));
    let way =
        format!("forwarded its port to {port}, open http://localhost:{port}/ and after it what the printed ");
    browser.until(&shows("banner", &way));
    for (width, height) in [(1280, 720), (768, 844), (390, 844)] {
        browser.size(width, height);
        browser.until(&format!(
            "innerWidth === {width} && (below => [...document.querySelectorAll('.bar')].every((bar) =>
                bar.getBoundingClientRect().top >= below))(document.querySelector('#banner').getBoundingClientRect().bottom)"
        ));
    }
    browser.size(1280, 720);
    // It moves them by no more than one of its lines, although it is long.
    let top = browser.eval("document.querySelector('.bar').getBoundingClientRect().top");
    let (_, end) = server.url.split_once('#').unwrap();
    browser.eval(&format!("location.href = 'http://localhost:{port}/#{end}'"));
    browser.until("document.querySelector('#banner').hidden");
    let now = browser.eval("document.querySelector('.bar').getBoundingClientRect().top");
    assert!(top.as_f64().unwrap() - now.as_f64().unwrap() < 20.0, "{top}, {now}");
    click(&mut browser, "new-shell");
    browser.until(&shows("terminal-tab", "Shell 1"));
}
