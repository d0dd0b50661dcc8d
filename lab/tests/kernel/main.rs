//! Tests on real kernels: each kernel of the matrix is booted once, and each case is a named test on each of them.
//!
//! This one binary is both sides. On the host it boots the guests; in a guest, started as
//! `kernel-tests --in-guest CASE`, it runs the case there. A case is a function that panics if the kernel tells
//! something else than the truth.
//!
//! `cargo test --test kernel -- 6.1::` runs one kernel, `... stage03` one stage. With `LAB_SOAK=1` the long cases run too.

mod channels;
mod claims;
mod ctracer;
mod drift;
mod driver;
mod examples;
mod exercises;
mod guest;
mod hello;
mod latency;
mod pagecache;
mod requests;
mod scenario;
mod situations;
mod split;
mod stacks;
mod stages;
mod variants;
mod vmlinux;
mod writers;

use std::panic::catch_unwind;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{OrCause, Result};
use lab::host::tools::{DMSETUP, SETPRIV};
use lab::machine::kernels::{DEFAULT, MATRIX};
use lab::machine::vm::{Machine, Vm};
use lab::workbook::Workbook;
use libtest_mimic::{Arguments, Failed, Trial};

use crate::guest::Missed;

/// A case: runs in a guest and panics if something is not as it should be.
type Case = (&'static str, fn());

/// The cases that run on each kernel.
const CASES: [&[Case]; 15] = [
    stages::CASES,
    stacks::CASES,
    requests::CASES,
    pagecache::CASES,
    situations::CASES,
    drift::CASES,
    channels::CASES,
    examples::CASES,
    latency::CASES,
    hello::CASES,
    ctracer::CASES,
    scenario::CASES,
    writers::CASES,
    claims::CASES,
    split::CASES,
];

/// Makes cases of functions, named after them.
#[macro_export]
macro_rules! cases {
    ($($case:path),* $(,)?) => { &[$((stringify!($case), $case as fn())),*] };
}

/// How long one case may take in a guest.
const LIMIT: Duration = Duration::from_secs(180);
/// How long one of the long ones may take.
const SOAK_LIMIT: Duration = Duration::from_secs(1200);
/// How often a case is tried in which the kernel did not show some calls, see [`Missed`].
const TRIES: usize = 3;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().collect();
    match &arguments[1..] {
        [flag, case] if flag == "--in-guest" => in_guest(case),
        [flag, rest @ ..] if flag == "--load" => situations::load(rest),
        _ => on_host(&Arguments::from_args()),
    }
}

/// Runs one case here, in the guest.
fn in_guest(name: &str) -> ExitCode {
    let special = [stages::SOAK, pagecache::SOAK, ctracer::SOAK, situations::SPECIAL];
    let mut all = CASES.iter().chain(&special).copied().flatten();
    match all.find(|(case, _)| *case == name) {
        Some((_, case)) => {
            let mut tries = TRIES;
            while let Err(panic) = catch_unwind(case) {
                tries -= 1;
                if tries == 0 || !panic.is::<Missed>() {
                    return ExitCode::FAILURE;
                }
            }
            ExitCode::SUCCESS
        }
        None => panic!("there is no case {name}"),
    }
}

