//! What the learner has answered: a file in `mine`, beside the progress of the exercises. A line is a question's name, such as
//! `03/order`, at which try it was answered, and whether it has come back since; or that the learner has skipped it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use common::Result;
use lab::mine;
use machine::workbook::Workbook;

const FILE: &str = "answers.txt";
const REVIEWED: &str = "reviewed";
const SKIPPED: &str = "skipped";

/// What is known about each answered question: the tries, and whether it was reviewed. No tries: it was skipped.
#[derive(Debug, Default)]
pub struct Answers(BTreeMap<String, (u32, bool)>);

impl Answers {
    /// Those of this learner.
    pub fn read(workbook: &Workbook) -> Result<Self> {
        Ok(Self::of(mine::read_lines(workbook, FILE)?.iter().map(String::as_str)))
    }

    /// A line that isn't ours counts for nothing: the file is the learner's.
    fn of<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        let answer = |line: &str| {
            let mut words = line.split(' ');
            let (id, tries) = (words.next()?, words.next()?);
            let tries = if tries == SKIPPED { 0 } else { tries.parse().ok()? };
            Some((id.to_owned(), (tries, words.next() == Some(REVIEWED))))
        };
        Self(lines.filter_map(answer).collect())
    }

    /// Whether a question was answered.
    pub fn has(&self, id: &str) -> bool {
        self.tries(id).is_some_and(|tries| tries > 0)
    }

    /// At which try a question was answered; 0 if it was skipped.
    pub fn tries(&self, id: &str) -> Option<u32> {
        self.0.get(id).map(|(tries, _)| *tries)
    }

    /// Those of these questions that are due, each with the number of its stage: it was answered, it has not come back, and
    /// the learner is two stages further. First come those that took most tries.
    pub fn due<'a>(&self, all: impl Iterator<Item = (u32, &'a str)>) -> Vec<&'a str> {
        let answered: Vec<_> = all.filter(|(_, id)| self.has(id)).collect();
        let Some(newest) = answered.iter().map(|(stage, _)| *stage).max() else { return Vec::new() };
        let is_due = |(stage, id): &&(u32, &str)| stage + 2 <= newest && !self.0[*id].1;
        let mut due: Vec<_> = answered.iter().filter(is_due).map(|(_, id)| *id).collect();
        due.sort_by_key(|id| Reverse(self.0[*id].0));
        due
    }
}

/// Remembers that a question was answered. The last time counts.
pub fn remember(workbook: &Workbook, id: &str, tries: u32, is_reviewed: bool) -> Result<()> {
    let reviewed = if is_reviewed { format!(" {REVIEWED}") } else { String::new() };
    replace(workbook, id, &format!("{tries}{reviewed}"))
}

/// Remembers that a question was skipped.
pub fn skip(workbook: &Workbook, id: &str) -> Result<()> {
    if Answers::read(workbook)?.has(id) {
        return Ok(());
    }
    replace(workbook, id, SKIPPED)
}

fn replace(workbook: &Workbook, id: &str, rest: &str) -> Result<()> {
    mine::change_lines(workbook, FILE, |lines| {
        lines.retain(|line| line.split(' ').next() != Some(id));
        lines.push(format!("{id} {rest}"));
        lines.sort();
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_hard_comes_back_two_stages_later() {
        let all = [(1, "01/a"), (1, "01/b"), (1, "01/c"), (1, "01/d"), (2, "02/a"), (3, "03/a")];
        let due = |lines: &[&str]| Answers::of(lines.iter().copied()).due(all.iter().copied());
        assert_eq!(due(&[]), [""; 0]);
        let first = ["01/a 1", "01/b 3", "01/c 2 reviewed", "02/a 4", "not ours"];
        assert_eq!(due(&first), [""; 0], "stage 02 is only one stage further");
        assert_eq!(due(&[&first[..], &["03/a 1"]].concat()), ["01/b", "01/a"]);
    }

    #[test]
    fn the_last_answer_counts() {
        let mine = tempfile::tempdir().unwrap();
        let workbook = Workbook { mine: mine.path().to_owned(), ..Workbook::read().unwrap() };
        remember(&workbook, "01/a", 3, false).unwrap();
        remember(&workbook, "01/b", 1, false).unwrap();
        remember(&workbook, "01/a", 1, true).unwrap();
        let answers = Answers::read(&workbook).unwrap();
        assert_eq!(format!("{answers:?}"), r#"Answers({"01/a": (1, true), "01/b": (1, false)})"#);
    }

    #[test]
    fn what_was_skipped_is_not_answered() {
        let mine = tempfile::tempdir().unwrap();
        let workbook = Workbook { mine: mine.path().to_owned(), ..Workbook::read().unwrap() };
        let answers = || Answers::read(&workbook).unwrap();
        skip(&workbook, "01/a").unwrap();
        assert_eq!((answers().has("01/a"), answers().tries("01/a")), (false, Some(0)));
        remember(&workbook, "01/a", 2, false).unwrap();
        skip(&workbook, "01/a").unwrap();
        assert_eq!((answers().has("01/a"), answers().tries("01/a")), (true, Some(2)));
    }
}
