//! `cargo lab`: see `cargo lab --help`.

#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use common::traced::exit_code;
use common::{Error, OrCause, Result};
use lab::{ask, clinic, demo, doctor, eject, ended, exercise, list, prove, workshop};
use machine::boot::Boot;
use machine::executor::{Executor, LocalGuest};
use machine::host::folders;
use machine::host::tools::{BPFTOOL, output};
use machine::kernels::{MATRIX, Series};
use machine::terminal::{self, print};
use machine::vm::{Stream, Vm};
use machine::workbook::Workbook;
use machine::workbook::copies::{self, Files};
use machine::workbook::diff::{self, Extent, Reading};
use machine::{cross, fetch, signals};
use nix::sys::signal::Signal;
use wire::arch::Arch;
use wire::protocol::ToGuest;
use wire::workload::Workload;
use wire::{files, mystery};

/// Boot a real kernel, and run the workbook's stages and examples in it
#[derive(Parser)]
#[command(name = "cargo lab", bin_name = "cargo lab", version, disable_help_subcommand = true)]
struct Lab {
    /// Download nothing. A kernel that is not here is then an error
    #[arg(long, global = true)]
    offline: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the stages and the examples
    List,
    /// Report what this machine has and lacks, for the lab and for running without it
    Doctor {
        /// A stage or an example; also check that this machine's kernel has its probes
        #[arg(value_name = "STAGE or EXAMPLE")]
        program: Option<String>,
    },
    /// Show the locked kernels and whether they are here, or fetch them
    Kernels {
        /// Fetch the locked packages of these kernels, or of all released ones if you name none; skip those that are here
        #[arg(long, value_name = "VERSION", num_args = 0..)]
        fetch: Option<Vec<String>>,
        /// The Debian archive to fetch from: a mirror, or a date in a snapshot archive [default: the mirror that this
        /// machine's apt uses]
        #[arg(long, value_name = "URL", requires = "fetch")]
        mirror: Option<String>,
        /// The architecture of the kernels: x86_64 or arm64
        #[arg(long, value_enum, value_name = "ARCH", default_value_t = Arch::HERE, hide_possible_values = true)]
        arch: Arch,
    },
    /// Compile all stages and examples, also for guests of another architecture
    Build {
        /// The guests' architecture: x86_64 or arm64. The first time for another one than this machine's, the lab
        /// downloads a linker and libraries
        #[arg(long, value_enum, value_name = "ARCH", default_value_t = Arch::HERE, hide_possible_values = true)]
        arch: Arch,
        /// The Debian mirror with these [default: the mirror that this machine's apt uses]
        #[arg(long, value_name = "URL")]
        mirror: Option<String>,
    },
    /// Make blkbook: all stages and examples in one file, to take to other machines
    Tools {
        /// The architecture of those machines: x86_64 or arm64
        #[arg(long, value_enum, value_name = "ARCH", default_value_t = Arch::HERE, hide_possible_values = true)]
        arch: Arch,
        /// The Debian mirror with what builds for another architecture [default: the mirror that this machine's apt uses]
        #[arg(long, value_name = "URL")]
        mirror: Option<String>,
    },
    /// Show what a stage changes in its parent, or what differs between two stages
    Diff {
        /// The stage, such as 03; or two stages; or `mine` and the stage or exercise that you are working on
        #[arg(required = true, num_args = 1..=2, value_name = "STAGE")]
        stages: Vec<String>,
        /// Show unchanged functions, too
        #[arg(long)]
        full: bool,
        /// Print a patch that `patch -p1` applies to a copy of the first stage's folder
        #[arg(long, conflicts_with = "full")]
        patch: bool,
        /// Compare with a solution even if its check has not passed
        #[arg(long)]
        peek: bool,
    },
    /// Work on an exercise: start, check, watch, hint, diff, solution, status
    Exercise {
        #[command(subcommand)]
        command: Exercise,
    },
    /// Make a stage, an example or your working copy a crate of its own, outside of the workbook
    Eject {
        /// The stage, such as 03, or the example, such as bitehist; with --mine, the stage or exercise that you work on
        #[arg(value_name = "STAGE or EXAMPLE")]
        program: String,
        /// What to call it: a new folder here
        name: String,
        /// Take your own working copy of a stage or of an exercise, such as 03.1
        #[arg(long)]
        mine: bool,
    },
    /// Answer questions about a stage, an example or a chapter: what a run will show, and why
    Ask {
        /// The stage, such as 03, the example, such as bitehist, or the chapter, such as load [default: what is due for
        /// review of earlier stages]
        #[arg(value_name = "SUBJECT")]
        subject: Option<String>,
        /// Ask again what you have answered
        #[arg(long, requires = "subject")]
        again: bool,
        /// Take the concept test instead, before or after the course: 15 questions, in about as many minutes
        #[arg(long, value_name = "WHEN", value_parser = ["before", "after"], hide_possible_values = true,
              conflicts_with_all = ["subject", "again"])]
        test: Option<String>,
    },
    /// Cure programs that the kernel refuses: list, show, start, check, hint, solution
    Clinic {
        #[command(subcommand)]
        command: Clinic,
    },
    /// Find out why something is slow: list the cases, or start one
    Mystery {
        #[command(subcommand)]
        command: Mystery,
    },
    /// Run a stage or an example in a guest, with I/O for it to see, until you press Ctrl-C
    Run {
        /// The stage, such as 03, or the example, such as bitehist
        #[arg(value_name = "STAGE or EXAMPLE")]
        program: String,
        /// Run your own working copy of a stage or of an exercise, such as 03.1
        #[arg(long)]
        mine: bool,
        #[command(flatten)]
        boot: Boot,
        /// The I/O to repeat meanwhile: write, sync, read-cold, read-warm, none, or the arguments of `io` in quotes
        /// [default: I/O that fits the program]
        #[arg(long, value_name = "WORKLOAD")]
        io: Option<Workload>,
        /// Arguments for the program, such as -- --lines 10
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Open the workshop: the book, an editor and terminals in one tab of your browser
    Workshop {
        #[command(flatten)]
        options: workshop::Options,
    },
    /// Open a root shell in a guest, with the stages and the workload tool in its PATH
    Shell {
        #[command(flatten)]
        boot: Boot,
    },
    /// Run most stages and three examples briefly, and check what they print against the truth
    Demo {
        #[command(flatten)]
        boot: Boot,
        /// Compile these programs, but don't run them
        #[arg(long)]
        no_run: bool,
    },
    /// Find out whether a tool tells the truth: give it I/O whose numbers are known, and compare what it prints
    Prove {
        #[command(flatten)]
        options: prove::Options,
    },
}

