//! Stages 08 and 09 count the pages that reads touch, and the pages that are added to the page cache.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use guest::null_blk::{NullBlk, long_enough};
use guest::running::{Observation, Running};
use guest::system::{Setting, evict, queue};
use guest::truth::{self, page_cache};
use machine::kernels::Trait;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::mount::{MsFlags, mount};
use nix::sys::memfd::{MFdFlags, memfd_create};
use wire::workload::Done;

use crate::guest::{AtEnd, has, io, is_in, programs, quiet, sh, start, wait_until, watch_while, with_ext4};
use crate::requests::in_flight;
use crate::{Case, cases, or_soak};

pub const CASES: &[Case] = cases![
    stage08_counts_what_each_workload_does,
    stage08_counts_exactly_with_four_readers,
    stage09_counts_a_command,
    stage09_counts_one_process_with_its_threads,
    stage09_gives_its_commands_status(Outer),
    stage08_exercise_a_kretprobe_has_slots(Outer),
    stage08_exercise_the_slides_probe_sees_no_read(Outer),
    stage08_exercise_sendfile_goes_another_way(Outer),
    huge_pages_of_hugetlbfs_are_in_no_page_cache,
    pages_of_a_loop_device_count_in_both_layers,
];

/// A file of 2,000 pages.
pub const LARGE: &str = "/mnt/large";
/// One of 256.
pub const EXACT: &str = "/mnt/exact";
/// One of 24 bytes.
const SMALL: &str = "/mnt/small";
/// One of 256 pages that has no data, so the disk has nothing to read.
const HOLE: &str = "/mnt/hole";
/// One of 1,000 pages, or 4,096 times 1,000 bytes.
const THOUSAND: &str = "/mnt/thousand";

/// Creates the files, on an idle ext4.
pub fn files() {
    with_ext4();
    io(&format!("read {LARGE} --count 2000"));
    io(&format!("read {EXACT} --count 256"));
    io(&format!("read {SMALL} --count 1 --size 24"));
    io(&format!("read {THOUSAND} --count 4096 --size 1000"));
    File::create(HOLE).and_then(|file| file.set_len(1 << 20)).unwrap();
}

/// How much of the file is in the page cache at the start.
#[derive(Clone, Copy, PartialEq)]
enum Cache {
    Cold,
    Warm,
    /// Its first half.
    Half,
}
use Cache::{Cold, Half, Warm};

/// A workload and the truth about it.
struct Row {
    file: &'static str,
    cache: Cache,
    io: &'static str,
    /// Pages that reads touch, hits, misses, and pages added beyond these.
    truth: [u64; 4],
    /// Pages that the disk read.
    disk: u64,
}

/// The rows for this kernel. Only read-ahead differs between kernels: 7.2 reads less ahead for a sequential reader.
fn rows() -> Vec<Row> {
    let ahead = if has(Trait::LargeFolios) { 32 } else { 60 };
    // 4,096 reads. A read touches two pages if it begins in the last 999 bytes of a page. A page boundary falls into
    // a read unless it is a multiple of 1,000 bytes, which is the case at every 125th page: (1000 - 1) - (1000 / 125
    // - 1).
    let crossing = 999 - 7;
    [
        (SMALL, Cold, "read --count 1 --size 24", [1, 0, 1, 0], 1),
        (SMALL, Warm, "read --count 1 --size 24", [1, 1, 0, 0], 0),
        (EXACT, Cold, "read --count 256", [256, 0, 256, 0], 256),
        (EXACT, Warm, "read --count 256", [256, 256, 0, 0], 0),
        (EXACT, Cold, "read --count 8 --size 131072", [256, 0, 256, 0], 256),
        (EXACT, Warm, "read --count 8 --size 131072", [256, 256, 0, 0], 0),
        (LARGE, Cold, "read --count 64", [64, 0, 64, ahead], 64 + ahead),
        (LARGE, Cold, "read --count 256 --random", [256, 0, 256, 0], 256),
        (LARGE, Warm, "read --count 256 --random", [256, 256, 0, 0], 0),
        (
            THOUSAND,
            Cold,
            "read --count 4096 --size 1000",
            [4096 + crossing, 4096 + crossing - 1000, 1000, 0],
            1000,
        ),
        // Without read-ahead, see below.
        (EXACT, Half, "read --count 256", [256, 128, 128, 0], 128),
        (LARGE, Cold, "read --count 16 --stride 100", [16, 0, 16, 3], 19),
        (HOLE, Cold, "read --count 256", [256, 0, 256, 0], 0),
        (EXACT, Warm, "mmap-cold --count 256", [0, 0, 0, 256], 256),
        (EXACT, Cold, "write-cached --count 64", [0, 0, 0, 64], 0),
        (LARGE, Cold, "read-direct --count 64", [0, 0, 0, 0], 64),
        (LARGE, Cold, "write --count 64", [0, 0, 0, 0], 0),
    ]
    .map(|(file, cache, io, truth, disk)| Row { file, cache, io, truth, disk })
    .into()
}

