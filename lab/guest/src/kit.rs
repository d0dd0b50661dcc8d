//! In the guest of a room kit: runs one command on the console, which is the user's terminal. The launcher is
//! `lab/class/kit/lab`.
//!
//! None of our programs is on the host, so [`wire::protocol`] is not used here.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::thread;

use common::report::print_text;
use common::traced::exit_code;
use common::{Error, OrCause, Result};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios;
use nix::unistd::Pid;
use wire::catalog::Catalog;
use wire::command::output;
use wire::disks::partition_table;
use wire::kit::{FILE_SYSTEM, ROOT, WORKBOOK, write_blocks};

use crate::system::{ENVIRONMENT, LINE};
use crate::{checks, demo};

/// The user's terminal: the first serial port.
const CONSOLE: &str = if cfg!(target_arch = "aarch64") { "/dev/ttyAMA0" } else { "/dev/ttyS0" };

/// Where the compilers are, besides the guest's other programs.
const COMPILERS: &str = "/usr/bin:/usr/lib/llvm-22/bin";

/// Gives the terminal its size, and runs the command. As the first process of the terminal's session, the shell outlasts
/// what ends the command, and waits until everything is printed: when it ends, the kernel discards the rest.
const SESSION: &str = r#"
trap : INT QUIT TERM
stty sane 115200 rows "$1" cols "$2"
shift 2
"$@"
code=$?
stty sane
exit $code"#;

/// What the launcher wants: the words after `--` on the kernel's command line. They are the type of the user's terminal, its
/// rows and columns, and the command. `None` if no launcher booted this guest.
pub fn request() -> Option<Vec<String>> {
    let line = fs::read_to_string("/proc/cmdline").ok()?;
    let (_, words) = line.split_once(" -- ")?;
    Some(words.split_whitespace().map(str::to_owned).collect())
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

/// Runs the command, reports `exit STATUS` to the launcher over the line, and ends the machine.
pub fn serve(words: &[String], disks: Result<()>) -> Result<()> {
    let status = disks.and_then(|()| run(words)).map(exit_code).unwrap_or_else(|error| {
        eprintln!("Error: {error}");
        1
    });
    let cannot = "cannot report to the launcher";
    let mut line = open(LINE)?;
    writeln!(line, "exit {status}").or_cause(cannot)?;
    termios::tcdrain(&line).or_cause(cannot)?;
    // QEMU ends when its machine restarts.
    output(Command::new("reboot").arg("-f"))?;
    loop {
        thread::park();
    }
}

fn run(words: &[String]) -> Result<ExitStatus> {
    let [kind, rows, columns, argv @ ..] = words else {
        return Err(Error::new("the launcher asks for nothing").evidence(words.join(" ")));
    };
    output(Command::new("stty").args(["-F", LINE, "raw", "115200"]))?;
    let mut session = Command::new("setsid");
    session.args(["-c", "sh", "-c", SESSION, "sh", rows, columns]).args(argv);
    session.current_dir(ROOT).env_clear().envs(ENVIRONMENT);
    session.env("PATH", format!("{}:{COMPILERS}", ENVIRONMENT[0].1));
    session.env("TERM", kind).env("SHELL", "sh").env("ENV", "/root/.profile");
    let ended = session.stdin(open(CONSOLE)?).stdout(open(CONSOLE)?).stderr(open(CONSOLE)?).status();
    // Background processes that it left would continue to print. For the first process, -1 means everybody else.
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    ended.or_cause("cannot start it")
}

fn open(port: &str) -> Result<File> {
    OpenOptions::new().read(true).write(true).open(port).or_cause(format!("cannot open {port}"))
}

/// Runs the stages and examples of the kit briefly, and checks what each prints against the truth.
pub fn demo() -> Result<()> {
    let text = fs::read(Path::new("/").join(WORKBOOK)).or_cause("this guest is of no room kit")?;
    let catalog: Catalog = serde_json::from_slice(&text).or_cause(format!("{WORKBOOK} is damaged"))?;
    let (mut bad, mut others) = (Vec::new(), 0);
    let is_checked = |name: &str| checks::of(name).is_some_and(|check| check.program.is_some());
    for program in catalog.programs().filter(|program| is_checked(&program.name())) {
        print_text(format_args!("\n{}: {}", program.binary(), program.title))?;
        match demo::run(&program.name()) {
            Ok(true) => {}
            Ok(false) => others += 1,
            Err(error) => {
                eprintln!("Error: {error}");
                bad.push(program.binary());
            }
        }
    }
    if others > 0 {
        print_text(format_args!(
            "\n{others} programs can't run on this kernel. ./lab --help lists the kernels of this kit."
        ))?;
    }
    if bad.is_empty() {
        return print_text("\nTo run one yourself: ./lab shell, and then run 01");
    }
    Err(Error::new(format!("these failed: {}", bad.join(", "))).evidence("see their errors above"))
}
