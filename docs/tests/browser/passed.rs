//! The presenter's window counts who has passed an exercise.

use serde_json::{Value, json};

use crate::Book;
use crate::reader::Reader;

/// Codes, each with the numbers that it says: stage, exercise, minute and seat.
const CODES: &str = include_str!("../../../lab/wire/src/passed.tsv");

/// Types a code and Enter, as a scanner does, and returns what the window says.
fn typed(browser: &mut Reader, code: &str) -> String {
    browser.eval("{ document.getElementById('pair-code').select(); document.getElementById('pair-code-said').textContent = ''; }");
    browser.call("Input.insertText", json!({ "text": code }));
    browser.chord("Enter", 13, 0);
    let said = "document.getElementById('pair-code-said').textContent";
    browser.until(said);
    browser.eval(said).as_str().unwrap().to_owned()
}

#[test]
fn codes_of_passed_exercises_are_counted() {
    let (book, mut browser) = (Book::build(), Reader::start());
    browser.open(&book.page("present.html"), "#03/1");
    browser.press("p");
    browser.in_other_window(|window| {
        window.until("document.body.classList.contains('presenter')");
        window.eval("{ const pairs = document.getElementById('pairs'); pairs.value = 14; pairs.dispatchEvent(new Event('change')); }");
        let mut expected: Vec<(String, Vec<Value>)> = Vec::new();
        for (nth, line) in CODES.lines().skip(1).enumerate() {
            let [code, stage, number, minute, seat] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let exercise = format!("{stage:0>2}.{number}");
            // As people write it.
            let code = match nth % 3 {
                0 => code.to_owned(),
                1 => code.to_lowercase().replace('-', " ").replace('0', "o"),
                _ => code.replace('-', "").replace('1', "l"),
            };
            let said = typed(window, &code);
            assert!(said.starts_with(&format!("Counted: {exercise}, at ")), "{said}");
            let mut seats = expected.extract_if(.., |(id, _)| *id == exercise).next().unwrap_or_default().1;
            seats.push(json!([seat.parse::<u32>().unwrap(), minute.parse::<u32>().unwrap()]));
            expected.push((exercise, seats));
        }
        let stored = "JSON.parse(localStorage.getItem('present-passed'))";
        let counted = json!({ "pairs": 14, "passed": expected });
        assert_eq!(window.eval(stored), counted);
        // A digit in a code is not a key that leads to a stage.
        window.until("location.hash === '#03/1'");

        let again = typed(window, "6AG8-002K");
        assert_eq!(again, "This pair was counted for 03.1 before.");
        let wrong = "A character is wrong. Ask for the code again, letter by letter.";
        // Each wrong character, two that have changed places, and a letter that no code has.
        for code in ["7AG8-002K", "6BG8-002K", "6AG8-012K", "6AG8-002J", "6AG8-020K", "A6G8-002K", "6AG8-00UK"] {
            assert_eq!(typed(window, code), wrong, "{code}");
        }
        assert!(typed(window, "6AG8-002").contains("has 7"));
        assert!(typed(window, "6AG8-002KK").contains("has 9"));
        assert!(typed(window, "0000-0000").contains("this deck doesn't have"));
        assert_eq!(window.eval(stored), counted);

        window.loading(|window| _ = window.call("Page.reload", json!({})));
        window.until("document.getElementById('passed').textContent.includes('3 of 14 pairs have passed 03.1, from ')");
        assert_eq!(window.eval("document.querySelectorAll('#passed li').length"), 5);
        // A clicker works in the field, too.
        window.eval("document.getElementById('pair-code').focus()");
        window.press("PageDown");
        window.until("location.hash === '#03/2'");
        window.eval("{ window.confirm = () => true; document.getElementById('forget').click(); }");
        assert_eq!(window.eval(stored), json!({ "pairs": null, "passed": [] }));
    });
    browser.until("location.hash === '#03/2'");
    assert_eq!(browser.wrong(), [""; 0]);
}
