//! Opens pages from the file system, as a reader does, in a real browser. What they must show is worked out from the
//! view's JSON.

#[path = "../../../../docs/tests/browser/reader.rs"]
mod reader;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use ctracer::page;
use ctracer::recording::Recording;
use ctracer::tree::Tree;
use ctracer::view::perfetto;
use serde_json::{Value, json};

use crate::reader::Reader;
use crate::view::View;

const CTRL: u32 = 2;
const SHIFT: u32 = 8;

/// A page in a browser, in a window so tall that few pictures show all rows.
struct Page {
    browser: Reader,
    _folder: tempfile::TempDir,
}

impl Page {
    fn open(view: &View) -> Self {
        let mut browser = Reader::start();
        browser.size(1280, 3000);
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = folder.path().join("page.html");
        fs::write(&path, page::html(&view.0.to_string(), None)).unwrap();
        browser.open(&path, "");
        let mut page = Self { browser, _folder: folder };
        page.drawn();
        page
    }

    fn eval(&mut self, expression: &str) -> Value {
        self.browser.eval(expression)
    }

    fn text(&mut self, selector: &str) -> String {
        self.eval(&format!("document.querySelector({selector:?}).innerText")).as_str().unwrap().to_owned()
    }

    fn texts(&mut self, selector: &str) -> Vec<String> {
        let texts =
            self.eval(&format!("[...document.querySelectorAll({selector:?})].map((each) => each.innerText)"));
        serde_json::from_value(texts).unwrap()
    }

    /// Waits until what was asked for is drawn.
    fn drawn(&mut self) {
        self.eval("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))");
    }

    /// Goes to another address. The page hears of it later.
    fn go(&mut self, address: &str) {
        let heard = "addEventListener('hashchange', () => done(true), { once: true })";
        self.eval(&format!("new Promise((done) => {{ {heard}; location.hash = '{address}'; }})"));
        self.drawn();
    }

    fn mouse(&mut self, kind: &str, x: f64, y: f64, modifiers: u32) {
        let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1, "modifiers": modifiers });
        self.browser.call("Input.dispatchMouseEvent", event);
    }

    fn click(&mut self, selector: &str, modifiers: u32) {
        let [x, y, width, height] = self.place(selector);
        let (x, y) = (x + width / 2.0, y + height / 2.0);
        self.mouse("mousePressed", x, y, modifiers);
        self.mouse("mouseReleased", x, y, modifiers);
        self.drawn();
    }

    fn press(&mut self, key: &str) {
        self.browser.press(key);
        self.drawn();
    }

    fn search(&mut self, text: &str) {
        self.press("/");
        self.browser.call("Input.insertText", json!({ "text": text }));
        self.drawn();
    }

    /// The calls of all rows from the first to the last, each with its level.
    fn rows(&mut self) -> Vec<(usize, u64)> {
        let rows = self.eval(
            "(async () => {
                const tree = document.getElementById('tree'), seen = new Map();
                const drawn = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
                for (let top = 0; top === 0 || top < tree.scrollHeight; top += tree.clientHeight - 100) {
                    tree.scrollTop = top;
                    await drawn();
                    for (const row of document.querySelectorAll('#rows .row')) {
                        const call = Number(row.id.slice('call-'.length));
                        seen.set(Number(row.getAttribute('aria-rowindex')), [call, Number(row.getAttribute('aria-level'))]);
                    }
                }
                tree.scrollTop = 0;
                await drawn();
                return [...seen].sort(([a], [b]) => a - b).map(([, row]) => row);
            })()",
        );
        serde_json::from_value(rows).unwrap()
    }

    fn shown(&mut self) -> Vec<usize> {
        self.rows().into_iter().map(|(call, _)| call).collect()
    }

    /// Brings a call's row in sight and clicks it.
    fn click_call(&mut self, view: &View, call: usize, modifiers: u32) {
        let row = view.tree(|_| true).iter().position(|each| *each == call).unwrap();
        self.eval(&format!("document.getElementById('tree').scrollTop = {}", (row * 22).saturating_sub(200)));
        self.drawn();
        self.click(&format!("#call-{call} .name b"), modifiers);
    }

    /// The call that is looked at, if it is in sight.
    fn cursor(&mut self) -> Option<usize> {
        let cursor = self.eval(
            "(() => {
                const tree = document.getElementById('tree'), row = document.querySelector('.row.cursor');
                if (!row || row.id !== tree.getAttribute('aria-activedescendant')) return null;
                const [outer, inner] = [tree.getBoundingClientRect(), row.getBoundingClientRect()];
                return inner.top >= outer.top && inner.bottom <= outer.bottom + 1 ? Number(row.id.slice('call-'.length)) : null;
            })()",
        );
        cursor.as_u64().map(|call| call as usize)
    }

    /// Where an element is: left, top, width and height.
    fn place(&mut self, selector: &str) -> [f64; 4] {
        let place = self.eval(&format!(
            "(({{ x, y, width, height }}) => [x, y, width, height])(document.querySelector({selector:?}).getBoundingClientRect())",
        ));
        serde_json::from_value(place).unwrap()
    }

    /// Drags over an element from one share of its width to another.
    fn drag(&mut self, selector: &str, from: f64, to: f64) {
        let [x, y, width, _] = self.place(selector);
        let y = y + 10.0;
        self.mouse("mousePressed", x + width * from, y, 0);
        self.mouse("mouseMoved", x + width * (from + to) / 2.0, y, 0);
        self.mouse("mouseMoved", x + width * to, y, 0);
        self.mouse("mouseReleased", x + width * to, y, 0);
        self.drawn();
    }

    /// The range of time that is shown, as shares of the whole. It is written with four digits.
    fn range(&mut self, view: &View) -> (f64, f64) {
        let text = self.text("#range");
        let time = |text: &str| {
            let (number, unit) = text.split_once(' ').unwrap();
            let unit = [("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)]
                .into_iter()
                .find(|(name, _)| *name == unit);
            number.parse::<f64>().unwrap() * unit.unwrap().1 / view.end() as f64
        };
        text.split_once(" – ").map_or((0.0, 1.0), |(from, to)| (time(from), time(to)))
    }

    /// Lets through only one value of a column.
    fn only(&mut self, column: &str, value: i64) {
        self.click(&format!("#filter-{column}"), 0);
        self.click(&format!("#menu-{column} [data-value='{value}'] .only"), 0);
        self.press("Escape");
    }

    /// The data that stands beside the tree, by name.
    fn data(&mut self) -> Value {
        self.eval("Object.fromEntries([...document.querySelectorAll('.data dt')].map((name) => [name.innerText, name.nextSibling.innerText]))")
    }

    /// Unfolds what is below 1 %, so that each call of the life has a line.
    fn unfold(&mut self) {
        while self.eval("document.querySelector('.little[aria-expanded=false]')?.click() ?? document.querySelectorAll('.little[aria-expanded=false]').length") != 0 {
            self.drawn();
        }
    }

    /// The calls that the life is told with.
    fn steps(&mut self) -> Vec<usize> {
        self.unfold();
        let steps = self.eval(
            "[...document.querySelectorAll('.step[data-calls]')].map((step) => Number(step.dataset.calls))",
        );
        serde_json::from_value(steps).unwrap()
    }

    /// What the page writes in each line of the life: a call's number or nothing for a gap, and the time.
    fn times(&mut self) -> Vec<(Option<usize>, String)> {
        self.unfold();
        let times = self.eval(
            "[...document.querySelectorAll('.step:is(.gap, [data-calls])')].map((step) =>
                [step.dataset.calls ? Number(step.dataset.calls) : null, step.querySelector('.self').innerText])",
        );
        serde_json::from_value(times).unwrap()
    }

    fn done(mut self) {
        assert_eq!(self.browser.wrong(), [""; 0]);
    }
}

