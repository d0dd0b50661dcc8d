//! Who may use the server: the page that was opened with the printed address, and nobody else.
//!
//! The server listens on 127.0.0.1, or in a guest on the address to which the emulator forwards the host's 127.0.0.1. But
//! other programs can connect to that, too, and any web site can make a browser send requests there. A cookie would not
//! keep them out: a browser sends it to each port of 127.0.0.1, where another user's server may listen.
//!
//! So the printed address has a key after its `#`, which no request contains. The page keeps it in the storage of its
//! origin, and sends a proof with each request of the API: the SHA-256 checksum of the key and of a name that each run
//! of the server has. If somebody else has taken our port, the open page may give a proof to them, but no other run
//! accepts that. Each start has a new key, unless it goes on with another kernel for a page that is open. At another
//! port it has a new one even then: whoever has taken ours could let the page prove itself to that run.
//!
//! Whoever has taken our port can also answer the open page. So the page believes no events before the server has proved
//! itself, and it shows lessons in a frame without an origin, whose scripts find no key. Only a tab that is loaded from
//! there is theirs: nobody can help that.
//!
//! The page itself and the book are no secrets. They are not for foreign names that lead here (DNS rebinding), either.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Extension;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, HOST, SEC_WEBSOCKET_PROTOCOL};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use common::{Error, OrCause, Result};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::archive::LARGEST_ARCHIVE;
use crate::response::Refusal;
use crate::terminals::lock;

/// How many connections may be open that have not shown a proof. One more, and the oldest of them goes.
const MOST_STRANGERS: usize = 100;
/// How long a request's head may take, and how long a connection may wait for the next one.
const PATIENCE: Duration = Duration::from_secs(10);
/// The ports that browsers block: <https://fetch.spec.whatwg.org/#port-blocking>.
const BLOCKED: [u16; 82] = [
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104,
    109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515,
    526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049,
    3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
];

/// The address, and the secrets.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Auth {
    pub port: u16,
    key: String,
    /// Names the working folder, so that a browser never takes text from another one's.
    pub folder: String,
    /// Whether this run is over, apart from its programs. The next one may have the key, if it is still here.
    pub is_over: bool,
    #[serde(skip)]
    pub run: String,
    /// The part of a result's address that nobody can guess. It opens nothing else, because the result can read it.
    #[serde(skip)]
    pub results: String,
}

impl Auth {
    /// New secrets for the server at this port. The folder keeps its name. The key stays only for another kernel.
    pub fn new(port: u16, before: Option<&Self>) -> Result<Self> {
        let key = before.filter(|before| before.is_over && before.port == port && !before.key.is_empty());
        let key = key.map_or_else(random, |before| Ok(before.key.clone()))?;
        let folder = before.map_or_else(random, |before| Ok(before.folder.clone()))?;
        Ok(Self { port, key, folder, is_over: false, run: random()?, results: random()? })
    }

    /// What shows the page that we know the key, too.
    pub fn hello(&self, nonce: &str) -> String {
        checksum(&format!("server {nonce}"), &self.key)
    }

    /// The same for those who come after this run.
    pub fn over(&self, goes_on: bool) -> Self {
        let key = if goes_on { self.key.clone() } else { String::new() };
        Self { is_over: true, key, ..self.clone() }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/#token={}", self.port, self.key)
    }

