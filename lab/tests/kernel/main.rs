//! Tests on real kernels. Each kernel of the matrix boots once, and each case is a named test on each of them.
//!
//! This one binary is both sides. On the host, it boots the guests; in a guest, started as
//! `kernel-tests --in-guest CASE`, it runs the case. A case is a function that panics if a program does not report the
//! truth.
//!
//! `cargo test --test kernel -- 6.1::` runs one kernel, `... stage03` one stage. With `LAB_SOAK=1`, all cases run on all
//! kernels, and some take long: see [`or_soak`]. At the end, it prints the slowest cases; with `LAB_TIMES=1`, all cases with
//! the time that each took.
//!
//! With `LAB_PREVIEW=1`, the cases and the exercises run on the kernels that are not released yet, and on no others.
//!
//! With `LAB_ARCH=arm64`, the guests are of that architecture. Then the cases run that prove what the programs print, but
//! not those of the lab itself.
//!
//! A new case runs on all four kernels. If it doesn't need to, mark it in its list: [`Mark`].
//!
//! If a case needs time while a slow disk is busy, it uses `long_enough()` from `lab/guest/src/null_blk.rs`, which makes the
//! disk slower until the time is long enough. To check a latency, compare it with two times: with the disk's configured
//! time, which is the least it can be, and with the measured time around that very I/O, which is the most (`one_by_one()`).
//! A factor such as 1.5 fits only the machine on which you measured it.

mod biowhere;
mod biowhere_and_others;
mod claims;
mod clinic;
mod containers;
mod ctracer;
mod driver;
mod examples;
mod exercises;
mod functions;
mod guest;
mod hello;
mod latency;
mod multipath;
mod mystery;
mod pagecache;
mod prove;
mod questions;
mod refusals;
mod requests;
mod scenario;
mod situations;
mod slow_disk;
mod split;
mod stacks;
mod stages;
mod take_home;
mod variants;
mod workload;
mod writers;
mod zoned;

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use common::{OrCause, Result};
use libtest_mimic::{Arguments, Trial};
use machine::cross;
use machine::host::tools::{FIO, MKFS_BTRFS, SETPRIV, Tool, output};
use machine::kernels::{DEFAULT, MATRIX, PREVIEWS, Series, Trait};
use machine::vm::{Machine, Vm};
use machine::workbook::Workbook;
use wire::arch::Arch;

use crate::guest::Missed;

/// A case: runs in a guest, by its name, and panics if something is wrong.
type Case = (&'static str, fn(&str), &'static [Mark]);

/// What is special about a case.
#[derive(Clone, Copy, PartialEq)]
enum Mark {
    /// It runs on the oldest and the newest kernel, and with `LAB_SOAK=1` also on those between: how programs begin and
    /// end, what they refuse, variants of stages, and whatever is the same on all kernels. A case that proves a number
    /// that a stage prints has no such mark.
    Outer,
    /// It runs only on the default kernel, and with `LAB_SOAK=1` on all: an error that a program finds without asking the
    /// kernel, or that every kernel reports in the same way, what a filter in a program leaves out, or a heavy case whose
    /// subject is the program rather than the kernel.
    Once,
    /// It leaves the kernel unusable, so it has its own guest.
    Alone,
    /// Its guest has an NVMe disk with two paths.
    TwoPaths,
    /// Its guest has fio.
    Fio,
    /// Its guest has blkbook.
    Blkbook,
    /// It needs exact times, see [`Trait::CountsOnTwo`].
    Counted,
    /// It compares a kernel with the book's pictures and stories or the editor's data, which are those of x86_64, or has
    /// a SCSI disk whose errors we control, which Debian's cloud kernels for arm64 don't have.
    X86,
    /// Its programs need no fentry, so it is right on older kernels for arm64, too.
    NoFentry,
}

/// All cases but those of mysteries, and of each stage by its own check.
const CASES: &[&[Case]] = &[
    stages::CASES,
    stacks::CASES,
    requests::CASES,
    pagecache::CASES,
    prove::CASES,
    situations::CASES,
    refusals::CASES,
    slow_disk::CASES,
    examples::CASES,
    latency::CASES,
    biowhere::CASES,
    biowhere_and_others::CASES,
    hello::CASES,
    functions::CASES,
    ctracer::CASES,
    scenario::CASES,
    writers::CASES,
    claims::CASES,
    split::CASES,
    containers::CASES,
    zoned::CASES,
    questions::CASES,
    multipath::CASES,
    take_home::CASES,
    workload::CASES,
];

fn cases() -> impl Iterator<Item = Case> {
    CASES.iter().copied().flatten().copied().chain(stages::by_their_checks()).chain(mystery::cases())
}