/// As the page writes times: four digits, in the unit that suits.
fn brief(ns: i64) -> String {
    let (unit, name) = match ns {
        1_000_000_000.. => (1_000_000_000, "s"),
        1_000_000.. => (1_000_000, "ms"),
        1_000.. => (1_000, "µs"),
        _ => (1, "ns"),
    };
    let least = 10_i64.pow((ns.ilog10() + 1).saturating_sub(4));
    let rounded = (ns + least / 2) / least * least;
    format!("{} {name}", rounded as f64 / unit as f64)
}

/// As the page writes times in columns: three decimals, in the unit that suits.
fn exact(ns: i64) -> String {
    match ns {
        1_000_000_000.. => format!("{:.3} s", ns as f64 / 1e9),
        1_000_000.. => format!("{:.3} ms", ns as f64 / 1e6),
        1_000.. => format!("{:.3} µs", ns as f64 / 1e3),
        _ => format!("{ns} ns"),
    }
}

#[test]
fn it_loads_and_fits_and_can_be_read_in_light_and_dark() {
    let mut view = View::real();
    view.0["lost"] = json!([1200, 34]);
    view.0["suppressed"] = json!(5);
    view.0["lives"][2]["end"] = json!(-1);
    let mut page = Page::open(&view);
    let facts = page.text("#facts");
    assert!(facts.starts_with("445 calls · 16 lives · 45 functions"), "{facts}");
    let losses = page.text("#losses");
    assert!(losses.contains("1,234 events") && losses.contains("CPU 0: 1,200, CPU 1: 34"), "{losses}");
    assert!(losses.contains("skipped 5 calls"), "{losses}");
    page.click_call(&view, 12, 0);
    page.press(" ");
    page.search("bio");
    for (width, height, scheme) in [
        (390, 844, "light"),
        (390, 844, "dark"),
        (800, 900, "dark"),
        (1280, 800, "light"),
        (1280, 800, "dark"),
        (1920, 1080, "light"),
        (1920, 1080, "dark"),
    ] {
        page.browser.size(width, height);
        page.browser.scheme(scheme);
        page.drawn();
        let fits = "[document.documentElement, document.body, ...document.querySelectorAll('header, #toolbar, #tree, #detail')]
            .filter((part) => part.scrollWidth > part.clientWidth).map((part) => part.id || part.tagName)";
        assert_eq!(page.eval(fits), json!([]), "{scheme}, {width} px: wider than it may be");
        if width < 400 || width == 1280 {
            assert_eq!(page.browser.barriers(), [""; 0], "{scheme}, {width} px");
        }
        assert_eq!(page.eval(OVERLAPS), json!([]), "{scheme}, {width} px: one above the other");
        let name = page.place("#rows .name")[2];
        assert!(name > 0.4 * f64::from(width).min(750.0), "{width} px: no room for functions: {name} px");
        // Each operation has bars in its colour.
        for (nth, operation) in page.texts("#legend span").iter().take(3).enumerate() {
            assert_eq!(*operation, view.0["operations"][nth]);
            assert_eq!(page.eval(&has_bars(nth + 1)), true, "{scheme}: no bar is a {operation}");
        }
    }
    page.done();
}

/// The pairs of texts of which one covers a part of the other, as far as both can be seen.
const OVERLAPS: &str = "(() => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), seen = [], overlaps = [];
    while (texts.nextNode()) {
        const node = texts.currentNode, range = document.createRange();
        if (!node.data.trim() || !node.parentElement.checkVisibility({ opacityProperty: true })) continue;
        range.selectNodeContents(node);
        for (let { left, top, right, bottom } of range.getClientRects()) {
            for (let part = node.parentElement; part; part = part.parentElement) {
                if (getComputedStyle(part).overflow === 'visible') continue;
                const cut = part.getBoundingClientRect();
                [left, top] = [Math.max(left, cut.left), Math.max(top, cut.top)];
                [right, bottom] = [Math.min(right, cut.right), Math.min(bottom, cut.bottom)];
            }
            // The head of the tree is above its rows.
            const isHidden = node.parentElement.closest('#rows') && top < document.querySelector('.row.head').getBoundingClientRect().bottom;
            if (right - left > 1 && bottom - top > 1 && !isHidden) seen.push({ left, top: top + 2, right, bottom: bottom - 2, node });
        }
    }
    for (const [nth, a] of seen.entries()) for (const b of seen.slice(0, nth)) {
        const [wide, tall] = [Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)];
        if (a.node !== b.node && wide > 1 && tall > 1) overlaps.push(a.node.data + ' and ' + b.node.data);
    }
    return overlaps;
})()";

/// Whether any dot of the axis has the colour that the legend's nth line explains.
fn has_bars(nth: usize) -> String {
    format!(
        "(() => {{
            const bars = document.getElementById('bars'), {{ data }} = bars.getContext('2d').getImageData(0, 0, bars.width, bars.height);
            const swatch = document.querySelector('#legend span:nth-child({nth}) i');
            const colour = getComputedStyle(swatch).backgroundColor.match(/\\d+/g).map(Number);
            for (let at = 0; at < data.length; at += 4) if (colour.every((part, nth) => data[at + nth] === part)) return true;
            return false;
        }})()"
    )
}

#[test]
fn a_click_shows_the_call_and_the_whole_life_of_its_object() {
    let mut view = View::real();
    let failed = view.life(4);
    let (first, last) = (failed[0], *failed.last().unwrap());
    view.0["calls"]["status"][last] = json!(10);
    view.0["lives"][4]["status"] = json!(10);
    view.0["calls"]["cpu"][last] = json!(1 - view.number("cpu", last));
    view.0["calls"]["duration"][first] = json!(-1);
    let submit_bio = view.number("function", first) as usize;
    view.0["functions"][submit_bio]["source"] = json!("block/blk-core.c:905");
    let start = view.0["start_ns"].as_i64().unwrap();
    let mut page = Page::open(&view);
    for life in 0..view.0["lives"].as_array().unwrap().len() {
        let calls = view.life(life);
        let call = calls[0];
        page.click_call(&view, call, 0);
        assert_eq!(page.cursor(), Some(call));
        let (data, number) = (page.data(), |column| view.number(column, call));
        let device = &view.0["devices"][number("device") as usize];
        let flags = view.0["flag_names"][number("flags") as usize].as_str().unwrap();
        let operation = view.0["operations"][number("operation") as usize].as_str().unwrap();
        let task = &view.0["tasks"][number("task") as usize];
        let seen = number("duration") >= 0;
        let back =
            if seen { (start + view.until(call)).to_string() } else { "its return was not seen".into() };
        for (name, value) in [
            ("class", "struct bio".to_owned()),
            ("address", view.0["objects"][number("object") as usize].as_str().unwrap().to_owned()),
            ("time", format!("{} → {back}", start + number("start"))),
            ("sector", number("sector").to_string()),
            ("bytes", number("bytes").to_string()),
            (
                "action",
                if flags.is_empty() { operation.to_owned() } else { format!("{operation} + {flags}") },
            ),
            (
                "device",
                format!("{} {}", device["number"].as_str().unwrap(), device["name"].as_str().unwrap()),
            ),
            ("error", "0".to_owned()),
            ("pid", format!("{} {}", task["pid"], task["comm"].as_str().unwrap())),
            ("cpu", number("cpu").to_string()),
            ("source", "block/blk-core.c:905".to_owned()),
        ] {
            assert_eq!(data[name], value, "{name} of call {call}: {data}");
        }
        // The life is told call by call.
        assert_eq!(page.steps(), view.story(life));
        let places = view.story(life).into_iter().map(|call| {
            let interrupt = if view.number("interrupt", call) == 1 { "interrupt of " } else { "" };
            format!("CPU {} · {interrupt}{}", view.number("cpu", call), view.task(call))
        });
        let mut places: Vec<String> = places.collect();
        places.dedup();
        assert_eq!(page.texts(".track h4"), places, "life {life}");
        // A click on its last call leads there, on whichever CPU and in whichever task that was.
        let last = *calls.last().unwrap();
        page.click(&format!(".step[data-calls='{last}']"), 0);
        assert_eq!(page.cursor(), Some(last));
        assert!(!page.texts("#rows .row.life").is_empty());
        let status = view.number("status", last);
        assert_eq!(page.data()["error"], status.to_string());
        assert!(page.text("h2.call").starts_with("bio_endio("));
    }
    // What a function returned, and what it did not.
    let returned = |call: usize| view.0["calls"]["returned"][call].clone();
    let call = (0..view.count()).find(|call| !returned(*call).is_null()).unwrap();
    assert_eq!(page.data()["returned"], Value::Null);
    page.click_call(&view, call, 0);
    assert_eq!(page.data()["returned"], returned(call));
    assert!(
        page.text(&format!("#call-{call} .name"))
            .ends_with(&format!(" = {}", returned(call).as_str().unwrap()))
    );
    page.done();
}

