//! `cargo lab drift`: what the probe points of the tutorial are on each kernel, and how often each is called by
//! workloads that are known. It writes the data that the chapter "The kernel moved" shows.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use common::probe::{Function, Functions};
use common::{Error, OrCause, Result, preflight, tracefs};
use libbpf_rs::ReferencesType;
use libbpf_rs::btf::types::{FuncProto, MemberAttr, Ptr, Struct, Typedef};
use libbpf_rs::btf::{Btf, BtfType};

use crate::guest::running::io;
use crate::guest::system::{forget, mount_fs, unmount_fs};
use crate::machine::kernels::{MATRIX, Series};
use crate::machine::vm::Machine;
use crate::publish::sync;
use crate::shared::disks::{FS_MOUNT, RAW_DEVICE};
use crate::workbook::Workbook;

/// Where the data is kept, from the top folder.
pub const DATA: &str = "docs/src/kernels.tsv";

/// Bytes of each I/O.
const PAGE: usize = 4096;
const WRITES: u64 = 64;
const PAGES: u64 = 256;
const PROCESSES: u64 = 8;

/// What is done while the calls of a probe point are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Direct writes to the raw disk. All calls of the machine count: completions belong to no process.
    Write,
    /// Reads of a file that is not in the page cache, then the same again. Only the reader's calls count.
    Read,
    /// Starts of a process. Only the starter's calls count.
    Start,
}

/// Functions and tracepoints (with a `/`), in the order in which an I/O passes them.
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

/// The tables: the first column of the data, and what the book says above it.
const TABLES: [(&str, &str); 5] = [
    ("write", "Calls during 64 direct writes of 4 KiB to a raw disk, by whoever it was"),
    (
        "read",
        "Calls by a process that reads 256 pages of a file, one after the other: not in the page cache / again",
    ),
    ("start", "Calls by a process that starts 8 others"),
    ("field", "Fields: at which byte of the structure"),
    ("arguments", "What a tracepoint hands to a `tp_btf` program: pointers to these"),
];

/// What each kernel of the matrix is, and what it stands for.
const KERNELS: [[&str; 3]; MATRIX.len()] = [
    ["5.10", "Debian 11, bullseye", "before folios; requests complete one by one"],
    ["6.1", "Debian 12, bookworm", "folios, completion in batches; ext4 keeps to one page a folio"],
    ["6.12", "Debian 13, trixie, and the security updates of 12", "today: the default here"],
    ["7.2", "Debian unstable, sid", "what comes: large folios on ext4, a preemptible kernel"],
];

/// What some kernels say, as a table: a row for each probe point, a column for each kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// The columns' names.
    pub kernels: Vec<String>,
    /// What it is a row of, the probe point, and a cell for each kernel.
    pub rows: Vec<(String, String, Vec<String>)>,
}

impl Drift {
    /// Reads the data that is kept.
    ///
    /// # Errors
    /// If there is none.
    pub fn read(root: &Path) -> Result<Self> {
        let path = root.join(DATA);
        let text = fs::read_to_string(&path);
        Ok(Self::parse(&text.or_cause(format!("cannot read {}; write it: cargo lab drift", path.display()))?))
    }

    /// Reads what [`Drift::text`] wrote.
    pub fn parse(text: &str) -> Self {
        let mut lines = text.lines().map(|line| line.split('\t').map(str::to_owned));
        let kernels = lines.next().into_iter().flatten().skip(2).collect();
        let row = |mut cells: std::iter::Map<_, _>| Some((cells.next()?, cells.next()?, cells.collect()));
        Self { kernels, rows: lines.filter_map(row).collect() }
    }

    fn text(&self) -> String {
        let row = |of: &str, point: &str, cells: &[String]| {
            [&[of.to_owned(), point.to_owned()], cells].concat().join("\t") + "\n"
        };
        let rows = self.rows.iter().map(|(of, point, cells)| row(of, point, cells));
        row("of", "point", &self.kernels) + &rows.collect::<String>()
    }

    /// What a kernel says of each point.
    pub fn column(&self, kernel: &str) -> Option<Vec<[String; 3]>> {
        let nth = self.kernels.iter().position(|other| other == kernel)?;
        let cell = |(of, point, cells): &(String, String, Vec<String>)| {
            Some([of.clone(), point.clone(), cells.get(nth)?.clone()])
        };
        self.rows.iter().map(cell).collect()
    }

