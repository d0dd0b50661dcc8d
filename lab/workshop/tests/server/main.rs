//! What the server answers, and whom it refuses. No browser, no guest: the driver here is a script.

mod actions;
#[path = "../common/case.rs"]
mod case;
#[path = "../common/mod.rs"]
mod common;
mod door;
#[path = "../common/socket.rs"]
mod socket;
mod start;
mod terminals;
mod work;

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::common::{Response, Server};

/// A server with a book of one page, and with this instead of the driver.
fn server(driver: &str) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().join("driver");
    // If we wrote it ourselves, a child that another test starts meanwhile could still have it open, and the kernel
    // executes no file that is open for writing.
    let write = "printf '#!/bin/sh\\n%s\\n' \"$2\" > \"$1\" && chmod 755 \"$1\"";
    let mut shell = Command::new("sh");
    let status = shell.args(["-c", write, "sh"]).arg(&program).arg(driver).status().unwrap();
    assert!(status.success());
    let book = folder.path().join("book");
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
    server.page("POST", path, "", body.to_string().as_bytes())
}
