//! A headless Chromium, driven with the DevTools protocol over a pair of pipes. Each message is JSON that ends in a
//! zero byte. Nothing listens on a port, and Chromium ends when the pipes close.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long any step may take: usually less than a second, but longer on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// A browser with one page.
pub struct Chromium {
    child: Child,
    stdin: ChildStdin,
    messages: Receiver<Value>,
    calls: u64,
    session: String,
    /// What the pages did wrong.
    wrong: Vec<String>,
    loaded: bool,
    _profile: tempfile::TempDir,
}

impl Chromium {
    pub fn start() -> Self {
        let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
        let Some(chromium) = names.iter().find_map(|name| which::which(name).ok()) else {
            panic!("there is no Chromium in PATH (looked for: {})\n  fix: lab/setup test", names.join(", "));
        };
        let profile = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // Chromium reads from descriptor 3 and writes to 4. It can't have a sandbox as root or in a container, and
        // our own pages don't need one.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 0</dev/null 1>&2", "sh"])
            .arg(chromium)
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
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, messages) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for message in stdout.split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { break };
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let stdin = child.stdin.take().unwrap();
        let mut browser = Self {
            child,
            stdin,
            messages,
            calls: 0,
            session: String::new(),
            wrong: Vec::new(),
            loaded: false,
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        browser.enable();
        browser
    }

    fn enable(&mut self) {
        for domain in ["Page", "Runtime", "Network", "Log"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
    }

    /// Does something in the other one of two windows, which a page has opened.
    #[allow(dead_code, reason = "the page of stage 10, whose test uses this file, too, opens no window")]
    pub fn in_other_window(&mut self, act: impl FnOnce(&mut Self)) {
        let ours = std::mem::take(&mut self.session);
        let ours_target = self.target_of(&ours);
        let deadline = Instant::now() + LIMIT;
        let other = loop {
            let targets = self.call("Target.getTargets", json!({}));
            let mut pages = targets["targetInfos"].as_array().unwrap().iter();
            let is_other = |target: &&Value| {
                let url = target["url"].as_str().unwrap_or_default();
                let is_browsers = ["about:", "chrome:"].iter().any(|own| url.starts_with(own));
                target["type"] == "page" && !is_browsers && target["targetId"] != ours_target
            };
            if let Some(target) = pages.find(is_other) {
                break target["targetId"].clone();
            }
            assert!(Instant::now() < deadline, "there is no other window");
        };
        let attached = self.call("Target.attachToTarget", json!({ "targetId": other, "flatten": true }));
        self.session = attached["sessionId"].as_str().unwrap().to_owned();
        self.enable();
        act(self);
        self.session = ours;
    }

    #[allow(dead_code, reason = "as above")]
    fn target_of(&mut self, session: &str) -> Value {
        self.session = session.to_owned();
        let target = self.call("Target.getTargetInfo", json!({}))["targetInfo"]["targetId"].clone();
        self.session.clear();
        target
    }

    /// Calls a method and returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.try_call(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Calls a method and returns its result, or the error.
    fn try_call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.calls += 1;
        let id = self.calls;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        write!(self.stdin, "{message}\0").unwrap();
        let deadline = Instant::now() + LIMIT;
        loop {
            let message = self.message(deadline, method);
            if message["id"] == id {
                return match message.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(message["result"].clone()),
                };
            }
        }
    }

    /// Takes the next message, and records errors in it.
    fn message(&mut self, deadline: Instant, awaited: &str) -> Value {
        let message = match self.messages.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => panic!("{awaited}: nothing came within {LIMIT:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("{awaited}: Chromium has ended"),
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
        message
    }

    /// Opens a page and waits until it has loaded completely.
    #[allow(dead_code, reason = "the workshop is no file")]
    pub fn open(&mut self, page: &Path, fragment: &str) {
        self.visit(&format!("file://{}{fragment}", page.display()));
    }

    /// Opens an address and waits until its page has loaded completely.
    pub fn visit(&mut self, url: &str) {
        self.loading(|browser| {
            browser.call("Page.navigate", json!({ "url": url }));
        });
    }

    /// Does something that loads a page, and waits until it has loaded completely.
    pub fn loading(&mut self, act: impl FnOnce(&mut Self)) {
        self.loaded = false;
        act(self);
        let deadline = Instant::now() + LIMIT;
        // A late message may still be about the empty page with which a browser starts, or about a page that is going.
        let complete = "location.href !== 'about:blank' && document.readyState === 'complete'";
        let complete = json!({ "expression": complete, "returnByValue": true });
        let is_there = |answer: Value| answer["result"]["value"] == true;
        while !self.loaded || !self.try_call("Runtime.evaluate", complete.clone()).is_ok_and(is_there) {
            self.message(deadline, "loading a page");
        }
    }

    /// The value of a JavaScript expression; for a promise, its result.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let result = self.call("Runtime.evaluate", params);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true. Checks it whenever the page, its address or its size changes.
    pub fn until(&mut self, expression: &str) {
        let found = self.eval(&format!(
            "new Promise((done) => {{
                const look = () => {{ if ({expression}) done(true); }};
                new MutationObserver(look).observe(document, {{
                    subtree: true, childList: true, attributes: true, characterData: true }});
                for (const event of ['hashchange', 'resize', 'scroll', 'transitionend']) addEventListener(event, look);
                setTimeout(() => done(false), {});
                look();
            }})",
            LIMIT.as_millis() / 2,
        ));
        assert!(found == true, "this never came true: {expression}, at {}", self.eval("location.href"));
    }

    /// Presses and releases a key.
    pub fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let mut params = json!({ "type": kind, "key": key });
            if key.chars().count() == 1 && kind == "keyDown" {
                params["text"] = json!(key);
            }
            if key == "Escape" {
                // What the browser itself does with a key depends on its code.
                params["windowsVirtualKeyCode"] = json!(27);
            }
            self.call("Input.dispatchKeyEvent", params);
        }
    }

    /// Presses and releases a key together with others: 1 is Alt, 2 Ctrl, 8 Shift, and sums of these.
    #[allow(dead_code, reason = "only the workshop has such keys")]
    pub fn chord(&mut self, key: &str, code: u32, modifiers: u32) {
        for kind in ["rawKeyDown", "keyUp"] {
            let mut params =
                json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers });
            if key.parse::<u8>().is_ok() {
                params["code"] = json!(format!("Digit{key}"));
            }
            self.call("Input.dispatchKeyEvent", params);
            if kind == "rawKeyDown" && key == "Enter" && modifiers == 0 {
                self.call("Input.dispatchKeyEvent", json!({ "type": "char", "key": key, "text": "\r" }));
            }
        }
    }

    /// Like [`Chromium::until`], for what is inside a frame, where no observer of ours is.
    #[allow(dead_code, reason = "only the workshop has frames")]
    pub fn poll(&mut self, expression: &str) {
        let deadline = Instant::now() + LIMIT;
        while self.eval(&format!("!!({expression})")) != true {
            assert!(Instant::now() < deadline, "this never came true: {expression}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn size(&mut self, width: u32, height: u32) {
        let params =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700 });
        self.call("Emulation.setDeviceMetricsOverride", params);
    }

    /// `light` or `dark`.
    pub fn scheme(&mut self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
    }

    /// What the pages did wrong since the last call.
    pub fn wrong(&mut self) -> Vec<String> {
        // When this is answered, earlier messages have arrived.
        self.eval("0");
        std::mem::take(&mut self.wrong)
    }
}

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
