//! Each case and variant of the clinic: the kernel refuses the program as recorded, and the cured one counts right. So does
//! the program with the change that the explanation advises.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::thread;

use common::{Error, OrCause, Result};
use lab::clinic::{self, Case};
use lab::compiler::Compiler;
use libtest_mimic::Trial;
use machine::kernels::MATRIX;
use machine::vm::{Machine, Vm};
use machine::workbook::Workbook;
use verifier::{Object, Refusal, explain};

use crate::{BOOT_LIMIT, Fleet, KERNELS};

/// A case, its refused object, and its cured ones with the kernels that they are for.
#[derive(Clone, Debug)]
struct Compiled {
    case: Case,
    refused: PathBuf,
    cured: Vec<(Vec<&'static str>, PathBuf)>,
}

/// All cases, compiled when the first of them runs.
static CASES: LazyLock<Result<Vec<Compiled>>> = LazyLock::new(compiled);

fn compiled() -> Result<Vec<Compiled>> {
    let workbook = Workbook::read()?;
    let compiler = Compiler::new(&workbook, &workbook.state_dir().join("clinic"))?;
    let cases = [clinic::cases(&workbook)?, clinic::variants(&workbook)?].concat();
    // The guests of all kernels wait for this, so it uses every processor.
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let compile_all = |cases: &[Case]| -> Result<Vec<_>> {
            cases.iter().map(|case| compile(&compiler, case.clone())).collect()
        };
        let parts = cases.chunks(cases.len().div_ceil(threads));
        let parts: Vec<_> = parts.map(|part| scope.spawn(move || compile_all(part))).collect();
        let done = parts.into_iter().map(|part| part.join().unwrap()).collect::<Result<Vec<_>>>();
        done.map(|parts| parts.concat())
    })
}

fn compile(compiler: &Compiler, case: Case) -> Result<Compiled> {
    let object =
        |what: &str, source: &str| compiler.compile(&format!("{}-{what}", case.name), &case.file, source);
    let refused = object("refused", &case.source)?;
    let parsed: Vec<_> =
        Object::parse(&fs::read(&refused).or_cause("cannot read an object")?).into_iter().collect();
    // A cured program is compiled once for all kernels that it is for.
    let mut cures = Vec::<(Vec<_>, String)>::new();
    for kernel in MATRIX.map(|series| series.name) {
        let log = case.log(kernel);
        let change = log.and_then(|log| explain(&log, &parsed)?.change);
        let changed = change.map(|change| {
            let none = || Error::new(format!("{}: the change does not fit:\n{change}", case.name));
            case.changed(&change).ok_or_else(none)
        });
        for source in [Some(case.cured_for(kernel)), changed].into_iter().flatten() {
            let source = source?;
            match cures.iter_mut().find(|(_, other)| *other == source) {
                Some((kernels, _)) => kernels.push(kernel),
                None => cures.push((vec![kernel], source)),
            }
        }
    }
    let cured = cures.into_iter().enumerate();
    let cured = cured.map(|(nth, (kernels, source))| Ok((kernels, object(&format!("cured{nth}"), &source)?)));
    let cured = cured.collect::<Result<_>>()?;
    Ok(Compiled { case, refused, cured })
}

/// A test for all cases on each kernel.
pub fn trials() -> Vec<Trial> {
    let fleet = Fleet::new(boot);
    let kernels = KERNELS.iter().map(|series| series.name).enumerate();
    kernels.map(|(nth, kernel)| fleet.trial(nth, "clinic", move |guest| check(guest, kernel))).collect()
}

fn boot(kernel: &str) -> Result<Vm> {
    let workbook = Workbook::read()?;
    let mut machine =
        Machine { limit: BOOT_LIMIT, ..Machine::with(&workbook, kernel, workbook.build_tools()?)? };
    for compiled in CASES.clone()? {
        machine.binaries.push(compiled.refused);
        machine.binaries.extend(compiled.cured.into_iter().map(|(_, object)| object));
    }
    machine.boot()
}

fn check(guest: &mut Vm, kernel: &str) -> Result<()> {
    let cases = CASES.clone()?;
    let objects: Vec<_> = cases.iter().map(|compiled| compiled.refused.clone()).collect();
    let mut wrong = Vec::new();
    for (Compiled { case, refused, cured }, log) in cases.iter().zip(clinic::logs(guest, &objects)?) {
        let bytes = fs::read(refused).or_cause("cannot read the object")?;
        let objects: Vec<_> = Object::parse(&bytes).into_iter().collect();
        let words = |log: Option<String>| log.map(|log| explain(&log, &objects).map(said));
        let newer = case.logs_of_newer_compilers(kernel).into_iter().map(|(_, log)| Some(log));
        let recorded: Vec<_> = [case.log(kernel)].into_iter().chain(newer).map(words).collect();
        let now = words(log);
        if !recorded.contains(&now) {
            wrong.push(format!("{}: recorded: {recorded:?}, now: {now:?}", case.name));
        }
        for (_, object) in cured.iter().filter(|(kernels, _)| kernels.contains(&kernel)) {
            if let Err(error) = clinic::verdict(guest, object) {
                wrong.push(format!("{}, {}: {error}", case.name, object.display()));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Error::new("the clinic").evidence(wrong.join("\n"))) }
}

/// What must be as recorded. The words may have numbers that differ between two runs.
fn said(refusal: Refusal) -> (&'static str, Option<verifier::Place>, String) {
    (refusal.kind, refusal.place, refusal.cause)
}
