//! A recording as one JSON document, which `--json` prints and the page shows. Calls are stored as columns, which keeps
//! the document small.
//!
//! Times are in nanoseconds since `start_ns`; -1 means none.

use std::collections::HashMap;
use std::hash::Hash;

use serde::Serialize;
use toolkit::disks;

use crate::recording::Task;
use crate::tree::Tree;

/// The document.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    /// `ctracer view 1`, where 1 is the version.
    pub format: &'static str,
    /// The class.
    pub class: String,
    /// The kernel's release.
    pub kernel: String,
    /// When the first call was made, by the clock of `bpf_ktime_get_ns()`.
    pub start_ns: u64,
    /// When the last event came, by the same clock.
    pub end_ns: u64,
    /// Events that found no room in the ring buffer, for each CPU; empty if the recording was cut short.
    pub lost: Vec<u64>,
    /// Calls for which the kernel did not run the programs; null on kernels that don't count them.
    pub suppressed: Option<u64>,
    /// Functions.
    pub functions: Vec<Function>,
    /// Threads.
    pub tasks: Vec<Task>,
    /// Disks and partitions.
    pub devices: Vec<Device>,
    /// Operations of bios, such as `write`.
    pub operations: Vec<String>,
    /// Sets of flags, such as `Sync-Idle`.
    pub flag_names: Vec<String>,
    /// Addresses.
    pub objects: Vec<String>,
    /// The calls, in the order in which they were made.
    pub calls: Calls,
    /// The lives, in the order in which they began.
    pub lives: Vec<Life>,
}

/// A function.
#[derive(Clone, Debug, Serialize)]
pub struct Function {
    name: String,
    prototype: String,
    /// Which argument is the object, counted from 1.
    argument: u8,
    /// Such as `block/blk-core.c:905`, if debug info was available.
    source: Option<String>,
}

/// A disk or partition.
#[derive(Clone, Debug, Serialize)]
pub struct Device {
    number: String,
    name: String,
}

/// Each column has one entry per call. If the class isn't bio, the columns of a bio's data are left out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Calls {
    function: Vec<usize>,
    task: Vec<usize>,
    cpu: Vec<u16>,
    interrupt: Vec<u8>,
    object: Vec<usize>,
    life: Vec<i64>,
    depth: Vec<u32>,
    parent: Vec<i64>,
    start: Vec<i64>,
    duration: Vec<i64>,
    returned: Vec<Option<String>>,
    #[serde(flatten)]
    bio: Option<Bios>,
}

/// The contents of each call's bio.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Bios {
    sector: Vec<u64>,
    bytes: Vec<u32>,
    operation: Vec<usize>,
    flags: Vec<usize>,
    device: Vec<i64>,
    status: Vec<u8>,
}

/// A life.
#[derive(Clone, Debug, Serialize)]
pub struct Life {
    object: usize,
    operation: usize,
    flags: usize,
    device: i64,
    sector: u64,
    bytes: u32,
    start: i64,
    end: i64,
    status: u8,
    calls: Vec<usize>,
    /// When its request was made, issued and done; null if it had none.
    request: Option<[i64; 3]>,
}

/// Distinct values, in the order in which they first came.
#[derive(Debug)]
struct Table<K>(HashMap<K, usize>, Vec<K>);

impl<K: Clone + Eq + Hash> Table<K> {
    fn new() -> Self {
        Self(HashMap::new(), Vec::new())
    }

    fn index(&mut self, key: K) -> usize {
        let Self(known, all) = self;
        *known.entry(key).or_insert_with_key(|key| {
            all.push(key.clone());
            all.len() - 1
        })
    }
}

impl View {
    /// The document for a recording.
    pub fn of(tree: &Tree) -> Self {
        let start_ns = tree.calls.first().map_or(0, |call| call.place.time);
        let ends = tree.calls.iter().map(|call| call.end.unwrap_or(call.place.time));
        let since = |time: u64| time.saturating_sub(start_ns) as i64;
        let index = |index: Option<usize>| index.map_or(-1, |index| index as i64);

        let (mut objects, mut operations, mut flags) = (Table::new(), Table::new(), Table::new());
        let mut devices = Table::new();
        let mut device = |number: u32, time: u64| {
            if number == 0 { -1 } else { devices.index((number, tree.device(number, time))) as i64 }
        };
        let mut calls = Calls::default();
        let mut bios = Bios::default();
        for call in &tree.calls {
            let place = &call.place;
            calls.function.push(call.function);
            calls.task.push(call.task);
            calls.cpu.push(place.cpu);
            calls.interrupt.push(place.interrupt.into());
            calls.object.push(objects.index(call.object));
            calls.life.push(index(call.life));
            calls.depth.push(call.depth);
            calls.parent.push(index(call.parent));
            calls.start.push(since(place.time));
            calls.duration.push(call.end.map_or(-1, |end| end.saturating_sub(place.time) as i64));
            calls.returned.push(tree.returned(call));
            if let Some(bio) = &call.bio {
                bios.sector.push(bio.sector);
                bios.bytes.push(bio.bytes);
                bios.operation.push(operations.index(tree.operation(bio)));
                bios.flags.push(flags.index(tree.header.flags.names(bio.opf)));
                bios.device.push(device(bio.device, place.time));
                bios.status.push(bio.status);
            }
        }
        if tree.header.class == "bio" {
            calls.bio = Some(bios);
        }
        let lives = tree.lives.iter().map(|life| Life {
            object: objects.index(life.object),
            operation: operations.index(tree.operation(&life.bio)),
            flags: flags.index(tree.header.flags.names(life.bio.opf)),
            device: device(life.bio.device, life.start),
            sector: life.bio.sector,
            bytes: life.bio.bytes,
            start: since(life.start),
            end: life.end.map_or(-1, since),
            status: life.status,
            calls: life.calls.clone(),
            request: life.request.map(|times| times.map(since)),
        });
        let lives = lives.collect();
        let losses = tree.losses.clone().unwrap_or_default();
        Self {
            format: "ctracer view 1",
            class: tree.header.class.clone(),
            kernel: tree.header.kernel.clone(),
            start_ns,
            end_ns: ends.max().unwrap_or(start_ns),
            lost: losses.lost,
            suppressed: losses.suppressed,
            functions: tree.header.functions.iter().map(Function::of).collect(),
            tasks: tree.tasks.clone(),
            devices: devices
                .1
                .iter()
                .map(|(number, name)| Device { number: disks::shown(*number), name: name.clone() })
                .collect(),
            operations: operations.1,
            flag_names: flags.1,
            objects: objects.1.iter().map(|object| format!("0x{object:x}")).collect(),
            calls,
            lives,
        }
    }
}

impl Function {
    fn of(function: &crate::recording::Function) -> Self {
        let crate::recording::Function { name, prototype, argument, source, .. } = function.clone();
        Self { name, prototype, argument, source }
    }
}
