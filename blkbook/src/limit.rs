//! `--fail-on disk.p99>20ms`: ends the tool once a number that it prints is beyond a limit. `schema.json` has the names of
//! these numbers.

use std::fmt;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use clap::{Arg, ArgAction, ArgMatches};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use common::{Error, Result};

/// What the tools print with `--json`.
pub const SCHEMA: &str = include_str!("../schema.json");

/// The exit status of a tool that was ended by a limit: not that of an error, and not that of a wrong option.
const STATUS: u8 = 3;

/// A limit for a number.
#[derive(Clone, Debug, PartialEq)]
struct Limit {
    /// As the user wrote it.
    text: String,
    /// The names that lead to the number, from the outermost object on.
    path: Vec<String>,
    is_most: bool,
    number: f64,
    /// Nanoseconds or bytes, and not the unit in which the tool prints.
    has_unit: bool,
}

/// The limits of the tool that runs.
static LIMITS: Mutex<Watched> = Mutex::new(Watched { limits: Vec::new(), beyond: None });

struct Watched {
    /// And whether something was printed that could have the number.
    limits: Vec<(Limit, bool)>,
    beyond: Option<String>,
}

fn lock() -> std::sync::MutexGuard<'static, Watched> {
    LIMITS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The option of a tool that prints numbers.
pub fn option(tool: &str) -> Option<Arg> {
    let paths = paths(tool);
    let example = paths.first()?.join(".");
    Some(
        Arg::new("fail-on")
            .long("fail-on")
            .value_name("LIMIT")
            .action(ArgAction::Append)
            .value_parser(move |text: &str| Limit::new(text, &paths))
            .help(format!(
                "End with status {STATUS} if a number of the JSON is beyond a limit, such as {example}>20"
            )),
    )
}

/// Compares all that the tool prints with these limits.
pub fn watch(options: &ArgMatches) {
    let Ok(Some(limits)) = options.try_get_many::<Limit>("fail-on") else { return };
    lock().limits = limits.map(|limit| (limit.clone(), false)).collect();
    toolkit::output::watch(|printed| {
        let Watched { limits, beyond } = &mut *lock();
        for (limit, is_seen) in limits.iter_mut() {
            *is_seen |= limit.path.first().is_some_and(|name| printed.get(name).is_some());
            if let (None, Some(found)) = (&beyond, limit.beyond(printed)) {
                *beyond = Some(format!("{found}, and the limit is {}", limit.text));
                // As Ctrl-C ends it, so that it prints its report.
                let _ = kill(Pid::this(), Signal::SIGINT);
            }
        }
    });
}

/// The exit status, if a number was beyond its limit.
///
/// # Errors
/// If nothing that was printed could have one of the numbers.
pub fn end() -> Result<Option<ExitCode>> {
    let Watched { limits, beyond } = &*lock();
    if let Some(beyond) = beyond {
        eprintln!("Limit: {beyond}");
        return Ok(Some(ExitCode::from(STATUS)));
    }
    match limits.iter().find(|(_, is_seen)| !is_seen) {
        Some((limit, _)) => Err(Error::new(format!("nothing was compared with {}", limit.text))
            .evidence(format!("with these options, the tool did not print {}", limit.path.join(".")))
            .fix("choose a number that it prints: look at its output with --json")),
        None => Ok(None),
    }
}

impl Limit {
    fn new(text: &str, paths: &[Vec<String>]) -> std::result::Result<Self, String> {
        let at = text.find(['<', '>']).ok_or("write a name, < or >, and a number, such as count>100")?;
        let (name, is_most) = (&text[..at], &text[at..=at] == ">");
        let (number, unit) = number(&text[at + 1..]).ok_or(
            "write a number, and its unit if it is not the one of the JSON: ns, us, ms, s, KiB, MiB or GiB",
        )?;
        let names: Vec<_> = name.split('.').collect();
        let has = |path: &&Vec<String>| {
            names.iter().all(|name| path.iter().any(|known| known == name))
                && path.last().is_some_and(|last| names.contains(&&**last))
        };
        let found: Vec<_> = paths.iter().filter(has).collect();
        let shortest = found.iter().map(|path| path.len()).min();
        let found: Vec<_> = found.into_iter().filter(|path| Some(path.len()) == shortest).collect();
        let list =
            |paths: &[&Vec<String>]| paths.iter().map(|path| path.join(".")).collect::<Vec<_>>().join(", ");
        match &*found {
            [path] => Ok(Self {
                text: text.to_owned(),
                path: path.to_vec(),
                is_most,
                number: number * unit.unwrap_or(1.0),
                has_unit: unit.is_some(),
            }),
            [] => Err(format!("there is no number {name}, but {}", list(&paths.iter().collect::<Vec<_>>()))),
            many => Err(format!("{name} may be any of {}: write more of the name", list(many))),
        }
    }

    /// The first number that is beyond it, in words.
    fn beyond(&self, printed: &Value) -> Option<Beyond> {
        let unit = match printed.get("unit").and_then(Value::as_str) {
            _ if !self.has_unit => 1.0,
            Some("kbytes") => 1024.0,
            Some("usecs") => 1e3,
            Some("msecs") => 1e6,
            _ => 1.0,
        };
        let mut found = Vec::new();
        numbers(printed, &self.path, String::new(), &mut found);
        let is_beyond = |number: f64| if self.is_most { number > self.number } else { number < self.number };
        let (of, number) = found.into_iter().find(|(_, number)| is_beyond(number * unit))?;
        Some(Beyond { name: self.path.join("."), of, number })
    }
}

