//! Checks that each refusal is recognized and explained, from the logs that four kernels left. Needs clang, but no
//! kernel.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

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

#[test]
fn each_log_is_recognized_and_explained() {
    let workbook = Workbook::read().unwrap();
    let cases = programs(&workbook);
    for series in MATRIX {
        let has_logs = cases.iter().any(|case| case.log(series.name).is_some());
        assert!(has_logs, "the clinic has no log of Linux {}: cargo upkeep clinic", series.name);
    }
    // To compile all of them takes most of the time.
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let objects: Vec<_> = thread::scope(|scope| {
        let parts = cases.chunks(cases.len().div_ceil(threads));
        let parts: Vec<_> =
            parts.map(|part| scope.spawn(|| part.iter().map(object).collect::<Vec<_>>())).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    for (case, object) in cases.into_iter().zip(objects) {
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

/// Each message that others have collected is explained or honestly unknown, and most are explained.
#[test]
fn public_messages_are_recognized_or_unknown() {
    insta::assert_snapshot!(publish::clinic::messages(&Workbook::read().unwrap()).unwrap());
}
