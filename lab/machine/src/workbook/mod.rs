//! The stages and examples: their sources, builds, copies, and diffs.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wire::arch::Arch;
use wire::catalog::Catalog;

mod cargo;
pub mod copies;
pub mod diff;
mod recorded;

pub use wire::catalog::Program;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Workbook {
    #[serde(flatten)]
    pub catalog: Catalog,
    pub root: PathBuf,
    pub target: PathBuf,
    /// Where the learner's working copies are. Git ignores this folder.
    pub mine: PathBuf,
    pub toolchain: Toolchain,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Toolchain {
    Cargo,
    /// Cargo, for another system.
    #[serde(skip)]
    Cross(Cross),
    /// The two compilers, without Cargo, in the workshop's guest.
    Recorded(Recorded),
}

/// How Cargo builds for another system than this machine's: another architecture, or the workshop's guest. `machine::cross`
/// makes it.
#[derive(Clone, Debug)]
pub struct Cross {
    pub arch: Arch,
    /// Rust's name for it, if it isn't this machine's architecture.
    pub triple: Option<String>,
    /// The environment in which Cargo finds the compilers.
    pub environment: Vec<(String, OsString)>,
    /// The folder with the guest's libraries.
    pub root: PathBuf,
}

/// How the workshop's guest builds a program; see `recorded.rs`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Recorded {
    /// rustc's arguments for every program: where the libraries are, and how to link.
    pub rustc: Vec<String>,
}

impl Workbook {
    pub fn arch(&self) -> Arch {
        self.cross().map_or(Arch::HERE, |cross| cross.arch)
    }

    /// How Cargo builds it for another system, if it does.
    pub fn cross(&self) -> Option<&Cross> {
        if let Toolchain::Cross(cross) = &self.toolchain { Some(cross) } else { None }
    }

    /// Whether it is in the workshop's guest, which can't boot another one.
    pub fn is_in_guest(&self) -> bool {
        matches!(self.toolchain, Toolchain::Recorded(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The workshop's guest has a file with both, and each of its programs reads what it needs.
    #[test]
    fn a_workbook_is_read_as_a_whole_and_as_its_catalog() {
        let mut workbook = Workbook::read().unwrap();
        workbook.toolchain = Toolchain::Recorded(Recorded { rustc: vec!["--edition=2024".to_owned()] });
        let json = serde_json::to_vec(&workbook).unwrap();
        let catalog: Catalog = serde_json::from_slice(&json).unwrap();
        assert_eq!(
            (&catalog.stages, &catalog.examples),
            (&workbook.catalog.stages, &workbook.catalog.examples)
        );
        let again: Workbook = serde_json::from_slice(&json).unwrap();
        assert_eq!((&again.root, &again.catalog.stages), (&workbook.root, &workbook.catalog.stages));
        assert!(again.is_in_guest());
    }
}
