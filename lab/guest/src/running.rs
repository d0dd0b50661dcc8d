//! In the guest: runs a stage and a workload together.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use clap::Parser;
use common::report::print_text;
use common::trace_pipe::Line;
use common::{Error, OrCause, Result};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use wire::command::{ATTACHED, lines, output};
use wire::workload::{Clock, Done, Io, Workload};

use crate::truth;
use crate::workload::prepare;

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

fn done(io: &mut Command) -> Result<Done> {
    String::from_utf8_lossy(&output(io)?.stdout).parse()
}

/// Runs a program whose output goes straight on. From the moment it is attached until it ends, repeats a workload
/// beside it, with pauses. The workload's file is there before, so the program doesn't see how it was made. If the workload
/// reads its own clock, prints at the end what that says, and what iostat(1) would say. Ctrl-C goes to the program. Before
/// there is one, it ends us.
pub fn beside(argv: &[String], workload: &Workload) -> Result<ExitStatus> {
    let [name, args @ ..] = argv else { return Err(Error::new("no program was named")) };
    if let Workload::Io(args) = workload {
        let io = Io::try_parse_from(["io"].into_iter().chain(args.iter().map(String::as_str)));
        prepare(io.or_cause("this is not a workload")?.kind.parts().1)?;
        // What the file system notes about the file, too.
        nix::unistd::sync();
    }
    // From here on, the program gets these. It ends, and then so do we.
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    signals.thread_block().or_cause("cannot block signals")?;
    let mut child = Command::new(name)
        .args(args)
        .stderr(Stdio::piped())
        .spawn()
        .or_cause(format!("cannot start {name}"))?;
    let stderr = child.stderr.take();
    let clocks = Arc::new(Mutex::new(Vec::new()));
    let (workload, of_io) = (workload.clone(), clocks.clone());
    let before = match workload {
        Workload::Io(_) => truth::disk_times()?,
        Workload::None => (0, 0),
    };
    let stderr = thread::spawn(move || {
        for line in lines(stderr) {
            eprintln!("{line}");
            if let (true, Workload::Io(args)) = (line.starts_with(ATTACHED), &workload) {
                let (args, of_io) = (args.clone(), of_io.clone());
                thread::spawn(move || repeat(&args, &of_io));
            }
        }
    });
    let status = child.wait().or_cause("cannot wait for the program")?;
    let _ = stderr.join();
    let clocks = clocks.lock().unwrap_or_else(PoisonError::into_inner);
    if !clocks.is_empty() {
        let after = truth::disk_times()?;
        print_text(both_clocks(&clocks, after.0.saturating_sub(before.0), after.1.saturating_sub(before.1)))?;
    }
    Ok(status)
}

/// What the workload's clock says of all rounds together, and what iostat(1) would print as `await` for the disks' I/Os,
/// which took so many milliseconds.
fn both_clocks(clocks: &[Clock], ios: u64, ms: u64) -> String {
    let of = |clock: &Clock| clock.reads + clock.writes;
    let count: u64 = clocks.iter().map(of).sum();
    let us: f64 = clocks.iter().map(|clock| clock.mean_us * of(clock) as f64).sum();
    let what = match clocks.iter().map(|clock| clock.reads).sum() {
        0 => "writes",
        reads if reads == count => "reads",
        _ => "I/Os",
    };
    format!(
        "io: its {count} {what} took {:.2} ms on average, by its own clock. iostat would show an await of {:.2} ms.",
        us / 1e3 / count.max(1) as f64,
        ms as f64 / ios.max(1) as f64
    )
}

/// Repeats `io` until this process ends. Notes what its clock said in each round, if it has one.
fn repeat(args: &[String], clocks: &Mutex<Vec<Clock>>) {
    const PAUSE: Duration = Duration::from_secs(1);
    // In its own process group: Ctrl-C is for the stage, and must not interrupt an I/O.
    loop {
        match done(Command::new("io").args(args).process_group(0)) {
            Ok(done) => clocks.lock().unwrap_or_else(PoisonError::into_inner).extend(done.clock),
            Err(error) => return eprintln!("Error: {error}\n  From here on, there is no I/O."),
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_are_in_one_line() {
        let clock = |times: [&[u64]; 3]| Clock::new(times.map(<[u64]>::to_vec), 1);
        let writes = [clock([&[], &[1_000_000, 2_000_000], &[]]), clock([&[], &[6_000_000], &[]])];
        insta::assert_snapshot!(both_clocks(&writes, 4, 10), @"io: its 3 writes took 3.00 ms on average, by its own clock. iostat would show an await of 2.50 ms.");
        let mixed = [clock([&[1_000_000], &[2_000_000], &[]])];
        assert!(both_clocks(&mixed, 2, 3).starts_with("io: its 2 I/Os took 1.50 ms"));
    }
}
