//! Checks that each refusal is recognized and explained, from the logs that four kernels left. Needs clang, but no
//! kernel.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use lab::clinic::{self, Case};
use machine::kernels::MATRIX;
use machine::workbook::Workbook;
use upkeep::publish;
use verifier::{Object, explain};

/// The cases and their variants.
fn programs(workbook: &Workbook) -> Vec<Case> {
    [clinic::cases(workbook).unwrap(), clinic::variants(workbook).unwrap()].concat()
}

/// The compiled program of a case.
fn object(case: &Case) -> Object {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join(&case.file);
    fs::write(&source, &case.source).unwrap();
    compiled(&source)
}

fn compiled(source: &Path) -> Object {
    let folder = tempfile::tempdir().unwrap();
    Object::parse(&fs::read(common_build::compile(source, folder.path()).unwrap()).unwrap()).unwrap()
}

/// Programs that can't be cases, because no disk can run them: their files, and the kinds and causes in their first
/// comments. Beside each is what Linux 7.2 says.
fn elsewhere(workbook: &Workbook) -> Vec<(PathBuf, String, String)> {
    let files = fs::read_dir(workbook.root.join("lab/clinic/elsewhere")).unwrap().flatten();
    let sources = files.map(|file| file.path()).filter(|file| file.extension().is_some_and(|of| of == "c"));
    let mut programs: Vec<_> = sources
        .map(|file| {
            let source = fs::read_to_string(&file).unwrap();
            let (_, comment) = source.split_once("/* ").unwrap();
            let (kind, cause) = comment.split_once(" */").unwrap().0.split_once(": ").unwrap();
            (file, kind.to_owned(), cause.to_owned())
        })
        .collect();
    programs.sort();
    programs
}

#[test]
fn refusals_of_other_types_of_programs_are_explained() {
    let workbook = Workbook::read().unwrap();
    let mut explained = String::new();
    for (file, kind, cause) in elsewhere(&workbook) {
        let name = file.file_name().unwrap().to_string_lossy().replace(".bpf.c", "");
        let log = fs::read_to_string(file.with_file_name(format!("{name}.log"))).unwrap();
        let refusal = explain(&log, &[compiled(&file)]).unwrap();
        assert_eq!((refusal.kind, &refusal.cause), (&*kind, &cause), "{name}:\n{log}");
        assert_eq!(refusal.change, None, "{name}: no such change was tried");
        let _ = writeln!(explained, "{name}:\n{}\n", common::Error::from(refusal));
    }
    insta::assert_snapshot!(explained);
}

/// A change is offered only for the shape of program for which it was tried. Each of these logs has another one.
#[test]
fn a_change_needs_the_shape_that_was_tried() {
    let workbook = Workbook::read().unwrap();
    let cases = clinic::cases(&workbook).unwrap();
    let case = |kind: &str| cases.iter().find(|case| case.kind() == kind).unwrap().log("7.2").unwrap();
    let change = |log: &str| explain(log, &[]).unwrap().change;
    for (kind, old, new) in [
        // A program of another type returns another number, and may hold something.
        ("null-test", "BPF_PROG(", "probe("),
        ("null-test", "bpf_ktime_get_ns#", "bpf_spin_lock#"),
        // The packet's pointers and user space's are not read with BPF_CORE_READ().
        ("kernel-pointer", "BPF_KPROBE(", "probe("),
    ] {
        let log = case(kind);
        assert!(change(&log).is_some(), "{kind}:\n{log}");
        assert!(log.contains(old), "{kind}: {old}:\n{log}");
        assert_eq!(change(&log.replace(old, new)), None, "{kind} with {new}");
    }
}

