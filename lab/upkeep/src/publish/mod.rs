//! What writes the generated blocks in the READMEs and the book.

pub mod blocks;
pub mod clinic;
pub mod included;
pub mod new;
pub mod patch;
pub mod record;
pub mod recordings;
pub mod sync;
pub mod tables;
