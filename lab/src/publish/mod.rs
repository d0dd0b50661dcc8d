//! What fills the generated blocks of the READMEs, of the book, and of the room kit's launchers.
//! May import `kit`, `learn`, `machine`, `shared`, `workbook`.

pub mod blocks;
pub mod channels;
pub mod drift;
pub mod record;
pub mod schedule;
pub mod sync;
pub mod tables;
