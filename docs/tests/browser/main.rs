//! Opens the book from the file system, as a reader does, in a real browser.

mod barriers;
mod reader;

use std::path::{Path, PathBuf};
use std::process::Command;

use lab::clinic;
use machine::workbook::diff::{self, Item, Kind, Reading};
use machine::workbook::{Program, Workbook};
use questions::{Asked, Form};
use serde::Deserialize;
use serde_json::json;

use crate::reader::Reader;

const WIDE: (u32, u32) = (1280, 800);
const TABLET: (u32, u32) = (800, 1000);
const PHONE: (u32, u32) = (390, 844);
/// mdBook clips the page and lets its content scroll, so checking the page alone would always pass.
const NO_SIDEWAYS: &str =
    "[document.scrollingElement, ...document.querySelectorAll('.content, main, .question')]
    .every((part) => part.scrollWidth <= part.clientWidth)";

/// A book that exists as long as this value.
struct Book {
    folder: PathBuf,
    _temp: tempfile::TempDir,
}

impl Book {
    fn build() -> Self {
        let temp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let folder = temp.path().join("book");
        let output = Command::new(env!("CARGO_BIN_EXE_book")).arg(&folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { folder, _temp: temp }
    }

    fn page(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn pages(&self) -> Vec<PathBuf> {
        let html = |folder: &Path| -> Vec<PathBuf> {
            let paths = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
            paths.filter(|path| path.extension().is_some_and(|extension| extension == "html")).collect()
        };
        let folders = ["", "stages", "examples", "clinic"].map(|folder| html(&self.folder.join(folder)));
        // ctracer's page is for a wide window, and its tests are in the lab.
        folders.concat().into_iter().filter(|page| !page.ends_with("ctracer.html")).collect()
    }
}

#[test]
fn every_page_loads_in_light_and_dark_and_fits_its_window() {
    let (book, mut browser) = (Book::build(), Reader::start());
    let mut wrong = Vec::new();
    for ((width, height), scheme) in [(WIDE, "light"), (TABLET, "light"), (PHONE, "dark")] {
        browser.size(width, height);
        browser.scheme(scheme);
        for page in book.pages() {
            browser.open(&page, "");
            // Wide elements scroll on their own.
            if browser.eval(NO_SIDEWAYS) != true {
                wrong.push(format!("{} scrolls sideways at {width} px", page.display()));
            }
            wrong.extend(
                browser.wrong().into_iter().map(|what| format!("{}, {scheme}: {what}", page.display())),
            );
            let dark = browser.eval(
                "(([r, g, b]) => r + g + b < 384)(getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).map(Number))",
            );
            let is_toc = page.ends_with("toc.html");
            if !is_toc && dark != (scheme == "dark") {
                wrong.push(format!("{} is not {scheme}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_page_of_a_recording_is_in_the_book() {
    let (book, mut browser) = (Book::build(), Reader::start());
    browser.size(WIDE.0, WIDE.1);
    browser.open(&book.page("examples/ctracer.html"), "");
    let page = browser.eval("document.querySelector('a[href=\"../ctracer.html\"]').href");
    let picture = "document.querySelector('img[src$=\"ctracer.png\"]')";
    browser.until(&format!("{picture}.complete && {picture}.naturalWidth === 1200"));
    browser.open(Path::new(page.as_str().unwrap().trim_start_matches("file://")), "");
    browser.until("document.body.textContent.includes('submit_bio_noacct')");
    let back = browser.eval("document.querySelector('header a').href");
    assert!(back.as_str().unwrap().ends_with("/examples/ctracer.html"), "{back}");
    assert_eq!(browser.wrong(), [""; 0]);
}

#[test]
fn the_sidebar_lists_the_cases_only_in_the_clinic() {
    let (book, mut browser) = (Book::build(), Reader::start());
    browser.size(WIDE.0, WIDE.1);
    let cases = "[...document.querySelectorAll('.sidebar a[href*=\"clinic/\"]')].filter((a) => a.checkVisibility()).length";
    let all = clinic::cases(&Workbook::read().unwrap()).unwrap().len();
    for (page, shown) in [("index.html", 0), ("clinic.html", all), ("clinic/05.html", all)] {
        browser.open(&book.page(page), "");
        browser.until("document.querySelector('.sidebar a.active')");
        assert_eq!(browser.eval(cases), shown, "{page}");
    }
}

#[test]
fn a_pasted_refusal_leads_to_its_case() {
    let (book, mut browser) = (Book::build(), Reader::start());
    browser.open(&book.page("clinic.html"), "");
    let mut paste = |text: &str| {
        let script = format!(
            "(() => {{ const box = document.querySelector('.look-up'), text = box.querySelector('textarea');
                text.value = {};
                text.dispatchEvent(new Event('input'));
                return [...box.querySelectorAll('a')].map((a) => a.pathname); }})()",
            json!(text)
        );
        let links = browser.eval(&script);
        links.as_array().unwrap().iter().map(|path| PathBuf::from(path.as_str().unwrap())).collect::<Vec<_>>()
    };
    let mut wrong = Vec::new();
    for case in clinic::cases(&Workbook::read().unwrap()).unwrap() {
        for kernel in case.refused_by() {
            let page = book.page(&format!("clinic/{}.html", case.number()));
            if !paste(&case.log(kernel).unwrap()).contains(&page) || !page.exists() {
                wrong.push(format!("{} on {kernel}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "the page does not recognize {}", wrong.join(", "));
    assert_eq!(paste("R1 is blue"), [""; 0].map(PathBuf::from), "it guesses nothing");
    assert_eq!(browser.wrong(), [""; 0]);
}

#[test]
fn a_log_leads_backwards_to_where_a_value_came_from() {
    let (book, mut browser) = (Book::build(), Reader::start());
    browser.size(1280, 800);
    browser.open(&book.page("clinic/01.html"), "");
    let selected = "document.querySelector('.log-view .step[aria-selected=\"true\"]').textContent";
    let state = "document.querySelector('.log-view .state').textContent";
    let click = |what: &str| format!("document.querySelector('.log-view {what}').click()");
    for kernel in ["Linux 7.2", "Linux 5.10"] {
        let choice = format!(
            "[...document.querySelectorAll('.log-view .kernels button')].find((b) => b.textContent === '{kernel}').click()"
        );
        browser.eval(&choice);
        assert_eq!(browser.eval(selected), "10r1 = *(u64 *)(r7 +0)");
        let told = browser.eval(state);
        assert!(told.as_str().unwrap().contains("R7 invalid mem access 'map_value_or_null'"), "{told}");
        for step in ["8r7 = r0", "7call bpf_map_lookup_elem#1"] {
            browser.eval(&click("dd button"));
            assert_eq!(browser.eval(selected), step, "{kernel}");
        }
    }
    // With keys, too.
    browser.eval("document.querySelector('.log-view .steps').focus()");
    browser.press("End");
    browser.press("ArrowUp");
    assert_eq!(browser.eval(selected), "9call bpf_ktime_get_ns#5");
    // A button that is pressed leaves the focus to itself, or to what it leads to.
    for (button, focus) in [
        (".kernels [aria-pressed=true]", "Linux 5.10"),
        (".moves :last-child", "Forward \u{2192}"),
        ("dd button", "listbox"),
        (".moves :first-child", "\u{2190} Back"),
    ] {
        browser.eval(&format!("document.querySelector('.log-view {button}').focus()"));
        browser.chord("Enter", 13, 0);
        assert_eq!(
            browser.eval("(it => it.role ?? it.closest('button')?.textContent)(document.activeElement)"),
            focus
        );
    }
    assert_eq!(browser.wrong(), [""; 0]);
}

#[test]
fn searching_finds_a_function() {
    let (book, mut browser) = (Book::build(), Reader::start());
    browser.open(&book.page("stages/01.html"), "");
    browser.press("/");
    browser.until("document.activeElement.id === 'mdbook-searchbar'");
    browser.call("Input.insertText", json!({ "text": "bio_endio" }));
    // Inserted text comes without a key, but the page searches when a key is released.
    browser.press("Shift");
    browser.until("document.querySelector('#mdbook-searchresults a')");
    let results =
        browser.eval("[...document.querySelectorAll('#mdbook-searchresults a')].map((a) => a.pathname)");
    let results: Vec<_> = results.as_array().unwrap().iter().filter_map(|path| path.as_str()).collect();
    assert!(results.iter().any(|path| path.ends_with("/stages/03.html")), "{results:?}");
    assert!(results.iter().all(|path| Path::new(path).exists()), "{results:?}");
    // An input method's Enter follows no result.
    browser.eval("document.querySelector('#mdbook-searchbar').select()");
    browser.eval("window.left = 0; addEventListener('beforeunload', () => { left += 1; }); 0");
    browser.compose("bio_endio");
    assert_eq!(browser.eval("window.left"), 0);
    browser.loading(|browser| {
        browser.eval("document.querySelector('#mdbook-searchresults a').click()");
    });
    browser.until("document.querySelector('mark')");
    assert_eq!(browser.wrong(), [""; 0]);
}

const ENTER: (&str, u32) = ("Enter", 13);
const TAB: (&str, u32) = ("Tab", 9);
const DOWN: (&str, u32) = ("ArrowDown", 40);

/// With the keyboard alone: each kind of question, first wrong and then right.
#[test]
fn questions_are_answered_with_the_keyboard() {
    let (book, mut browser) = (Book::build(), Reader::start());
    let page = book.page("stages/05.html");
    let keys = |browser: &mut Reader, keys: &[(&str, u32)]| {
        keys.iter().for_each(|(key, code)| browser.chord(key, *code, 0));
    };
    let shows = |browser: &mut Reader, card: usize, kind: &str, text: &str| {
        let said = format!("document.querySelectorAll('form.question')[{card}].querySelector('.said')");
        browser.until(&format!("{said}.dataset.kind === '{kind}' && {said}.textContent.includes('{text}')"));
    };
    let is_shown = |text: &str| {
        format!(
            "document.evaluate(\"//main//p[contains(., '{text}')]\", document, null, 9).singleNodeValue.checkVisibility({{ contentVisibilityAuto: true }})"
        )
    };
    let of_output = is_shown("The new line is");
    browser.size(PHONE.0, PHONE.1);
    browser.open(&page, "");
    browser.until("document.documentElement.classList.contains('with-questions')");
    assert_eq!(browser.eval(&of_output), false, "the output answers the prediction");
    let answers = "document.querySelector('.answers').checkVisibility()";
    assert_eq!(browser.eval(answers), false, "the answers are on the page");
    let told = "[...document.querySelectorAll('.question :is(.why, .hint, .explanation)')].some((it) => it.checkVisibility())";
    assert_eq!(browser.eval(told), false, "a card reveals something");

    // A number.
    browser.eval("document.querySelector('form.question input').focus()");
    keys(&mut browser, &[ENTER]);
    shows(&mut browser, 0, "hint", "Type a number");
    browser.call("Input.insertText", json!({ "text": "100" }));
    keys(&mut browser, &[ENTER]);
    shows(&mut browser, 0, "wrong", "A sector is smaller");
    browser.eval("document.activeElement.select()");
    browser.call("Input.insertText", json!({ "text": "800" }));
    keys(&mut browser, &[ENTER]);
    shows(&mut browser, 0, "right", "sector 800 of the partition");
    assert_eq!(browser.eval(&of_output), true, "the output comes after the answer");

    // Options: the first is chosen by its own, and the arrows choose another.
    let focus = "[...document.querySelectorAll('form.question')][1].querySelector('input').focus()";
    browser.eval(focus);
    keys(&mut browser, &[DOWN, ENTER]);
    shows(&mut browser, 1, "wrong", "CO-RE");
    keys(&mut browser, &[DOWN, DOWN, ENTER]);
    shows(&mut browser, 1, "right", "only a number from a register");

    // Cards: from the top, each goes up until it is in its place.
    let focus = "[...document.querySelectorAll('form.question')][3].querySelector('.move').focus()";
    browser.eval(focus);
    let mut steps = 0;
    loop {
        let up = browser.eval(
            "(() => {
                const card = document.querySelectorAll('form.question')[3];
                const shown = [...card.querySelectorAll('.cards li')];
                const place = shown.findIndex((item, nth) => item.dataset.letter !== card.dataset.right[nth]);
                const item = shown.find((item) => item.dataset.letter === card.dataset.right[place]);
                item?.querySelector('.move').focus();
                return place >= 0;
            })()",
        );
        if up == false {
            break;
        }
        keys(&mut browser, &[ENTER]);
        steps += 1;
        assert!(steps < 50, "the cards do not move");
        if steps == 1 {
            browser.eval("document.querySelectorAll('form.question')[3].requestSubmit()");
            shows(&mut browser, 3, "wrong", "");
        }
    }
    // From the last card's second button to the one that checks.
    browser
        .eval("[...document.querySelectorAll('form.question')[3].querySelectorAll('.move')].at(-1).focus()");
    keys(&mut browser, &[TAB, ENTER]);
    shows(&mut browser, 3, "right", "before the map gets a copy");

    // The answers stay, at the tries that they took.
    browser.open(&page, "");
    shows(&mut browser, 0, "right", "sector 800 of the partition");
    assert_eq!(browser.eval(&of_output), true);
    assert_eq!(
        browser.eval("JSON.parse(localStorage.getItem('workbook-answers'))"),
        json!({ "05/sector": 2, "05/pointer": 2, "05/order": 2 })
    );
    assert_eq!(browser.wrong(), [""; 0]);
}

/// On paper, and without the script, the questions and the answers are there.
#[test]
fn questions_are_on_paper() {
    let (book, mut browser) = (Book::build(), Reader::start());
    browser.open(&book.page("stages/03.html"), "");
    browser.until("document.documentElement.classList.contains('with-questions')");
    browser.call("Emulation.setEmulatedMedia", json!({ "media": "print" }));
    let shown = "['.question .options', '.answers', '.rest', '.question .actions', '.question input']
        .map((part) => document.querySelector(part).checkVisibility({ contentVisibilityAuto: true }))";
    assert_eq!(browser.eval(shown), json!([true, true, true, false, false]));
}

#[test]
fn the_storage_stack_leads_to_the_stages() {
    let (book, mut browser) = (Book::build(), Reader::start());
    for (width, height) in [WIDE, PHONE] {
        browser.size(width, height);
        browser.open(&book.page("storage-stack.html"), "");
        let links = browser.eval(
            "[...document.querySelectorAll('main svg a')].map((link) => {
                link.scrollIntoView({ block: 'center', behavior: 'instant' });
                const box = (link.querySelector('rect, text') || link).getBoundingClientRect();
                const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
                const free = link.contains(document.elementFromPoint(x, y));
                return { x, y, free, to: new URL(link.href.baseVal, location.href).pathname };
            })",
        );
        let links = links.as_array().unwrap();
        assert!(!links.is_empty(), "the picture has no links");
        for link in links {
            let to = link["to"].as_str().unwrap();
            assert!(
                to.starts_with(book.page("stages").to_str().unwrap()) && Path::new(to).exists(),
                "{link}"
            );
            assert_eq!(link["free"], true, "something is in the way of {link}");
        }
        // The last check scrolled the picture to its link, so it does not move here.
        let last = links.last().unwrap();
        browser.loading(|browser| {
            for kind in ["mousePressed", "mouseReleased"] {
                let click = json!({ "type": kind, "x": last["x"], "y": last["y"], "button": "left", "clickCount": 1 });
                browser.call("Input.dispatchMouseEvent", click);
            }
        });
        assert_eq!(browser.eval("location.pathname"), last["to"]);
    }
    assert_eq!(browser.wrong(), [""; 0]);
}

/// What the view must show of an item: its removed and added lines, and what is marked within them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct Change {
    item: String,
    lines: Vec<String>,
    words: Vec<String>,
}

fn changes(workbook: &Workbook, stage: &Program) -> Vec<Change> {
    let lesson = workbook
        .catalog
        .parent(stage)
        .map_or_else(|_| Vec::new(), |parent| workbook.catalog.lesson(parent, stage));
    let Reading { lesson, bookkeeping } = Reading::of(&diff::of_stage(workbook, stage).unwrap(), &lesson);
    let mut files: Vec<_> = lesson.into_iter().chain(bookkeeping).collect();
    files.sort_by_key(|file| file.name.ends_with(".rs"));
    let items: Vec<Item> = files.into_iter().flat_map(|file| file.items).collect();
    let change = |item: &Item| {
        let mut change = Change { item: item.name.clone(), ..Change::default() };
        for line in item.lines.iter().filter(|line| line.kind != Kind::Same) {
            change.lines.push(line.text());
            // If nothing of the line is unchanged, there is nothing to mark, and blanks never are.
            if line.pieces.iter().any(|(changed, _)| !changed) {
                let is_marked = |piece: &&(bool, String)| piece.0 && !piece.1.trim().is_empty();
                change.words.extend(line.pieces.iter().filter(is_marked).map(|(_, text)| text.clone()));
            }
        }
        change
    };
    // What a stage needs and does not teach is on its page only, and so is what it removes.
    let is_needed = |item: &Item| ["#include", "LICENSE", "use", "bpf"].contains(&&*item.name);
    let is_gone = |item: &Item| item.lines.iter().all(|line| line.kind == Kind::Gone);
    let is_shown = |item: &Item| item.is_changed_code() && !is_needed(item) && !is_gone(item);
    items.iter().filter(|item| is_shown(item)).map(change).collect()
}

/// Waits until the view shows a step of a stage; step 0 is its title.
fn shows(browser: &mut Reader, stage: u32, step: usize) {
    browser.until(&format!(
        "location.hash === '#{stage:02}/{step}' && document.title.startsWith('{stage:02} ')
            && document.getElementById('count').textContent.startsWith('{step} /')
            && document.querySelector({step} ? 'h2' : 'h1')"
    ));
}

/// Goes to a step of a stage by its address, and waits until it is shown: the page hears of a new address later than
/// of a key that is pressed after it.
fn visit(browser: &mut Reader, stage: u32, step: usize) {
    browser.eval(&format!("location.hash = '#{stage:02}/{step}'"));
    shows(browser, stage, step);
}

/// Gives the window another size, and waits until the page has fitted its letters.
fn resize(browser: &mut Reader, (width, height): (u32, u32)) {
    let fitted = "new Promise((done) => addEventListener('resize', done, { once: true }))";
    // A value, so that this call does not wait for the promise.
    browser.eval(&format!("window.fitted = {fitted}, 0"));
    browser.size(width, height);
    browser.eval("fitted.then(() => true)");
}

/// The number of a stage's first change among its steps: the run and the pictures come before.
fn first_change(browser: &mut Reader, stage: u32) -> usize {
    let first = format!(
        "{PARTS}.find((part) => part.id === '{stage:02}').steps
            .findIndex((step) => step.kind === 'code' && step.part !== 'run')"
    );
    browser.eval(&first).as_u64().unwrap() as usize + 1
}

/// What the page shows.
const PARTS: &str = "JSON.parse(document.getElementById('data').textContent).parts";

#[test]
fn the_view_for_a_projector_shows_every_change() {
    let (book, mut browser) = (Book::build(), Reader::start());
    let workbook = Workbook::read().unwrap();
    browser.size(WIDE.0, WIDE.1);
    browser.open(&book.page("present.html"), "");
    let shown = "({
        item: document.querySelector('.item').textContent,
        lines: [...document.querySelectorAll('.code .new, .code .gone')]
            .map((line) => line.textContent.replace('\\u200b', '')),
        words: [...document.querySelectorAll('.word')].map((word) => word.textContent),
    })";
    // The copy that a new stage begins as has no change yet.
    for stage in workbook.catalog.stages.iter().filter(|stage| !stage.is_copy()) {
        let number = format!("{:02}", stage.number);
        visit(&mut browser, stage.number, 0);
        let title = browser.eval("document.querySelector('main').textContent");
        for told in [&stage.title, &stage.adds] {
            assert!(title.as_str().unwrap().contains(told.as_str()), "{title}");
        }
        let first = first_change(&mut browser, stage.number);
        visit(&mut browser, stage.number, first - 1);
        let mut step = first - 1;
        for (nth, change) in changes(&workbook, stage).iter().enumerate() {
            // A long item has several pages, and none ends in an empty line.
            let (mut seen, mut change) = (Change::default(), change.clone());
            change.lines.retain(|line| !line.is_empty());
            loop {
                browser.press(["ArrowRight", "PageDown", " "][nth % 3]);
                step += 1;
                shows(&mut browser, stage.number, step);
                let page = Change::deserialize(browser.eval(shown)).unwrap();
                seen.item = page.item;
                seen.lines.extend(page.lines.into_iter().filter(|line| !line.is_empty()));
                seen.words.extend(page.words);
                let item = &change.item;
                for size in [PHONE, WIDE] {
                    resize(&mut browser, size);
                    let width = size.0;
                    assert_eq!(browser.eval(NO_SIDEWAYS), true, "stage {number}, {item}, {width} px");
                    let cut = "[...document.querySelectorAll('.code div')].some((line) => line.scrollWidth > line.clientWidth)";
                    assert_eq!(browser.eval(cut), false, "stage {number}, {item}, {width} px: a line is cut");
                }
                let of = format!(
                    "{PARTS}.find((part) => part.id === '{number}').steps[{step} - 1].of ?? '1 of 1'"
                );
                let of = browser.eval(&of);
                let (page, pages) = of.as_str().unwrap().split_once(" of ").unwrap();
                if page == pages {
                    break;
                }
            }
            assert_eq!(seen, change, "stage {number}");
        }
    }
    assert_eq!(browser.wrong(), [""; 0]);
}

#[test]
fn the_view_for_a_projector_shows_every_case() {
    let (book, mut browser) = (Book::build(), Reader::start());
    let workbook = Workbook::read().unwrap();
    browser.size(WIDE.0, WIDE.1);
    browser.open(&book.page("present.html"), "#case-01/0");
    for case in clinic::cases(&workbook).unwrap() {
        let refusal = case.refusal(case.kernel().unwrap()).unwrap();
        let refused = refusal.place.filter(|place| place.location.is_some()).map(|place| place.source);
        let cure = case.cure().unwrap();
        let of_cure = |sign| {
            let is_sign =
                |line: &&str| line.starts_with(sign) && !line.starts_with("---") && !line.starts_with("+++");
            let lines = cure.lines().filter(is_sign).map(|line| line[1..].to_owned());
            lines.filter(|line| !line.is_empty()).collect::<Vec<_>>()
        };
        let (gone, new) = (of_cure('-'), of_cure('+'));
        let (mut seen_gone, mut seen_new) = (Vec::new(), Vec::new());
        let (mut marked_in_program, mut marked_in_log) = (Vec::new(), Vec::new());
        let steps = browser
            .eval(&format!("{PARTS}.find((part) => part.id === 'case-{}').steps.length", case.number()));
        for step in 0..=steps.as_u64().unwrap() {
            let hash = format!("#case-{}/{step}", case.number());
            browser.eval(&format!("location.hash = '{hash}'"));
            browser.until(&format!(
                "document.getElementById('count').textContent.startsWith('{step} /')
                    && document.title.startsWith('case-{} ')",
                case.number()
            ));
            let mut lines = |kind: &str| -> Vec<String> {
                let lines = format!(
                    "[...document.querySelectorAll('.code .{kind}')].map((line) => line.textContent.replace('\\u200b', ''))"
                );
                Vec::deserialize(browser.eval(&lines)).unwrap()
            };
            seen_gone.extend(lines("gone"));
            seen_new.extend(lines("new"));
            let marked = lines("mark").into_iter().map(|line| line.trim().to_owned());
            match browser.eval("document.querySelector('.item')?.textContent").as_str() {
                Some("the program") => marked_in_program.extend(marked),
                Some("what the kernel says") => marked_in_log.extend(marked),
                _ => assert_eq!(marked.count(), 0, "{hash}"),
            }
            for size in [PHONE, WIDE] {
                resize(&mut browser, size);
                assert_eq!(browser.eval(NO_SIDEWAYS), true, "{hash}, {} px", size.0);
            }
        }
        assert_eq!(marked_in_program, refused.into_iter().collect::<Vec<_>>(), "case {}", case.number());
        assert!(!marked_in_log.is_empty(), "case {}", case.number());
        seen_gone.retain(|line| !line.is_empty());
        seen_new.retain(|line| !line.is_empty());
        assert_eq!((seen_gone, seen_new), (gone, new), "case {}", case.number());
    }
    assert_eq!(browser.wrong(), [""; 0]);
}

#[test]
fn the_view_for_a_projector_is_moved_by_keys_picker_and_finger() {
    let (book, mut browser) = (Book::build(), Reader::start());
    let workbook = Workbook::read().unwrap();
    browser.scheme("light");
    browser.open(&book.page("present.html"), "#03/2");
    let last = "JSON.parse(document.getElementById('data').textContent).parts.find((part) => part.id === '03').steps.length";
    let last = browser.eval(last).as_u64().unwrap() as usize;
    let second = browser.eval("document.querySelector('main').textContent");
    browser.press("End");
    shows(&mut browser, 3, last);
    browser.press("Home");
    shows(&mut browser, 3, 0);
    browser.press("ArrowRight");
    shows(&mut browser, 3, 1);
    browser.press("ArrowRight");
    shows(&mut browser, 3, 2);
    assert_eq!(browser.eval("document.querySelector('main').textContent"), second);
    // Reloading keeps the place.
    browser.loading(|browser| _ = browser.call("Page.reload", json!({})));
    shows(&mut browser, 3, 2);
    assert_eq!(browser.eval("document.querySelector('main').textContent"), second);
    browser.press("PageUp");
    shows(&mut browser, 3, 1);
    browser.press("ArrowLeft");
    shows(&mut browser, 3, 0);
    browser.press("ArrowLeft");
    // Before the first step comes the last one of the part before.
    browser.until("location.hash.startsWith('#02/') && !location.hash.endsWith('/0')");
    browser.press("3");
    shows(&mut browser, 3, 0);

    // The picker has every stage.
    let options =
        browser.eval("[...document.querySelectorAll('#stage option')].map((option) => option.value)");
    let stages = workbook.catalog.stages.iter().map(|stage| format!("{:02}", stage.number));
    let cases = clinic::cases(&workbook).unwrap();
    let cases = cases.iter().map(|case| format!("case-{}", case.number()));
    let options: Vec<_> = options.as_array().unwrap().iter().filter_map(|option| option.as_str()).collect();
    for part in stages.chain(cases) {
        assert!(options.contains(&part.as_str()), "{part} is not in {options:?}");
    }
    browser.eval("{ const stage = document.getElementById('stage'); stage.value = '07'; stage.dispatchEvent(new Event('change')); }");
    shows(&mut browser, 7, 0);

    // Larger, dark, help.
    let first = first_change(&mut browser, 7);
    visit(&mut browser, 7, first);
    let size = "parseFloat(document.querySelector('.code').style.fontSize)";
    let before = browser.eval(size).as_f64().unwrap();
    browser.press("+");
    assert!(browser.eval(size).as_f64().unwrap() > before);
    // The step before is a picture, and as large as the letters.
    visit(&mut browser, 7, first - 1);
    let scale =
        "document.querySelector('.frame svg').clientWidth / document.querySelector('.frame').clientWidth";
    assert!(browser.eval(scale).as_f64().unwrap() > 1.05);
    browser.press("-");
    assert!(browser.eval(scale).as_f64().unwrap() < 1.01);
    visit(&mut browser, 7, first);
    let paper = "getComputedStyle(document.documentElement).backgroundColor";
    let light = browser.eval(paper);
    browser.press("d");
    assert_ne!(browser.eval(paper), light);
    browser.press("?");
    browser.until("document.getElementById('keys').open");
    browser.press("Escape");
    browser.until("!document.getElementById('keys').open");

    // A finger moves from right to left.
    resize(&mut browser, PHONE);
    for (kind, points) in [
        ("touchStart", json!([{ "x": 300, "y": 300 }])),
        ("touchMove", json!([{ "x": 100, "y": 300 }])),
        ("touchEnd", json!([])),
    ] {
        browser.call("Input.dispatchTouchEvent", json!({ "type": kind, "touchPoints": points }));
    }
    shows(&mut browser, 7, first + 1);
    assert_eq!(browser.wrong(), [""; 0]);
}

/// Everything that an instructor projects.
#[test]
fn every_step_can_be_read_from_the_last_row() {
    let (book, mut browser) = (Book::build(), Reader::with_mouse());
    browser.open(&book.page("present.html"), "");
    // Letters of at least 18 pixels, 40 to a window's height.
    for (width, height) in [(1280, 720), (1920, 1080)] {
        browser.size(width, height);
        let wrong = browser.eval(&format!(
            "(async () => {{
                const wrong = [], least = 18 * innerHeight / 720;
                const shown = (part) => getComputedStyle(part).visibility === 'visible';
                for (const part of {PARTS}) for (let nth = 0; nth <= part.steps.length; nth++) {{
                    const step = part.steps[nth - 1] ?? {{ kind: 'title', say: 'its idea' }}, at = part.id + '/' + nth;
                    const moved = new Promise((done) => addEventListener('hashchange', done, {{ once: true }}));
                    if (location.hash !== '#' + at) {{
                        location.hash = at;
                        await moved;
                    }}
                    const main = document.querySelector('main');
                    if (!step.say) wrong.push(at + ' has no notes');
                    if (main.scrollWidth > main.clientWidth) wrong.push(at + ' scrolls sideways');
                    if (document.documentElement.scrollHeight > innerHeight) wrong.push(at + ' is higher than the window');
                    for (const line of main.querySelectorAll('.code div, .caption, .question, .text p'))
                        if (parseFloat(getComputedStyle(line).fontSize) < least) {{ wrong.push(at + ': small letters'); break; }}
                    if (step.kind !== 'picture') continue;
                    const svg = main.querySelector('svg'), scale = svg.getScreenCTM().a;
                    const frame = document.querySelector('.frame').getBoundingClientRect();
                    for (const text of [...svg.querySelectorAll('text')].filter(shown)) {{
                        const at_text = at + ': ' + text.textContent, box = text.getBoundingClientRect();
                        if (parseFloat(getComputedStyle(text).fontSize) * scale < least) wrong.push(at_text + ': small letters');
                        const sides = [box.left - frame.left, box.top - frame.top, frame.right - box.right, frame.bottom - box.bottom];
                        if (Math.min(...sides) < -1) wrong.push(at_text + ' is cut');
                        const over = document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
                        const isLater = text.compareDocumentPosition(over) & Node.DOCUMENT_POSITION_FOLLOWING;
                        if (svg.contains(over) && isLater && !text.contains(over)) wrong.push(at_text + ' is covered');
                    }}
                    for (const {{ id }} of svg.querySelectorAll('[id]'))
                        if (document.querySelectorAll('#' + id).length > 1) wrong.push(at + ': the page has another #' + id);
                    const lit = [...svg.querySelectorAll(':scope > g')].filter((group) => getComputedStyle(group).opacity === '1');
                    const places = lit.map((group) => group.id).filter((id) => id !== 'arrows').join();
                    const place = [step.from, 'stage-' + part.id].filter((id) => id).join();
                    if (step.here && places !== place) wrong.push(at + ' is not the place');
                    const isLast = part.steps[nth]?.title !== step.title;
                    if (isLast && svg.querySelector('.later, .earlier')) wrong.push(at + ' does not show everything');
                    const caption = main.querySelector('.caption').getBoundingClientRect();
                    if (caption.bottom > innerHeight) wrong.push(at + ': its sentence is below the window');
                }}
                return wrong;
            }})()"
        ));
        assert_eq!(wrong, json!([]), "{width} x {height}");
    }
    assert_eq!(browser.wrong(), [""; 0]);
    // Every minute of every plan has something to show.
    let missing = browser.eval(&format!(
        "JSON.parse(document.getElementById('data').textContent).plans.flatMap((plan) => plan.slots)
            .map((slot) => slot.name)
            .filter((name) => !{PARTS}.some((part) => part.id === name || part.steps.some((step) => step.id === name)))"
    ));
    assert_eq!(missing, json!([]));
    // Every picture's link leads to a section of the book.
    let links = browser.eval(&format!(
        "[...new Set({PARTS}.flatMap((part) => part.steps.map((step) => step.page ?? part.page)))]"
    ));
    for link in links.as_array().unwrap() {
        let (page, anchor) = link.as_str().unwrap().split_once('#').unwrap_or((link.as_str().unwrap(), ""));
        let html = std::fs::read_to_string(book.page(page)).unwrap_or_else(|error| panic!("{link}: {error}"));
        assert!(anchor.is_empty() || html.contains(&format!("id=\"{anchor}\"")), "{link} leads nowhere");
    }
}

