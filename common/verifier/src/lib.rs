#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

mod given;
mod kinds;
mod log;
mod object;
mod paste;
mod pattern;
mod registers;
mod walk;

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use crate::given::is_given;
use crate::kinds::{At, Given, KINDS, Kind};
pub use crate::log::{LEFT_OUT, REPORT};
use crate::log::{Log, Origin, Source, called};
pub use crate::object::{Location, Object};
use crate::paste::Pasted;
pub use crate::paste::text;
use crate::pattern::{Values, fill, matches, names};
pub use crate::registers::Registers;
pub use crate::walk::{Step, Walk, walk};

/// Why a program was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Refusal {
    /// Whether the verifier refused it; otherwise libbpf or the kernel refused it before.
    pub is_verifiers: bool,
    /// The kind of mistake, such as `null-test`, or `unknown`. All of them are in `kinds.txt`, and none changes its name.
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
    /// The number of the case in the workbook's clinic, which shows the mistake in a program.
    pub case: Option<&'static str>,
}

/// A source line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Place {
    /// The file's name and the line's number. Kernels before 6.9 don't have them; then they are from the object, if we
    /// have that and it has the line once.
    #[serde(flatten)]
    pub location: Option<Location>,
    /// The line itself.
    pub source: String,
}

/// How a line begins that a program may add to libbpf's warnings: what the running kernel has instead of what does not fit.
pub const KERNELS_TYPES: &str = "this kernel's types: ";

/// What such a line says about a function that is no kfunc.
pub const NO_KFUNC: &str = "() is no kfunc";

/// Explains why a program was refused, from libbpf's warnings and the objects that could contain the program. `None` if
/// the warnings show no refusal that we know, and no verifier's log either.
pub fn explain(warnings: &str, objects: &[Object]) -> Option<Refusal> {
    let lines = paste::lines(warnings);
    let lines = paste::bare(&lines);
    let types = lines.iter().filter(|line| line.starts_with(KERNELS_TYPES)).copied();
    let pasted = Pasted::find(warnings);
    let log = pasted.as_ref().and_then(Log::parse).map(|mut log| {
        log.words.extend(types.clone());
        log
    });
    let limit_stays = || lines.iter().any(|line| line.starts_with("Failed to bump RLIMIT_MEMLOCK"));
    let is_given = |given: &Given, values: &Values| match given {
        Given::LimitStays => limit_stays(),
        Given::NoKfunc => types.clone().any(|line| line.ends_with(NO_KFUNC)),
        Given::In(sections) => values.get("program").is_some_and(|program| is_in(objects, program, sections)),
        _ => false,
    };
    let libbpfs = || {
        recognized(&lines, is_given).find_map(|(kind, words, values)| {
            let words = words.into_iter().chain(types.clone().map(str::to_owned)).collect();
            Refusal::new(kind, values.get("program").cloned(), words, &values)
        })
    };
    // Perhaps only the verifier's words are left.
    let bare = || {
        let (_, words, _) = recognized(&lines, |_, _| true).next()?;
        let log = Log::of_words(words.iter().map(String::as_str).collect());
        verifiers(&log, objects).filter(|refusal| !refusal.is_unknown())
    };
    match log {
        Some(log) if log.is_sure() => verifiers(&log, objects),
        log => libbpfs().or_else(|| verifiers(&log?, objects)).or_else(bare),
    }
}

