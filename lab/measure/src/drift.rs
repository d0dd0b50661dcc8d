//! In the guest: what the tutorial's probe points are on this kernel, and how often known workloads call each of
//! them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::probe::{Function, Functions};
use common::{Error, OrCause, Result, preflight, tracefs};
use guest::running::io;
use guest::system::{evict, mount_fs, unmount_fs};
use libbpf_rs::ReferencesType;
use libbpf_rs::btf::types::{FuncProto, MemberAttr, Ptr, Struct, Typedef};
use libbpf_rs::btf::{Btf, BtfType};
use wire::disks::{FS_MOUNT, RAW_DEVICE};
use wire::measure::RELEASE;

/// Bytes of each I/O.
const PAGE: usize = 4096;
const WRITES: u64 = 64;
const PAGES: u64 = 256;
const PROCESSES: u64 = 8;

/// What to do while we count the calls of a probe point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Direct writes to the raw disk. We count the calls of all tasks, because completions belong to no process.
    Write,
    /// Reads of a file that is not in the page cache, then the same reads again. We count only the reader's calls.
    Read,
    /// Starts of a process. We count only the calls of the process that starts it.
    Start,
}

/// Functions and tracepoints (with a `/`), in the order in which an I/O reaches them.
const POINTS: [(Work, &[&str]); 3] = [
    (
        Work::Write,
        &[
            "submit_bio",
            "submit_bio_noacct",
            "generic_make_request",
            "block/block_bio_queue",
            "blk_account_io_start",
            "block/block_io_start",
            "block/block_rq_insert",
            "blk_start_request",
            "blk_mq_start_request",
            "block/block_rq_issue",
            "block/block_rq_complete",
            "blk_update_request",
            "blk_account_io_completion",
            "blk_mq_end_request",
            "blk_mq_end_request_batch",
            "__blk_mq_end_request",
            "blk_account_io_done",
            "block/block_io_done",
            "bio_endio",
            "block/block_bio_complete",
        ],
    ),
    (
        Work::Read,
        &[
            "vfs_read",
            "generic_file_buffered_read",
            "filemap_read",
            "filemap_splice_read",
            "filemap_get_pages",
            "filemap/mm_filemap_get_pages",
            "pagecache_get_page",
            "__filemap_get_folio",
            "add_to_page_cache_lru",
            "filemap_add_folio",
            "filemap/mm_filemap_add_to_page_cache",
            "mark_page_accessed",
            "folio_mark_accessed",
            "ext4_mpage_readpages",
        ],
    ),
    (
        Work::Start,
        &[
            "sys_clone",
            "__x64_sys_clone",
            "__x64_sys_clone3",
            "_do_fork",
            "kernel_clone",
            "sched/sched_process_fork",
        ],
    ),
];

/// Fields that moved.
const FIELDS: [(&str, &str); 9] = [
    ("bio", "bi_disk"),
    ("bio", "bi_partno"),
    ("bio", "bi_bdev"),
    ("bio", "bi_iter"),
    ("request", "rq_disk"),
    ("request_queue", "disk"),
    ("request", "__data_len"),
    ("request", "__sector"),
    ("trace_event_raw_mm_filemap_op_page_cache", "order"),
];

/// Tracepoints whose arguments changed.
const ARGUMENTS: [&str; 3] = ["block_bio_queue", "block_rq_issue", "block_bio_complete"];

/// In the guest: what this kernel has of each point, as rows of the data.
pub fn measure() -> Result<Vec<[String; 3]>> {
    let functions = Functions::read()?.ok_or_else(|| {
        Error::new("this kernel does not list the functions that can be probed")
            .evidence("available_filter_functions is missing")
            .fix("boot a kernel built with CONFIG_DYNAMIC_FTRACE and CONFIG_FUNCTION_TRACER")
    })?;
    let row = |of: &str, point: &str, cell: String| [of.to_owned(), point.to_owned(), cell];
    let mut rows = vec![row(RELEASE, "", preflight::release())];
    for (work, points) in POINTS {
        let mut trace = Trace::new()?;
        let found: Vec<_> =
            points.iter().map(|point| trace.watch(&functions, point)).collect::<Result<_>>()?;
        trace.begin()?;
        let counts = work.counts(&trace)?;
        let of = match work {
            Work::Write => "write",
            Work::Read => "read",
            Work::Start => "start",
        };
        for (point, found) in points.iter().zip(found) {
            rows.push(row(of, point, found.cell(point, &counts)));
        }
    }
    let btf = Btf::from_vmlinux().or_cause("cannot read the kernel's types")?;
    for (structure, field) in FIELDS {
        let byte = |found: Struct<'_>| {
            let member = found.iter().find(|member| member.name == Some(OsStr::new(field)))?;
            let (MemberAttr::Normal { offset } | MemberAttr::BitField { offset, .. }) = member.attr;
            Some((offset / 8).to_string())
        };
        let cell = btf.type_by_name(structure).and_then(byte);
        rows.push(row("field", &format!("{structure}.{field}"), cell.unwrap_or_else(|| NO.to_owned())));
    }
    for tracepoint in ARGUMENTS {
        let cell = arguments(&btf, tracepoint).unwrap_or_else(|| NO.to_owned());
        rows.push(row("arguments", tracepoint, cell));
    }
    Ok(rows)
}