impl Row {
    /// Brings the page cache into the row's initial state. The setting holds until it is dropped.
    fn prepare(&self) -> Option<Setting> {
        let half = self.cache == Half;
        let no_read_ahead =
            half.then(|| Setting::new(queue("/dev/fs", "read_ahead_kb").unwrap(), "0").unwrap());
        evict(self.file).unwrap();
        match self.cache {
            Cold => {}
            Warm => drop(fs::read(self.file).unwrap()),
            Half => drop(io(&format!("read {} --count 128", self.file))),
        }
        no_read_ahead
    }

    /// The arguments of `io`.
    fn command(&self) -> String {
        let (kind, options) = self.io.split_once(' ').unwrap();
        format!("{kind} {} {options}", self.file)
    }

    /// Compares what a stage saw with the truth, and with the disk's own count.
    fn compare(&self, seen: &Observation, done: &Done) {
        let what = self.command();
        assert_eq!(page_cache(seen).unwrap(), self.truth, "{what}: {}", seen.stdout);
        // The disk reads whole blocks, which are 1 KiB here.
        assert_eq!(done.read_bytes.div_ceil(4096), self.disk, "{what}: what the disk says");
    }
}

fn stage08_counts_what_each_workload_does() {
    files();
    for row in rows() {
        let _settings = row.prepare();
        let (seen, done) = watch_while("stage08", || io(&row.command()));
        row.compare(&seen, &done);
        if (row.file, row.cache == Cold) == (SMALL, true) {
            let lines: Vec<_> = seen.lines().into_iter().filter(|line| line.pid == done.pid).collect();
            let messages: Vec<_> = lines.iter().map(|line| line.message).collect();
            let both = ["mm_filemap_add_to_page_cache (pages=1)", "filemap_read (retval=24)"];
            assert_eq!(messages, both, "{}", seen.stdout);
        }
    }
}

/// Four readers at once, first cold and then warm. A preemptible kernel such as 7.2 switches tasks in the middle of a
/// read, and of a program that it does not run with preemption off.
fn stage08_counts_exactly_with_four_readers() {
    let times = or_soak(3, 50);
    files();
    evict(LARGE).unwrap();
    let io_line = format!("read {LARGE} --threads 4 --count 500");
    let (seen, ()) = watch_while("stage08", || (0..times).for_each(|_| drop(io(&io_line))));
    assert_eq!(page_cache(&seen).unwrap(), [times * 2_000, (times - 1) * 2_000, 2_000, 0], "{}", seen.stdout);
    assert_eq!(truth::skipped(&seen).unwrap_or(0), 0);
}

