//! The page, the book, and files that programs wrote. A policy for each says what it may do in the browser.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anstream::adapter::strip_str;
use axum::http::StatusCode;
use axum::http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use common::Error;
use sha2::{Digest, Sha256};

use crate::response::Refusal;

/// The page may load its own files and talk to this server, and nothing else. CodeMirror and xterm.js make styles.
const OF_THE_PAGE: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                           img-src 'self' data:; font-src 'self' data:; connect-src 'self'; frame-src 'self'; \
                           base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A program's file gets an origin that is not ours, so its scripts can't use the API.
const OF_A_RESULT: &str = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; \
                           style-src 'unsafe-inline'; img-src data:; font-src data:";

const LARGEST: u64 = 64 << 20;

/// The files of the page, which `npm run build` makes.
const PAGE: [(&str, &str, &str); 4] = [
    ("", "text/html; charset=utf-8", include_str!("../page/index.html")),
    ("workshop.js", "text/javascript; charset=utf-8", include_str!("../page/workshop.js")),
    ("workshop.css", "text/css; charset=utf-8", include_str!("../page/workshop.css")),
    (FRAME, "text/javascript; charset=utf-8", include_str!("../page/frame.js")),
];

/// What a page of the book does in the workshop's frame.
const FRAME: &str = "frame.js";

/// The frame has no origin, so it may not load what is only for ours.
const FOR_ALL: [(HeaderName, &str); 2] = [
    (HeaderName::from_static("cross-origin-resource-policy"), "cross-origin"),
    (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
];

pub fn page(name: &str) -> Response {
    match PAGE.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => {
            let headers = [(CONTENT_TYPE, *kind), (CONTENT_SECURITY_POLICY, OF_THE_PAGE)];
            if name == FRAME {
                (FOR_ALL, headers, *text).into_response()
            } else {
                (headers, *text).into_response()
            }
        }
        None => nothing(name).into_response(),
    }
}

/// A file of the book. Its pages have a few scripts inside, and the policy lists exactly these.
pub fn book(folder: &Path, name: &str) -> Response {
    let Some((path, mut bytes)) = read(folder, name) else { return nothing(name).into_response() };
    let kind = kind(&path);
    let mut policy =
        "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; \
                      connect-src 'self'; base-uri 'self'; frame-ancestors 'self'; script-src 'self'"
            .to_owned();
    if kind.starts_with("text/html") {
        let html = String::from_utf8_lossy(&bytes);
        for script in scripts(&html) {
            let _ = write!(policy, " 'sha256-{}'", STANDARD.encode(Sha256::digest(script)));
        }
        // Before all scripts of the page.
        bytes = html.replacen("<head>", &format!("<head><script src=\"/{FRAME}\"></script>"), 1).into_bytes();
    }
    (FOR_ALL, [(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, &policy)], bytes).into_response()
}

pub fn result(folder: &Path, name: &str) -> Response {
    if !is_result(name) {
        return nothing(name).into_response();
    }
    let Some((path, bytes)) = read(folder, name) else { return nothing(name).into_response() };
    ([(CONTENT_TYPE, kind(&path)), (CONTENT_SECURITY_POLICY, OF_A_RESULT)], bytes).into_response()
}

/// Leads a browser to our address.
pub const ADDRESS: &str = "open-workshop.html";

/// Whether a file of this name is something that a browser shows.
pub fn is_result(name: &str) -> bool {
    let is_ours = name == ADDRESS || name.starts_with('.') || name.contains('/');
    !is_ours && [".html", ".svg"].iter().any(|end| name.ends_with(end))
}

/// Text without its colors and other commands for the terminal.
pub fn plain(text: &str) -> String {
    strip_str(text).to_string()
}

/// The file of this name. Neither `..` nor a link leads out of the folder.
fn read(folder: &Path, name: &str) -> Option<(PathBuf, Vec<u8>)> {
    let folder = folder.canonicalize().ok()?;
    let path = folder.join(name).canonicalize().ok()?;
    let path = if path.is_dir() { path.join("index.html") } else { path };
    // To read from a pipe could take forever.
    let is_ours = path.starts_with(&folder) && path.metadata().ok()?.is_file();
    (is_ours && path.metadata().ok()?.len() <= LARGEST).then_some(())?;
    let bytes = std::fs::read(&path).ok()?;
    Some((path, bytes))
}

fn nothing(name: &str) -> Refusal {
    Refusal(StatusCode::NOT_FOUND, Error::new(format!("the workshop has no page {name:?}")))
}

fn kind(path: &Path) -> &'static str {
    match path.extension().and_then(|end| end.to_str()).unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "webp" => "image/webp",
        "woff2" => "font/woff2",
        "json" => "application/json",
        _ => "text/plain; charset=utf-8",
    }
}

/// What is between `<script>` and `</script>`. A browser hashes just that.
fn scripts(html: &str) -> impl Iterator<Item = &str> {
    html.split("<script").skip(1).filter_map(|rest| {
        let (attributes, rest) = rest.split_once('>')?;
        let (script, _) = rest.split_once("</script>")?;
        (!attributes.contains("src=")).then_some(script)
    })
}
