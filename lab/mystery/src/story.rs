//! What a case says and consists of. A module for each case makes this, and [`crate::scene`] plays it.

use std::any::Any;
use std::time::Duration;

use common::Result;
use fastrand::Rng;

use crate::answer::Truth;
use crate::job::Job;

/// How many writes a save of a patient has. Nobody says so: the time of a save is in sight, and that of a write is often
/// the number that proves the cause.
pub const SAVE: u32 = 3;

/// Which of the two causes a case has. Both have the same complaint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twin {
    One,
    Other,
}

impl Twin {
    /// The twin that a seed chooses.
    pub fn of(seed: u64) -> Self {
        if Rng::with_seed(seed).bool() { Self::One } else { Self::Other }
    }
}

/// One command on an expert's way.
#[derive(Clone, Debug)]
pub struct Step {
    /// Why to type it.
    pub why: &'static str,
    /// What to type.
    pub command: String,
}

/// Something that only has to exist, such as a disk, until it is dropped.
pub type Kept = Box<dyn Any + Send>;
/// Cures a case. Returns what is new.
pub type Fix = Box<dyn FnOnce(&mut [Job]) -> Result<Kept> + Send>;

/// What a case consists of, in words and numbers.
#[derive(Clone, Debug)]
pub struct Story {
    /// The complaint, in the words of whoever suffers.
    pub complaint: String,
    /// What the sufferer measures.
    pub what: String,
    /// How long that takes in a healthy guest.
    pub usual: Duration,
    /// What is wrong.
    pub truth: Truth,
    /// A question, a pointer, and almost the answer.
    pub hints: [String; 3],
    /// An expert's commands.
    pub way: Vec<Step>,
    /// Which measurement decides.
    pub decided: String,
    /// What it would have been if the tempting answer were right.
    pub tempting: String,
    /// What would help in real life.
    pub cure: String,
    /// What `fix` does.
    pub fixed: String,
}

/// What a case's module makes.
pub struct Parts {
    /// See [`crate::scene::Scene`].
    pub story: Story,
    /// See [`crate::scene::Scene`].
    pub jobs: Vec<Job>,
    /// See [`crate::scene::Scene`].
    pub stream: usize,
    /// See [`crate::scene::Scene`].
    pub fix: Fix,
    /// See [`crate::scene::Scene`].
    pub world: Kept,
}