/// Whether to run every case on every kernel. The guest asks, too.
fn is_soak() -> bool {
    std::env::var_os("LAB_SOAK").is_some()
}

/// How much of something a case does: usually, and with `LAB_SOAK=1`.
fn or_soak<T>(usual: T, soak: T) -> T {
    if is_soak() { soak } else { usual }
}

fn is_preview() -> bool {
    std::env::var_os("LAB_PREVIEW").is_some()
}

/// The kernels to test on, oldest first.
static KERNELS: LazyLock<Vec<Series>> =
    LazyLock::new(|| if is_preview() { PREVIEWS.to_vec() } else { MATRIX.to_vec() });

/// Makes cases from functions with their marks, such as `a_case(Outer, X86)`, and names them after the functions.
#[macro_export]
macro_rules! cases {
    ($($case:ident $(($($mark:ident),*))?),* $(,)?) => {
        &[$((stringify!($case), |_| $case(), &[$($($crate::Mark::$mark),*)?])),*]
    };
}

/// How long one case may take in a guest. No case comes close. A busy machine makes cases slow, but only one that
/// waits for something that never happens should end here.
const LIMIT: Duration = Duration::from_secs(1200);
/// How long one of the long cases may take.
const SOAK_LIMIT: Duration = Duration::from_secs(7200);
/// How long a guest may take to boot, even on a very busy machine.
const BOOT_LIMIT: Duration = Duration::from_secs(600);
/// How often we try a case in which the kernel did not show some calls, see [`Missed`], or the emulated disk lost an
/// I/O, see [`guest::lost_io`]. On a busy machine, both happen more often.
const TRIES: usize = 30;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().collect();
    match &arguments[1..] {
        [flag, case] if flag == "--in-guest" => in_guest(case),
        _ => on_host(&Arguments::from_args()),
    }
}