#[test]
fn a_bar_shows_where_the_time_of_a_life_went() {
    let view = View::real();
    let lives = view.0["lives"].as_array().unwrap();
    let lasted = |life: usize| lives[life]["end"].as_i64().unwrap() - lives[life]["start"].as_i64().unwrap();
    let mut page = Page::open(&view);
    // At first, it is the longest.
    let longest = (0..lives.len()).max_by_key(|life| lasted(*life)).unwrap();
    let asked = page.text("#asked");
    assert!(asked.starts_with(&format!("Where did {} go?", brief(lasted(longest)))), "{asked}");
    assert!(asked.ends_with("the longest of 16 lives"), "{asked}");
    let (mut outlasting, mut waiting) = (0, 0);
    for life in 0..lives.len() {
        page.click_call(&view, view.life(life)[0], 0);
        assert!(page.text("#asked").starts_with(&format!("Where did {} go?", brief(lasted(life)))));
        let spent = view.spent(life);

        // Own times and gaps are the whole time, and none of it is counted twice.
        let mut expected: Vec<(Option<usize>, String)> =
            spent.own.iter().map(|(call, time)| (Some(*call), exact(*time))).collect();
        expected.extend(spent.gaps.iter().map(|gap| (None, exact(*gap))));
        expected.sort();
        assert_eq!(spent.own.values().sum::<i64>() + spent.gaps.iter().sum::<i64>(), spent.whole);
        let mut times = page.times();
        times.sort();
        assert_eq!(times, expected, "life {life}");

        // The percentages make 100, and none is wrong by more than its last digit.
        let phases = page.texts("#phases > span");
        let mut sum = 0;
        let times = spent.phases.iter().copied().filter(|time| *time > 0);
        for (text, phase) in phases.iter().zip(times.clone()) {
            let (digits, rest) = text.split_once(" % ").unwrap();
            let tenths: i64 = digits.replace('.', "").parse().unwrap();
            sum += tenths;
            assert!(
                (tenths as f64 - 1000.0 * phase as f64 / spent.whole as f64).abs() < 1.0,
                "{text}: {spent:?}"
            );
            assert!(rest.ends_with(&brief(phase)), "{text}: {spent:?}");
        }
        assert_eq!((phases.len(), sum), (times.count(), 1000), "{phases:?}");
        // So does the bar, from one end to the other.
        let widths = page.eval("[...document.querySelectorAll('#split i')].map((part) => [parseFloat(part.style.left), parseFloat(part.style.width)])");
        let widths: Vec<(f64, f64)> = serde_json::from_value(widths).unwrap();
        let end = widths.iter().fold(0.0, |at: f64, (left, width)| {
            assert!((left - at).abs() < 0.001, "life {life}: {widths:?}");
            left + width
        });
        assert!((end - 100.0).abs() < 0.001, "life {life}: {widths:?}");

        // A call can outlast its bio's life, and then the page says why.
        let why = page.text("#why");
        assert!(why.starts_with(&format!("100 % is {}:", brief(spent.whole))), "{why}");
        let late = view.story(life).into_iter().filter(|call| view.until(*call) > spent.to).min();
        let expected =
            late.map(|call| format!("{}() took {}", view.name(call), brief(view.number("duration", call))));
        assert_eq!(why.contains("longer than its bio lived"), late.is_some(), "life {life}: {why}");
        assert!(why.contains(&expected.unwrap_or_default()), "life {life}: {why}");
        outlasting += usize::from(late.is_some());
        waiting += usize::from(!spent.gaps.is_empty());
    }
    assert!(
        outlasting > 0 && outlasting < lives.len(),
        "{outlasting} of the lives have a call that outlasts them"
    );
    assert!(waiting > 0, "no life has a gap");
    page.done();
}

#[test]
fn calls_below_a_percent_are_one_line() {
    let view = View::real();
    let mut page = Page::open(&view);
    let mut folded = 0;
    for life in 0..view.0["lives"].as_array().unwrap().len() {
        page.click_call(&view, view.life(life)[0], 0);
        let whole = view.spent(life).whole as f64;
        let lines: Vec<String> =
            serde_json::from_value(page.eval(
                "[...document.querySelectorAll('.step[data-calls]')].map((step) => step.dataset.calls)",
            ))
            .unwrap();
        let calls: Vec<Vec<usize>> =
            lines.iter().map(|line| line.split(' ').map(|call| call.parse().unwrap()).collect()).collect();
        assert_eq!(calls.concat(), view.story(life), "life {life}: each call is in one line");
        for line in calls.iter().filter(|line| line.len() > 1) {
            folded += 1;
            let long = line.iter().find(|call| view.number("duration", **call) as f64 >= 0.01 * whole);
            assert_eq!(long, None, "life {life}: {line:?}");
        }
        // A short call that is alone in its line has no short one beside it, and calls none.
        for pair in calls.windows(2).filter(|pair| pair.iter().all(|line| line.len() == 1)) {
            let [one, other] = [pair[0][0], pair[1][0]];
            let is_short = |call| (view.number("duration", call) as f64) < 0.01 * whole;
            let beside =
                view.number("parent", one) == view.number("parent", other) || view.is_within(other, one);
            assert!(!(is_short(one) && is_short(other) && beside), "life {life}: {one} and {other}");
        }
    }
    assert!(folded > 0);
    page.done();
}

