//! What is right for this example and its exercises. The guest runs this, beside I/O of which it knows everything.

use std::process::Command;

use common::OrCause;
use nix::sys::signal::{Signal, kill};
use wire::command::output;

use crate::check::{Check, succeeded};
use crate::running::Running;
use crate::verdict::{Checked, expect, wrong};

/// See [`Check`].
pub const CHECK: Check = Check { exercises: &[("hello_perf_output.1", all_losses)], ..Check::NONE };

fn all_losses(binary: &str) -> Checked<String> {
    const FORKS: u64 = 224;
    let script = format!("i=0; while [ $i -lt {FORKS} ]; do (:); i=$((i + 1)); done");
    let mut verdicts = Vec::new();
    for channel in [&[][..], &["--ringbuf"]] {
        let program = Running::start(&[&[binary, "--pages", "1"], channel].concat())?;
        let pid = program.pid();
        kill(pid, Signal::SIGSTOP).or_cause("cannot stop the program")?;
        output(Command::new("sh").args(["-c", &script]))?;
        // It ends as soon as it continues, before another event can follow.
        kill(pid, Signal::SIGINT).or_cause("cannot signal the program")?;
        let seen = program.end(Signal::SIGCONT)?;
        succeeded(&seen)?;
        let last = seen.stdout.lines().rev().find_map(|line| line.strip_prefix("Events received: "));
        let counts = last.and_then(|line| {
            let (received, rest) = line.split_once(", not sent: ")?;
            let not_sent = rest.split(|c: char| !c.is_ascii_digit()).next()?;
            Some((received.parse::<u64>().ok()?, not_sent.parse::<u64>().ok()?))
        });
        let (received, not_sent) =
            counts.ok_or_else(|| wrong("a line `Events received: N, not sent: N`", "no such line", &seen))?;
        // The shell is one more, and the kernel may start threads.
        expect(
            (FORKS + 1..2 * FORKS).contains(&(received + not_sent)),
            format!(
                "{FORKS} events or a few more: a shell started that many processes while the program slept"
            ),
            format!("{received} received, {not_sent} not sent"),
            seen.at(|line| line.starts_with("Events received: ")),
        )?;
        verdicts.push(format!("{received} received and {not_sent} not sent"));
    }
    Ok(format!(
        "of the events of {FORKS} processes, {}; through the ring buffer, {}",
        verdicts[0], verdicts[1]
    ))
}
