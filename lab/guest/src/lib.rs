//! What runs inside the guest, and nowhere else: its init, workloads and checks.

#![deny(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

pub mod beside;
pub mod check;
pub mod checks;
pub mod clinic;
pub mod commands;
pub mod demo;
pub mod device_mapper;
pub mod engine;
pub mod init;
pub mod kit;
pub mod null_blk;
pub mod prove;
pub mod running;
pub mod system;
pub mod truth;
pub mod verdict;
pub mod workload;
pub mod workshop;