/// With a plan, the keys lead through its slots in its order, and stop at the last slide.
#[test]
fn the_keys_follow_the_plan() {
    let (book, mut browser) = (Book::build(), Reader::start());
    browser.open(&book.page("present.html"), "#lab/0");
    let data = "JSON.parse(document.getElementById('data').textContent)";
    let plans = browser
        .eval(&format!("{data}.plans.map((plan) => [plan.minutes, plan.slots.map((slot) => slot.name)])"));
    let plans: Vec<(u32, Vec<String>)> = Vec::deserialize(plans).unwrap();
    assert_eq!(plans.len(), 3);
    for (minutes, slots) in plans {
        browser.eval(&format!(
            "{{ const plan = document.getElementById('plan'); plan.value = '{}'; plan.dispatchEvent(new Event('change'));
                location.hash = '#lab/0'; }}",
            minutes
        ));
        browser.until(
            "location.hash === '#lab/0' && document.getElementById('count').textContent.startsWith('0 /')",
        );
        // The address changes with the key, so this needs no wait.
        let walked = format!(
            "(() => {{
                const slots = [], press = (key) => document.body.dispatchEvent(new KeyboardEvent('keydown', {{ key, bubbles: true }}));
                for (let last = ''; location.hash !== last; press('ArrowRight')) {{
                    last = location.hash;
                    const [id, nth] = last.slice(1).split('/');
                    const step = {PARTS}.find((part) => part.id === id).steps[nth - 1];
                    const slot = step?.id ?? id;
                    if (slots.at(-1) !== slot) slots.push(slot);
                }}
                return slots;
            }})()"
        );
        let walked: Vec<String> = Vec::deserialize(browser.eval(&walked)).unwrap();
        assert_eq!(walked, slots, "{minutes} minutes");
    }
    // Whoever leaves the plan comes back to it at the end of the part.
    let plan = "{ const plan = document.getElementById('plan'); plan.value = '90'; plan.dispatchEvent(new Event('change')); }";
    browser.eval(plan);
    browser.eval("location.hash = '#07/0'");
    browser.until("location.hash === '#07/0' && document.title.startsWith('07 ')");
    browser.press("ArrowRight");
    shows(&mut browser, 7, 1);
    assert_eq!(browser.wrong(), [""; 0]);
}

