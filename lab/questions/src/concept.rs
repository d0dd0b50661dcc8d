//! The concept test: two parallel forms of the same questions. A learner answers one before the course and the other one after
//! it. What is kept are answers and times, and nothing about the learner.
//!
//! An export is a table with tabs:
//!
//! | column | holds |
//! |---|---|
//! | `when` | `before` or `after` the course |
//! | `form` | `a` or `b` |
//! | `question` | its name, which is the same in both forms |
//! | `answer` | a letter, or `-` if it was skipped |
//! | `seconds` | how long it took |
//! | `right` | 1 if the answer is right, and otherwise 0 |

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use common::{Error, Result};

use crate::{CHAPTERS, Question, read};

/// The two forms.
pub const FORMS: [char; 2] = ['a', 'b'];

/// What an export's name begins with; the rest is a random number.
pub const EXPORT: &str = "concept-test-";

const HEADING: &str = "when\tform\tquestion\tanswer\tseconds\tright";

/// The questions of a form. `root` is the top folder.
pub fn form(root: &Path, form: char) -> Result<Vec<Question>> {
    read(&root.join(CHAPTERS).join("concept").join(format!("{form}.toml")), root)
}

/// The other form.
pub fn other(form: char) -> char {
    if form == FORMS[0] { FORMS[1] } else { FORMS[0] }
}

/// When the test is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before the course.
    Before,
    After,
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "before",
            Self::After => "after",
        })
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "before" => Ok(Self::Before),
            "after" => Ok(Self::After),
            _ => Err("the test is taken before and after the course".to_owned()),
        }
    }
}

/// An answer of the test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// When it was given.
    pub when: When,
    pub form: char,
    /// The question's name.
    pub question: String,
    /// The letter, or `-`.
    pub answer: char,
    /// How long it took.
    pub seconds: u64,
    /// Whether it is right.
    pub is_right: bool,
}

/// Answers as a table.
pub fn export(answers: &[Answered]) -> String {
    let row = |Answered { when, form, question, answer, seconds, is_right }: &Answered| {
        format!("{when}\t{form}\t{question}\t{answer}\t{seconds}\t{}\n", u8::from(*is_right))
    };
    format!("{HEADING}\n{}", answers.iter().map(row).collect::<String>())
}

/// Reads such a table.
///
/// # Errors
/// If it is something else; the error names the line.
pub fn import(text: &str) -> Result<Vec<Answered>> {
    let broken = |line: &str| Error::new("this is no export of the concept test").evidence(line.to_owned());
    let mut lines = text.lines();
    if lines.next() != Some(HEADING) {
        return Err(broken(text.lines().next().unwrap_or_default()));
    }
    let row = |line: &str| {
        let [when, form, question, answer, seconds, right] = line.split('\t').collect::<Vec<_>>()[..] else {
            return None;
        };
        Some(Answered {
            when: when.parse().ok()?,
            form: form.parse().ok().filter(|form| FORMS.contains(form))?,
            question: question.to_owned(),
            answer: answer.parse().ok()?,
            seconds: seconds.parse().ok()?,
            is_right: right == "1",
        })
    };
    lines.map(|line| row(line).ok_or_else(|| broken(line))).collect()
}
