//! What the chapter *How to find a slow disk* claims about stacks, states and limits.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::Result;
use guest::null_blk::{NullBlk, long_enough};

use crate::guest::{AtEnd, quiet, sh};
use crate::{Case, cases};

pub const CASES: &[Case] = cases![
    who_waits_for_asynchronous_io_is_in_state_s,
    who_waits_for_metadata_has_the_file_system_uppermost,
    a_limit_holds_for_the_groups_below_it,
];

const PAGE: &str = include_str!("../../../docs/src/slow-disk.md");

/// The names of stacks in one row of the page's table.
fn names(row: &str) -> Vec<&'static str> {
    let line = PAGE.lines().find(|line| line.trim_start().starts_with('|') && line.contains(row)).unwrap();
    line.split('|').nth(1).unwrap().split('`').skip(1).step_by(2).collect()
}

/// Runs a command, and returns the state and the stack of one of its threads at a moment when it sleeps and `is_there` is true
/// for the stack; `None` if the I/O was over before.
fn waiting(command: &str, is_there: impl Fn(&str) -> bool) -> Option<(String, String)> {
    let mut command = Command::new("sh").args(["-c", command]).stdout(Stdio::null()).spawn().unwrap();
    let mut seen = None;
    while seen.is_none() && command.try_wait().unwrap().is_none() {
        let tasks = fs::read_dir(format!("/proc/{}/task", command.id())).into_iter().flatten().flatten();
        seen = tasks.map(|task| task.path()).find_map(|task| {
            // The files are gone with the thread.
            let read = |file| fs::read_to_string(task.join(file)).unwrap_or_default();
            let (stack, status) = (read("stack"), read("status"));
            let state = status.lines().find(|line| line.starts_with("State:"))?.to_owned();
            (!state.starts_with("State:\tR") && is_there(&stack)).then_some((state, stack))
        });
        thread::yield_now();
    }
    assert!(command.wait().unwrap().success());
    seen
}

/// Question 2. libaio does the same system calls.
fn who_waits_for_asynchronous_io_is_in_state_s() {
    let names = names("asynchronous");
    let symbols = sh("cat /proc/kallsyms");
    assert!(names.len() == 3 && names.iter().all(|name| symbols.contains(*name)), "{names:?}");
    let attempt = |time| -> Result<Option<(String, String)>> {
        let disk = NullBlk::new("vda", time)?;
        let device = disk.device.clone();
        let inflight = format!("/sys/block/{}/inflight", device.file_name().unwrap().display());
        let is_there = |stack: &str| {
            let reads_and_writes = fs::read_to_string(&inflight).unwrap();
            stack.contains("io_getevents") && reads_and_writes.split_whitespace().eq(["1", "0"])
        };
        Ok(waiting(&format!("exec io read-direct {} --engine libaio --count 1", device.display()), is_there))
    };
    let (state, stack) = long_enough(Duration::from_millis(500), attempt).unwrap();
    assert!(state.starts_with("State:\tS"), "{state}");
    assert!(stack.lines().any(|line| names.iter().any(|name| line.contains(name))), "{stack}");
}

/// Question 2: a cold inode or directory. `/proc/PID/stack` leaves out what is in the scheduler's section, such as
/// `bit_wait_io()`, so neither a page nor an own I/O is in it.
fn who_waits_for_metadata_has_the_file_system_uppermost() {
    let names = names("metadata");
    let attempt = |time| -> Result<Option<(String, String)>> {
        let disk = NullBlk::with("vda", time, &[("memory_backed", 1)])?;
        let device = disk.device.display();
        sh(&format!("mke2fs -N 16 {device} && mkdir -p /tmp/meta && mount -t ext4 {device} /tmp/meta"));
        let _unmounted = AtEnd("umount /tmp/meta");
        sh(&format!(
            "mkdir /tmp/meta/cold && touch /tmp/meta/cold/file && umount /tmp/meta && mount -t ext4 {device} /tmp/meta"
        ));
        Ok(waiting("exec ls /tmp/meta/cold/file", |stack| stack.contains("lookup")))
    };
    let (state, stack) = long_enough(Duration::from_millis(20), attempt).unwrap();
    assert!(state.starts_with("State:\tD"), "{state}");
    let others = ["wait_bit", "page_bit", "bit_wait", "submit_bio", "dio", "direct_IO"];
    assert!(!others.iter().any(|name| stack.contains(name)), "{stack}");
    let uppermost = stack.lines().next().unwrap();
    assert!(names.iter().any(|name| uppermost.contains(name)), "{stack}");
}

/// Question 4: the file of the process's own group says nothing, and the page's command finds the limit above it.
fn a_limit_holds_for_the_groups_below_it() {
    quiet();
    let disk = NullBlk::new("vda", Duration::from_millis(1)).unwrap();
    let device = disk.device.display().to_string();
    let name = device.trim_start_matches("/dev/");
    sh("grep -q ' /sys/fs/cgroup ' /proc/mounts || mount -t cgroup2 cgroup2 /sys/fs/cgroup");
    let _removed = AtEnd("cd /sys/fs/cgroup; rmdir pod/app pod");
    sh(&format!(
        "cd /sys/fs/cgroup; echo +io > cgroup.subtree_control; mkdir pod; echo +io > pod/cgroup.subtree_control; \
         mkdir pod/app; echo $(cat /sys/block/{name}/dev) wiops=2 > pod/io.max"
    ));
    let start = Instant::now();
    let write = format!("echo $$ > /sys/fs/cgroup/pod/app/cgroup.procs; exec io write {device} --count 6");
    sh(&write);
    // The disk takes 6 ms for all, and two a second may begin.
    assert!(start.elapsed() > Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(sh("cat /sys/fs/cgroup/pod/app/io.max"), "");
    let command = "find /sys/fs/cgroup -name io.max -exec grep -H . {} +";
    assert!(PAGE.contains(&format!("`{command}`")));
    let found = sh(command);
    assert!(found.starts_with("/sys/fs/cgroup/pod/io.max:") && found.lines().count() == 1, "{found}");
}
