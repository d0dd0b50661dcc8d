//! Show: what a recording says, as text, as JSON and as a trace for Perfetto.

pub mod json;
