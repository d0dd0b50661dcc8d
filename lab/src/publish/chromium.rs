//! The browser that makes pictures and PDFs of our pages.

use std::process::Command;

use common::{Error, Result};
use nix::unistd::geteuid;

/// Chromium without a window, which still has to be told what to do with which page.
///
/// # Errors
/// If there is no Chromium.
pub fn headless() -> Result<Command> {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let is_there = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    let name = names.iter().find(is_there).ok_or_else(|| {
        Error::new("there is no Chromium to make pictures and PDFs of pages")
            .evidence(format!("none of these is in PATH: {}", names.join(", ")))
            .fix("install it: make setup-test")
    })?;
    let mut chromium = Command::new(name);
    chromium.arg("--headless");
    // Chromium refuses to run as root in its sandbox.
    chromium.args(geteuid().is_root().then_some("--no-sandbox"));
    Ok(chromium)
}