/// A question is asked, and the next key shows its answer and the line that proves it.
#[test]
fn a_question_has_its_answer_on_the_next_step() {
    let (book, mut browser) = (Book::build(), Reader::start());
    let workbook = Workbook::read().unwrap();
    browser.open(&book.page("present.html"), "#01/0");
    for stage in &workbook.catalog.stages {
        let asked = questions::of(&stage.folder).unwrap();
        let prediction = asked.iter().find(|question| question.asked == Asked::Before).unwrap();
        visit(&mut browser, stage.number, 2);
        let right = "[...document.querySelectorAll('.options li')].map((option) => option.className)";
        let options: Vec<String> = Vec::deserialize(browser.eval(right)).unwrap();
        assert!(options.len() >= 3 && options.iter().all(String::is_empty), "{options:?}");
        browser.press("ArrowRight");
        shows(&mut browser, stage.number, 3);
        let options: Vec<String> = Vec::deserialize(browser.eval(right)).unwrap();
        let at = options.iter().position(|option| option == "right").unwrap();
        let text = browser.eval(&format!("document.querySelectorAll('.options li')[{at}].textContent"));
        match &prediction.form {
            Form::Choice { right, .. } => assert_eq!(at, *right, "{}", prediction.id),
            _ => assert_eq!(text.as_str().unwrap().replace(',', ""), prediction.solution()),
        }
    }
    assert_eq!(browser.wrong(), [""; 0]);
}

