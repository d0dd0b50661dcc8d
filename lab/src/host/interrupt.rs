//! Whether somebody asked the lab to end, as with Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use common::{Error, Result};

/// How long a program in the guest may print nothing, and not end, when it was asked to.
const QUIET_LIMIT: Duration = Duration::from_secs(60);

/// How often somebody may ask until we no longer wait for the program.
const REQUEST_LIMIT: u32 = 3;

/// How often somebody asked us to end, and when the program last showed that it is at it.
static ASKED: Mutex<Option<(u32, Instant)>> = Mutex::new(None);

/// The same, from the moment on that the signal comes: a child that it ended may be noticed before [`ASKED`] is.
static SIGNALLED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Whether a program runs in the guest, to which it is passed on.
static PROGRAM_RUNS: AtomicBool = AtomicBool::new(false);

/// What a signal handler sets.
pub(crate) fn flag() -> Arc<AtomicBool> {
    Arc::clone(&SIGNALLED)
}

/// Somebody asks us to end.
pub(crate) fn request_end() {
    if let Ok(mut asked) = ASKED.lock() {
        asked.get_or_insert((0, Instant::now())).0 += 1;
    }
}

/// From here on a program in the guest is asked first.
pub(crate) fn program_runs() {
    PROGRAM_RUNS.store(true, Ordering::Relaxed);
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
    let wait = PROGRAM_RUNS.load(Ordering::Relaxed) && times < REQUEST_LIMIT && since.elapsed() < QUIET_LIMIT;
    if wait { Ok(()) } else { Err(Error::new("interrupted")) }
}
