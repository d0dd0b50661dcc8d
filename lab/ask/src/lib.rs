//! What a learner has answered, and which run a prediction is about: for `cargo lab ask` and the workshop.

#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use machine::workbook::Program;
use questions::truth::WRITE;
use questions::{Asked, Question};

pub mod answers;

/// The arguments of the run that a program's predictions are about, after its name; each begins with a space.
pub fn arguments(program: &Program, all: &[Question]) -> String {
    let is_prediction = |question: &&Question| question.asked == Asked::Before;
    let truths = all.iter().filter(is_prediction).filter_map(|question| question.truth.as_ref());
    let io = truths.map(|truth| truth.io.as_str()).find(|io| *io != WRITE);
    match (io, &program.command) {
        (None, _) => String::new(),
        // It starts what it looks at.
        (Some(io), Some(_)) => format!(" -- -- io {io}"),
        (Some(io), None) => format!(" --io \"{io}\""),
    }
}

#[cfg(test)]
mod tests {
    use machine::workbook::Workbook;

    use super::*;

    /// Each stage's page begins with this command.
    #[test]
    fn the_run_is_that_of_the_page() {
        let workbook = Workbook::read().unwrap();
        for stage in &workbook.catalog.stages {
            let all = questions::of(&stage.folder).unwrap();
            let page = std::fs::read_to_string(stage.folder.join("README.md")).unwrap();
            let run = page.split("```sh\n").nth(1).unwrap().lines().next().unwrap();
            let command = format!("cargo lab run {}{}", stage.name(), arguments(stage, &all));
            assert!(
                all.is_empty() || run.starts_with(&command),
                "the prediction of stage {} is about `{command}`, but its page begins with `{run}`",
                stage.name()
            );
        }
    }
}
