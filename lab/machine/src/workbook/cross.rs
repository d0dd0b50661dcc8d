//! How Cargo builds for another system than this machine's: another architecture, or the workshop's guest.

use std::ffi::OsString;
use std::path::PathBuf;

use wire::arch::Arch;

/// What it takes. `machine::cross` makes it.
#[derive(Clone, Debug)]
pub struct Cross {
    /// The architecture.
    pub arch: Arch,
    /// Rust's name for it, if it isn't this machine's architecture.
    pub triple: Option<String>,
    /// The environment in which Cargo finds the compilers.
    pub environment: Vec<(String, OsString)>,
    /// The folder with the guest's libraries.
    pub root: PathBuf,
}
