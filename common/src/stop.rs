//! Ends a run at Ctrl-C, SIGTERM, the end of `--duration`, or when nobody reads our output any more.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::{OrCause, Result};

/// Why [`Stop::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// There may be something to read.
    Readable,
    /// The time is up.
    Due,
    /// The run is over.
    Stop,
}

/// Knows when a run is over.
#[derive(Debug)]
pub struct Stop {
    signals: SignalFd,
    deadline: Option<Instant>,
}

/// The signals that end a run. If SIGHUP is ignored, as under nohup(1), it isn't one of them: a signalfd would receive
/// it even so.
fn signals() -> SigSet {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    let hangs_up = ignored >> (Signal::SIGHUP as u32 - 1) & 1 == 0;
    [Signal::SIGINT, Signal::SIGTERM].into_iter().chain(hangs_up.then_some(Signal::SIGHUP)).collect()
}

/// From now on the signals wait for [`Stop`] instead of killing us. So a run always ends with its report.
pub(crate) fn block_signals() -> Result<()> {
    signals().thread_block().or_cause("cannot block signals")
}

/// Does something with the signals unblocked, such as starting a program, because a program inherits blocked signals.
pub(crate) fn with_signals<T>(work: impl FnOnce() -> T) -> Result<T> {
    let before = SigSet::thread_get_mask().or_cause("cannot read the mask of blocked signals")?;
    signals().thread_unblock().or_cause("cannot unblock signals")?;
    let done = work();
    before.thread_set_mask().or_cause("cannot block signals")?;
    Ok(done)
}

/// Rounds up to milliseconds. Rounded down, we would call poll(2) again and again during the last millisecond.
fn timeout(time: Duration) -> PollTimeout {
    PollTimeout::try_from(time.saturating_add(Duration::from_micros(999))).unwrap_or(PollTimeout::MAX)
}

impl Stop {
    /// Starts the clock of `duration`.
    pub fn new(duration: Option<Duration>) -> Result<Self> {
        let signals = SignalFd::with_flags(&signals(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
            .or_cause("cannot wait for signals")?;
        // A duration that the clock can't represent means no end.
        Ok(Self { signals, deadline: duration.and_then(|duration| Instant::now().checked_add(duration)) })
    }

    /// Waits until `end`, or forever if it is `None`, or until the run is over.
    pub fn wait_until(&self, end: Option<Instant>) -> Result<Wake> {
        let stdout = io::stdout();
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let mut fds = [
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                // As in wait(), this reports only that the reader of our output is gone.
                PollFd::new(stdout.as_fd(), PollFlags::empty()),
            ];
            match poll(&mut fds, left.map_or(PollTimeout::NONE, timeout)) {
                // Even if each interval is over before we wait for its end, a signal ends the run.
                Ok(0) if left.is_some_and(|left| left.is_zero()) => return Ok(Wake::Due),
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return Ok(Wake::Stop),
                Err(error) => return Err(error).or_cause("cannot wait for the end of the interval"),
            }
        }
    }

    /// Whether the run is over. This doesn't wait.
    pub fn is_over(&self) -> Result<bool> {
        let stdout = io::stdout();
        let mut fds = [
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            // As in wait(), this reports only that the reader of our output is gone.
            PollFd::new(stdout.as_fd(), PollFlags::empty()),
        ];
        let over = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        Ok(over || poll(&mut fds, PollTimeout::ZERO).or_cause("cannot check whether the run is over")? > 0)
    }

    /// Waits until there is something to read, or the run is over. The run is also over when `process` has ended, which
    /// is the file descriptor of a process.
    pub fn wait(&self, source: BorrowedFd<'_>, process: Option<BorrowedFd<'_>>) -> Result<Wake> {
        // A tracefs pipe can miss a wake-up (the rules changed several times between 5.10 and 7.2), so we look at least
        // this often. That costs ten system calls per second.
        const LOOK_AGAIN: Duration = Duration::from_millis(100);

        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN));
        let stdout = io::stdout();
        let mut fds = [
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(source, PollFlags::POLLIN),
            // We ask for no events, so poll() reports only one thing: that the reader of our output is gone.
            PollFd::new(stdout.as_fd(), PollFlags::empty()),
            PollFd::new(process.unwrap_or(source), PollFlags::POLLIN),
        ];
        match poll(&mut fds, self::timeout(timeout)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).or_cause("cannot wait for trace lines"),
        }
        let signalled = fds[0].any().unwrap_or(false);
        let unread = fds[2].revents().is_some_and(|events| events.contains(PollFlags::POLLERR));
        let ended = process.is_some() && fds[3].any().unwrap_or(false);
        let over = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        Ok(if signalled || unread || ended || over { Wake::Stop } else { Wake::Readable })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// We don't check how much later it ends, because that depends on the machine.
    #[test]
    fn a_run_does_not_end_before_its_duration() {
        const DURATION: Duration = Duration::from_millis(50);
        let start = Instant::now();
        let stop = Stop::new(Some(DURATION)).unwrap();
        while !stop.is_over().unwrap() {
            std::thread::yield_now();
        }
        assert!(start.elapsed() >= DURATION);
        let (nothing, _writer) = nix::unistd::pipe().unwrap();
        let start = Instant::now();
        let stop = Stop::new(Some(DURATION)).unwrap();
        while stop.wait(nothing.as_fd(), None).unwrap() == Wake::Readable {}
        assert!(start.elapsed() >= DURATION);
    }
}
