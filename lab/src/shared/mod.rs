//! What the lab and its guest agree on, and what runs on both machines.

pub mod command;
pub mod disks;
pub mod files;
pub mod protocol;
pub mod workload;