/// Starts a shell that becomes `io` with these arguments when it gets a line of input. So its process ID is known in
/// advance.
pub fn prepare(arguments: &str) -> Child {
    let script = format!("read go; exec io {arguments}");
    Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

pub fn go(mut child: Child) -> Done {
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().parse().unwrap()
}

/// Two processes with four threads each read different files, and the stage watches one of them.
fn stage09_counts_one_process_with_its_threads() {
    files();
    evict(LARGE).unwrap();
    fs::read(EXACT).unwrap();
    let cold = prepare(&format!("read {LARGE} --threads 4 --count 500"));
    let warm = prepare(&format!("read {EXACT} --threads 4 --count 64"));
    let pid = warm.id();
    let stage = start(&format!("stage09 {pid}"));
    // The other one first and alone, then both.
    let cold = go(cold);
    let again = prepare(&format!("read {LARGE} --threads 4 --count 500"));
    let again = thread::spawn(move || go(again));
    assert_eq!(go(warm).pid, pid);
    again.join().unwrap();
    // The process has ended, and so does the stage.
    let seen = stage.wait().unwrap();
    assert!(seen.status.success() && seen.stderr.contains(&format!("Process {pid} has ended.")), "{seen:?}");
    assert_eq!(page_cache(&seen).unwrap(), [256, 256, 0, 0], "{}", seen.stdout);
    assert_eq!(cold.count, 2000);
    let rule = "=".repeat(50);
    assert!(seen.stdout.starts_with(&format!("{rule}\npid_filter_map update: (pid={pid})\n{rule}\n")));
    assert!(seen.stdout.contains(&format!("{rule}\nFiltered PID : {pid}\n[Total ")), "{}", seen.stdout);
}

/// Each workload, as a command that the stage starts, and counts from its first read on. The guest's programs are in
/// memory (tmpfs), so starting one reads nothing through the page cache. We use a third of stage 08's workloads,
/// because the programs differ only in the filter.
fn stage09_counts_a_command() {
    files();
    for row in rows().iter().step_by(3) {
        let _settings = row.prepare();
        let seen = start(&format!("stage09 -- io {}", row.command())).wait().unwrap();
        assert!(seen.status.success(), "{seen:?}");
        let done = seen.stdout.lines().find(|line| line.starts_with("io ")).unwrap().parse().unwrap();
        row.compare(&seen, &done);
    }
}

fn stage09_gives_its_commands_status() {
    quiet();
    let before = programs();
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
        let seen = Running::start(&["stage09", "--", "sh", "-c", script]).unwrap().wait().unwrap();
        assert_eq!(seen.status.code(), Some(status), "{script}: {seen:?}");
        assert!(seen.stdout.contains("Nothing was read through the page cache."), "{}", seen.stdout);
    }
    // A command that still runs ends with the stage.
    let seen = start("stage09 --duration 0.5 -- sleep 1000").wait().unwrap();
    assert_eq!(seen.status.code(), Some(0), "{seen:?}");
    assert_eq!(sh("pidof sleep || echo none").trim(), "none");
    wait_until("the programs are gone", || programs() == before);
}

/// The first exercise: a kretprobe has a limited number of slots for calls that have not returned yet, and misses all
/// others. Sixteen readers wait for a slow disk at the same time.
fn stage08_exercise_a_kretprobe_has_slots() {
    quiet();
    let (kretprobe, slots) = if older() { ("stage08-kretprobe-older", 2) } else { ("stage08-kretprobe", 10) };
    for (stage, seen_of_16) in [("stage08", 16), (kretprobe, slots)] {
        let seen = long_enough(Duration::from_millis(500), |time| {
            let disk = NullBlk::new("slow", time)?;
            let device = disk.device.to_str().unwrap();
            let read = format!("read {device} --threads 16 --count 1 --random --stride 64");
            let (seen, at_once) = watch_while(stage, || {
                let reader = thread::spawn(move || io(&read));
                let at_once = || in_flight(device)[0] == 16;
                wait_until("all of them wait", || at_once() || reader.is_finished());
                let at_once = at_once();
                reader.join().unwrap();
                at_once
            });
            Ok(at_once.then_some(seen))
        })
        .unwrap();
        let (total, missed) = (page_cache(&seen).unwrap()[0], truth::skipped(&seen));
        assert!(missed.is_none_or(|missed| total + missed == 16), "{stage}: {}", seen.stdout);
        assert_eq!(total, seen_of_16, "{stage}: {}", seen.stdout);
    }
}

/// The second exercise: since 5.10, `read()` no longer calls the function from the slides.
fn stage08_exercise_the_slides_probe_sees_no_read() {
    files();
    for cold in [true, false] {
        warm_or_cold(EXACT, cold);
        let (seen, done) = watch_while("stage08-slides", || io(&format!("read {EXACT} --count 256")));
        let lines = seen.lines();
        let returns: Vec<_> =
            lines.iter().filter(|line| line.pid == done.pid).map(|line| line.message).collect();
        let misses = returns.iter().filter(|message| message.ends_with("(retval=0x0)")).count();
        // A cold page is looked up again after it was read. The slides' program counts that as a hit.
        let truth = if older() { (256 + usize::from(cold), usize::from(cold)) } else { (0, 0) };
        assert_eq!((returns.len(), misses), truth, "cold: {cold}, {returns:?}");
    }
}

