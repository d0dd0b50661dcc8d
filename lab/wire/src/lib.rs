//! What the lab on your machine and the guest say to each other: messages, names, formats; and what both do alike.

#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

pub mod arch;
pub mod catalog;
pub mod command;
pub mod disks;
pub mod files;
pub mod kit;
pub mod mystery;
pub mod play;
pub mod protocol;
pub mod prove;
pub mod text;
pub mod verdict;
pub mod workload;
