//! The command `explain`. Cargo builds it only with the feature `cli`.
#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::fmt::Display;
use std::fs;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bpf_refusal::{Object, Refusal, explain, text};
use clap::Parser;
use serde_json::{Value, json};

/// Explain why the kernel's verifier or libbpf refused a BPF program
#[derive(Parser)]
#[command(name = "explain", version, after_help = STATUS)]
struct Options {
    /// The log of a refusal [default: standard input]
    log: Option<PathBuf>,
    /// The compiled BPF object, or a program that contains it; adds line numbers to logs of kernels before 6.9
    #[arg(long, value_name = "FILE")]
    object: Option<PathBuf>,
    /// Print JSON: the refusal, or null
    #[arg(long, conflicts_with = "sarif")]
    json: bool,
    /// Print SARIF 2.1.0, for code hosts and editors
    #[arg(long)]
    sarif: bool,
}

const STATUS: &str = "Exit status:
  0  the log shows no refusal
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

/// Explains the log. Returns whether it shows a refusal.
fn run(options: &Options) -> Result<bool, String> {
    let mut objects = Vec::new();
    if let Some(file) = &options.object {
        objects = Object::find_all(&read(file)?);
        if objects.is_empty() {
            let evidence = "it contains no BPF object with line information";
            let fix = "compile the BPF program with clang -g -target bpf, and name that file";
            return Err(error(format!("cannot use {}", file.display()), evidence, fix));
        }
    }
    let log = options.log.as_deref().unwrap_or(Path::new("/dev/stdin"));
    if options.log.is_none() && io::stdin().is_terminal() {
        let _ = writeln!(io::stderr(), "Paste the log, and end it with Ctrl-D:");
    }
    let refusal = explain(&text(&read(log)?), &objects);
    let output = match &refusal {
        refusal if options.sarif => format!("{:#}\n", sarif(refusal.as_ref())),
        refusal if options.json => format!("{:#}\n", json!(refusal)),
        Some(refusal) => shown(refusal),
        None => NO_REFUSAL.to_owned() + "\n",
    };
    match io::stdout().write_all(output.as_bytes()) {
        // A reader such as `head` has enough.
        Err(why) if why.kind() != ErrorKind::BrokenPipe => {
            Err(error("cannot write the explanation", why, "make room, or write to another place"))
        }
        _ => Ok(refusal.is_some()),
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    let fix = "name a file that exists and that you may read";
    fs::read(file).map_err(|why| error(format!("cannot read {}", file.display()), why, fix))
}

fn error(cause: impl Display, evidence: impl Display, fix: &str) -> String {
    format!("{cause}\n  evidence: {evidence}\n  fix:      {fix}")
}

/// The text for a person, without the characters of a log that a terminal obeys.
fn shown(refusal: &Refusal) -> String {
    refusal.to_string().replace(|c: char| c.is_control() && c != '\n' && c != '\t', "?") + "\n"
}

fn sarif(refusal: Option<&Refusal>) -> Value {
    let rules: Vec<_> = refusal.map(|refusal| json!({ "id": refusal.kind })).into_iter().collect();
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
    let run = json!({ "tool": { "driver": driver }, "results": Vec::from_iter(refusal.map(result)) });
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