    /// Puts a kernel's column in, last if it is new. Rows that were measured now come as they were measured now.
    fn put(&mut self, kernel: &str, column: &[[String; 3]]) {
        let nth = self.kernels.iter().position(|other| other == kernel).unwrap_or_else(|| {
            self.kernels.push(kernel.to_owned());
            self.kernels.len() - 1
        });
        let rows = column.iter().map(|[of, point, cell]| {
            let old = self.rows.iter().find(|row| (&row.0, &row.1) == (of, point));
            let mut cells = old.map(|row| row.2.clone()).unwrap_or_default();
            cells.resize(self.kernels.len(), "?".to_owned());
            cells[nth].clone_from(cell);
            (of.clone(), point.clone(), cells)
        });
        self.rows = rows.collect();
    }

    /// The tables as Markdown, with columns as wide as they must be.
    fn tables(&self) -> String {
        let tables = TABLES.map(|(of, caption)| {
            let head = [vec![String::new()], self.kernels.clone()].concat();
            let rows = self.rows.iter().filter(|row| row.0 == of);
            let rows = rows.map(|(_, point, cells)| {
                // What is there, can be probed and is not called is what the chapter warns of.
                let cells = cells.iter().map(|cell| match cell.split(['/', ' ']).all(|part| part == "0") {
                    true => format!("**{cell}**"),
                    false => cell.clone(),
                });
                let kind = if point.contains('/') { "tracepoint " } else { "" };
                let name = point.rsplit('/').next().unwrap_or(point);
                std::iter::once(format!("{kind}`{name}`")).chain(cells).collect()
            });
            format!("{caption}:\n\n{}", markdown(std::iter::once(head).chain(rows).collect()))
        });
        tables.join("\n")
    }
}

/// A Markdown table, from its rows of cells, with columns as wide as they must be.
pub(crate) fn markdown(rows: Vec<Vec<String>>) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width =
        |nth| rows.iter().filter_map(|row| row.get(nth)).map(|cell: &String| cell.chars().count()).max();
    let widths: Vec<_> = (0..columns).map(|nth| width(nth).unwrap_or(0)).collect();
    let mut lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!(" {cell:<width$} |"));
        format!("|{}\n", cells.collect::<String>())
    });
    let head = lines.next().unwrap_or_default();
    let rule: String = widths.iter().map(|width| format!("{}|", "-".repeat(width + 2))).collect();
    format!("{head}|{rule}\n{}", lines.collect::<String>())
}

/// The tables of the chapter: probe points on the kernels of the matrix.
///
/// # Errors
/// If there is no data.
pub fn table(root: &Path) -> Result<String> {
    Drift::read(root).map(|drift| drift.tables())
}

/// A table of the kernels: which they are, and what each stands for.
///
/// # Errors
/// If there is no data.
pub fn kernels_table(root: &Path) -> Result<String> {
    let drift = Drift::read(root)?;
    let mut rows = vec![["kernel", "measured", "where from", "stands for"].map(str::to_owned).to_vec()];
    for [series, from, stands_for] in KERNELS {
        let column = drift.column(series).unwrap_or_default();
        let release = column.iter().find(|[of, _, _]| of == RELEASE).map_or("", |[_, _, cell]| cell);
        rows.push([series, release, from, stands_for].map(str::to_owned).to_vec());
    }
    Ok(markdown(rows))
}

/// The row with the kernels' releases.
pub const RELEASE: &str = "release";

