//! The command `explain`. Cargo builds it only with the feature `cli`.
#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, slice};

use bpf_refusal::{Object, Refusal, explain, text};
use clap::Parser;
use serde_json::{Value, json};

/// Explain why the kernel's verifier or libbpf refused a BPF program
#[derive(Parser)]
#[command(name = "explain", version, after_help = STATUS)]
struct Options {
    /// Logs of a refusal; - or nothing is standard input
    #[arg(value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// The compiled BPF object, or a program that contains it; adds line numbers to logs of kernels before 6.9
    #[arg(long = "object", value_name = "FILE")]
    objects: Vec<PathBuf>,
    /// Print JSON: the refusal or null; for several logs, an array of these
    #[arg(long, conflicts_with = "sarif")]
    json: bool,
    /// Print SARIF 2.1.0, for code hosts and editors
    #[arg(long)]
    sarif: bool,
}

const STATUS: &str = "Exit status:
  0  no log shows a refusal
  1  a refusal is explained
  2  wrong options, or a file can't be read or written";

const NO_REFUSAL: &str = "This log shows no refusal. If the program was refused, paste the log to its end: the verifier's \
                          words are after the last instruction.";

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(is_refused) => ExitCode::from(u8::from(is_refused)),
        Err(error) => {
            let _ = writeln!(io::stderr(), "Error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Explains all logs. Returns whether one of them shows a refusal.
fn run(options: &Options) -> Result<bool, String> {
    let mut objects = Vec::new();
    for file in &options.objects {
        let found = Object::find_all(&read(file)?);
        if found.is_empty() {
            let evidence = "it contains no BPF object with line information";
            let fix = "compile the BPF program with clang -g -target bpf, and name that file";
            return Err(error(format!("cannot use {}", file.display()), evidence, fix));
        }
        objects.extend(found);
    }
    let stdin = PathBuf::from("-");
    let logs = if options.logs.is_empty() { slice::from_ref(&stdin) } else { &options.logs };
    let refusal = |log: &PathBuf| Ok(explain(&text(&read(log)?), &objects));
    let refusals = logs.iter().map(refusal).collect::<Result<Vec<_>, String>>()?;
    let output = match &*refusals {
        all if options.sarif => format!("{:#}\n", sarif(all.iter().flatten())),
        [only] if options.json => format!("{:#}\n", json!(only)),
        all if options.json => format!("{:#}\n", json!(all)),
        [only] => shown(only),
        all => {
            let all = logs.iter().zip(all);
            all.map(|(log, only)| format!("{}:\n{}\n", log.display(), shown(only))).collect()
        }
    };
    match io::stdout().write_all(output.as_bytes()) {
        // A reader such as `head` has enough.
        Err(why) if why.kind() != ErrorKind::BrokenPipe => {
            Err(error("cannot write the explanation", why, "make room, or write to another place"))
        }
        _ => Ok(refusals.iter().any(Option::is_some)),
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = match file.to_str() {
        Some("-") => {
            if io::stdin().is_terminal() {
                let _ = writeln!(io::stderr(), "Paste the log, and end it with Ctrl-D:");
            }
            io::stdin().read_to_end(&mut bytes)
        }
        _ => fs::File::open(file).and_then(|mut file| file.read_to_end(&mut bytes)),
    };
    let fix = "name a file that exists and that you may read";
    read.map(|_| bytes).map_err(|why| error(format!("cannot read {}", file.display()), why, fix))
}

fn error(cause: impl Display, evidence: impl Display, fix: &str) -> String {
    format!("{cause}\n  evidence: {evidence}\n  fix:      {fix}")
}

/// The text for a person, without the characters of a log that a terminal obeys.
fn shown(refusal: &Option<Refusal>) -> String {
    let text = refusal.as_ref().map_or_else(|| NO_REFUSAL.to_owned(), Refusal::to_string);
    text.replace(|c: char| c.is_control() && c != '\n' && c != '\t', "?") + "\n"
}

fn sarif<'a>(refusals: impl Iterator<Item = &'a Refusal> + Clone) -> Value {
    let kinds: BTreeSet<_> = refusals.clone().map(|refusal| refusal.kind).collect();
    let rules: Vec<_> = kinds.into_iter().map(|kind| json!({ "id": kind })).collect();
    let result = |refusal: &Refusal| {
        let location = refusal.place.as_ref().and_then(|place| place.location.as_ref());
        // The compiler's own instructions have line 0, and SARIF begins with 1.
        let location = location.filter(|location| location.line > 0).map(|location| {
            let (file, region) =
                (json!({ "uri": uri(&location.file) }), json!({ "startLine": location.line }));
            json!({ "physicalLocation": { "artifactLocation": file, "region": region } })
        });
        let message = json!({ "text": refusal.to_string() });
        json!({ "ruleId": refusal.kind, "level": "error", "message": message, "locations": Vec::from_iter(location) })
    };
    let driver =
        json!({ "name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION"), "rules": rules });
    let run = json!({ "tool": { "driver": driver }, "results": refusals.map(result).collect::<Vec<_>>() });
    json!({
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    })
}

/// A file's name as a relative URI.
fn uri(file: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encoded = |byte| if is_plain(byte) { char::from(byte).into() } else { format!("%{byte:02X}") };
    file.bytes().map(encoded).collect()
}
