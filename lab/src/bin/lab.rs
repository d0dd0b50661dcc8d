//! `cargo lab`: see `cargo lab --help`.

#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use common::{Error, OrCause, Result};
use lab::kernels::{DEFAULT, Kernel, MATRIX, Series};
use lab::protocol::ToGuest;
use lab::vm::{Accel, BOOT_LIMIT, Guest, Machine, Stream};
use lab::workbook::Workbook;
use lab::workload::Workload;
use lab::{bench, demo, doctor, interrupt, list, terminal, vmlinux};
use nix::sys::signal::Signal;

/// The lab: boots a real kernel and runs the workbook's stages in it
#[derive(Parser)]
#[command(name = "cargo lab", bin_name = "cargo lab", version, disable_help_subcommand = true)]
struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the stages
    List,
    /// Say what this machine has and lacks, for the lab and for running without it
    Doctor {
        /// A stage, to look for its probes too
        stage: Option<String>,
    },
    /// Show the kernels of the matrix, or fetch them
    Kernels {
        /// Fetch these unless they are here; all of them if none is named
        #[arg(long, value_name = "VERSION", num_args = 0..)]
        fetch: Option<Vec<String>>,
        /// Look for newer packages of those that are here, too
        #[arg(long, requires = "fetch")]
        newer: bool,
        /// Debian's mirror to fetch from, if this machine's apt knows none
        #[arg(long, value_name = "URL", requires = "fetch")]
        mirror: Option<String>,
    },
    /// Run a stage in a guest, with I/O for it to see, until Ctrl-C
    Run {
        /// The stage, such as 03
        stage: String,
        #[command(flatten)]
        boot: Boot,
        /// The I/O beside the stage, again and again: write, sync, read-cold, read-warm, none, or the arguments of
        /// `io` in quotes [default: what the stage is about]
        #[arg(long, value_name = "WORKLOAD")]
        io: Option<Workload>,
        /// Arguments of the stage, such as -- --lines 10
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Open a root shell in a guest, with the stages and the workload tool in its PATH
    Shell {
        #[command(flatten)]
        boot: Boot,
    },
    /// Run every stage for a moment and check what it prints against the truth
    Demo {
        #[command(flatten)]
        boot: Boot,
    },
    /// Find out what moved in a kernel: where the tutorial's probe points are, and how often they are called
    Drift {
        /// A kernel: 5.10, 6.1, 6.12, 7.2, or the path of a bzImage [default: all four, into the book's data]
        #[arg(long = "kernel", value_name = "VERSION or PATH")]
        kernels: Vec<String>,
    },
    /// Measure the lab's budgets on this machine
    #[command(hide = true)]
    Bench,
    /// Measure what an event costs and when it gets lost on its way to user space, and write the book's data
    #[command(hide = true)]
    Channels,
    /// Compare stage 08 with another tool, and write the table of its README
    #[command(hide = true)]
    Peers,
    /// Make vmlinux.h again, of the types that a kernel tells
    #[command(hide = true)]
    Vmlinux {
        #[command(flatten)]
        boot: Boot,
    },
}

#[derive(Args)]
struct Boot {
    /// The kernel: 5.10, 6.1, 6.12, 7.2, or the path of a bzImage
    #[arg(long, value_name = "VERSION or PATH", default_value = DEFAULT)]
    kernel: String,
    /// What runs the guest's instructions
    #[arg(long, value_enum, default_value_t, hide = true)]
    accel: Accel,
    /// More words for the kernel's command line
    #[arg(long, value_name = "WORDS", default_value = "", hide_default_value = true)]
    append: String,
    /// How long the guest may take to boot
    #[arg(long, value_name = "SECS", default_value_t = BOOT_LIMIT.as_secs())]
    boot_limit: u64,
}

impl Boot {
    fn machine(&self, workbook: &Workbook) -> Result<Machine> {
        let limit = Duration::from_secs(self.boot_limit);
        Ok(Machine {
            accel: self.accel,
            append: self.append.clone(),
            limit,
            ..Machine::new(workbook, &self.kernel)?
        })
    }

    fn boot(&self, workbook: &Workbook) -> Result<Guest> {
        let machine = self.machine(workbook)?;
        eprintln!("Booting Linux {} ...", self.kernel);
        let guest = machine.boot()?;
        eprintln!("{}", guest.describe());
        Ok(guest)
    }
}

