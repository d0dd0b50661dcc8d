//! What writes the generated blocks in the READMEs, the book, and the room kit's launchers.

pub mod blocks;
pub mod clinic;
pub mod included;
pub mod launchers;
pub mod patch;
pub mod record;
pub mod recordings;
pub mod sync;
pub mod tables;
