//! What people paste. libbpf's own warnings are only one form in which a verifier's log arrives: other loaders put their words
//! around it, mails, journals and terminals put something before each line, and often the beginning or the end is missing.

/// What comes before a log. If none of the first group is there, the last of the second group counts.
const BEGINS: [&[&str]; 2] = [
    &["-- BEGIN PROG LOAD LOG --", "-- BEGIN DUMP LOG ---"],
    &["Verifier output: ", "Verifier analysis:", "Verifier log:", "log_buf = ", LOAD],
];

/// What cilium/ebpf and bcc say before the error, after which the log follows.
const LOAD: &str = "load program: ";

/// What comes after a log.
const ENDS: [&str; 3] = ["-- END PROG LOAD LOG --", "-- END LOG --", "Caused by:"];

/// What comes before and after the name of the program that was refused.
const PROGRAMS: [(&str, &str); 6] = [
    ("prog '", "': -- BEGIN"),
    ("prog '", "': failed to load"),
    ("prog '", "': BPF program load failed"),
    ("program ", ": load program: "),
    ("failed to load program '", "'"),
    ("Failed to load BPF program b'", "'"),
];

/// What a line has in which cilium/ebpf shows only the last two lines of a log.
const OMITTED: &str = "line(s) omitted)";

/// A verifier's log without what was around it.
#[derive(Debug)]
pub struct Pasted {
    /// The program; empty if nothing names it.
    pub program: String,
    /// The log's lines.
    pub lines: Vec<String>,
    /// Whether libbpf has marked where it begins.
    pub is_marked: bool,
    /// Whether libbpf says that it could not load the program.
    pub has_failed: bool,
}

impl Pasted {
    /// Finds the last log in a text; `None` if nothing in it looks like one.
    pub fn find(text: &str) -> Option<Self> {
        let program = PROGRAMS.iter().find_map(|(before, after)| named(text, before, after));
        let mut lines = lines(text);
        // The whole log is better than its last two lines.
        let is_whole = |line: &String| !line.contains(OMITTED);
        if lines.iter().filter(|line| is_whole(line)).any(|line| instruction_at(line) == Some(0)) {
            lines.retain(is_whole);
        }
        let begin = BEGINS.iter().find_map(|begins| {
            let with = |line: &String| begins.iter().find_map(|begin| Some((line.rfind(begin)?, *begin)));
            let (nth, (at, begin)) =
                lines.iter().enumerate().rev().find_map(|(nth, line)| Some((nth, with(line)?)))?;
            Some((nth, at, begin))
        });
        if let Some((nth, at, begin)) = begin {
            let after = lines[nth][at + begin.len()..].to_owned();
            // What cilium/ebpf and bcc name first is the error.
            lines[nth] = match begin {
                LOAD => after.split_once(':').map_or("", |(_, log)| log.trim_start()).to_owned(),
                _ => after,
            };
            lines.drain(..nth);
        }
        let is_end = |line: &String| ENDS.iter().any(|end| line.contains(end));
        let end = match begin {
            Some(_) => lines.iter().position(is_end),
            None => lines.iter().rposition(is_end),
        };
        lines.truncate(end.unwrap_or(lines.len()));
        let lines: Vec<_> = lines.iter().flat_map(|line| parts(line)).map(str::to_owned).collect();
        let is_count = |line: &str| line.starts_with("processed ");
        let is_log = |line: &String| instruction_at(line) == Some(0) || is_count(line);
        (begin.is_some() || end.is_some() || lines.iter().any(is_log)).then(|| Self {
            program: program.unwrap_or_default().to_owned(),
            has_failed: ["failed to load", "load failed", "program failed"]
                .iter()
                .any(|words| text.contains(words)),
            is_marked: begin.is_some_and(|(.., begin)| BEGINS[0].contains(&begin)),
            lines,
        })
    }
}

/// The text of a file that need not be UTF-8. What Windows writes has a zero byte after each character.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "")
}

/// The last name between two texts.
fn named<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let is_name = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let names = text.match_indices(after).filter_map(|(at, _)| Some(text[..at].rsplit_once(before)?.1));
    names.filter(is_name).last()
}

