//! The workshop on this machine: builds its server and the book, and becomes the server.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use common::{Error, OrCause, Result};

use crate::host::interrupt;
use crate::workbook::Workbook;

/// Starts the workshop, which then runs stages and checks with this driver. Returns only if it can't.
///
/// # Errors
/// If the server or the book can't be built, or the server can't be started.
pub fn here(workbook: &Workbook, driver: &Path, port: u16, no_browser: bool) -> Result<()> {
    eprintln!("Building the book and the workshop. The first time, this takes about a minute ...");
    let mut build = workbook.cargo_build();
    build.args(["--quiet", "--package", "book", "--package", "workshop"]);
    run(&mut build, "the workshop does not compile")?;
    let book = workbook.target.join("book");
    let mut write = Command::new(workbook.binaries().join("book"));
    run(write.arg(&book).stdout(std::process::Stdio::null()), "the book can't be built")?;
    let mut server = Command::new(workbook.binaries().join("workshop"));
    server.arg("--driver").arg(driver).arg("--book").arg(book).args(["--port", &port.to_string()]);
    if no_browser {
        server.arg("--no-browser");
    }
    Err(server.exec()).or_cause("cannot start the workshop")
}

/// Runs a command whose errors are on stderr.
fn run(command: &mut Command, cause: &str) -> Result<()> {
    let status = command.status().or_cause(cause)?;
    if status.success() {
        return Ok(());
    }
    interrupt::check()?;
    Err(Error::new(cause)
        .evidence("the errors above")
        .fix("fix the first error, or look at what you changed: git diff"))
}
