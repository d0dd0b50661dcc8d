//! page_cache_scenario: what does the kernel do for a read, without and with the page cache?

mod call_graph;
mod calls;
mod file;
mod reader;

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::Parser;
use common::{args, preflight, report};
use serde_json::json;
use toolkit::ftrace::{FUNCTION_GRAPH, FunctionGraph};
use toolkit::output::Output;

use crate::call_graph::{Pair, Run};
use crate::calls::{MISS, NOTES};
use crate::file::Subject;
use crate::reader::Reader;

/// How often we time the two reads.
const TIMES: usize = 3;

/// Show which functions the kernel calls to read a file that is not in the page cache, and then again when it is
#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version)]
struct Args {
    /// Read this file [default: a temporary file on a disk]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Read the first N bytes
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=1 << 20), allow_negative_numbers = true)]
    bytes: u32,

    /// Show calls down to this depth, and deeper ones on the path to a call with a note
    #[arg(long, value_name = "LEVELS", default_value_t = 6, value_parser = clap::value_parser!(u8).range(1..=50), allow_negative_numbers = true)]
    depth: u8,

    #[command(flatten)]
    output: Output,

    /// Be the process that reads
    #[arg(long, hide = true, requires = "file")]
    reader: bool,
}

impl args::Verbose for Args {
    fn verbose(&self) -> bool {
        false
    }
}

fn main() -> common::Result<()> {
    let args = Args::parse();
    if let (true, Some(file)) = (args.reader, &args.file) {
        return reader::serve(file, args.bytes as usize);
    }
    common::init(&args)?;
    preflight::needs([format!("tracer/{FUNCTION_GRAPH}")]).iter().try_for_each(preflight::Need::check)?;

    let subject = match &args.file {
        Some(path) => Subject::open(path)?,
        None => Subject::make(args.bytes)?,
    };
    let mut reader = Reader::start(&subject.path, args.bytes)?;
    let tracer = FunctionGraph::of(reader.pid(), calls::is_recorded)?;
    subject.forget()?;
    let (read, cold_trace) = tracer.record(|| reader.read())?;
    let (_, warm_trace) = tracer.record(|| reader.read())?;
    drop(tracer);
    // Most of the time of a short read is the tracer's overhead, so we time reads without the tracer. The first of them
    // can be slow, because switching the tracer off has just changed the kernel's code.
    let untraced = [(); TIMES].map(|()| {
        subject.forget()?;
        Ok([reader.read()?, reader.read()?])
    });
    let untraced = untraced.into_iter().collect::<common::Result<Vec<_>>>()?;

    let times = |nth: usize| untraced.iter().map(move |reads| reads[nth].took);
    let runs = [
        Run::new("First read: not in the page cache", times(0), calls::of_read(&cold_trace)?),
        Run::new("Second read: in the page cache", times(1), calls::of_read(&warm_trace)?),
    ];
    let (file, bytes) = (&subject.name, read.bytes);
    let numbers = json!({ "file": file, "bytes": bytes, "unit": "usecs", "reads": runs });
    let pair = Pair { runs, depth: args.depth.into(), notes: &NOTES };
    report::print(args.output.render(&numbers, || {
        let columns = if io::stdout().is_terminal() { report::columns() } else { usize::MAX };
        format!("Reads of {bytes} bytes of {file}, in microseconds\n\n{}", pair.text(columns).trim_end())
    }))?;
    if !pair.runs[0].graph.leads_to(MISS) {
        eprintln!(
            "warning: the first read missed no page: another program is using the file, or it is cached elsewhere"
        );
    }
    Ok(())
}
