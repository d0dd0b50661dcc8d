//! `--fail-on disk.p99>20ms`: ends the tool once a number that it prints is beyond a limit. `schema.json` has the names of
//! these numbers.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use clap::{Arg, ArgAction, ArgMatches};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use common::{Error, Result};

/// A JSON schema of what the tools print with `--json`. Beside the usual words, `x-unit` is a number's unit, where
/// `unit` means that of the object, and `x-limit` an example of a limit.
const SCHEMA: &str = include_str!("../schema.json");

/// The exit status of a tool that was ended by a limit: not that of an error, and not that of a wrong option.
const STATUS: u8 = 3;

/// A limit for a number.
#[derive(Clone, Debug, PartialEq)]
struct Limit {
    /// As the user wrote it.
    text: String,
    /// The number, in each kind of object that the tool prints.
    numbers: Vec<Number>,
    is_most: bool,
    limit: f64,
    /// What the limit's unit is in nanoseconds or bytes, if it has one.
    has_unit: bool,
}

/// A number that a tool prints.
#[derive(Clone, Debug, PartialEq)]
struct Number {
    /// The kind of object that has it, if the tool prints several.
    kind: usize,
    /// The names that lead to it, from the outermost object on.
    path: Vec<String>,
    unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    None,
    Ns,
    Us,
    Bytes,
    /// The object's `unit`, which is a time.
    ObjectsTime,
    /// The object's `unit`, which is a size.
    ObjectsSize,
}

/// The limits of the tool that runs.
static WATCHED: Mutex<Watched> = Mutex::new(Watched { limits: Vec::new(), beyond: None });

struct Watched {
    /// And whether a number was compared with it.
    limits: Vec<(Limit, bool)>,
    beyond: Option<String>,
}

fn lock() -> std::sync::MutexGuard<'static, Watched> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The option of a tool that prints numbers.
pub fn option(tool: &str) -> Option<Arg> {
    let schema = schema();
    let numbers = numbers_of(&schema, tool);
    let example = schema["$defs"][tool]["x-limit"].as_str()?;
    Some(
        Arg::new("fail-on")
            .long("fail-on")
            .value_name("LIMIT")
            .action(ArgAction::Append)
            .value_parser(move |text: &str| Limit::new(text, &numbers))
            .help(format!(
                "End with status {STATUS} once a number of the JSON is beyond a limit, such as '{example}'"
            )),
    )
}

/// Compares all that the tool prints with these limits.
pub fn watch(options: &ArgMatches) {
    let Ok(Some(limits)) = options.try_get_many::<Limit>("fail-on") else { return };
    lock().limits = limits.map(|limit| (limit.clone(), false)).collect();
    toolkit::output::watch(|printed| {
        let Watched { limits, beyond } = &mut *lock();
        for (limit, is_compared) in limits.iter_mut() {
            let found = limit.numbers_in(printed);
            *is_compared |= !found.is_empty();
            if let (None, Some(found)) = (&beyond, found.iter().find(|found| limit.is_passed_by(found))) {
                *beyond = Some(format!("{found}, and the limit is {}", limit.text));
                // As Ctrl-C ends it, so that it prints its report.
                let _ = kill(Pid::this(), Signal::SIGINT);
            }
        }
        beyond.is_some()
    });
}

/// The exit status, if a number was beyond its limit.
pub fn passed() -> Option<ExitCode> {
    let beyond = lock().beyond.take()?;
    let _ = writeln!(io::stderr(), "Limit: {beyond}");
    Some(ExitCode::from(STATUS))
}

/// Checks that there was something to compare with each limit. A disk that hangs ends no I/O.
pub fn all_compared() -> Result<()> {
    match lock().limits.iter().find(|(_, is_compared)| !is_compared) {
        Some((limit, _)) => Err(Error::new(format!("nothing was compared with {}", limit.text))
            .evidence("no I/O has ended; or with these options, the tool prints other numbers")
            .fix("look at its output with --json, and name a number that it has")),
        None => Ok(()),
    }
}

