//! Questions on the terminal. The program that asks them is built when somebody wants it: `lab/ask/src/main.rs`.

use std::os::unix::process::CommandExt;
use std::process::Command;

use common::{OrCause, Result};
use machine::workbook::Workbook;

/// Checks that there is something of this name: a chapter that has questions, a stage or an example.
pub fn check(workbook: &Workbook, subject: &str) -> Result<()> {
    let of_chapter = workbook.root.join("docs/questions").join(subject).with_extension("toml");
    if !of_chapter.exists() {
        workbook.catalog.program(subject)?;
    }
    Ok(())
}

/// Builds the program that asks questions, and becomes it, with these arguments. Returns only if it can't.
pub fn become_it(workbook: &Workbook, arguments: impl Iterator<Item = String>) -> Result<()> {
    let mut program = if workbook.is_in_guest() {
        // The workshop's guest has it.
        Command::new("ask")
    } else {
        let mut build = workbook.cargo_build();
        build.args(["--quiet", "--package", "ask"]);
        let cause = "the program that asks questions does not compile";
        Command::new(workbook.compile(build, &["ask".to_owned()], cause)?.remove(0))
    };
    program.args(arguments);
    Err(program.exec()).or_cause("cannot start the program that asks questions")
}
