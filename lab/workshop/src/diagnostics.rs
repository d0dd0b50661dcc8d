//! Errors and warnings in what the compilers and the verifier print, with the line of the source that each names.
//!
//! They print to the terminal, where the learner reads them. The same text, without its colors, is all we need:
//!
//! ```text
//! error: my03-1@0.1.0: /w/mine/03.1/src/bpf/bio_trace.bpf.c:23:17: error: use of undeclared identifier 'bioo'
//!
//! error[E0308]: mismatched types
//!   --> 03.1/src/main.rs:23:18
//!
//! Error: the kernel's verifier refused a BPF program: `start_time` may be NULL
//!   evidence: in bio_endio_entry, bio_trace.bpf.c line 46:
//!   fix:      test it: `if (!start_time) return 0;`
//! ```

use serde::Serialize;

/// A message about a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The file in the working copy.
    path: String,
    line: u32,
    column: Option<u32>,
    severity: &'static str,
    message: String,
}

impl Diagnostic {
    /// What it says, and where, without a fix. The same may be printed twice.
    fn gist(&self) -> (&str, u32, Option<u32>, Option<&str>) {
        (&self.path, self.line, self.column, self.message.lines().next())
    }
}

/// What the verifier's messages begin with.
const REFUSED: &str = "the verifier refuses this: ";

/// Reads what one action prints, line by line.
#[derive(Debug, Default)]
pub struct Reader {
    /// What rustc or the verifier says, until it names the place.
    pending: Option<(&'static str, String)>,
    /// How far the verifier's lines are indented, until its fix comes.
    refused: Option<usize>,
    /// While the lines of that fix come, how far they are indented.
    fix: Option<usize>,
    /// Where one of our files includes the header of which clang speaks next.
    included: Option<(String, u32)>,
    pub found: Vec<Diagnostic>,
}

/// How many we keep. The first one matters most.
const MOST: usize = 100;

impl Reader {
    /// Reads the next line, without colors. Says whether `found` has changed.
    pub fn read(&mut self, line: &str) -> bool {
        if self.read_fix(line) {
            return true;
        }
        if let Some(found) = self.clang(line).or_else(|| self.rustc(line)).or_else(|| self.verifier(line))
            && !self.found.iter().any(|old| old.gist() == found.gist())
            && self.found.len() < MOST
        {
            self.refused = found.message.starts_with(REFUSED).then(|| indent(line));
            self.found.push(found);
            return true;
        }
        false
    }

    /// What to do about the verifier's refusal: a line after `fix:`, and perhaps code below it, which is indented more.
    fn read_fix(&mut self, line: &str) -> bool {
        let Some(refusal) = self.found.last_mut() else { return false };
        let is_its_own = self.refused == Some(indent(line));
        if let Some(fix) = line.trim_start().strip_prefix("fix:").filter(|_| is_its_own) {
            refusal.message += &format!("\n{}", fix.trim());
            self.fix = Some(line.len() - fix.trim_start().len());
            self.refused = None;
        } else if let Some(code) = self.fix.and_then(|column| line.strip_prefix(&" ".repeat(column + 4))) {
            refusal.message += &format!("\n    {}", code.trim_end());
        } else {
            self.fix = None;
            return false;
        }
        true
    }

