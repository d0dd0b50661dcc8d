//! Each case of the clinic: the kernel refuses the program as recorded, and the cured one counts right.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use common::refusal::{Object, Refusal, explain};
use common::{Error, OrCause, Result};
use lab::learn::clinic::{self, Case, Compiler};
use lab::machine::kernels::MATRIX;
use lab::machine::vm::{Machine, Vm};
use lab::workbook::Workbook;
use libtest_mimic::Trial;

use crate::{BOOT_LIMIT, Fleet, failed};

/// A case, and its objects: the refused one and the cured one.
type Compiled = (Case, [PathBuf; 2]);

/// All cases, compiled when the first of them runs.
static CASES: LazyLock<Result<Vec<Compiled>>> = LazyLock::new(compiled);

fn compiled() -> Result<Vec<Compiled>> {
    let workbook = Workbook::read()?;
    let compiler = Compiler::new(&workbook)?;
    let compile = |case: Case| {
        let object = |what: &str, source: &str| {
            compiler.compile(&format!("{}-{what}", case.number()), &case.file, source)
        };
        let objects = [object("refused", &case.source)?, object("cured", &case.cured()?)?];
        Ok((case, objects))
    };
    clinic::cases(&workbook)?.into_iter().map(compile).collect()
}

/// A test for all cases on each kernel.
pub fn trials() -> Vec<Trial> {
    let fleet = Arc::new(Fleet::new(boot));
    let kernels = MATRIX.iter().enumerate();
    let trial = |(nth, series): (usize, &lab::machine::kernels::Series)| {
        let name = format!("{}::clinic", series.name);
        let (fleet, kernel) = (fleet.clone(), series.name);
        Trial::test(name.clone(), move || {
            fleet.with(nth, &name, |guest| check(guest, kernel).map_err(failed))
        })
    };
    kernels.map(trial).collect()
}

fn boot(kernel: &str) -> Result<Vm> {
    let workbook = Workbook::read()?;
    let mut machine =
        Machine { limit: BOOT_LIMIT, ..Machine::with(&workbook, kernel, workbook.build_tools()?)? };
    machine.binaries.extend(CASES.clone()?.iter().flat_map(|(_, objects)| objects.clone()));
    machine.boot()
}

fn check(guest: &mut Vm, kernel: &str) -> Result<()> {
    let cases = CASES.clone()?;
    let objects: Vec<_> = cases.iter().map(|(_, [refused, _])| refused.clone()).collect();
    let mut wrong = Vec::new();
    for ((case, [refused, cured]), log) in cases.iter().zip(clinic::logs(guest, &objects)?) {
        let bytes = fs::read(refused).or_cause("cannot read the object")?;
        let objects: Vec<_> = Object::parse(&bytes).into_iter().collect();
        let words = |log: Option<String>| log.and_then(|log| explain(&log, &objects)).map(said);
        let (recorded, now) = (words(case.log(kernel)), words(log));
        if recorded != now {
            wrong.push(format!("{}: recorded: {recorded:?}, now: {now:?}", case.name));
        }
        if let Err(error) = clinic::verdict(guest, cured) {
            wrong.push(format!("{}, cured: {error}", case.name));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Error::new("the clinic").evidence(wrong.join("\n"))) }
}

/// What must be as recorded. The words may have numbers that differ between two runs.
fn said(refusal: Refusal) -> (&'static str, Option<common::refusal::Place>, String) {
    (refusal.kind, refusal.place, refusal.cause)
}
