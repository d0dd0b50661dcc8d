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
use crate::refusal::kinds::{At, Given, KINDS, Kind, UNKNOWN};
use crate::refusal::log::{Log, Source, called};
pub use crate::refusal::object::{Access, Location, Object};
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
    /// How the source changes, where we can derive that: lines that begin with `+`, `-` or a space.
    pub change: Option<String>,
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
        let limit_stays = || lines.iter().any(|line| line.starts_with("Failed to bump RLIMIT_MEMLOCK"));
        let (kind, words, values) =
            recognize(&lines, |given, _| matches!(given, Given::LimitStays) && limit_stays())?;
        let program = values.get("program").cloned();
        return Some(Refusal::new(kind, program, words, &values));
    };
    let object = object_of(&log, objects);
    let place =
        |source: &Source| Place { location: log.location(source, object), source: source.text.clone() };
    let found = recognize(&log.words, |given, values| is_given(given, values, &log, object));
    let (kind, words, mut values) = found.unwrap_or_else(|| (&UNKNOWN, words_of(&log), Values::new()));
    let refused = match kind.at {
        At::Nowhere => None,
        At::End => log.source().map(place),
        At::Field => named(&values, &log, object).or_else(|| log.source().map(place)),
        At::Return => log.returning().map(place).or_else(|| {
            let (source, location) = object?.line_with(log.program, log.program)?;
            Some(Place { location: Some(location.clone()), source: source.to_owned() })
        }),
        At::Function => values.get("function").and_then(|name| {
            let (source, location) = object?.line_at(name, 0)?;
            Some(Place { location: Some(location.clone()), source: source.to_owned() })
        }),
    };
    add_values(&mut values, &log, object, refused.as_ref());
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

fn is_given(given: Given, values: &Values, log: &Log<'_>, object: Option<&Object>) -> bool {
    let number = |name: &str| values.get(name)?.parse::<i64>().ok();
    let origin = values.get("register").and_then(|register| log.origin(register));
    let came_from = |helpers: &[&str]| origin.is_some_and(|(helper, _)| helpers.contains(&helper));
    match given {
        Given::Reserved => {
            let source = values.get("instruction").and_then(|number| made_at(number, log, object));
            log.calls(RESERVE) || source.is_some_and(|place| place.source.contains(RESERVE))
        }
        Given::LookedUp => came_from(&[LOOKUP, RESERVE]),
        Given::Released => log.last_call(&RELEASE).is_some_and(|released| {
            // The path of a long log is cut.
            let record = first_argument(&released.text);
            let is_named = |source: &Source| record.is_some_and(|name| source.text.contains(name));
            came_from(&[RESERVE]) || (!came_from(&[LOOKUP]) && log.source().is_some_and(is_named))
        }),
        Given::Null => values.get("register").is_some_and(|register| log.is_null(register)),
        // If not even the first element fits, the index is not what is wrong.
        Given::Indexed => {
            let fits = number("size").zip(number("length")).is_some_and(|(size, length)| size >= length);
            fits && values.get("register").is_some_and(|register| log.is_indexed(register))
        }
        Given::Writes => log.last_instruction().is_some_and(|text| text.starts_with('*')),
        Given::ReleasedTwice => log.releases_twice(),
        Given::Global => log.validates_a_function(),
        Given::Overrun => number("offset").zip(number("length")).is_some_and(|(at, long)| at + long > 0),
        Given::ForMap => {
            log.last_instruction().and_then(called).is_some_and(|helper| helper.starts_with("bpf_map_"))
        }
        Given::Underrun => number("offset").is_some_and(|at| at < -512),
        // The verifier has nothing to do with it.
        Given::LimitStays => false,
    }
}

const LOOKUP: &str = "bpf_map_lookup_elem";
const RESERVE: &str = "bpf_ringbuf_reserve";
const RELEASE: [&str; 2] = ["bpf_ringbuf_submit", "bpf_ringbuf_discard"];

