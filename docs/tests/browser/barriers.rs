//! Nothing keeps people with a keyboard, a screen reader or weak eyes from using our pages.

use crate::reader::Reader;
use crate::{Book, PHONE, WIDE};

/// One page of each kind.
#[test]
fn axe_finds_no_barrier_in_the_book() {
    let (book, mut browser) = (Book::build(), Reader::start());
    let mut wrong = Vec::new();
    for ((width, height), scheme) in [(WIDE, "light"), (PHONE, "dark")] {
        browser.size(width, height);
        browser.scheme(scheme);
        for page in [
            "index.html",
            "stages/05.html",
            "examples/bitehist.html",
            "clinic.html",
            "clinic/05.html",
            "kernel-moved.html",
            "glossary.html",
        ] {
            browser.open(&book.page(page), "");
            wrong.extend(browser.barriers().into_iter().map(|what| format!("{page}, {scheme}: {what}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The list of chapters opens with a key, too.
    browser.eval("document.querySelector('#mdbook-sidebar-toggle').focus()");
    browser.chord("Enter", 13, 0);
    browser.until("document.querySelector('#mdbook-sidebar').getAttribute('aria-hidden') === 'false'");
}

/// Each kind of step in light and dark, the list of keys, and the presenter's window.
#[test]
fn axe_finds_no_barrier_in_the_view_for_a_projector() {
    let (book, mut browser) = (Book::build(), Reader::start());
    let mut wrong = Vec::new();
    browser.size(WIDE.0, WIDE.1);
    for scheme in ["light", "dark"] {
        browser.scheme(scheme);
        for window in ["", "presenter"] {
            browser.eval(&format!("window.name = '{window}'"));
            for at in ["#lab/0", "#01/0", "#03/2", "#03/4", "#case-01/0", "#case-01/2"] {
                browser.open(&book.page("index.html"), "");
                browser.open(&book.page("present.html"), at);
                wrong.extend(
                    browser.barriers().into_iter().map(|what| format!("{window} {at}, {scheme}: {what}")),
                );
            }
        }
        browser.press("?");
        wrong.extend(browser.barriers().into_iter().map(|what| format!("keys, {scheme}: {what}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