const NO: &str = "no";

/// The types of the arguments that a tracepoint passes to a program; for a pointer, the type that it points to.
fn arguments(btf: &Btf<'_>, tracepoint: &str) -> Option<String> {
    let function: Typedef<'_> = btf.type_by_name(&format!("btf_trace_{tracepoint}"))?;
    let function =
        FuncProto::try_from(Ptr::try_from(function.referenced_type()).ok()?.referenced_type()).ok()?;
    let name = |of: BtfType<'_>| of.name().map(|name| name.to_string_lossy().into_owned());
    // The first argument is the tracing infrastructure's own.
    let names = function.iter().skip(1).map(|argument| {
        let argument = btf.type_by_id::<BtfType<'_>>(argument.ty)?;
        match Ptr::try_from(argument) {
            Ok(pointer) => name(pointer.referenced_type().skip_mods_and_typedefs()),
            Err(_) => name(argument),
        }
    });
    names.collect::<Option<Vec<_>>>().map(|names| names.join(", "))
}

/// What this kernel has of a probe point.
enum Found {
    /// It can be probed, or only these relatives of it can.
    Probeable(Vec<String>),
    NotProbeable,
    Nothing,
}

impl Found {
    fn cell(&self, point: &str, counts: &[HashMap<String, u64>]) -> String {
        match self {
            Self::Nothing => NO.to_owned(),
            Self::NotProbeable => "not probeable".to_owned(),
            Self::Probeable(names) => {
                let cells = names.iter().map(|name| {
                    let calls =
                        counts.iter().map(|counts| counts.get(name).copied().unwrap_or(0).to_string());
                    let calls = calls.collect::<Vec<_>>().join("/");
                    match name.strip_prefix(point) {
                        Some(suffix) if !suffix.is_empty() => format!("as {suffix}: {calls}"),
                        _ => calls,
                    }
                });
                cells.collect::<Vec<_>>().join(", ")
            }
        }
    }
}

/// A trace instance that records calls of functions and tracepoints.
struct Trace {
    path: PathBuf,
    functions: Vec<String>,
}

impl Trace {
    fn new() -> Result<Self> {
        let path = tracefs::path()?.join("instances/drift");
        fs::create_dir(&path).or_cause(format!("cannot make the trace instance {}", path.display()))?;
        let trace = Self { path, functions: Vec::new() };
        trace.set("tracing_on", "0")?;
        trace.set("buffer_size_kb", "512")?;
        Ok(trace)
    }

    fn set(&self, file: &str, value: &str) -> Result<()> {
        let path = self.path.join(file);
        fs::write(&path, value).or_cause(format!("cannot write {value:?} to {}", path.display()))
    }

    /// Looks for a point, and has it recorded if possible.
    fn watch(&mut self, functions: &Functions, point: &str) -> Result<Found> {
        if let Some((_, event)) = point.split_once('/') {
            if !self.path.join("events").join(point).exists() {
                return Ok(Found::Nothing);
            }
            self.set(&format!("events/{point}/enable"), "1")?;
            return Ok(Found::Probeable(vec![event.to_owned()]));
        }
        let names = match functions.find(point) {
            Function::Attachable => vec![point.to_owned()],
            Function::NotTraceable => return Ok(Found::NotProbeable),
            Function::Absent { relatives } if relatives.is_empty() => return Ok(Found::Nothing),
            Function::Absent { relatives } => relatives,
        };
        self.functions.extend(names.iter().cloned());
        Ok(Found::Probeable(names))
    }

