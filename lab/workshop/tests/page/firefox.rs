//! A headless Firefox, driven with WebDriver BiDi: messages of JSON over a WebSocket.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

/// How long anything may take that usually takes seconds.
const LIMIT: Duration = Duration::from_secs(300);

/// A browser with one page.
pub struct Firefox {
    child: Child,
    socket: WebSocket<TcpStream>,
    calls: u64,
    context: Value,
    _profile: tempfile::TempDir,
}

impl Firefox {
    pub fn start() -> Self {
        let Some(firefox) = ["firefox-esr", "firefox"].iter().find_map(|name| which::which(name).ok()) else {
            panic!("there is no Firefox in PATH\n  fix: lab/setup page");
        };
        let profile = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut child = Command::new(firefox)
            .args(["--headless", "--no-remote", "--remote-debugging-port", "0", "--profile"])
            .arg(profile.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let port = lines.find_map(|line| Some(line.split_once("listening on ws://127.0.0.1:")?.1.to_owned()));
        thread::spawn(move || lines.for_each(drop));
        let port = port.expect("Firefox ends without listening");
        let stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        let (socket, _) = tungstenite::client(format!("ws://127.0.0.1:{port}/session"), stream).unwrap();
        let mut browser = Self { child, socket, calls: 0, context: Value::Null, _profile: profile };
        browser.call("session.new", json!({ "capabilities": {} }));
        // The window's first page never gets the focus, so it gets no letters.
        let created = browser.call("browsingContext.create", json!({ "type": "tab" }));
        browser.context = created["context"].clone();
        browser
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let message = json!({ "id": self.calls, "method": method, "params": params });
        self.socket.send(Message::Text(message.to_string().into())).unwrap();
        loop {
            let Message::Text(text) = self.socket.read().unwrap() else { continue };
            let answer: Value = serde_json::from_str(&text).unwrap();
            if answer["id"] == self.calls {
                assert_eq!(answer["type"], "success", "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Opens an address and waits until its page has loaded completely.
    pub fn visit(&mut self, url: &str) {
        let params = json!({ "context": self.context, "url": url, "wait": "complete" });
        self.call("browsingContext.navigate", params);
    }

    /// The value of a JavaScript expression that is a string, a number or a boolean.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression, "target": { "context": self.context }, "awaitPromise": true
        });
        let result = self.call("script.evaluate", params);
        assert_eq!(result["type"], "success", "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, expression: &str) {
        let deadline = Instant::now() + LIMIT;
        while self.eval(&format!("!!({expression})")) != true {
            assert!(Instant::now() < deadline, "this never came true: {expression}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Clicks into the middle of an element.
    pub fn click(&mut self, selector: &str) {
        self.until(&format!("document.querySelector('{selector}')?.checkVisibility()"));
        let mut place = |side: &str, size: &str| {
            self.eval(&format!(
                "(r => Math.round(r.{side} + r.{size} / 2))(document.querySelector('{selector}').getBoundingClientRect())"
            ))
        };
        let (x, y) = (place("left", "width"), place("top", "height"));
        let [moves, down, up] = ["pointerMove", "pointerDown", "pointerUp"];
        self.perform(
            "pointer",
            &json!([{ "type": moves, "x": x, "y": y }, { "type": down, "button": 0 }, { "type": up, "button": 0 }]),
        );
    }

    /// Presses these keys, one after the other.
    pub fn press(&mut self, keys: &str) {
        let press = |key| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key }));
        self.perform("key", &keys.chars().flat_map(press).collect());
    }

    fn perform(&mut self, device: &str, actions: &Value) {
        let actions = [json!({ "type": device, "id": device, "actions": actions })];
        self.call("input.performActions", json!({ "context": self.context, "actions": actions }));
    }
}

impl Drop for Firefox {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
