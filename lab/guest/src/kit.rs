//! In the guest of a room kit: reads the launcher's request from the kernel's command line, and runs the consoles.
//! The launcher is `lab/class/kit/lab`.
//!
//! None of our programs is on the host, so [`wire::protocol`] is not used here. What the user types and sees
//! goes over serial ports as it is.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::kernel::NO_FENTRY;
use common::report::print_text;
use common::traced::exit_code;
use common::{Error, OrCause, Result};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::termios::{self, BaudRate, LocalFlags, OutputFlags, SetArg};
use nix::unistd::Pid;
use rustix::termios::{Winsize, tcsetwinsize};
use wire::catalog::{Catalog, Program};
use wire::command::output;
use wire::disks::partition_table;
use wire::kit::{FILE_SYSTEM, WORKBOOK, write_blocks};
use wire::protocol::NOT_HERE;
use wire::workload::Workload;

use crate::running::{Running, io};
use crate::system::ENVIRONMENT;
use crate::workshop;

/// The launcher's ports, in the order of its command line. The kernel's console comes first; on arm64, it is of another
/// kind, with another name. Debian's kernels for arm64 have no more than four besides (`CONFIG_SERIAL_8250_NR_UARTS`).
const PORTS: [&str; 4] = if cfg!(target_arch = "aarch64") {
    ["/dev/ttyS0", "/dev/ttyS1", "/dev/ttyS2", "/dev/ttyS3"]
} else {
    ["/dev/ttyS1", "/dev/ttyS2", "/dev/ttyS3", "/dev/ttyS4"]
};
/// The first console.
const FIRST: &str = PORTS[0];
/// The second console, for `./lab attach`.
const SECOND: &str = PORTS[1];
/// The port on which we report `ready RELEASE`, `exit STATUS`, or `failed WHY` to the launcher.
const STATUS: &str = PORTS[2];
/// Where a program's stderr goes if the launcher wants it separate from stdout.
const STDERR: &str = PORTS[3];
/// The port on which the launcher sends `CONSOLE ROWS COLUMNS` when a window has a new size: the other direction of that
/// port.
const SIZES: &str = STDERR;

/// The command that becomes the workshop's server.
const WORKSHOP: &str = "workshop";

/// A file that the shell's `poweroff` makes before it ends all programs (`lab/class/kit/profile`).
const POWEROFF: &str = "/tmp/poweroff";
/// Set when the machine is about to end.
static ENDS: AtomicBool = AtomicBool::new(false);

/// The launcher's request, in words of the kernel's command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `lab.argv`: `shell`, or the arguments of `guest`, separated by commas. Blanks, quotes, commas and percent
    /// signs are encoded as `%` and two hexadecimal digits.
    argv: Vec<String>,
    /// `lab.term`: the type of the user's terminal and its size, as `xterm,24,80`.
    terminal: String,
    /// `lab.stderr`: whether to keep stdout and stderr separate.
    apart: bool,
}

impl Request {
    /// The request for which this guest was booted; `None` if no launcher booted it.
    pub fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/cmdline").ok()?)
    }

    fn parse(command_line: &str) -> Option<Self> {
        let value = |name: &str| {
            command_line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        };
        Some(Self {
            // The Windows launcher turns each blank into a comma.
            argv: value("lab.argv")?.split(',').filter(|word| !word.is_empty()).map(decode).collect(),
            terminal: value("lab.term").unwrap_or("dumb,24,80").to_owned(),
            apart: value("lab.stderr").is_some(),
        })
    }
}

