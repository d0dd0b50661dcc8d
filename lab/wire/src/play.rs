//! How a mystery is played: what a player asks the process that made the case, and what that answers.
//!
//! A player connects to [`SOCKET`], writes a [`Move`] as a line of JSON, and reads a line for each [`Said`].

use clap::Subcommand;
use common::Error;
use serde::{Deserialize, Serialize};

use crate::text::wrap;

/// Where the process that made the case listens, in its guest.
pub const SOCKET: &str = "/tmp/.mystery";

/// What a player must know.
pub const RULES: &str = "You have ten minutes, and a wrong answer costs one. All stages and examples are in your PATH, \
                         and you are root.";

/// Why a move is not possible if nobody listens at [`SOCKET`].
pub fn none_is_open() -> Error {
    Error::new("no case is open here").fix("start one: mystery start 01; list them: mystery list")
}

/// What a player can do while a case happens.
#[derive(Clone, Debug, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Move {
    /// Show how slow it is right now
    Look,
    /// Write down what you have seen
    Note {
        /// Your words
        #[arg(required = true)]
        words: Vec<String>,
    },
    /// Say what is wrong, where, and which number proves it; without arguments, list the causes
    Answer {
        /// The cause, such as slow-disk
        cause: Option<String>,
        /// The disk, process or cgroup
        place: Option<String>,
        /// The number that proves it, with or without its unit
        number: Vec<String>,
    },
    /// Show the next hint
    Hint,
    /// Show how an expert finds it, once your answer is right
    Solution {
        /// Show it even if no answer was right
        #[arg(long)]
        peek: bool,
    },
    /// Cure it, once your answer is right or you have seen the solution
    Fix,
    /// Show the complaint, the time, your notes and your answers
    Status,
    /// End the case, as exit does in its shell
    End,
}

/// A part of the answer to a move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Said {
    Text(String),
    /// Lines that stay as they are, such as the output of a command.
    Lines(String),
    /// What an expert types next.
    Step {
        why: String,
        command: String,
    },
    Graded(Vec<Part>),
    Error(Error),
}

/// A part of an answer, and what is right about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub name: String,
    pub is_right: bool,
    /// The verdict, and what it is about.
    pub verdict: String,
}

impl Said {
    /// As a terminal of this width shows it.
    pub fn text(&self, columns: usize) -> String {
        match self {
            Self::Text(text) => wrap(text, columns).trim_end().to_owned(),
            Self::Lines(text) => text.clone(),
            Self::Step { why, command } => format!("{why}\n# {command}"),
            Self::Graded(parts) => {
                let line = |Part { name, verdict, .. }: &Part| format!("{name:<8}{verdict}");
                parts.iter().map(line).collect::<Vec<_>>().join("\n")
            }
            Self::Error(error) => format!("Error: {error}"),
        }
    }

    /// Whether the command that a player typed has failed.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Graded(parts) => !parts.iter().all(|part| part.is_right),
            Self::Error(_) => true,
            _ => false,
        }
    }
}