/// The third exercise: busybox's `cat` copies with sendfile(2), which has its own function on newer kernels.
fn stage08_exercise_sendfile_goes_another_way() {
    files();
    // Since Linux 6.5.
    let newer = is_in("6.5..");
    for cold in [true, false] {
        warm_or_cold(EXACT, cold);
        let (seen, _) = watch_while("stage08", || sh(&format!("cat {EXACT} > /dev/null")));
        let truth = match (cold, newer) {
            (true, true) => [0, 0, 0, 256],
            (false, true) => [0, 0, 0, 0],
            // 5.10 adds the page after the end of the file when somebody reads up to the end.
            (true, false) => [256, 0, 256, u64::from(older())],
            (false, false) => [256, 256, 0, 0],
        };
        assert_eq!(page_cache(&seen).unwrap(), truth, "cold: {cold}, {}", seen.stdout);
        let is_said = seen.stdout.contains("sendfile(), splice() and copy_file_range()");
        assert_eq!(is_said, truth[0] == 0, "{}", seen.stdout);
    }
}

/// Another process takes four huge pages while the stage watches a reader of cached pages: in a mounted hugetlbfs, and
/// in the kernel's own, which `memfd_create()` and `shmget()` use.
fn huge_pages_of_hugetlbfs_are_in_no_page_cache() {
    const FOLDER: &str = "/tmp/huge";
    files();
    fs::read(EXACT).unwrap();
    let _none_left = AtEnd("umount /tmp/huge; echo 0 > /proc/sys/vm/nr_hugepages");
    fs::write("/proc/sys/vm/nr_hugepages", "4").unwrap();
    fs::create_dir_all(FOLDER).unwrap();
    mount(None::<&str>, FOLDER, Some("hugetlbfs"), MsFlags::empty(), None::<&str>).unwrap();
    let file = || OwnedFd::from(File::create(format!("{FOLDER}/pages")).unwrap());
    let memory = || memfd_create("pages", MFdFlags::MFD_HUGETLB).unwrap();
    for make in [&file as &dyn Fn() -> OwnedFd, &memory] {
        let (seen, in_files) = watch_while("stage08", || {
            let before = pages_in_files();
            fallocate(make(), FallocateFlags::empty(), 0, 4 << 21).unwrap();
            io(&format!("read {EXACT} --count 256"));
            pages_in_files() - before
        });
        assert_eq!(page_cache(&seen).unwrap(), [256, 256, 0, 0], "{}", seen.stdout);
        // The kernel's own count agrees: four huge pages would be 2,048.
        assert!(in_files < 512, "{in_files}");
        sh(&format!("rm -f {FOLDER}/pages"));
    }
}

/// The driver of a loop device reads its file through the page cache, too, which stage 09 leaves out.
fn pages_of_a_loop_device_count_in_both_layers() {
    files();
    sh(&format!("modprobe loop && losetup /dev/loop0 {LARGE}"));
    let _freed = AtEnd("losetup -d /dev/loop0");
    let read = "read /dev/loop0 --count 256";
    let cold = || ["/dev/loop0", LARGE].map(|file| evict(file).unwrap());
    cold();
    let (seen, done) = watch_while("stage08", || io(read));
    let [total, _, miss, _] = page_cache(&seen).unwrap();
    let lines = seen.lines();
    let own = lines.iter().filter(|line| line.pid == done.pid && line.message.starts_with("filemap_read "));
    assert_eq!(own.count(), 256, "{}", seen.stdout);
    assert!(total >= 512 && miss >= 512, "{}", seen.stdout);
    cold();
    let one = start(&format!("stage09 -- io {read}")).wait().unwrap();
    assert_eq!(page_cache(&one).unwrap()[..3], [256, 0, 256], "{}", one.stdout);
}

/// How many pages the kernel counts in the page cache.
fn pages_in_files() -> i64 {
    let counts = fs::read_to_string("/proc/vmstat").unwrap();
    counts.lines().find_map(|line| line.strip_prefix("nr_file_pages ")).unwrap().parse().unwrap()
}

fn warm_or_cold(file: &str, cold: bool) {
    evict(file).unwrap();
    if !cold {
        fs::read(file).unwrap();
    }
}

/// Whether this is 5.10, where the page cache's read function has its old name.
fn older() -> bool {
    is_in("..5.12")
}
