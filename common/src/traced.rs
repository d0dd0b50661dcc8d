//! The process that a run traces: a running process, or a command that we start.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::Duration;

use clap::Args;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, pidfd_open};

use crate::kernel_pid::kernel_pid;
use crate::stop::{Stop, Wake};
use crate::{Error, OrCause, Result, report, stop};

/// What to trace: a process or a command.
#[derive(Args, Clone, Debug, Default)]
#[group(required = true, multiple = false)]
pub struct TracedArgs {
    /// Trace this process and all its threads
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)), allow_negative_numbers = true)]
    pub pid: Option<u32>,

    /// Start this command and trace it; write -- before it
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// A process to trace. If we started it, dropping this ends it.
#[derive(Debug)]
pub struct Traced {
    pid: Pid,
    /// Becomes readable when the process ends.
    end: OwnedFd,
    command: Option<Child>,
}

impl Traced {
    /// Finds the process, or starts the command, which then waits until [`Traced::follow`] or
    /// [`TracePipe::follow_process`] lets it run.
    ///
    /// [`TracePipe::follow_process`]: crate::trace_pipe::TracePipe::follow_process
    pub fn new(args: &TracedArgs) -> Result<Self> {
        match args.pid {
            Some(pid) => Self::of_pid(pid),
            None => Self::start(&args.command),
        }
    }

    /// Finds the process.
    pub fn of_pid(pid: u32) -> Result<Self> {
        Ok(Self { pid: Pid::from_raw(pid as i32), end: end_of(pid)?, command: None })
    }

    fn start(command: &[String]) -> Result<Self> {
        let [name, args @ ..] = command else { return Err(Error::new("no command was named")) };
        let path = which::which(name).map_err(|error| {
            Error::new(format!("cannot start {name}")).evidence(error).fix("give the program's path")
        })?;
        // The shell stops itself, and later becomes the command. So we know the process id before the command's first
        // read.
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", r#"kill -STOP $$; exec "$0" "$@""#]).arg(path).args(args);
        let child = stop::with_signals(|| shell.spawn())?.or_cause(format!("cannot start {name}"))?;
        let pid = Pid::from_raw(child.id() as i32);
        let traced = Self { pid, end: end_of(child.id())?, command: Some(child) };
        match waitpid(pid, Some(WaitPidFlag::WUNTRACED)) {
            Ok(WaitStatus::Stopped(..)) => Ok(traced),
            other => Err(Error::new(format!("cannot start {name}")).evidence(format!("{other:?}"))),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw() as u32
    }

    /// The process id that BPF programs see. Reports it if it is another one, see [`kernel_pid`].
    pub fn kernel_pid(&self) -> Result<u32> {
        let found = kernel_pid(self.pid())?;
        if found != self.pid() {
            eprintln!(
                "Process {} of this PID namespace is {found} outside of it, as BPF programs see it.",
                self.pid
            );
        }
        Ok(found)
    }

    /// If we started the command, lets it run.
    pub(crate) fn begin(&self) -> Result<()> {
        match self.command {
            Some(_) => kill(self.pid, Signal::SIGCONT).or_cause("cannot let the command run"),
            None => Ok(()),
        }
    }

    /// If we started the command, lets it run. Waits until the process ends, or for Ctrl-C, SIGTERM or the end of
    /// `duration`.
    pub fn follow(&self, duration: Option<Duration>) -> Result<()> {
        report::print_tracing("");
        self.begin()?;
        let stop = Stop::new(duration)?;
        while stop.wait(self.as_fd(), Some(self.as_fd()))? != Wake::Stop {}
        Ok(())
    }

    /// If we started the command, ends it and returns its exit status: its own, or 128 + signal if a signal ended it.
    /// Returns success if it was still running. A process that we didn't start goes on, and we return success.
    pub fn end(mut self) -> Result<ExitCode> {
        let Some(command) = &mut self.command else {
            if has_ended(&self.end, 0) {
                eprintln!("Process {} has ended.", self.pid);
            }
            return Ok(ExitCode::SUCCESS);
        };
        let ended = command.try_wait().or_cause("cannot wait for the command")?;
        // Ctrl-C in a terminal goes to both us and the command, so this is not a failure.
        let ended = ended.filter(|status| status.signal() != Some(Signal::SIGINT as i32));
        Ok(ended.map_or(ExitCode::SUCCESS, |status| exit_code(status).into()))
    }
}

impl AsFd for Traced {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        if let Some(command) = &mut self.command
            && let Ok(None) = command.try_wait()
        {
            // A stopped process must continue before it can end, and it may ignore SIGTERM.
            let _ = [Signal::SIGTERM, Signal::SIGCONT].map(|signal| kill(self.pid, signal));
            if !has_ended(&self.end, PATIENCE) {
                let _ = command.kill();
            }
            let _ = command.wait();
        }
    }
}

/// How many milliseconds a command has to end after SIGTERM.
const PATIENCE: u16 = 2_000;