/// Reverses the launcher's `encode`.
fn decode(word: &str) -> String {
    let mut parts = word.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(&part.as_bytes()[2..]);
            }
            None => bytes.extend(format!("%{part}").as_bytes()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Fills an empty disk like the lab's, because the launcher has no mke2fs, and the kit has no space for whole disks.
pub fn make_disk(device: &Path, is_fs: bool) -> Result<()> {
    let cannot = || format!("cannot write {}", device.display());
    if is_fs {
        let blocks = fs::read(Path::new("/").join(FILE_SYSTEM)).or_cause("this guest is of no room kit")?;
        let disk = OpenOptions::new().write(true).open(device).or_cause(cannot())?;
        return write_blocks(&blocks, &disk).or_cause(cannot());
    }
    let disk = device.file_name().unwrap_or_default();
    let sectors = fs::read_to_string(Path::new("/sys/block").join(disk).join("size"));
    let sectors: u64 = sectors.ok().and_then(|text| text.trim().parse().ok()).unwrap_or_default();
    fs::write(device, partition_table(sectors * 512)).or_cause(cannot())?;
    output(Command::new("blockdev").arg("--rereadpt").arg(device)).map(drop)
}

/// Runs the requested program, reports its end to the launcher, and ends the machine.
pub fn serve(request: &Request, disks: Result<()>) -> Result<()> {
    let mut status = open(STATUS)?;
    raw(&status)?;
    let ended = match disks.and_then(|()| run(request, &mut status)) {
        Ok(ended) => format!("exit {}", exit_code(ended)),
        Err(error) => format!("failed {}", error.to_string().replace('\n', "\nfailed ")),
    };
    writeln!(status, "{ended}").or_cause("cannot report to the launcher")?;
    termios::tcdrain(&status).or_cause("cannot report to the launcher")?;
    // QEMU ends when its machine restarts.
    output(Command::new("reboot").arg("-f"))?;
    loop {
        thread::park();
    }
}

fn run(request: &Request, status: &mut File) -> Result<ExitStatus> {
    let is_shell = request.argv == ["shell"];
    let is_workshop = request.argv.first().is_some_and(|word| word == WORKSHOP);
    let mut command = if is_shell { session(&["sh"]) } else { session(&["guest"]) };
    if !is_shell {
        command.args(&request.argv);
    }
    let kind = size(&open(FIRST)?, &request.terminal)?;
    console(FIRST, kind, is_shell, &mut command)?;
    if request.apart {
        let stderr = open(STDERR)?;
        raw(&stderr)?;
        command.stderr(stderr);
    }
    // The Windows launcher has none.
    if let Ok(port) = open(SIZES)
        && raw(&port).is_ok()
    {
        thread::spawn(|| resize(port));
    }
    // From here on, no typed key is lost.
    writeln!(status, "ready {}", common::preflight::release()).or_cause("cannot report to the launcher")?;
    // Only a shell has a second one.
    if !is_workshop {
        thread::spawn(second_console);
    }
    let ended = command.status().or_cause("cannot start it");
    ENDS.store(true, Ordering::Relaxed);
    // Background processes that it left would continue to print. For the first process, -1 means everybody else.
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    if request.apart {
        termios::tcdrain(open(STDERR)?).or_cause("cannot write the rest of stderr")?;
    }
    ended
}

/// A program in its own session, with stdin as its terminal, so Ctrl-C and job control work in it.
fn session(argv: &[&str]) -> Command {
    let mut command = Command::new("setsid");
    command.args(["-c", "guest", "session"]).args(argv);
    command
}

/// As the first process of a session, runs a program and waits until the terminal has printed everything. When the
/// first process ends, the kernel discards what is not printed yet.
pub fn lead_session(argv: &[String]) -> Result<ExitStatus> {
    let child = Command::new(&argv[0]).args(&argv[1..]).spawn();
    // These signals are for the program. We block them after we start it, because it would inherit the block. When it
    // ends, so do we.
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGQUIT, Signal::SIGTSTP, Signal::SIGTTOU]
        .into_iter()
        .collect::<SigSet>()
        .thread_block()
        .or_cause("cannot block signals")?;
    let status = child.and_then(|mut child| child.wait());
    let _ = termios::tcdrain(std::io::stdout());
    status.or_cause(format!("cannot start {}", argv[0]))
}

/// The second console: starts a shell as soon as somebody attaches, and another one when that ends. The first line has
/// the type and the size of the terminal. The guest can't see when somebody leaves. Errors end the console silently.
fn second_console() {
    // Stays open, so it keeps its size from shell to shell.
    let Ok(port) = open(SECOND) else { return };
    let mut terminal = String::new();
    if quiet(&port).is_err() || BufReader::new(&port).read_line(&mut terminal).is_err() {
        return;
    }
    let Ok(kind) = size(&port, terminal.trim()) else { return };
    loop {
        let mut shell = session(&["sh"]);
        let ended = console(SECOND, kind, true, &mut shell).and_then(|()| shell.status().or_cause("none"));
        if ended.is_err() || ENDS.load(Ordering::Relaxed) || Path::new(POWEROFF).exists() {
            return;
        }
    }
}

