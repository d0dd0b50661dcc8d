//! `make bench-lab`: the lab's budgets, measured on this machine.

use std::fs;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant, SystemTime};

use common::report::print_text;
use common::{Error, OrCause, Result};
use machine::host::tools::output;
use machine::kernels::{self, DEFAULT, MATRIX};
use machine::vm::{Machine, Vm};
use machine::workbook::{Program, Workbook};
use wire::arch::Arch;

use crate::measure::machine;

/// How many runs we take the median of.
const RUNS: usize = 3;

/// How long each program may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Measures and prints the table.
pub fn run(workbook: &Workbook) -> Result<ExitCode> {
    print_text(format_args!("{:<50} {:>10} {:>10}", "", "measured", "budget"))?;
    for series in MATRIX {
        let compare = median(|| kernels::find(Arch::HERE, series.name).map(drop))?;
        let compare = format!("{:.0} ms", compare.as_secs_f64() * 1e3);
        row(&format!("compare {} with the lock before it boots", series.name), &compare, "50 ms")?;
        let boot = median(|| {
            let mut guest = Machine::new(workbook, series.name)?.boot()?;
            guest.output(&["true"], LIMIT).map(drop)
        })?;
        row(&format!("boot {} to the first command", series.name), &seconds(boot), "6 s")?;
        let mut guest = machine(workbook, series.name)?.boot()?;
        let [ours, floor] = numbers(&mut guest, &["measure", "symbols"])?;
        let ratio = format!("{:.2}", ours as f64 / floor as f64);
        row(&format!("naming a stack on {}, to sorting kallsyms", series.name), &ratio, "1.3")?;
    }

    let first = workbook.catalog.stages.first().ok_or_else(|| Error::new("there are no stages"))?;
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
    row("edit a .bpf.c to its first line from a kernel", &seconds(edit), "12 s")?;

    let target = tempfile::tempdir().or_cause("cannot make a folder to build in")?;
    let start = Instant::now();
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    cargo
        .current_dir(&workbook.root)
        .args(["build", "--workspace", "--quiet", "--target-dir"])
        .arg(target.path());
    output(&mut cargo)?;
    row("clean build of the workspace", &seconds(start.elapsed()), "120 s")?;

    let mut guest = machine(workbook, DEFAULT)?.boot()?;
    for stage in &workbook.catalog.stages {
        let stripped = target.path().join(stage.binary());
        output(Command::new("strip").arg("-o").arg(&stripped).arg(workbook.binaries().join(stage.binary())))?;
        let bytes = fs::metadata(&stripped).or_cause("cannot look at the stripped binary")?.len();
        row(&format!("{}, stripped", stage.binary()), &mib(bytes), "2 MiB")?;
        let [running, most] = numbers(&mut guest, &["measure", "memory", &stage.binary()])?;
        row(&format!("{}, memory running", stage.binary()), &mib(running << 10), "12 MiB")?;
        let names = stage.new.iter().any(|new| new == "BPF_MAP_TYPE_STACK_TRACE");
        let budget = if names { "16 MiB" } else { "12 MiB" };
        row(&format!("{}, memory at most", stage.binary()), &mib(most << 10), budget)?;
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

fn row(what: &str, measured: &str, budget: &str) -> Result<()> {
    print_text(format_args!("{what:<50} {measured:>10} {:>10}", format!("<= {budget}")))
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// The two numbers that a program in the guest prints.
fn numbers(guest: &mut Vm, argv: &[&str]) -> Result<[u64; 2]> {
    let printed = guest.output(argv, LIMIT)?;
    let text = String::from_utf8_lossy(&printed.stdout).into_owned();
    let numbers: Vec<_> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let broken =
        |_| Error::new(format!("{} did not print two numbers", argv.join(" "))).evidence(printed.stderr);
    numbers.try_into().map_err(broken)
}
