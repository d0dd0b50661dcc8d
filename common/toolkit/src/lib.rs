//! What several examples call beside `common`: reports at intervals, JSON, names of disks and of a request's flags, and
//! the kernel's own tracer.

#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

pub mod disks;
pub mod flags;
pub mod ftrace;
pub mod interval;
pub mod output;
