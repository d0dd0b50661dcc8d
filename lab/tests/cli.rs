//! What people see: help, tables, errors. Needs no kernel.

use std::fs;
use std::process::Command;

use lab::doctor;
use lab::workbook::Workbook;

/// Runs a command and gives its exit status, stdout and stderr as one text.
fn run(command: &mut Command) -> String {
    let output = command.env("COLUMNS", "120").output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    let parts = [("", stdout), ("stderr:\n", stderr)];
    let text: String = parts
        .iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| format!("{name}{text}"))
        .collect();
    format!("{text}status: {}", output.status.code().unwrap())
}

fn lab(arguments: &[&str]) -> String {
    run(Command::new(env!("CARGO_BIN_EXE_lab")).args(arguments))
}

#[test]
fn help() {
    insta::assert_snapshot!(lab(&["--help"]));
    insta::assert_snapshot!("help_run", lab(&["run", "--help"]));
    insta::assert_snapshot!("help_io", run(Command::new(env!("CARGO_BIN_EXE_io")).args(["write", "--help"])));
}

#[test]
fn each_stage_has_help_and_a_version_and_refuses_nonsense() {
    let workbook = Workbook::read().unwrap();
    workbook.build().unwrap();
    for stage in &workbook.stages {
        let stage_with =
            |arguments: &[&str]| run(Command::new(workbook.binaries().join(stage.binary())).args(arguments));
        insta::assert_snapshot!(format!("{}_help", stage.binary()), stage_with(&["--help"]));
        assert_eq!(stage_with(&["--version"]), format!("{} 0.1.0\nstatus: 0", stage.binary()));
        for nonsense in ["0", "-1", "soon"] {
            let text = stage_with(&["--duration", nonsense]);
            assert!(text.contains("greater than 0") && text.ends_with("status: 2"), "{text}");
        }
    }
}

#[test]
fn the_table_of_stages() {
    insta::assert_snapshot!(lab(&["list"]));
}

#[test]
fn what_does_not_exist_is_told() {
    insta::assert_snapshot!("unknown_stage", lab(&["run", "42"]));
    insta::assert_snapshot!("unknown_kernel", lab(&["run", "01", "--kernel", "4.19"]));
    insta::assert_snapshot!("unknown_workload", lab(&["run", "01", "--io", "swim"]));
    insta::assert_snapshot!("unknown_series", lab(&["kernels", "--fetch", "4.19"]));
}

#[test]
fn a_kernel_that_is_not_here_is_told() {
    let nowhere = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lab"));
    let text = run(command.args(["run", "01"]).env("XDG_CACHE_HOME", nowhere.path()));
    insta::assert_snapshot!(text.replace(nowhere.path().to_str().unwrap(), "[cache]"));
}

#[test]
fn without_clang_the_build_says_what_to_install() {
    let workbook = Workbook::read().unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(&workbook.root).args(["check", "--quiet", "--package", workbook.stages[0].package()]);
    let text = run(cargo.env("CLANG", "clang-that-is-not-here"));
    assert!(
        text.contains(
            "error: stage01_submit_bio_call_time@0.1.0: clang, the compiler for BPF, was not found"
        ),
        "{text}"
    );
    assert!(text.contains("install it: make setup (Debian, Ubuntu: apt install clang)"), "{text}");
    assert!(!text.contains("panicked") && text.ends_with("status: 101"), "{text}");
}

/// What the READMEs say of a stage is what its Cargo.toml and its source say.
#[test]
fn the_readmes_tell_the_facts() {
    let workbook = Workbook::read().unwrap();
    let readme = fs::read_to_string(workbook.root.join("README.md")).unwrap();
    for stage in &workbook.stages {
        let (number, title, adds) = (stage.number, &stage.title, &stage.adds);
        let row =
            format!("| [{number:02}](stages/{}) | {title} | {adds} | {} |", stage.package(), stage.minutes);
        assert!(readme.contains(&row), "missing in README.md: {row}");

        let probes = doctor::sections(stage).unwrap().into_iter().filter_map(|section| {
            let (kind, name) = section.trim_start_matches('?').split_once('/')?;
            Some(format!("{} `{name}`", if kind == "tp_btf" { "tracepoint" } else { kind }))
        });
        let row = format!("| {adds} | {} | {} |", probes.collect::<Vec<_>>().join(", "), stage.minutes);
        let readme = stage.folder.join("README.md");
        assert!(
            fs::read_to_string(&readme).unwrap().contains(&row),
            "missing in {}: {row}",
            readme.display()
        );
    }
}

/// The commands in the READMEs are commands that exist.
#[test]
fn what_the_readmes_say_to_type_can_be_typed() {
    let workbook = Workbook::read().unwrap();
    let makefile = fs::read_to_string(workbook.root.join("Makefile")).unwrap();
    let help = lab(&["--help"]);
    let stages = workbook.stages.iter().map(|stage| stage.folder.join("README.md"));
    for readme in
        ["README.md", "CONTRIBUTING.md"].map(|name| workbook.root.join(name)).into_iter().chain(stages)
    {
        let text = fs::read_to_string(&readme).unwrap();
        for (tool, known) in [("make ", &makefile), ("cargo lab ", &help)] {
            // In a code block or between backticks.
            for line in text
                .lines()
                .flat_map(|line| line.split('`'))
                .filter_map(|code| code.trim_start().strip_prefix(tool))
            {
                let word = line.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap();
                let exists = known.contains(&format!("\n{word}:")) || known.contains(&format!("\n  {word} "));
                assert!(exists, "{}: there is no {tool}{word}", readme.display());
            }
        }
    }
}