impl Limit {
    fn new(text: &str, numbers: &[Number]) -> std::result::Result<Self, String> {
        let at = text.find(['<', '>']).ok_or("write a name, < or >, and a number, such as count>100")?;
        let (name, is_most) = (text[..at].trim(), &text[at..=at] == ">");
        let (limit, unit) = number(text[at + 1..].trim()).ok_or(
            "write a number, and its unit if it is not the one of the JSON: ns, us, ms, s, KiB, MiB or GiB",
        )?;
        let names: Vec<_> = name.split('.').collect();
        let is_named = |number: &&Number| {
            names.iter().all(|name| number.path.iter().any(|known| known == name))
                && number.path.last().is_some_and(|last| names.contains(&&**last))
        };
        let list = |numbers: &[&Number]| {
            numbers.iter().map(|number| number.path.join(".")).collect::<Vec<_>>().join(", ")
        };
        let named: Vec<_> = numbers.iter().filter(is_named).collect();
        if named.is_empty() {
            return Err(format!(
                "there is no number {name}, but {}",
                list(&numbers.iter().collect::<Vec<_>>())
            ));
        }
        // What a user calls count is that of all, and not that of a slot in the histogram.
        let is_shortest = |one: &&Number| {
            named.iter().all(|other| other.kind != one.kind || other.path.len() >= one.path.len())
        };
        let shortest: Vec<_> = named.iter().copied().filter(is_shortest).collect();
        if shortest.iter().any(|one| shortest.iter().any(|other| one != other && one.kind == other.kind)) {
            return Err(format!("{name} may be any of {}: write more of the name", list(&shortest)));
        }
        let fits = |number: &&&Number| match unit {
            None => true,
            Some((_, true)) => matches!(number.unit, Unit::Ns | Unit::Us | Unit::ObjectsTime),
            Some((_, false)) => matches!(number.unit, Unit::Bytes | Unit::ObjectsSize),
        };
        let fitting: Vec<_> = shortest.iter().filter(fits).copied().cloned().collect();
        if fitting.is_empty() {
            return Err(format!("{} is not measured in this unit", list(&shortest)));
        }
        let factor = unit.map_or(1.0, |(factor, _)| factor);
        Ok(Self {
            text: text.to_owned(),
            numbers: fitting,
            is_most,
            limit: limit * factor,
            has_unit: unit.is_some(),
        })
    }

    /// The numbers that an object has for it.
    fn numbers_in(&self, printed: &Value) -> Vec<Found> {
        let unit = printed.get("unit").and_then(Value::as_str).unwrap_or_default();
        let mut all = Vec::new();
        for number in &self.numbers {
            let (factor, unit) = match number.unit {
                Unit::None => (1.0, ""),
                Unit::Ns => (1.0, "ns"),
                Unit::Us => (1e3, "us"),
                Unit::Bytes => (1.0, "bytes"),
                Unit::ObjectsTime => (if unit == "msecs" { 1e6 } else { 1e3 }, unit),
                Unit::ObjectsSize => (1024.0, unit),
            };
            let mut found = Vec::new();
            find(printed, &number.path, String::new(), &mut found);
            let scale = if self.has_unit { factor } else { 1.0 };
            let name = number.path.join(".");
            all.extend(found.into_iter().map(|(of, number)| Found {
                name: name.clone(),
                of,
                number,
                unit: unit.to_owned(),
                scaled: number * scale,
            }));
        }
        all
    }

    fn is_passed_by(&self, found: &Found) -> bool {
        if self.is_most { found.scaled > self.limit } else { found.scaled < self.limit }
    }
}

/// A number in an object that was printed.
struct Found {
    name: String,
    /// The texts beside it, such as a disk's name.
    of: String,
    number: f64,
    unit: String,
    /// In the limit's unit.
    scaled: f64,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, of, number, unit, .. } = self;
        write!(f, "{}", format!("{name} is {number} {unit}").trim_end())?;
        if of.is_empty() { Ok(()) } else { write!(f, " ({of})") }
    }
}

