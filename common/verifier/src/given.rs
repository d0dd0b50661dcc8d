//! What only the rest of a log shows, or the object.

use crate::kinds::Given;
use crate::log::{Log, Origin, Source, called};
use crate::object::Object;
use crate::pattern::Values;
use crate::{LOOKUP, RELEASE, RESERVE, first_argument, head, is_of_word, is_own, is_written, made_at, named};

/// Programs whose arguments have the types of the kernel's function.
const TYPED: &[&str] = &["fentry", "fexit", "fmod_ret", "tp_btf", "lsm", "iter"];

/// Programs for tracing, whose return value 0 changes nothing.
const TRACING: &[&str] = &[
    "kprobe",
    "kretprobe",
    "ksyscall",
    "kretsyscall",
    "uprobe",
    "uretprobe",
    "usdt",
    "tracepoint",
    "tp",
    "raw_tracepoint",
    "raw_tp",
    "perf_event",
    "fentry",
    "fexit",
    "fmod_ret",
    "tp_btf",
    "lsm",
    "iter",
];

/// Macros at the head of such programs.
const MACROS: [&str; 4] = ["BPF_KPROBE(", "BPF_KRETPROBE(", "BPF_PROG(", "BPF_UPROBE("];

/// Whether a condition is true.
pub fn is_given(given: &Given, values: &Values, log: &Log<'_>, object: Option<&Object>) -> bool {
    let number = |name: &str| values.get(name)?.parse::<i64>().ok();
    let origin = values.get("register").map_or(Origin::Unknown, |register| log.origin(register));
    let came_from = |helpers: &[&str]| matches!(&origin, Origin::Call(helper, _) if helpers.contains(helper));
    let past = values.get("register").map(|register| log.past(register)).unwrap_or_default();
    let was = |types: &[String]| {
        past.was.as_ref().is_some_and(|was| types.iter().any(|begin| was.starts_with(begin)))
    };
    let refused = log.last_instruction().unwrap_or_default();
    match given {
        Given::Reserved if matches!(&origin, Origin::Call(helper, _) if *helper != RESERVE) => false,
        Given::Reserved => {
            let source = values.get("instruction").and_then(|number| made_at(number, log, object));
            log.calls(RESERVE) || source.is_some_and(|place| place.source.contains("bpf_ringbuf_reserve("))
        }
        Given::Pairs => log.words.iter().any(|line| line.contains(" memory, len pair ")),
        Given::Made(helper) => {
            values.get("instruction").is_some_and(|number| log.called_at(number) == Some(helper))
        }
        Given::LookedUp => came_from(&[LOOKUP, RESERVE]),
        Given::Released => log.last_call(&RELEASE).is_some_and(|released| {
            // The path of a long log is cut.
            let record = first_argument(&released.text);
            let is_named = |source: &Source| record.is_some_and(|name| source.text.contains(name));
            let is_other = came_from(&[LOOKUP]) || matches!(origin, Origin::Memory(..));
            came_from(&[RESERVE]) || (!is_other && log.source().is_some_and(is_named))
        }),
        Given::Iterated => matches!(&origin, Origin::Call(helper, _) if helper.ends_with("_next")),
        Given::Null => {
            const FIELDS: u64 = 4096;
            let constant = past.constant.and_then(|(value, _)| value.parse::<u64>().ok());
            constant.is_some_and(|constant| constant < FIELDS)
        }
        Given::Was(types) => was(types),
        Given::WasBefore(types, calls) => {
            was(types) && past.calls.iter().any(|(name, _)| calls.iter().any(|call| call == name))
        }
        Given::Cut => past.is_cut && past.was.is_some(),
        Given::Shows(words) => log.shows(words),
        Given::Is(name, is) => values.get(name).is_some_and(|value| is.contains(value)),
        Given::Far => values.get("register").is_some_and(|register| log.is_far(register)),
        Given::NoTracing => {
            object.and_then(|object| object.section(log.program)).is_some()
                && !object.is_some_and(|object| object.is_in(log.program, TRACING))
        }
        Given::Tracing => {
            object.is_some_and(|object| object.is_in(log.program, TRACING))
                || object.is_none() && log.texts().any(|text| MACROS.iter().any(|of| text.contains(of)))
        }
        Given::SystemCall => object
            .and_then(|object| object.section(log.program))
            .is_some_and(|section| section.contains("sys_") || section.contains("syscall")),
        Given::Not(given) => !is_given(given, values, log, object),
        Given::Plain => {
            let is_argument =
                number("register").is_some_and(|nth| (2..=5).contains(&nth)) && log.is_untouched(values);
            let head = head(log.program, object).map(|head| head.source);
            let head = head.as_deref().or_else(|| log.texts().next());
            let several = head.and_then(|head| head.split_once(&format!(" {}(", log.program)));
            is_argument && several.is_some_and(|(_, arguments)| arguments.contains(','))
        }
        Given::NothingHeld => log.acquires() <= usize::from(came_from(&[RESERVE])),
        Given::InProgram => log.is_in_program(),
        Given::NextLine => log.last_call(&RELEASE).zip(log.source()).is_some_and(|(release, last)| {
            let line = |source| log.location(source, object).map(|location| location.line);
            line(release).zip(line(last)).is_some_and(|(before, last)| last == before + 1)
        }),
        Given::Unconditional => values.get("?lookup").zip(values.get("?name")).is_some_and(|(line, name)| {
            let declares = |(before, _): (&str, &str)| before.contains(is_of_word);
            line.split_once(name.as_str()).is_some_and(declares) || log.begins_with(line)
        }),
        // If not even the first element fits, the index is not what is wrong.
        Given::Indexed => {
            let fits = number("size").zip(number("length")).is_some_and(|(size, length)| size >= length);
            fits && values.get("register").is_some_and(|register| log.is_indexed(register))
        }
        Given::Writes => {
            refused.starts_with(['*', 'l']) || log.source().is_some_and(|source| is_written(&source.text))
        }
        Given::ReleasedTwice => log.releases_twice(),
        Given::Global => log.validates_a_function(),
        Given::Overrun => {
            number("offset").zip(number("length")).is_some_and(|(at, long)| at < 0 && at + long > 0)
        }
        Given::Calls(begins) => {
            called(refused).is_some_and(|helper| begins.iter().any(|begin| helper.starts_with(begin)))
        }
        Given::Underrun => number("offset").is_some_and(|at| at < -512),
        Given::Beyond => number("offset").is_some_and(|at| at >= 0),
        Given::Typed => log.has_types() || object.is_some_and(|object| object.is_in(log.program, TYPED)),
        Given::In(sections) => object.is_some_and(|object| object.is_in(log.program, sections)),
        Given::Macro(name) => head(log.program, object)
            .is_some_and(|head| head.source.contains(&format!("{name}({}", log.program))),
        Given::Argument => matches!(&origin, Origin::Memory(_, base) if matches!(**base, Origin::Context)),
        Given::Kept => matches!(&origin, Origin::Memory(_, base) if match **base {
            Origin::Call(helper, _) => [LOOKUP, RESERVE].contains(&helper),
            Origin::Constant => true,
            _ => false,
        }),
        Given::Loaded => matches!(&origin, Origin::Memory(..)),
        Given::Element => log.source().is_some_and(|source| source.text.contains("[")),
        Given::IndexRead => {
            log.source().and_then(|source| source.text.split_once('[')).is_some_and(|(_, rest)| {
                rest.split_once(']').is_some_and(|(index, _)| index.contains("->") || index.contains('*'))
            })
        }
        Given::Pointed => log.source().is_some_and(|source| !source.text.contains("->")),
        Given::Own => named(values, log, object).is_some_and(|place| is_own(&place.source, log)),
        // The verifier has nothing to do with it.
        Given::LimitStays | Given::NoKfunc => false,
    }
}
