//! What fills the generated blocks of the READMEs and of the book.

pub mod record;
pub mod schedule;
pub mod sync;
