//! What a case says and consists of. A module for each case makes this, and [`crate::scene`] plays it.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use common::{Error, OrCause, Result};
use fastrand::Rng;
use serde::Deserialize;

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
#[derive(Clone, Debug, Deserialize)]
pub struct Step {
    /// Why to type it.
    pub why: String,
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
    /// How long what the sufferer measures takes in a healthy guest.
    pub usual: Duration,
    /// What is wrong.
    pub truth: Truth,
    pub words: Words,
    /// What is said about the cause of this case.
    pub end: End,
}

/// The words of a case, as in its `.toml` file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Words {
    /// The complaint, in the words of whoever suffers.
    pub complaint: String,
    /// What the sufferer measures.
    pub what: String,
    /// A question, a pointer, and almost the answer.
    pub hints: [String; 3],
    /// An expert's commands.
    pub way: Vec<Step>,
    /// What differs between the twins, by their causes.
    end: BTreeMap<String, End>,
}

/// What is said at the end.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Which measurement decides.
    pub decided: String,
    /// What it would have been if the tempting answer were right.
    pub tempting: String,
    /// What would help in real life.
    pub cure: String,
    /// What `fix` does.
    pub fixed: String,
}

impl Story {
    /// The story with these values for the names in braces. Fails if a name has no value.
    pub fn new(words: &str, usual: Duration, truth: Truth, values: &[(&str, &dyn Display)]) -> Result<Self> {
        Self::with_end(words, truth.cause.word, usual, truth, values)
    }

    /// The same for one of several ends that a cause has.
    pub fn with_end(
        words: &str,
        end: &str,
        usual: Duration,
        truth: Truth,
        values: &[(&str, &dyn Display)],
    ) -> Result<Self> {
        let fill = |text: String, (name, value): &(&str, &dyn Display)| {
            text.replace(&format!("{{{name}}}"), &value.to_string())
        };
        let words = values.iter().fold(words.to_owned(), fill);
        let names = words.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
        if let Some(name) = names.into_iter().find(|name| name.chars().all(|c| c.is_lowercase() || c == '_'))
        {
            return Err(Error::new(format!("the words of a case have a name without a value: {name}")));
        }
        let mut words: Words = toml::from_str(&words).or_cause("cannot read the words of a case")?;
        let none = || Error::new(format!("a case has no words for {end}"));
        let end = words.end.remove(end).ok_or_else(none)?;
        Ok(Self { usual, truth, words, end })
    }
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
