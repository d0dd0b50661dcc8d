//! What writes the generated blocks in the READMEs, the book, and the room kit's launchers.

pub mod blocks;
pub mod channels;
mod chart;
pub mod clinic;
pub mod ctracer;
pub mod drift;
pub mod heatmap;
pub mod included;
pub mod launchers;
pub mod learner;
pub mod mysteries;
pub mod patch;
pub mod record;
pub mod schedule;
pub mod support;
pub mod sync;
pub mod tables;
pub mod transcripts;
pub mod types;
pub mod ways;
