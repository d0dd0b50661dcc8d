//! In the guest: runs a stage for somebody who watches it, and a workload beside it.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use clap::Parser;
use common::report::print_text;
use common::{Error, OrCause, Result};
use nix::sys::signal::{SigSet, Signal};
use wire::command::{ATTACHED, lines};
use wire::workload::{Clock, Io, Workload};

use crate::running::done;
use crate::truth;
use crate::workload::prepare;

/// Runs a program whose output goes straight on. From the moment it is attached until it ends, repeats a workload
/// beside it, with pauses. The workload's file is there before, so the program doesn't see how it was made. If the workload
/// reads its own clock, prints at the end what that says, and what iostat(1) would say. Ctrl-C goes to the program. Before
/// there is one, it ends us.
pub fn beside(argv: &[String], workload: &Workload) -> Result<ExitStatus> {
    let [name, args @ ..] = argv else { return Err(Error::new("no program was named")) };
    if let Workload::Io(args) = workload {
        let io = Io::try_parse_from(["io"].into_iter().chain(args.iter().map(String::as_str)));
        prepare(io.or_cause("this is not a workload")?.kind.parts().1)?;
        // What the file system notes about the file, too.
        nix::unistd::sync();
    }
    // From here on, the program gets these. It ends, and then so do we.
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    signals.thread_block().or_cause("cannot block signals")?;
    let mut child = Command::new(name)
        .args(args)
        .stderr(Stdio::piped())
        .spawn()
        .or_cause(format!("cannot start {name}"))?;
    let stderr = child.stderr.take();
    let clocks = Arc::new(Mutex::new(Vec::new()));
    let (workload, of_io) = (workload.clone(), clocks.clone());
    let before = match workload {
        Workload::Io(_) => truth::disk_times()?,
        Workload::None => (0, 0),
    };
    let stderr = thread::spawn(move || {
        for line in lines(stderr) {
            eprintln!("{line}");
            if let (true, Workload::Io(args)) = (line.starts_with(ATTACHED), &workload) {
                let (args, of_io) = (args.clone(), of_io.clone());
                thread::spawn(move || repeat(&args, &of_io));
            }
        }
    });
    let status = child.wait().or_cause("cannot wait for the program")?;
    let _ = stderr.join();
    let clocks = clocks.lock().unwrap_or_else(PoisonError::into_inner);
    if !clocks.is_empty() {
        let after = truth::disk_times()?;
        print_text(both_clocks(&clocks, after.0.saturating_sub(before.0), after.1.saturating_sub(before.1)))?;
    }
    Ok(status)
}

/// What the workload's clock says of all rounds together, and what iostat(1) would print as `await` for the disks' I/Os,
/// which took so many milliseconds.
fn both_clocks(clocks: &[Clock], ios: u64, ms: u64) -> String {
    let of = |clock: &Clock| clock.reads + clock.writes;
    let count: u64 = clocks.iter().map(of).sum();
    let us: f64 = clocks.iter().map(|clock| clock.mean_us * of(clock) as f64).sum();
    let what = match clocks.iter().map(|clock| clock.reads).sum() {
        0 => "writes",
        reads if reads == count => "reads",
        _ => "I/Os",
    };
    format!(
        "io: its {count} {what} took {:.2} ms on average, by its own clock. iostat would show an await of {:.2} ms.",
        us / 1e3 / count.max(1) as f64,
        ms as f64 / ios.max(1) as f64
    )
}

/// Repeats `io` until this process ends. Notes what its clock said in each round, if it has one.
fn repeat(args: &[String], clocks: &Mutex<Vec<Clock>>) {
    const PAUSE: Duration = Duration::from_secs(1);
    // In its own process group: Ctrl-C is for the stage, and must not interrupt an I/O.
    loop {
        match done(Command::new("io").args(args).process_group(0)) {
            Ok(done) => clocks.lock().unwrap_or_else(PoisonError::into_inner).extend(done.clock),
            Err(error) => return eprintln!("Error: {error}\n  From here on, there is no I/O."),
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_are_in_one_line() {
        let clock = |times: [&[u64]; 3]| Clock::new(times.map(<[u64]>::to_vec), 1);
        let writes = [clock([&[], &[1_000_000, 2_000_000], &[]]), clock([&[], &[6_000_000], &[]])];
        insta::assert_snapshot!(both_clocks(&writes, 4, 10), @"io: its 3 writes took 3.00 ms on average, by its own clock. iostat would show an await of 2.50 ms.");
        let mixed = [clock([&[1_000_000], &[2_000_000], &[]])];
        assert!(both_clocks(&mixed, 2, 3).starts_with("io: its 2 I/Os took 1.50 ms"));
    }
}
