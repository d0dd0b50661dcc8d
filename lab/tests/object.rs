//! Checks what the compiled BPF objects contain, and that a stage differs from its parent in one idea. Needs only
//! clang.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::Command;

use lab::exercise;
use libbpf_rs::ObjectBuilder;
use machine::host::tools::output;
use machine::workbook::{Program, Workbook, copies, diff};

/// The most lines of code in which a stage may differ from its parent, counting removed and added lines, unless its
/// `Cargo.toml` allows more.
const DIFF_LINES: usize = 60;
/// The longest file that a reader who is new to BPF has to read.
const MAIN_LINES: usize = 60;
const BPF_LINES: usize = 110;
/// The longest `main.rs` of an example: a tool has more to do.
const EXAMPLE_LINES: usize = 100;

/// The names of an enum's values in `vmlinux.h`, by number: `BPF_FUNC_map_lookup_elem = 1`.
fn names(prefix: &str) -> BTreeMap<u32, String> {
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../common/build/vmlinux/x86_64/vmlinux.h");
    let header = fs::read_to_string(header).unwrap();
    let value = |line: &str| {
        let (name, number) = line.trim().strip_suffix(',')?.split_once(" = ")?;
        Some((number.parse().ok()?, name.strip_prefix(prefix)?.to_owned()))
    };
    header.lines().filter_map(value).collect()
}

/// The attach points, the helpers and the types of maps in a program's object, which needs no kernel.
fn features(program: &Program) -> BTreeSet<String> {
    let (helpers, map_types) = (names("BPF_FUNC_"), names("BPF_MAP_TYPE_"));
    let folder = tempfile::tempdir().unwrap();
    let object = common_build::build(&program.folder, folder.path()).unwrap();
    let object = ObjectBuilder::default().open_file(object).unwrap();
    let mut found = BTreeSet::new();
    for program in object.progs() {
        found.insert(program.section().to_str().unwrap().to_owned());
        // BPF_JMP | BPF_CALL, with the number of a helper and not of our own function.
        let calls = program.insns().iter().filter(|insn| insn.code == 0x85 && insn.src_reg() == 0);
        found.extend(calls.map(|insn| format!("bpf_{}", helpers[&(insn.imm as u32)])));
    }
    // Global variables and constants are maps, too: the compiler makes them.
    let maps = object.maps().filter(|map| !map.name().to_string_lossy().contains('.'));
    found.extend(maps.map(|map| format!("BPF_MAP_TYPE_{}", map_types[&(map.map_type() as u32)])));
    found
}

#[test]
fn each_stage_adds_to_its_parent_exactly_what_it_says() {
    let workbook = Workbook::read().unwrap();
    let found: BTreeMap<_, _> =
        workbook.catalog.stages.iter().map(|stage| (stage.number, features(stage))).collect();
    for stage in &workbook.catalog.stages {
        let before = stage.parent.map(|parent| found[&parent].clone()).unwrap_or_default();
        let new: BTreeSet<_> = found[&stage.number].difference(&before).cloned().collect();
        let told: BTreeSet<_> = stage.new.iter().cloned().collect();
        assert_eq!(new, told, "{}: `new` in its Cargo.toml", stage.package());
    }
}

/// Lines of code that differ between two texts. We don't count comments, because they help.
fn changed(old: &str, new: &str) -> usize {
    let is_code = |line: &str| {
        let line = line.trim();
        !line.is_empty() && !["//", "/*", "* ", "*/"].iter().any(|comment| line.starts_with(comment))
    };
    diff::changed(old, new).iter().filter(|line| is_code(line)).count()
}

#[test]
fn each_stage_is_small_and_a_small_step_from_its_parent() {
    let workbook = Workbook::read().unwrap();
    for stage in &workbook.catalog.stages {
        let sources = stage.sources().unwrap();
        for (source, most) in sources.iter().zip([BPF_LINES, MAIN_LINES]) {
            let lines = fs::read_to_string(source).unwrap().lines().count();
            assert!(lines <= most, "{} has {lines} lines, at most {most} fit a lesson", source.display());
        }
        let Some(parent) = stage.parent else { continue };
        let parent = workbook.catalog.stages.iter().find(|stage| stage.number == parent).unwrap();
        let parents = parent.sources().unwrap();
        let read = |path: &PathBuf| fs::read_to_string(path).unwrap();
        let pairs = parents.iter().zip(&sources);
        let lines: usize = pairs.map(|(old, new)| changed(&read(old), &read(new))).sum();
        let most = stage.lines.unwrap_or(DIFF_LINES);
        assert!(lines <= most, "{} differs from its parent by {lines} lines", stage.package());
    }
}

/// What fits into ten minutes. An exercise that is larger says so in its text, and how many lines in a comment.
const SOLUTION_LINES: RangeInclusive<usize> = 5..=25;

