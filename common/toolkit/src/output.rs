//! `--json`: the same numbers as text for people, or as JSON for scripts.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use serde::Serialize;
use serde_json::Value;

/// How to print numbers.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Output {
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// Who else gets the numbers, and returns whether the run is over.
static WATCH: OnceLock<fn(&Value) -> bool> = OnceLock::new();
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// For a program that compares the numbers of its tools with a limit: gives it all that is printed from now on, also if
/// it is printed as text. Once it returns true, the run is over.
pub fn watch(call: fn(&Value) -> bool) {
    let _ = WATCH.set(call);
}

/// Whether what was printed has ended the run: then there is no further interval and no summary at the end.
pub fn is_over() -> bool {
    IS_OVER.load(Ordering::Relaxed)
}

impl Output {
    /// The numbers as JSON, if that is wanted, and otherwise as this text.
    pub fn render(self, numbers: &impl Serialize, text: impl FnOnce() -> String) -> String {
        if let (Some(call), Ok(numbers)) = (WATCH.get(), serde_json::to_value(numbers)) {
            IS_OVER.fetch_or(call(&numbers), Ordering::Relaxed);
        }
        if !self.json {
            return text();
        }
        // Plain data, whose keys are texts, has no error.
        serde_json::to_string(numbers).unwrap_or_else(|error| error.to_string())
    }

    /// What is printed between two intervals: an empty line, if it is for people.
    pub fn between(self) -> &'static str {
        if self.json { "" } else { "\n" }
    }
}