fn main() -> ExitCode {
    run(Lab::parse().command).unwrap_or_else(|error| {
        eprintln!("Error: {error}");
        ExitCode::FAILURE
    })
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::List => print(&list::stages(&Workbook::read()?.stages)),
        Command::Doctor { stage } => doctor::run(&Workbook::read()?, stage.as_deref()),
        Command::Kernels { fetch: None, .. } => print(&list::kernels()?),
        Command::Kernels { fetch: Some(names), newer, mirror } => fetch(&names, newer, mirror.as_deref()),
        Command::Run { stage, boot, io, arguments } => {
            let workbook = Workbook::read()?;
            let stage = workbook.stage(&stage)?;
            interrupt::take_over()?;
            let mut guest = boot.boot(&workbook)?;
            let command = stage.command.as_ref().filter(|_| arguments.is_empty());
            let io = match (&io, command) {
                (Some(Workload::Io(arguments)), _) => arguments.join(" "),
                (Some(Workload::None), _) | (None, Some(_)) => "none".to_owned(),
                (None, None) => stage.io.clone().unwrap_or_else(|| "write".to_owned()),
            };
            let binary = stage.binary();
            let mut argv = vec!["guest", "beside", "--io", &io, &binary];
            argv.extend(arguments.iter().map(String::as_str));
            argv.extend(command.iter().flat_map(|command| ["--"].into_iter().chain(command.split(' '))));
            guest.start(&argv, None)?;
            live(&mut guest)
        }
        Command::Shell { boot } => {
            let workbook = Workbook::read()?;
            interrupt::take_over()?;
            let mut guest = boot.boot(&workbook)?;
            let raw = terminal::Raw::new()?;
            guest.start(&["sh"], Some(terminal::like_ours()))?;
            terminal::pass_keys(guest.line());
            let status = live(&mut guest);
            drop(raw);
            status
        }
        Command::Demo { boot } => {
            let workbook = Workbook::read()?;
            interrupt::take_over()?;
            let mut guest = boot.boot(&workbook)?;
            demo::run(&mut guest, &workbook.stages)
        }
        Command::Drift { kernels } => {
            interrupt::take_over()?;
            lab::drift::run(&Workbook::read()?, &kernels)
        }
        Command::Bench => {
            interrupt::take_over()?;
            bench::run(&Workbook::read()?)
        }
        Command::Channels => {
            interrupt::take_over()?;
            lab::channels::run(&Workbook::read()?)
        }
        Command::Peers => {
            interrupt::take_over()?;
            lab::peers::run(&Workbook::read()?)
        }
        Command::Vmlinux { boot } => {
            interrupt::take_over()?;
            let workbook = Workbook::read()?;
            vmlinux::write(&mut boot.boot(&workbook)?, &workbook)
        }
    }
}

fn print(text: &str) -> Result<ExitCode> {
    std::io::stdout().write_all(text.as_bytes()).or_cause("cannot print")?;
    Ok(ExitCode::SUCCESS)
}

fn fetch(names: &[String], newer: bool, mirror: Option<&str>) -> Result<ExitCode> {
    let all = MATRIX.map(|series| series.name.to_owned());
    for name in if names.is_empty() { &all[..] } else { names } {
        let series = Series::of(name).ok_or_else(|| {
            Error::new(format!("the matrix has no kernel {name}"))
                .evidence(format!("it has {}", all.join(", ")))
                .fix("name one of these; a kernel of your own need not be fetched: cargo lab run --kernel PATH")
        })?;
        if !newer && series.here()?.is_some() {
            continue;
        }
        let Kernel { package, .. } = series.fetch(mirror)?;
        eprintln!("Kernel {name} is here: {}", package.map(|package| package.release).unwrap_or_default());
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits for the program that was started as if it ran here: what it prints is printed as it comes, Ctrl-C is its, and
/// its exit status is ours.
fn live(guest: &mut Guest) -> Result<ExitCode> {
    let line = guest.line();
    interrupt::pass_to(line.clone());
    let mut unread = false;
    let status = guest.finish(None, |stream, bytes| {
        let written = match stream {
            Stream::Stdout if unread => Ok(()),
            Stream::Stdout => std::io::stdout().write_all(bytes).and_then(|()| std::io::stdout().flush()),
            Stream::Stderr => std::io::stderr().write_all(bytes),
        };
        match written {
            Ok(()) => Ok(()),
            // Nobody reads any more, as after `| head -3`. Tell the program, as the kernel would.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                unread = true;
                line.send(&ToGuest::Signal(Signal::SIGTERM as i32))
            }
            Err(error) => Err(error).or_cause("cannot print what the guest prints"),
        }
    })?;
    Ok(ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX)))
}