#[derive(Subcommand)]
enum Exercise {
    /// Make a working copy for you to change, in the folder `mine`
    Start {
        /// The exercise, such as 03.1 or bitehist.1; or a stage, such as 03, to write it yourself
        exercise: String,
        /// Discard your working copy and start over; the exercise then no longer counts as done
        #[arg(long)]
        again: bool,
    },
    /// Build your working copy, boot a kernel, and check that the program does what it should
    Check {
        /// The exercise
        exercise: String,
        /// Write the verdict into this file, too, as JSON
        #[arg(long, value_name = "FILE")]
        verdict: Option<PathBuf>,
        #[command(flatten)]
        boot: Boot,
    },
    /// Check your working copy now and whenever you save a file, in a guest that stays up; Ctrl-C ends it
    Watch {
        /// The exercise
        exercise: String,
        #[command(flatten)]
        boot: Boot,
    },
    /// Compile only the BPF program of your working copy
    #[command(hide = true)]
    Compile {
        /// The exercise
        exercise: String,
    },
    /// Show a hint: a question first, then a pointer, then almost the answer
    Hint {
        /// The exercise
        exercise: String,
    },
    /// Show what you have changed since the start
    Diff {
        /// The exercise
        exercise: String,
    },
    /// Show what a solution changes, once your check has passed
    Solution {
        /// The exercise
        exercise: String,
        /// Show it even if the check has not passed
        #[arg(long)]
        peek: bool,
    },
    /// Show all exercises and which ones are done
    Status,
}

