//! What a tool costs: the time in its BPF programs, as the kernel counts it, and its own. If that is too much, the tool ends.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Arg, ArgMatches};
use common::{Error, Result};
use libbpf_rs::{Program, libbpf_sys};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;

/// How often to compare the cost with the limit.
const INTERVAL: Duration = Duration::from_secs(1);

/// The options that each tool has.
pub fn options() -> [Arg; 2] {
    [
        Arg::new("cost").long("cost").num_args(0).help("Print at the end what this run has cost"),
        Arg::new("max-cpu")
            .long("max-cpu")
            .value_name("PERCENT")
            .value_parser(percent_of)
            .default_value("5")
            .help("End if the BPF programs take more than this of one CPU during a second; 0: don't measure"),
    ]
}

fn percent_of(text: &str) -> std::result::Result<f64, String> {
    let percent = text.parse::<f64>().ok().filter(|percent| percent.is_finite() && *percent >= 0.0);
    percent.ok_or_else(|| "give a number of percent, such as 5 or 0.5".to_owned())
}

/// What the user wants to know.
static WANTED: OnceLock<Wanted> = OnceLock::new();

struct Wanted {
    cost: bool,
    max_cpu: f64,
}

/// What was measured so far.
static MEASURED: Mutex<Option<Measured>> = Mutex::new(None);

struct Measured {
    programs: Vec<OwnedFd>,
    /// While this is open, the kernel counts the time of all BPF programs.
    _statistics: OwnedFd,
    begin: Instant,
    first: Count,
    /// The cost that was too much, in percent of a CPU.
    too_much: Option<f64>,
}

/// Since the programs were loaded, since this process began, and since the disks came.
#[derive(Clone, Copy, Default)]
struct Count {
    bpf_ns: u64,
    calls: u64,
    own_ns: u64,
    ios: u64,
}

/// Measures the tool that runs next, from when it is attached.
pub fn watch(options: &ArgMatches) {
    let max_cpu = options.get_one("max-cpu").copied().unwrap_or_default();
    let wanted = Wanted { cost: options.get_flag("cost"), max_cpu };
    if wanted.cost || wanted.max_cpu > 0.0 {
        let _ = WANTED.set(wanted);
        common::report::when_tracing(begin);
    }
}

fn begin() {
    let Some(wanted) = WANTED.get() else { return };
    match Measured::begin() {
        Ok(measured) => *lock() = Some(measured),
        Err(error) => {
            return eprintln!("warning: the cost of this run is neither known nor limited: {error:#}");
        }
    }
    if wanted.max_cpu > 0.0 {
        // The tool has blocked the signals that end it, so they are blocked in this thread, too.
        thread::spawn(|| limit(wanted.max_cpu));
    }
}

/// Ends the tool as Ctrl-C does, so that it prints its report, once its programs take too much.
fn limit(max_cpu: f64) {
    let mut before = lock().as_ref().map_or(0, |measured| measured.bpf().0);
    let mut then = Instant::now();
    loop {
        thread::sleep(INTERVAL);
        let mut measured = lock();
        let Some(measured) = measured.as_mut() else { return };
        let bpf_ns = measured.bpf().0;
        let share = percent(bpf_ns.saturating_sub(before), then.elapsed());
        (before, then) = (bpf_ns, Instant::now());
        if share > max_cpu {
            measured.too_much = Some(share);
            let _ = kill(Pid::this(), Signal::SIGINT);
            return;
        }
    }
}

/// Prints the cost of the tool that has ended, if that is wanted.
///
/// # Errors
/// If the tool has ended because it cost too much.
pub fn end() -> Result<()> {
    let Some((measured, wanted)) = lock().take().zip(WANTED.get()) else { return Ok(()) };
    if wanted.cost {
        let text = text(measured.begin.elapsed(), measured.programs.len(), &measured.now());
        let _ = writeln!(io::stderr(), "{text}");
    }
    match measured.too_much {
        Some(share) => Err(Error::new("the run was ended, because its BPF programs took too much time")
            .evidence(format!("in one second, {share:.1} % of a CPU; the limit is {} %", wanted.max_cpu))
            .fix("trace less, such as one disk or one process, or allow more: --max-cpu")),
        None => Ok(()),
    }
}

fn text(time: Duration, programs: usize, count: &Count) -> String {
    let Count { bpf_ns, calls, own_ns, ios } = *count;
    let each = |number: u64| bpf_ns.checked_div(number).unwrap_or_default();
    format!(
        "Cost: {:.2} % of a CPU in {programs} BPF programs ({calls} calls, {} ns each), and {:.2} % in this process\n\
         The disks did {ios} I/Os meanwhile: {} ns of BPF for each",
        percent(bpf_ns, time),
        each(calls),
        percent(own_ns, time),
        each(ios),
    )
}

