//! The process that reads. We record nothing but this process. It waits for a byte on its stdin, reads the file, and
//! prints the result.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use common::stop::{Stop, Wake};
use common::{Error, OrCause, Result};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use toolkit::ftrace;

/// The process that reads.
pub struct Reader {
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    stop: Stop,
}

/// What a read did.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// How many bytes it returned.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
}

impl Reader {
    /// Starts the process.
    pub fn start(file: &Path, bytes: u32) -> Result<Self> {
        let cause = "cannot start a process that reads";
        let mut child = Command::new("/proc/self/exe")
            // A program that holds several tools chooses by this name.
            .arg0("page_cache_scenario")
            .args(["--reader", "--bytes", &bytes.to_string(), "--file"])
            .arg(file)
            // A signal that ends us must not end this process, too, because it cleans up after us.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .or_cause(cause)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::new(cause));
        };
        fcntl(&stdout, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).or_cause(cause)?;
        Ok(Self { child, stdin, stdout, stop: Stop::new(None)? })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets the process read once.
    pub fn read(&mut self) -> Result<Done> {
        let cause = "the process that reads has ended";
        self.stdin.write_all(b"r").or_cause(cause)?;
        let (mut answer, mut chunk) = (String::new(), [0; 64]);
        while !answer.ends_with('\n') {
            if self.stop.wait(self.stdout.as_fd(), None)? == Wake::Stop {
                return Err(Error::new("the run ended before the file was read"));
            }
            match self.stdout.read(&mut chunk) {
                Ok(0) => return Err(Error::new(cause)),
                Ok(read) => answer += &String::from_utf8_lossy(&chunk[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).or_cause(cause),
            }
        }
        let numbers = answer.trim_end().split_once(' ').map(|(bytes, ns)| (bytes.parse(), ns.parse()));
        let Some((Ok(bytes), Ok(ns))) = numbers else {
            return Err(Error::new("the file cannot be read").evidence(answer));
        };
        Ok(Done { bytes, took: Duration::from_nanos(ns) })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // We are ending normally, so there is nothing left for it to clean up.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs in that process: reads whenever a byte arrives on stdin. If stdin ends while we are still running, our parent
/// was killed, so we switch off the tracer that records us.
pub fn serve(path: &Path, bytes: usize) -> Result<()> {
    let served = read_on_request(path, bytes);
    ftrace::clear(std::process::id()).and(served)
}

fn read_on_request(path: &Path, bytes: usize) -> Result<()> {
    let mut file = File::open(path).or_cause(format!("cannot read {}", path.display()))?;
    // The buffer must not be zeros: the kernel would allocate its memory only at the first read.
    let mut buffer = vec![1; bytes];
    for _ in io::stdin().lock().bytes().map_while(io::Result::ok) {
        let start = file.rewind().map(|()| Instant::now());
        let read = start.and_then(|start| Ok((file.read(&mut buffer)?, start.elapsed())));
        let answer =
            read.map_or_else(|error| error.to_string(), |(read, took)| format!("{read} {}", took.as_nanos()));
        if writeln!(io::stdout(), "{answer}").is_err() {
            break;
        }
    }
    Ok(())
}
