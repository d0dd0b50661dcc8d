//! What the lab and its guest agree on, and what runs on both machines.

pub mod files;
pub mod protocol;
pub mod workload;
