//! Known I/O for a tool to see, and what became of it: what `cargo lab prove` asks the guest to do, and its answer.

use serde::{Deserialize, Serialize};

/// Known I/O. `lab/prove/scenes.toml` has all of them.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scene {
    pub name: String,
    /// What happens, for people.
    pub says: String,
    pub disks: Vec<Disk>,
    /// The arguments of `io`, one process after the other. `@NAME` is a disk.
    pub io: Vec<String>,
}

/// A disk of null_blk with a set time.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    pub name: String,
    /// How long it takes for each I/O, in microseconds.
    pub us: u64,
    /// How many I/Os it works on at a time.
    #[serde(default)]
    pub depth: Option<u64>,
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
}

/// What happened, none of it from the tool but `stdout` and `stderr`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Played {
    pub disks: Vec<Counted>,
    /// What each `io` did.
    pub done: Vec<Process>,
    pub stdout: String,
    pub stderr: String,
    /// Why there is nothing to grade: the tool did not start, or ended early.
    pub failed: Option<String>,
    /// BPF programs that are still loaded after its end.
    pub left: u64,
}

/// A disk, and what the kernel has counted in its `stat`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Counted {
    pub name: String,
    /// In /dev.
    pub device: String,
    pub us: u64,
    pub reads: u64,
    pub writes: u64,
    pub bytes: u64,
}

/// An `io`, by its report.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Process {
    /// The name of its disk in the scene.
    pub disk: String,
    pub is_write: bool,
    pub pid: u32,
    pub count: u64,
    /// Of each I/O.
    pub size: u64,
    /// The longest of its system calls, by its own clock, in microseconds.
    pub max_us: f64,
}