#[test]
fn each_filter_shows_what_the_data_says() {
    let view = View::real();
    let mut page = Page::open(&view);
    assert_eq!(page.shown(), view.tree(|_| true));
    let levels: Vec<u64> = page.rows().into_iter().map(|(_, level)| level).collect();
    let depths: Vec<u64> =
        view.tree(|_| true).iter().map(|call| view.number("depth", *call) as u64 + 1).collect();
    assert_eq!(levels, depths);
    for column in ["cpu", "task", "function", "device", "operation", "interrupt"] {
        let values: BTreeSet<i64> = (0..view.count()).map(|call| view.number(column, call)).collect();
        assert!(values.len() > 1, "{column} is the same everywhere");
        let menu = format!("#menu-{column}");
        page.click(&format!("#filter-{column}"), 0);
        let offered = page.eval(&format!(
            "[...document.querySelectorAll('{menu} .value')].map((line) => Number(line.dataset.value)).sort((a, b) => a - b)"
        ));
        assert_eq!(offered, json!(values), "{column}");
        // Only one of them; then all; then all but one.
        let (only, without) = (values.first().unwrap(), values.last().unwrap());
        page.click(&format!("{menu} [data-value='{only}'] .only"), 0);
        let expected = view.tree(|call| view.number(column, call) == *only);
        assert_eq!(page.shown(), expected, "only {column} {only}");
        assert_eq!(page.text("#shown"), format!("{} of 445 calls", expected.len()));
        page.click(&format!("{menu} .acts button"), 0);
        assert_eq!(page.text("#shown"), "445 calls");
        page.click(&format!("{menu} [data-value='{without}'] input"), 0);
        let expected = view.tree(|call| view.number(column, call) != *without);
        assert_eq!(page.shown(), expected, "not {column} {without}");
        page.click("#all", 0);
        assert_eq!(page.text("#shown"), "445 calls");
    }
    // A long menu can be searched.
    page.click("#filter-function", 0);
    page.click("#menu-function .acts input", 0);
    page.browser.call("Input.insertText", json!({ "text": "ENDIO" }));
    page.drawn();
    let found = page.texts("#menu-function .value:not([hidden]) .name");
    assert_eq!(
        found.into_iter().collect::<BTreeSet<_>>(),
        BTreeSet::from(["bio_endio".into(), "submit_bio_wait_endio".into()])
    );
    page.click("#shown", 0);
    page.click("#filter-function", 0);
    assert_eq!(page.texts("#menu-function .value:not([hidden])").len(), 45, "opened again, it has all");
    page.press("Escape");
    // Two at once: what passes both, below the nearest caller that does.
    for (column, value) in [("cpu", 0), ("function", view.number("function", view.life(0)[0]))] {
        page.only(column, value);
        let focused = page.eval("document.activeElement.id");
        assert_eq!(focused, format!("filter-{column}"), "Esc closed the menu and left the focus nowhere");
    }
    assert_eq!(
        page.shown(),
        view.tree(|call| view.number("cpu", call) == 0 && view.name(call) == view.name(view.life(0)[0]))
    );
    assert!(page.rows().iter().all(|(_, level)| *level == 1));
    page.click("#all", 0);
    assert_eq!(page.shown(), view.tree(|_| true));
    page.done();
}

#[test]
fn lines_are_selected_searched_and_folded() {
    let view = View::real();
    let order = view.tree(|_| true);
    let selected = |page: &mut Page| {
        page.press("o");
        let shown = page.shown();
        page.press("o");
        shown
    };
    let mut page = Page::open(&view);
    // Between two lines: with the keys that hold, or with the button.
    page.click_call(&view, order[10], 0);
    page.click_call(&view, order[20], SHIFT);
    assert_eq!(selected(&mut page), order[10..=20]);
    page.press("Escape");
    page.click_call(&view, order[30], CTRL);
    page.click_call(&view, order[42], CTRL);
    assert_eq!(selected(&mut page), [order[30], order[42]]);
    page.click("#between", 0);
    assert_eq!(selected(&mut page), order[30..=42]);
    page.click("#only", 0);
    assert_eq!(page.shown(), order[30..=42]);
    assert_eq!(page.text("#only"), "Only selected (13)");
    page.click("#none", 0);
    assert_eq!(page.shown(), order);

    // A life is selected whole.
    let life = view.life(3);
    page.click_call(&view, life[0], 0);
    page.click("#story .take", 0);
    assert_eq!(selected(&mut page), view.tree(|call| life.contains(&call)));
    page.press("Escape");

    // Search: functions, tasks, addresses and sectors; from one to the next, and around.
    let sector = view.0["lives"][0]["sector"].as_i64().unwrap();
    let object = view.0["objects"][0].as_str().unwrap();
    let hits = [
        ("BIO_END", view.tree(|call| view.name(call).contains("bio_end"))),
        ("kworker", view.tree(|call| view.task(call).contains("kworker"))),
        (object, view.tree(|call| view.number("object", call) == 0)),
        (&sector.to_string(), view.tree(|call| view.number("sector", call) == sector)),
        ("no such thing", vec![]),
    ];
    for (text, hits) in hits {
        page.press("Home");
        page.search(text);
        assert!(page.text("#found").ends_with(&hits.len().to_string()), "{text}: {}", page.text("#found"));
        if let Some(next) = hits.iter().find(|call| **call != order[0]) {
            page.press("Enter");
            assert_eq!(page.cursor(), Some(*next), "{text}");
            assert!(page.text("#found").ends_with(&format!("of {}", hits.len())));
            page.press("Escape");
            assert_eq!(page.text("#found"), "");
        } else {
            page.press("Escape");
        }
    }

    // What is folded hides what it called, and only that; a match within opens it.
    let root = view.life(0)[0];
    page.click_call(&view, root, 0);
    page.click(&format!("#call-{root} .fold"), 0);
    assert_eq!(page.shown(), view.tree(|call| !view.is_within(call, root)));
    assert_eq!(
        page.eval(&format!("document.getElementById('call-{root}')?.getAttribute('aria-expanded')")),
        "false"
    );
    page.press("f");
    assert_eq!(page.shown(), view.tree(|call| view.number("parent", call) < 0));
    // The Enter that ends an input method's word does not search, and the next one does.
    page.press("/");
    let before = page.cursor();
    page.browser.compose("blk_mq_submit_bio");
    page.drawn();
    assert_eq!(page.cursor(), before);
    page.press("Enter");
    let found = page.cursor().unwrap();
    assert_eq!(view.name(found), "blk_mq_submit_bio");
    page.press("Escape");
    page.press("u");
    assert_eq!(page.shown(), order);
    page.done();
}

#[test]
fn the_axis_takes_a_range_and_leads_to_a_life() {
    let view = View::real();
    let mut page = Page::open(&view);
    page.drag("#overview", 0.25, 0.5);
    let width = page.place("#overview")[2];
    let shown: BTreeSet<usize> = page.shown().into_iter().collect();
    // A dot is so many nanoseconds: what is nearer to an end of the range may be within or not.
    let (from, to, dot) = (view.end() / 4, view.end() / 2, (view.end() as f64 / width).ceil() as i64);
    let overlaps = |from: i64, to: i64| -> BTreeSet<usize> {
        (0..view.count())
            .filter(|call| view.number("start", *call) <= to && view.until(*call) >= from)
            .collect()
    };
    assert!(overlaps(from + dot, to - dot).is_subset(&shown));
    assert!(shown.is_subset(&overlaps(from - dot, to + dot)));
    assert!(!shown.is_empty() && shown.len() < view.count());
    page.press("Escape");
    assert_eq!(page.shown().len(), view.count());

    // A life fills the axis, and only what overlaps it is shown. Its bar leads back to it.
    for life in [1, 9] {
        let calls = view.life(life);
        page.click_call(&view, calls[0], 0);
        page.press("z");
        let (from, to) = (&view.0["lives"][life]["start"], &view.0["lives"][life]["end"]);
        assert_eq!(
            page.shown().into_iter().collect::<BTreeSet<_>>(),
            overlaps(from.as_i64().unwrap(), to.as_i64().unwrap())
        );
        page.press("End");
        page.click("#mine", 0);
        assert_eq!(page.cursor(), Some(calls[0]));
        page.press("Escape");
    }
    page.done();
}

