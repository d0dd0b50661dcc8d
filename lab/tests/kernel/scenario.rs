//! page_cache_scenario shows what the two reads do, and restores ftrace.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use guest::null_blk::{NullBlk, long_enough};
use guest::system::Setting;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::guest::{instances, is_in, quiet, refused, stat, wait_until, with_ext4};
use crate::{Case, cases};

pub const CASES: &[Case] = cases![
    scenario_shows_a_miss_and_a_hit,
    scenario_reads_from_a_disk_that_takes_20_ms_when_it_is_cold,
    scenario_refuses_a_tracer_that_is_in_use(Outer),
    scenario_leaves_ftrace_as_it_was(Once),
];

const TRACEFS: &str = "/sys/kernel/tracing";

/// A line of a graph.
#[derive(Debug, PartialEq)]
struct Row {
    us: f64,
    depth: usize,
    name: String,
    count: u64,
}

/// The output for one read: how long it took without the tracer, and its graph with the notes below the calls.
#[derive(Debug, Default)]
struct Read {
    us: f64,
    rows: Vec<Row>,
    notes: BTreeMap<String, Vec<String>>,
}

impl Read {
    fn calls(&self, name: &str) -> u64 {
        self.rows.iter().filter(|row| row.name == name).map(|row| row.count).sum()
    }

    fn add(&mut self, text: &str) {
        let (head, text) = text.split_at(text.len().min(11));
        let depth = 1 + (text.len() - text.trim_start().len()) / 2;
        let us = head.trim().parse();
        match (us, text.trim_start().strip_prefix("^ ")) {
            (Ok(us), _) if text.starts_with("without") => self.us = us,
            (Ok(us), _) => {
                let (name, count) = text.trim().split_once(" x").unwrap_or((text.trim(), "1"));
                self.rows.push(Row { us, depth, name: name.to_owned(), count: count.parse().unwrap() });
            }
            (Err(_), Some(note)) => {
                let name = self.rows.last().unwrap().name.clone();
                self.notes.entry(note.to_owned()).or_default().push(name);
            }
            (Err(_), None) => assert_eq!((head.trim(), text.trim()), ("", "")),
        }
    }
}

/// The cold and the warm read, and the rest of the output.
fn reads(arguments: &[&str]) -> [Read; 2] {
    let output = Command::new("page_cache_scenario").args(arguments).output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!((output.status.code(), &*stderr), (Some(0), ""), "{stdout}");
    let mut lines = stdout.lines().skip(2);
    assert!(lines.next().unwrap().starts_with("First read: not in the page cache"), "{stdout}");
    let mut reads = [Read::default(), Read::default()];
    for line in lines {
        let (left, right) = line.split_once(" |").unwrap();
        reads[0].add(left);
        reads[1].add(right.strip_prefix(' ').unwrap_or_default().trim_end());
    }
    let [cold, warm] = &reads;
    assert_eq!((&*cold.rows[0].name, &*warm.rows[0].name), ("vfs_read", "vfs_read"), "{stdout}");
    // Calls of an interrupt, which comes when the disk has read. We compare the beginnings of names, because a read
    // itself may call bio_alloc_irq_cache_splice().
    for foreign in
        ["irq_e", "sysvec_", "common_interrupt", "nvme_irq", "nvme_complete", "blk_mq_complete", "bio_endio"]
    {
        let mut names = reads.iter().flat_map(|read| &read.rows).map(|row| row.name.trim_start_matches('_'));
        assert!(!names.any(|name| name.starts_with(foreign)), "{foreign}: {stdout}");
    }
    reads
}

/// The function that adds a page to the page cache.
fn miss() -> &'static str {
    if is_in("..5.16") { "add_to_page_cache_lru" } else { "filemap_add_folio" }
}

fn scenario_shows_a_miss_and_a_hit() {
    with_ext4();
    let [cold, warm] = reads(&["--depth", "2"]);
    assert_eq!((cold.calls(miss()), warm.calls(miss())), (1, 0));
    assert_eq!((cold.calls("submit_bio"), warm.calls("submit_bio")), (1, 0));
    assert_eq!(cold.notes["page cache miss, page allocated"], [miss()]);
    assert_eq!(cold.notes["I/O submitted to the disk"], ["submit_bio"]);
    assert_eq!(warm.notes.keys().collect::<Vec<_>>(), ["looks into the page cache"]);
    // Deeper rows are only calls that lead to a note.
    let noted: Vec<_> = cold.notes.values().flatten().collect();
    for (row, next) in cold.rows.iter().zip(cold.rows.iter().skip(1).map(Some).chain([None])) {
        let leads = next.is_some_and(|next| next.depth > row.depth);
        assert!(row.depth <= 2 || leads || noted.contains(&&row.name), "{row:?}");
    }
}