#[derive(Subcommand)]
enum Clinic {
    /// List all cases, and how far you are with each
    #[command(alias = "status")]
    List,
    /// Read about a case: the program, what the kernel says, how to read that, and the rule behind it
    Show {
        /// The case, such as 03
        case: String,
        /// The kernel whose log to show [default: the newest that refuses the program]
        #[arg(long, value_parser = MATRIX.map(|series| series.name))]
        kernel: Option<String>,
        /// Show only the program and the log, and find out yourself what is wrong
        #[arg(long)]
        log: bool,
    },
    /// Copy the program into the folder `mine`, where you can cure it
    Start {
        /// The case, such as 03
        case: String,
        /// Discard your working copy and start over
        #[arg(long)]
        again: bool,
    },
    /// Load your program on each kernel of the lab, and check that it counts right there
    Check {
        /// The case, such as 03
        case: String,
        /// Write the verdict into this file, too, as JSON
        #[arg(long, value_name = "FILE")]
        verdict: Option<PathBuf>,
    },
    /// Show the next hint
    Hint {
        /// The case, such as 03
        case: String,
    },
    /// Show our cure
    Solution {
        /// The case, such as 03
        case: String,
        /// Show it even if the check has not passed
        #[arg(long)]
        peek: bool,
    },
}

#[derive(Subcommand)]
enum Mystery {
    /// List the cases, and the causes from which an answer chooses
    List,
    /// Boot a guest in which something is slow, and open a shell there
    Start {
        #[command(flatten)]
        start: mystery::NewCase,
        #[command(flatten)]
        boot: Boot,
    },
}