#[test]
fn the_pointer_moves_and_zooms_the_axis_and_is_told_what_it_is_over() {
    let mut view = View::real();
    view.0["lives"][9]["end"] = json!(-1);
    let mut page = Page::open(&view);
    let near = |(from, to): (f64, f64), (low, high): (f64, f64)| {
        assert!(
            (from - low).abs() < 0.004 && (to - high).abs() < 0.004,
            "{from} to {to}, not {low} to {high}"
        );
    };
    page.drag("#bars", 0.2, 0.4);
    near(page.range(&view), (0.2, 0.4));
    page.drag("#overview", 0.3, 0.6);
    near(page.range(&view), (0.5, 0.7));
    // The wheel zooms, and what is under the pointer stays there.
    let [x, y, width, _] = page.place("#bars");
    let wheel = |page: &mut Page, x: f64, across: i32, down: i32| {
        let event = json!({ "type": "mouseWheel", "x": x, "y": y + 10.0, "deltaX": across, "deltaY": down });
        page.browser.call("Input.dispatchMouseEvent", event);
        page.drawn();
    };
    wheel(&mut page, x + width / 4.0, 0, -100);
    near(page.range(&view), (0.55 - 0.05 / 1.2, 0.55 + 0.15 / 1.2));
    wheel(&mut page, x + width / 4.0, 0, 100);
    near(page.range(&view), (0.5, 0.7));
    wheel(&mut page, x, 500, 0);
    near(page.range(&view), (0.6, 0.8));
    // So do the keys, at the middle.
    page.press("w");
    near(page.range(&view), (0.65, 0.75));
    page.press("d");
    near(page.range(&view), (0.675, 0.775));
    page.press("a");
    page.press("a");
    near(page.range(&view), (0.625, 0.725));
    page.press("s");
    near(page.range(&view), (0.575, 0.775));
    page.press("0");
    near(page.range(&view), (0.0, 1.0));
    // What is under the pointer is told.
    for life in [0, 9, 13] {
        page.click_call(&view, view.life(life)[0], 0);
        let [x, y, width, height] = page.place("#mine");
        page.mouse("mouseMoved", x + width / 2.0, y + height / 2.0, 0);
        page.drawn();
        let life = &view.0["lives"][life];
        let name = |table: &str, key: &str| view.0[table][life[key].as_u64().unwrap() as usize].clone();
        let tip = page.text("#tip");
        assert!(tip.starts_with(name("operations", "operation").as_str().unwrap()), "{tip}");
        assert!(
            tip.contains(&format!(
                "sector {} · {}",
                life["sector"],
                name("devices", "device")["name"].as_str().unwrap()
            )),
            "{tip}"
        );
        let (start, end) = (life["start"].as_i64().unwrap(), life["end"].as_i64().unwrap());
        let lasted = if end < 0 { "end not seen".into() } else { brief(end - start) };
        assert!(tip.ends_with(&lasted), "{tip}");
    }
    page.done();
}

#[test]
fn the_overview_shows_how_many_bios_are_in_flight() {
    let view = View::real();
    let mut page = Page::open(&view);
    let lives = view.0["lives"].as_array().unwrap();
    // Each call of submit_bio() begins a flight.
    let submits = (0..view.count()).filter(|call| view.name(*call) == "submit_bio").count();
    assert_eq!(submits, lives.len());
    let number = |name: &str, life: &Value| life[name].as_i64().unwrap();
    let most_in = |operation: Option<i64>, from: i64, to: i64| {
        let flights =
            lives.iter().filter(|life| operation.is_none_or(|operation| life["operation"] == operation));
        let flights: Vec<_> = flights.map(|life| (number("start", life), number("end", life))).collect();
        let at = |time: i64| flights.iter().filter(|(start, end)| *start <= time && time < *end).count();
        let begun = flights.iter().map(|(start, _)| *start).filter(|start| (from..=to).contains(start));
        let most = begun.chain([from]).map(at).max().unwrap();
        let time: i64 = flights.iter().map(|(start, end)| (end.min(&to) - start.max(&from)).max(0)).sum();
        (most, format!("in flight: at most {most}, on average {:.2}", time as f64 / (to - from) as f64))
    };
    assert_eq!(page.text("#inflight"), most_in(None, 0, view.end()).1);
    // In the range of one life.
    page.click_call(&view, view.life(9)[0], 0);
    page.press("z");
    let (from, to) = (number("start", &lives[9]), number("end", &lives[9]));
    assert_eq!(page.text("#inflight"), most_in(None, from, to).1);
    page.press("0");
    page.press("Escape");
    // What is filtered out isn't counted, and the range doesn't matter.
    page.only("operation", 1);
    assert_eq!(page.text("#inflight"), most_in(Some(1), 0, view.end()).1);
    page.drag("#overview", 0.1, 0.5);
    // How many dots of each column are covered, above the line that frames the range.
    let dots: Vec<usize> = serde_json::from_value(page.eval(
        "(() => {
            const { width, height } = overview, { data } = overview.getContext('2d').getImageData(0, 0, width, height);
            return Array.from({ length: width }, (_, x) =>
                Array.from({ length: height - 6 }, (_, y) => data[((y + 3) * width + x) * 4 + 3]).filter((alpha) => alpha > 250).length);
        })()",
    ))
    .unwrap();
    let (all, _) = most_in(Some(1), 0, view.end());
    let (mut strict, dot) = (0, view.end() as f64 / dots.len() as f64);
    for (x, dots) in dots.iter().enumerate() {
        let framed = [0.1, 0.5].iter().any(|end| (end * 1256.0 - x as f64).abs() < 4.0);
        let time = |dots: f64| ((x as f64 + dots) * dot) as i64;
        let tall = |most: usize| (most as f64 / all as f64 * 30.0 - 3.0).clamp(0.0, 26.0);
        // Where one begins or ends, only a part of the column may be covered.
        let (from, to) = (time(-1.0), time(2.0));
        let begins =
            |life: &&Value| ["start", "end"].iter().any(|name| (from..=to).contains(&number(name, life)));
        let is_step = lives.iter().filter(|life| life["operation"] == 1).any(|life| begins(&life));
        let high = tall(most_in(Some(1), from, to).0);
        let low = if is_step { 0.0 } else { high };
        let fits = (low - 1.0..=high + 1.0).contains(&(*dots as f64));
        assert!(framed || fits, "column {x} has {dots} dots, not {low} to {high}");
        strict += usize::from(!framed && low > 0.0);
    }
    assert!(strict > 20, "{strict} columns are within a step");
    page.done();
}