/// The lines of a text, without what a mail, a journal, a terminal or an editor puts before each.
pub fn lines(text: &str) -> Vec<String> {
    // Web pages have such spaces.
    let mut text = without_colors(&text.replace('\u{a0}', " "));
    // Structured logs have all lines in one.
    let is_one = |line: &&str| instruction_at(line.trim_start_matches("\\t")) == Some(0);
    if text.split("\\n").skip(1).filter(is_one).count() > 1 {
        text = text.replace("\\n", "\n").replace("\\t", "").replace("\\\"", "\"");
    }
    let mut prefixes: Vec<_> =
        text.lines().filter_map(|line| Some(shape(&line[..content_at(line)?]))).collect();
    prefixes.sort();
    prefixes.dedup();
    prefixes.sort_by_key(|prefix| std::cmp::Reverse(prefix.len()));
    let bare = |line: &str| {
        let at = content_at(line);
        let after = || prefixes.iter().find_map(|prefix| without(line, prefix));
        at.map(|at| &line[at..]).or_else(after).unwrap_or(line).to_owned()
    };
    text.lines().map(bare).collect()
}

/// The same lines without all that is around the words.
pub fn bare(lines: &[String]) -> Vec<&str> {
    let is_mark = |c: char| c.is_whitespace() || ">|:`".contains(c);
    let bare =
        lines.iter().map(|line| line.trim_start_matches(is_mark).trim_start_matches("libbpf: ").trim_end());
    bare.flat_map(parts).collect()
}

/// Where the part of a line begins that the verifier or libbpf wrote, if we know it by its form.
fn content_at(line: &str) -> Option<usize> {
    let is_prefix = |at: &usize| !line[..*at].trim_end().ends_with(char::is_alphanumeric);
    let count = || line.find("processed ").filter(|_| line.contains(" insns")).filter(is_prefix);
    let known = line.find("libbpf: ").or_else(count);
    instruction_at(line).filter(|_| BEGINS.concat().iter().all(|begin| !line.contains(begin))).or(known)
}

/// Where the number of an instruction begins: `16: (79) r1 = *(u64 *)(r0 +0)`.
fn instruction_at(line: &str) -> Option<usize> {
    let (at, _) = line.match_indices(": (").find(|(at, _)| {
        let code = line.as_bytes().get(at + 3..at + 7);
        code.is_some_and(|code| code[..2].iter().all(u8::is_ascii_hexdigit) && code[2..] == *b") ")
    })?;
    let before = line[..at].trim_end_matches(|c: char| c.is_ascii_digit());
    // `before 15: (b7) r3 = 4` is about how the verifier went back.
    let is_first = before.len() < at && !before.contains(';') && !before.ends_with("before ");
    (is_first && !before.ends_with(|c: char| c.is_alphanumeric())).then_some(before.len())
}

/// A text in which each number is a zero.
fn shape(text: &str) -> String {
    let mut shape = String::new();
    for c in text.chars() {
        match c.is_ascii_digit() {
            true if shape.ends_with('0') => {}
            true => shape.push('0'),
            false => shape.push(c),
        }
    }
    shape
}

/// A line without a prefix of this shape; `None` if it has another one.
fn without<'a>(line: &'a str, shape: &str) -> Option<&'a str> {
    let mut rest = line;
    for (nth, c) in shape.char_indices() {
        rest = match c {
            '0' => rest
                .strip_prefix(|c: char| c.is_ascii_digit())?
                .trim_start_matches(|c: char| c.is_ascii_digit()),
            // Nothing follows, not even the spaces of the prefix.
            _ if rest.is_empty() && shape[nth..].trim().is_empty() => return Some(""),
            _ => rest.strip_prefix(c)?,
        };
    }
    Some(rest)
}

/// A text without the sequences with which a terminal changes colors.
fn without_colors(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

/// The lines that somebody has joined: `9: (79) r3 = *(u64 *)(r1 +96): R1 invalid mem access 'scalar' (16 line(s) omitted)`.
fn parts(line: &str) -> Vec<&str> {
    let line =
        line.split_once(OMITTED).and_then(|(line, _)| line.rsplit_once(" (")).map_or(line, |(line, _)| line);
    let is_instruction = instruction_at(line) == Some(0);
    let operation = line.split(';').next().unwrap_or_default();
    let joint = match is_instruction {
        true => operation.match_indices(": ").nth(1).map(|(at, joint)| (at, joint.len())),
        false => None,
    };
    // Some of the verifier's words lack their newline, and the count follows them at once.
    let count = line.find("processed ").filter(|at| *at > 0 && line[*at..].contains(" insns"));
    let joint = joint.or_else(|| Some((count.filter(|_| !line.trim_start().starts_with(';'))?, 0)));
    let joint = joint.or_else(|| {
        let of_words = || [": R", "; R"].iter().find_map(|joint| line.find(joint));
        of_words().filter(|_| line.starts_with("invalid access to ")).map(|at| (at, 2))
    });
    match joint {
        Some((at, length)) => [vec![&line[..at]], parts(&line[at + length..])].concat(),
        None => vec![line],
    }
}