/// The line that an instruction belongs to. A long log may not have it.
fn made_at(instruction: &str, log: &Log<'_>, object: Option<&Object>) -> Option<Place> {
    if let Some(source) = log.source_of(instruction) {
        return Some(Place { location: log.location(source, object), source: source.text.clone() });
    }
    let (source, location) = object?.line_at(log.program, instruction.parse().ok()?)?;
    Some(Place { location: Some(location.clone()), source: source.to_owned() })
}

/// The line that has the name of a field, such as `struct request.rq_disk`.
fn named(values: &Values, log: &Log<'_>, object: Option<&Object>) -> Option<Place> {
    let field = values.get("field")?.rsplit('.').next()?;
    let (source, location) = object?.line_with(log.program, field.split('[').next()?)?;
    Some(Place { location: Some(location.clone()), source: source.to_owned() })
}

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
fn add_values(values: &mut Values, log: &Log<'_>, object: Option<&Object>, place: Option<&Place>) {
    let line_of = |location: Option<Location>| location.map(|location| format!("line {}", location.line));
    let line = line_of(place.and_then(|place| place.location.clone()));
    let source = place.map(|place| &*place.source);
    let register = values.get("register").cloned();
    // The register's value may come from a lookup. Otherwise, if there is only one pointer that the line can be about, we
    // know its name. If not, we don't guess.
    let origin = register.as_ref().and_then(|register| log.origin(register));
    let lookup = origin.filter(|(helper, _)| [LOOKUP, RESERVE].contains(helper));
    let only = log.only_call(&[LOOKUP, RESERVE]);
    let name = lookup.and_then(|(helper, source)| assigned(&source.text, helper));
    let name = name.or_else(|| only_pointer(source?));
    let name = name.or_else(|| only.and_then(|(helper, source)| assigned(&source.text, helper)));
    let lookup = lookup.or(only).filter(|(helper, source)| assigned(&source.text, helper) == name);
    let helper = log.last_instruction().and_then(called);
    let room = values.get("offset").and_then(|offset| offset.strip_prefix('-')).map(str::to_owned);
    let variable = name.map(|name| format!("`{name}`"));
    let variable = variable.or_else(|| Some(format!("the pointer in R{}", register.as_ref()?)));
    let reserved = values.get("instruction").and_then(|number| made_at(number, log, object));
    let reserved_at = reserved.as_ref().and_then(|place| line_of(place.location.clone()));
    let argument = register.as_ref().zip(helper).zip(source);
    let argument = argument.and_then(|((register, helper), source)| address(source, helper, register));
    let statement = |source: &str| source.ends_with(';').then(|| source.to_owned());
    let released = log.last_call(&RELEASE).and_then(|source| statement(&source.text));
    let found = [
        ("line", line.or_else(|| Some("this line".to_owned()))),
        ("variable", variable.or_else(|| Some("the pointer".to_owned()))),
        ("name", name.or(Some("pointer")).map(str::to_owned)),
        ("helper", helper.or(Some("the helper")).map(str::to_owned)),
        ("room", room),
        ("reserved", reserved_at.or_else(|| Some("the call".to_owned()))),
        ("program", Some(log.program.to_owned())),
        // In a change of the source, everything must be known.
        ("?name", name.map(str::to_owned)),
        ("?lookup", lookup.and_then(|(_, source)| statement(&source.text))),
        ("?reserve", reserved.as_ref().and_then(|place| assigned(&place.source, RESERVE)).map(str::to_owned)),
        ("?source", source.map(str::to_owned)),
        ("?line", source.and_then(statement)),
        ("?return", source.and_then(statement).filter(|source| source.starts_with("return "))),
        ("?read", source.and_then(statement).and_then(|source| with_core_read(&source))),
        ("?argument", argument.map(str::to_owned)),
        ("?release", released.filter(|released| Some(&**released) != source)),
        ("?index", source.and_then(index).map(str::to_owned)),
    ];
    for (name, value) in found {
        if let Some(value) = value {
            values.entry(name.to_owned()).or_insert(value);
        }
    }
}

