//! How Cargo builds for another architecture than this machine's.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::shared::arch::Arch;

/// What it takes. `machine::cross` makes it.
#[derive(Clone, Debug)]
pub struct Cross {
    /// The architecture.
    pub arch: Arch,
    /// Rust's name for it.
    pub triple: String,
    /// The environment in which Cargo finds the compilers.
    pub environment: Vec<(String, OsString)>,
    /// The folder with the guest's libraries.
    pub root: PathBuf,
}
