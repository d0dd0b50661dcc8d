//! The guest's half of the lab's budgets: memory, and naming a stack.

use std::fs;
use std::time::Instant;

use common::symbols::Stack;
use common::{Error, OrCause, Result};
use guest::running::{Running, io};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::Signal;

/// In the guest: how many KiB of memory a stage has resident after it has seen some I/O, and its peak. The peak may
/// come while it loads, when libbpf holds the kernel's BTF twice, or at its end, when it looks up functions.
///
/// # Errors
/// If the stage does not run.
pub fn memory(stage: &str) -> Result<[u64; 2]> {
    let running = Running::start(&[stage])?;
    io(&["write", "/dev/scratch", "--count", "1000"])?;
    let status = fs::read_to_string(format!("/proc/{}/status", running.pid()))
        .or_cause("cannot read the stage's status")?;
    running.end(Signal::SIGINT)?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    let resident = resident.and_then(|kib| kib.parse().ok());
    let resident =
        resident.ok_or_else(|| Error::new("the kernel does not report memory usage").evidence(&status))?;
    // The children are the stage and `io`, which uses little memory.
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).or_cause("the kernel does not report memory usage")?;
    Ok([resident, usage.max_rss() as u64])
}

/// In the guest: how many ns it takes to look up the names of a stack's functions, and how many to read, parse and
/// sort `/proc/kallsyms`, for comparison. Each is the fastest of several runs.
pub fn symbols() -> Result<[u64; 2]> {
    const FRAMES: usize = 12;
    let (mut ours, mut floor) = (u64::MAX, u64::MAX);
    for _ in 0..5 {
        let start = Instant::now();
        let text = fs::read_to_string("/proc/kallsyms").or_cause("cannot read /proc/kallsyms")?;
        let symbol = |line: &str| {
            let (address, rest) = line.split_once(' ')?;
            Some((u64::from_str_radix(address, 16).ok()?, rest.get(2..)?.to_owned()))
        };
        let mut symbols: Vec<_> = text.lines().filter_map(symbol).collect();
        symbols.sort_unstable_by_key(|(address, _)| *address);
        floor = floor.min(start.elapsed().as_nanos() as u64);

        let functions = symbols.iter().filter(|(address, _)| *address > u64::MAX << 32).step_by(1000);
        let stack: Vec<u64> = functions.take(FRAMES).map(|(address, _)| *address).collect();
        drop((symbols, text));
        let start = Instant::now();
        let named = Stack::new(&stack, 0);
        ours = ours.min(start.elapsed().as_nanos() as u64);
        if !matches!(&named, Stack::Recorded { frames, nameless: None, .. } if frames.len() == FRAMES) {
            return Err(Error::new("the stack got no names").evidence(named));
        }
    }
    Ok([ours, floor])
}