/// On the host: boots kernels, and keeps what those of the matrix say. What others say is printed beside that.
///
/// # Errors
/// If a guest can't tell.
pub fn run(workbook: &Workbook, names: &[String]) -> Result<ExitCode> {
    let path = workbook.root.join(DATA);
    let mut drift = match path.exists() {
        true => Drift::read(&workbook.root)?,
        false => Drift { kernels: MATRIX.map(|series| series.name.to_owned()).to_vec(), ..Drift::default() },
    };
    let all = MATRIX.map(|series| series.name.to_owned());
    for name in if names.is_empty() { &all[..] } else { names } {
        eprintln!("Booting Linux {name} ...");
        let mut guest = Machine::new(workbook, name)?.boot()?;
        let seen = guest.output(&["guest", "drift"], Duration::from_secs(120))?;
        if seen.status != 0 {
            return Err(Error::new(format!("{name} can't be measured")).evidence(seen.stderr));
        }
        let text = String::from_utf8_lossy(&seen.stdout).into_owned();
        let cells = |line: &str| {
            let cells: Vec<_> = line.split('\t').map(str::to_owned).collect();
            cells.try_into().ok()
        };
        let column: Vec<[String; 3]> = text.lines().filter_map(cells).collect();
        if Series::of(name).is_some() {
            drift.put(name, &column);
            fs::write(&path, drift.text()).or_cause(format!("cannot write {}", path.display()))?;
            eprint!("{}", sync::write(workbook, false)?);
        } else {
            let mut both = drift.clone();
            both.put(&guest.release, &column);
            print!("{}", both.tables());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// In the guest: what this kernel says of each point, as rows of the data.
///
/// # Errors
/// If something can't be looked at or done.
pub fn measure() -> Result<Vec<[String; 3]>> {
    let functions = Functions::read()?.ok_or_else(|| {
        Error::new("this kernel does not tell which functions can be probed")
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

/// The types of what a tracepoint hands to a program; of a pointer, what it points to.
fn arguments(btf: &Btf<'_>, tracepoint: &str) -> Option<String> {
    let function: Typedef<'_> = btf.type_by_name(&format!("btf_trace_{tracepoint}"))?;
    let function =
        FuncProto::try_from(Ptr::try_from(function.referenced_type()).ok()?.referenced_type()).ok()?;
    let name = |of: BtfType<'_>| of.name().map(|name| name.to_string_lossy().into_owned());
    // The first is the tracing's own.
    let names = function.iter().skip(1).map(|argument| {
        let argument = btf.type_by_id::<BtfType<'_>>(argument.ty)?;
        match Ptr::try_from(argument) {
            Ok(pointer) => name(pointer.referenced_type().skip_mods_and_typedefs()),
            Err(_) => name(argument),
        }
    });
    names.collect::<Option<Vec<_>>>().map(|names| names.join(", "))
}

/// What there is of a probe point.
enum Found {
    /// It can be probed: itself, or only these relatives of it.
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

/// A trace instance that notes calls of functions and tracepoints.
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

    /// Looks for a point, and has it noted if it can be.
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
        // An empty filter would be all functions.
        if !self.functions.is_empty() {
            self.set("set_ftrace_filter", &self.functions.join("\n"))?;
            self.set("current_tracer", "function")?;
        }
        Ok(())
    }

    /// How often what was noted during `work`, by anybody or by this process alone.
    fn count(&self, ours: bool, work: impl FnOnce() -> Result<()>) -> Result<HashMap<String, u64>> {
        self.set("trace", "")?;
        // Open already: switching it off must call as little as can be.
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

/// Who called what, of a line of a trace.
fn call(line: &str) -> Option<(u32, &str)> {
    let (head, what) = line.split_once(": ")?;
    let (task, _) = head.rsplit_once(" [")?;
    let (_, pid) = task.trim_end().rsplit_once('-')?;
    Some((pid.parse().ok()?, what.split([' ', ':']).next()?))
}

impl Work {
    /// Does it, and gives how often what was called.
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
                forget(&path)?;
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
    fn lines_of_a_trace_tell_who_called_what() {
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

    #[test]
    fn a_kernel_gets_a_column() {
        let mut drift = Drift::parse("of\tpoint\t5.10\nwrite\tbio_endio\t64\n");
        let row = |point: &str, cell: &str| ["write".to_owned(), point.to_owned(), cell.to_owned()];
        let column = [row("bio_endio", "0"), row("block/block_rq_issue", "as .part.0: 64")];
        drift.put("9.9", &column);
        assert_eq!(Drift::parse(&drift.text()), drift);
        assert_eq!(drift.column("9.9").unwrap(), column);
        assert_eq!(drift.column("9.8"), None);
        insta::assert_snapshot!(drift.tables().split("\n\n").take(2).collect::<Vec<_>>().join("\n\n"), @r"
        Calls during 64 direct writes of 4 KiB to a raw disk, by whoever it was:

        |                             | 5.10 | 9.9            |
        |-----------------------------|------|----------------|
        | `bio_endio`                 | 64   | **0**          |
        | tracepoint `block_rq_issue` | ?    | as .part.0: 64 |
        ");
    }
}
