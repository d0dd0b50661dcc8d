//! Where an exercise's program runs: in a guest that the lab boots, or in the workshop, which is in a guest already, here.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use common::traced::exit_code;
use common::{Error, OrCause, Result};

use crate::kernels::{DEFAULT, Series};
use crate::signals;
use crate::vm::{Output, Vm};
use crate::workbook::Workbook;

pub trait Executor {
    /// Runs a program to its end and returns what it printed.
    fn output(&mut self, argv: &[&str], limit: Duration) -> Result<Output>;

    /// Makes a program available by its name.
    fn install(&mut self, program: &Path) -> Result<()>;

    fn rest(&mut self, time: Duration) -> Result<()>;
}

impl Executor for Vm {
    fn output(&mut self, argv: &[&str], limit: Duration) -> Result<Output> {
        Self::output(self, argv, limit)
    }

    fn install(&mut self, program: &Path) -> Result<()> {
        Self::install(self, program)
    }

    fn rest(&mut self, time: Duration) -> Result<()> {
        Self::rest(self, time)
    }
}

/// The guest of the workshop, from inside.
#[derive(Clone, Debug)]
pub struct LocalGuest {
    binaries: PathBuf,
}

impl LocalGuest {
    /// This system, if it is the workshop's guest. `kernel` is the one that the user asks for.
    pub fn find(workbook: &Workbook, kernel: &str) -> Result<Option<Self>> {
        if !workbook.is_in_guest() {
            return Ok(None);
        }
        let release = common::preflight::release();
        let is_it = Series::of(kernel).is_ok_and(|series| series.is(&release));
        if kernel != DEFAULT && !is_it {
            return Err(Error::new(format!("the workshop can't boot Linux {kernel}"))
                .evidence(format!("it runs in a guest itself, with Linux {release}"))
                .fix(format!(
                    "leave out --kernel; or, if the kit has that kernel, choose it at the top of the page, or start \
                     the workshop with it: ./lab --kernel {kernel} workshop"
                )));
        }
        Ok(Some(Self { binaries: workbook.binaries() }))
    }

    /// Prints the kernel, as the lab does when it has booted one. From then on, programs run.
    pub fn announce(&self) {
        eprintln!("Kernel {}, this guest's own", common::preflight::release());
    }

    /// A command that also finds a learner's programs by their names.
    fn command(&self, argv: &[&str]) -> Command {
        let mut command = Command::new(argv.first().unwrap_or(&"true"));
        let path = std::env::var("PATH").unwrap_or_default();
        command.args(argv.get(1..).unwrap_or_default());
        command.env("PATH", format!("{path}:{}", self.binaries.display()));
        command
    }

    /// Becomes a program. Returns only if it can't.
    pub fn become_program(&self, argv: &[&str]) -> Result<()> {
        Err(self.command(argv).exec()).or_cause("cannot start the program")
    }
}

impl Executor for LocalGuest {
    fn output(&mut self, argv: &[&str], _: Duration) -> Result<Output> {
        let output = self.command(argv).output().or_cause("cannot start the program")?;
        // Ctrl-C ends the program, too, and what it has printed until then means nothing.
        signals::check()?;
        Ok(Output {
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            status: exit_code(output.status).into(),
        })
    }

    fn install(&mut self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn rest(&mut self, time: Duration) -> Result<()> {
        thread::sleep(time);
        signals::check()
    }
}