/// Whether a process ends within so many milliseconds.
fn has_ended(end: &OwnedFd, within: u16) -> bool {
    poll(&mut [PollFd::new(end.as_fd(), PollFlags::POLLIN)], within) == Ok(1)
}

/// A file descriptor that becomes readable when a process ends.
fn end_of(pid: u32) -> Result<OwnedFd> {
    let process = rustix::process::Pid::from_raw(pid as i32);
    let opened = process.map(|process| pidfd_open(process, PidfdFlags::empty()));
    let error = match opened {
        Some(Ok(end)) => return Ok(end),
        Some(Err(error)) => error.to_string(),
        None => "0 is not a process id".to_owned(),
    };
    // A thread has an id, too. Only the first thread of a process has the process's id.
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:")).map(str::trim);
    Err(match process {
        Some(process) if process != pid.to_string() => {
            Error::new(format!("{pid} is a thread, not a process"))
                .evidence(format!("/proc/{pid}/status: Tgid {process}"))
                .fix(format!("trace its process instead: {process}"))
        }
        _ => Error::new(format!("there is no process {pid}"))
            .evidence(format!("pidfd_open({pid}): {error}"))
            .fix("list the running processes: ps -e"),
    })
}

/// The exit status that a shell would return: the program's own, or 128 + the signal that ended it.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    #[command(name = "stage09")]
    struct Stage {
        #[command(flatten)]
        traced: TracedArgs,
    }

    fn parse(args: &[&str]) -> Result<TracedArgs, String> {
        let args = [&["stage09"], args].concat();
        Stage::try_parse_from(args).map(|stage| stage.traced).map_err(|error| error.to_string())
    }

    #[test]
    fn a_process_or_a_command() {
        assert_eq!(parse(&["42"]).unwrap().pid, Some(42));
        assert_eq!(parse(&["--", "cat", "-n"]).unwrap().command, ["cat", "-n"]);
        insta::assert_snapshot!(parse(&[]).unwrap_err(), @r"
        error: the following required arguments were not provided:
          <PID|COMMAND>

        Usage: stage09 <PID|COMMAND>

        For more information, try '--help'.
        ");
        insta::assert_snapshot!(parse(&["42", "--", "cat"]).unwrap_err(), @r"
        error: the argument '[PID]' cannot be used with '[COMMAND]...'

        Usage: stage09 <PID|COMMAND>

        For more information, try '--help'.
        ");
        insta::assert_snapshot!(parse(&["0"]).unwrap_err(), @r"
        error: invalid value '0' for '[PID]': 0 is not in 1..=2147483647

        For more information, try '--help'.
        ");
        for bad in ["-1", "init", "4294967295"] {
            assert!(parse(&[bad]).unwrap_err().contains("invalid value"), "{bad}");
        }
    }

    fn start(command: &[&str]) -> Result<Traced> {
        Traced::start(&command.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_command_waits_until_it_may_begin_and_its_status_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("begun");
        let script = format!("touch {}; exit 7", file.display());
        let traced = start(&["sh", "-c", &script]).unwrap();
        assert!(!file.exists());
        traced.begin().unwrap();
        assert!(has_ended(&traced.end, 10_000));
        assert!(file.exists());
        assert_eq!(format!("{:?}", traced.end().unwrap()), format!("{:?}", ExitCode::from(7)));
    }

    #[test]
    fn a_command_ends_with_the_run() {
        stop::block_signals().unwrap();
        for begin in [true, false] {
            let traced = start(&["sleep", "1000"]).unwrap();
            let pid = traced.pid();
            if begin {
                traced.begin().unwrap();
            }
            traced.end().unwrap();
            assert!(end_of(pid).is_err(), "{pid} is still there");
        }
    }

    #[test]
    fn a_command_that_ignores_sigterm_ends() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deaf");
        let script = format!("trap '' TERM; touch {}; while :; do sleep 0.1; done", file.display());
        let traced = start(&["sh", "-c", &script]).unwrap();
        traced.begin().unwrap();
        while !file.exists() {
            std::thread::yield_now();
        }
        let pid = traced.pid();
        traced.end().unwrap();
        assert!(end_of(pid).is_err(), "{pid} is still there");
    }

    #[test]
    fn what_cannot_be_traced_is_an_error() {
        let gone =
            Command::new("true").spawn().and_then(|mut child| child.wait().map(|_| child.id())).unwrap();
        let error = end_of(gone).unwrap_err().to_string().replace(&gone.to_string(), "[pid]");
        insta::assert_snapshot!(error, @r"
        there is no process [pid]
          evidence: pidfd_open([pid]): No such process (os error 3)
          fix:      list the running processes: ps -e
        ");
        insta::assert_snapshot!(start(&["no-such-command"]).unwrap_err(), @r"
        cannot start no-such-command
          evidence: cannot find binary path
          fix:      give the program's path
        ");
        let thread =
            std::thread::spawn(|| end_of(nix::unistd::gettid().as_raw() as u32).unwrap_err().to_string());
        assert!(thread.join().unwrap().contains("is a thread, not a process"));
    }
}
