//! Explains why the kernel or libbpf refused to load a BPF program: where, why, and what to do about it.
//!
//! [`explain`] is a pure function from libbpf's log and the compiled object to a [`Refusal`]. The mistakes that it
//! recognizes are data, in `kinds.rs`, and each is a case of the clinic: `cargo lab clinic list`.

mod kinds;
mod log;
mod object;
mod pattern;

use std::collections::BTreeSet;

use serde::Serialize;

use crate::Error;
use crate::refusal::kinds::{Given, KINDS, Kind, UNKNOWN};
use crate::refusal::log::{Log, Source};
pub use crate::refusal::object::{Location, Object};
use crate::refusal::pattern::{Values, fill, matches};

/// Why a program was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Whether the verifier refused it; otherwise libbpf or the kernel refused it before.
    pub is_verifiers: bool,
    /// The kind of mistake, such as `null-test`, or `unknown`.
    pub kind: &'static str,
    /// The program.
    pub program: Option<String>,
    /// The source line that was refused, if it is about one.
    pub place: Option<Place>,
    /// The last branches on the way there: each a source line, and the line where the way continues.
    pub path: Vec<[Place; 2]>,
    /// What the verifier or libbpf says.
    pub words: Vec<String>,
    /// What is wrong, as the end of a sentence.
    pub cause: String,
    /// Why the kernel refuses it.
    pub why: String,
    /// What to do.
    pub cure: String,
    /// The number of the clinic's case.
    pub case: Option<&'static str>,
}

/// A source line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file's name and the line's number. Kernels before 6.9 don't have them; then they are from the object, if we
    /// have that and it has the line once.
    #[serde(flatten)]
    pub location: Option<Location>,
    /// The line itself.
    pub source: String,
}

/// Explains why a program was refused, from libbpf's warnings and the objects that could contain the program. `None` if
/// the warnings show no refusal that we know, and no verifier's log either.
pub fn explain(warnings: &str, objects: &[Object]) -> Option<Refusal> {
    let Some(log) = Log::parse(warnings) else {
        let lines: Vec<_> = warnings.lines().map(|line| line.trim_start_matches("libbpf: ")).collect();
        let (kind, words, values) = recognize(&lines, |_, _| false)?;
        let program = values.get("program").cloned();
        return Some(Refusal::new(kind, program, words, &values));
    };
    let object = object_of(&log, objects);
    let place =
        |source: &Source| Place { location: log.location(source, object), source: source.text.clone() };
    let found = recognize(&log.words, |given, values| is_given(given, values, &log));
    let (kind, words, mut values) = found.unwrap_or_else(|| (&UNKNOWN, words_of(&log), Values::new()));
    let refused = log.source().filter(|_| !kind.is_everywhere).map(place);
    add_values(&mut values, &log, refused.as_ref());
    let path = log.branches().into_iter().map(|(from, to)| [place(from), place(to)]);
    let path = if refused.is_some() { path.collect() } else { Vec::new() };
    let refusal = Refusal::new(kind, Some(log.program.to_owned()), words, &values);
    Some(Refusal { is_verifiers: true, place: refused, path, ..refusal })
}

/// The kind whose words are among these lines, the words, and what the names in them stand for.
fn recognize(
    lines: &[&str],
    is_given: impl Fn(Given, &Values) -> bool,
) -> Option<(&'static Kind, Vec<String>, Values)> {
    KINDS.iter().find_map(|kind| {
        kind.says.iter().find_map(|says| {
            lines.windows(says.lines().count()).find_map(|lines| {
                let values = matches(says, &lines.join("\n"))?;
                let is_kind = kind.given.is_none_or(|given| is_given(given, &values));
                is_kind.then(|| (kind, lines.iter().map(|line| (*line).to_owned()).collect(), values))
            })
        })
    })
}

fn is_given(given: Given, values: &Values, log: &Log<'_>) -> bool {
    let number = |name: &str| values.get(name)?.parse::<i64>().ok();
    match given {
        Given::Reserved => log.calls(RESERVE),
        Given::Released => values.get("register").is_some_and(|register| log.was_released(register)),
        Given::ReleasedTwice => log.releases_twice(),
        Given::Global => log.validates_a_function(),
        Given::Overrun => number("offset").zip(number("length")).is_some_and(|(at, long)| at + long > 0),
    }
}

const RESERVE: &str = "bpf_ringbuf_reserve";

/// For a message that we don't know: the last lines of the log, with the message.
fn words_of(log: &Log<'_>) -> Vec<String> {
    log.end().iter().chain(&log.words).map(|line| (*line).to_owned()).collect()
}