/// A solution is short, and in the style of the stages.
#[test]
fn each_exercise_is_small_and_well_formed() {
    let workbook = Workbook::read().unwrap();
    let stages = workbook.catalog.stages.iter().filter(|stage| !stage.is_copy());
    let stages = stages.map(|stage| (stage, 2..=4));
    // A working copy has only the modules beside main.rs, and ctracer has more.
    let examples = workbook.catalog.examples.iter().filter(|example| example.name() != "ctracer");
    let examples = examples.map(|example| (example, 1..=1));
    for (program, count) in stages.chain(examples) {
        let (exercises, name) = (exercise::of(program).unwrap(), program.name());
        let found = exercises.len();
        assert!(count.contains(&found), "{name} has {found} exercises, and needs {count:?}");
        let folders = fs::read_dir(program.folder.join("exercises")).unwrap().flatten();
        let folders = folders.filter(|entry| entry.path().is_dir()).count();
        assert_eq!(folders, exercises.len(), "{name}: they are numbered from 1 on");
        let planted = exercises.iter().filter(|exercise| exercise.folder.join("start.patch").exists());
        assert!(planted.count() > 0, "{name} has no exercise with a fault in it");
        for exercise in exercises {
            let id = exercise.id();
            // A question, a pointer, and almost the answer.
            assert_eq!(exercise.hints.len(), 3, "{id}");
            let (start, solved) = (exercise.starting_point("x").unwrap(), exercise.solved("x").unwrap());
            let pairs = start.iter().zip(&solved);
            let lines: usize = pairs.map(|((_, old), (_, new))| diff::changed(old, new).len()).sum();
            let fits = *SOLUTION_LINES.start()..=exercise.lines.unwrap_or(*SOLUTION_LINES.end());
            assert!(fits.contains(&lines), "{id} changes {lines} lines");
            let folder = tempfile::tempdir_in(workbook.target.clone()).unwrap();
            for (name, files) in [("start", start), ("solved", solved)] {
                copies::write(&folder.path().join(name), &files).unwrap();
                let style = format!("--style=file:{}", workbook.root.join(".clang-format").display());
                let config = workbook.root.join("rustfmt.toml");
                for (path, _) in files.iter().filter(|(path, _)| path.starts_with("src")) {
                    let mut format;
                    if path.extension().is_some_and(|end| end == "c") {
                        format = Command::new("clang-format");
                        format.args([&style, "--dry-run", "-Werror"]);
                    } else {
                        format = Command::new("rustfmt");
                        format.args(["--check", "--edition", "2024", "--config-path"]).arg(&config);
                    }
                    output(format.arg(folder.path().join(name).join(path)))
                        .unwrap_or_else(|error| panic!("{id}, {name}: {error}"));
                }
            }
        }
    }
}

/// The shape of a lesson's page: a reader with five minutes reads the first three sections, and one with an hour
/// reads all.
const HEADINGS: [&str; 7] =
    ["Run it", "The idea", "The change", "What the numbers mean", "Exercises", "Going deeper", "Next"];
/// What a stage may have besides, after what the numbers mean.
const SECOND_HALF: &str = "When is the number wrong?";

/// Each item that changes is either part of the lesson or bookkeeping, and no other item is listed.
#[test]
fn each_change_is_marked_as_lesson_or_bookkeeping() {
    let workbook = Workbook::read().unwrap();
    for stage in workbook.catalog.stages.iter().filter(|stage| stage.parent.is_some()) {
        let files = diff::of_stage(&workbook, stage).unwrap();
        let changed = files.iter().flat_map(|file| &file.items).filter(|item| item.is_changed());
        // The new name of a renamed item counts.
        let changed = changed.map(|item| item.name.rsplit(" -> ").next().unwrap().to_owned());
        let changed: BTreeSet<_> = changed.collect();
        let marked: Vec<_> = stage.lesson.iter().chain(&stage.bookkeeping).cloned().collect();
        assert_eq!(marked.iter().cloned().collect::<BTreeSet<_>>(), changed, "stage {:02}", stage.number);
        assert_eq!(marked.len(), changed.len(), "stage {:02} marks an item twice", stage.number);
        assert!(
            stage.is_copy() || stage.parent_fails.is_some(),
            "stage {:02} has no `parent_fails`",
            stage.number
        );
    }
}

#[test]
fn each_program_has_the_same_outside() {
    let workbook = Workbook::read().unwrap();
    let (stages, examples) = (&workbook.catalog.stages, &workbook.catalog.examples);
    let file = |program: &Program, name| fs::read_to_string(program.folder.join(name)).unwrap();
    let build = file(&stages[0], "build.rs");
    for stage in stages {
        assert_eq!(file(stage, "build.rs"), build, "{}/build.rs", stage.package());
        let readme = file(stage, "README.md");
        let headings = readme.lines().filter_map(|line| line.strip_prefix("## "));
        let headings: Vec<_> = headings.filter(|heading| *heading != SECOND_HALF).collect();
        assert_eq!(headings, HEADINGS, "{}/README.md", stage.package());
    }
    for example in examples {
        let name = example.name();
        assert!(example.sources().is_err() || file(example, "build.rs") == build, "{name}/build.rs");
        let lines = file(example, "src/main.rs").lines().count();
        assert!(lines <= EXAMPLE_LINES, "{name}: {lines} lines");
    }
}

/// A picture shows some stages at their probes, and these stages have such a probe.
#[test]
fn the_pictures_show_the_probes() {
    let workbook = Workbook::read().unwrap();
    for name in ["io-path.svg", "page-cache.svg", "storage-stack.svg"] {
        let picture = fs::read_to_string(workbook.root.join("docs/src").join(name)).unwrap();
        let marks: Vec<_> = picture.split("<g data-probe=\"").skip(1).collect();
        assert!(!marks.is_empty(), "{name}");
        for mark in marks {
            let (section, rest) = mark.split_once("\" data-stages=\"").unwrap();
            let (stages, rest) = rest.split_once('"').unwrap();
            // The first line of text is the function.
            let (text, _) = rest.split_once("</text>").unwrap();
            let function = section.rsplit('/').next().unwrap();
            assert!(text.rsplit_once('>').unwrap().1.starts_with(function), "{name}: {section}");
            for stage in stages.split(' ') {
                let sections = lab::doctor::sections(workbook.catalog.stage(stage).unwrap()).unwrap();
                let has = sections.iter().any(|other| other.trim_start_matches('?') == section);
                assert!(has, "{name} shows stage {stage} at {section}, and it has {sections:?}");
            }
        }
    }
}
