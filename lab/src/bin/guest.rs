//! The guest's first process: mounts what every system has, then runs what the lab asks for. As `guest observe` it
//! runs a stage together with a workload.

#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use common::traced::exit_code;
use common::{Error, OrCause, Result};
use lab::files::{self, FOLDER};
use lab::guest::{
    ENVIRONMENT, FS_DEVICE, FS_DISK, FS_MOUNT, PART_DEVICE, PART_DISK, RAW_DEVICE, RAW_DISK, mount_fs,
};
use lab::protocol::{ALIVE_EVERY, FromGuest, Size, Terminal, ToGuest, receive, send};
use lab::workload::Workload;
use lab::{demo, kit, observe};
use nix::mount::{MsFlags, mount};
use nix::pty::openpty;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::termios::{self, SetArg};
use nix::unistd::Pid;
use rustix::termios::{Winsize, tcsetwinsize};

/// What the lab starts in the guest besides the stages themselves.
#[derive(Parser)]
enum Guest {
    /// Run a program and, from the moment its probes are attached, a workload beside it
    Beside {
        /// A name, or the arguments of `io`.
        #[arg(long)]
        io: Workload,
        /// The program and its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        argv: Vec<String>,
    },
    /// Print how many KiB of memory a stage takes while it runs, and at most
    Memory {
        /// Its binary.
        stage: String,
    },
    /// Print how many ns it takes to name a stack, and to read, parse and sort kallsyms
    Symbols,
    /// Print what our programs and well-known tools say of the same I/O
    Peers {
        /// What to compare.
        what: String,
    },
    /// Print what this kernel says of the tutorial's probe points
    Drift,
    /// Run a stage or an example for a moment and check what it prints; in a room kit's guest all of them, if none is named
    Demo {
        /// Its name, such as 03 or bitehist.
        program: Option<String>,
    },
    /// In a room kit's guest: run a stage or an example, with I/O for it to see, until Ctrl-C
    Run {
        /// The stage, such as 03, or the example, such as bitehist
        #[arg(value_name = "STAGE or EXAMPLE")]
        program: String,
        /// The I/O beside it, again and again: write, sync, read-cold, read-warm, none, or the arguments of
        /// `io` in quotes [default: what the program is about]
        #[arg(long, value_name = "WORKLOAD")]
        io: Option<Workload>,
        /// Arguments of the program, such as -- --lines 10
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// In a room kit's guest: run a program as the first process of its session
    Session {
        /// The program and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        argv: Vec<String>,
    },
    /// Run the check of an exercise
    Check {
        /// The exercise, such as 03.1, or a stage.
        exercise: String,
        /// The learner's program.
        binary: String,
    },
}

fn main() -> ExitCode {
    let result = if std::process::id() == 1 { init() } else { start(Guest::parse()) };
    result.unwrap_or_else(|error| {
        eprintln!("Error: {error}");
        ExitCode::FAILURE
    })
}

fn start(guest: Guest) -> Result<ExitCode> {
    match guest {
        Guest::Beside { io, argv } => {
            // Ctrl-C is for the program. It ends, and so do we.
            [Signal::SIGINT, Signal::SIGTERM]
                .into_iter()
                .collect::<SigSet>()
                .thread_block()
                .or_cause("cannot block signals")?;
            Ok(exit_code(observe::beside(&argv, &io)?).into())
        }
        Guest::Memory { stage } => {
            let [running, most] = lab::bench::memory(&stage)?;
            println!("{running} {most}");
            Ok(ExitCode::SUCCESS)
        }
        Guest::Symbols => {
            let [ours, floor] = lab::bench::symbols()?;
            println!("{ours} {floor}");
            Ok(ExitCode::SUCCESS)
        }
        Guest::Peers { what } => {
            lab::peers::compare(&what)?.iter().for_each(|line| println!("{line}"));
            Ok(ExitCode::SUCCESS)
        }
        Guest::Drift => {
            lab::drift::measure()?.iter().for_each(|row| println!("{}", row.join("\t")));
            Ok(ExitCode::SUCCESS)
        }
        Guest::Demo { program } => {
            program.map_or_else(kit::demo, |name| demo::one(&name)).map(|()| ExitCode::SUCCESS)
        }
        Guest::Session { argv } => Ok(exit_code(kit::lead(&argv)?).into()),
        Guest::Run { program, io, arguments } => {
            let argv = kit::argv(&program, io.as_ref(), &arguments)?;
            Err(Command::new(&argv[0]).args(&argv[1..]).exec()).or_cause(format!("cannot start {}", argv[0]))
        }
        Guest::Check { exercise, binary } => {
            println!("{}", lab::check::run(&exercise, &binary)?);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The line to the lab: the second serial port. The kernel's console is the first one.
const LINE: &str = "/dev/ttyS1";

fn init() -> Result<ExitCode> {
    for (kind, place) in [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("devtmpfs", "/dev"),
        ("devpts", "/dev/pts"),
        ("tracefs", "/sys/kernel/tracing"),
        ("securityfs", "/sys/kernel/security"),
        ("tmpfs", "/tmp"),
    ] {
        let _ = fs::create_dir_all(place);
        // A kernel without one of them is a lesson of its own: the stage that needs it says so.
        if let Err(error) = mount(Some(kind), place, Some(kind), MsFlags::empty(), None::<&str>) {
            eprintln!("lab: mount {place}: {error}");
        }
    }
    let _ = fs::write("/proc/sys/kernel/hostname", "lab");
    match kit::Request::read() {
        Some(request) => kit::serve(&request, disks(true))?,
        None => serve(disks(false).err().map(|error| error.to_string()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// How long a disk may take to answer: less than a second as a rule, longer on a machine that is busy.
const DISK_LIMIT: Duration = Duration::from_secs(300);

/// Waits for the disks, gives them names and mounts the one with the file system. Empty ones are made first what they are to be.
fn disks(are_empty: bool) -> Result<()> {
    // A driver that is built in is there before the first process.
    if !Path::new("/sys/bus/pci/drivers/nvme").exists() {
        return Err(Error::new("this kernel has no driver for NVMe disks"));
    }
    // The kernel names NVMe disks in the order in which they answer, so only the serial tells them apart.
    let deadline = Instant::now() + DISK_LIMIT;
    for (serial, part, link) in
        [(FS_DISK, "", FS_DEVICE), (RAW_DISK, "", RAW_DEVICE), (PART_DISK, "p1", PART_DEVICE)]
    {
        let mut is_empty = are_empty && serial != RAW_DISK;
        loop {
            if is_empty && let Some(disk) = disk_with(serial, "") {
                kit::make_disk(&disk, serial == FS_DISK)?;
                is_empty = false;
            }
            if !is_empty && let Some(device) = disk_with(serial, part) {
                symlink(device, link).or_cause(format!("cannot name {link}"))?;
                break;
            }
            if Instant::now() > deadline {
                let limit = DISK_LIMIT.as_secs();
                return Err(Error::new(format!("the disk {serial} did not appear within {limit} s")));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
    fs::create_dir_all(FS_MOUNT).or_cause("cannot make the mount point")?;
    mount_fs()
}

fn disk_with(serial: &str, part: &str) -> Option<std::path::PathBuf> {
    let disks = fs::read_dir("/sys/block").ok()?.flatten();
    let disk = disks.map(|disk| disk.file_name()).find(|disk| {
        let file = Path::new("/sys/block").join(disk).join("device/serial");
        fs::read_to_string(file).is_ok_and(|found| found.trim() == serial)
    })?;
    let device = Path::new("/dev").join(format!("{}{part}", disk.to_str()?));
    device.exists().then_some(device)
}

type Line = Arc<Mutex<File>>;

fn tell(line: &Line, message: &FromGuest) {
    // Nobody can be told that the line to the lab is broken.
    if let Ok(mut line) = line.lock() {
        let _ = send(&mut *line, message);
    }
}

/// Runs what the lab asks for, until it ends the guest.
fn serve(complaint: Option<String>) -> Result<()> {
    let mut input =
        OpenOptions::new().read(true).write(true).open(LINE).or_cause(format!("cannot open {LINE}"))?;
    let mut raw = termios::tcgetattr(&input).or_cause("cannot read the line's settings")?;
    termios::cfmakeraw(&mut raw);
    termios::tcsetattr(&input, SetArg::TCSANOW, &raw).or_cause("cannot set the line to raw")?;
    let line: Line = Arc::new(Mutex::new(input.try_clone().or_cause("cannot share the line")?));

    tell(&line, &FromGuest::Ready { release: common::preflight::release(), complaint });
    let pulse = line.clone();
    thread::spawn(move || {
        loop {
            thread::sleep(ALIVE_EVERY);
            tell(&pulse, &FromGuest::Alive);
        }
    });

    let mut program: Option<Program> = None;
    while let Some(message) = receive(&mut input).or_cause("cannot read from the lab")? {
        let done = match message {
            ToGuest::Run { argv, terminal } => {
                Program::start(&argv, terminal, &line).map(|started| program = Some(started))
            }
            ToGuest::Input(bytes) => program.as_mut().map_or(Ok(()), |program| program.input(&bytes)),
            ToGuest::Signal(number) => program.as_ref().map_or(Ok(()), |program| program.signal(number)),
            ToGuest::Fetch(names) => {
                files::pack(&names, |file| tell(&line, &file)).map(|()| tell(&line, &FromGuest::Fetched))
            }
            ToGuest::Resize(size) => program.as_ref().map_or(Ok(()), |program| program.resize(size)),
        };
        if let Err(error) = done {
            tell(&line, &FromGuest::Failed(error.to_string()));
        }
    }
    Ok(())
}

/// The program that runs, as far as the lab can reach it.
struct Program {
    session: Pid,
    /// Our end of its terminal, if it has one.
    terminal: Option<File>,
}

impl Program {
    fn start(argv: &[String], terminal: Option<Terminal>, line: &Line) -> Result<Self> {
        let [name, args @ ..] = argv else { return Err(Error::new("no program was named")) };
        // A session of its own; with -c the terminal is the session's, so that Ctrl-C and job control work in it.
        let mut command = Command::new("setsid");
        if terminal.is_some() {
            command.arg("-c");
        }
        command.arg(name);
        command.args(args).current_dir(FOLDER).env_clear();
        command.envs(ENVIRONMENT);

        let mut master = None;
        if let Some(terminal) = terminal {
            let pty = openpty(None, None).or_cause("cannot make a terminal")?;
            tcsetwinsize(&pty.master, winsize(terminal.size)).or_cause("cannot size the terminal")?;
            let copy = |fd: &OwnedFd| fd.try_clone().or_cause("cannot share the terminal");
            command.env("TERM", terminal.kind).env("ENV", "/root/.profile");
            command.stdin(copy(&pty.slave)?).stdout(copy(&pty.slave)?).stderr(pty.slave);
            master = Some(File::from(pty.master));
        } else {
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let mut child = command.spawn().map_err(|error| {
            Error::new(format!("the guest cannot start {name}"))
                .evidence(error)
                .fix("see what it has: ls /bin")
        })?;
        // Closes our copies of the terminal's other end, so that reading ours ends when the program does.
        drop(command);

        let session = Pid::from_raw(child.id() as i32);
        let mut readers = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            readers.push(forward(stdout, line, FromGuest::Stdout));
        }
        if let Some(stderr) = child.stderr.take() {
            readers.push(forward(stderr, line, FromGuest::Stderr));
        }
        if let Some(master) = &master {
            let master = master.try_clone().or_cause("cannot share the terminal")?;
            readers.push(forward(master, line, FromGuest::Stdout));
        }
        let line = line.clone();
        thread::spawn(move || {
            let status = finish(&mut child, readers);
            tell(&line, &FromGuest::Exit(status));
        });
        Ok(Self { session, terminal: master })
    }

    fn input(&mut self, bytes: &[u8]) -> Result<()> {
        self.terminal
            .as_mut()
            .map_or(Ok(()), |terminal| terminal.write_all(bytes))
            .or_cause("cannot pass on the input")
    }

    fn signal(&self, number: i32) -> Result<()> {
        let signal = Signal::try_from(number).or_cause("no such signal")?;
        // A program that has just been started may not have its session yet. If neither is there, it has just ended,
        // and its exit is on the way to the lab.
        let _ = killpg(self.session, signal).or_else(|_| kill(self.session, signal));
        Ok(())
    }

    fn resize(&self, size: Size) -> Result<()> {
        let Some(terminal) = &self.terminal else { return Ok(()) };
        tcsetwinsize(terminal, winsize(size)).or_cause("cannot resize the terminal")
    }
}

fn winsize(size: Size) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Sends all that can be read from `source` to the lab.
fn forward(
    mut source: impl Read + Send + 'static,
    line: &Line,
    message: fn(Vec<u8>) -> FromGuest,
) -> thread::JoinHandle<()> {
    let line = line.clone();
    thread::spawn(move || {
        let mut chunk = vec![0; 16 * 1024];
        loop {
            match source.read(&mut chunk) {
                Ok(read) if read > 0 => tell(&line, &message(chunk[..read].to_vec())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A terminal whose other end is closed answers with an error instead of an end.
                _ => break,
            }
        }
    })
}

/// Waits until the program ended and all that it printed was sent.
fn finish(child: &mut Child, readers: Vec<thread::JoinHandle<()>>) -> i32 {
    let status = child.wait().unwrap_or(ExitStatus::from_raw(255 << 8));
    // What it left in the background would hold its output open. To the first process, -1 is everybody else.
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    for reader in readers {
        let _ = reader.join();
    }
    exit_code(status).into()
}
