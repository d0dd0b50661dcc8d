//! Messages with names in braces: `R{register} invalid mem access '{type}'`.

use std::collections::BTreeMap;

/// What the names in braces stand for.
pub type Values = BTreeMap<String, String>;

/// Matches a whole line with a pattern. Returns what its names stand for; `None` if the line is another one. A name
/// matches as few characters as possible.
pub fn matches(pattern: &str, line: &str) -> Option<Values> {
    let mut values = Values::new();
    let (first, mut rest) = pattern.split_once('{').unwrap_or((pattern, ""));
    let mut line = line.strip_prefix(first)?;
    while let Some((name, after)) = rest.split_once('}') {
        let literal = after.split('{').next().unwrap_or_default();
        let end = if literal.is_empty() { line.len() } else { line.find(literal)? };
        values.insert(name.to_owned(), line[..end].to_owned());
        line = &line[end + literal.len()..];
        rest = after.split_once('{').map_or("", |(_, rest)| rest);
    }
    line.is_empty().then_some(values)
}

/// The names in a text.
pub fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0))
}

/// Fills in a text's names.
pub fn fill(text: &str, values: &Values) -> String {
    values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_matches_up_to_what_follows_it() {
        let values =
            matches("R{register} invalid mem access '{type}'", "R0 invalid mem access 'inv'").unwrap();
        assert_eq!(fill("R{register} is {type} {x}", &values), "R0 is inv {x}");
        assert_eq!(matches("a {b} c", "a x d"), None);
        assert_eq!(matches("a {b} c", "a x c d"), None, "it is the whole line");
        assert_eq!(matches("a {b}", "a x c d").unwrap()["b"], "x c d");
        assert_eq!(matches("a", "a"), Some(Values::new()));
        assert_eq!(matches("a", "ab"), None);
    }
}