/// A number, and what its unit is in nanoseconds or bytes, and whether it is a time.
fn number(text: &str) -> Option<(f64, Option<(f64, bool)>)> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let unit = match &text[end..] {
        "" => None,
        "ns" => Some((1.0, true)),
        "us" => Some((1e3, true)),
        "ms" => Some((1e6, true)),
        "s" => Some((1e9, true)),
        "KiB" => Some((1024.0, false)),
        "MiB" => Some((1024.0 * 1024.0, false)),
        "GiB" => Some((1024.0 * 1024.0 * 1024.0, false)),
        _ => return None,
    };
    Some((text[..end].trim().parse().ok()?, unit))
}

/// All numbers at the end of a path, each with the texts beside it.
fn find(value: &Value, path: &[String], of: String, found: &mut Vec<(String, f64)>) {
    match (value, path) {
        (Value::Array(all), _) => all.iter().for_each(|one| find(one, path, of.clone(), found)),
        (Value::Object(object), [name, rest @ ..]) => {
            let texts: Vec<_> = ["name", "disk", "flags", "comm", "task"]
                .iter()
                .filter_map(|key| object.get(*key)?.as_str())
                .collect();
            let of = if texts.is_empty() { of } else { texts.join(", ") };
            object.get(name).into_iter().for_each(|value| find(value, rest, of.clone(), found));
        }
        (value, []) => found.extend(value.as_f64().map(|number| (of, number))),
        _ => {}
    }
}

/// What the tools print with `--json`. A unit test reads it.
fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap_or_default()
}

/// The schema, for all tools or for one.
pub fn schema_of(tool: Option<&String>) -> Result<String> {
    let mut schema = schema();
    if let Some(tool) = tool {
        if !schema["$defs"][tool].is_object() {
            return Err(Error::new(format!("{tool} prints no JSON")).fix("list what does: blkbook schema"));
        }
        schema["$ref"] = format!("#/$defs/{tool}").into();
    }
    Ok(format!("{schema:#}"))
}

