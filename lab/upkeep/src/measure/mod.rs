//! Everything that boots guests to measure, and saves the data that the book shows.

pub mod bench;
pub mod channels;
pub mod drift;
pub mod offers;
pub mod peers;
pub mod toolbox;
pub mod vmlinux;
pub mod ways;
