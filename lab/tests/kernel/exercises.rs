//! Each exercise's starting point fails its check, and each solution passes it.

use std::sync::Arc;

use common::{Error, Result};
use lab::exercise::{self, Exercise};
use libtest_mimic::Trial;
use machine::vm::{Machine, Vm};
use machine::workbook::Workbook;
use wire::verdict::Verdict;

use crate::{BOOT_LIMIT, Fleet, KERNELS, has_fentry, is_soak, variants};

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
pub fn trials() -> Vec<Trial> {
    let fleet = Fleet::new(boot);
    let workbook = Arc::new(crate::workbook().expect("the workspace can be read"));
    let oldest = KERNELS.iter().position(has_fentry).unwrap_or_default();
    let newest = KERNELS.len() - 1;
    let mut trials = Vec::new();
    let mut add = |id: String, what: &str, binary: String, passes: bool| {
        for nth in (oldest..=newest).filter(|nth| is_soak() || *nth == newest || *nth == oldest && passes) {
            let (workbook, id, binary) = (workbook.clone(), id.clone(), binary.clone());
            let name = format!("exercise_{}_{what}", id.replace('.', "_"));
            let test = move |guest: &mut Vm| judge(guest, &exercise::find(&workbook, &id)?, &binary, passes);
            trials.push(fleet.trial(nth, &name, test));
        }
    };
    for exercise in exercises(&workbook) {
        add(exercise.id(), "start_fails", name(&exercise, "start"), false);
        add(exercise.id(), "solution_passes", name(&exercise, "solved"), true);
    }
    for stage in workbook.catalog.stages.iter().filter(|stage| !stage.is_copy()) {
        // The exercise to write the stage itself: its parent must not pass.
        if let Ok(parent) = workbook.catalog.parent(stage) {
            add(stage.name(), "parent_fails", parent.binary(), false);
            add(stage.name(), "stage_passes", stage.binary(), true);
        }
    }
    trials
}

/// Fails unless a program passes the check, or fails it as the exercise says.
fn judge(guest: &mut Vm, exercise: &Exercise<'_>, binary: &str, passes: bool) -> Result<()> {
    let error = match exercise::verdict(guest, exercise, binary) {
        Ok(Verdict::Right(_)) if passes => return Ok(()),
        Ok(Verdict::Right(seen)) => return Err(Error::new(format!("it passes: {seen}"))),
        Ok(Verdict::Wrong(fault)) => Error::from(fault),
        Err(error) => error,
    };
    // An empty text would be in every fault.
    if !passes && !exercise.fails.is_empty() && error.cause().contains(&exercise.fails) {
        return Ok(());
    }
    let fails = format!("{} fails, but it says that it does with {:?}", exercise.id(), exercise.fails);
    Err(if passes { error } else { Error::new(fails).evidence(error) })
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
