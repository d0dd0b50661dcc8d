//! Runs the command: `cargo test --package bpf-refusal --features cli`. Without the feature, there is none to run.
#![cfg(feature = "cli")]

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// The blocks of text in the README: a log, and what the command prints for it.
fn example() -> [&'static str; 2] {
    let mut blocks = include_str!("../README.md").split("```text\n").skip(1);
    [(); 2].map(|()| blocks.next().unwrap().split("```").next().unwrap())
}

/// The exit status of the command, and what it prints on stdout and on stderr.
fn run(arguments: &[&str], stdin: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_explain"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that only reports an error may not read it.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn json_of(arguments: &[&str], stdin: &str, expected: i32) -> Value {
    let (status, stdout, stderr) = run(arguments, stdin);
    assert_eq!((status, &*stderr), (expected, ""), "{stdout}");
    serde_json::from_str(&stdout).unwrap()
}

const ACCEPTED: &str = "0: (b7) r0 = 0\n1: (95) exit\nprocessed 2 insns (limit 1000000)\n";

#[test]
fn the_readmes_log_is_explained_as_there() {
    let [log, explanation] = example();
    assert_eq!(run(&[], log), (1, explanation.to_owned(), String::new()));
}

#[test]
fn json_is_one_document() {
    let [log, _] = example();
    let refusal = json_of(&["--json"], log, 1);
    assert_eq!([&refusal["kind"], &refusal["program"]], ["null-test", "bio_endio_entry"]);
    let place = json!({ "file": "latency.bpf.c", "line": 31, "source": "duration = bpf_ktime_get_ns() - *start_time;" });
    assert_eq!(refusal["place"], place);
    assert_eq!(json_of(&["--json"], ACCEPTED, 0), Value::Null);
    // A file without any log.
    let license = concat!(env!("CARGO_MANIFEST_DIR"), "/LICENSE-MIT");
    assert_eq!(json_of(&["--json", license], "", 0), Value::Null);
}

/// What SARIF 2.1.0 requires, and where code hosts look.
#[test]
fn sarif_has_rules_results_and_places() {
    let [log, _] = example();
    let document = json_of(&["--sarif"], log, 1);
    assert_eq!(document["version"], "2.1.0");
    assert_eq!(document["runs"].as_array().unwrap().len(), 1);
    let (driver, results) = (&document["runs"][0]["tool"]["driver"], &document["runs"][0]["results"]);
    assert_eq!(driver["name"], "bpf-refusal");
    assert_eq!(driver["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(driver["rules"], json!([{ "id": "null-test" }]));
    assert_eq!([&results[0]["ruleId"], &results[0]["level"]], ["null-test", "error"]);
    assert!(results[0]["message"]["text"].as_str().unwrap().starts_with("`start_time` may be NULL"));
    let place = &results[0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "latency.bpf.c");
    assert_eq!(place["region"]["startLine"], 31);

    // No place, a name that is no URI, the compiler's own line, and no refusal.
    let locations = |log: &str, status| json_of(&["--sarif"], log, status)["runs"][0]["results"].clone();
    assert_eq!(locations("R0 invalid mem access 'map_value_or_null'", 1)[0]["locations"], json!([]));
    let spaced = locations(&log.replace("latency.bpf.c", "my file.c"), 1);
    assert_eq!(spaced[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "my%20file.c");
    assert_eq!(locations(&log.replace(".c:31", ".c:0"), 1)[0]["locations"], json!([]));
    assert_eq!(locations(ACCEPTED, 0), json!([]));
}

#[test]
fn the_exit_status_is_as_in_the_help() {
    let (status, stdout, _) = run(&[], ACCEPTED);
    assert_eq!((status, stdout.starts_with("This log shows no refusal.")), (0, true), "{stdout}");
    let unknown = "0: (b7) r0 = 0\nR0 is odd\nprocessed 1 insns (limit 1000000)\n";
    assert_eq!(json_of(&["--json"], unknown, 1)["kind"], "unknown");
    let (status, _, stderr) = run(&["/nowhere/refused.log"], "");
    let parts = ["Error: cannot read /nowhere/refused.log\n", "\n  evidence: No such file", "\n  fix:      "];
    assert!(status == 2 && parts.iter().all(|part| stderr.contains(part)), "{stderr}");
    let (status, _, stderr) = run(&["--object", env!("CARGO_BIN_EXE_explain")], "");
    assert!(status == 2 && stderr.contains("no BPF object"), "{stderr}");
    assert_eq!(run(&["--json", "--sarif"], "").0, 2);
    let (status, help, _) = run(&["--help"], "");
    assert!(status == 0 && help.contains("Exit status:"), "{help}");
}

/// Somebody else may have written the log.
#[test]
fn a_log_cannot_command_the_terminal() {
    let [log, _] = example();
    let (_, stdout, _) = run(&[], &log.replace("duration =", "\x1b]0;title\x07duration ="));
    assert!(stdout.contains("?]0;title?duration = bpf_ktime_get_ns()"), "{stdout:?}");
}