/// Explains why the verifier refused a program.
fn verifiers(log: &Log<'_>, objects: &[Object]) -> Option<Refusal> {
    let object = object_of(log, objects);
    let place =
        |source: &Source| Place { location: log.location(source, object), source: source.text.clone() };
    let explained = |kind: &'static Kind, mut values: Values| {
        let refused = match kind.at {
            At::Nowhere => None,
            At::End => log.source().map(place),
            At::Field => named(&values, log, object).or_else(|| log.source().map(place)),
            At::Return => log.returning().map(place).or_else(|| head(log.program, object)),
            At::Function => values.get("function").and_then(|name| {
                let (source, location) = object?.line_at(name, 0)?;
                Some(Place { location: Some(location.clone()), source: source.to_owned() })
            }),
        };
        add_values(&mut values, log, object, refused.as_ref());
        let program = Some(log.program.to_owned()).filter(|program| !program.is_empty());
        let mut refusal = Refusal::new(kind, program, words_of(log, kind), &values)?;
        let is_seen = kind.change_given.iter().all(|given| is_given(given, &values, log, object));
        refusal.change = refusal.change.filter(|_| is_seen);
        if refusal.change.is_none() {
            refusal.cure = refusal.cure.trim_end_matches(", for example:").to_owned();
        }
        let path = log.branches().into_iter().map(|(from, to)| [place(from), place(to)]);
        let path = if refused.is_some() { path.collect() } else { Vec::new() };
        Some(Refusal { is_verifiers: true, place: refused, path, ..refusal })
    };
    let found = recognized(&log.words, |given, values| is_given(given, values, log, object))
        .find_map(|(kind, _, values)| explained(kind, values));
    found.or_else(|| explained(&KINDS.unknown, Values::new()))
}

/// The kinds that have these words, whatever else must be true for them: the names, each once.
pub fn kinds_with(words: &str) -> Vec<&'static str> {
    let lines: Vec<_> = words.lines().collect();
    let mut names: Vec<_> = recognized(&lines, |_, _| true).map(|(kind, ..)| &*kind.name).collect();
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    names
}

/// The names of all kinds. A kind with several forms comes several times.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    KINDS.known.iter().map(|kind| &*kind.name)
}

/// What we know about a kind of mistake without a log, for a page that looks up words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Known {
    /// What the verifier or libbpf says, with names in braces for what differs.
    pub says: &'static [String],
    /// The number of the case in the workbook's clinic, which shows the mistake in a program.
    pub case: Option<&'static str>,
    /// What is wrong. As in the next two, names in braces are those of `says`.
    pub cause: String,
    /// Why the kernel refuses it.
    pub why: String,
    /// What to do.
    pub cure: String,
}

/// What to call what we don't know.
const GENERAL: [(&str, &str); 11] = [
    ("line", "this line"),
    ("variable", "the pointer"),
    ("name", "pointer"),
    ("helper", "the helper"),
    ("reserved", "the call"),
    ("program", "the program"),
    ("saved", "another call"),
    ("was", "a pointer"),
    ("constant", "0"),
    ("called_at", "a line before"),
    ("call", "a function"),
];

/// All kinds of mistakes, in the order in which [`explain`] tries them. One message can have several causes, and only the
/// log shows which of them it is.
pub fn known() -> Vec<Known> {
    let values: Values = GENERAL.map(|(name, words)| (name.to_owned(), words.to_owned())).into();
    let known = KINDS.known.iter();
    known
        .map(|kind| Known {
            says: &kind.says,
            case: kind.case(),
            cause: fill(&kind.cause, &values),
            why: fill(&kind.why, &values),
            cure: fill(&kind.cure, &values),
        })
        .collect()
}

/// The kinds whose words are among these lines, with the words, and what the names in them stand for.
fn recognized(
    lines: &[&str],
    is_given: impl Fn(&Given, &Values) -> bool,
) -> impl Iterator<Item = (&'static Kind, Vec<String>, Values)> {
    KINDS.known.iter().filter_map(move |kind| {
        kind.says.iter().find_map(|says| {
            lines.windows(says.lines().count()).find_map(|lines| {
                let values = matches(says, &lines.join("\n"))?;
                let is_kind = kind.given.iter().all(|given| is_given(given, &values));
                is_kind.then(|| (kind, lines.iter().map(|line| (*line).to_owned()).collect(), values))
            })
        })
    })
}

const LOOKUP: &str = "bpf_map_lookup_elem";
const RESERVE: &str = "bpf_ringbuf_reserve";
const RELEASE: [&str; 2] = ["bpf_ringbuf_submit", "bpf_ringbuf_discard"];

/// Whether a program of one of these objects is in one of these sections.
fn is_in(objects: &[Object], program: &str, sections: &[String]) -> bool {
    objects.iter().any(|object| object.is_in(program, sections))
}

/// The head of a program.
fn head(program: &str, object: Option<&Object>) -> Option<Place> {
    let (source, location) = object?.line_with(program, program)?;
    Some(Place { location: Some(location.clone()), source: source.to_owned() })
}

