//! The mystery disks, played by the machine. With `LAB_SOAK=1`, with more seeds.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use guest::running::Killed;
use mystery::answer::{Answer, Truth};
use mystery::scene::Scene;
use mystery::story::{SAVE, Twin};
use nix::pty::openpty;
use nix::sys::signal::{Signal, killpg};
use wire::play::SOCKET;

use crate::guest::{is_in, quiet, sh, stat, wait_until};
use crate::{Case, Mark, or_soak};

/// A case for each mystery, and one for how they end.
pub fn cases() -> impl Iterator<Item = Case> {
    let plays = wire::mystery::CASES.into_iter().map(|wire::mystery::Case { number, .. }| -> Case {
        let name = format!("mystery_{number}").leak();
        (name, |name| play(name.trim_start_matches("mystery_")), &[Mark::Counted, Mark::Once])
    });
    let ends: Case =
        ("a_mystery_ends_with_its_terminal", |_| a_mystery_ends_with_its_terminal(), &[Mark::Once]);
    plays.chain([ends])
}

/// As somebody closes the workshop's terminal in which it is played: nothing of it outlives that.
fn a_mystery_ends_with_its_terminal() {
    quiet();
    let disks = || fs::read_dir("/sys/block").unwrap().count();
    let before = disks();
    let pty = openpty(None, None).unwrap();
    let copy = || pty.slave.try_clone().unwrap();
    let mut shell = Command::new("setsid");
    shell.args(["-c", "sh"]).stdin(copy()).stdout(copy()).stderr(copy());
    let mut shell = Killed(shell.spawn().unwrap());
    let mut screen = File::from(pty.master);
    screen.write_all(b"mystery start 01 --seed 1\n").unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("case 01:") {
        let mut chunk = [0; 4096];
        let read = screen.read(&mut chunk).unwrap();
        seen.extend_from_slice(&chunk[..read]);
    }
    assert!(disks() > before, "{}", String::from_utf8_lossy(&seen));
    killpg(shell.pid(), Signal::SIGHUP).unwrap();
    shell.0.wait().unwrap();
    wait_until("its disks are gone", || disks() == before);
    assert!(!Path::new(SOCKET).exists());
}

/// In how many forms a case comes. The first seeds have one each.
fn forms(number: &str) -> u64 {
    if number == "05" { 2 } else { 1 }
}

/// Plays a case: only its own answer is right, the complaint is real, and the fix ends it.
fn play(number: &str) {
    if is_in("..6.1") {
        let error = Scene::make(number, 1).err().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("needs Linux 6.1 or newer")));
        return;
    }
    // A machine that is busy for some seconds may make a disk of one twin slower.
    for seed in 1..=or_soak(forms(number), 4) {
        assert!((0..3).any(|_| twins_look_alike(number, seed)), "the twins of seed {seed} do not look alike");
    }
}

fn twins_look_alike(number: &str, seed: u64) -> bool {
    let twins = [Twin::One, Twin::Other].map(|twin| {
        eprintln!("case {number}, seed {seed}, {twin:?}");
        let mut scene = Scene::with_twin(number, seed, twin).unwrap();
        let sick = scene.patient().mean(scene.stream).unwrap();
        if number == "04" {
            assert_gives_nothing_away();
        }
        // Of these, state D shows nothing.
        if let Some((_, job)) = [("01", 1), ("02", 0), ("04", 0)].iter().find(|(of, _)| *of == number) {
            wait_until("a job waits in io_getevents(2)", || is_in_io_getevents(scene.jobs[*job].pid()));
        }
        let seen = iostat();
        if number == "05" {
            let Work { process, .. } = work(scene.jobs[3].pid());
            eprintln!("  {process:?}");
            // What it reads from the disk is not what a file has.
            assert!(process["read_bytes"] >= 20.0 * 4096.0 && process["rchar"] == 0.0, "{process:?}");
        }
        if number == "07" {
            let [rate, steady] = after_a_rest(&scene);
            eprintln!("  {rate} I/Os per second after a rest, and {steady} without one");
            // A disk without a limit does not save up.
            assert_eq!(rate > 1.25 * steady, twin == Twin::One, "{rate} and {steady} I/Os per second");
        }
        let truth = scene.story.truth.clone();
        let proof = counted(&scene);
        scene.fix().unwrap();
        let cured = scene.patient().median(scene.stream).unwrap();
        eprintln!(
            "  {sick:?}, cured {cured:?}, normal {:?}; {proof:?} of {:?}",
            scene.story.usual, scene.story.truth
        );
        assert!(sick > cured * 2, "the complaint is real, and the fix ends it: {sick:?}, then {cured:?}");
        assert!(proof.is_none_or(|proof| truth.numbers.contains(&proof)), "{proof:?} is not in {truth:?}");
        (truth, seen)
    });
    let [(one, seen), (other, seen_with_other)] = &twins;
    for (truth, twin) in [(one, other), (other, one)] {
        grade(truth, twin);
    }
    assert_ne!(one.cause, other.cause);
    looks_alike(seen, seen_with_other)
}

