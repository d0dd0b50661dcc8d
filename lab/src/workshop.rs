//! The workshop: on this machine, where this builds its server and the book and becomes the server; or in the guest of a kit,
//! which the kit's launcher boots.

use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;
use common::{Error, OrCause, Result};
use machine::signals;
use machine::workbook::Workbook;

/// How to start the workshop.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Compile and check on this machine, with its own compiler, and not in the guest that `make workshop` makes
    #[arg(long)]
    here: bool,
    /// The guest's kernel, if the kit has it
    #[arg(long, value_name = "VERSION", conflicts_with = "here")]
    kernel: Option<String>,
    /// Discard what you wrote in the guest before
    #[arg(long, conflicts_with = "here")]
    fresh: bool,
    /// The port of its address, which starts with 127.0.0.1 [default: one that is free]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Only print the address
    #[arg(long)]
    no_browser: bool,
}

/// Starts the workshop. Returns only if it can't.
pub fn open(workbook: &Workbook, options: &Options) -> Result<()> {
    if options.here { here(workbook, options) } else { in_a_guest(workbook, options) }
}

/// Builds the server and the book, and becomes the server, which then runs stages and checks with this driver.
fn here(workbook: &Workbook, options: &Options) -> Result<()> {
    let driver = std::env::current_exe().or_cause("cannot find the lab's own program")?;
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
    server.arg("--driver").arg(driver).arg("--book").arg(book).args(["--port", &options.port.to_string()]);
    if options.no_browser {
        server.arg("--no-browser");
    }
    Err(server.exec()).or_cause("cannot start the workshop")
}

/// Becomes the launcher of the kit that `make workshop` has made.
fn in_a_guest(workbook: &Workbook, options: &Options) -> Result<()> {
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
