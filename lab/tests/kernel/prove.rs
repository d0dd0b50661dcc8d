//! `cargo lab prove`: tools that are right get no fault in any scene, and each way to be wrong is found.

use guest::prove::play;
use lab::prove::adapter::Adapter;
use lab::prove::grade::{Grade, Verdict};
use lab::prove::{grades, scenes};
use wire::prove::{Played, Scene};

use crate::{Case, cases};

pub const CASES: &[Case] = cases![prove_finds_no_fault_in_ours(Outer), prove_finds_each_fault(Outer),];

const BIOLATENCY: &str = include_str!("../../prove/tools/biolatency.toml");
const BITESIZE: &str = include_str!("../../prove/tools/bitesize.toml");
const BIOWHERE: &str = include_str!("../../prove/tools/biowhere.toml");
const STAGE08: &str = include_str!("../../prove/tools/stage08.toml");
const STAGE03: &str = include_str!("../../prove/tools/stage03.toml");

fn scene(name: &str) -> Scene {
    scenes().unwrap().into_iter().find(|scene| scene.name == name).unwrap()
}

/// What is said of a command, which is read as the adapter's tool is.
fn graded(adapter: &str, command: Option<&str>, scene: &Scene) -> (Played, Vec<Grade>) {
    let adapter = Adapter::of(adapter).unwrap();
    let argv = command.map_or_else(|| adapter.argv(), |line| line.split(' ').map(str::to_owned).collect());
    let played = play(scene, &adapter.tool(argv)).unwrap();
    let grades = grades(&adapter, scene, &played).unwrap();
    (played, grades)
}

fn prove_finds_no_fault_in_ours() {
    // A histogram by disk and by operation, one by process, lines, lessons, and pages.
    for (adapter, name, said) in [
        (BIOLATENCY, "two-disks", &["disk", "times"][..]),
        (BIOLATENCY, "same-sectors", &["disk", "times"]),
        (BIOLATENCY, "merges", &["disk", "operation"]),
        (BIOLATENCY, "splits", &["disk", "times"]),
        (BITESIZE, "sizes", &["process", "sizes in bytes"]),
        (BIOWHERE, "mixed", &["disk", "operation", "process", "times"]),
        (BIOWHERE, "short-lived", &["process"]),
        (BIOWHERE, "scheduler", &["times", "clock"]),
        (BIOWHERE, "limited", &["process", "times", "clock"]),
        (BIOWHERE, "mapped", &["disk", "process"]),
        (BIOWHERE, "flushes", &["operation", "process"]),
        (BIOWHERE, "discards", &["operation", "process"]),
        (BIOWHERE, "container", &["process"]),
        (BIOWHERE, "odd-name", &["process"]),
        (STAGE08, "cache", &["operation"]),
        (STAGE03, "outliers", &["times"]),
    ] {
        let (played, grades) = graded(adapter, None, &scene(name));
        assert_eq!(played.failed, None, "{}", played.stderr);
        let is_well = grades.iter().all(|grade| !grade.verdict.is_fault());
        assert!(is_well && grades[0].said != "0", "{name}: {grades:#?}\n{}", played.stdout);
        let is_right = |of: &&&str| grades.iter().any(|it| it.of == **of && it.verdict == Verdict::Right);
        assert_eq!(
            said.iter().filter(is_right).count(),
            said.len(),
            "{name}: {grades:#?}\n{}",
            played.stdout
        );
    }
}

fn prove_finds_each_fault() {
    let verdict = |adapter: &str, command: &str, name: &str, of: &str| {
        let (played, grades) = graded(adapter, Some(command), &scene(name));
        let grade = grades.iter().find(|grade| grade.of == of);
        grade.unwrap_or_else(|| panic!("{of}: {grades:#?}\n{}\n{}", played.stdout, played.stderr)).verdict
    };
    // A filter that lets nothing through, or only one disk.
    assert_eq!(verdict(BIOWHERE, "biowhere --us --pid 1", "short-lived", "I/Os"), Verdict::TooFew);
    assert_eq!(verdict(BIOWHERE, "biowhere --us -d @fast", "two-disks", "I/Os"), Verdict::TooFew);
    // A clock that starts after a wait, and one of another layer: what is merged or split is counted otherwise.
    let late = format!("{BIOLATENCY}\nclock = 'bio'");
    assert_eq!(verdict(&late, "biolatency -D -F", "limited", "clock"), Verdict::WrongClock);
    assert_eq!(verdict(&late, "biolatency -D -F", "scheduler", "clock"), Verdict::WrongClock);
    let bios = format!("{BIOLATENCY}\ncounts = 'bios'");
    assert_eq!(verdict(&bios, "biolatency -D -F", "merges", "I/Os"), Verdict::TooFew);
    assert_eq!(verdict(&bios, "biolatency -D -F", "splits", "I/Os"), Verdict::TooMany);
    // Milliseconds, read as microseconds.
    assert_eq!(verdict(BIOLATENCY, "biolatency -m -D -F", "two-disks", "times"), Verdict::WrongUnit);
    // It ends too early.
    let (played, _) = graded(BIOWHERE, Some("biowhere --us --lines 2"), &scene("short-lived"));
    assert!(played.failed.is_some());
    // It never watches.
    let (played, _) = graded(BIOWHERE, Some("echo nothing"), &scene("short-lived"));
    assert!(played.failed.is_some() && played.done.is_empty());
}
