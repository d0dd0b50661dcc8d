//! The room kit, made on your machine. Its guest's side is in the folder `guest`.
//! May import `host`, `machine`, `shared`, `workbook`.

pub mod bundle;
pub mod launchers;
pub mod licenses;
pub mod workshop;
