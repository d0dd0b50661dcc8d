//! What the lab and its guest agree on, and what runs on both machines.

pub mod command;
pub mod disks;
pub mod files;
pub mod kit;
pub mod measure;
pub mod protocol;
pub mod workload;
