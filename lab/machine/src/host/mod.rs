//! Your machine: the programs and folders that the lab uses there.

pub mod folders;
pub mod tools;