/// Sets the consoles' sizes as the launcher requests. The kernel then notifies the programs.
fn resize(port: File) {
    for line in BufReader::new(port).lines().map_while(Result::ok) {
        let numbers: Vec<u16> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        if let [console @ 1..=2, rows, columns] = numbers[..]
            && let Ok(port) = open(if console == 1 { FIRST } else { SECOND })
        {
            // If this fails, the console keeps its old size.
            let _ = tcsetwinsize(&port, winsize(rows, columns));
        }
    }
}

fn winsize(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Gives a serial port the size of the user's terminal, and returns the terminal's type.
fn size<'a>(port: &File, terminal: &'a str) -> Result<&'a str> {
    let mut words = terminal.split(',');
    let kind = words.next().unwrap_or("dumb");
    let mut number = |otherwise| words.next().and_then(|word| word.parse().ok()).unwrap_or(otherwise);
    tcsetwinsize(port, winsize(number(24), number(80))).or_cause("cannot size the terminal")?;
    Ok(kind)
}

/// Makes a serial port the terminal of a command.
fn console(path: &str, kind: &str, is_shell: bool, command: &mut Command) -> Result<()> {
    let port = open(path)?;
    // A program's output goes to the host unchanged.
    if is_shell {
        cooked(&port)?
    } else {
        quiet(&port)?
    }
    let copy = || port.try_clone().or_cause("cannot share the terminal");
    command.stdin(copy()?).stdout(copy()?).stderr(copy()?);
    command.current_dir("/root").env_clear().envs(ENVIRONMENT).env("TERM", kind);
    command.env("ENV", "/root/.profile").env("LAB_CONSOLE", if path == FIRST { "1" } else { "2" });
    Ok(())
}

fn open(port: &str) -> Result<File> {
    OpenOptions::new().read(true).write(true).open(port).or_cause(format!("cannot open {port}"))
}

fn set(port: &File, change: impl FnOnce(&mut termios::Termios)) -> Result<()> {
    let cannot = "cannot set a serial port";
    let mut settings = termios::tcgetattr(port).or_cause(cannot)?;
    termios::cfsetspeed(&mut settings, BaudRate::B115200).or_cause(cannot)?;
    change(&mut settings);
    termios::tcsetattr(port, SetArg::TCSANOW, &settings).or_cause(cannot)
}

/// Passes bytes unchanged.
fn raw(port: &File) -> Result<()> {
    set(port, termios::cfmakeraw)
}

/// Behaves like a terminal: echoes what is typed, and begins each line at the left.
fn cooked(port: &File) -> Result<()> {
    set(port, |settings| {
        settings.local_flags.insert(LocalFlags::ECHO);
        settings.output_flags.insert(OutputFlags::OPOST);
    })
}

/// Like that, but echoes nothing, and passes the output's bytes unchanged. Ctrl-C still sends a signal.
fn quiet(port: &File) -> Result<()> {
    set(port, |settings| {
        settings.local_flags.remove(LocalFlags::ECHO);
        settings.output_flags.remove(OutputFlags::OPOST);
    })
}

/// The stages and examples of the kit.
fn catalog() -> Result<Catalog> {
    let text = fs::read(Path::new("/").join(WORKBOOK)).or_cause("this guest is of no room kit")?;
    serde_json::from_slice(&text).or_cause(format!("{WORKBOOK} is damaged"))
}

/// Becomes the workshop's server. Returns only if it can't.
pub fn workshop(port: u16, options: &[String]) -> Result<()> {
    workshop::serve(port, STATUS, options)
}

/// The command that runs a stage or an example, with I/O for it to see.
pub fn argv(name: &str, io: Option<&Workload>, arguments: &[String]) -> Result<Vec<String>> {
    let catalog = catalog()?;
    let program = catalog.program(name).map_err(|error| {
        let known: Vec<_> = catalog.programs().map(Program::name).collect();
        Error::new(error.cause()).evidence(format!("there are {}", known.join(", "))).fix("name one of these")
    })?;
    Ok(program.argv(&program.binary(), io, arguments))
}