#[test]
fn tracks_have_each_call_below_its_caller_and_an_arrow_to_the_end() {
    let view = View::real();
    let mut page = Page::open(&view);
    let ends_slowly = |life: &usize| {
        let last = *view.life(*life).last().unwrap();
        view.number("duration", last) * 30 > view.spent(*life).whole
    };
    let lives: Vec<usize> = (0..16).filter(ends_slowly).take(2).collect();
    assert_eq!(lives.len(), 2);
    for (lanes, life) in [("cpu", lives[0]), ("task", lives[0]), ("task", lives[1])] {
        let spent = view.spent(life);
        let (from, to) = (spent.to - spent.whole, spent.to);
        let (first, last) = (view.life(life)[0], *view.life(life).last().unwrap());
        page.go(&format!("#call={first}&from={from}&to={to}&lanes={lanes}"));
        page.browser
            .until(&format!("document.querySelector('h2.call') && document.getElementById('call-{first}')"));
        page.drawn();
        let [left, top, width, height] = page.place("#bars");
        let x = |time: i64| (time - from) as f64 / (to - from) as f64 * width;
        let until = |call: usize| view.until(call).min(to);
        let wide: Vec<usize> = view
            .story(life)
            .into_iter()
            .filter(|call| (until(*call) - view.number("start", *call)) * 40 >= to - from)
            .collect();
        // What is told over the middle of each, in all rows.
        let places: Vec<f64> =
            wide.iter().map(|call| left + x((view.number("start", *call) + until(*call)) / 2)).collect();
        let tips = page.eval(&format!(
            "{places:?}.map((clientX) => Array.from({{ length: {} }}, (_, row) => {{
                bars.dispatchEvent(new PointerEvent('pointermove', {{ clientX, clientY: {top} + 18 + 15 * row + 7 }}));
                return tip.hidden ? '' : tip.textContent;
            }}))",
            ((height - 18.0) / 15.0) as usize
        ));
        let tips: Vec<Vec<String>> = serde_json::from_value(tips).unwrap();
        let mut rows: BTreeMap<usize, usize> = BTreeMap::new();
        for (call, tips) in wide.iter().zip(&tips) {
            let told = format!(
                "{} · {} · {}",
                view.name(*call),
                brief(view.number("duration", *call)),
                view.task(*call)
            );
            let row = tips.iter().position(|tip| *tip == told);
            assert!(row.is_some(), "{lanes}, life {life}: no slice is {told}: {tips:?}");
            rows.insert(*call, row.unwrap());
            // It is below its caller.
            let caller = usize::try_from(view.number("parent", *call)).ok().and_then(|call| rows.get(&call));
            assert!(
                caller.is_none_or(|row| *row + 1 == rows[call]),
                "{lanes}, life {life}: {told}: {rows:?}"
            );
        }
        assert!(rows.len() > 3, "{rows:?}");
        // In the middle of an arrow, its two bows meet.
        let middle = |call: usize| 18.0 + 15.0 * rows[&call] as f64 + 7.5;
        let (across, down) =
            ((x(from) + x(view.number("start", last)) - 1.0) / 2.0, (middle(first) + middle(last)) / 2.0);
        let is_inked = format!(
            "(({{ data }}) => {{
                for (let at = 0; at < data.length; at += 4) if (data[at] + data[at + 1] + data[at + 2] < 180 && data[at + 3] > 200) return true;
                return false;
            }})(bars.getContext('2d').getImageData({} - 1, {} - 1, 3, 3))",
            across.round(),
            down.round()
        );
        assert_eq!(page.eval(&is_inked), true, "{lanes}, life {life}: no arrow at {across}, {down}");
        // A click leads to the call.
        page.mouse("mousePressed", left + x(until(last)) - 8.0, top + middle(last), 0);
        page.mouse("mouseReleased", left + x(until(last)) - 8.0, top + middle(last), 0);
        page.drawn();
        assert_eq!(page.cursor(), Some(last));
    }
    page.done();
}

#[test]
fn the_figures_of_the_recording_are_those_of_its_lives() {
    let mut view = View::of_calls(4450);
    let lives = view.0["lives"].as_array_mut().unwrap();
    for (nth, life) in lives.iter_mut().enumerate() {
        // None lasts as long as another, and of some the end was not seen.
        let end = life["end"].as_i64().unwrap() + 1_000_000 * (nth as i64 * 37 % 160);
        life["end"] = json!(if nth % 20 == 7 { -1 } else { end });
    }
    let lives = view.0["lives"].as_array().unwrap();
    let lasted = |life: &Value| life["end"].as_i64().unwrap() - life["start"].as_i64().unwrap();
    let ended = |life: &&Value| life["end"] != -1;
    let mut page = Page::open(&view);
    let rows: Vec<Vec<String>> = serde_json::from_value(page.eval(
        "[...document.querySelectorAll('.sums tr')].slice(1).map((row) => [...row.cells].map((cell) => cell.innerText))",
    ))
    .unwrap();
    assert_eq!(rows.len(), 3);
    for (nth, row) in rows.iter().enumerate() {
        let mine: Vec<&Value> = lives.iter().filter(|life| life["operation"] == nth).collect();
        let times: Vec<i64> = mine.iter().copied().filter(ended).map(lasted).collect();
        // The least time that so many of a hundred did not exceed.
        let percentile = |percent: usize| {
            let enough =
                |time: &&i64| times.iter().filter(|each| each <= time).count() * 100 >= percent * times.len();
            brief(*times.iter().filter(enough).min().unwrap())
        };
        let bytes: i64 = mine.iter().map(|life| life["bytes"].as_i64().unwrap()).sum();
        let kib = bytes as f64 / 1024.0;
        let bytes = match nth {
            0 => format!("{kib} KiB"),
            1 => format!("{:.2} MiB", kib / 1024.0),
            _ => "0 B".into(),
        };
        let name = view.0["operations"][nth].as_str().unwrap().to_owned();
        let expected = [name, mine.len().to_string(), bytes, percentile(50), percentile(99), percentile(100)];
        assert_eq!(*row, expected);
    }
    assert_ne!(rows[1][4], rows[1][5], "so few writes that the 99th percentile is the longest");
    let mut slowest: Vec<&Value> = lives.iter().filter(ended).collect();
    slowest.sort_by_key(|life| -lasted(life));
    let listed: Vec<String> = page.texts(".longest td button");
    let expected: Vec<String> =
        slowest[..12].iter().map(|life| format!("{:.3} ms", lasted(life) as f64 / 1e6)).collect();
    assert_eq!(listed, expected);
    // A click anywhere in its line leads to a life.
    page.click(".longest tr:nth-child(3) td:last-child", 0);
    assert_eq!(page.cursor().map(|call| json!(call)), Some(slowest[1]["calls"][0].clone()));
    page.done();
}