/// By the clock, a cold read takes at least as long as the disk, and all reads together no longer than the program. By the
/// disk's own count, there are one cold read with the tracer and three without, and no I/O for the warm ones.
fn scenario_reads_from_a_disk_that_takes_20_ms_when_it_is_cold() {
    quiet();
    let disk = NullBlk::new("scenario", Duration::from_millis(20)).unwrap();
    let device = disk.device.to_str().unwrap();
    let (count, start) = (|| stat(device)[0], Instant::now());
    let before = count();
    let [cold, warm] = reads(&["--file", device, "--bytes", "4096", "--depth", "50"]);
    let took = start.elapsed().as_secs_f64() * 1e6;
    // The output shows the middle one of three, so two take at least as long.
    assert!(cold.us >= 20_000.0 && warm.us > 0.0, "{cold:?} {warm:?}");
    assert!(2.0 * (cold.us + warm.us) <= took, "{took} us: {cold:?} {warm:?}");
    // The disk counts an I/O a little after it reports the completion.
    wait_until("all I/Os are counted", || count() - before >= 4);
    assert_eq!(count() - before, 4, "{cold:?}");
    assert_eq!((cold.calls("submit_bio"), warm.calls("submit_bio")), (1, 0));
    assert_eq!((cold.calls("blk_mq_submit_bio"), warm.calls("blk_mq_submit_bio")), (1, 0), "and all below");
}

/// The settings of ftrace that others may use, too. An unused buffer may have grown.
fn settings() -> BTreeMap<String, String> {
    let files = [
        "current_tracer",
        "max_graph_depth",
        "set_ftrace_filter",
        "set_ftrace_notrace",
        "set_ftrace_pid",
        "set_graph_function",
        "trace_clock",
        "trace_options",
        "tracing_on",
    ];
    files.map(|file| (file.to_owned(), fs::read_to_string(format!("{TRACEFS}/{file}")).unwrap())).into()
}

fn scenario_refuses_a_tracer_that_is_in_use() {
    with_ext4();
    let _depth = Setting::new(format!("{TRACEFS}/max_graph_depth"), "3").unwrap();
    let before = settings();
    let text = refused("page_cache_scenario");
    assert!(text.starts_with("Error: somebody else is using the kernel's function tracer\n"), "{text}");
    assert!(text.contains(&format!("{TRACEFS}/max_graph_depth: 3\n")), "{text}");
    assert_eq!((settings(), instances()), (before, vec![]));
}

/// Whether the tracer is on.
fn is_on() -> bool {
    let instances = instances().into_iter().map(|name| format!("{TRACEFS}/instances/{name}"));
    instances.chain([TRACEFS.to_owned()]).any(|folder| {
        let is = |file, value| fs::read_to_string(format!("{folder}/{file}")).is_ok_and(|text| text == value);
        is("current_tracer", "function_graph\n") && is("tracing_on", "1\n")
    })
}

/// A run that is in the middle of a read, or has ended.
fn with_the_tracer_on(disk: &NullBlk) -> Child {
    let mut command = Command::new("page_cache_scenario");
    command.arg("--file").arg(&disk.device).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    wait_until("the tracer is on", || is_on() || child.try_wait().unwrap().is_some());
    child
}

/// However it ends, even in the middle of a read that takes long.
fn scenario_leaves_ftrace_as_it_was() {
    quiet();
    let before = settings();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        long_enough(Duration::from_secs(1), |time| {
            let disk = NullBlk::new("scenario", time)?;
            let child = with_the_tracer_on(&disk);
            let _ = kill(Pid::from_raw(child.id() as i32), signal);
            let output = child.wait_with_output().unwrap();
            // If the run was killed, its reading process cleans up after its read.
            wait_until("ftrace is as it was", || (settings(), instances()) == (before.clone(), vec![]));
            // On a busy machine, it may have finished all its reads by then.
            if output.status.success() {
                return Ok(None);
            }
            let said = String::from_utf8(output.stderr).unwrap();
            if signal == Signal::SIGKILL {
                assert_eq!((output.status.signal(), &*said), (Some(9), ""));
            } else {
                assert_eq!(said, "Error: the run ended before the file was read\n");
            }
            Ok(Some(()))
        })
        .unwrap();
    }
}
