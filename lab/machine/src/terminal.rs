//! The user's terminal.

use std::io::{self, IsTerminal, Read, Write};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use common::{OrCause, Result};
use nix::sys::termios::{self, SetArg, Termios};
use rustix::termios::tcgetwinsize;
use wire::protocol::{Size, Terminal, ToGuest};

use crate::line::Line;

/// The size of the user's window, if there is one.
pub fn size() -> Option<Size> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_row > 0).then_some(Size { rows: size.ws_row, cols: size.ws_col })
}

/// How long a line of prose may be: the width of the user's window, but not more than what reads well.
pub fn columns() -> usize {
    const READABLE: usize = 100;
    size().map_or(READABLE, |size| usize::from(size.cols).min(READABLE))
}

/// A terminal like the user's, for a program in the guest.
pub fn for_guest() -> Terminal {
    let kind = std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned());
    Terminal { kind, size: size().unwrap_or(Size { rows: 24, cols: 80 }) }
}

/// The user's terminal in raw mode: every key goes to the guest, including Ctrl-C. Dropping it restores the terminal.
#[derive(Debug)]
pub struct Raw(Option<Termios>);

impl Raw {
    pub fn new() -> Result<Self> {
        if !io::stdin().is_terminal() {
            return Ok(Self(None));
        }
        let normal = termios::tcgetattr(io::stdin()).or_cause("cannot read the terminal's settings")?;
        let mut raw = normal.clone();
        termios::cfmakeraw(&mut raw);
        termios::tcsetattr(io::stdin(), SetArg::TCSANOW, &raw).or_cause("cannot set the terminal to raw")?;
        Ok(Self(Some(normal)))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(normal) = &self.0 {
            let _ = termios::tcsetattr(io::stdin(), SetArg::TCSADRAIN, normal);
        }
    }
}

/// Passes on what the user types, and Ctrl-D at the end of the input.
pub fn pass_keys(line: Line) {
    const AGAIN: Duration = Duration::from_millis(500);
    thread::spawn(move || {
        let (mut keys, mut last) = ([0; 4096], b'\n');
        while let Ok(read @ 1..) = io::stdin().read(&mut keys) {
            last = keys[read - 1];
            if line.send(&ToGuest::Input(keys[..read].to_vec())).is_err() {
                return;
            }
        }
        // Ctrl-D ends a shell only at the start of a line, and only while the shell waits for input.
        let mut end = if last == b'\n' { vec![4] } else { vec![b'\n', 4] };
        while line.send(&ToGuest::Input(end)).is_ok() {
            end = vec![4];
            thread::sleep(AGAIN);
        }
    });
}

/// Prints in color to a terminal whose user wants color: see <https://no-color.org>.
pub fn print(text: &str) -> Result<ExitCode> {
    match anstream::stdout().write_all(text.as_bytes()) {
        // The reader has gone away, as `head -3` does.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        other => other.or_cause("cannot print")?,
    }
    Ok(ExitCode::SUCCESS)
}