#[test]
fn each_log_is_recognized_and_explained() {
    let workbook = Workbook::read().unwrap();
    let cases = programs(&workbook);
    for series in MATRIX {
        let has_logs = cases.iter().any(|case| case.log(series.name).is_some());
        assert!(has_logs, "the clinic has no log of Linux {}: cargo upkeep clinic", series.name);
    }
    for case in cases {
        let object = object(&case);
        // Kernels that lead to the same explanation, and the explanation.
        let mut explained: Vec<(Vec<&str>, String)> = Vec::new();
        for series in MATRIX {
            let text = match case.log(series.name) {
                Some(log) => {
                    let refusal = explain(&log, std::slice::from_ref(&object)).unwrap();
                    let (kernel, kind) = (series.name, refusal.kind);
                    assert_eq!(kind, case.kind_on(kernel), "{} on {kernel}:\n{log}", case.name);
                    common::Error::from(refusal).to_string()
                }
                None => "accepted".to_owned(),
            };
            match explained.iter_mut().find(|(_, other)| *other == text) {
                Some((kernels, _)) => kernels.push(series.name),
                None => explained.push((vec![series.name], text)),
            }
        }
        let shown = explained.into_iter().fold(String::new(), |mut shown, (kernels, text)| {
            let _ = writeln!(shown, "{}:\n{text}\n", kernels.join(", "));
            shown
        });
        // The variants' are beside their programs.
        let mut settings = insta::Settings::clone_current();
        if case.number().parse::<u8>().is_err() {
            settings.set_snapshot_path(workbook.root.join("lab/clinic/variants").join(&case.name));
            settings.set_prepend_module_to_snapshot(false);
        }
        settings.bind(|| insta::assert_snapshot!(case.name.clone(), shown));
    }
}

/// Kinds of which no program here is a proof, and why.
const UNPROVEN: [(&str, &str); 5] = [
    ("debug-information-missing", "libbpf does not load a callback without its types"),
    ("kernel-types-missing", "each kernel of the matrix has its types"),
    ("memory-limit", "the guest's programs are loaded by root"),
    ("released-twice", "since Linux 7.2, the words for it are those for a dynptr that nothing made"),
    ("stack-uninitialized", "since Linux 6.3, and its fixes for older kernels, root may read such bytes"),
];

#[test]
fn each_kind_is_proven_by_a_program() {
    let workbook = Workbook::read().unwrap();
    let programs = programs(&workbook);
    let elsewhere = elsewhere(&workbook);
    let is_proven = |kind: &str| {
        elsewhere.iter().any(|(_, of, _)| of == kind)
            || programs.iter().any(|case| MATRIX.iter().any(|series| case.kind_on(series.name) == kind))
    };
    let unproven: BTreeSet<_> = verifier::kinds().filter(|kind| !is_proven(kind)).collect();
    assert_eq!(unproven, UNPROVEN.map(|(kind, _)| kind).into());
}

/// Newer compilers make other instructions from the same program, so some kernels say something else about it.
#[test]
fn logs_of_other_compilers_are_recognized() {
    let workbook = Workbook::read().unwrap();
    let mut explained = String::new();
    for case in programs(&workbook) {
        for series in MATRIX {
            for (compiler, log) in case.logs_of_newer_compilers(series.name) {
                let name = format!("{}, {compiler}, on {}", case.name, series.name);
                let refusal = explain(&log, &[]).unwrap_or_else(|| panic!("{name}: no refusal"));
                assert_eq!(refusal.kind, case.kind_on(series.name), "{name}");
                let _ = writeln!(explained, "{name}:\n{}\n", common::Error::from(refusal));
            }
        }
    }
    insta::assert_snapshot!(explained);
}

/// Linux 7.3 is not in the matrix yet. Its log has the verifier's words and a report, which must not hide them.
#[test]
fn a_kernels_own_explanation_is_evidence() {
    let workbook = Workbook::read().unwrap();
    let mut count = 0;
    for case in clinic::variants(&workbook).unwrap() {
        let Some(refusal) = case.refusal(publish::clinic::EXPLAINS) else { continue };
        assert_eq!(refusal.kind, case.kind_on(publish::clinic::EXPLAINS), "{}", case.name);
        let same = case.refusal("7.2").unwrap();
        let [words @ .., report] = &refusal.words[..] else { panic!("{}: {refusal:?}", case.name) };
        assert_eq!((words, &refusal.cause), (&same.words[..], &same.cause), "{}", case.name);
        assert!(report.starts_with("Verification failed: ") && report.len() > 60, "{report}");
        count += 1;
    }
    assert!(count > 3, "there are no such logs");
}

/// Each message that others have collected is explained or honestly unknown, and most are explained.
#[test]
fn public_messages_are_recognized_or_unknown() {
    insta::assert_snapshot!(publish::clinic::messages(&Workbook::read().unwrap()).unwrap());
}
