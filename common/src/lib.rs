//! What the `main.rs` of a stage or an example calls: everything that is not the lesson.
//!
//! A map, a probe or a line that runs in the kernel never moves here. Those are what a stage is about.

#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

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

/// Prepares a run: libbpf's log goes where `--verbose` says, and Ctrl-C and SIGTERM wait until [`stop::Stop`]
/// asks for them. Call it first, before anything is loaded that would have to be cleared up.
///
/// # Errors
/// If the kernel refuses to block the signals.
pub fn init(args: &impl args::Verbose) -> Result<()> {
    libbpf_log::capture(args.verbose());
    stop::block_signals()
}
