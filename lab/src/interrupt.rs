//! Ctrl-C and its like: for the program in the guest while one runs, else for the lab itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use common::{Error, OrCause, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::protocol::ToGuest;
use crate::terminal;
use crate::vm::Line;

/// How long a program in the guest may print nothing, and not end, when it was asked to: a second as a rule, longer on a
/// machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often somebody may ask until we no longer wait for the program.
const INSISTENCE: u32 = 3;

/// How often somebody asked us to end, and when the program last showed that it is at it.
static ASKED: Mutex<Option<(u32, Instant)>> = Mutex::new(None);

/// The same, from the moment on that the signal comes: a child that it ended may be noticed before [`ASKED`] is.
static SIGNALLED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Where signals go while a program runs.
static PROGRAM: Mutex<Option<Line>> = Mutex::new(None);

/// From here on signals go to the program in the guest, and the window's new size too. They are handled and not blocked: what
/// is blocked, children inherit, and Ctrl-C would not end a compiler.
///
/// # Errors
/// If the kernel refuses.
pub fn take_over() -> Result<()> {
    let cannot = "cannot handle signals";
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(&SIGNALLED)).or_cause(cannot)?;
    }
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGWINCH]).or_cause(cannot)?;
    thread::spawn(move || {
        for signal in signals.forever() {
            let program = PROGRAM.lock().ok().and_then(|program| program.clone());
            let message = match signal {
                SIGWINCH => terminal::size().map(ToGuest::Resize),
                _ => {
                    if let Ok(mut asked) = ASKED.lock() {
                        asked.get_or_insert((0, Instant::now())).0 += 1;
                    }
                    Some(ToGuest::Signal(signal))
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

/// The program prints: it may be about to end, with much to print before that.
pub fn progress() {
    if let Ok(mut asked) = ASKED.lock()
        && let Some((_, since)) = &mut *asked
    {
        *since = Instant::now();
    }
}

/// Whether to give up: at once when no program runs; when one does, after a while, or when somebody insists.
///
/// # Errors
/// If so.
pub fn check() -> Result<()> {
    let asked = ASKED.lock().ok().and_then(|asked| *asked);
    let asked = asked.or_else(|| SIGNALLED.load(Ordering::Relaxed).then(|| (1, Instant::now())));
    let Some((times, since)) = asked else { return Ok(()) };
    let program = PROGRAM.lock().is_ok_and(|program| program.is_some());
    let wait = program && times < INSISTENCE && since.elapsed() < PATIENCE;
    if wait { Ok(()) } else { Err(Error::new("interrupted")) }
}
