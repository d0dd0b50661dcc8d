//! Prints the events that BPF programs send through a buffer, as they arrive.

use std::cell::RefCell;
use std::fmt::{Display, Write as _};
use std::io::{self, Write};
use std::time::{Duration, Instant};

use libbpf_rs::ErrorKind;

use crate::record::{self, Record};
use crate::stop::Stop;
use crate::{Error, OrCause, Result, report};

/// Lines of output, one per event.
#[derive(Debug)]
pub struct Lines {
    /// The run ends after this many lines.
    limit: u64,
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Lines that are not printed yet.
    text: String,
    count: u64,
    /// The error of an event that could not be read.
    error: Option<Error>,
}

impl Lines {
    /// Starts without lines; takes at most `limit`.
    pub fn new(limit: Option<u64>) -> Self {
        Self { limit: limit.unwrap_or(u64::MAX), state: RefCell::default() }
    }

    /// Adds the line that this makes. Once the limit is reached, it is not called.
    pub fn add<L: Display>(&self, line: impl FnOnce() -> L) {
        if self.count() < self.limit {
            let line = line();
            let mut state = self.state.borrow_mut();
            state.count += 1;
            let _ = writeln!(state.text, "{line}"); // a String takes everything
        }
    }

    /// Adds a line for an event. If the event's bytes are not a `T`, the next [`Lines::print`] fails.
    pub fn add_event<T: Record, L: Display>(&self, event: &[u8], line: impl FnOnce(T) -> L) {
        match record::read_rounded(event) {
            Ok(event) => self.add(|| line(event)),
            Err(error) => self.state.borrow_mut().error = Some(error),
        }
    }

    /// What a ring buffer calls with each record, to add its line.
    pub fn printing<T: Record, L: Display>(&self, line: impl Fn(T) -> L) -> impl Fn(&[u8]) -> i32 {
        move |record| {
            self.add_event(record, &line);
            0 // the next record, please
        }
    }

    /// How many lines were added so far.
    pub fn count(&self) -> u64 {
        self.state.borrow().count
    }

    /// Prints the lines as they come, until Ctrl-C, SIGTERM, the end of `duration`, or the limit of lines. `poll` waits
    /// for events at most as long as its argument, and adds their lines: `|timeout| perf_buffer.poll(timeout)`.
    pub fn follow(
        &self,
        duration: Option<Duration>,
        mut poll: impl FnMut(Duration) -> libbpf_rs::Result<()>,
    ) -> Result<()> {
        // A signal doesn't end the wait, so this is the longest time that Ctrl-C can take.
        const LOOK_AGAIN: Duration = Duration::from_millis(100);
        report::print_tracing("");
        let stop = Stop::new(duration)?;
        let end = duration.and_then(|duration| Instant::now().checked_add(duration));
        while !stop.is_over()? {
            let left = end.map_or(LOOK_AGAIN, |end| end.saturating_duration_since(Instant::now()));
            match poll(left.min(LOOK_AGAIN)) {
                // Somebody stopped us, for example with Ctrl-Z, and let us continue.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                polled => polled?,
            }
            if !self.print()? || self.count() == self.limit {
                break;
            }
        }
        Ok(())
    }

    /// After the programs were detached, adds what is still in a buffer with `consume`, and prints it.
    pub fn drain(&self, consume: impl FnOnce() -> libbpf_rs::Result<()>) -> Result<()> {
        consume()?;
        self.print().map(drop)
    }

    /// Prints the lines that were not printed yet. Returns false if nobody reads our output any more, as after
    /// `| head -3`.
    pub fn print(&self) -> Result<bool> {
        let State { text, error, .. } = &mut *self.state.borrow_mut();
        error.take().map_or(Ok(()), Err)?;
        let text = std::mem::take(text);
        match io::stdout().write_all(text.as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            other => other.map(|()| true).or_cause("cannot print the events"),
        }
    }
}

/// A task's name, as `bpf_get_current_comm()` returns it.
pub fn task_name(comm: [i8; 16]) -> String {
    text(&comm)
}

/// The text of a C string, as it can be printed.
pub fn text(bytes: &[i8]) -> String {
    let text: Vec<u8> = bytes.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
    printable(&String::from_utf8_lossy(&text))
}

/// Text that others chose, such as a name, as it can be printed in one line. A task can give itself any name, even one that
/// ends the line, moves the terminal's cursor, or changes the direction of the text.
pub fn printable(text: &str) -> String {
    let is_safe = |c: char| {
        let moves = ['\u{200e}', '\u{200f}'].contains(&c)
            || ('\u{2028}'..='\u{202e}').contains(&c)
            || ('\u{2066}'..='\u{2069}').contains(&c);
        c == '\t' || !c.is_control() && !moves
    };
    text.chars().map(|c| if is_safe(c) { c } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_moves_no_cursor() {
        let mut comm = [0; 16];
        comm[..11].copy_from_slice(&b"sh\x1b[2J\0rest".map(|byte| byte as i8));
        assert_eq!(task_name(comm), "sh?[2J");
        assert_eq!(printable("a\nb\u{9b}31m\u{202e}\u{2028}é"), "a?b?31m??é");
    }

    #[test]
    fn an_event_of_another_type_ends_the_run() {
        let lines = Lines::new(None);
        // A perf buffer rounds an event's size up, so we receive more bytes than were sent.
        lines.add_event(&[&7_u64.to_ne_bytes()[..], &[0; 4]].concat(), |number: u64| number);
        assert_eq!((lines.count(), lines.print()), (1, Ok(true)));
        lines.add_event(&[0; 4], |number: u64| number);
        assert!(lines.print().is_err());
    }

    #[test]
    fn enough_lines_end_the_run() {
        let lines = Lines::new(Some(3));
        let poll = |_| {
            (0..2).for_each(|nth| lines.add(|| nth));
            Ok(())
        };
        lines.follow(None, poll).unwrap();
        assert_eq!(lines.count(), 3);
    }

    #[test]
    fn a_duration_ends_the_run() {
        const DURATION: Duration = Duration::from_millis(5);
        let (lines, start, mut waited) = (Lines::new(None), Instant::now(), Duration::ZERO);
        let poll = |timeout| {
            std::thread::sleep(timeout);
            waited += timeout;
            Ok(())
        };
        lines.follow(Some(DURATION), poll).unwrap();
        // On a busy machine the run may take longer, but it must not have asked to wait longer.
        assert!(start.elapsed() >= DURATION && waited <= DURATION, "{waited:?}");
    }
}