/// Runs one case in this guest.
fn in_guest(name: &str) -> ExitCode {
    let found = cases().find(|(case, ..)| *case == name);
    let (_, case, _) = found.unwrap_or_else(|| panic!("there is no case {name}"));
    for _ in 0..TRIES {
        let before = guest::lost_io();
        let Err(panic) = catch_unwind(|| case(name)) else { return ExitCode::SUCCESS };
        let lost = guest::lost_io().filter(|line| before.as_ref() != Some(line));
        if let Some(line) = &lost {
            eprintln!("the emulated disk lost an I/O: {line}");
        }
        if lost.is_none() && !panic.is::<Missed>() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::FAILURE
}

fn on_host(arguments: &Arguments) -> ExitCode {
    if KERNELS.is_empty() {
        eprintln!("Error: all kernels of the workbook are released, so there is no preview to test");
        return ExitCode::FAILURE;
    }
    let mut suites = vec![trials(), exercises::trials()];
    // The others are about the kernels of the matrix, or the same on all.
    if arch() == Arch::HERE && !is_preview() {
        suites.extend([driver::trials(), clinic::trials()]);
    }
    let mut arguments = arguments.clone();
    // An emulated guest uses a whole CPU while it works, but about a third of the time it waits for a slow disk or
    // for RCU. And two tests may want the same guest. So even on two CPUs we run six tests at a time.
    arguments.test_threads.get_or_insert(6);
    let trials = mixed(suites);
    if let Some(filter) = &arguments.filter
        && !trials.iter().any(|trial| trial.name().contains(filter.as_str()))
    {
        eprintln!("No case has {filter:?} in its name. To list them: cargo test --test kernel -- --list");
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    print_slowest();
    conclusion.exit_code()
}

/// The cases, each on the kernels that its marks allow.
fn trials() -> Vec<Trial> {
    let usual = Fleet::new(|kernel| boot(kernel, |machine| machine));
    let with_paths = Fleet::new(|kernel| boot(kernel, multipath::with_disk));
    let with_fio = Fleet::new(boot_with_fio);
    let with_blkbook = Fleet::new(take_home::boot);
    let counting = Fleet::new(|kernel| boot(kernel, Machine::counting));
    let mut trials = Vec::new();
    for (case, _, marks) in cases() {
        let is = |mark| marks.contains(&mark);
        for (nth, series) in KERNELS.iter().enumerate() {
            let is_default = series.name == DEFAULT || is_preview();
            let is_outer = nth == 0 || nth == KERNELS.len() - 1;
            let is_left_out = is(Mark::Outer) && !is_outer || is(Mark::Once) && !is_default;
            if is_left_out && !is_soak() || is_impossible(marks, series) {
                continue;
            }
            let fleet = if is(Mark::Alone) {
                Fleet::new(|kernel| boot(kernel, |machine| machine))
            } else if is(Mark::TwoPaths) {
                with_paths.clone()
            } else if is(Mark::Fio) {
                with_fio.clone()
            } else if is(Mark::Blkbook) {
                with_blkbook.clone()
            } else if is(Mark::Counted) && series.has(Trait::CountsOnTwo) {
                counting.clone()
            } else {
                usual.clone()
            };
            trials.push(fleet.trial(nth, case, |guest| check(guest, case)));
        }
    }
    // One kernel shows that what was ejected does the same.
    let ejected = Fleet::new(take_home::boot_ejected);
    let default = KERNELS.iter().position(|series| series.name == DEFAULT && arch() == Arch::HERE);
    if let Some(nth) = default {
        for (case, ..) in stages::by_their_checks().filter(|(case, ..)| take_home::is_ejected(case)) {
            trials.push(ejected.trial(nth, &format!("ejected_{case}"), |guest| check(guest, case)));
        }
    }
    trials
}

/// Mixes the tests of all suites and kernels evenly, so those that run at the same time use different guests.
fn mixed(suites: Vec<Vec<Trial>>) -> Vec<Trial> {
    let mut lanes: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (suite, trials) in suites.into_iter().enumerate() {
        for trial in trials {
            let kernel = trial.name().split("::").next().unwrap_or_default().to_owned();
            lanes.entry((suite, kernel)).or_default().push(trial);
        }
    }
    let mut all: Vec<_> = lanes
        .into_values()
        .flat_map(|lane| {
            let length = lane.len() as f64;
            lane.into_iter().enumerate().map(move |(nth, trial)| ((nth as f64 + 0.5) / length, trial))
        })
        .collect();
    all.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    all.into_iter().map(|(_, trial)| trial).collect()
}

/// How long each case took, without the wait for its guest, and how long each boot took; and the guest's CPU time,
/// which does not depend on what else the machine does.
static TIMES: Mutex<Vec<(Duration, Option<Duration>, String)>> = Mutex::new(Vec::new());

fn note_time(name: String, begin: Instant, cpu_time: Option<Duration>) {
    TIMES.lock().unwrap_or_else(PoisonError::into_inner).push((begin.elapsed(), cpu_time, name));
}

/// Prints the ten slowest cases, or all of them with `LAB_TIMES=1`.
fn print_slowest() {
    let mut times = std::mem::take(&mut *TIMES.lock().unwrap_or_else(PoisonError::into_inner));
    times.sort_by(|one, other| other.cmp(one));
    let shown = times.len().min(if std::env::var_os("LAB_TIMES").is_some() { usize::MAX } else { 10 });
    println!("The {shown} slowest of {} cases and boots:", times.len());
    for (time, cpu_time, name) in &times[..shown] {
        let cpu_time = cpu_time.map_or(String::new(), |time| format!("{:.1}", time.as_secs_f64()));
        println!("{:7.1} s, {cpu_time:>6} s of CPU  {name}", time.as_secs_f64());
    }
}

/// A test that boots its own guests.
fn trial(name: String, test: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name.clone(), move || {
        let begin = Instant::now();
        let result = test();
        note_time(name, begin, None);
        result.map_err(|error| error.to_string().into())
    })
}

/// One guest for each kernel, booted when it is first needed.
struct Fleet {
    guests: Vec<Mutex<Option<Vm>>>,
    boot: fn(&str) -> Result<Vm>,
}

impl Fleet {
    fn new(boot: fn(&str) -> Result<Vm>) -> Arc<Self> {
        Arc::new(Self { guests: KERNELS.iter().map(|_| Mutex::default()).collect(), boot })
    }

    /// A test that uses one of the guests.
    fn trial(
        self: &Arc<Self>,
        nth: usize,
        what: &str,
        test: impl FnOnce(&mut Vm) -> Result<()> + Send + 'static,
    ) -> Trial {
        let (fleet, name) = (self.clone(), format!("{}::{what}", KERNELS[nth].name));
        Trial::test(name.clone(), move || {
            fleet.with(nth, name, test).map_err(|error| error.to_string().into())
        })
    }

    /// Gives the guest to a test. After a test fails, the guest is used again, because a broken guest would not
    /// answer. If the test panics here, on the host, its guest ends, and the next test gets a new one.
    fn with(&self, nth: usize, name: String, test: impl FnOnce(&mut Vm) -> Result<()>) -> Result<()> {
        // A test takes the guest out of its slot, so a panic leaves an empty slot.
        let mut slot = self.guests[nth].lock().unwrap_or_else(PoisonError::into_inner);
        let mut guest = match slot.take() {
            Some(guest) => guest,
            None => {
                let begin = Instant::now();
                let guest = (self.boot)(KERNELS[nth].name)?;
                note_time(format!("a boot before {name}"), begin, guest.cpu_time());
                guest
            }
        };
        let (begin, before) = (Instant::now(), guest.cpu_time());
        let result = test(&mut guest);
        note_time(name, begin, guest.cpu_time().zip(before).map(|(after, before)| after - before));
        if guest.output(&["true"], LIMIT).is_ok() {
            *slot = Some(guest);
        }
        result
    }
}

/// Runs a case in a guest.
fn check(guest: &mut Vm, case: &str) -> Result<()> {
    let soak = is_soak().then_some(["env", "LAB_SOAK=1"]);
    let argv: Vec<_> = soak.into_iter().flatten().chain(["kernel-tests", "--in-guest", case]).collect();
    let output = guest.output(&argv, or_soak(LIMIT, SOAK_LIMIT))?;
    if output.status == 0 {
        return Ok(());
    }
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), output.stderr);
    Err(common::Error::new("the case failed in the guest").evidence(said))
}

