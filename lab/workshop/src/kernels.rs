//! Another kernel without leaving. In a kit's guest, the server can only end, and tell the launcher which kernel is next.
//! The launcher boots it with the same port and the same work, so the page finds the workshop again.

use std::path::PathBuf;

use axum::http::StatusCode;
use common::{Error, Result};
use tokio::sync::Notify;

use crate::response::Refusal;

/// The kernels that the launcher can boot.
#[derive(Debug, Default)]
pub struct Kernels {
    /// The one that runs, as the kit calls it; `None` if the launcher can't boot another one.
    pub here: Option<String>,
    /// All of them.
    pub all: Vec<String>,
    /// What the launcher reads.
    launcher: Option<PathBuf>,
    leaves: Notify,
}

impl Kernels {
    /// For this kernel, these kernels, and this launcher.
    pub fn new(here: Option<String>, all: Vec<String>, launcher: Option<PathBuf>) -> Self {
        Self { here, all, launcher, leaves: Notify::new() }
    }

    /// Whether the launcher can boot this kernel.
    ///
    /// # Errors
    /// If it can't.
    pub fn find(&self, name: &str) -> Result<(), Refusal> {
        if self.all.iter().any(|known| known == name) {
            return Ok(());
        }
        let known = if self.all.is_empty() { "none".to_owned() } else { self.all.join(", ") };
        let error = Error::new(format!("the workshop can't boot Linux {name}"));
        Err(Refusal(StatusCode::NOT_FOUND, error.evidence(format!("the kernels to choose from: {known}"))))
    }

    /// Asks the launcher to boot this kernel next, and the server to end.
    ///
    /// # Errors
    /// If the launcher can't be asked.
    pub fn boot(&self, name: &str) -> Result<()> {
        if let Some(launcher) = &self.launcher {
            crate::report(launcher, &format!("next {name}"))?;
        }
        self.leaves.notify_one();
        Ok(())
    }

    /// Waits until another kernel has the turn.
    pub async fn left(&self) {
        self.leaves.notified().await;
    }
}
