//! Measurements on guests.

pub mod bench;
pub mod channels;
pub mod drift;
pub mod peers;
pub mod vmlinux;