#[test]
fn the_figures_are_those_of_the_range_and_lives_can_be_sorted() {
    let view = View::real();
    let lives = view.0["lives"].as_array().unwrap();
    let number = |name: &str, life: usize| lives[life][name].as_i64().unwrap();
    let lasted = |life: usize| number("end", life) - number("start", life);
    let mut page = Page::open(&view);
    page.click_call(&view, view.life(9)[0], 0);
    for range in [(0, view.end()), (number("start", 9), number("end", 9))] {
        let inside = |life: &usize| number("start", *life) <= range.1 && number("end", *life) >= range.0;
        let inside: Vec<usize> = (0..lives.len()).filter(inside).collect();
        // How many there are of each kind.
        let rows = page.texts(".sums tr td:nth-child(2)");
        let counts =
            (0..3).map(|kind| inside.iter().filter(|life| lives[**life]["operation"] == kind).count());
        let counts: Vec<String> = counts.filter(|count| *count > 0).map(|count| count.to_string()).collect();
        assert_eq!(rows, counts);
        // Where all their time went, in percent.
        let mut sums = [0; 5];
        for life in &inside {
            sums.iter_mut().zip(view.spent(*life).phases).for_each(|(sum, phase)| *sum += phase);
        }
        let note = page.text(".sums + .note");
        let tenths: Vec<i64> = note
            .split([' ', ':'])
            .filter(|word| word.contains('.') && word.starts_with(|first: char| first.is_ascii_digit()))
            .map(|word| word.replace('.', "").parse().unwrap())
            .collect();
        let times = sums.iter().copied().filter(|time| *time > 0);
        assert_eq!((tenths.len(), tenths.iter().sum::<i64>()), (times.clone().count(), 1000), "{note}");
        for (tenths, sum) in tenths.iter().zip(times) {
            let exact = 1000.0 * sum as f64 / sums.iter().sum::<i64>() as f64;
            assert!((*tenths as f64 - exact).abs() < 1.0, "{note}: {sums:?}");
        }
        // How many lasted how long.
        let columns = page.eval("[...document.querySelectorAll('.histogram span')].map((column) => [column.title, column.children[0].innerText, column.children[1].offsetHeight])");
        let columns: Vec<(String, String, f64)> = serde_json::from_value(columns).unwrap();
        let mut counted = 0;
        let most = columns.iter().map(|(.., tall)| *tall).fold(0.0, f64::max);
        let mut numbers = Vec::new();
        for (title, written, tall) in &columns {
            let (from, rest) = title.split_once(" to ").unwrap();
            let (to, number) = rest.split_once(": ").unwrap();
            let time = |text: &str| {
                let (digits, unit) = text.split_once(' ').unwrap();
                let unit = [("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1000)]
                    .iter()
                    .find(|(name, _)| *name == unit);
                digits.parse::<i64>().unwrap() * unit.unwrap().1
            };
            let count = inside.iter().filter(|life| (time(from)..time(to)).contains(&lasted(**life))).count();
            assert_eq!(number.split(' ').next().unwrap(), count.to_string(), "{title}");
            assert_eq!(*written, if count > 0 { count.to_string() } else { String::new() });
            numbers.push((count, *tall));
            counted += count;
        }
        assert_eq!(counted, inside.len());
        let highest = numbers.iter().map(|(count, _)| *count).max().unwrap();
        for (count, tall) in numbers {
            assert!((tall / most - count as f64 / highest as f64).abs() < 0.03, "{columns:?}");
        }
        page.press("z");
    }
    page.press("0");
    // By sector, down and up, and by what others chose.
    let shares = |life: usize| {
        let spent = view.spent(life);
        (100 * spent.phases[2] + spent.whole / 2) / spent.whole
    };
    let by = |key: &dyn Fn(usize) -> i64, down: bool| {
        let mut keys: Vec<i64> = (0..lives.len()).map(key).collect();
        keys.sort_unstable();
        if down {
            keys.reverse();
        }
        keys.truncate(12);
        keys
    };
    let sector = |life: usize| number("sector", life);
    for (column, down, expected) in [
        (5, true, by(&sector, true).iter().map(ToString::to_string).collect::<Vec<_>>()),
        (5, false, by(&sector, false).iter().map(ToString::to_string).collect()),
        (3, true, by(&shares, true).iter().map(|share| format!("{share} %")).collect()),
        (2, true, by(&lasted, true).iter().map(|time| exact(*time)).collect()),
        (2, false, by(&lasted, false).iter().map(|time| exact(*time)).collect()),
    ] {
        page.click(&format!(".longest th:nth-child({column}) button"), 0);
        assert_eq!(page.texts(&format!(".longest td:nth-child({column})")), expected, "{column} {down}");
        let sorted =
            page.eval("[...document.querySelectorAll('.longest th')].map((head) => head.ariaSort).join(' ')");
        let mut ways = ["none"; 6];
        ways[column - 1] = if down { "descending" } else { "ascending" };
        assert_eq!(sorted, ways.join(" "));
    }
    page.done();
}

#[test]
fn an_address_shows_the_same_again() {
    let view = View::real();
    let mut page = Page::open(&view);
    let call = view.life(9)[0];
    page.eval("document.querySelector('.longest th:nth-child(5) button').click()");
    page.click("#kinds button:nth-child(3)", 0);
    page.click_call(&view, call, 0);
    page.press("z");
    page.only("operation", view.number("operation", call));
    page.search("submit");
    let now = "[document.querySelector('#range').innerText, document.querySelector('#shown').innerText, document.querySelector('#search').value,
        document.querySelector('h2.call').innerText, document.querySelector('[aria-pressed=true]').innerText,
        document.querySelector('.longest th:nth-child(5)').ariaSort, document.querySelector('#found').innerText]";
    let before = page.eval(now);
    assert_eq!(before[5], "descending");
    // The page waits for a pause before it changes its address.
    let written = format!(
        "new Promise((done) => {{
            const look = () => (['call={call}&', 'search=submit', 'no-operation='].every((part) => location.hash.includes(part)) ? done(true) : setTimeout(look, 20));
            look();
        }})"
    );
    page.eval(&written);
    let shown = page.shown();
    page.browser.loading(|browser| _ = browser.call("Page.reload", json!({})));
    page.drawn();
    assert_eq!(page.eval(now), before);
    assert_eq!(page.shown(), shown);
    // An address of something else does no harm.
    page.go("#call=99999&from=7&to=3&lanes=x&sort=-x&no-cpu=77+x&no-nothing=1&search=%3Cb%3E");
    page.press("Escape");
    assert_eq!(page.shown(), view.tree(|_| true));
    assert_eq!(page.cursor(), None);
    page.done();
}

#[test]
fn the_page_saves_the_trace_that_the_command_writes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tree = Tree::new(Recording::read(&root.join("docs/src/ctracer.rec")).unwrap());
    let expected: Value = serde_json::from_str(&perfetto::trace(&tree).unwrap()).unwrap();
    let mut page = Page::open(&View(serde_json::to_value(ctracer::view::json::View::of(&tree)).unwrap()));
    page.eval("URL.createObjectURL = (file) => { window.file = file; return 'data:,'; }, 0");
    page.click("#perfetto", 0);
    assert!(page.text("#saved").contains("ui.perfetto.dev"));
    let saved = page.eval("file.text()");
    let saved: Value = serde_json::from_str(saved.as_str().unwrap()).unwrap();
    let (saved, expected) = (numbers_as_floats(saved), numbers_as_floats(expected));
    let events = |trace: &Value| trace["traceEvents"].as_array().unwrap().clone();
    let named = |trace: &Value| -> BTreeSet<String> {
        events(trace).iter().filter(|event| event["ph"] == "M").map(ToString::to_string).collect()
    };
    assert_eq!(named(&saved), named(&expected));
    let others =
        |trace: &Value| events(trace).into_iter().filter(|event| event["ph"] != "M").collect::<Vec<_>>();
    assert!(others(&saved).len() > 800);
    for (one, other) in others(&saved).iter().zip(others(&expected)) {
        assert_eq!(*one, other);
    }
    assert_eq!(others(&saved).len(), others(&expected).len());
    page.done();
}

/// JavaScript has only one kind of numbers.
fn numbers_as_floats(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(values) => values.into_iter().map(numbers_as_floats).collect(),
        Value::Object(values) => {
            Value::Object(values.into_iter().map(|(name, value)| (name, numbers_as_floats(value))).collect())
        }
        other => other,
    }
}

#[test]
fn all_can_be_done_with_keys() {
    let view = View::real();
    let order = view.tree(|_| true);
    let mut page = Page::open(&view);
    page.browser.size(1280, 800);
    page.drawn();
    let root = order.iter().position(|call| *call == view.life(1)[0]).unwrap();
    for _ in 0..=root {
        page.browser.press("ArrowDown");
    }
    page.drawn();
    assert_eq!(page.cursor(), Some(order[root]));
    let outline = "getComputedStyle(document.querySelector('.row.cursor')).outlineStyle";
    assert_eq!(page.eval(outline), "solid", "where the keys work can't be seen");
    assert!(page.text("h2.call").starts_with("submit_bio("));
    page.press("ArrowRight");
    assert_eq!(page.cursor(), Some(order[root + 1]));
    page.press("ArrowLeft");
    assert_eq!(page.cursor(), Some(order[root + 1]), "its own calls are folded first");
    page.press("ArrowLeft");
    assert_eq!(page.cursor(), Some(order[root]));
    page.press("ArrowLeft");
    assert_eq!(page.eval("document.querySelector('.row.cursor').getAttribute('aria-expanded')"), "false");
    page.press("ArrowRight");
    page.press("u");
    page.press("]");
    assert_eq!(page.cursor(), Some(view.life(1)[1]));
    page.press("[");
    assert_eq!(page.cursor(), Some(view.life(1)[0]));
    page.press("Enter");
    assert_eq!(page.eval("document.querySelector('.row.cursor').getAttribute('aria-selected')"), "true");
    page.press("ArrowDown");
    page.press("ArrowDown");
    page.press("b");
    page.press("o");
    assert_eq!(page.shown(), order[root..=root + 2]);
    page.press("Escape");
    page.press("End");
    assert_eq!(page.cursor(), order.last().copied());
    page.press("PageUp");
    page.press("Home");
    assert_eq!(page.cursor(), Some(order[0]));
    page.press("?");
    page.browser.until("document.getElementById('keys').open");
    page.press("Escape");
    page.browser.until("!document.getElementById('keys').open");
    page.press("Escape");
    assert_eq!(page.cursor(), None);
    // What a reader is told of the tree who can't see it.
    let roles =
        "[...document.querySelectorAll('#tree, #tree [role]')].map((part) => part.getAttribute('role'))";
    let roles: BTreeSet<String> = serde_json::from_value(page.eval(roles)).unwrap();
    assert_eq!(
        roles.into_iter().collect::<Vec<_>>(),
        ["columnheader", "gridcell", "row", "rowgroup", "treegrid"]
    );
    assert_eq!(page.eval("document.getElementById('tree').getAttribute('aria-rowcount')"), "446");
    page.done();
}

