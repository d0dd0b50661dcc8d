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
    /// What was found so far.
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
        let mut parts = place.rsplitn(3, ':');
        let (column, line, path) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
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
            let mut parts = place.trim_end().rsplitn(3, ':');
            let (column, line, path) =
                (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
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

    fn read(text: &str) -> Vec<Diagnostic> {
        let mut reader = Reader::default();
        for line in text.lines() {
            let before = reader.found.clone();
            assert_eq!(reader.read(line), reader.found != before, "{line}");
        }
        reader.found
    }

    #[test]
    fn clang_names_line_and_column() {
        insta::assert_debug_snapshot!(read(
            "error: my03-1@0.1.0: /w/a b/mine/03.1/src/bpf/bio_trace.bpf.c:23:17: error: use of undeclared identifier 'bioo'
             error: my03-1@0.1.0:         u64 key = (u64)bioo;
             error: my03-1@0.1.0: 1 error generated.
             /w/mine/03.1/src/bpf/bio_trace.bpf.c:40:2: warning: unused variable 'key' [-Wunused-variable]
             /w/mine/clinic-01/latency.bpf.c:7:2: error: a case of the clinic
             /w/common/build/vmlinux.h:9:1: error: not one of our files"
        ));
    }

    #[test]
    fn an_error_in_a_header_is_one_of_the_line_that_includes_it() {
        let found = read(
            "error: my01-1@0.1.0: In file included from /w/mine/01.1/src/bpf/bio_trace.bpf.c:5:
             error: my01-1@0.1.0: /usr/include/string.h:26:10: fatal error: 'bits/libc-header-start.h' file not found
             /w/mine/01.1/src/bpf/bio_trace.bpf.c:13:6: error: call to undeclared library function 'strcmp'
             /w/mine/01.1/src/bpf/bio_trace.bpf.c:6:10: fatal error: 'mine.h' file not found",
        );
        let seen: Vec<_> = found.iter().map(|one| (one.line, &*one.message)).collect();
        let header =
            "in this header: 'bits/libc-header-start.h' file not found (a BPF program has no C library)";
        let call = "call to undeclared library function 'strcmp' (a BPF program has no C library)";
        assert_eq!(seen, [(5, header), (13, call), (6, "'mine.h' file not found")]);
    }

    #[test]
    fn rustc_names_the_place_after_the_message() {
        insta::assert_debug_snapshot!(read(
            "error[E0308]: mismatched types\n  --> 03.1/src/main.rs:23:18\n   |\n\
             warning: unused variable: `x`\n --> 03.1/src/main.rs:4:9\n\
             error: could not compile `my03-1` (bin \"my03-1\") due to 1 previous error"
        ));
    }

    #[test]
    fn the_verifier_names_a_line() {
        insta::assert_debug_snapshot!(read(
            "Error: 03.2 is not right yet: my03-2 ended before it was attached: exit status: 1
  evidence: Error: the kernel's verifier refused a BPF program: `start_time` may be NULL
              evidence: in bio_endio_entry, bio_trace.bpf.c line 46:
                            bpf_printk(\"submit_bio() -> bio_endio() time duration: %llu ns\", end_time - *start_time);
                        A lookup returns NULL if the map does not have the key, and line 46 uses the pointer without a test.
              fix:      test the pointer before you use it:
                            if (!start_time)
                                return 0;
                        to read more: cargo lab clinic show 01
  fix:      see what it prints: cargo lab run --mine 03.2"
        ));
    }

    #[test]
    fn the_checks_own_fix_is_not_the_verifiers() {
        let found = read(
            "  evidence: Error: the kernel's verifier refused a BPF program: it reads too far
              evidence: in bio_endio_entry, bio_trace.bpf.c line 46:
  fix:      see what it prints: cargo lab run --mine 03.2",
        );
        assert_eq!(found[0].message, format!("{REFUSED}it reads too far"));
    }

    #[test]
    fn what_a_stage_prints_is_no_error() {
        assert_eq!(read("io-155 [000] d.h11 7.264378: bio_endio(bio=0xff1b) called: 7264327137"), []);
    }
}
