//! Ctrl-C and its like: for the program in the guest while one runs, else for the lab itself.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use common::{Error, OrCause, Result};
use nix::sys::signal::{SigSet, Signal};

use crate::protocol::ToGuest;
use crate::terminal;
use crate::vm::Line;

/// How often somebody asked us to end.
static ASKED: AtomicU32 = AtomicU32::new(0);

/// Where signals go while a program runs.
static PROGRAM: Mutex<Option<Line>> = Mutex::new(None);

/// From here on signals go to the program in the guest, and the window's new size too. Call it before any thread is
/// started, since threads inherit what is blocked.
///
/// # Errors
/// If the kernel refuses.
pub fn take_over() -> Result<()> {
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGWINCH].into_iter().collect();
    signals.thread_block().or_cause("cannot block signals")?;
    thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            let program = PROGRAM.lock().ok().and_then(|program| program.clone());
            let message = match signal {
                Signal::SIGWINCH => terminal::size().map(ToGuest::Resize),
                _ => {
                    ASKED.fetch_add(1, Ordering::Relaxed);
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

/// From here on signals are for the program at the end of this line; with `None` for us again.
pub fn pass_to(line: Option<Line>) {
    if let Ok(mut program) = PROGRAM.lock() {
        *program = line;
    }
    ASKED.store(0, Ordering::Relaxed);
}

/// Whether to give up: asked once when no program runs, three times when one does and does not listen.
///
/// # Errors
/// If so.
pub fn check() -> Result<()> {
    let program = PROGRAM.lock().is_ok_and(|program| program.is_some());
    let asked = ASKED.load(Ordering::Relaxed);
    if asked >= if program { 3 } else { 1 } { Err(Error::new("interrupted")) } else { Ok(()) }
}