/// A number that is beyond a limit.
struct Beyond {
    name: String,
    of: String,
    number: f64,
}

impl fmt::Display for Beyond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, of, number } = self;
        write!(f, "{name} is {number}")?;
        if of.is_empty() { Ok(()) } else { write!(f, " ({of})") }
    }
}

/// A number, and what its unit is in nanoseconds or bytes.
fn number(text: &str) -> Option<(f64, Option<f64>)> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let unit = match &text[end..] {
        "" => None,
        "ns" => Some(1.0),
        "us" => Some(1e3),
        "ms" => Some(1e6),
        "s" => Some(1e9),
        "KiB" => Some(1024.0),
        "MiB" => Some(1024.0 * 1024.0),
        "GiB" => Some(1024.0 * 1024.0 * 1024.0),
        _ => return None,
    };
    Some((text[..end].trim().parse().ok()?, unit))
}

/// All numbers at the end of a path, each with the texts beside it, such as a disk's name.
fn numbers(value: &Value, path: &[String], of: String, found: &mut Vec<(String, f64)>) {
    match (value, path) {
        (Value::Array(all), _) => all.iter().for_each(|one| numbers(one, path, of.clone(), found)),
        (Value::Object(object), [name, rest @ ..]) => {
            let texts: Vec<_> = ["name", "disk", "flags", "comm", "task"]
                .iter()
                .filter_map(|key| object.get(*key)?.as_str())
                .collect();
            let of = if texts.is_empty() { of } else { texts.join(", ") };
            object.get(name).into_iter().for_each(|value| numbers(value, rest, of.clone(), found));
        }
        (value, []) => found.extend(value.as_f64().map(|number| (of, number))),
        _ => {}
    }
}

/// The paths of all numbers that a tool prints.
fn paths(tool: &str) -> Vec<Vec<String>> {
    fn add(all: &Value, schema: &Value, path: &[String], paths: &mut Vec<Vec<String>>) {
        // A call has calls.
        if path.len() > 4 {
            return;
        }
        if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
            return add(all, &all["$defs"][name], path, paths);
        }
        for one in schema["oneOf"].as_array().into_iter().flatten() {
            add(all, one, path, paths);
        }
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            add(all, schema, &[path, std::slice::from_ref(name)].concat(), paths);
        }
        if schema["items"].is_object() {
            add(all, &schema["items"], path, paths);
        }
        let is = |kind: &Value| kind == "number" || kind == "integer";
        let kind = &schema["type"];
        if is(kind) || kind.as_array().is_some_and(|kinds| kinds.iter().any(is)) {
            paths.push(path.to_vec());
        }
    }
    let schema: Value = serde_json::from_str(SCHEMA).unwrap_or_default();
    let mut paths = Vec::new();
    add(&schema, &schema["$defs"][tool], &[], &mut paths);
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn limit(tool: &str, text: &str) -> std::result::Result<Limit, String> {
        Limit::new(text, &paths(tool))
    }

    #[test]
    fn a_number_is_named_by_as_much_as_it_needs() {
        let path = |tool, text| limit(tool, text).unwrap().path.join(".");
        assert_eq!(path("biowhere", "p99.disk>20ms"), "groups.ns.disk.p99");
        assert_eq!(path("biowhere", "groups.ns.disk.p99>20ms"), "groups.ns.disk.p99");
        assert_eq!(path("biowhere", "total>20ms"), "total");
        assert_eq!(path("biolatency", "count<1"), "latency.count");
        assert_eq!(path("page_cache_scenario", "reads.us>20"), "reads.us");
        insta::assert_snapshot!(limit("biowhere", "p99>20ms").unwrap_err());
        insta::assert_snapshot!(limit("bitehist", "p99>20ms").unwrap_err(), @"there is no number p99, but count, histogram.count, histogram.from, histogram.to");
        for (text, part) in [
            ("count", "< or >"),
            ("count>", "write a number"),
            ("count>1h", "ns, us, ms"),
            (">1", "there is no number"),
        ] {
            let error = limit("bitehist", text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert!(option("ctracer").is_none() && option("stage03").is_none());
    }

    #[test]
    fn a_limit_is_in_the_users_unit() {
        let beyond = |tool, text, printed: &Value| {
            limit(tool, text).unwrap().beyond(printed).map(|found| found.to_string())
        };
        let latency = json!({ "unit": "usecs", "latency": [
            { "disk": "sda", "average": 900, "count": 3 }, { "disk": "sdb", "average": 1200, "count": 4 },
        ] });
        for (text, found) in [
            ("average>1ms", Some("latency.average is 1200 (sdb)")),
            ("average>1.2ms", None),
            ("average>1000", Some("latency.average is 1200 (sdb)")),
            ("average<1ms", Some("latency.average is 900 (sda)")),
            ("count>4", None),
        ] {
            assert_eq!(beyond("biolatency", text, &latency).as_deref(), found, "{text}");
        }
        let none = json!({ "seconds": 1.0, "groups": [] });
        assert_eq!(beyond("biowhere", "p99.disk>20ms", &none), None);
        let some = json!({ "seconds": 1.0, "groups": [{ "name": "sda", "ns": { "disk": { "p99": 20_000_001, "p50": null } } }] });
        assert_eq!(
            beyond("biowhere", "p99.disk>20ms", &some).unwrap(),
            "groups.ns.disk.p99 is 20000001 (sda)"
        );
        assert_eq!(beyond("biowhere", "p50.disk<20ms", &some), None);
    }
}