#[test]
fn a_hundred_thousand_calls_stay_smooth() {
    let view = View::of_calls(100_000);
    // What counts is what the page itself costs: on a machine that is busy with other tests, all takes longer.
    let busy = |page: &mut Page, metric: &str| {
        let metrics = page.browser.call("Performance.getMetrics", json!({}));
        let metrics = metrics["metrics"].as_array().unwrap();
        metrics.iter().find(|each| each["name"] == metric).unwrap()["value"].as_f64().unwrap() * 1e3
    };
    let mut page = Page::open(&view);
    page.browser.call("Performance.enable", json!({ "timeDomain": "threadTicks" }));
    page.browser.size(1280, 800);
    page.browser.loading(|browser| _ = browser.call("Page.reload", json!({})));
    page.drawn();
    let load = busy(&mut page, "TaskDuration");
    // What this machine, and this browser, take for as many records without a page: how fast they are is not the page's merit.
    let mut yardstick: f64 = 0.0;
    for _ in 0..3 {
        let before = busy(&mut page, "TaskDuration");
        page.eval(
            "JSON.parse(JSON.stringify(Array.from({ length: 1e5 }, (_, nth) => [nth, String(nth), { nth }]))).length",
        );
        yardstick = yardstick.max(busy(&mut page, "TaskDuration") - before);
    }
    assert!(load < 30.0 * yardstick, "loading took {load:.0} ms, as many records {yardstick:.0} ms");
    let count = view.count();
    assert_eq!(
        page.eval("document.getElementById('tree').getAttribute('aria-rowcount')"),
        (count + 1).to_string()
    );
    page.eval(
        "window.long = [], new PerformanceObserver((list) => long.push(...list.getEntries().map((task) => task.duration))).observe({ type: 'longtask' }), 0",
    );
    let mut before = busy(&mut page, "TaskDuration");
    let mut smooth = |page: &mut Page, what: &str| {
        page.drawn();
        let after = busy(page, "TaskDuration");
        let longest = page.eval("long.splice(0).reduce((longest, task) => Math.max(longest, task), 0)");
        let longest = longest.as_f64().unwrap().min(after - before);
        assert!(
            longest < 4.0 * yardstick,
            "{what}: a task of {longest:.0} ms, as many records {yardstick:.0} ms"
        );
        assert!(
            page.eval("document.querySelectorAll('#rows .row').length").as_u64().unwrap() < 100,
            "{what}"
        );
        before = after;
    };
    for step in 1..=60 {
        page.eval(&format!("{{ const tree = document.getElementById('tree'); tree.scrollTop = (tree.scrollHeight - tree.clientHeight) * {step} / 60; }}"));
        smooth(&mut page, &format!("scrolled by {step} of 60"));
    }
    assert_eq!(
        page.eval("document.querySelector('#rows .row:last-child').getAttribute('aria-rowindex')"),
        (count + 1).to_string()
    );
    for key in ["Home", "ArrowDown", "ArrowDown", "]", "PageDown", "End", "f", "u", "z", "s", "0"] {
        page.press(key);
        smooth(&mut page, key);
        assert!(page.cursor().is_some(), "{key}: the call that is looked at is out of sight");
    }
    page.search("endio");
    smooth(&mut page, "search");
    page.click("#filter-cpu", 0);
    page.click("#menu-cpu .only", 0);
    smooth(&mut page, "a filter");
    page.done();
}

#[test]
fn an_empty_recording_says_so() {
    let mut view = View::empty();
    view.0["suppressed"] = Value::Null;
    let mut page = Page::open(&view);
    let told = page.text("#nothing");
    assert!(told.contains("This recording is empty") && told.contains("45 functions"), "{told}");
    assert!(page.text("#losses").contains("does not count the skipped calls"));
    for part in ["#axis", "#toolbar", "#detail"] {
        assert_eq!(
            page.eval(&format!("document.querySelector('{part}').checkVisibility()")),
            false,
            "{part}"
        );
    }
    for key in
        ["ArrowDown", "ArrowLeft", "ArrowRight", "End", "Enter", "b", "o", "]", "z", "f", "n", "Escape"]
    {
        page.press(key);
    }
    page.done();
}

#[test]
fn another_class_has_calls_without_lives() {
    let mut view = View::real();
    let call = view.life(0)[0];
    view.0["class"] = json!("request");
    view.0["lives"] = json!([]);
    let calls = view.0["calls"].as_object_mut().unwrap();
    for column in ["sector", "bytes", "operation", "flags", "device", "status"] {
        calls.remove(column);
    }
    calls["life"].as_array_mut().unwrap().fill(json!(-1));
    for table in ["devices", "operations", "flag_names"] {
        view.0.as_object_mut().unwrap().remove(table);
    }
    view.0["lost"] = json!([]);
    let mut page = Page::open(&view);
    assert!(page.text("#losses").contains("cut short"));
    assert_eq!(page.shown(), view.tree(|_| true));
    // The lanes are tracks, and the overview counts calls.
    assert_eq!(page.texts("#kinds button"), ["CPUs", "Tasks"]);
    let outermost: Vec<usize> = (0..view.count()).filter(|call| view.number("parent", *call) < 0).collect();
    let open = |time| {
        outermost
            .iter()
            .filter(|call| view.number("start", **call) <= time && time < view.until(**call))
            .count()
    };
    let most = outermost.iter().map(|call| open(view.number("start", *call))).max().unwrap();
    let sum: i64 = outermost.iter().map(|call| view.until(*call) - view.number("start", *call)).sum();
    let average = sum as f64 / view.end() as f64;
    let expected = format!("calls at the same time: at most {most}, on average {average:.2}");
    assert_eq!(page.text("#inflight"), expected);
    page.click_call(&view, call, 0);
    assert_eq!(page.data()["class"], "struct request");
    assert_eq!(page.data()["sector"], Value::Null);
    let object = view.number("object", call);
    let same: Vec<usize> = (0..view.count()).filter(|call| view.number("object", *call) == object).collect();
    assert_eq!(page.steps(), same);
    page.done();
}

#[test]
fn what_is_recorded_can_not_become_a_part_of_the_page() {
    let mut view = View::real();
    let comm = "</script><b id=out>{{js}}<!--<script>";
    view.0["tasks"][0]["comm"] = json!(comm);
    view.0["functions"][0]["name"] = json!("<img src=x onerror=alert(1)>");
    let call = (0..view.count()).find(|call| view.number("task", *call) == 0).unwrap();
    let mut page = Page::open(&view);
    assert_eq!(page.eval("document.getElementById('out') || document.querySelector('img')"), Value::Null);
    page.click_call(&view, call, 0);
    let pid = &view.0["tasks"][0]["pid"];
    assert_eq!(page.data()["pid"], format!("{pid} {comm}"));
    assert!(page.text(&format!("#call-{call} .task")).starts_with(comm));
    page.done();
}