/// Whether a line reads with `BPF_CORE_READ()` from a structure of the program: from a variable, the value of a map, or a
/// record.
fn is_own(source: &str, log: &Log<'_>) -> bool {
    let Some((_, arguments)) = source.split_once(CORE_READ) else { return false };
    let first = arguments.split(',').next().unwrap_or_default().trim();
    let is_variable = first.strip_prefix('&').is_some_and(|name| name.chars().all(is_of_word));
    let is_it = |(helper, source): (&str, &Source)| assigned(&source.text, helper) == Some(first);
    is_variable || log.all_calls(&[LOOKUP, RESERVE]).any(is_it)
}

const CORE_READ: &str = "BPF_CORE_READ(";

/// The line that an instruction belongs to. A long log may not have it.
fn made_at(instruction: &str, log: &Log<'_>, object: Option<&Object>) -> Option<Place> {
    if let Some(source) = log.source_of(instruction) {
        return Some(Place { location: log.location(source, object), source: source.text.clone() });
    }
    let (source, location) = object?.line_at(log.program, instruction.parse().ok()?)?;
    Some(Place { location: Some(location.clone()), source: source.to_owned() })
}

/// The line that reads a field, such as `struct request.rq_disk`; otherwise the only line of the program that has its name.
fn named(values: &Values, log: &Log<'_>, object: Option<&Object>) -> Option<Place> {
    let field = values.get("field")?.rsplit(['.', ':']).next()?.split('[').next()?;
    let is_read = |line: &str| line.to_lowercase().contains("core_read(");
    let object = object?;
    let (source, location) = object
        .only_line(Some(log.program), field, is_read)
        .or_else(|| object.only_line(None, field, is_read))
        .or_else(|| object.line_with(log.program, field))?;
    Some(Place { location: Some(location.clone()), source: source.to_owned() })
}

