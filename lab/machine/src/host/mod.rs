//! Your machine: the programs and folders that the lab uses there, and whether somebody asked the lab to end.

pub mod folders;
pub mod interrupt;
pub mod tools;