fn main() -> Result<ExitCode> {
    let lab = Lab::parse();
    if lab.offline {
        fetch::stay_offline();
    }
    run(lab.command).map_err(folders::explain_denied)
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::List => {
            let workbook = Workbook::read()?;
            let examples = list::examples(&workbook.catalog.examples);
            print(&format!("{}\n{examples}", list::stages(workbook.catalog.stages.iter())))
        }
        Command::Doctor { program } => doctor::run(&Workbook::read()?, program.as_deref()),
        Command::Kernels { fetch: None, arch, .. } => print(&list::kernels(arch)?),
        Command::Kernels { fetch: Some(names), mirror, arch } => {
            let series = names.iter().map(|name| Series::of(name)).collect::<Result<Vec<_>>>()?;
            let series = if names.is_empty() { &MATRIX[..] } else { &series };
            series.iter().try_for_each(|series| series.get(arch, mirror.as_deref()).map(drop))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Build { arch, mirror } => {
            signals::install_handlers()?;
            let workbook = cross::for_arch(Workbook::read()?, arch, mirror.as_deref())?;
            workbook.build()?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Eject { program, name, mine } => {
            let workbook = Workbook::read()?;
            if !mine {
                let program = workbook.catalog.program(&program)?;
                return eject::run(&workbook, program, &program.folder, &name);
            }
            let own = exercise::find(&workbook, &program)?;
            eject::run(&workbook, own.program, &own.started(&workbook)?, &name)
        }
        Command::Tools { arch, mirror } => {
            signals::install_handlers()?;
            let workbook = cross::for_arch(Workbook::read()?, arch, mirror.as_deref())?;
            let folder = workbook.target.join("tools");
            let file = folder.join(format!("blkbook-{}", arch.machine()));
            let cannot = || format!("cannot write {}", file.display());
            eprintln!("Compiling blkbook. The first time, this takes a few minutes ...");
            let made = workbook.build_static()?;
            if workbook.cross().is_none() {
                output(std::process::Command::new(&made).arg("--version"))?;
            }
            fs::create_dir_all(&folder).or_cause(cannot())?;
            fs::copy(&made, &file).or_cause(cannot())?;
            print(&format!("{}\n", exercise::shown(&workbook, &file)))
        }
        Command::Diff { stages, full, patch, peek } => {
            let workbook = Workbook::read()?;
            let names: Vec<_> = stages.iter().map(String::as_str).collect();
            let (head, [old, new], lesson) = compare(&workbook, &names, peek)?;
            if patch {
                return print(&diff::patch(&old, &new));
            }
            let files = diff::of_files(&old, &new);
            if full || lesson.is_empty() {
                let extent = if full { Extent::Full } else { Extent::Folded };
                return print(&format!("{head}\n{}", diff::terminal(&files, extent)));
            }
            let Reading { lesson, bookkeeping } = Reading::of(&files, &lesson);
            let mut text = format!("{head}\n{}", diff::terminal(&lesson, Extent::Folded));
            if !bookkeeping.is_empty() {
                let rest = diff::terminal(&bookkeeping, Extent::Folded);
                text += &format!("\nThe bookkeeping: the rest of the change\n{rest}");
            }
            print(&text)
        }
        Command::Exercise { command } => work_on(command),
        Command::Ask { subject, again, test } => {
            let workbook = Workbook::read()?;
            // Its errors are better before something is compiled.
            subject.as_deref().map(|name| ask::check(&workbook, name)).transpose()?;
            let test = test.map(|when| format!("--test={when}"));
            let again = again.then(|| "--again".to_owned());
            ask::become_it(&workbook, [subject, again, test].into_iter().flatten())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Clinic { command } => cure(command),
        Command::Run { program: name, mine, boot, io, arguments } => {
            signals::install_handlers()?;
            let workbook = boot.workbook()?;
            let own = if mine { Some(exercise::find(&workbook, &name)?) } else { None };
            let program = match &own {
                Some(own) => own.program,
                None => workbook.catalog.program(&name)?,
            };
            let here = LocalGuest::find(&workbook, &boot.kernel)?;
            let mut binaries = match (&here, &own) {
                (Some(_), _) => Vec::new(),
                (None, Some(_)) => workbook.build_tools()?,
                (None, None) => workbook.build_only(&[program])?,
            };
            let mut binary = program.binary();
            if let Some(own) = &own {
                binaries.push(exercise::build(&workbook, own)?);
                binary = own.binary();
            }
            let argv = program.argv(&binary, io.as_ref(), &arguments);
            let argv: Vec<_> = argv.iter().map(String::as_str).collect();
            if let Some(here) = here {
                here.announce();
                here.become_program(&argv)?;
            }
            // This machine can't start a program for another architecture.
            if boot.arch == Arch::HERE
                && let Some(built) = binaries.iter().find(|file| file.ends_with(&binary))
                && let Some(status) = options_status(built, &arguments)?
            {
                return Ok(status);
            }
            let mut guest = boot.boot_with(&workbook, binaries)?;
            guest.start(&argv, None)?;
            let status = run_live(&mut guest)?;
            guest.fetch(files::named(&arguments), Path::new("."))?;
            if let Some(error) = ended::by_signal(&binary, status) {
                eprintln!("Error: {error}");
            }
            Ok(code(status))
        }
        Command::Workshop { options } => {
            workshop::open(&Workbook::read()?, &options)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Mystery { command: Mystery::List } => print(&mystery::list()),
        Command::Mystery { command: Mystery::Start { start, boot } } => {
            let argv = start.argv()?;
            in_terminal(&boot, &argv.iter().map(String::as_str).collect::<Vec<_>>())
        }
        Command::Shell { boot } => in_terminal(&boot, &["sh"]),
        Command::Demo { boot, no_run } => {
            signals::install_handlers()?;
            let workbook = boot.workbook()?;
            let programs = demo::programs(&workbook);
            let binaries = workbook.build_only(&programs)?;
            if no_run {
                return Ok(ExitCode::SUCCESS);
            }
            demo::run(&mut boot.boot_with(&workbook, binaries)?, &programs)
        }
        Command::Prove { options } => {
            signals::install_handlers()?;
            prove::run(&options)
        }
    }
}

/// Boots a guest with all programs, and runs one of them in this terminal.
fn in_terminal(boot: &Boot, argv: &[&str]) -> Result<ExitCode> {
    signals::install_handlers()?;
    let workbook = boot.workbook()?;
    if let Some(here) = LocalGuest::find(&workbook, &boot.kernel)? {
        here.become_program(argv)?;
    }
    let bpftool = BPFTOOL.find().ok().filter(|_| boot.arch == Arch::HERE);
    let binaries = workbook.build()?.into_iter().chain(bpftool).collect();
    let mut guest = boot.boot_with(&workbook, binaries)?;
    let raw = terminal::Raw::new()?;
    guest.start(argv, Some(terminal::for_guest()))?;
    terminal::pass_keys(guest.line());
    let status = run_live(&mut guest);
    drop(raw);
    status.map(code)
}

/// A line that names the two sides of a comparison, their files, and the items whose change is the lesson; none if that is
/// not known.
fn compare<'a>(
    workbook: &'a Workbook,
    names: &[&str],
    peek: bool,
) -> Result<(String, [Files; 2], Vec<&'a str>)> {
    if let ["mine", name] = names {
        let own = exercise::find(workbook, name)?;
        let mine = exercise::working_copy(workbook, &own)?;
        let ours = exercise::our_solution(workbook, &own, peek, "diff mine")?;
        let head = format!("From your {} to ours", own.id());
        return Ok((head, [mine, ours], Vec::new()));
    }
    if names == ["mine"] {
        return Err(Error::new("the name of the exercise is missing")
            .evidence("each exercise has its own working copy in the folder mine")
            .fix("name one: cargo lab diff mine 03.1; list them all: cargo lab exercise status"));
    }
    let new = workbook.catalog.stage(names.last().unwrap_or(&""))?;
    let old =
        if names.len() > 1 { workbook.catalog.stage(names[0])? } else { workbook.catalog.parent(new)? };
    let head = diff::head(old, new);
    let lesson = workbook.catalog.lesson(old, new);
    Ok((head, [copies::files(old)?, copies::files(new)?], lesson))
}

/// The exit status of a program that ends without tracing because it only prints its help or rejects its options. We
/// start it on this machine, so the reader doesn't wait for a kernel to boot; see [`common::CHECK_OPTIONS`].
fn options_status(binary: &Path, arguments: &[String]) -> Result<Option<ExitCode>> {
    // Without arguments of the reader, the program gets ours, and those are valid.
    if arguments.is_empty() {
        return Ok(None);
    }
    let status = std::process::Command::new(binary).args(arguments).env(common::CHECK_OPTIONS, "1").status();
    let status = exit_code(status.or_cause(format!("cannot start {}", binary.display()))?);
    Ok(if status == common::OPTIONS_ARE_VALID { None } else { Some(status.into()) })
}

fn work_on(command: Exercise) -> Result<ExitCode> {
    let workbook = match &command {
        Exercise::Check { boot, .. } | Exercise::Watch { boot, .. } => boot.workbook()?,
        _ => Workbook::read()?,
    };
    let find = |name: &str| exercise::find(&workbook, name);
    match command {
        Exercise::Start { exercise, again } => print(&exercise::start(&workbook, &find(&exercise)?, again)?),
        Exercise::Check { exercise, verdict, boot } => {
            let exercise = find(&exercise)?;
            signals::install_handlers()?;
            let binary = exercise::build(&workbook, &exercise)?;
            let mut guest = guest(&workbook, &boot, Some(binary))?;
            let found = exercise::check(&workbook, &exercise, &mut *guest)?;
            exercise::deliver(&exercise, &found, verdict.as_deref())
        }
        Exercise::Watch { exercise, boot } => {
            let exercise = find(&exercise)?;
            exercise.started(&workbook)?;
            signals::install_handlers()?;
            exercise::watch(&workbook, &exercise, &mut *guest(&workbook, &boot, None)?)?;
            Ok(ExitCode::SUCCESS)
        }
        Exercise::Compile { exercise } => {
            match exercise.strip_prefix(clinic::ID) {
                Some(case) => clinic::compile(&workbook, &clinic::find(&workbook, case)?)?,
                None => exercise::compile(&workbook, &find(&exercise)?)?,
            }
            Ok(ExitCode::SUCCESS)
        }
        Exercise::Hint { exercise } => {
            print(&exercise::next_hint(&workbook, &find(&exercise)?, terminal::columns())?)
        }
        Exercise::Diff { exercise } => print(&exercise::changes_shown(&workbook, &find(&exercise)?)?),
        Exercise::Solution { exercise, peek } => {
            print(&exercise::solution(&workbook, &find(&exercise)?, peek)?)
        }
        Exercise::Status => print(&exercise::status(&workbook)?),
    }
}

/// A guest for the check of a program: this one in the workshop, or else one that has the program.
fn guest(workbook: &Workbook, boot: &Boot, program: Option<PathBuf>) -> Result<Box<dyn Executor>> {
    if let Some(here) = LocalGuest::find(workbook, &boot.kernel)? {
        here.announce();
        return Ok(Box::new(here));
    }
    let binaries = workbook.build_tools()?.into_iter().chain(program).collect();
    Ok(Box::new(boot.boot_with(workbook, binaries)?))
}

fn cure(command: Clinic) -> Result<ExitCode> {
    let workbook = Workbook::read()?;
    let find = |number: &str| clinic::find(&workbook, number);
    match command {
        Clinic::List => print(&clinic::list(&workbook)?),
        Clinic::Show { case, kernel, log } => {
            print(&clinic::show(&workbook, &find(&case)?, kernel.as_deref(), log, terminal::columns())?)
        }
        Clinic::Start { case, again } => print(&clinic::start(&workbook, &find(&case)?, again)?),
        Clinic::Hint { case } => print(&clinic::hint(&workbook, &find(&case)?, terminal::columns())?),
        Clinic::Solution { case, peek } => print(&clinic::solution(&workbook, &find(&case)?, peek)?),
        Clinic::Check { case, verdict } => {
            signals::install_handlers()?;
            let case = find(&case)?;
            let found = clinic::check(&workbook, &case)?;
            clinic::deliver(&case, &found, verdict.as_deref())
        }
    }
}

/// Waits for the program that was started, as if it ran here: we print its output as it comes, pass Ctrl-C on to it,
/// and end with its exit status.
fn run_live(guest: &mut Vm) -> Result<i32> {
    let line = guest.line();
    signals::pass_to(line.clone());
    let mut unread = false;
    guest.finish(None, |stream, bytes| {
        let written = match stream {
            Stream::Stdout if unread => Ok(()),
            Stream::Stdout => std::io::stdout().write_all(bytes).and_then(|()| std::io::stdout().flush()),
            Stream::Stderr => std::io::stderr().write_all(bytes),
        };
        match written {
            Ok(()) => Ok(()),
            // The reader has gone away, as `head -3` does. Signal the program, as the kernel would.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                unread = true;
                line.send(&ToGuest::Signal(Signal::SIGTERM as i32))
            }
            Err(error) => Err(error).or_cause("cannot print what the guest prints"),
        }
    })
}

fn code(status: i32) -> ExitCode {
    ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX))
}
