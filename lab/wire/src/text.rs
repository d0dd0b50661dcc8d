//! Text for a terminal.

/// Wraps paragraphs for a terminal. What is between lines of three backticks is output, and stays as it is.
pub fn wrap(text: &str, columns: usize) -> String {
    // What is between backticks is to be typed, so it stays on one line.
    const KEPT_SPACE: &str = "\u{a0}";
    let paragraph = |text: &str| {
        let pieces = text.split('`').enumerate();
        let pieces = pieces
            .map(|(nth, piece)| if nth % 2 == 1 { piece.replace(' ', KEPT_SPACE) } else { piece.to_owned() });
        let text = pieces.collect::<Vec<_>>().join("`").replace('\n', " ");
        let (mut lines, mut width) = (String::new(), 0);
        for word in text.split(' ') {
            let more = word.chars().count();
            if lines.is_empty() {
                width = more;
            } else if width + 1 + more <= columns {
                lines.push(' ');
                width += 1 + more;
            } else {
                lines.push('\n');
                width = more;
            }
            lines.push_str(word);
        }
        lines.replace(KEPT_SPACE, " ") + "\n"
    };
    let mut parts = Vec::new();
    for (nth, part) in text.split("```").enumerate() {
        match nth % 2 {
            1 => parts.push(part.trim_start_matches('\n').to_owned()),
            _ => parts.extend(part.trim().split("\n\n").filter(|text| !text.is_empty()).map(paragraph)),
        }
    }
    parts.join("\n")
}
