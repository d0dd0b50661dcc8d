//! A headless Chromium, driven with the DevTools protocol over a pair of pipes. Each message is JSON that ends in a
//! zero byte. Nothing listens on a port, and Chromium ends when the pipes close.
//!
//! The protocol is stable, and it answers: what the browser did not make is an error. Its command line is neither: in
//! version 156, `--print-to-pdf` with `--virtual-time-budget` wrote no PDF of a large page, and the exit status was 0.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use common::{Error, OrCause, Result};
use serde_json::{Value, json};

/// How long any step may take: usually less than a second, but longer on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(600);

/// The names under which distributions have Chromium.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// A browser with one page.
pub struct Chromium {
    child: Child,
    stdin: ChildStdin,
    messages: Receiver<Value>,
    calls: u64,
    session: String,
    wrong: Vec<String>,
    loaded: bool,
    /// The profile, and what Chromium prints.
    folder: tempfile::TempDir,
}

impl Chromium {
    /// Starts Chromium with an empty page and more options of its command line.
    pub fn start(options: &[&str]) -> Result<Self> {
        let is_there = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
        let name = NAMES.iter().find(is_there).ok_or_else(|| {
            Error::new("there is no Chromium to open our pages")
                .evidence(format!("none of these is in PATH: {}", NAMES.join(", ")))
                .fix("install it: lab/setup test")
        })?;
        let folder = tempfile::tempdir().or_cause("cannot make a folder for Chromium")?;
        let printed =
            File::create(folder.path().join(PRINTED)).or_cause("cannot make a file for Chromium")?;
        // Chromium reads from descriptor 3 and writes to 4. It can't have a sandbox as root or in a container, and
        // our own pages don't need one.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 0</dev/null 1>&2", "sh", name])
            .args([
                "--headless",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--no-first-run",
                "--disable-gpu",
            ])
            // We go through hundreds of addresses faster than a person can.
            .arg("--disable-ipc-flooding-protection")
            .args(["--disable-background-networking", "--disable-component-update", "--disable-extensions"])
            .arg(format!("--user-data-dir={}", folder.path().display()))
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(printed)
            .spawn()
            .or_cause("cannot start Chromium")?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::new("Chromium has no pipes"));
        };
        let (sender, messages) = channel();
        thread::spawn(move || {
            for message in BufReader::new(stdout).split(0).map_while(std::io::Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { break };
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut browser = Self {
            child,
            stdin,
            messages,
            calls: 0,
            session: String::new(),
            wrong: Vec::new(),
            loaded: false,
            folder,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        browser.attach(&target["targetId"])?;
        Ok(browser)
    }

    /// Lets the following calls go to a page, by the id of its target. Returns the session with the one before.
    pub fn attach(&mut self, target: &Value) -> Result<String> {
        // To the browser itself: a session made in a page's session would end when that page is loaded again.
        let before = std::mem::take(&mut self.session);
        let attached = self.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }))?;
        self.session = attached["sessionId"].as_str().unwrap_or_default().to_owned();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            self.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(before)
    }

    /// Returns to a session that [`Chromium::attach`] left.
    pub fn resume(&mut self, session: String) {
        self.session = session;
    }

    /// Calls a method and returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.calls += 1;
        let id = self.calls;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        if write!(self.stdin, "{message}\0").is_err() {
            return Err(self.ended(method));
        }
        let deadline = Instant::now() + LIMIT;
        loop {
            let message = self.message(deadline, method)?;
            if message["id"] == id {
                return match message.get("error") {
                    Some(error) => Err(Error::new(format!("Chromium refused {method}")).evidence(error)),
                    None => Ok(message["result"].clone()),
                };
            }
        }
    }

    /// Takes the next message, and keeps errors in it.
    fn message(&mut self, deadline: Instant, awaited: &str) -> Result<Value> {
        let message = match self.messages.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => {
                return Err(self.failed(&format!("Chromium did not answer {awaited} within {LIMIT:?}")));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(self.ended(awaited)),
        };
        let params = &message["params"];
        let noted = match message["method"].as_str().unwrap_or_default() {
            "Page.loadEventFired" => {
                self.loaded = true;
                None
            }
            "Runtime.exceptionThrown" => Some(format!("an exception: {}", params["exceptionDetails"])),
            "Runtime.consoleAPICalled" if params["type"] == "error" => {
                Some(format!("an error: {}", params["args"]))
            }
            "Log.entryAdded" if params["entry"]["level"] == "error" => Some(params["entry"].to_string()),
            "Network.loadingFailed" if params["canceled"] != true => Some(format!("not loaded: {params}")),
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                let local = ["file:", "data:", "about:", "http://127.0.0.1:", "ws://127.0.0.1:", "blob:"]
                    .iter()
                    .any(|start| url.starts_with(start));
                (!local).then(|| format!("it asks the network for {url}"))
            }
            _ => None,
        };
        self.wrong.extend(noted);
        Ok(message)
    }

    fn ended(&self, awaited: &str) -> Error {
        self.failed(&format!("Chromium ended before it answered {awaited}"))
    }

    /// An error, with the last lines that Chromium printed.
    fn failed(&self, cause: &str) -> Error {
        let printed = fs::read(self.folder.path().join(PRINTED)).unwrap_or_default();
        let printed = String::from_utf8_lossy(&printed);
        let lines: Vec<_> = printed.lines().collect();
        let last = lines[lines.len().saturating_sub(5)..].join("\n");
        Error::new(cause).evidence(if last.is_empty() { "it printed nothing".to_owned() } else { last })
    }

    /// Opens an address and waits until its page has loaded completely.
    pub fn visit(&mut self, url: &str) -> Result<()> {
        self.expect_load();
        let answer = self.call("Page.navigate", json!({ "url": url }))?;
        if let Some(why) = answer["errorText"].as_str() {
            return Err(Error::new(format!("Chromium cannot open {url}")).evidence(why));
        }
        self.until_loaded()
    }

    /// Opens a file, at a fragment such as `#exercises`, and waits until it has loaded completely.
    pub fn open(&mut self, page: &Path, fragment: &str) -> Result<()> {
        let path = page.display().to_string().replace('%', "%25").replace('#', "%23").replace('?', "%3F");
        self.visit(&format!("file://{path}{fragment}"))
    }

    /// Begins to wait for a page, which the next calls load.
    pub fn expect_load(&mut self) {
        self.loaded = false;
    }

    /// Waits until a page has loaded completely since [`Chromium::expect_load`].
    pub fn until_loaded(&mut self) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        // A late message may still be about the empty page with which a browser starts, or about a page that is going.
        let complete = "location.href !== 'about:blank' && document.readyState === 'complete'";
        while !self.loaded || !self.eval(complete).is_ok_and(|answer| answer == true) {
            self.message(deadline, "the opening of a page")?;
        }
        Ok(())
    }

    /// The value of a JavaScript expression; for a promise, its result.
    pub fn eval(&mut self, expression: &str) -> Result<Value> {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let result = self.call("Runtime.evaluate", params)?;
        match result.get("exceptionDetails") {
            Some(details) => Err(Error::new(format!("a page can't evaluate {expression}")).evidence(details)),
            None => Ok(result["result"]["value"].clone()),
        }
    }

    /// Opens a window of this size, in CSS pixels.
    pub fn size(&mut self, width: u32, height: u32) -> Result<()> {
        let params =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700 });
        self.call("Emulation.setDeviceMetricsOverride", params).map(drop)
    }

    /// Writes the page into a PDF, on paper of the size that its style sheet names, with an outline of its headings.
    pub fn pdf(&mut self, file: &Path) -> Result<()> {
        let params =
            json!({ "printBackground": true, "preferCSSPageSize": true, "generateDocumentOutline": true });
        self.save("Page.printToPDF", params, file)
    }

    /// Takes a picture of what the window shows, as a PNG file.
    pub fn picture(&mut self, file: &Path) -> Result<()> {
        self.save("Page.captureScreenshot", json!({}), file)
    }

    /// Writes the data that a call returns, once the page has its fonts and has been drawn with them.
    fn save(&mut self, method: &str, params: Value, file: &Path) -> Result<()> {
        self.eval("document.fonts.ready.then(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn(0)))))")?;
        let wrong = self.wrong()?;
        if !wrong.is_empty() {
            return Err(Error::new(format!(
                "a page is incomplete, so it does not become {}",
                file.display()
            ))
            .evidence(wrong.join("\n")));
        }
        let result = self.call(method, params)?;
        let data =
            result["data"].as_str().ok_or_else(|| self.failed(&format!("{method} returned nothing")))?;
        let data = BASE64_STANDARD.decode(data);
        let data = data.or_cause(format!("cannot read what Chromium returned for {method}"))?;
        fs::write(file, data).or_cause(format!("cannot write {}", file.display()))
    }

    /// What the pages did wrong since the last call: exceptions, errors, requests that failed or asked the network.
    pub fn wrong(&mut self) -> Result<Vec<String>> {
        // When this is answered, earlier messages have arrived.
        self.eval("0")?;
        Ok(std::mem::take(&mut self.wrong))
    }
}

/// The file in the browser's folder that has what it printed.
const PRINTED: &str = "printed.txt";

impl Drop for Chromium {
    /// Lets Chromium end cleanly, so none of its processes is left. If it does not end, kills it.
    fn drop(&mut self) {
        self.calls += 1;
        let _ = write!(self.stdin, "{}\0", json!({ "id": self.calls, "method": "Browser.close" }));
        let deadline = Instant::now() + LIMIT;
        while self.messages.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok() {}
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
