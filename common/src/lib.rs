//! What the `main.rs` of a stage or an example calls: everything that is not the lesson.
//!
//! A map, a probe or a line that runs in the kernel never moves here, because a stage is about them.

#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

pub mod args;
mod error;
pub mod events;
mod formats;
pub mod functions;
pub mod histogram;
pub mod kernel;
pub mod kernel_pid;
mod kernel_types;
pub mod lab;
pub mod libbpf_log;
pub mod page;
pub mod preflight;
pub mod probe;
pub mod record;
mod refusal;
pub mod report;
pub mod section;
pub mod stop;
pub mod symbols;
pub mod task_storage;
pub mod trace_pipe;
pub mod traced;
pub mod tracefs;

pub use error::{Error, OrCause, Result};

/// The name of an environment variable. If it is set, a program parses its options and then ends with the exit status
/// [`OPTIONS_ARE_VALID`]. The lab uses this before it boots a kernel, to find out whether the program refuses an option or
/// only prints its help.
pub const CHECK_OPTIONS: &str = "WORKBOOK_CHECK_OPTIONS";

/// The exit status of a program that found [`CHECK_OPTIONS`] and accepts its options.
pub const OPTIONS_ARE_VALID: u8 = 113;

/// Prepares a run: shows libbpf's log with `--verbose`, and blocks Ctrl-C and SIGTERM until [`stop::Stop`] asks for
/// them. Call it first, before you load anything that must be cleaned up.
pub fn init(args: &impl args::Verbose) -> Result<()> {
    if std::env::var_os(CHECK_OPTIONS).is_some() {
        std::process::exit(OPTIONS_ARE_VALID.into());
    }
    libbpf_log::capture(args.verbose());
    stop::block_signals()
}
