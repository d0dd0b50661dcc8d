//! Whether somebody asked the lab to end, as with Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use common::{Error, Result};

/// How long we wait for a program in the guest that was asked to end, and that prints nothing.
const QUIET_LIMIT: Duration = Duration::from_secs(60);

/// After how many requests we stop waiting for the program.
const REQUEST_LIMIT: u32 = 3;

/// How often somebody asked us to end, and when the program last printed something.
static ASKED: Mutex<Option<(u32, Instant)>> = Mutex::new(None);

/// Set as soon as the signal arrives. We may notice that the signal ended a child before [`ASKED`] is updated.
static SIGNALLED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Whether a program runs in the guest, which gets the signal first.
static PROGRAM_RUNS: AtomicBool = AtomicBool::new(false);

/// The flag that a signal handler sets.
pub(crate) fn flag() -> Arc<AtomicBool> {
    Arc::clone(&SIGNALLED)
}

/// Records that somebody asked us to end.
pub(crate) fn request_end() {
    if let Ok(mut asked) = ASKED.lock() {
        asked.get_or_insert((0, Instant::now())).0 += 1;
    }
}

/// From here on, a program in the guest gets the signal first.
pub(crate) fn program_runs() {
    PROGRAM_RUNS.store(true, Ordering::Relaxed);
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
    let wait = PROGRAM_RUNS.load(Ordering::Relaxed) && times < REQUEST_LIMIT && since.elapsed() < QUIET_LIMIT;
    if wait { Ok(()) } else { Err(Error::new("interrupted")) }
}
