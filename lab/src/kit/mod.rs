//! The room kit.

pub mod bundle;
