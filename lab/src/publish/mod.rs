//! What writes the generated blocks in the READMEs, the book, and the room kit's launchers.
//! May import `kit`, `learn`, `machine`, `shared`, `workbook`.

pub mod blocks;
pub mod channels;
mod chart;
pub mod ctracer;
pub mod drift;
pub mod record;
pub mod schedule;
pub mod sync;
pub mod tables;
pub mod transcripts;
pub mod types;
pub mod ways;
pub mod works;
