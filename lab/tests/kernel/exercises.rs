//! Each exercise's starting point fails its check, and each solution passes it.

use std::sync::Arc;

use common::Result;
use lab::learn::exercise::{self, Exercise};
use lab::machine::kernels::MATRIX;
use lab::machine::vm::{Machine, Vm};
use lab::shared::arch::Arch;
use lab::workbook::{Program, Workbook};
use libtest_mimic::Trial;

use crate::{BOOT_LIMIT, Fleet, arch, failed, variants};

/// The fault that the check must find in a starting point, or in a stage that is checked as the next one; any of
/// these. An exercise that fails for another reason would teach something else.
const FAULTS: [(&str, &[&str]); 37] = [
    ("01.1", &["and 16 lines report them"]),
    ("01.2", &["and 0 lines submit_bio(bio=0x"]),
    ("02", &["no bio_endio() for the bio"]),
    ("02.1", &["no line says Starts: N, ends: N"]),
    ("02.2", &["0 submit_bio() returned"]),
    ("02.3", &["no line says Ends seen by fentry: N, by kprobe: N"]),
    ("03", &["4 bios, but 0 durations"]),
    ("03.1", &["writes ended, so none is open"]),
    ("03.2", &["and 0 lines that end in: ns, submitted by PID"]),
    ("04", &["this reports no slowest bio"]),
    ("04.1", &["the average of the"]),
    ("04.2", &["no line says: Min latency"]),
    ("05", &["were written at sector"]),
    ("05.1", &["all 8 writes went to the sixth MiB"]),
    ("05.2", &["no line says: Bytes (512)"]),
    ("06", &["the slowest bio's stack does not end in submit_bio()"]),
    ("06.1", &["io submitted the slowest bio, and not"]),
    ("06.2", &["no line says Code paths: N, bios: N"]),
    ("06.3", &["9 writes, and 0 lines"]),
    ("07", &["no line reports a completed request"]),
    ("07.1", &["requests were in flight together, not 6"]),
    ("07.2", &["no line says Reads: N, writes: N"]),
    ("08", &["this reports no page-cache counts"]),
    ("08.1", &["it counts 64 different ones"]),
    ("08.2", &["no line says: Bytes read: 100000"]),
    // Stage 08 takes no command.
    ("09", &["ended before it was attached"]),
    ("09.1", &["64 threads read 8 pages each"]),
    ("09.2", &["a child of the process reads 64 pages"]),
    ("09.3", &["milestone 1 of 3 is missing: no line begins with"]),
    ("bigreads.1", &["and not 18446744073709551595, 18446744073709551595, 2097152"]),
    ("biolatency.1", &["-S -F shows requests without Sync: Write"]),
    ("bitehist.1", &["no line says: Data: 14 KiB"]),
    ("bitesize.1", &["and not Reads: 0, writes: 0, others: "]),
    ("hello_clone.1", &["started a new thread, and not: A new process"]),
    ("hello_perf_output.1", &["and 0 count as not sent"]),
    ("page_cache_scenario.1", &["the first read of a new file misses no page"]),
    ("tracex3.1", &["and not less than 0 us"]),
];

/// All exercises, except those to write a stage.
fn exercises(workbook: &Workbook) -> Vec<Exercise<'_>> {
    workbook
        .programs()
        .flat_map(|program| exercise::of(program).expect("the exercises can be read"))
        .collect()
}

/// A test for each solution on the oldest and on the newest kernel, and for each starting point on the newest, because
/// its fault is in the program and not in the kernel. With `LAB_SOAK=1`, both run on all kernels.
pub fn trials(soak: bool) -> Vec<Trial> {
    let fleet = Arc::new(Fleet::new(boot));
    let workbook = Arc::new(crate::workbook().expect("the workspace can be read"));
    let oldest = if arch() == Arch::Arm { crate::arm::OLDEST } else { 0 };
    let kernels = (oldest..MATRIX.len()).filter(|nth| soak || *nth == oldest || *nth == MATRIX.len() - 1);
    let kernels: Vec<_> = kernels.collect();
    let faulty = if soak { &kernels[..] } else { &kernels[kernels.len() - 1..] };
    let mut trials = Vec::new();
    let mut trial = |id: &str, what: &str, kernel: usize, binary: String, passes: bool| {
        let (fleet, workbook, id) = (fleet.clone(), workbook.clone(), id.to_owned());
        let name = format!("{}::exercise_{}_{what}", MATRIX[kernel].name, id.replace('.', "_"));
        trials.push(Trial::test(name.clone(), move || {
            fleet.with(kernel, &name, |guest| {
                let exercise = exercise::find(&workbook, &id).map_err(failed)?;
                let error = match exercise::verdict(guest, &exercise, &binary) {
                    Ok(seen) if !passes => return Err(format!("it passes: {seen}").into()),
                    Ok(_) => return Ok(()),
                    Err(error) if passes => return Err(failed(error)),
                    Err(error) => error,
                };
                let fault = FAULTS.iter().find(|(fault, _)| *fault == id).ok_or("no fault is expected")?;
                let is_found = fault.1.iter().any(|words| error.cause().contains(words));
                if is_found { Ok(()) } else { Err(failed(error)) }
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
    for stage in &workbook.stages {
        // The exercise to write the stage itself: its parent must not pass.
        if let Ok(parent) = workbook.parent(stage) {
            for kernel in faulty {
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
    let mut machine = Machine { limit: BOOT_LIMIT, ..Machine::new(&workbook, kernel)? };
    machine.binaries.extend(variants::build(&workbook, "exercises", copies)?);
    machine.boot()
}