/// Runs every stage briefly and checks what it prints against the truth; also runs every example, which must succeed.
pub fn demo() -> Result<()> {
    let catalog = catalog()?;
    let (mut bad, mut others) = (Vec::new(), 0);
    for stage in &catalog.stages {
        print_text(format_args!("\nStage {}: {}", stage.name(), stage.title))?;
        let status = Command::new("guest").args(["demo", &stage.name()]).status();
        match status.or_cause("cannot start the demo")?.code() {
            Some(0) => {}
            Some(code) if code == i32::from(NOT_HERE) => others += 1,
            _ => bad.push(stage.binary()),
        }
    }
    for example in &catalog.examples {
        print_text(format_args!("\nExample {}: {}", example.name(), example.title))?;
        match run_briefly(example) {
            Ok(0) => {
                eprintln!("Error: it printed nothing");
                bad.push(example.name());
            }
            Ok(lines) => print_text(format_args!("  It printed {lines} lines, and ended well."))?,
            Err(error) if error.to_string().contains(NO_FENTRY) => {
                print_text(format_args!("  Not on this kernel: {NO_FENTRY}."))?;
                others += 1;
            }
            Err(error) => {
                eprintln!("Error: {error}");
                bad.push(example.name());
            }
        }
    }
    if others > 0 {
        print_text(format_args!(
            "\n{others} programs can't run on this kernel. ./lab --help lists the kernels of this kit."
        ))?;
    }
    if bad.is_empty() {
        print_text("\nTo run one yourself: ./lab run 01")?;
        return Ok(());
    }
    Err(Error::new(format!("these failed: {}", bad.join(", "))).evidence("see their errors above"))
}

/// Runs an example beside a few writes, with the command that it observes, or alone. Returns the number of lines that
/// it printed.
fn run_briefly(example: &impl Program) -> Result<usize> {
    let binary = example.binary();
    let (own_io, command) = example.beside();
    let command = command.iter().flat_map(|command| ["--"].into_iter().chain(command.split(' ')));
    let argv: Vec<_> = std::iter::once(&*binary).chain(command).collect();
    let mut start = Command::new(&binary);
    // An example with nothing beside it does its own I/O, and attaches nothing.
    if (own_io, argv.len()) == (Some("none"), 1) {
        let seen = output(&mut start)?;
        return Ok(String::from_utf8_lossy(&seen.stdout).lines().count());
    }
    let running = Running::spawn(start.args(&argv[1..]).stdin(Stdio::null()).stdout(Stdio::piped()))?;
    let seen = if argv.len() > 1 {
        running.wait()?
    } else {
        io(&["write", "/mnt/demo", "--count", "4"])?;
        running.end(Signal::SIGINT)?
    };
    if !seen.status.success() {
        return Err(Error::new(format!("{binary} failed: {}", seen.status)).evidence(seen.stderr));
    }
    Ok(seen.stdout.lines().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_launcher_asks_for_is_understood() {
        let line = "console=ttyS0 panic=-1 lab.argv=run,03,--io,write%20--count%204%20/dev/scratch,100%25 \
                    lab.term=xterm,50,132 lab.stderr=apart\n";
        let request = Request::parse(line).unwrap();
        assert_eq!(request.argv, ["run", "03", "--io", "write --count 4 /dev/scratch", "100%"]);
        assert_eq!((&*request.terminal, request.apart), ("xterm,50,132", true));
        assert_eq!(Request::parse("lab.argv=run,,03,").unwrap().argv, ["run", "03"]);
        let plain = Request::parse("lab.argv=shell").unwrap();
        assert_eq!((&*plain.terminal, plain.apart), ("dumb,24,80", false));
        assert_eq!(Request::parse("console=ttyS0 panic=-1"), None);
    }

    #[test]
    fn words_are_decoded_whatever_they_hold() {
        for (word, text) in
            [("a%2Cb%22", "a,b\""), ("%C3%A9%20", "é "), ("100%", "100%"), ("%zz", "%zz"), ("%é", "%é")]
        {
            assert_eq!(decode(word), text);
        }
    }
}
