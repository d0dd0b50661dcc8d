//! `make bench-lab`: the lab's budgets, measured on this machine.

use std::fs;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant, SystemTime};

use common::{Error, OrCause, Result};
use nix::sys::signal::Signal;

use crate::kernels::{DEFAULT, MATRIX};
use crate::observe::{Stage as Running, io};
use crate::tools::output;
use crate::vm::Machine;
use crate::workbook::Workbook;

/// Times are the median of so many runs.
const RUNS: usize = 3;

/// How long any of the programs may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Measures and prints.
///
/// # Errors
/// If something can't be measured.
pub fn run(workbook: &Workbook) -> Result<ExitCode> {
    println!("{:<50} {:>10} {:>10}", "", "measured", "budget");
    for series in MATRIX {
        let boot = median(|| {
            let mut guest = Machine::new(workbook, series.name)?.boot()?;
            guest.output(&["true"], LIMIT).map(drop)
        })?;
        row(&format!("boot {} to the first command", series.name), &seconds(boot), "6 s");
    }

    let first = workbook.stages.first().ok_or_else(|| Error::new("there are no stages"))?;
    let [source, _] = first.sources()?;
    let edit = median(|| {
        let file = fs::File::options().append(true).open(&source).or_cause("cannot open the BPF source")?;
        file.set_modified(SystemTime::now()).or_cause("cannot touch the BPF source")?;
        let mut guest = Machine::new(workbook, DEFAULT)?.boot()?;
        let argv = ["guest", "beside", "--io", "write /dev/scratch", &first.binary(), "--lines", "1"];
        let seen = guest.output(&argv, LIMIT)?;
        if seen.stdout.is_empty() {
            Err(Error::new("the stage printed nothing").evidence(seen.stderr))
        } else {
            Ok(())
        }
    })?;
    row("edit a .bpf.c to its first line from a kernel", &seconds(edit), "12 s");

    let target = tempfile::tempdir().or_cause("cannot make a folder to build in")?;
    let start = Instant::now();
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    cargo
        .current_dir(&workbook.root)
        .args(["build", "--workspace", "--quiet", "--target-dir"])
        .arg(target.path());
    output(&mut cargo)?;
    row("clean build of the workspace", &seconds(start.elapsed()), "120 s");

    let mut guest = Machine::new(workbook, DEFAULT)?.boot()?;
    for stage in &workbook.stages {
        let stripped = target.path().join(stage.binary());
        output(Command::new("strip").arg("-o").arg(&stripped).arg(workbook.binaries().join(stage.binary())))?;
        let bytes = fs::metadata(&stripped).or_cause("cannot look at the stripped binary")?.len();
        row(&format!("{}, stripped", stage.binary()), &mib(bytes), "2 MiB");
        let memory = guest.output(&["guest", "memory", &stage.binary()], LIMIT)?;
        let memory = String::from_utf8_lossy(&memory.stdout).into_owned();
        let numbers =
            memory.split_whitespace().map(|kib| kib.parse::<u64>().or_cause("the guest tells no number"));
        for (kib, when) in numbers.zip(["running", "at most, while loading"]) {
            row(&format!("{}, memory {when}", stage.binary()), &mib(kib? << 10), "12 MiB");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn median(mut run: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[RUNS / 2])
}

fn row(what: &str, measured: &str, budget: &str) {
    println!("{what:<50} {measured:>10} {:>10}", format!("<= {budget}"));
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// In the guest: how many KiB of memory a stage has resident after it has seen some I/O, and the most it ever had:
/// libbpf holds the kernel's BTF twice while it loads a program with CO-RE relocations.
///
/// # Errors
/// If the stage does not run.
pub fn memory(stage: &str) -> Result<[u64; 2]> {
    let running = Running::start(&[stage])?;
    io(&["write", "/dev/scratch", "--count", "1000"])?;
    let status =
        fs::read_to_string(format!("/proc/{}/status", running.pid())).or_cause("cannot look at the stage")?;
    running.end(Signal::SIGINT)?;
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"));
        value
            .and_then(|kib| kib.parse().ok())
            .ok_or_else(|| Error::new("the kernel does not tell memory").evidence(&status))
    };
    Ok([field("VmRSS:")?, field("VmHWM:")?])
}
