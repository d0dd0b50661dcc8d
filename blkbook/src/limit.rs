//! `--fail-on disk.p99>20ms`: ends the tool once a number that it prints is beyond a limit. `schema.json` has the names of
//! these numbers.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::{LazyLock, Mutex, PoisonError};

use clap::{Arg, ArgAction, ArgMatches};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use common::{Error, Result};

/// A JSON schema of what the tools print with `--json`. Beside the usual words, `x-unit` is a number's unit, where
/// `unit` means that of the object, and `x-limit` an example of a limit.
static SCHEMA: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../schema.json")).unwrap_or_default());

/// The exit status of a tool that was ended by a limit: not that of an error, and not that of a wrong option.
const STATUS: u8 = 3;

/// Units: what each is in nanoseconds or in bytes, and whether it is a time.
const UNITS: [(&str, f64, bool); 11] = [
    ("ns", 1.0, true),
    ("us", 1e3, true),
    ("usecs", 1e3, true),
    ("ms", 1e6, true),
    ("msecs", 1e6, true),
    ("s", 1e9, true),
    ("bytes", 1.0, false),
    ("kbytes", 1024.0, false),
    ("KiB", 1024.0, false),
    ("MiB", 1024.0 * 1024.0, false),
    ("GiB", 1024.0 * 1024.0 * 1024.0, false),
];

fn unit(name: &str) -> Option<(f64, bool)> {
    UNITS.iter().find(|unit| unit.0 == name).map(|(_, size, is_time)| (*size, *is_time))
}

/// A limit for a number.
#[derive(Clone, Debug, PartialEq)]
struct Limit {
    /// As the user wrote it.
    text: String,
    /// The number, in each kind of object that the tool prints.
    numbers: Vec<Number>,
    is_most: bool,
    /// In nanoseconds or bytes, or if it has no unit, in that of the JSON.
    value: f64,
    has_unit: bool,
}

/// A number that a tool prints.
#[derive(Clone, Debug, PartialEq)]
struct Number {
    /// The kind of object that has it, if the tool prints several.
    kind: usize,
    /// The names that lead to it, from the outermost object on.
    path: Vec<String>,
    /// The schema's `x-unit`, if it has one.
    unit: Option<String>,
    /// Whether that is a time.
    is_time: Option<bool>,
}

/// The limits of the tool that runs.
static WATCHED: Mutex<Watched> = Mutex::new(Watched { limits: Vec::new(), beyond: None });

struct Watched {
    /// Each limit, and whether a number was compared with it.
    limits: Vec<(Limit, bool)>,
    beyond: Option<String>,
}

