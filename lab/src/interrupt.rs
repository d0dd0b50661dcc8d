//! Ctrl-C and its like: for the program in the guest while one runs, else for the lab itself.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use common::{Error, OrCause, Result};
use nix::sys::signal::{SigSet, Signal};

use crate::protocol::ToGuest;
use crate::terminal;
use crate::vm::Line;

/// How long a program in the guest may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(10);

/// When somebody first asked us to end.
static ASKED: Mutex<Option<Instant>> = Mutex::new(None);

/// Where signals go while a program runs.
static PROGRAM: Mutex<Option<Line>> = Mutex::new(None);

/// From here on signals go to the program in the guest, and the window's new size too. Call it before any thread is
/// started, since threads inherit what is blocked.
///
/// # Errors
/// If the kernel refuses.
pub fn take_over() -> Result<()> {
    let signals: SigSet =
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGWINCH].into_iter().collect();
    signals.thread_block().or_cause("cannot block signals")?;
    thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            let program = PROGRAM.lock().ok().and_then(|program| program.clone());
            let message = match signal {
                Signal::SIGWINCH => terminal::size().map(ToGuest::Resize),
                _ => {
                    if let Ok(mut asked) = ASKED.lock() {
                        asked.get_or_insert_with(Instant::now);
                    }
                    Some(ToGuest::Signal(signal as i32))
                }
            };
            if let (Some(line), Some(message)) = (program, message) {
                // If the guest is gone, whoever waits for it finds out.
                let _ = line.send(&message);
            }
        }
    });
    Ok(())
}

/// From here on signals are for the program at the end of this line.
pub fn pass_to(line: Line) {
    if let Ok(mut program) = PROGRAM.lock() {
        *program = Some(line);
    }
}

/// Whether to give up: at once when no program runs, after a while when one does and does not end.
///
/// # Errors
/// If so.
pub fn check() -> Result<()> {
    let Some(asked) = ASKED.lock().ok().and_then(|asked| *asked) else { return Ok(()) };
    let program = PROGRAM.lock().is_ok_and(|program| program.is_some());
    if program && asked.elapsed() < PATIENCE { Ok(()) } else { Err(Error::new("interrupted")) }
}
