//! Cuts code that is too long for a projector into pages.

use serde_json::{Value, json};

/// How many lines fit a window of 1280 x 720 in letters that can be read from the last row, and how many columns.
const ROWS: usize = 20;
const COLUMNS: usize = 80;
const TAB: usize = 4;
/// A page has at least so many rows: no brace stands alone.
const LEAST: usize = 4;
/// Of an item that does not fit, the view folds unchanged lines that are further than this from a change.
const CONTEXT: usize = 3;

/// A step with code as one step, or as few as it takes. A page begins at a line that is indented as little as possible,
/// and after an empty line if there is one.
pub fn of(mut step: Value) -> Vec<Value> {
    let lines: Vec<_> = step["lines"].as_array().into_iter().flatten().map(Line::of).collect();
    let is_folded = lines.iter().any(|line| line.is_changed) && rows(&lines, false) > ROWS;
    step["folded"] = json!(is_folded);
    let cut = cut(&lines, is_folded);
    // A page without a change is left out.
    let is_shown = |page: &&[usize]| !is_folded || lines[page[0]..page[1]].iter().any(|line| line.is_changed);
    let shown: Vec<_> = cut.windows(2).filter(is_shown).collect();
    let pages = shown.len();
    if cut.len() == 2 {
        return vec![step];
    }
    let page = |(nth, page): (usize, &&[usize])| {
        let mut step = step.clone();
        let ends_empty = nth + 1 < pages && lines[page[1] - 1].indent.is_none();
        let end = page[1] - usize::from(ends_empty);
        step["lines"] = json!(step["lines"].as_array().map(|all| &all[page[0]..end]));
        if pages > 1 {
            step["of"] = json!(format!("{} of {pages}", nth + 1));
        }
        step
    };
    shown.iter().enumerate().map(page).collect()
}

/// What counts of a line.
struct Line {
    is_changed: bool,
    /// How many rows it takes when it wraps.
    rows: usize,
    /// How many columns it is indented; `None` if it is empty.
    indent: Option<usize>,
    /// Whether it is the end of a block.
    is_end: bool,
}

impl Line {
    fn of(line: &Value) -> Self {
        let columns = |text: &str| text.chars().map(|c| if c == '\t' { TAB } else { 1 }).sum::<usize>();
        let pieces = line[1].as_array().into_iter().flatten();
        let text: String = pieces.filter_map(|piece| piece[1].as_str()).collect();
        let bare = text.trim_start();
        Self {
            is_changed: line[0] != "same",
            rows: columns(&text).div_ceil(COLUMNS).max(1),
            indent: (!bare.is_empty()).then(|| columns(&text[..text.len() - bare.len()])),
            is_end: bare.starts_with('}'),
        }
    }
}

/// How many rows the view shows of these lines. A fold of unchanged lines has one.
fn rows(lines: &[Line], is_folded: bool) -> usize {
    if !is_folded || !lines.iter().any(|line| line.is_changed) {
        return lines.iter().map(|line| line.rows).sum();
    }
    let is_near = |nth: usize| {
        let end = lines.len().min(nth + CONTEXT + 1);
        lines[nth.saturating_sub(CONTEXT)..end].iter().any(|line| line.is_changed)
    };
    let row = |nth: usize| match is_near(nth) {
        true => lines[nth].rows,
        false => usize::from(nth == 0 || is_near(nth - 1)),
    };
    (0..lines.len()).map(row).sum()
}