/// A limit is the cause of one twin. So each cgroup has one in both, and those of the processes' own are the same.
fn assert_gives_nothing_away() {
    let limits = |cgroups: &str| -> Vec<String> {
        sh(&format!("cat /sys/fs/cgroup/{cgroups}/io.max")).lines().map(str::to_owned).collect()
    };
    let (above, own) = (limits("*"), limits("*/*"));
    assert!(above.len() == 2 && above.iter().all(|limit| limit.contains("wiops=")), "{above:?}");
    assert!(own.len() == 2 && own.iter().all(|limit| limit.ends_with("wiops=1000")), "{own:?}");
}

/// How many I/Os end in a second, after a rest of the patient, and how many the disk is made for without one.
fn after_a_rest(scene: &Scene) -> [f64; 2] {
    const IOS: f64 = 50.0;
    let patient = scene.patient().pid();
    let ended = || -> f64 {
        stats().iter().filter(|(name, _)| name.starts_with("nbd")).map(|(_, stat)| stat[4]).sum()
    };
    sh(&format!("kill -STOP {patient}"));
    thread::sleep(Duration::from_secs(5));
    let (before, start) = (ended(), Instant::now());
    sh(&format!("kill -CONT {patient}"));
    wait_until("the patient goes on", || ended() - before >= IOS);
    // The usual time is that of two I/Os, one after the other.
    [IOS / start.elapsed().as_secs_f64(), 2.0 / scene.story.usual.as_secs_f64()]
}

/// Whether a thread of a process is in this system call now.
fn is_in_io_getevents(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|task| task.unwrap().path());
    let call = format!("{} ", nix::libc::SYS_io_getevents);
    tasks.filter_map(|task| fs::read_to_string(task.join("syscall")).ok()).any(|now| now.starts_with(&call))
}

fn grade(truth: &Truth, twin: &Truth) {
    let right = |truth: &Truth| Answer {
        cause: truth.cause.word.to_owned(),
        place: Some(truth.places[0].clone()),
        number: Some(((truth.numbers.start() + truth.numbers.end()) / 2.0).to_string()),
    };
    let is_right = |answer: &Answer| truth.grade(answer).is_right();
    assert!(is_right(&right(truth)), "{truth:?}");
    assert!(!is_right(&right(twin)), "{truth:?} and {twin:?}");
    assert!(!is_right(&Answer::default()));
    assert!(!is_right(&Answer { number: None, ..right(truth) }));
    // The twin's number proves nothing here.
    assert!(!is_right(&Answer { cause: truth.cause.word.to_owned(), ..right(twin) }));
}

/// What `iostat -x` prints of a disk: the time of an I/O in ms, its KiB, and how many there are at a time.
type Seen = BTreeMap<String, [f64; 3]>;

/// What the kernel counts of each disk.
fn stats() -> BTreeMap<String, Vec<f64>> {
    let disks = fs::read_dir("/sys/block").unwrap();
    let disks = disks.map(|disk| disk.unwrap().file_name().into_string().unwrap());
    let numbers =
        |disk: &str| stat(&format!("/dev/{disk}")).into_iter().map(|number| number as f64).collect();
    disks.map(|disk| (disk.clone(), numbers(&disk))).collect()
}

/// What the disks' counters have grown by in some seconds, and how many seconds it were.
fn grown(seconds: u64) -> (BTreeMap<String, Vec<f64>>, f64) {
    let (before, start) = (stats(), Instant::now());
    thread::sleep(Duration::from_secs(seconds));
    let (after, time) = (stats(), start.elapsed().as_secs_f64());
    let since = |(name, after): (String, Vec<f64>)| {
        let by = after.iter().zip(&before[&name]).map(|(after, before)| after - before).collect();
        (name, by)
    };
    (after.into_iter().map(since).collect(), time)
}

/// `iostat -x 2`.
fn iostat() -> Seen {
    let (grown, seconds) = grown(2);
    let row = |(name, by): (String, Vec<f64>)| {
        let ios = by[0] + by[4];
        let row = [(by[3] + by[7]) / ios, (by[2] + by[6]) / 2.0 / ios, by[10] / seconds / 1000.0];
        // A disk on which nearly nothing happens is not part of the case.
        (ios >= 10.0).then_some((name, row))
    };
    grown.into_iter().filter_map(row).collect()
}