fn lock() -> std::sync::MutexGuard<'static, Watched> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The option of a tool that prints numbers.
pub fn option(tool: &str) -> Option<Arg> {
    let example = SCHEMA["$defs"][tool]["x-limit"].as_str()?;
    let numbers = numbers_of(tool);
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
            let (is_there, found) = limit.compare(printed);
            *is_compared |= is_there;
            if let (None, Some(found)) = (&beyond, found) {
                *beyond = Some(found);
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
        let value = text[at + 1..].trim();
        let (value, name_of_unit) =
            value.split_at(value.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(value.len()));
        let has_unit = !name_of_unit.is_empty();
        let (Ok(value), Some((size, is_time))) =
            (value.trim().parse::<f64>(), unit(if has_unit { name_of_unit } else { "ns" }))
        else {
            return Err("write a number, and its unit if it is not the one of the JSON: ns, us, ms, s, KiB, MiB or GiB".to_owned());
        };
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
        let fits = |number: &&&Number| !has_unit || number.is_time == Some(is_time);
        let fitting: Vec<_> = shortest.iter().filter(fits).copied().cloned().collect();
        if fitting.is_empty() {
            return Err(format!("{} is not measured in {name_of_unit}", list(&shortest)));
        }
        Ok(Self { text: text.to_owned(), numbers: fitting, is_most, value: value * size, has_unit })
    }

    /// Whether an object has a number for it, and in words the first one that is beyond it.
    fn compare(&self, printed: &Value) -> (bool, Option<String>) {
        let mut is_there = false;
        for Number { path, unit: name, .. } in &self.numbers {
            let name = match name.as_deref() {
                Some("unit") => printed["unit"].as_str().unwrap_or_default(),
                name => name.unwrap_or_default(),
            };
            let size = unit(name).filter(|_| self.has_unit).map_or(1.0, |(size, _)| size);
            let is_beyond = |number: f64| match self.is_most {
                true => number * size > self.value,
                false => number * size < self.value,
            };
            let mut found = Vec::new();
            find(printed, path, String::new(), &mut found);
            is_there |= !found.is_empty();
            if let Some((of, number)) = found.into_iter().find(|(_, number)| is_beyond(*number)) {
                let number = format!("{} is {number} {name}", path.join("."));
                let of = if of.is_empty() { of } else { format!(" ({of})") };
                let said = format!("{}{of}, and the limit is {}", number.trim_end(), self.text);
                return (true, Some(said));
            }
        }
        (is_there, None)
    }
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

/// The schema, for all tools or for one.
pub fn schema_of(tool: Option<&String>) -> Result<String> {
    let mut schema = SCHEMA.clone();
    if let Some(tool) = tool {
        if !schema["$defs"][tool].is_object() {
            return Err(Error::new(format!("{tool} prints no JSON")).fix("list what does: blkbook schema"));
        }
        schema["$ref"] = format!("#/$defs/{tool}").into();
    }
    Ok(format!("{schema:#}"))
}

/// All numbers that a tool prints.
fn numbers_of(tool: &str) -> Vec<Number> {
    fn add(schema: &Value, path: &[String], kind: usize, found: &mut Vec<Number>) {
        // A call has calls, without end. No name has more parts than groups.ns.disk.p99.
        if path.len() > 4 {
            return;
        }
        if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
            return add(&SCHEMA["$defs"][name], path, kind, found);
        }
        for (kind, one) in schema["oneOf"].as_array().into_iter().flatten().enumerate() {
            add(one, path, kind, found);
        }
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            add(schema, &[path, std::slice::from_ref(name)].concat(), kind, found);
        }
        if schema["items"].is_object() {
            add(&schema["items"], path, kind, found);
        }
        let is_number = |kind: &Value| kind == "number" || kind == "integer";
        let types = &schema["type"];
        if is_number(types) || types.as_array().is_some_and(|types| types.iter().any(is_number)) {
            let name = schema["x-unit"].as_str().map(str::to_owned);
            found.push(Number { kind, path: path.to_vec(), unit: name, is_time: None });
        }
    }
    let schema = &SCHEMA["$defs"][tool];
    // All units that an object may name are times, or all are sizes.
    let of_object = &schema["properties"]["unit"];
    let of_object = of_object["const"].as_str().or(of_object["enum"][0].as_str()).unwrap_or_default();
    let mut found = Vec::new();
    add(schema, &[], 0, &mut found);
    for number in &mut found {
        let name = number.unit.as_deref().unwrap_or_default();
        number.is_time = unit(if name == "unit" { of_object } else { name }).map(|(_, is_time)| is_time);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn limit(tool: &str, text: &str) -> std::result::Result<Limit, String> {
        Limit::new(text, &numbers_of(tool))
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
            ("bitehist", "count>1ms", "count is not measured in ms"),
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
        for (tool, about) in SCHEMA["$defs"].as_object().unwrap() {
            if let Some(example) = about["x-limit"].as_str() {
                limit(tool, example).unwrap();
            }
        }
        assert!(option("ctracer").is_none() && option("stage03").is_none() && option("biowhere").is_some());
    }

    #[test]
    fn a_limit_is_in_the_users_unit() {
        let beyond = |tool, text, printed: &Value| {
            let (is_there, said) = limit(tool, text).unwrap().compare(printed);
            assert!(is_there || said.is_none());
            said.map(|said| said.split(", and the limit is ").next().unwrap().to_owned())
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
