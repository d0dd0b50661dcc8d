//! The guest's first process: mounts the usual file systems, then runs what the lab asks for.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use common::traced::exit_code;
use common::{Error, OrCause, Result};
use nix::mount::{MsFlags, mount};
use nix::pty::openpty;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::termios::{self, SetArg};
use nix::unistd::Pid;
use rustix::termios::{Winsize, tcsetwinsize};
use wire::command::output;
use wire::disks::{FS_DEVICE, FS_DISK, FS_MOUNT, PART_DEVICE, PART_DISK, RAW_DEVICE, RAW_DISK};
use wire::files::{self, FOLDER};
use wire::protocol::{ALIVE_EVERY, FromGuest, Size, Terminal, ToGuest, receive, send};

use crate::kit;
use crate::system::{ENVIRONMENT, LINE, RCU_EXPEDITED, mount_fs};

/// Mounts the usual file systems, names the disks, and does what the lab or a room kit's launcher asks for.
pub fn run() -> Result<ExitCode> {
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
        // Carry on without it: a stage that needs a missing file system reports that itself.
        if let Err(error) = mount(Some(kind), place, Some(kind), MsFlags::empty(), None::<&str>) {
            eprintln!("lab: mount {place}: {error}");
        }
    }
    let _ = fs::write("/proc/sys/kernel/hostname", "lab");
    // To start and end stage 03 takes 0.3 s with it, and 0.5 s without. On 5.10, ctracer takes 4 s instead of 8 s.
    let _ = fs::write(RCU_EXPEDITED, "1");
    match kit::request() {
        Some(words) => kit::serve(&words, prepare(true))?,
        None => serve(prepare(false).err().map(|error| error.to_string()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds busybox's programs and the disks to the guest.
fn prepare(are_empty: bool) -> Result<()> {
    // A real program takes precedence: busybox replaces no file.
    output(Command::new("/bin/busybox").args(["--install", "-s", "/bin"])).map_err(|error| {
        Error::new("busybox cannot install its programs")
            .evidence(error)
            .fix("take Debian's: apt install busybox-static")
    })?;
    disks(are_empty)
}

/// How long a disk may take to appear: usually less than a second, but longer on a busy machine.
const DISK_LIMIT: Duration = Duration::from_secs(300);

/// Waits for the disks, names them, and mounts the one with the file system. If the disks are empty, fills them
/// first. A driver that is built in is there before the first process.
fn disks(are_empty: bool) -> Result<()> {
    if !Path::new("/sys/bus/pci/drivers/nvme").exists() {
        return Err(Error::new("this kernel has no driver for NVMe disks"));
    }
    // The kernel names NVMe disks in the order in which they answer, so we can tell them apart only by serial.
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

/// The device of the disk with this serial, or of a part of it; `None` if it is not there (yet).
pub fn disk_with(serial: &str, part: &str) -> Option<PathBuf> {
    let disks = fs::read_dir("/sys/block").ok()?.flatten();
    let disk = disks.map(|disk| disk.file_name()).find(|disk| {
        let file = Path::new("/sys/block").join(disk).join("device/serial");
        fs::read_to_string(file).is_ok_and(|found| found.trim() == serial)
    })?;
    let device = Path::new("/dev").join(format!("{}{part}", disk.to_str()?));
    device.exists().then_some(device)
}

type Line = Arc<Mutex<File>>;

fn report(line: &Line, message: &FromGuest) {
    // If the line to the lab is broken, we have no way to report that.
    if let Ok(mut line) = line.lock() {
        let _ = send(&mut *line, message);
    }
}

/// Runs what the lab asks for, until the lab ends the guest.
fn serve(complaint: Option<String>) -> Result<()> {
    let mut input =
        OpenOptions::new().read(true).write(true).open(LINE).or_cause(format!("cannot open {LINE}"))?;
    let mut raw = termios::tcgetattr(&input).or_cause("cannot read the line's settings")?;
    termios::cfmakeraw(&mut raw);
    termios::tcsetattr(&input, SetArg::TCSANOW, &raw).or_cause("cannot set the line to raw")?;
    let line: Line = Arc::new(Mutex::new(input.try_clone().or_cause("cannot share the line")?));

    report(&line, &FromGuest::Ready { release: common::preflight::release(), complaint });
    let pulse = line.clone();
    thread::spawn(move || {
        loop {
            thread::sleep(ALIVE_EVERY);
            report(&pulse, &FromGuest::Alive);
        }
    });

    let mut program: Option<Session> = None;
    while let Some(message) = receive(&mut input).or_cause("cannot read from the lab")? {
        let done = match message {
            ToGuest::Run { argv, terminal } => {
                Session::start(&argv, terminal, &line).map(|started| program = Some(started))
            }
            ToGuest::Input(bytes) => program.as_mut().map_or(Ok(()), |program| program.input(&bytes)),
            ToGuest::Signal(number) => program.as_ref().map_or(Ok(()), |program| program.signal(number)),
            ToGuest::Fetch(names) => {
                files::pack(&names, |file| report(&line, &file)).map(|()| report(&line, &FromGuest::Fetched))
            }
            ToGuest::Resize(size) => program.as_ref().map_or(Ok(()), |program| program.resize(size)),
        };
        if let Err(error) = done {
            report(&line, &FromGuest::Failed(error.to_string()));
        }
    }
    Ok(())
}

/// The program that runs, with what we need to reach it.
struct Session {
    session: Pid,
    terminal: Option<File>,
}

impl Session {
    fn start(argv: &[String], terminal: Option<Terminal>, line: &Line) -> Result<Self> {
        let [name, args @ ..] = argv else { return Err(Error::new("no program was named")) };
        // In its own session. With -c, the terminal belongs to the session, so Ctrl-C and job control work in it.
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
                .fix("list its programs: ls /bin")
        })?;
        // Close our copies of the terminal's other end, so that reads from our end stop when the program ends.
        drop(command);

        let session = Pid::from_raw(child.id() as i32);
        let screen =
            master.as_ref().map(File::try_clone).transpose().or_cause("cannot share the terminal")?;
        let readers = [
            child.stdout.take().map(|stdout| forward(stdout, line, FromGuest::Stdout)),
            child.stderr.take().map(|stderr| forward(stderr, line, FromGuest::Stderr)),
            screen.map(|screen| forward(screen, line, FromGuest::Stdout)),
        ];
        let line = line.clone();
        thread::spawn(move || {
            let status = finish(&mut child, readers);
            report(&line, &FromGuest::Exit(status));
        });
        Ok(Self { session, terminal: master })
    }

    fn input(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(terminal) = &mut self.terminal else { return Ok(()) };
        terminal.write_all(bytes).or_cause("cannot pass on the input")
    }

    fn signal(&self, number: i32) -> Result<()> {
        let signal = Signal::try_from(number).or_cause("no such signal")?;
        // A program that has just been started may not have its session yet. If neither exists, it has just ended,
        // and its exit status is on the way to the lab.
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

/// Sends everything that can be read from `source` to the lab.
fn forward(
    mut source: impl Read + Send + 'static,
    line: &Line,
    message: fn(Vec<u8>) -> FromGuest,
) -> JoinHandle<()> {
    let line = line.clone();
    thread::spawn(move || {
        let mut chunk = vec![0; 16 * 1024];
        loop {
            match source.read(&mut chunk) {
                Ok(read) if read > 0 => report(&line, &message(chunk[..read].to_vec())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // When the other end of a terminal is closed, a read returns an error instead of end-of-file.
                _ => break,
            }
        }
    })
}

/// Waits until the program has ended and all its output has been sent.
fn finish(child: &mut Child, readers: [Option<JoinHandle<()>>; 3]) -> i32 {
    let status = child.wait().unwrap_or(ExitStatus::from_raw(255 << 8));
    // Background processes that it left would hold its output open. For the first process, -1 means everybody else.
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    for reader in readers.into_iter().flatten() {
        let _ = reader.join();
    }
    exit_code(status).into()
}