/// What the verifier says, with its own explanation. If we don't know it, also the last lines before, and if somebody has
/// pasted more than a log, only the end.
fn words_of(log: &Log<'_>, kind: &Kind) -> Vec<String> {
    const MOST: usize = 12;
    let before = if kind.name == KINDS.unknown.name { log.end() } else { &[] };
    let words = if kind.name == KINDS.unknown.name {
        &log.words[log.words.len().saturating_sub(MOST)..]
    } else {
        &log.words
    };
    before.iter().chain(words).map(|line| (*line).to_owned()).chain(log.reason()).collect()
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
    // The register's value may come from a lookup, or from what the line reads through. Otherwise, if there is only one
    // pointer that the line can be about, we know its name. If not, we don't guess.
    let origin = register.as_ref().map_or(Origin::Unknown, |register| log.origin(register));
    let only = log.only_call(&[LOOKUP, RESERVE]).filter(|_| matches!(origin, Origin::Unknown));
    let lookup = match origin {
        Origin::Call(helper, source) if [LOOKUP, RESERVE].contains(&helper) => Some((helper, source)),
        _ => None,
    };
    let reserved = values.get("instruction").and_then(|number| made_at(number, log, object));
    let name = lookup.and_then(|(helper, source)| assigned(&source.text, helper)).map(str::to_owned);
    let name = name.or_else(|| assigned(&reserved.as_ref()?.source, RESERVE).map(str::to_owned));
    let name = name.or_else(|| match origin {
        Origin::Memory(loaded, _) => pointer(source?, Some(&loaded.text)),
        _ => pointer(source?, None),
    });
    let name =
        name.or_else(|| only.and_then(|(helper, source)| assigned(&source.text, helper)).map(str::to_owned));
    let name = name.as_deref();
    let lookup = lookup.or(only).filter(|(helper, source)| assigned(&source.text, helper) == name);
    let helper = log.last_instruction().and_then(called);
    let number = |name: &str| values.get(name)?.parse::<i64>().ok();
    let room = number("offset").map(|offset| number("size").unwrap_or_default() - offset);
    let head = head(log.program, object).map(|head| head.source);
    let other_head = |from: &str, to: &str| {
        Some(head.as_ref()?.replace(from, to)).filter(|new| Some(new) != head.as_ref())
    };
    let variable = name.map(|name| format!("`{name}`"));
    let variable = variable.or_else(|| Some(format!("the pointer in R{}", register.as_ref()?)));
    let reserved_at = reserved.as_ref().and_then(|place| line_of(place.location.clone()));
    let argument = register.as_ref().zip(helper).zip(source);
    let argument = argument.and_then(|((register, helper), source)| address(source, helper, register));
    let statement = |source: &str| source.ends_with(';').then(|| source.to_owned());
    let past = register.as_ref().map(|register| log.past(register)).unwrap_or_default();
    let at = |source: Option<&Source>| source.and_then(|source| line_of(log.location(source, object)));
    let calls =
        || past.calls.iter().find(|(name, _)| KINDS.change_the_packet.iter().any(|helper| helper == name));
    let call = calls().or(past.calls.first());
    let released = log.last_call(&RELEASE).and_then(|source| statement(&source.text));
    let found = [
        ("line", line),
        ("variable", variable),
        ("name", name.map(str::to_owned)),
        ("helper", helper.map(str::to_owned)),
        ("room", room.filter(|room| *room >= 0).map(|room| room.to_string())),
        ("reserved", reserved_at),
        ("program", Some(log.program.to_owned()).filter(|program| !program.is_empty())),
        ("call", call.map(|(name, _)| (*name).to_owned())),
        ("called_at", call.map(|(_, source)| at(*source).unwrap_or_else(|| "a call before".to_owned()))),
        ("was", past.was.as_ref().and_then(|was| Some(was.split('(').next()?.to_owned()))),
        ("constant", past.constant.map(|(value, _)| value.to_owned())),
        ("saved", reserved.as_ref().and_then(|place| line_of(place.location.clone()))),
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
        ("?direct", source.and_then(statement).and_then(|source| without_core_read(&source))),
        ("?head", head.clone()),
        ("?kprobe", other_head("BPF_PROG(", "BPF_KPROBE(")),
        ("?prog", other_head("BPF_KPROBE(", "BPF_PROG(")),
    ];
    for (name, value) in found {
        if let Some(value) = value {
            values.entry(name.to_owned()).or_insert(value);
        }
    }
    for (name, words) in GENERAL {
        values.entry(name.to_owned()).or_insert_with(|| words.to_owned());
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
    let is_read =
        !rest.contains("->") && !before.contains('&') && !path.ends_with('-') && !is_written(source);
    let read = format!("BPF_CORE_READ({pointer}, {})", path.replace("->", ", "));
    is_read.then(|| format!("{}{read}{rest}", &before[..before.len() - pointer.len()]))
}

/// A statement that reads `BPF_CORE_READ(info, start)`, with `info->start` instead.
fn without_core_read(source: &str) -> Option<String> {
    let (before, rest) = source.split_once(CORE_READ)?;
    let (arguments, after) = rest.split_once(')')?;
    let (structure, field) = arguments.split_once(", ")?;
    let read = match structure.strip_prefix('&') {
        Some(variable) => format!("{variable}.{field}"),
        None => format!("{structure}->{field}"),
    };
    (!field.contains(',')).then(|| format!("{before}{read}{after}"))
}

/// Whether a source line writes to the first field that it has.
fn is_written(source: &str) -> bool {
    let Some((before, after)) = source.split_once("->") else { return false };
    let end = after.find(|c: char| !is_of_word(c) && !".->[]".contains(c)).unwrap_or(after.len());
    let next =
        after[end..].trim_start().trim_start_matches(['+', '-', '|', '&', '^', '<', '>', '*', '/', '%']);
    let is_step = after[end..].starts_with("++") || after[..end].ends_with("--");
    !before.contains('=') && (is_step || next.starts_with('=') && !next.starts_with("=="))
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The only pointer that a source line can be about, if the pointer was loaded in another line, or in this one.
fn pointer(source: &str, loaded: Option<&str>) -> Option<String> {
    let all = pointers(source);
    let only = |mut found: Vec<String>| {
        found.sort();
        found.dedup();
        <[_; 1]>::try_from(found).ok().map(|[name]| name)
    };
    let is_direct = |name: &String| name.chars().all(is_of_word);
    let fields = || all.iter().filter(|name| !is_direct(name)).cloned();
    match loaded {
        // The line itself loads the pointer, or one before it did that already.
        Some(line) if line == source => only(fields().collect()),
        Some(line) if fields().any(|name| line.contains(&name)) => {
            only(fields().filter(|name| line.contains(name)).collect())
        }
        _ => only(all.into_iter().filter(is_direct).collect()),
    }
}

/// What a source line reads or writes through: `bio` and `bio->bi_bdev` for `bio->bi_bdev->bd_dev`.
fn pointers(source: &str) -> Vec<String> {
    // Names in strings don't count.
    let mut all = Vec::new();
    for code in source.split('"').step_by(2) {
        all.extend(code.match_indices("->").filter_map(|(at, _)| expression_before(&code[..at])));
        for (at, _) in code.match_indices('*') {
            let before = code[..at].trim_end();
            let is_factor = before.ends_with(|c: char| c.is_alphanumeric() || "_)]*/".contains(c));
            let after = &code[at + 1..];
            let end = after.find(|c| !is_of_word(c)).unwrap_or(after.len());
            if !is_factor && end > 0 && !after[end..].starts_with("->") {
                all.push(after[..end].to_owned());
            }
        }
    }
    all
}

/// The expression at the end of a text, such as `info->bio` of `x = ((struct bio *)info->bio)`.
fn expression_before(text: &str) -> Option<String> {
    let mut depth = 0_i32;
    let begin = text.char_indices().rev().find(|(_, c)| {
        match c {
            ')' | ']' => depth += 1,
            '(' | '[' => depth -= 1,
            _ => {}
        }
        depth < 0 || depth == 0 && !(is_of_word(*c) || "->.()[]".contains(*c))
    });
    let mut expression = &text[begin.map_or(0, |(at, c)| at + c.len_utf8())..];
    while let Some(inner) = expression.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        expression = inner;
    }
    if expression.starts_with('(') {
        expression = expression.split_once("*)").map_or(expression, |(_, rest)| rest.trim());
    }
    let is_name = expression.starts_with(|c: char| c.is_alphabetic() || "_*".contains(c));
    (is_name && !expression.contains(['(', ' '])).then(|| expression.to_owned())
}

/// The name of the variable to which a source line assigns what a helper returns.
fn assigned<'a>(source: &'a str, helper: &str) -> Option<&'a str> {
    let (left, _) = source.split_once(&format!("{helper}("))?;
    word_before(left.trim_end().strip_suffix('=')?.trim_end())
}

