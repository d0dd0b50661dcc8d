//! What fills the generated blocks of the READMEs and of the book.
//! May import `learn`, `machine`, `shared`, `workbook`.

pub mod blocks;
pub mod channels;
pub mod drift;
pub mod record;
pub mod schedule;
pub mod sync;
pub mod tables;