    /// Why a request is refused, if it is.
    fn refuse(&self, path: &str, headers: &HeaderMap) -> Option<Refusal> {
        let header = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let host = header(&HOST).unwrap_or_default();
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        if name != "127.0.0.1" && name != "localhost" {
            let error = Error::new("this is not the workshop's address")
                .evidence(format!("the request asks for {host:?}"))
                .fix("open the address that the workshop printed when you last started it");
            return Some(Refusal(StatusCode::MISDIRECTED_REQUEST, error));
        }
        let length = header(&CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
        if length.is_some_and(|length| length > LARGEST_ARCHIVE) {
            let error = Error::new("this is too large")
                .evidence(format!(
                    "it has {} bytes, and {LARGEST_ARCHIVE} are allowed",
                    length.unwrap_or_default()
                ))
                .fix("upload a zip that you downloaded here");
            return Some(Refusal(StatusCode::PAYLOAD_TOO_LARGE, error));
        }
        if !path.starts_with("/api/") || self.is_proven(headers) {
            return None;
        }
        let error = Error::new("this browser has not opened the workshop yet")
            .evidence("the key of the workshop's address is missing, or it is from an earlier start")
            .fix("open the address that the workshop printed when you last started it");
        Some(Refusal(StatusCode::UNAUTHORIZED, error))
    }

    /// Whether a request comes from our page. For a WebSocket, a browser sends no header but this.
    fn is_proven(&self, headers: &HeaderMap) -> bool {
        let proof = checksum(&self.run, &self.key);
        let lines = [HeaderName::from_static(PROOF), SEC_WEBSOCKET_PROTOCOL];
        let lines = lines.iter().filter_map(|name| headers.get(name)?.to_str().ok());
        lines.flat_map(|line| line.split(", ")).any(|word| is_same(word, &proof))
    }
}

/// The header with a request's proof.
const PROOF: &str = "x-proof";
/// The WebSockets' protocol. The proof comes after it, in place of another one.
pub const PROTOCOL: &str = "workshop";

/// Compares all of both texts, so that the time does not show how much was right.
pub fn is_same(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

fn checksum(words: &str, key: &str) -> String {
    hex(Sha256::digest(format!("{words} {key}")).as_slice())
}

/// 128 random bits.
fn random() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).or_cause("the kernel has no random numbers")?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs before everything else.
pub async fn check(State(auth): State<Arc<Auth>>, request: Request, next: Next) -> Response {
    let is_api = request.uri().path().starts_with("/api/");
    let mut response = match auth.refuse(request.uri().path(), request.headers()) {
        Some(refusal) if is_api => refusal.into_response(),
        // The address bar shows people text.
        Some(Refusal(status, error)) => (status, format!("Error: {error}\n")).into_response(),
        None => {
            if is_api && let Some(stranger) = request.extensions().get::<Stranger>() {
                stranger.leave();
            }
            next.run(request).await
        }
    };
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        response
            .headers_mut()
            .entry(HeaderName::from_static(name))
            .or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Checks that a browser opens addresses with this port.
pub fn check_port(port: u16) -> Result<()> {
    match BLOCKED.contains(&port) {
        true => Err(Error::new(format!("the workshop can't use port {port}"))
            .evidence("browsers block it, because it belongs to something else than web pages")
            .fix("name another one with --port, such as 8017")),
        false => Ok(()),
    }
}

/// The connections that have not shown a proof, by their numbers. The oldest is the first.
type Strangers = Arc<Mutex<BTreeMap<u64, AbortHandle>>>;

/// A connection that has not shown a proof.
#[derive(Clone)]
struct Stranger(u64, Strangers);

impl Stranger {
    fn leave(&self) {
        lock(&self.1).remove(&self.0);
    }
}

/// Answers requests, for ever.
pub async fn serve(listener: TcpListener, app: Router) {
    let strangers = Strangers::default();
    for number in 0.. {
        let Ok((stream, _)) = listener.accept().await else {
            // All files are open, or the connection is gone.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let stranger = Stranger(number, strangers.clone());
        let app = app.clone().layer(Extension(stranger.clone()));
        let service = TowerToHyperService::new(app.into_service::<Incoming>());
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
        let connection = server.serve_connection(TokioIo::new(stream), service).with_upgrades();
        let mut all = lock(&strangers);
        let task = tokio::spawn(async move {
            // The other side is gone, or too slow.
            let _ = connection.await;
            stranger.leave();
        });
        all.insert(number, task.abort_handle());
        if all.len() > MOST_STRANGERS
            && let Some((_, oldest)) = all.pop_first()
        {
            oldest.abort();
        }
    }
}
