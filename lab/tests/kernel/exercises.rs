//! Each exercise's starting point fails its check, and each solution passes it.

use std::sync::Arc;

use common::{Error, Result};
use lab::exercise::{self, Exercise};
use libtest_mimic::Trial;
use machine::vm::{Machine, Vm};
use machine::workbook::Workbook;
use wire::verdict::Verdict;

use crate::arm::has_fentry;
use crate::{BOOT_LIMIT, Fleet, KERNELS, failed, variants};

/// All exercises, except those to write a stage.
fn exercises(workbook: &Workbook) -> Vec<Exercise<'_>> {
    workbook
        .catalog
        .programs()
        .flat_map(|program| exercise::of(program).expect("the exercises can be read"))
        .collect()
}

/// A test for each solution on the oldest and on the newest kernel, and for each starting point on the newest, because
/// its fault is in the program and not in the kernel. With `LAB_SOAK=1`, both run on all kernels.
pub fn trials(soak: bool) -> Vec<Trial> {
    let fleet = Arc::new(Fleet::new(boot));
    let workbook = Arc::new(crate::workbook().expect("the workspace can be read"));
    let oldest = KERNELS.iter().position(has_fentry).unwrap_or_default();
    let is_outer = |nth: &usize| *nth == oldest || *nth == KERNELS.len() - 1;
    let kernels: Vec<_> = (oldest..KERNELS.len()).filter(|nth| soak || is_outer(nth)).collect();
    let faulty = if soak { &kernels[..] } else { &kernels[kernels.len() - 1..] };
    let mut trials = Vec::new();
    let mut trial = |id: &str, what: &str, kernel: usize, binary: String, passes: bool| {
        let (fleet, workbook, id) = (fleet.clone(), workbook.clone(), id.to_owned());
        let name = format!("{}::exercise_{}_{what}", KERNELS[kernel].name, id.replace('.', "_"));
        trials.push(Trial::test(name.clone(), move || {
            fleet.with(kernel, &name, |guest| {
                let exercise = exercise::find(&workbook, &id).map_err(failed)?;
                let error = match exercise::verdict(guest, &exercise, &binary) {
                    Ok(Verdict::Right(seen)) if !passes => return Err(format!("it passes: {seen}").into()),
                    Ok(Verdict::Right(_)) => return Ok(()),
                    Ok(Verdict::Wrong(fault)) => Error::from(fault),
                    Err(error) => error,
                };
                if passes {
                    return Err(failed(error));
                }
                // An empty text would be in every fault.
                if !exercise.fails.is_empty() && error.cause().contains(&exercise.fails) {
                    return Ok(());
                }
                let cause = format!("{id} fails, but it says that it does with {:?}", exercise.fails);
                Err(failed(Error::new(cause).evidence(error)))
            })
        }));
    };
    for exercise in exercises(&workbook) {
        for kernel in faulty {
            trial(&exercise.id(), "start_fails", *kernel, name(&exercise, "start"), false);
        }
        for kernel in &kernels {
            trial(&exercise.id(), "solution_passes", *kernel, name(&exercise, "solved"), true);
        }
    }
    for stage in &workbook.catalog.stages {
        // The exercise to write the stage itself: its parent must not pass.
        if let Ok(parent) = workbook.catalog.parent(stage) {
            for kernel in faulty.iter().filter(|_| !stage.is_copy()) {
                trial(&stage.name(), "parent_fails", *kernel, parent.binary(), false);
            }
            for kernel in &kernels {
                trial(&stage.name(), "stage_passes", *kernel, stage.binary(), true);
            }
        }
    }
    trials
}

/// The program name of an exercise's starting point or solution.
fn name(exercise: &Exercise<'_>, what: &str) -> String {
    format!("{}-{what}", exercise.binary())
}

/// Boots a kernel with all starting points and all solutions.
fn boot(kernel: &str) -> Result<Vm> {
    let workbook = crate::workbook()?;
    let mut copies = Vec::new();
    for exercise in exercises(&workbook) {
        let (start, solved) = (name(&exercise, "start"), name(&exercise, "solved"));
        copies.push((start.clone(), exercise.starting_point(&start)?));
        copies.push((solved.clone(), exercise.solved(&solved)?));
    }
    // All these programs together don't fit into half the memory of a usual guest, which its root file system may use.
    let mut machine = Machine { limit: BOOT_LIMIT, memory: 2048, ..Machine::new(&workbook, kernel)? };
    machine.binaries.extend(variants::build(&workbook, "exercises", copies)?);
    machine.boot()
}