    fn begin(&self) -> Result<()> {
        // An empty filter would mean all functions.
        if !self.functions.is_empty() {
            self.set("set_ftrace_filter", &self.functions.join("\n"))?;
            self.set("current_tracer", "function")?;
        }
        Ok(())
    }

    /// How often each point was called during `work`, by anybody or only by this process.
    fn count(&self, ours: bool, work: impl FnOnce() -> Result<()>) -> Result<HashMap<String, u64>> {
        self.set("trace", "")?;
        // Opened in advance, so that switching the trace off calls as few functions as possible.
        let mut switch =
            OpenOptions::new().write(true).open(self.path.join("tracing_on")).or_cause("cannot trace")?;
        let mut turn =
            |on: &str| std::io::Write::write_all(&mut switch, on.as_bytes()).or_cause("cannot trace");
        turn("1")?;
        let done = work();
        turn("0")?;
        done?;
        let trace = fs::read_to_string(self.path.join("trace")).or_cause("cannot read the trace")?;
        let mut counts = HashMap::new();
        for (pid, name) in trace.lines().filter_map(call) {
            if !ours || pid == std::process::id() {
                *counts.entry(name.to_owned()).or_default() += 1;
            }
        }
        for entry in fs::read_dir(self.path.join("per_cpu")).or_cause("cannot look at the trace")?.flatten() {
            let stats =
                fs::read_to_string(entry.path().join("stats")).or_cause("cannot look at the trace")?;
            if !stats.lines().any(|line| line == "overrun: 0") {
                return Err(Error::new("the trace was too small for all calls").evidence(stats));
            }
        }
        Ok(counts)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let events = self.set("current_tracer", "nop").and(self.set("events/enable", "0"));
        if let Err(error) =
            events.and(fs::remove_dir(&self.path).or_cause("cannot remove the trace instance"))
        {
            eprintln!("warning: {error}");
        }
    }
}

/// The process ID and the function in a line of a trace.
fn call(line: &str) -> Option<(u32, &str)> {
    let (head, what) = line.split_once(": ")?;
    let (task, _) = head.rsplit_once(" [")?;
    let (_, pid) = task.trim_end().rsplit_once('-')?;
    Some((pid.parse().ok()?, what.split([' ', ':']).next()?))
}

impl Work {
    /// Does the work, and returns how often each point was called.
    fn counts(self, trace: &Trace) -> Result<Vec<HashMap<String, u64>>> {
        match self {
            Self::Write => {
                // ext4 must not write meanwhile.
                unmount_fs()?;
                let write = ["write", RAW_DEVICE, "--count", &WRITES.to_string()];
                let counts = trace.count(false, || io(&write).map(drop));
                mount_fs()?;
                Ok(vec![counts?])
            }
            Self::Read => {
                let path = Path::new(FS_MOUNT).join("drift");
                let cannot = || format!("cannot write {}", path.display());
                fs::write(&path, vec![0xb1; PAGES as usize * PAGE]).or_cause(cannot())?;
                let file = File::open(&path).or_cause(cannot())?;
                evict(&path)?;
                let mut page = vec![0; PAGE];
                let mut read = || {
                    (0..PAGES)
                        .try_for_each(|nth| file.read_exact_at(&mut page, nth * PAGE as u64))
                        .or_cause("cannot read")
                };
                let counts = vec![trace.count(true, &mut read)?, trace.count(true, &mut read)?];
                fs::remove_file(&path).or_cause(cannot())?;
                Ok(counts)
            }
            Self::Start => {
                let start = |_| Command::new("true").status().map(drop).or_cause("cannot start a process");
                Ok(vec![trace.count(true, || (0..PROCESSES).try_for_each(start))?])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_trace_are_parsed() {
        let lines = [
            "# tracer: function",
            "              wl-98      [000] d...     2.310423: submit_bio <-iomap_dio_submit_bio",
            "   kworker/u4:1-9-8      [001] ...21     2.293669: block_rq_issue: 259,0 W 4096 () 0 + 8 [wl]",
            "          <idle>-0       [001] d.h2.     2.3: blk_account_io_completion.part.0 <-nvme_pci_complete_rq",
        ];
        let calls: Vec<_> = lines.into_iter().filter_map(call).collect();
        assert_eq!(
            calls,
            [(98, "submit_bio"), (8, "block_rq_issue"), (0, "blk_account_io_completion.part.0")]
        );
    }
}
