//! Ctrl-C and similar signals: they go to the program in the guest while one runs, and otherwise to the lab itself.

use std::sync::Mutex;
use std::thread;

use common::{OrCause, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use wire::protocol::ToGuest;

use crate::host::interrupt;
use crate::line::Line;
use crate::terminal;

/// Where signals go while a program runs.
static PROGRAM: Mutex<Option<Line>> = Mutex::new(None);

/// From here on, signals and changes of the window's size go to the program in the guest. We handle signals and don't
/// block them: children inherit blocked signals, and then Ctrl-C would not end a compiler.
pub fn install_handlers() -> Result<()> {
    let cannot = "cannot handle signals";
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, interrupt::flag()).or_cause(cannot)?;
    }
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGWINCH]).or_cause(cannot)?;
    thread::spawn(move || {
        for signal in signals.forever() {
            let program = PROGRAM.lock().ok().and_then(|program| program.clone());
            let message = match signal {
                SIGWINCH => terminal::size().map(ToGuest::Resize),
                _ => {
                    interrupt::request_end();
                    Some(ToGuest::Signal(signal))
                }
            };
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
        interrupt::program_runs();
    }
}
