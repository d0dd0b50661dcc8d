//! What runs inside the guest, and nowhere else: its init, workloads, checks, and its half of the measurements.

#![deny(unsafe_code)]
#![warn(missing_docs, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

pub mod bench;
pub mod check;
pub mod checks;
pub mod clinic;
pub mod commands;
pub mod demo;
pub mod device_mapper;
pub mod drift;
pub mod helpers;
pub mod init;
pub mod journaled;
pub mod kit;
pub mod mystery;
pub mod null_blk;
pub mod peers;
pub mod running;
pub mod served_disk;
pub mod system;
pub mod toolbox;
pub mod truth;
pub mod verdict;
pub mod ways;
pub mod workload;
pub mod workshop;