fn on_host(arguments: &Arguments) -> ExitCode {
    let fleet = Arc::new(Fleet::new(|kernel| boot(kernel, "")));
    let is_soak = std::env::var_os("LAB_SOAK").is_some();
    let soak: &[&[Case]] = if is_soak { &[stages::SOAK, pagecache::SOAK, ctracer::SOAK] } else { &[] };
    let mut trials = driver::trials();
    trials.extend(exercises::trials(is_soak));
    // Case by case and not kernel by kernel, so that tests that run at the same time use different guests.
    for (case, _) in CASES.iter().chain(soak).copied().flatten() {
        let is_slow = ctracer::SLOW.contains(case) && !is_soak;
        for (nth, series) in MATRIX.iter().enumerate() {
            if is_slow && nth != 0 && nth != MATRIX.len() - 1 {
                continue;
            }
            let fleet = fleet.clone();
            trials.push(Trial::test(format!("{}::{case}", series.name), move || fleet.run(nth, case)));
        }
    }
    let nth = MATRIX.iter().position(|series| series.name == DEFAULT).unwrap_or_default();
    let vmlinux = move || fleet.with(nth, |guest| vmlinux::is_like_the_kernels(guest).map_err(failed));
    trials.push(Trial::test(format!("{DEFAULT}::vmlinux_h_is_like_the_kernels_types"), vmlinux));
    // These leave the kernel unusable, so each has a guest of its own.
    for (case, _) in situations::SPECIAL {
        let is_at_boot = case.ends_with("at_boot");
        // What a kernel that was booted so says, it says at run time, too: one is enough.
        for series in MATRIX.iter().filter(|series| !is_at_boot || series.name == DEFAULT) {
            let append = if is_at_boot { "lockdown=confidentiality" } else { "" };
            let run = move || check(&mut boot(series.name, append)?, case);
            trials.push(Trial::test(format!("{}::{case}", series.name), move || run().map_err(failed)));
        }
    }
    let mut arguments = arguments.clone();
    // Two guests at a time: an emulated CPU takes a whole one.
    arguments.test_threads.get_or_insert(2);
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn failed(error: common::Error) -> Failed {
    error.to_string().into()
}

/// One guest for each kernel, booted when it is first needed.
struct Fleet {
    guests: [Mutex<Option<Vm>>; MATRIX.len()],
    boot: fn(&str) -> Result<Vm>,
}

impl Fleet {
    fn new(boot: fn(&str) -> Result<Vm>) -> Self {
        Self { guests: Default::default(), boot }
    }

    /// Gives the guest to a test. It is used again after a test that failed; one that broke answers no more.
    fn with(&self, nth: usize, test: impl FnOnce(&mut Vm) -> Result<(), Failed>) -> Result<(), Failed> {
        let mut slot = self.guests[nth].lock().map_err(|_| "another test of this kernel panicked")?;
        let mut guest = match slot.take() {
            Some(guest) => guest,
            None => (self.boot)(MATRIX[nth].name).map_err(failed)?,
        };
        let result = test(&mut guest);
        if guest.output(&["true"], LIMIT).is_ok() {
            *slot = Some(guest);
        }
        result
    }

    fn run(&self, nth: usize, case: &str) -> Result<(), Failed> {
        self.with(nth, |guest| check(guest, case).map_err(failed))
    }
}

/// Runs a case in a guest.
fn check(guest: &mut Vm, case: &str) -> Result<()> {
    let limit = if case.starts_with("soak") { SOAK_LIMIT } else { LIMIT };
    let output = guest.output(&["kernel-tests", "--in-guest", case], limit)?;
    if output.status == 0 {
        return Ok(());
    }
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), output.stderr);
    Err(common::Error::new("the case failed in the guest").evidence(said))
}

/// Boots a kernel of the matrix with all that the cases need.
fn boot(kernel: &str, append: &str) -> Result<Vm> {
    let workbook = Workbook::read()?;
    let folder = tempfile::tempdir().or_cause("cannot make a folder")?;
    let mut machine = Machine { append: append.to_owned(), ..Machine::new(&workbook, kernel)? };
    let ourselves = folder.path().join("kernel-tests");
    let this = std::env::current_exe().or_cause("cannot find ourselves")?;
    std::fs::copy(this, &ourselves).or_cause("cannot copy ourselves")?;
    machine.binaries.extend([ourselves, SETPRIV.find()?, DMSETUP.find()?]);
    for name in ["shout", "refused", "nested"] {
        let package = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/bpf").join(name);
        machine.binaries.push(common_build::build(&package, folder.path()).map_err(common::Error::new)?);
    }
    machine.binaries.push(lab::measure::channels::binary(&workbook)?);
    machine.binaries.extend(variants::binaries(&workbook)?);
    machine.boot()
}

/// The driver itself, `cargo lab`, as a command.
fn lab() -> Command {
    Command::new(env!("CARGO_BIN_EXE_lab"))
}
