//! Who may use the server: the browser that opened the printed address, and nobody else.
//!
//! The server listens on 127.0.0.1, or in a guest on the address to which the emulator forwards the host's 127.0.0.1. But
//! other programs can connect to that, too, and any web site can make a browser send requests there. Three checks keep them out. The first address has a random token, which the server exchanges for a
//! cookie. `Host` must be our own address, because a foreign name can be made to lead here (DNS rebinding). And
//! whatever changes something, or opens a WebSocket, must come from our own page (`Origin`).

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, COOKIE, HOST, ORIGIN, REFRESH, SET_COOKIE, UPGRADE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use common::{Error, OrCause, Result};
use serde::{Deserialize, Serialize};

use crate::archive::LARGEST_ARCHIVE;
use crate::response::Refusal;

/// The address, and the secrets.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Auth {
    /// The server's port.
    pub port: u16,
    token: String,
    cookie: String,
    /// Names the working folder, so that a browser never takes text from another one's.
    pub folder: String,
}

impl Auth {
    /// New secrets for the server at this port. The folder keeps its name.
    ///
    /// # Errors
    /// If the kernel has no random numbers.
    pub fn new(port: u16, folder: Option<&str>) -> Result<Self> {
        let folder = folder.map_or_else(random, |folder| Ok(folder.to_owned()))?;
        Ok(Self { port, token: random()?, cookie: random()?, folder })
    }

    /// The address to open first.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.token)
    }

    /// Browsers send a host's cookies to all of its ports, so the name has the port.
    fn cookie(&self) -> String {
        format!("workshop-{}={}", self.port, self.cookie)
    }

    /// Why a request is refused, if it is.
    fn refuse(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Refusal> {
        let header = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let hosts = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", self.port));
        let is_ours = |host: &str| hosts.iter().any(|ours| ours == host);
        let host = header(&HOST).unwrap_or_default();
        if !is_ours(host) {
            let error = Error::new("this is not the workshop's address")
                .evidence(format!("the request asks for {host:?}"))
                .fix("open the address that the workshop printed when you last started it");
            return Some(Refusal(StatusCode::MISDIRECTED_REQUEST, error));
        }
        let acts = method != Method::GET && method != Method::HEAD || headers.contains_key(UPGRADE);
        let origin = header(&ORIGIN);
        let is_foreign =
            origin.is_some_and(|origin| origin.strip_prefix("http://").is_none_or(|from| from != host));
        if is_foreign || acts && origin.is_none() {
            let error = Error::new("only the workshop's own page may ask for this")
                .evidence(format!("the request comes from {:?}", origin.unwrap_or_default()));
            return Some(Refusal(StatusCode::FORBIDDEN, error));
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
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let ours = self.cookie();
        let is_known = cookies.flat_map(|line| line.split("; ")).any(|cookie| is_same(cookie, &ours));
        if is_known || self.has_token(uri) {
            return None;
        }
        let error = Error::new("this browser has not opened the workshop yet")
            .evidence("the workshop's cookie is missing, or it is from an earlier start")
            .fix("open the address that the workshop printed when you last started it");
        Some(Refusal(StatusCode::UNAUTHORIZED, error))
    }

    /// Whether this is the first address.
    fn has_token(&self, uri: &Uri) -> bool {
        uri.path() == "/"
            && uri
                .query()
                .and_then(|query| query.strip_prefix("token="))
                .is_some_and(|token| is_same(token, &self.token))
    }
}

/// Compares all of both texts, so that the time does not show how much was right.
fn is_same(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// 128 random bits.
fn random() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).or_cause("the kernel has no random numbers")?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Runs before everything else.
pub async fn check(State(auth): State<Arc<Auth>>, request: Request, next: Next) -> Response {
    let mut response = match auth.refuse(request.method(), request.uri(), request.headers()) {
        // The address bar shows people text.
        Some(Refusal(status, error)) if !request.uri().path().starts_with("/api/") => {
            (status, format!("Error: {error}\n")).into_response()
        }
        Some(refusal) => refusal.into_response(),
        // The secret leaves the address bar. A redirect would not do: if a link in another page led here, the browser
        // would not send the cookie.
        None if auth.has_token(request.uri()) => {
            let cookie = format!("{}; HttpOnly; SameSite=Strict; Path=/", auth.cookie());
            // Without an icon here, the browser would ask for one.
            let page = "<!DOCTYPE html><link rel=\"icon\" href=\"data:,\"><p>Opening the workshop ...\n";
            ([(SET_COOKIE, cookie), (REFRESH, "0; url=/".to_owned())], Html(page)).into_response()
        }
        None => next.run(request).await,
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