/// The architecture of the guests.
fn arch() -> Arch {
    let name = std::env::var("LAB_ARCH").ok();
    let arch = name.map(|name| Arch::from_str(&name, false).unwrap_or_else(|_| panic!("LAB_ARCH={name}")));
    arch.unwrap_or(Arch::HERE)
}

/// Whether fentry and fexit programs can attach on a kernel.
fn has_fentry(series: &Series) -> bool {
    arch() != Arch::Arm || series.has(Trait::FentryOnArm64)
}

/// Whether a case can't be right on a kernel.
fn is_impossible(marks: &[Mark], series: &Series) -> bool {
    let is_too_old = !marks.contains(&Mark::NoFentry) && !has_fentry(series);
    let is_of_x86 = [Mark::X86, Mark::Fio].iter().any(|mark| marks.contains(mark));
    arch() == Arch::Arm && (is_of_x86 || is_too_old)
}

/// The workbook for the guests' architecture.
fn workbook() -> Result<Workbook> {
    cross::for_arch(Workbook::read()?, arch(), None)
}

/// This test's program for the guest.
fn ourselves(workbook: &Workbook) -> Result<PathBuf> {
    if workbook.cross().is_none() {
        return std::env::current_exe().or_cause("cannot find ourselves");
    }
    let mut build = workbook.cargo_build();
    build.args(["--quiet", "--package", "lab", "--test", "kernel", "--message-format", "json"]);
    let built = output(&mut build)?;
    let executable = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        // Cargo builds the programs of the package, too.
        (message["target"]["kind"] == serde_json::json!(["test"])).then_some(())?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    };
    let built = String::from_utf8_lossy(&built.stdout).into_owned();
    built.lines().find_map(executable).ok_or_else(|| common::Error::new("cargo built no test"))
}

/// Boots a kernel as [`boot`] does, with fio. Its libraries take 84 MB, so only the cases that need it have it.
fn boot_with_fio(kernel: &str) -> Result<Vm> {
    let fio = FIO.find()?;
    boot(kernel, |mut machine| {
        machine.binaries.push(fio);
        machine.memory *= 2;
        machine
    })
}

/// A program of this machine, or of the guest's architecture.
fn tool(workbook: &Workbook, tool: Tool) -> Result<PathBuf> {
    workbook.cross().map_or_else(|| tool.find(), |cross| cross::program(cross, tool.name))
}

/// Boots a kernel of the matrix with everything that the cases need, in a machine with this change.
fn boot(kernel: &str, change: impl FnOnce(Machine) -> Machine) -> Result<Vm> {
    let workbook = workbook()?;
    let folder = tempfile::tempdir().or_cause("cannot make a folder")?;
    let mut machine = Machine { limit: BOOT_LIMIT, ..Machine::new(&workbook, kernel)? };
    let name = folder.path().join("kernel-tests");
    std::fs::copy(ourselves(&workbook)?, &name).or_cause("cannot copy ourselves")?;
    machine.binaries.extend([name, tool(&workbook, SETPRIV)?]);
    // Only one case needs it, and says so.
    machine.binaries.extend(MKFS_BTRFS.find().ok().filter(|_| workbook.cross().is_none()));
    for name in ["shout", "nested"] {
        let package = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/bpf").join(name);
        machine.binaries.push(
            common_build::build_for(arch().machine(), &package, folder.path()).map_err(common::Error::new)?,
        );
    }
    machine.binaries.extend(variants::binaries(&workbook)?);
    machine.binaries.push(questions::write(&workbook, folder.path())?);
    change(machine).boot()
}
