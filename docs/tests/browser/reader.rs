//! A browser as a reader uses it: keys, windows, and waiting until the page shows something. A test ends with what
//! Chromium could not do.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use browser::{Chromium, LIMIT};
use serde_json::{Value, json};

/// A reader's browser, with one page.
pub struct Reader(Chromium);

impl Reader {
    pub fn start() -> Self {
        // The workshop's lesson would have a process of its own, to which the DevTools connect apart from the page.
        Self(Chromium::start(&["--disable-features=IsolateSandboxedIframes"]).unwrap())
    }

    /// A browser of a laptop: there is a mouse, and so the pages hide what comes with it.
    #[allow(dead_code, reason = "only the view for a projector hides something")]
    pub fn with_mouse() -> Self {
        let settings = "--blink-settings=primaryHoverType=2,availableHoverTypes=2";
        Self(Chromium::start(&[settings]).unwrap())
    }

    /// Does something in the other one of two windows, which a page has opened.
    #[allow(dead_code, reason = "the page of ctracer, whose test uses this file, too, opens no window")]
    pub fn in_other_window(&mut self, act: impl FnOnce(&mut Self)) {
        let ours = self.call("Target.getTargetInfo", json!({}))["targetInfo"]["targetId"].clone();
        let deadline = Instant::now() + LIMIT;
        let other = loop {
            let targets = self.call("Target.getTargets", json!({}));
            let mut pages = targets["targetInfos"].as_array().unwrap().iter();
            let is_other = |target: &&Value| {
                let url = target["url"].as_str().unwrap_or_default();
                // The browser has pages of its own, which have no address at first.
                let is_a_sites = ["file:", "http:"].iter().any(|site| url.starts_with(site));
                target["type"] == "page" && is_a_sites && target["targetId"] != ours
            };
            if let Some(target) = pages.find(is_other) {
                break target["targetId"].clone();
            }
            assert!(Instant::now() < deadline, "there is no other window");
        };
        let session = self.0.attach(&other).unwrap();
        act(self);
        self.0.resume(session);
    }

    /// Calls a method and returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.0.call(method, params).unwrap()
    }

    /// Opens a page and waits until it has loaded completely.
    #[allow(dead_code, reason = "the workshop isn't a file")]
    pub fn open(&mut self, page: &Path, fragment: &str) {
        self.0.open(page, fragment).unwrap();
    }

    /// Opens an address and waits until its page has loaded completely.
    #[allow(dead_code, reason = "only the workshop has addresses")]
    pub fn visit(&mut self, url: &str) {
        self.0.visit(url).unwrap();
    }

    /// Does something that loads a page, and waits until it has loaded completely.
    pub fn loading(&mut self, act: impl FnOnce(&mut Self)) {
        self.0.expect_load();
        act(self);
        self.0.until_loaded().unwrap();
    }

    /// The value of a JavaScript expression; for a promise, its result.
    pub fn eval(&mut self, expression: &str) -> Value {
        self.0.eval(expression).unwrap()
    }

    /// Waits until an expression is true. Checks it whenever the page, its focus, its address or its size changes:
    /// nothing tells the page that other colours were asked for, see [`Reader::poll`].
    #[track_caller]
    pub fn until(&mut self, expression: &str) {
        let found = self.eval(&format!(
            "new Promise((done) => {{
                const ended = new AbortController();
                const end = (found) => {{ ended.abort(); observer.disconnect(); done(found); }};
                const look = () => {{ if ({expression}) end(true); }};
                const observer = new MutationObserver(look);
                observer.observe(document, {{
                    subtree: true, childList: true, attributes: true, characterData: true }});
                for (const event of ['focusin', 'hashchange', 'resize', 'scroll', 'transitionend'])
                    addEventListener(event, look, {{ signal: ended.signal }});
                setTimeout(() => end(false), {});
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
    #[allow(dead_code, reason = "the page of ctracer has no such keys")]
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

    /// Writes a word with an input method, which ends it with Enter.
    pub fn compose(&mut self, word: &str) {
        let length = word.chars().count();
        let composed = json!({ "text": word, "selectionStart": length, "selectionEnd": length });
        self.call("Input.imeSetComposition", composed);
        self.call(
            "Input.dispatchKeyEvent",
            json!({ "type": "rawKeyDown", "key": "Enter", "windowsVirtualKeyCode": 229 }),
        );
        self.call("Input.insertText", json!({ "text": word }));
        self.call(
            "Input.dispatchKeyEvent",
            json!({ "type": "keyUp", "key": "Enter", "windowsVirtualKeyCode": 13 }),
        );
    }

    /// Like [`Reader::until`], for what no observer of ours sees.
    #[allow(dead_code, reason = "only the workshop has such things")]
    #[track_caller]
    pub fn poll(&mut self, expression: &str) {
        let deadline = Instant::now() + LIMIT;
        while self.eval(&format!("!!({expression})")) != true {
            assert!(Instant::now() < deadline, "this never came true: {expression}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The value of an expression in the page's first frame; null if another page is just being loaded there.
    #[allow(dead_code, reason = "only the workshop has frames")]
    pub fn eval_in_frame(&mut self, expression: &str) -> Value {
        let tree = self.call("Page.getFrameTree", json!({}));
        let frame = &tree["frameTree"]["childFrames"][0]["frame"]["id"];
        let world = self.0.call("Page.createIsolatedWorld", json!({ "frameId": frame }));
        let Ok(context) = world.map(|world| world["executionContextId"].clone()) else { return Value::Null };
        let params = json!({ "expression": expression, "contextId": context, "returnByValue": true });
        self.0
            .call("Runtime.evaluate", params)
            .map_or(Value::Null, |answer| answer["result"]["value"].clone())
    }

    /// Waits until an expression in the page's first frame is true.
    #[allow(dead_code, reason = "only the workshop has frames")]
    #[track_caller]
    pub fn poll_frame(&mut self, expression: &str) {
        let deadline = Instant::now() + LIMIT;
        while self.eval_in_frame(&format!("!!({expression})")) != true {
            assert!(Instant::now() < deadline, "this never came true in the frame: {expression}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn size(&mut self, width: u32, height: u32) {
        self.0.size(width, height).unwrap();
    }

    /// `light` or `dark`.
    pub fn scheme(&mut self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
        // The page learns of it when it draws its next frame, which may be never if nothing else changes.
        let corner = json!({ "x": 0, "y": 0, "width": 1, "height": 1, "scale": 1 });
        self.call("Page.captureScreenshot", json!({ "clip": corner }));
    }

    /// What keeps people with a keyboard, a screen reader or weak eyes from using the page, as axe finds it: all that it
    /// calls serious or critical. A frame is another page.
    pub fn barriers(&mut self) -> Vec<String> {
        self.eval(include_str!("axe.min.js"));
        let found = self.eval(
            "axe.run({ iframes: false, resultTypes: ['violations'] }).then(({ violations }) => violations
                .filter(({ impact }) => ['serious', 'critical'].includes(impact))
                .flatMap(({ id, nodes }) => nodes.map(({ target, html }) => `${id}: ${target} ${html.slice(0, 150)}`)))",
        );
        found.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
    }

    /// What the pages did wrong since the last call.
    pub fn wrong(&mut self) -> Vec<String> {
        self.0.wrong().unwrap()
    }
}