/// The object that the program is from. If several have a program of this name, it is the one with the log's source
/// lines; if we can't decide, it is none.
fn object_of<'a>(log: &Log<'_>, objects: &'a [Object]) -> Option<&'a Object> {
    let texts: BTreeSet<_> = log.texts().collect();
    let fits = |object: &&Object| object.section(log.program).is_some();
    let mut fitting: Vec<_> =
        objects.iter().filter(fits).map(|object| (object.count(texts.iter().copied()), object)).collect();
    fitting.sort_by_key(|(count, _)| *count);
    match fitting[..] {
        [(_, object)] => Some(object),
        [.., (other, _), (most, object)] if most > other => Some(object),
        _ => None,
    }
}

/// Adds the values that are not in the message itself.
fn add_values(values: &mut Values, log: &Log<'_>, place: Option<&Place>) {
    let line =
        place.and_then(|place| place.location.as_ref()).map(|location| format!("line {}", location.line));
    let register = values.get("register").map(|number| format!("the pointer in R{number}"));
    // If there is only one pointer that the line can be about, we know its name. Otherwise we don't guess.
    let name = place.and_then(|place| only_pointer(&place.source)).or_else(|| {
        let (_, source) = log.only_call(&["bpf_map_lookup_elem", RESERVE])?;
        assigned(&source.text)
    });
    let helper = log.last_instruction().and_then(|text| text.strip_prefix("call ")?.split('#').next());
    let room = values.get("offset").and_then(|offset| offset.strip_prefix('-')).map(str::to_owned);
    let variable = name.map(|name| format!("`{name}`")).or(register);
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            values.entry(name.to_owned()).or_insert(value);
        }
    };
    add("line", line.or_else(|| Some("this line".to_owned())));
    add("variable", variable.or_else(|| Some("the pointer".to_owned())));
    add("name", name.or(Some("pointer")).map(str::to_owned));
    add("helper", helper.or(Some("the helper")).map(str::to_owned));
    add("room", room);
    add("program", Some(log.program.to_owned()));
}

/// The name of the only variable through which a source line reads or writes.
fn only_pointer(source: &str) -> Option<&str> {
    // Names in strings don't count.
    let code = source.split('"').step_by(2);
    let mut names = BTreeSet::new();
    for code in code {
        for (at, _) in code.match_indices("->") {
            names.insert(word_before(&code[..at])?);
        }
        for (at, _) in code.match_indices('*') {
            let before = code[..at].trim_end();
            let is_factor = before.ends_with(|c: char| c.is_alphanumeric() || "_)]*/".contains(c));
            let after = &code[at + 1..];
            let end = after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(after.len());
            if !is_factor && end > 0 {
                names.insert(&after[..end]);
            }
        }
    }
    if names.len() == 1 { names.pop_first() } else { None }
}

/// The name of the variable to which a source line assigns.
fn assigned(source: &str) -> Option<&str> {
    let (left, _) = source.split_once(" = ")?;
    word_before(left)
}

/// The name at the end of a text.
fn word_before(text: &str) -> Option<&str> {
    let begin = text.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    let word = &text[begin..];
    word.starts_with(|c: char| c.is_alphabetic() || c == '_').then_some(word)
}

impl Refusal {
    fn new(kind: &Kind, program: Option<String>, words: Vec<String>, values: &Values) -> Self {
        Self {
            is_verifiers: false,
            kind: kind.name,
            program,
            place: None,
            path: Vec::new(),
            words,
            cause: fill(kind.cause, values),
            why: fill(kind.why, values),
            cure: fill(kind.cure, values),
            case: kind.case,
        }
    }

    /// Whether we don't know the verifier's words.
    pub fn is_unknown(&self) -> bool {
        self.kind == UNKNOWN.name
    }
}

impl Place {
    /// The line with its number, as far as we know it.
    fn short(&self) -> String {
        match &self.location {
            Some(location) => format!("line {}, {}", location.line, self.source),
            None => self.source.clone(),
        }
    }
}

impl From<Refusal> for Error {
    /// As the text that a person reads.
    fn from(refusal: Refusal) -> Self {
        let mut evidence = Vec::new();
        if let Some(program) = &refusal.program {
            evidence.push(match &refusal.place {
                Some(Place { location: Some(Location { file, line }), source }) => {
                    format!("in {program}, {file} line {line}:\n    {source}")
                }
                Some(Place { location: None, source }) => format!("in {program}:\n    {source}"),
                None => format!("in {program}"),
            });
        }
        evidence.extend(refusal.words.iter().cloned());
        evidence.push(refusal.why);
        if !refusal.path.is_empty() {
            evidence.push("the path that leads there:".to_owned());
            let step = |[from, to]: &[Place; 2]| format!("    {}  ->  {}", from.short(), to.short());
            evidence.extend(refusal.path.iter().map(step));
        }
        let more = refusal.case.map(|case| format!("\nto read more: cargo lab clinic show {case}"));
        let who = if refusal.is_verifiers { "the kernel's verifier refused a BPF program: " } else { "" };
        Self::new(format!("{who}{}", refusal.cause))
            .evidence(evidence.join("\n"))
            .fix(refusal.cure + &more.unwrap_or_default())
    }
}
