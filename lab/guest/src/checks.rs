//! The checks of all stages and examples, each of which stands beside its program. `build.rs` finds them.

use common::{Error, Result};
use nix::unistd::sync;
use wire::verdict::Verdict;

use crate::check::Check;
use crate::verdict::{Checked, Failure};

include!(concat!(env!("OUT_DIR"), "/checks.rs"));

/// The check of a stage, by its number with two digits, or of an example, by its name.
pub fn of(name: &str) -> Option<&'static Check> {
    ALL.iter().find(|(of, _)| *of == name).map(|(_, check)| *check)
}

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
