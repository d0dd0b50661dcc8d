//! What the server answers, whom it refuses, and what it keeps. No browser, no guest: the driver here is a script.

mod actions;
#[path = "../common/mod.rs"]
mod common;
mod door;
mod keep;
#[path = "../common/socket.rs"]
mod socket;
mod start;
mod terminals;
mod work;

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tungstenite::WebSocket;

use crate::common::{Response, Server};
use crate::socket::socket;

/// Writes a script that can be started at once. If we wrote it ourselves, a child that another test starts meanwhile could
/// still have it open, and the kernel executes no file that is open for writing.
fn script(path: &Path, text: &str) {
    let write = "printf '#!/bin/sh\\n%s\\n' \"$2\" > \"$1\" && chmod 755 \"$1\"";
    let status = Command::new("sh").args(["-c", write, "sh"]).arg(path).arg(text).status().unwrap();
    assert!(status.success());
}

/// A server with a book of one page, and with this instead of the driver.
fn server(driver: &str) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [program, book] = ["driver", "book"].map(|name| folder.path().join(name));
    script(&program, driver);
    fs::create_dir(&book).unwrap();
    fs::write(book.join("start.html"), "<script src=\"x.js\"></script><script>let a;</script>").unwrap();
    let server = Server::with(move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_workshop"));
        command.arg("--driver").arg(&program).arg("--book").arg(&book);
        command
    });
    (server, folder)
}

fn idle() -> (Server, tempfile::TempDir) {
    server("echo \"$@\"")
}

/// Waits until the only action has ended, and returns it.
fn ended(server: &Server) -> Value {
    socket::ended(server, |_| true)
}

fn act(server: &Server, path: &str, body: &Value) -> Response {
    server.send("POST", path, body)
}

/// Runs a stage; returns its terminal's address and socket.
fn run(server: &Server, name: &str) -> (String, WebSocket<TcpStream>) {
    let run = act(server, "/api/run", &json!({ "name": name })).json();
    let path = format!("/api/terminals/{}", run["terminal"]);
    let terminal = socket(server, &path);
    (path, terminal)
}

/// A shell's address and socket.
fn shell(server: &Server) -> (String, WebSocket<TcpStream>) {
    let path = format!("/api/terminals/{}", server.post("/api/terminals").json()["id"]);
    let terminal = socket(server, &path);
    (path, terminal)
}
