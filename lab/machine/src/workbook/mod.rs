//! The stages and examples: their sources, builds, copies, and diffs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wire::arch::Arch;
use wire::catalog::Catalog;

mod cargo;
pub mod copies;
mod cross;
pub mod diff;
mod recorded;

pub use crate::workbook::cross::Cross;
pub use wire::catalog::{Example, Program, Stage};

/// The workbook as a whole.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Workbook {
    /// Its stages and examples.
    #[serde(flatten)]
    pub catalog: Catalog,
    /// Its top folder.
    pub root: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
    /// Where the learner's working copies are. Git ignores this folder.
    pub mine: PathBuf,
    /// How to build it, if not for this machine's architecture.
    #[serde(skip)]
    pub cross: Option<Cross>,
    /// How to build a copy without Cargo, in the workshop's guest, which has none.
    #[serde(default)]
    pub recorded: Option<Recorded>,
}

/// How the workshop's guest builds a program; see `recorded.rs`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Recorded {
    /// rustc's arguments for every program: where the libraries are, and how to link.
    pub rustc: Vec<String>,
}

impl Workbook {
    /// The architecture that it is built for.
    pub fn arch(&self) -> Arch {
        self.cross.as_ref().map_or(Arch::HERE, |cross| cross.arch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The workshop's guest has a file with both, and each of its programs reads what it needs.
    #[test]
    fn a_workbook_is_read_as_a_whole_and_as_its_catalog() {
        let mut workbook = Workbook::read().unwrap();
        workbook.recorded = Some(Recorded { rustc: vec!["--edition=2024".to_owned()] });
        let json = serde_json::to_vec(&workbook).unwrap();
        let catalog: Catalog = serde_json::from_slice(&json).unwrap();
        assert_eq!(
            (&catalog.stages, &catalog.examples),
            (&workbook.catalog.stages, &workbook.catalog.examples)
        );
        let again: Workbook = serde_json::from_slice(&json).unwrap();
        assert_eq!((&again.root, again.catalog.stages), (&workbook.root, workbook.catalog.stages));
        assert!(again.recorded.is_some());
    }
}