/// The first argument of the first call in a source line.
fn first_argument(source: &str) -> Option<&str> {
    let (_, arguments) = source.split_once('(')?;
    Some(arguments.split([',', ')']).next()?.trim())
}

/// The variable whose address a source line passes to a helper as the argument of this number.
fn address<'a>(source: &'a str, helper: &str, number: &str) -> Option<&'a str> {
    let (_, arguments) = source.split_once(&format!("{helper}("))?;
    let nth = number.parse::<usize>().ok()?.checked_sub(1)?;
    let variable = arguments.split([',', ')']).nth(nth)?.trim().strip_prefix('&')?;
    variable.chars().all(is_of_word).then_some(variable)
}

/// The variable in the only index of a source line.
fn index(source: &str) -> Option<&str> {
    let (_, rest) = source.split_once('[')?;
    let (index, rest) = rest.split_once(']')?;
    (!rest.contains('[') && index.chars().all(is_of_word) && word_before(index).is_some()).then_some(index)
}

/// A statement that reads `bio->bi_iter.bi_size`, with `BPF_CORE_READ(bio, bi_iter.bi_size)` instead.
fn with_core_read(source: &str) -> Option<String> {
    let (before, after) = source.split_once("->")?;
    let pointer = word_before(before)?;
    let end = after.find(|c: char| !is_of_word(c) && c != '.' && c != '-' && c != '>')?;
    let (path, rest) = after.split_at(end);
    let is_read = !rest.contains("->") && !before.contains('&') && !path.ends_with('-');
    let is_written =
        ["=", "+", "-", "["].iter().any(|next| rest.trim_start().starts_with(next)) && !before.contains('=');
    let read = format!("BPF_CORE_READ({pointer}, {})", path.replace("->", ", "));
    (is_read && !is_written).then(|| format!("{}{read}{rest}", &before[..before.len() - pointer.len()]))
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
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

/// The name of the variable to which a source line assigns what a helper returns.
fn assigned<'a>(source: &'a str, helper: &str) -> Option<&'a str> {
    let (left, _) = source.split_once(helper)?;
    word_before(left.trim_end().strip_suffix('=')?.trim_end())
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
            change: Some(fill(kind.change, values))
                .filter(|change| !change.is_empty() && !change.contains("{?")),
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
        let change = refusal.change.map(|change| format!("\n    {}", change.replace('\n', "\n    ")));
        let more = refusal.case.map(|case| format!("\nto read more: cargo lab clinic show {case}"));
        let who = if refusal.is_verifiers { "the kernel's verifier refused a BPF program: " } else { "" };
        Self::new(format!("{who}{}", refusal.cause))
            .evidence(evidence.join("\n"))
            .fix(refusal.cure + &change.unwrap_or_default() + &more.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_explanation_names_only_what_is_known() {
        let mut missing = Vec::new();
        let known = ["register", "variable", "name", "line", "helper", "room", "reserved", "program"];
        for kind in KINDS {
            for says in kind.says {
                let filled = matches(says, says).unwrap();
                let is_known = |name: &str| known.contains(&name) || filled.contains_key(name);
                for text in [kind.cause, kind.why, kind.cure] {
                    for name in text.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
                        if !is_known(name) {
                            missing.push(format!("{}: {name} is not in {says:?}", kind.name));
                        }
                    }
                }
            }
        }
        assert!(missing.is_empty(), "{missing:#?}");
    }

    #[test]
    fn a_read_becomes_a_call_of_the_macro() {
        let with = |source| with_core_read(source);
        let expected = "u64 size = BPF_CORE_READ(bio, bi_iter.bi_size);";
        assert_eq!(with("u64 size = bio->bi_iter.bi_size;").as_deref(), Some(expected));
        let expected = "dev = BPF_CORE_READ(bio, bi_bdev, bd_dev);";
        assert_eq!(with("dev = bio->bi_bdev->bd_dev;").as_deref(), Some(expected));
        for written in ["bio->bi_flags = 0;", "bio->bi_flags++;", "f(&bio->bi_iter);"] {
            assert_eq!(with(written), None, "{written}");
        }
    }
}
