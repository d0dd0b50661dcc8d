//! QEMU's process: how it starts, what its guest's kernel prints, and why it ended.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdin, ExitStatus};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use common::{Error, OrCause, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use wire::command::lines;

/// With which words a kernel ends if its first program can't run: the loader's exit status 127, and the signal SIGILL. What
/// they mean, and what to do.
const NO_FIRST_PROGRAM: [(&str, &str, &str); 2] = [
    (
        "Attempted to kill init! exitcode=0x00007f00",
        "a library is missing",
        "compile it again with your system's own libraries: cargo clean, then try again without LD_LIBRARY_PATH, LIBRARY_PATH \
         and your own linker flags",
    ),
    (
        "Attempted to kill init! exitcode=0x00000004",
        "it was compiled for another processor than the emulated one",
        "compile it again for every processor: cargo clean, then try again without -march=native in CFLAGS",
    ),
];

#[derive(Debug)]
pub(crate) struct Emulator {
    pub(crate) pid: Pid,
    /// The thread that started QEMU and waits for it.
    waiter: Option<JoinHandle<std::io::Result<ExitStatus>>>,
    status: Option<ExitStatus>,
    complaints: Arc<Mutex<VecDeque<String>>>,
    console: File,
    /// The file of the disk without a file system.
    pub(crate) raw_disk: File,
    folder: Option<TempDir>,
}

/// What we keep of the child while a thread waits for it.
pub(crate) struct Pipes {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<std::process::ChildStdout>,
}

impl Emulator {
    /// Starts QEMU with the files in this folder.
    pub(crate) fn start(mut command: std::process::Command, folder: TempDir) -> Result<(Pipes, Self)> {
        let open = |name: &str| {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false);
            options.open(folder.path().join(name)).or_cause("cannot open the guest's files")
        };
        let (console, raw_disk) = (open("console")?, open("raw")?);
        let (sender, started) = mpsc::channel();
        let complaints = Arc::new(Mutex::new(VecDeque::new()));
        let heard = complaints.clone();
        // --pdeathsig refers to the thread that started the child, so this thread lives exactly as long as QEMU.
        let waiter = thread::spawn(move || {
            let mut child = match command.spawn() {
                Ok(child) => child,
                Err(error) => {
                    let _ = sender.send(Err(error));
                    return Err(std::io::ErrorKind::NotFound.into());
                }
            };
            let pipes = Pipes { stdin: child.stdin.take(), stdout: child.stdout.take() };
            let pid = Pid::from_raw(child.id() as i32);
            let _ = sender.send(Ok((pid, pipes)));
            for line in lines(child.stderr.take()) {
                // After this error, QEMU goes on forever without running the guest.
                if line.contains("KVM internal error") {
                    let _ = kill(pid, Signal::SIGKILL);
                }
                if let Ok(mut heard) = heard.lock() {
                    heard.push_back(line);
                    if heard.len() > 5 {
                        heard.pop_front();
                    }
                }
            }
            child.wait()
        });
        let (pid, pipes) = started
            .recv()
            .or_cause("the thread that starts the emulator is gone")?
            .or_cause("cannot start the emulator")?;
        let (waiter, folder) = (Some(waiter), Some(folder));
        Ok((pipes, Self { pid, waiter, status: None, complaints, console, raw_disk, folder }))
    }

    /// Removes the files' names. QEMU and we have the files open, so they end with us, however we end.
    pub(crate) fn remove_folder(&mut self) {
        self.folder = None;
    }

    pub(crate) fn console(&self) -> String {
        let (mut file, mut console) = (&self.console, Vec::new());
        let _ = file.rewind().and_then(|()| file.read_to_end(&mut console));
        String::from_utf8_lossy(&console).into_owned()
    }

    pub(crate) fn console_tail(&self) -> String {
        let console = self.console();
        let lines: Vec<_> = console.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        // Start shortly before the first sign of trouble, if there is one: the cause is there, and a call trace
        // follows.
        let signs = ["BUG: ", "Oops", "general protection fault", "Kernel panic"];
        let trouble = lines.iter().position(|line| signs.iter().any(|sign| line.contains(sign)));
        let from = trouble.map_or(lines.len().saturating_sub(10), |trouble| trouble.saturating_sub(3));
        let last = &lines[from..lines.len().min(from + if trouble.is_some() { 30 } else { 10 })];
        if last.is_empty() {
            "the console is empty".to_owned()
        } else {
            format!("the console's last lines:\n{}", last.join("\n"))
        }
    }

    pub(crate) fn hang_error(&self, limit: Duration) -> Error {
        Error::new(format!("the guest hangs: it has not answered for {} s", limit.as_secs()))
            .evidence(self.console_tail())
            .fix("try again; if it hangs again, try another kernel: --kernel VERSION, or give it more time: --boot-limit SECS")
    }

    /// The emulator ended although nobody asked it to.
    pub(crate) fn exit_error(&mut self) -> Error {
        self.end();
        let words = self.console_tail();
        let console = self.console();
        if let Some((_, cause, fix)) = NO_FIRST_PROGRAM.iter().find(|(sign, ..)| console.contains(sign)) {
            return Error::new(format!("the guest can't run its first program: {cause}"))
                .evidence(words)
                .fix(*fix);
        }
        if words.contains("Kernel panic") {
            return Error::new("the guest's kernel panicked")
                .evidence(words)
                .fix("try again; if it panics again, try another kernel: --kernel VERSION");
        }
        Error::new("the emulator ended")
            .evidence(format!("{}\n{words}", self.complaints()).trim_start().to_owned())
    }

    fn complaints(&self) -> String {
        let complaints = self.complaints.lock().map(|lines| Vec::from(lines.clone()));
        complaints.unwrap_or_default().join("\n")
    }

    /// Whether it ended because it has no sandbox, or because the sandbox forbids something that it needs.
    pub(crate) fn refused_sandbox(&self) -> bool {
        let complaints = self.complaints();
        self.status.is_some_and(|status| {
            status.signal() == Some(Signal::SIGSYS as i32)
                || !status.success() && ["sandbox", "seccomp"].iter().any(|word| complaints.contains(word))
        })
    }

    pub(crate) fn end(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            if !waiter.is_finished() {
                let _ = kill(self.pid, Signal::SIGKILL);
            }
            self.status = waiter.join().ok().and_then(std::io::Result::ok);
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.end();
    }
}