fn percent(ns: u64, time: Duration) -> f64 {
    100.0 * ns as f64 / time.as_nanos().max(1) as f64
}

fn lock() -> std::sync::MutexGuard<'static, Option<Measured>> {
    MEASURED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Measured {
    fn begin() -> libbpf_rs::Result<Self> {
        // SAFETY: the function takes a number and returns a new file descriptor, or a negative error number.
        let statistics = match unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) } {
            fd if fd < 0 => return Err(libbpf_rs::Error::from_raw_os_error(-fd)),
            // SAFETY: nobody else has this new file descriptor.
            fd => unsafe { OwnedFd::from_raw_fd(fd) },
        };
        // Our own references keep the programs, and what the kernel has counted, when the tool drops its own.
        let programs =
            own_programs().into_iter().map(Program::fd_from_id).collect::<libbpf_rs::Result<_>>()?;
        let mut measured = Self {
            programs,
            _statistics: statistics,
            begin: Instant::now(),
            first: Count::default(),
            too_much: None,
        };
        measured.first = measured.now();
        Ok(measured)
    }

    /// The nanoseconds in the programs, and their calls.
    fn bpf(&self) -> (u64, u64) {
        let info = |file: &OwnedFd| fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()));
        let infos: Vec<_> = self.programs.iter().filter_map(|program| info(program).ok()).collect();
        let sum = |name: &str| infos.iter().map(|info| number(info, name)).sum::<u64>();
        (sum("run_time_ns:"), sum("run_cnt:"))
    }

    /// What was counted since it began. A disk that was removed meanwhile is missing.
    fn now(&self) -> Count {
        let (bpf_ns, calls) = self.bpf();
        let times = getrusage(UsageWho::RUSAGE_SELF).map(|usage| [usage.user_time(), usage.system_time()]);
        let own_us: i64 = times.into_iter().flatten().map(|time| time.num_microseconds()).sum();
        Count {
            bpf_ns: bpf_ns.saturating_sub(self.first.bpf_ns),
            calls: calls.saturating_sub(self.first.calls),
            own_ns: (own_us as u64 * 1000).saturating_sub(self.first.own_ns),
            ios: ios().saturating_sub(self.first.ios),
        }
    }
}

/// The numbers of the BPF programs that this process has loaded or linked.
fn own_programs() -> Vec<u32> {
    let files = fs::read_dir("/proc/self/fdinfo").into_iter().flatten().flatten();
    let info = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    let mut ids: Vec<_> = info.map(|info| number(&info, "prog_id:") as u32).filter(|id| *id > 0).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// A number in the lines `NAME:\tNUMBER` of a file descriptor.
fn number(info: &str, name: &str) -> u64 {
    let value = info.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
}

/// How many I/Os the disks have done: reads, writes, discards and flushes, see the kernel's `Documentation/block/stat.rst`.
/// A disk on others, such as a loop device, has done the same ones.
fn ios() -> u64 {
    let of = |folder: &Path| {
        let is_on_others = folder.join("loop").exists()
            || folder.join("slaves").read_dir().is_ok_and(|mut slaves| slaves.next().is_some());
        if is_on_others || !folder.join("mq").exists() {
            return 0;
        }
        let stat = fs::read_to_string(folder.join("stat")).unwrap_or_default();
        let numbers: Vec<u64> = stat.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        [0, 4, 11, 15].iter().filter_map(|nth| numbers.get(*nth)).sum::<u64>()
    };
    fs::read_dir("/sys/block").into_iter().flatten().flatten().map(|disk| of(&disk.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_two_lines() {
        let count = Count { bpf_ns: 2_000_000, calls: 1474, own_ns: 5_000_000, ios: 737 };
        assert_eq!(
            text(Duration::from_millis(250), 2, &count),
            "Cost: 0.80 % of a CPU in 2 BPF programs (1474 calls, 1356 ns each), and 2.00 % in this process\n\
             The disks did 737 I/Os meanwhile: 2713 ns of BPF for each"
        );
        assert!(text(Duration::ZERO, 0, &Count::default()).contains("(0 calls, 0 ns each)"));
    }

    #[test]
    fn a_limit_is_a_number() {
        assert_eq!(["0", "0.5"].map(percent_of), [Ok(0.0), Ok(0.5)]);
        assert!(["-1", "NaN", "inf", "five"].map(percent_of).iter().all(Result::is_err));
    }

    #[test]
    fn a_programs_numbers_are_in_its_file() {
        let info = "pos:\t0\nprog_type:\t26\nprog_id:\t7\nrun_time_ns:\t1200\nrun_cnt:\t3\n";
        assert_eq!(
            ["prog_id:", "run_time_ns:", "run_cnt:", "none:"].map(|name| number(info, name)),
            [7, 1200, 3, 0]
        );
    }
}
