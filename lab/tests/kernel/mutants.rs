//! Breaks the stages', examples' and clinic's programs by machine, and checks that the explanation of each refusal names
//! the right kind and the right line. Part of `make soak`. The rules are in `mutations.rs`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;

use common::{OrCause, Result};
use lab::clinic;
use libtest_mimic::{Failed, Trial};
use machine::kernels::{MATRIX, Series};
use machine::vm::{Machine, Vm};
use machine::workbook::Workbook;
use verifier::{Object, Refusal, explain};

use crate::mutations::{Mutation, mutations, variants};
use crate::{BOOT_LIMIT, Fleet, failed};

/// How many mutants each rule makes at most, of all programs together.
const MOST: usize = 8;

/// How many refused mutants are enough to count, and how many of 100 must be explained.
const ENOUGH: usize = 200;
const RIGHT_OF_100: usize = 90;

/// A compiled program.
#[derive(Clone, Debug)]
struct Compiled {
    /// The program that was broken, and its variant.
    of: (String, usize),
    /// What was done to it; nothing to the program itself.
    mutation: Option<Mutation>,
    object: PathBuf,
}

/// All mutants that compile, and the programs themselves.
static ALL: LazyLock<Result<Vec<Compiled>>> = LazyLock::new(compiled);

/// The sources of all programs, each with its name.
fn sources(workbook: &Workbook) -> Result<Vec<(String, String)>> {
    let mut sources = Vec::new();
    for program in workbook.catalog.programs() {
        if let Some(file) = bpf_source(program.folder()) {
            sources.push((program.binary(), fs::read_to_string(file).or_cause("cannot read a program")?));
        }
    }
    for case in clinic::cases(workbook)? {
        sources.push((format!("clinic-{}", case.number()), case.cured()?));
    }
    Ok(sources)
}

fn bpf_source(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder.join("src/bpf")).ok()?;
    entries.flatten().map(|entry| entry.path()).find(|path| path.to_string_lossy().ends_with(".bpf.c"))
}

fn compiled() -> Result<Vec<Compiled>> {
    let workbook = Workbook::read()?;
    let mut all = Vec::new();
    // By rule.
    let mut made: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (name, source) in sources(&workbook)? {
        for (variant, (source, lines)) in variants(&source).into_iter().enumerate() {
            let of = (name.clone(), variant);
            for mutation in mutations(&source, &lines) {
                let mutant = (of.clone(), Some(mutation.clone()), mutation.source);
                made.entry((mutation.kind, mutation.rule)).or_default().push(mutant);
            }
            all.push((of, None, source));
        }
    }
    for mutants in made.into_values() {
        let each = mutants.len().div_ceil(MOST);
        all.extend(mutants.into_iter().step_by(each));
    }
    let folder = workbook.state_dir().join("mutants");
    let todo = Mutex::new(all.into_iter().enumerate());
    let done = Mutex::new(Vec::new());
    let work = || -> Result<()> {
        loop {
            let next = todo.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((nth, (of, mutation, source))) = next else { return Ok(()) };
            let folder = folder.join(format!("mutant{nth}"));
            let path = folder.join("program.bpf.c");
            fs::create_dir_all(&folder).and_then(|()| fs::write(&path, source)).or_cause("cannot write")?;
            // Some mistakes are the compiler's to find.
            let Ok(compiled) = common_build::compile(&path, &folder) else { continue };
            let object = folder.with_extension("bpf.o");
            fs::rename(compiled, &object).or_cause("cannot rename an object")?;
            let compiled = Compiled { of, mutation, object };
            done.lock().unwrap_or_else(PoisonError::into_inner).push((nth, compiled));
        }
    };
    thread::scope(|scope| {
        let other = scope.spawn(work);
        work().and(other.join().unwrap())
    })?;
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(nth, _)| *nth);
    Ok(done.into_iter().map(|(_, compiled)| compiled).collect())
}

/// A test for all mutants on each kernel.
pub fn trials() -> Vec<Trial> {
    let fleet = Arc::new(Fleet::new(boot));
    let trial = |(nth, series): (usize, &Series)| {
        let name = format!("{}::mutants", series.name);
        let (fleet, kernel) = (fleet.clone(), series.name);
        Trial::test(name.clone(), move || fleet.with(nth, &name, |guest| check(guest, kernel)))
    };
    MATRIX.iter().enumerate().map(trial).collect()
}

