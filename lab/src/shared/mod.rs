//! What both machines need: the messages between them, names, formats, and a function to run commands.
//! May import no other folder.

pub mod arch;
pub mod command;
pub mod disks;
pub mod files;
pub mod kit;
pub mod measure;
pub mod protocol;
pub mod ways;
pub mod workload;
