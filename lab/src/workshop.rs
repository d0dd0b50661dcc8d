//! The workshop: on this machine, where this builds its server and the book and becomes the server; or in the guest of a kit,
//! which the kit's launcher boots.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use common::{Error, OrCause, Result};
use machine::signals;
use machine::workbook::Workbook;

/// Starts the workshop, which then runs stages and checks with this driver. Returns only if it can't.
pub fn here(workbook: &Workbook, driver: &Path, port: u16, no_browser: bool) -> Result<()> {
    eprintln!("Building the book and the workshop. The first time, this takes about a minute ...");
    let mut build = workbook.cargo_build();
    build.args(["--quiet", "--package", "book", "--package", "clinic", "--package", "workshop"]);
    let names = ["book", "workshop"].map(str::to_owned);
    let [write, server] = &workbook.compile(build, &names, "the workshop does not compile")?[..] else {
        return Err(Error::new("the workshop has no programs"));
    };
    let book = workbook.target.join("book");
    let mut write = Command::new(write);
    run(write.arg(&book).stdout(std::process::Stdio::null()), "the book can't be built")?;
    let mut server = Command::new(server);
    server.arg("--driver").arg(driver).arg("--book").arg(book).args(["--port", &port.to_string()]);
    if no_browser {
        server.arg("--no-browser");
    }
    Err(server.exec()).or_cause("cannot start the workshop")
}

/// How to start the workshop in a guest.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kernel, if not the kit's own choice.
    pub kernel: Option<String>,
    /// Whether to discard the work that was kept.
    pub fresh: bool,
    /// The port, or 0 for one that is free.
    pub port: u16,
    /// Whether to only print the address.
    pub no_browser: bool,
}

/// Becomes the launcher of the kit that `make workshop` has made. Returns only if it can't.
pub fn in_a_guest(workbook: &Workbook, options: &Options) -> Result<()> {
    let launcher = workbook.target.join("workshop/lab");
    if !launcher.exists() {
        return Err(Error::new("there is no guest with the workshop yet")
            .evidence(format!("{} is missing", launcher.display()))
            .fix("make one, which takes ten minutes: make workshop; or use this machine's compiler: cargo lab workshop --here"));
    }
    let mut command = Command::new("sh");
    command.arg(&launcher);
    command.args(options.kernel.iter().flat_map(|kernel| ["--kernel", kernel]));
    command.arg("workshop");
    if options.port != 0 {
        command.args(["--port", &options.port.to_string()]);
    }
    command.args(options.fresh.then_some("--fresh")).args(options.no_browser.then_some("--no-browser"));
    Err(command.exec()).or_cause("cannot start the kit's launcher")
}

/// Runs a command whose errors are on stderr.
fn run(command: &mut Command, cause: &str) -> Result<()> {
    let status = command.status().or_cause(cause)?;
    if status.success() {
        return Ok(());
    }
    signals::check()?;
    Err(Error::new(cause)
        .evidence("the errors above")
        .fix("fix the first error, or look at what you changed: git diff"))
}
