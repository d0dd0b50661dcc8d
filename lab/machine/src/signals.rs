//! Ctrl-C and similar signals: they go to the program in the guest while one runs, and otherwise to the lab itself, which
//! looks often whether somebody asked it to end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use common::{Error, OrCause, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use wire::protocol::ToGuest;

use crate::line::Line;
use crate::terminal;

/// How long we wait for a program in the guest that was asked to end, and that prints nothing.
const QUIET_LIMIT: Duration = Duration::from_secs(60);

/// After how many requests we stop waiting for the program.
const REQUEST_LIMIT: u32 = 3;

/// Where signals go while a program runs.
static PROGRAM: Mutex<Option<Line>> = Mutex::new(None);

/// How often somebody asked us to end, and when the program last printed something.
static ASKED: Mutex<Option<(u32, Instant)>> = Mutex::new(None);

/// Set as soon as the signal arrives. We may notice that the signal ended a child before [`ASKED`] is updated.
static SIGNALLED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From here on, signals and changes of the window's size go to the program in the guest. We handle signals and don't
/// block them: children inherit blocked signals, and then Ctrl-C would not end a compiler.
pub fn install_handlers() -> Result<()> {
    let cannot = "cannot handle signals";
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(&SIGNALLED)).or_cause(cannot)?;
    }
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGWINCH]).or_cause(cannot)?;
    thread::spawn(move || {
        for signal in signals.forever() {
            let message = if signal == SIGWINCH {
                terminal::size().map(ToGuest::Resize)
            } else {
                if let Ok(mut asked) = ASKED.lock() {
                    asked.get_or_insert((0, Instant::now())).0 += 1;
                }
                Some(ToGuest::Signal(signal))
            };
            let program = PROGRAM.lock().ok().and_then(|program| program.clone());
            if let (Some(line), Some(message)) = (program, message) {
                // If the guest is gone, whoever waits for it will notice.
                let _ = line.send(&message);
            }
        }
    });
    Ok(())
}

/// From here on, signals go to the program at the other end of this connection.
pub fn pass_to(line: Line) {
    if let Ok(mut program) = PROGRAM.lock() {
        *program = Some(line);
    }
}

/// Records that the program prints: it may be about to end, but have much to print before that.
pub fn progress() {
    if let Ok(mut asked) = ASKED.lock()
        && let Some((_, since)) = &mut *asked
    {
        *since = Instant::now();
    }
}

/// Checks whether to give up: immediately if no program runs; otherwise after a while, or when somebody insists.
pub fn check() -> Result<()> {
    let asked = ASKED.lock().ok().and_then(|asked| *asked);
    let asked = asked.or_else(|| SIGNALLED.load(Ordering::Relaxed).then(|| (1, Instant::now())));
    let Some((times, since)) = asked else { return Ok(()) };
    let program_runs = PROGRAM.lock().is_ok_and(|program| program.is_some());
    let wait = program_runs && times < REQUEST_LIMIT && since.elapsed() < QUIET_LIMIT;
    if wait { Ok(()) } else { Err(Error::new("interrupted")) }
}
