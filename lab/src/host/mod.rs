//! This machine: the programs that the lab calls here, and the wish to end it.

pub mod folders;
pub mod interrupt;
pub mod tools;