/// All numbers that a tool prints.
fn numbers_of(all: &Value, tool: &str) -> Vec<Number> {
    fn add(all: &Value, schema: &Value, path: &[String], kind: usize, unit: Unit, found: &mut Vec<Number>) {
        // A call has calls.
        if path.len() > 4 {
            return;
        }
        if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
            return add(all, &all["$defs"][name], path, kind, unit, found);
        }
        for (kind, one) in schema["oneOf"].as_array().into_iter().flatten().enumerate() {
            add(all, one, path, kind, unit, found);
        }
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            add(all, schema, &[path, std::slice::from_ref(name)].concat(), kind, unit, found);
        }
        if schema["items"].is_object() {
            add(all, &schema["items"], path, kind, unit, found);
        }
        let is_number = |kind: &Value| kind == "number" || kind == "integer";
        let types = &schema["type"];
        if is_number(types) || types.as_array().is_some_and(|types| types.iter().any(is_number)) {
            let unit = match schema["x-unit"].as_str() {
                Some("ns") => Unit::Ns,
                Some("us") => Unit::Us,
                Some("bytes") => Unit::Bytes,
                Some(_) => unit,
                None => Unit::None,
            };
            found.push(Number { kind, path: path.to_vec(), unit });
        }
    }
    let schema = &all["$defs"][tool];
    let unit =
        if schema["properties"]["unit"]["const"] == "kbytes" { Unit::ObjectsSize } else { Unit::ObjectsTime };
    let mut found = Vec::new();
    add(all, schema, &[], 0, unit, &mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn limit(tool: &str, text: &str) -> std::result::Result<Limit, String> {
        Limit::new(text, &numbers_of(&schema(), tool))
    }

    #[test]
    fn a_number_is_named_by_as_much_as_it_needs() {
        let path = |tool, text| {
            let paths: Vec<_> =
                limit(tool, text).unwrap().numbers.iter().map(|number| number.path.join(".")).collect();
            paths.join(" ")
        };
        assert_eq!(path("biowhere", "p99.disk>20ms"), "groups.ns.disk.p99");
        assert_eq!(path("biowhere", "groups.ns.disk.p99 > 20 ms"), "groups.ns.disk.p99");
        assert_eq!(path("biowhere", "bytes>1MiB"), "bytes groups.bytes");
        assert_eq!(path("biolatency", "count<1"), "latency.count");
        assert_eq!(path("page_cache_scenario", "reads.us>20"), "reads.us");
        insta::assert_snapshot!(limit("biowhere", "p99>20ms").unwrap_err());
        insta::assert_snapshot!(limit("bitehist", "p99>20ms").unwrap_err(), @"there is no number p99, but count, histogram.count, histogram.from, histogram.to");
        for (tool, text, part) in [
            ("bitehist", "count", "< or >"),
            ("bitehist", "count>", "write a number"),
            ("bitehist", "count>=1", "write a number"),
            ("bitehist", "count>1h", "ns, us, ms"),
            ("bitehist", ">1", "there is no number"),
            ("bitehist", "count>1ms", "count is not measured in this unit"),
            ("bitehist", "from>1ms", "histogram.from is not measured"),
            ("biolatency", "average>1KiB", "latency.average is not measured"),
            ("biowhere", "mb_per_s>100MiB", "groups.mb_per_s is not measured"),
            ("biowhere", "ios>1s", "groups.ios is not measured"),
        ] {
            let error = limit(tool, text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn each_example_is_a_limit() {
        let schema = schema();
        for (tool, about) in schema["$defs"].as_object().unwrap() {
            if let Some(example) = about["x-limit"].as_str() {
                limit(tool, example).unwrap();
            }
        }
        assert!(option("ctracer").is_none() && option("stage03").is_none() && option("biowhere").is_some());
    }

    #[test]
    fn a_limit_is_in_the_users_unit() {
        let beyond = |tool, text, printed: &Value| {
            let limit = limit(tool, text).unwrap();
            limit.numbers_in(printed).iter().find(|found| limit.is_passed_by(found)).map(Found::to_string)
        };
        let latency = json!({ "unit": "usecs", "latency": [
            { "disk": "sda", "average": 900, "count": 3 }, { "disk": "sdb", "average": 1200, "count": 4 },
        ] });
        for (text, found) in [
            ("average>1ms", Some("latency.average is 1200 usecs (sdb)")),
            ("average>1.2ms", None),
            ("average>1000", Some("latency.average is 1200 usecs (sdb)")),
            ("average<1ms", Some("latency.average is 900 usecs (sda)")),
            ("count>3", Some("latency.count is 4 (sdb)")),
            ("count>4", None),
        ] {
            assert_eq!(beyond("biolatency", text, &latency).as_deref(), found, "{text}");
        }
        let reads = json!({ "unit": "usecs", "bytes": 4096, "reads": [{ "us": 900.5 }, { "us": 3.0 }] });
        assert_eq!(beyond("page_cache_scenario", "bytes>4KiB", &reads), None);
        assert_eq!(beyond("page_cache_scenario", "reads.us>0.9ms", &reads).unwrap(), "reads.us is 900.5 us");
        let none = json!({ "seconds": 1.0, "groups": [] });
        assert_eq!(beyond("biowhere", "p99.disk>20ms", &none), None);
        let times = json!({ "p99": 20_000_001, "p50": null });
        let some =
            json!({ "seconds": 1.0, "groups": [{ "name": "sda", "bytes": 2, "ns": { "disk": times } }] });
        assert_eq!(
            beyond("biowhere", "p99.disk>20ms", &some).unwrap(),
            "groups.ns.disk.p99 is 20000001 ns (sda)"
        );
        assert_eq!(beyond("biowhere", "p50.disk<20ms", &some), None);
        assert_eq!(beyond("biowhere", "bytes>1", &some).unwrap(), "groups.bytes is 2 bytes (sda)");
    }

    #[test]
    fn the_schema_of_one_tool_says_what_it_prints() {
        let one: Value = serde_json::from_str(&schema_of(Some(&"bitehist".to_owned())).unwrap()).unwrap();
        assert_eq!(one["$ref"], "#/$defs/bitehist");
        assert!(schema_of(Some(&"stage03".to_owned())).is_err());
    }
}
