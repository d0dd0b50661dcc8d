//! The checks of all stages and examples, each of which stands beside its program. A new one needs two lines here.

use common::{Error, Result};
use nix::unistd::sync;
use wire::verdict::Verdict;

use crate::check::Check;
use crate::verdict::{Checked, Failure};

#[path = "../../../examples/bigreads/check.rs"]
pub mod bigreads;
#[path = "../../../examples/biolatency/check.rs"]
pub mod biolatency;
#[path = "../../../examples/bitehist/check.rs"]
pub mod bitehist;
#[path = "../../../examples/bitesize/check.rs"]
pub mod bitesize;
#[path = "../../../examples/ctracer/check.rs"]
pub mod ctracer;
#[path = "../../../examples/hello_clone/check.rs"]
pub mod hello_clone;
#[path = "../../../examples/hello_perf_output/check.rs"]
pub mod hello_perf_output;
#[path = "../../../examples/page_cache_scenario/check.rs"]
pub mod page_cache_scenario;
#[path = "../../../stages/stage01_submit_bio_call_time/check.rs"]
pub mod stage01;
#[path = "../../../stages/stage02_bio_endio_call_time/check.rs"]
pub mod stage02;
#[path = "../../../stages/stage03_bio_latency_map/check.rs"]
pub mod stage03;
#[path = "../../../stages/stage04_max_latency/check.rs"]
pub mod stage04;
#[path = "../../../stages/stage05_max_latency_sector/check.rs"]
pub mod stage05;
#[path = "../../../stages/stage06_max_latency_stacktrace/check.rs"]
pub mod stage06;
#[path = "../../../stages/stage07_latency_other_section/check.rs"]
pub mod stage07;
#[path = "../../../stages/stage08_pagecache_miss_counts/check.rs"]
pub mod stage08;
#[path = "../../../stages/stage09_pagecache_miss_pid_filter/check.rs"]
pub mod stage09;
#[path = "../../../stages/stage10_every_bio_function/check.rs"]
pub mod stage10;
#[path = "../../../examples/tracex3/check.rs"]
pub mod tracex3;

/// By the stage's number or the example's name.
pub const ALL: &[(&str, &Check)] = &[
    ("01", &stage01::CHECK),
    ("02", &stage02::CHECK),
    ("03", &stage03::CHECK),
    ("04", &stage04::CHECK),
    ("05", &stage05::CHECK),
    ("06", &stage06::CHECK),
    ("07", &stage07::CHECK),
    ("08", &stage08::CHECK),
    ("09", &stage09::CHECK),
    ("10", &stage10::CHECK),
    ("bigreads", &bigreads::CHECK),
    ("biolatency", &biolatency::CHECK),
    ("bitehist", &bitehist::CHECK),
    ("bitesize", &bitesize::CHECK),
    ("ctracer", &ctracer::CHECK),
    ("hello_clone", &hello_clone::CHECK),
    ("hello_perf_output", &hello_perf_output::CHECK),
    ("page_cache_scenario", &page_cache_scenario::CHECK),
    ("tracex3", &tracex3::CHECK),
];

/// The check of a stage, by its number with two digits, or of an example, by its name.
pub fn of(name: &str) -> Option<&'static Check> {
    ALL.iter().find(|(of, _)| *of == name).map(|(_, check)| *check)
}

/// Checks a program.
pub fn run(exercise: &str, binary: &str) -> Result<Verdict> {
    match check(exercise, binary) {
        Ok(seen) => Ok(Verdict::Right(seen)),
        Err(Failure::Wrong(fault)) => Ok(Verdict::Wrong(fault)),
        Err(Failure::Error(error)) => Err(error),
    }
}

fn check(exercise: &str, binary: &str) -> Checked<String> {
    // Write everything that is pending, so that its I/O doesn't count as the program's.
    sync();
    let unknown = || Error::new(format!("{exercise} has no check"));
    let name = exercise.split('.').next().unwrap_or_default();
    let check = of(name).ok_or_else(unknown)?;
    if let Some((_, right)) = check.exercises.iter().find(|(id, _)| *id == exercise) {
        return right(binary);
    }
    let program = check.program.as_ref().filter(|_| name == exercise).ok_or_else(unknown)?;
    program.judge(binary).map(|(_, shown)| shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::exercise;
    use machine::workbook::Workbook;

    #[test]
    fn each_exercise_has_a_check_and_each_check_an_exercise() {
        let workbook = Workbook::read().unwrap();
        let programs = workbook.catalog.programs();
        let ids: Vec<_> =
            programs.flat_map(|program| exercise::of(program).unwrap()).map(|found| found.id()).collect();
        let checks = ALL.iter().flat_map(|(_, check)| check.exercises).map(|(id, _)| *id);
        assert_eq!(checks.filter(|id| id.contains('.')).collect::<Vec<_>>(), ids);
    }
}
