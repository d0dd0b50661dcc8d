//! Cuts code that is too long for a projector into pages.

use serde_json::{Value, json};

/// How many lines fit a window of 1280 x 720 in letters that can be read from the last row, and how many columns.
const ROWS: usize = 22;
const COLUMNS: usize = 100;
/// The view folds unchanged lines that are further than this from a change (`docs/present/view.ts`).
const CONTEXT: usize = 3;

/// A step with code as one step, or as few as it takes. A page begins at a line that is
/// indented as little as possible, and after an empty line if there is one.
pub fn of(step: Value) -> Vec<Value> {
    let lines = step["lines"].as_array().map_or(&[][..], Vec::as_slice);
    let cut = cut(lines);
    let pages = cut.len() - 1;
    if pages == 1 {
        return vec![step];
    }
    let page = |(nth, page): (usize, &[usize])| {
        let mut step = step.clone();
        step["lines"] = json!(lines[page[0]..page[1]]);
        step["of"] = json!(format!("{} of {pages}", nth + 1));
        step
    };
    cut.windows(2).enumerate().map(page).collect()
}

/// How many rows the view shows for each line. A fold of unchanged lines has one.
fn rows(lines: &[Value]) -> Vec<usize> {
    let is_changed = |line: &Value| line[0] != "same";
    let is_whole = lines.len() <= ROWS || !lines.iter().any(is_changed);
    let is_near = |nth: usize| {
        let end = lines.len().min(nth + CONTEXT + 1);
        lines[nth.saturating_sub(CONTEXT)..end].iter().any(is_changed)
    };
    let shown: Vec<_> = (0..lines.len()).map(|nth| is_whole || is_near(nth)).collect();
    let row = |nth: usize| match shown[nth] {
        true => text(&lines[nth]).len().div_ceil(COLUMNS).max(1),
        false => usize::from(nth == 0 || shown[nth - 1]),
    };
    (0..lines.len()).map(row).collect()
}

/// Where the pages begin, and where the last one ends.
fn cut(lines: &[Value]) -> Vec<usize> {
    let rows = rows(lines);
    let count = |from: usize, to: usize| rows[from..to].iter().sum::<usize>();
    // How deep a line is inside the code; after an empty line is the best place of its depth.
    let depth = |nth: usize| match text(&lines[nth]) {
        text if text.trim().is_empty() => usize::MAX,
        line => {
            2 * (line.len() - line.trim_start().len()) + usize::from(!text(&lines[nth - 1]).trim().is_empty())
        }
    };
    let mut cut = vec![0];
    let mut begin = 0;
    while count(begin, lines.len()) > ROWS {
        let rest = count(begin, lines.len());
        let pages = rest.div_ceil(ROWS);
        // What comes after must fit the other pages.
        let least = rest - (pages - 1) * ROWS;
        let ends = begin + 1..lines.len();
        let fits = ends.filter(|end| (least.max(ROWS / 2)..=ROWS).contains(&count(begin, *end)));
        let best = fits.min_by_key(|end| (depth(*end), count(begin, *end).abs_diff(rest / pages)));
        begin = best.unwrap_or(begin + ROWS);
        cut.push(begin);
    }
    cut.push(lines.len());
    cut
}

fn text(line: &Value) -> String {
    let pieces = line[1].as_array().into_iter().flatten();
    pieces.filter_map(|piece| piece[1].as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(lines: impl Iterator<Item = (&'static str, String)>) -> Value {
        let lines: Vec<_> = lines.map(|(kind, text)| json!([kind, [[false, text]]])).collect();
        json!({ "kind": "code", "lines": lines })
    }

    #[test]
    fn what_fits_is_one_page() {
        let short = step((0..ROWS).map(|nth| ("new", nth.to_string())));
        assert_eq!(of(short.clone()), [short]);
    }

    #[test]
    fn a_page_begins_where_the_code_is_indented_least() {
        let lines = (0..ROWS + 6).map(|nth| ("new", if nth == 13 { "fn" } else { "    body" }.to_owned()));
        let pages = of(step(lines));
        let lengths: Vec<_> = pages.iter().map(|page| page["lines"].as_array().unwrap().len()).collect();
        assert_eq!(lengths, [13, 15]);
        assert_eq!((&pages[0]["of"], &pages[1]["of"]), (&json!("1 of 2"), &json!("2 of 2")));
    }

    #[test]
    fn folded_lines_take_one_row() {
        let lines = (0..100).map(|nth| (if nth == 50 { "new" } else { "same" }, nth.to_string()));
        assert_eq!(of(step(lines)).len(), 1);
    }
}