fn boot(kernel: &str) -> Result<Vm> {
    let workbook = Workbook::read()?;
    let mut machine =
        Machine { limit: BOOT_LIMIT, ..Machine::with(&workbook, kernel, workbook.build_tools()?)? };
    machine.binaries.extend(ALL.clone()?.into_iter().map(|mutant| mutant.object));
    machine.boot()
}

/// How an explanation compares with what was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Accepted,
    Right,
    Unknown,
    Wrong,
}

fn verdict(mutation: &Mutation, refusal: Option<&Refusal>) -> Verdict {
    let Some(refusal) = refusal.filter(|refusal| !refusal.is_unknown()) else { return Verdict::Unknown };
    let line =
        refusal.place.as_ref().and_then(|place| place.location.as_ref()).map(|found| found.line as usize);
    match line {
        _ if refusal.kind != mutation.kind => Verdict::Wrong,
        _ if mutation.lines.is_empty() => Verdict::Right,
        Some(line) if mutation.lines.contains(&line) => Verdict::Right,
        Some(_) => Verdict::Wrong,
        None => Verdict::Unknown,
    }
}

fn check(guest: &mut Vm, kernel: &str) -> Result<(), Failed> {
    let all = ALL.clone().map_err(failed)?;
    let mut logs = Vec::new();
    for some in all.chunks(20) {
        let objects: Vec<_> = some.iter().map(|mutant| mutant.object.clone()).collect();
        logs.extend(clinic::logs(guest, &objects).map_err(failed)?);
    }
    // What this kernel refuses anyway says nothing about the mutants.
    let is_whole = |of: &(String, usize)| {
        all.iter().zip(&logs).any(|(other, log)| other.of == *of && other.mutation.is_none() && log.is_none())
    };
    let mut counts: BTreeMap<(&str, &str), [usize; 4]> = BTreeMap::new();
    let mut misses = String::new();
    for (mutant, log) in all.iter().zip(&logs) {
        let Some(mutation) = mutant.mutation.as_ref().filter(|_| is_whole(&mutant.of)) else { continue };
        let objects: Vec<_> = Object::parse(&fs::read(&mutant.object)?).into_iter().collect();
        let refusal = log.as_ref().and_then(|log| explain(log, &objects));
        let verdict = if log.is_some() { verdict(mutation, refusal.as_ref()) } else { Verdict::Accepted };
        counts.entry((mutation.kind, mutation.rule)).or_default()[verdict as usize] += 1;
        if verdict > Verdict::Right {
            let (name, file) = (&mutant.of, mutant.object.file_name().unwrap_or_default().display());
            let _ = writeln!(misses, "{verdict:?}: {name:?} {file}: {} {:?}", mutation.rule, mutation.lines);
            match (refusal, log) {
                (Some(refusal), _) => {
                    let _ =
                        writeln!(misses, "  {} at {:?}: {:?}", refusal.kind, refusal.place, refusal.words);
                }
                (None, Some(log)) => misses.extend(log.lines().map(|line| format!("  {line}\n"))),
                (None, None) => {}
            }
        }
    }
    let mut table = String::new();
    let mut sums = [0; 4];
    for ((kind, rule), numbers) in &counts {
        for (sum, number) in sums.iter_mut().zip(numbers) {
            *sum += number;
        }
        let numbers = numbers.map(|number| format!("{number:8}")).concat();
        let _ = writeln!(table, "{kind:<24}{numbers}  {rule}");
    }
    let [_, right, unknown, wrong] = sums;
    let refused = right + unknown + wrong;
    let heads = ["accepted", "right", "unknown", "wrong"].map(|head| format!("{head:>8}")).concat();
    let seen = format!(
        "Linux {kernel}: of {refused} refused mutants, {right} are explained rightly, {wrong} wrongly\n\
         {:<24}{heads}  rule\n{table}{misses}",
        "kind"
    );
    println!("{seen}");
    let is_enough = refused >= ENOUGH && right * 100 >= RIGHT_OF_100 * refused;
    if wrong == 0 && is_enough { Ok(()) } else { Err(seen.into()) }
}
