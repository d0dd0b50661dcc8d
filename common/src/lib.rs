//! What the `main.rs` of a stage or an example calls: everything that is not the lesson.
//!
//! A map, a probe or a line that runs in the kernel never moves here. Those are what a stage is about.

#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

pub mod args;
pub mod call_graph;
pub mod disks;
mod error;
pub mod events;
pub mod flags;
pub mod ftrace;
pub mod heatmap;
pub mod histogram;
pub mod interval;
mod kernel;
mod lab;
pub mod libbpf_log;
pub mod preflight;
pub mod probe;
pub mod record;
pub mod report;
pub mod stop;
pub mod symbols;
pub mod trace_pipe;
pub mod traced;
pub mod tracefs;

pub use error::{Error, OrCause, Result};

/// The name of an environment variable. A program that finds it ends as soon as it has understood its options, with the exit
/// status [`UNDERSTOOD`]. So the lab finds out, before it boots a kernel, that the program refuses an option or only prints
/// its help.
pub const ONLY_OPTIONS: &str = "WORKBOOK_ONLY_OPTIONS";

/// The exit status of a program that was asked for [`ONLY_OPTIONS`] and would run with these.
pub const UNDERSTOOD: u8 = 113;

/// Prepares a run: libbpf's log goes where `--verbose` says, and Ctrl-C and SIGTERM wait until [`stop::Stop`]
/// asks for them. Call it first, before anything is loaded that would have to be cleared up.
///
/// # Errors
/// If the kernel refuses to block the signals.
pub fn init(args: &impl args::Verbose) -> Result<()> {
    if std::env::var_os(ONLY_OPTIONS).is_some() {
        std::process::exit(UNDERSTOOD.into());
    }
    libbpf_log::capture(args.verbose());
    stop::block_signals()
}