#[test]
fn the_presenters_window_stays_in_step() {
    let (book, mut browser) = (Book::build(), Reader::start());
    browser.open(&book.page("present.html"), "#03/1");
    shows(&mut browser, 3, 1);
    browser.press("p");
    browser.in_other_window(|other| {
        other.until("document.body.classList.contains('presenter') && location.hash === '#03/1'");
        other.press("ArrowRight");
    });
    browser.until("location.hash === '#03/2'");
    browser.press("ArrowRight");
    // Whoever is reloaded finds the other.
    browser.loading(|browser| _ = browser.call("Page.reload", json!({})));
    browser.in_other_window(|other| {
        other.until("location.hash === '#03/3'");
        other.loading(|other| _ = other.call("Page.reload", json!({})));
        other.until("document.getElementById('notes-say').textContent.includes('deletes its entry')");
        // The last steps are exercises. Four presses at once are four steps.
        other.eval(
            "for (const key of ['End', 'PageUp', 'PageUp', 'PageDown'])
                document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }))",
        );
        other.until("document.getElementById('notes-stuck').textContent.includes('still waits')");
        assert_eq!(other.eval("document.querySelector('.hint b').textContent"), "After 8 min: ");
    });
    // It is for whoever is fast, so no clock runs for all.
    browser.until("document.querySelector('h2')?.textContent.endsWith('(optional)') && !document.querySelector('#timer')");
    // To the case that a step names, and back to the step, by a key in either window or with the case's last step.
    let of_case =
        format!("{PARTS}.find((part) => part.id === '03').steps.findIndex((step) => step.case) + 1");
    let of_case = browser.eval(&of_case).as_u64().unwrap() as usize;
    visit(&mut browser, 3, of_case);
    browser.press("c");
    browser.in_other_window(|other| {
        other.until("location.hash === '#case-01/1'");
        other.press("c");
    });
    browser.until("document.getElementById('stage').value === '03'");
    let step = browser.eval("location.hash");
    browser.press("c");
    browser.press("End");
    browser.press("ArrowRight");
    browser.until(&format!("location.hash === {step}"));
    // The hints of an exercise, each with its minute, and what its solution changes.
    let exercise =
        format!("{PARTS}.find((part) => part.id === '03').steps.findIndex((step) => step.id === '03.1') + 1");
    let exercise = browser.eval(&exercise).as_u64().unwrap() as usize;
    visit(&mut browser, 3, exercise);
    browser.in_other_window(|other| {
        shows(other, 3, exercise);
        let shown = "[...document.querySelectorAll('.hint b, #notes-solution .new')].map((shown) => shown.textContent.trim())";
        let shown: Vec<String> = Vec::deserialize(other.eval(shown)).unwrap();
        assert_eq!(shown[..3], ["After 4 min:", "After 8 min:", "After 11 min:"]);
        assert!(shown.iter().any(|line| line == "duration = end_time - info->start;"), "{shown:?}");
        assert_eq!(other.eval("document.getElementById('standing').textContent"), "Choose your plan.");
        // One clock in both windows, which survives a reload, and a look at another step.
        other.press("t");
    });
    let runs = "document.querySelector('#timer')?.className === 'timer runs'";
    browser.until(runs);
    browser.press("ArrowRight");
    browser.press("ArrowLeft");
    browser.until(runs);
    browser.in_other_window(|other| {
        other.loading(|other| _ = other.call("Page.reload", json!({})));
        other.until(runs);
        other.press("t");
    });
    browser.until("document.querySelector('#timer')?.className === 'timer'");
    browser.press("r");
    browser.in_other_window(|other| other.until("document.querySelector('#timer')?.textContent === '15:00'"));
    // A message that comes late, after a move in this window, moves nobody back.
    browser
        .eval("{ window.visited = []; addEventListener('hashchange', () => visited.push(location.hash)); }");
    browser.in_other_window(|other| {
        for (deck, moved) in [("#03/1", "Date.now() - 60000"), ("#03/5", "Date.now() + 1")] {
            other.eval(&format!("opener.postMessage({{ deck: '{deck}', moved: {moved} }}, '*')"));
        }
    });
    browser.until("visited.at(-1) === '#03/5'");
    assert_eq!(browser.eval("visited.join()"), "#03/5");
    browser.in_other_window(|other| {
        other.until("location.hash === '#03/5'");
        // Questions are shown with their step, and go with it.
        let last = format!("{PARTS}.find((part) => part.id === '03').steps.findLastIndex((step) => step.ask?.length) + 1");
        let last = other.eval(&last).as_u64().unwrap() as usize;
        visit(other, 3, last);
        other.until("document.getElementById('notes-ask').children.length > 0");
        other.press("PageDown");
        other.until("document.getElementById('notes-ask').children.length === 0");
        // 03 is planned from 0:56 to 1:06.
        visit(other, 3, 1);
        for (minutes, standing) in [(50, "6 min ahead"), (60, "on time"), (70, "4 min behind")] {
            other.eval(&format!("sessionStorage.setItem('present-clock', '[{}, null]')", minutes * 60_000));
            other.loading(|other| _ = other.call("Page.reload", json!({})));
            other.eval("{ const plan = document.getElementById('plan'); plan.value = '180'; plan.dispatchEvent(new Event('change')); }");
            other.until(&format!("document.getElementById('standing').textContent.startsWith('{standing}; planned from 56 to 66')"));
        }
    });
    assert_eq!(browser.wrong(), [""; 0]);
}
