//! Known I/O for a tool to see, and what became of it: what `cargo lab prove` asks the guest to do, and its answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Known I/O. `lab/prove/scenes.toml` has all of them.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scene {
    pub name: String,
    /// What happens, for people.
    pub says: String,
    /// What a tool may count here, with its number known.
    #[serde(default = "of_disks")]
    pub counts: Vec<Counts>,
    #[serde(default)]
    pub disks: Vec<Disk>,
    /// The arguments of `io`, for one process after the other. `@NAME` is a disk. `discard @NAME` has `--size` only.
    pub io: Vec<String>,
    /// Whether all processes run at the same time.
    #[serde(default)]
    pub together: bool,
    /// What the processes are called, if not `io`.
    #[serde(default)]
    pub called: Option<String>,
    /// Whether each process is the first one of a namespace of its own, as in a container.
    #[serde(default)]
    pub container: bool,
    /// How many I/Os per second their cgroup may do.
    #[serde(default)]
    pub limit: Option<u64>,
    /// Where most I/Os wait before the disk gets them.
    #[serde(default)]
    pub waits: Option<Clock>,
}

impl Scene {
    pub fn has(&self, disk: &str) -> bool {
        self.disks.iter().any(|it| it.name == disk)
    }
}

/// What a tool counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Counts {
    /// What the lowest disk gets.
    #[default]
    Requests,
    /// What is submitted to the block layer.
    Bios,
    /// What each disk did, as the kernel counts it: requests, and bios of a disk that has none.
    Disks,
    /// System calls that read or write.
    Calls,
    /// Those for a file of a file system.
    Files,
    /// System calls that write what is cached.
    Syncs,
    /// Pages that a read found in the page cache, or didn't.
    Pages,
}

fn of_disks() -> Vec<Counts> {
    vec![Counts::Requests, Counts::Bios, Counts::Disks]
}

/// From where on a time counts, if something holds an I/O back before that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// From the submission of the bio: a cgroup's limit holds it back after that.
    Bio,
    /// From the request on: it waits for the disk in the scheduler.
    Request,
    /// From the moment that the disk gets it.
    Disk,
}

/// A disk of null_blk with a set time.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    pub name: String,
    /// How long it takes for each I/O, in microseconds.
    pub us: u64,
    /// More settings of null_blk, such as `hw_queue_depth`.
    #[serde(default)]
    pub set: BTreeMap<String, u64>,
    /// Files of its queue in sysfs, such as `max_sectors_kb`, and what is written to them, in this order.
    #[serde(default)]
    pub queue: Vec<(String, String)>,
    /// How many requests the kernel makes of each I/O.
    #[serde(default = "one")]
    pub pieces: u64,
    /// Whether it makes one request of some I/Os, and the kernel's counters say how many.
    #[serde(default)]
    pub merges: bool,
    /// Whether the I/Os go to a disk of device-mapper above it.
    #[serde(default)]
    pub mapped: bool,
}

fn one() -> u64 {
    1
}

/// How to run a tool.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Tool {
    /// Its program and arguments. `@NAME` is a disk's name in /dev.
    pub argv: Vec<String>,
    /// How to know that it watches: it prints this, or `None`: it sleeps.
    pub attached: Option<String>,
    /// How many seconds it waits for more before it prints: 0 if it prints at once.
    #[serde(default)]
    pub behind: u64,
    /// The folder that is its root, if it has its own libraries.
    #[serde(default)]
    pub root: Option<String>,
}

/// What happened, none of it from the tool but `stdout` and `stderr`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Played {
    pub disks: Vec<Counted>,
    /// What each process did.
    pub done: Vec<Process>,
    pub stdout: String,
    pub stderr: String,
    /// Why there is nothing to grade: the tool did not start, or ended early.
    pub failed: Option<String>,
    /// How often the kernel did not run the tool's BPF programs, because another one was running on that CPU. Kernels
    /// before 6.7 don't count that for probes and tracepoints.
    pub skipped: u64,
    /// BPF programs that are still loaded after its end.
    pub left: u64,
}

/// A disk, and what the kernel has counted in its `stat`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Counted {
    pub name: String,
    /// In /dev.
    pub device: String,
    /// Its major and its minor number.
    pub number: (u64, u64),
    /// The disk above it, to which the I/Os go.
    pub above: Option<(String, (u64, u64))>,
    pub us: u64,
    /// By operation: I/Os, merged I/Os, and bytes.
    pub stat: BTreeMap<Op, [u64; 3]>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    #[default]
    Read,
    Write,
    Discard,
    Flush,
    /// A page that was in the page cache.
    Hit,
    /// One that was not.
    Miss,
    /// What no scene has.
    Other,
}

/// A process, by its own report.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Process {
    /// The name of its disk in the scene; empty if it has a file of the guest's own file system.
    pub disk: String,
    pub op: Op,
    pub pid: u32,
    pub count: u64,
    /// Of each I/O.
    pub size: u64,
    pub fsyncs: u64,
    /// Whether no disk has to do with it.
    pub cached: bool,
    /// The longest of its system calls, by its own clock, in microseconds.
    pub max_us: f64,
    /// The mean of them.
    pub mean_us: f64,
    /// From before the first system call to after the last, in nanoseconds.
    pub ns: u64,
}
