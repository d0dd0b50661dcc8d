//! Each exercise's starting point fails its check, and each solution passes it.

use std::sync::Arc;

use common::Result;
use lab::exercise::{self, Exercise};
use lab::kernels::MATRIX;
use lab::vm::{Guest, Machine};
use lab::workbook::{Program, Workbook};
use libtest_mimic::{Failed, Trial};

use crate::{Fleet, failed, variants};

/// A test for each starting point and each solution, on the oldest kernel and on the newest; on all with `LAB_SOAK=1`.
pub fn trials(soak: bool) -> Vec<Trial> {
    let fleet = Arc::new(Fleet::new(boot));
    let workbook = Arc::new(Workbook::read().expect("the workspace can be read"));
    let kernels = (0..MATRIX.len()).filter(|nth| soak || *nth == 0 || *nth == MATRIX.len() - 1);
    let kernels: Vec<_> = kernels.collect();
    let mut trials = Vec::new();
    let mut trial = |id: &str, what: &str, kernel: usize, binary: String, passes: bool| {
        let (fleet, workbook, id) = (fleet.clone(), workbook.clone(), id.to_owned());
        let name = format!("{}::exercise_{}_{what}", MATRIX[kernel].name, id.replace('.', "_"));
        trials.push(Trial::test(name, move || {
            fleet.with(kernel, |guest| {
                let exercise = exercise::find(&workbook, &id).map_err(failed)?;
                match exercise::verdict(guest, &exercise, &binary) {
                    Ok(seen) if !passes => Err(Failed::from(format!("it passes: {seen}"))),
                    Err(error) if passes => Err(failed(error)),
                    _ => Ok(()),
                }
            })
        }));
    };
    for stage in &workbook.stages {
        for exercise in exercise::of(stage).expect("the exercises can be read") {
            for kernel in &kernels {
                trial(&exercise.id(), "start_fails", *kernel, name(&exercise, "start"), false);
                trial(&exercise.id(), "solution_passes", *kernel, name(&exercise, "solved"), true);
            }
        }
        // To write the stage itself: its parent is not it yet. That the stage passes is what `cargo lab demo` shows.
        if let Ok(parent) = workbook.parent(stage) {
            for kernel in &kernels {
                trial(&format!("{:02}", stage.number), "parent_fails", *kernel, parent.binary(), false);
            }
        }
    }
    trials
}

/// The name of an exercise's starting point or solution as a program.
fn name(exercise: &Exercise<'_>, what: &str) -> String {
    format!("{}-{what}", exercise.binary())
}

/// Boots a kernel with all starting points and all solutions.
fn boot(kernel: &str) -> Result<Guest> {
    let workbook = Workbook::read()?;
    let mut copies = Vec::new();
    for stage in &workbook.stages {
        for exercise in exercise::of(stage)? {
            let (start, solved) = (name(&exercise, "start"), name(&exercise, "solved"));
            copies.push((start.clone(), exercise.starting_point(&workbook, &start)?));
            copies.push((solved.clone(), exercise.solved(&workbook, &solved)?));
        }
    }
    let mut machine = Machine::new(&workbook, kernel)?;
    machine.binaries.extend(variants::build(&workbook, "exercises", copies)?);
    machine.boot()
}