/// With both causes, the numbers of each disk are about the same. The causes change something else by a factor of four or
/// more.
fn looks_alike(one: &Seen, other: &Seen) -> bool {
    const ALIKE: f64 = 2.0;
    eprintln!("  {one:.1?}\n  {other:.1?}");
    let is_near = |(this, that): (&f64, &f64)| this / that < ALIKE && that / this < ALIKE;
    one.keys().eq(other.keys())
        && one.values().zip(other.values()).all(|(this, that)| this.iter().zip(that).all(is_near))
}

/// Numbers that the kernel counts for a process, and of the disk that was busiest meanwhile, in some seconds.
struct Work {
    /// Of `/proc/PID/io`, by name.
    process: BTreeMap<String, f64>,
    /// Of `/sys/block/DISK/stat`.
    disk: Vec<f64>,
    seconds: f64,
}

fn work(pid: u32) -> Work {
    let process = || -> BTreeMap<String, f64> {
        let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
        let pair = |line: &str| line.split_once(": ").map(|(key, n)| (key.to_owned(), n.parse().unwrap()));
        io.lines().filter_map(pair).collect()
    };
    let before = process();
    let (disks, seconds) = grown(4);
    let process = process().into_iter().map(|(key, n)| (key.clone(), n - before[&key])).collect();
    let disks = disks.into_iter().filter(|(name, _)| name.starts_with("vd") || name.starts_with("nbd"));
    let disks = disks.map(|(_, by)| by);
    let disk = disks.max_by(|one, other| (one[0] + one[4]).total_cmp(&(other[0] + other[4]))).unwrap();
    Work { process, disk, seconds }
}

/// Which share of one CPU's time a process takes.
fn computed(pid: u32) -> f64 {
    let stat = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // In user space and in the kernel, in ticks of 10 ms.
    let ticks = |text: String| -> f64 {
        text.split_whitespace().skip(13).take(2).map(|ticks| ticks.parse::<f64>().unwrap()).sum()
    };
    let (before, start) = (ticks(stat()), Instant::now());
    thread::sleep(Duration::from_secs(4));
    (ticks(stat()) - before) / 100.0 / start.elapsed().as_secs_f64()
}

/// How many blocks a transaction of the case's journal has.
fn logged_blocks() -> f64 {
    let mut journals = fs::read_dir("/proc/fs/jbd2").unwrap().map(|journal| journal.unwrap());
    let journal = journals.find(|journal| journal.file_name().to_string_lossy().starts_with("nbd")).unwrap();
    let info = fs::read_to_string(journal.path().join("info")).unwrap();
    let line = info.lines().find(|line| line.ends_with(" logged blocks per transaction")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// What the kernel counts that must be among the numbers that prove the cause; `None` if it counts nothing for it.
fn counted(scene: &Scene) -> Option<f64> {
    let story = &scene.story;
    let cause = story.truth.cause.word;
    let Work { process, disk, seconds } = work(scene.jobs[usize::from(cause == "busy-neighbor")].pid());
    let written = process["write_bytes"];
    Some(match cause {
        "busy-neighbor" => 100.0 * written / (512.0 * disk[6]),
        // The rest of the time between two I/Os of a thread: the disk takes a part of it, and the thread may rest as long.
        "throttled" => {
            let threads = fs::read_dir(format!("/proc/{}/task", scene.patient().pid())).unwrap().count() - 1;
            (threads as f64 * seconds * 4096.0 / written - 2.0 * (story.usual / SAVE).as_secs_f64()) * 1000.0
        }
        "small-io" => written / 1024.0 / disk[4],
        // The story says how many KiB a save has.
        "split-io" => {
            let (_, save) = story.words.what.split_once(", ").unwrap();
            disk[4] / (written / 1024.0 / save.trim_end_matches(" KiB").parse::<f64>().unwrap())
        }
        "journal" if logged_blocks() > 100.0 => 4.0 * logged_blocks(),
        // It waits for data. A save is a write, and another one to whoever measures it.
        "journal" => disk[6] / process["syscw"],
        "busy-cpu" => 100.0 * computed(scene.jobs[1].pid()),
        "disk-limit" => disk[4] / seconds,
        "too-much-load" => disk[10] / 1000.0 / seconds,
        "slow-flush" => disk[16] / disk[15],
        "no-read-ahead" | "small-cache" => 100.0 * process["read_bytes"] / 4096.0 / process["syscr"],
        _ => return None,
    })
}