    /// `PATH:LINE:COLUMN: error: MESSAGE`, perhaps after Cargo's own words. An error in a header is one of the line that
    /// includes it.
    fn clang(&mut self, line: &str) -> Option<Diagnostic> {
        if let Some((_, place)) = line.split_once("n file included from ") {
            let (path, number) = place.trim_end().trim_end_matches([':', ',']).rsplit_once(':')?;
            self.included = source(path).zip(number.parse().ok()).or(self.included.take());
            return None;
        }
        let (place, severity, message) = ["error", "fatal error", "warning"].iter().find_map(|severity| {
            let (place, message) = line.split_once(&format!(": {severity}: "))?;
            // Cargo begins each line of a build script with `error: PACKAGE: `.
            Some((place.rsplit(' ').next()?, severity.trim_start_matches("fatal "), message.trim_end()))
        })?;
        let (path, line, column) = place_of(place)?;
        let included = self.included.take();
        let is_in_header = included.is_some() && message.contains("file not found");
        let lacks_library = is_in_header || message.contains("undeclared library function");
        let why = if lacks_library { " (a BPF program has no C library)" } else { "" };
        let message = format!("{message}{why}");
        match (source(path), included) {
            (Some(path), _) => Some(Diagnostic { path, line, column: Some(column), severity, message }),
            (None, Some((path, line))) if severity == "error" => Some(Diagnostic {
                path,
                line,
                column: None,
                severity,
                message: format!("in this header: {message}"),
            }),
            (None, _) => None,
        }
    }

    /// A message, and then `--> PATH:LINE:COLUMN`.
    fn rustc(&mut self, line: &str) -> Option<Diagnostic> {
        if let Some(place) = line.trim_start().strip_prefix("--> ") {
            let (severity, message) = self.pending.take()?;
            let (path, line, column) = place_of(place)?;
            return Some(Diagnostic { path: source(path)?, line, column: Some(column), severity, message });
        }
        for severity in ["error", "warning"] {
            let Some(rest) = line.strip_prefix(severity) else { continue };
            // `error: message` or `error[E0308]: message`
            let code =
                rest.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(rest, |(_, rest)| rest);
            if let Some(message) = code.strip_prefix(": ") {
                self.pending = Some((severity, message.trim_end().to_owned()));
            }
        }
        None
    }

    /// A reason, and then `in FUNCTION, FILE line LINE:`.
    fn verifier(&mut self, line: &str) -> Option<Diagnostic> {
        if let Some((_, reason)) = line.split_once("the kernel's verifier refused a BPF program: ") {
            self.pending = Some(("error", format!("{REFUSED}{}", reason.trim_end())));
        }
        let (place, number) = line.trim_end().strip_suffix(':')?.rsplit_once(" line ")?;
        let (_, file) = place.rsplit_once(", ")?;
        let (path, line) =
            (file.ends_with(".bpf.c").then(|| format!("src/bpf/{file}"))?, number.parse().ok()?);
        let (severity, message) = self.pending.take()?;
        Some(Diagnostic { path, line, column: None, severity, message })
    }
}

/// The parts of `PATH:LINE:COLUMN`.
fn place_of(place: &str) -> Option<(&str, u32, u32)> {
    let mut parts = place.trim_end().rsplitn(3, ':');
    let (column, line) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some((parts.next()?, line, column))
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The path within a working copy. What is elsewhere, such as a header of the kernel's types, is not in the editor.
fn source(path: &str) -> Option<String> {
    // A case of the clinic is one file: `mine/clinic-01/latency.bpf.c`.
    let in_case =
        || Some(path.rsplit_once("/clinic-")?.1.split_once('/')?.1).filter(|file| !file.contains('/'));
    let at = path.rfind("/src/").map(|at| at + 1).or_else(|| path.starts_with("src/").then_some(0));
    at.map(|at| &path[at..]).or_else(in_case).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each part of the file is what an action prints, after a line that says what it shows.
    #[test]
    fn what_compilers_and_the_verifier_print_names_lines() {
        let mut seen = String::new();
        for part in include_str!("diagnostics.txt").split("=== ").skip(1) {
            let (title, printed) = part.split_once('\n').unwrap();
            let mut reader = Reader::default();
            for line in printed.lines() {
                let before = reader.found.clone();
                assert_eq!(reader.read(line), reader.found != before, "{line}");
            }
            seen += &format!("=== {title}\n");
            for Diagnostic { path, line, column, severity, message } in reader.found {
                seen += &format!("{path}:{line}:{column:?} {severity}: {message}\n");
            }
        }
        insta::assert_snapshot!(seen);
    }
}
