//! What is right for this example and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::process::Command;
use std::thread;

use common::Error;
use common::trace_pipe::Line;
use nix::unistd::{Pid, gettid};
use wire::command::output;

use crate::check::{Check, watch_while};
use crate::verdict::{Checked, expect};

/// See [`Check`].
pub const CHECK: Check = Check { exercises: &[("hello_clone.1", processes_and_threads)], ..Check::NONE };

fn processes_and_threads(binary: &str) -> Checked<String> {
    // The main thread starts a thread, and the thread starts a process.
    let (seen, started) = watch_while(&[binary], || {
        let thread = thread::spawn(|| output(&mut Command::new("true")).map(|_| gettid()));
        thread.join().map_err(|_| Error::new("a thread panicked"))?
    })?;
    let is_by = |thread: Pid, line: &Line<'_>| line.pid == thread.as_raw() as u32;
    let by = |thread: Pid| -> Vec<String> {
        let lines = seen.lines().into_iter().filter(|line| is_by(thread, line));
        lines.map(|line| format!("`{}`", line.message)).collect()
    };
    for (starter, who, what) in [(gettid(), "main", "A new thread"), (started, "other", "A new process")] {
        let found = by(starter);
        let line = format!("`Hello, World! {what}`");
        expect(
            found == [line.as_str()],
            format!("one line of the {who} thread, {starter}: {line}"),
            if found.is_empty() { "no line of it".to_owned() } else { found.join(", ") },
            seen.at_trace(|line| is_by(starter, line)),
        )?;
    }
    Ok("a thread that the main thread started, and a process that the other thread started".to_owned())
}
