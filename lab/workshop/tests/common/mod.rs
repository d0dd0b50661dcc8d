//! A workshop for a test: its own working folder, and a way to ask it.

#![allow(dead_code, reason = "each test uses a part of this")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// A server that runs as long as this value.
pub struct Server {
    child: Child,
    /// The address that it printed.
    pub url: String,
    folder: tempfile::TempDir,
    command: Box<dyn Fn() -> Command>,
}

/// What the server answered.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Response {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// Checks that it is an error with this status and this cause.
    #[track_caller]
    pub fn is_refused(&self, status: u16, cause: &str) {
        assert_eq!((self.status, &self.json()["cause"]), (status, &json!(cause)));
    }
}

impl Server {
    /// The workshop as a user starts it.
    pub fn start() -> Self {
        Self::with(|| {
            let mut command = Command::new("cargo");
            command.args(["lab", "workshop", "--here"]);
            command
        })
    }

    /// Started with this command.
    pub fn with(command: impl Fn() -> Command + 'static) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (child, url) = spawn(command(), folder.path());
        Self { child, url, folder, command: Box::new(command) }
    }

    /// Starts it again, after it has ended.
    pub fn again(&mut self) {
        (self.child, self.url) = spawn((self.command)(), self.folder.path());
    }

    /// A workshop whose launcher boots the kernel for which this file has last asked, of 6.12 and 7.2. Its driver is what a
    /// test writes into the working folder, such as a script `exercise`.
    pub fn with_kernels(status: &Path) -> Self {
        let status = status.to_owned();
        Self::with(move || {
            let said = std::fs::read_to_string(&status).unwrap_or_default();
            let kernel = said.lines().filter_map(|line| line.strip_prefix("next ")).next_back();
            let mut command = Command::new(env!("CARGO_BIN_EXE_workshop"));
            command.args(["--driver", "/bin/sh", "--book", "/", "--announce"]).arg(&status);
            command.args(["--kernel", kernel.unwrap_or("6.12"), "--kernels", "6.12,7.2"]);
            command
        })
    }

    pub fn mine(&self) -> PathBuf {
        self.folder.path().join("mine")
    }

    /// The origin of its own pages.
    pub fn origin(&self) -> String {
        self.url.split_once("/#").unwrap().0.to_owned()
    }

    pub fn port(&self) -> u16 {
        self.origin().rsplit_once(':').unwrap().1.parse().unwrap()
    }

    /// The key in its address.
    pub fn key(&self) -> &str {
        self.url.split_once("#token=").unwrap().1
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks for another kernel, and waits for the server's end. It may come before the answer.
    pub fn boot(&mut self, kernel: &str) {
        let body = json!({ "kernel": kernel }).to_string();
        let head = format!("{}\nContent-Length: {}\n\n", self.page_head("POST", "/api/kernel"), body.len());
        // It would not go on for somebody who has left.
        let mut page = connect(self.port());
        page.write_all(format!("{}{body}", head.replace('\n', "\r\n")).as_bytes()).unwrap();
        assert!(self.wait().success());
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Ends it, and waits for its end.
    pub fn end(&mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        self.wait()
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Kills it, if it still runs.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.wait();
    }

    /// Sends a request as it is written here, without the blank line at the end of its head.
    pub fn ask(&self, head: &str, body: &[u8]) -> Response {
        send(self.port(), head, body)
    }

    /// The name of this run.
    pub fn run(&self) -> String {
        self.ask(&format!("GET /run HTTP/1.1\nHost: 127.0.0.1:{}", self.port()), b"").text().to_owned()
    }

    /// What shows that the page was opened with the printed address, as any machine can compute it.
    pub fn proof(&self) -> String {
        proof_of(&self.run(), self.key())
    }

    /// The head of a request of our own page.
    pub fn page_head(&self, method: &str, path: &str) -> String {
        let (port, proof) = (self.port(), self.proof());
        let kind = "Content-Type: application/json";
        format!("{method} {path} HTTP/1.1\nHost: 127.0.0.1:{port}\nX-Proof: {proof}\n{kind}")
    }

    /// A request of our own page, with more lines of its head.
    pub fn page(&self, method: &str, path: &str, more: &str, body: &[u8]) -> Response {
        self.ask(format!("{}\n{more}", self.page_head(method, path)).trim_end(), body)
    }

    pub fn get(&self, path: &str) -> Response {
        self.page("GET", path, "", b"")
    }

    pub fn send(&self, method: &str, path: &str, body: &Value) -> Response {
        self.page(method, path, "", body.to_string().as_bytes())
    }

    /// A request that must succeed.
    #[track_caller]
    pub fn post(&self, path: &str) -> Response {
        let answer = self.page("POST", path, "", b"");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer
    }

    pub fn state(&self) -> Value {
        self.get("/api/state").json()
    }

    /// What the page gets of a file of a working copy.
    fn described(&self, exercise: &str, path: &str) -> Value {
        let files = self.get(&format!("/api/works/{exercise}/files")).json();
        let file = files["files"].as_array().unwrap().iter().find(|file| file["path"] == path);
        file.unwrap_or_else(|| panic!("{files}")).clone()
    }

    /// The text of a file of a working copy.
    pub fn file(&self, exercise: &str, path: &str) -> String {
        self.described(exercise, path)["text"].as_str().unwrap().to_owned()
    }

    pub fn version(&self, exercise: &str, path: &str) -> String {
        self.described(exercise, path)["version"].as_str().unwrap().to_owned()
    }

    /// Saves a file of a working copy that was last seen in this version.
    pub fn save_over(&self, version: &str, exercise: &str, path: &str, text: &str) -> Response {
        let place = format!("/api/works/{exercise}/file?path={path}");
        self.page("PUT", &place, &format!("If-Match: {version}"), text.as_bytes())
    }

    /// Saves a file of a working copy, whatever it has now.
    #[track_caller]
    pub fn save(&self, exercise: &str, path: &str, text: &str) {
        let answer = self.save_over(&self.version(exercise, path), exercise, path, text);
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

/// The proof for a run of the server, and for a key.
pub fn proof_of(run: &str, key: &str) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(format!("{run} {key}")).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Connects to the server. The limit is only for an answer that never comes.
pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(300))).unwrap();
    stream
}

/// Sends a request, and returns what the server answers.
pub fn send(port: u16, head: &str, body: &[u8]) -> Response {
    let mut stream = connect(port);
    // An upgrade has its own `Connection`, and a test of sizes its own length.
    let close = if head.contains("Upgrade") { "" } else { "\nConnection: close" };
    let length = match head.contains("Content-Length") {
        true => String::new(),
        false => format!("\nContent-Length: {}", body.len()),
    };
    let head = format!("{head}{close}{length}\n\n").replace('\n', "\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    // A server that refuses a large body does not read all of it.
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Response { status, body: answer[end + 4..].to_vec(), head }
}

/// Starts a workshop, and waits until it has printed its address.
fn spawn(mut command: Command, folder: &Path) -> (Child, String) {
    let mine = folder.join("mine");
    let command = command.arg("--no-browser").env("LAB_MINE", &mine).env("SHELL", "/bin/sh");
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next().expect("the workshop ends without an address").unwrap();
    // Its end must not look like a closed pipe.
    std::thread::spawn(move || lines.for_each(drop));
    let url = line.split_once(": ").unwrap().1.to_owned();
    (child, url)
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.end(Signal::SIGTERM);
        }
    }
}