/// Where the pages begin, and where the last one ends.
fn cut(lines: &[Line], is_folded: bool) -> Vec<usize> {
    let rows = |lines: &[Line]| rows(lines, is_folded);
    // How deep a line is inside the code; after an empty line is the best place of its depth.
    let depth = |nth: usize| match lines[nth].indent {
        None => usize::MAX,
        // No page begins with the end of a block.
        Some(_) if lines[nth].is_end => usize::MAX,
        Some(indent) => 2 * indent + usize::from(lines[nth - 1].indent.is_some()),
    };
    let mut cut = vec![0];
    let mut begin = 0;
    while rows(&lines[begin..]) > ROWS {
        let rest = rows(&lines[begin..]);
        let pages = rest.div_ceil(ROWS);
        let fits = || (begin + 1..lines.len()).filter(|end| rows(&lines[begin..*end]) <= ROWS);
        // A page is not much emptier than it must be, and what comes after it fits the other pages. Rather one page more
        // than an end of a block at the begin of one.
        let best = |pages: usize| {
            let is_good = |end: &usize| {
                let after = rows(&lines[*end..]);
                let is_full = rows(&lines[begin..*end]) >= ROWS / 2;
                is_full && depth(*end) < usize::MAX && (LEAST..=(pages - 1) * ROWS).contains(&after)
            };
            let far = |end: usize| rows(&lines[begin..end]).abs_diff(rest / pages);
            fits().filter(is_good).min_by_key(|end| (depth(*end), far(*end)))
        };
        // A single line may be higher than the window.
        begin = best(pages).or_else(|| best(pages + 1)).or_else(|| fits().next_back()).unwrap_or(begin + 1);
        cut.push(begin);
        if begin >= lines.len() {
            return cut;
        }
    }
    cut.push(lines.len());
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(lines: impl Iterator<Item = (&'static str, String)>) -> Value {
        let lines: Vec<_> = lines.map(|(kind, text)| json!([kind, [[false, text]]])).collect();
        json!({ "kind": "code", "lines": lines })
    }

    fn lengths(pages: &[Value]) -> Vec<usize> {
        pages.iter().map(|page| page["lines"].as_array().unwrap().len()).collect()
    }

    #[test]
    fn what_fits_is_one_page() {
        let short = step((0..ROWS).map(|nth| ("new", nth.to_string())));
        let pages = of(short);
        assert_eq!((lengths(&pages), &pages[0]["folded"]), (vec![ROWS], &json!(false)));
    }

    #[test]
    fn a_page_begins_where_the_code_is_indented_least() {
        let lines = (0..ROWS + 8).map(|nth| ("new", if nth == 13 { "fn" } else { "    body" }.to_owned()));
        let pages = of(step(lines));
        assert_eq!(lengths(&pages), [13, 15]);
        assert_eq!((&pages[0]["of"], &pages[1]["of"]), (&json!("1 of 2"), &json!("2 of 2")));
    }

    #[test]
    fn a_page_without_a_change_is_left_out() {
        let kind = |nth| if nth < ROWS { "same" } else { "new" };
        let pages = of(step((0..2 * ROWS).map(|nth| (kind(nth), format!("{nth:0>100}")))));
        assert!(
            pages.iter().all(|page| page["lines"].as_array().unwrap().iter().any(|line| line[0] == "new"))
        );
    }

    #[test]
    fn no_page_begins_with_the_end_of_a_block() {
        let line = |nth| if (12..=ROWS).contains(&nth) { "    }" } else { "    body" };
        let pages = of(step((0..2 * ROWS - 2).map(|nth| ("new", line(nth).to_owned()))));
        assert!(pages.iter().all(|page| page["lines"][0][1][0][1] == "    body"), "{pages:?}");
    }

    #[test]
    fn no_page_ends_in_an_empty_line() {
        let lines = (0..ROWS + 8).map(|nth| ("new", if nth == 13 { "" } else { "    body" }.to_owned()));
        assert_eq!(lengths(&of(step(lines))), [13, 14]);
    }

    #[test]
    fn no_brace_stands_alone() {
        let lines = (0..=ROWS).map(|nth| ("new", if nth == ROWS { "}" } else { "    body" }.to_owned()));
        let lengths = lengths(&of(step(lines)));
        assert_eq!(lengths.len(), 2);
        assert!(lengths[1] >= 4, "{lengths:?}");
    }

    #[test]
    fn folded_lines_take_one_row() {
        let lines = (0..100).map(|nth| (if nth == 50 { "new" } else { "same" }, nth.to_string()));
        assert_eq!(of(step(lines)).len(), 1);
    }

    #[test]
    fn what_fits_only_without_its_unchanged_lines_is_one_page() {
        let long = |nth| format!("{nth:0>170}");
        let pages = of(step((0..15).map(|nth| (if nth == 14 { "new" } else { "same" }, long(nth)))));
        assert_eq!((lengths(&pages), &pages[0]["folded"]), (vec![15], &json!(true)));
    }

    #[test]
    fn long_lines_count_as_often_as_they_wrap() {
        let long = (0..15).map(|nth| ("same", "x".repeat(if nth == 0 { 170 } else { 250 })));
        assert_eq!(lengths(&of(step(long))), [5, 5, 5]);
        let endless = [("new", "x".repeat(5_000)), ("new", "y".to_owned())];
        assert_eq!(lengths(&of(step(endless.into_iter()))), [1, 1]);
    }

    #[test]
    fn unchanged_lines_alone_are_not_folded() {
        let lines = (0..60).map(|nth| (if nth < 20 { "new" } else { "same" }, nth.to_string()));
        for page in of(step(lines)) {
            let lines: Vec<_> = page["lines"].as_array().unwrap().iter().map(Line::of).collect();
            assert!(rows(&lines, page["folded"] == true) <= ROWS, "{page}");
        }
    }
}
