//! In the guest: runs a stage, or a workload.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use common::trace_pipe::Line;
use common::{Error, OrCause, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use wire::command::{ATTACHED, output};
use wire::workload::Done;

/// A stage or an example that runs in this guest, with its programs attached. It ends with this value, too.
#[derive(Debug)]
pub struct Running {
    child: Killed,
    stdout: JoinHandle<String>,
    stderr: JoinHandle<String>,
    /// The number of lines on stdout so far.
    lines: Arc<AtomicUsize>,
}

/// A process that ends with this value, even if somebody has stopped it.
#[derive(Debug)]
pub struct Killed(pub Child);

impl Killed {
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id() as i32)
    }

    pub fn is_running(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|status| status.is_none())
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Clone, Debug)]
pub struct Observation {
    pub stdout: String,
    pub stderr: String,
    pub status: ExitStatus,
}

impl Observation {
    /// What a test pretends that a stage has printed.
    #[cfg(test)]
    pub fn of(stdout: impl Into<String>) -> Self {
        Self { stdout: stdout.into(), stderr: String::new(), status: ExitStatus::default() }
    }

    /// The trace lines among what was printed.
    pub fn lines(&self) -> Vec<Line<'_>> {
        self.stdout.lines().filter_map(Line::parse).collect()
    }
}

impl Running {
    /// Starts a stage and waits until its programs are attached.
    ///
    /// # Errors
    /// If it can't be started, or ends before that; the error has its stderr.
    pub fn start(argv: &[&str]) -> Result<Self> {
        Self::spawn(Command::new(argv[0]).args(&argv[1..]))
    }

    /// Like [`Running::start`], for a command that the caller makes.
    pub fn spawn(command: &mut Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.or_cause(format!("cannot start {name}"))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let lines = Arc::new(AtomicUsize::new(0));
        let (counter, (is_attached, wait)) = (lines.clone(), mpsc::channel());
        let stdout = thread::spawn(move || {
            read(stdout, |_| {
                counter.fetch_add(1, Ordering::Relaxed);
            })
        });
        let stderr = thread::spawn(move || {
            read(stderr, |line| {
                if line.starts_with(ATTACHED.as_bytes()) {
                    let _ = is_attached.send(());
                }
            })
        });
        let stage = Self { child: Killed(child), stdout, stderr, lines };
        if wait.recv().is_ok() {
            return Ok(stage);
        }
        let seen = stage.wait()?;
        let cause = format!("{name} ended before it was attached: {}", seen.status);
        Err(Error::new(cause).evidence(seen.stderr))
    }

    pub fn pid(&self) -> Pid {
        self.child.pid()
    }

    /// How many lines it has printed to stdout so far.
    pub fn lines(&self) -> usize {
        self.lines.load(Ordering::Relaxed)
    }

    /// Sends a signal and waits for the end.
    pub fn end(self, signal: Signal) -> Result<Observation> {
        kill(self.pid(), signal).or_cause("cannot signal the stage")?;
        self.wait()
    }

    pub fn wait(mut self) -> Result<Observation> {
        let status = self.child.0.wait().or_cause("cannot wait for the stage")?;
        let text = |thread: JoinHandle<String>| thread.join().map_err(|_| Error::new("a reader panicked"));
        Ok(Observation { stdout: text(self.stdout)?, stderr: text(self.stderr)?, status })
    }
}

/// All that a pipe says. `each` gets each line as it comes.
fn read(pipe: Option<impl Read>, mut each: impl FnMut(&[u8])) -> String {
    let (mut pipe, mut text, mut begin) = (pipe.map(BufReader::new), Vec::new(), 0);
    // If it can't be read, the text lacks it, and the check that looks at the text fails.
    while let Some(pipe) = &mut pipe
        && matches!(pipe.read_until(b'\n', &mut text), Ok(1..))
    {
        each(&text[begin..]);
        begin = text.len();
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Runs `io` and returns its report of what it did.
///
/// # Errors
/// If it fails; the error has its stderr.
pub fn io<S: AsRef<str>>(args: &[S]) -> Result<Done> {
    done(Command::new("io").args(args.iter().map(AsRef::as_ref)))
}

pub(crate) fn done(io: &mut Command) -> Result<Done> {
    String::from_utf8_lossy(&output(io)?.stdout).parse()
}