/// The name at the end of a text.
fn word_before(text: &str) -> Option<&str> {
    let word = text.rsplit(|c| !is_of_word(c)).next()?;
    word.starts_with(|c: char| c.is_alphabetic() || c == '_').then_some(word)
}

impl Refusal {
    /// `None` if the kind's texts need something that we don't know.
    fn new(
        kind: &'static Kind,
        program: Option<String>,
        words: Vec<String>,
        values: &Values,
    ) -> Option<Self> {
        let is_known = |text: &str| names(text).all(|name| values.contains_key(name));
        [&kind.cause, &kind.why, &kind.cure].iter().all(|text| is_known(text)).then(|| Self {
            is_verifiers: false,
            kind: &kind.name,
            program,
            place: None,
            path: Vec::new(),
            words,
            cause: fill(&kind.cause, values),
            why: fill(&kind.why, values),
            cure: fill(&kind.cure, values),
            change: Some(fill(&kind.change, values))
                .filter(|change| !change.is_empty() && !change.contains("{?")),
            case: kind.case(),
        })
    }

    /// Whether we don't know the verifier's words.
    pub fn is_unknown(&self) -> bool {
        self.kind == KINDS.unknown.name
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

impl Refusal {
    /// What shows that it is so: the line, what the kernel says and why, and the way there.
    pub fn evidence(&self) -> String {
        let mut evidence = Vec::new();
        let location = self.place.iter().filter_map(|place| place.location.as_ref());
        let location = location.map(|at| format!("{} line {}", at.file, at.line)).next();
        let place: Vec<_> = self.program.iter().cloned().chain(location).collect();
        let colon = if self.place.is_some() { ":" } else { "" };
        if !place.is_empty() {
            evidence.push(format!("in {}{colon}", place.join(", ")));
        }
        evidence.extend(self.place.iter().map(|place| format!("    {}", place.source)));
        evidence.extend(self.words.iter().cloned());
        evidence.push(self.why.clone());
        if !self.path.is_empty() {
            evidence.push("the path that leads there:".to_owned());
            let step = |[from, to]: &[Place; 2]| format!("    {}  ->  {}", from.short(), to.short());
            evidence.extend(self.path.iter().map(step));
        }
        evidence.join("\n")
    }

    /// What to do, with the lines that change.
    pub fn fix(&self) -> String {
        let change = self.change.iter().map(|change| format!("\n    {}", change.replace('\n', "\n    ")));
        self.cure.clone() + &change.collect::<String>()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n\n{}\n\n{}", self.cause, self.evidence(), self.fix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_explanation_names_only_what_is_known() {
        let mut missing = Vec::new();
        // Of the others, `Refusal::new` makes sure.
        let general = GENERAL.iter().map(|(name, _)| *name);
        let known: Vec<_> = general.chain(["register"]).collect();
        for kind in &KINDS.known {
            for says in &kind.says {
                let filled = matches(says, says).unwrap();
                // There is room if the access begins inside of something.
                let has_room = filled.contains_key("size")
                    || kind.given.iter().any(|given| matches!(given, Given::Overrun));
                let is_known = |name: &str| {
                    known.contains(&name) || filled.contains_key(name) || name == "room" && has_room
                };
                for text in [&kind.cause, &kind.why, &kind.cure] {
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

    /// Scripts and SARIF name kinds, so none is ever removed or renamed. A new one gets a line in the file.
    #[test]
    fn kinds_stay() {
        let names: BTreeSet<_> = kinds().chain([&*KINDS.unknown.name]).collect();
        let listed: Vec<_> = include_str!("../kinds.txt").lines().collect();
        assert_eq!(Vec::from_iter(names), listed);
        let count = format!("It knows {} kinds of mistakes", listed.len() - 1);
        assert!(include_str!("../README.md").contains(&count), "the README has another number than: {count}");
    }

    // Seen on Debian's 7.3~rc7.
    #[test]
    fn a_version_that_libbpf_cannot_read_is_not_called_a_configuration() {
        let log = "libbpf: extern (kcfg) 'LINUX_KERNEL_VERSION': failed to get kernel version\n";
        let cause = explain(log, &[]).map(|refusal| refusal.cause);
        assert_eq!(cause.as_deref(), Some("libbpf cannot read the version of this kernel"));
    }

    /// A character of several bytes anywhere in a line, such as `·`, must not end the program: people write what they like in
    /// comments and strings.
    #[test]
    fn source_lines_may_have_characters_of_several_bytes() {
        let with = "libbpf: prog 'p': -- BEGIN PROG LOAD LOG --
; u64 *value = bpf_map_lookup_elem(&counts, &key);
1: (85) call bpf_map_lookup_elem#1
; *value += counts[i] + bio->bi_iter.bi_size - BPF_CORE_READ(bio, bi_bdev);
2: (79) r1 = *(u64 *)(r0 +0)
R0 invalid mem access 'map_value_or_null'
-- END PROG LOAD LOG --
";
        for (at, _) in with.char_indices() {
            let mut log = with.to_owned();
            log.insert(at, '·');
            explain(&log, &[]);
            walk(&log, &[]);
        }
    }

    #[test]
    fn a_read_becomes_a_call_of_the_macro() {
        let with = |source| with_core_read(source);
        let expected = "u64 size = BPF_CORE_READ(bio, bi_iter.bi_size);";
        assert_eq!(with("u64 size = bio->bi_iter.bi_size;").as_deref(), Some(expected));
        let expected = "dev = BPF_CORE_READ(bio, bi_bdev, bd_dev);";
        assert_eq!(with("dev = bio->bi_bdev->bd_dev;").as_deref(), Some(expected));
        let written = [
            "bio->bi_flags = 0;",
            "bio->bi_flags++;",
            "bio->bi_flags--;",
            "bio->bi_flags |= 1;",
            "f(&bio->bi_iter);",
        ];
        for written in written {
            assert_eq!(with(written), None, "{written}");
        }
    }
}
