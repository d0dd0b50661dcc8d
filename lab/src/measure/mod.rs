//! What boots guests to measure, and writes what the book says of it.
//! May import `host`, `machine`, `publish`, `shared`, `workbook`.

pub mod bench;
pub mod channels;
pub mod drift;
pub mod peers;
pub mod vmlinux;
