//! The mystery disks: the cases, and the causes from which an answer chooses, which are the same for all cases.

use std::sync::LazyLock;

use clap::Args;
use common::{Error, Result};

#[derive(Clone, Debug, Args)]
pub struct NewCase {
    /// The case, such as 01
    pub case: String,
    /// The number from which all details of the case follow [default: any]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

impl NewCase {
    /// The command in the guest that starts it.
    pub fn argv(&self) -> Result<Vec<String>> {
        let case = find(&self.case)?.number;
        let seed = self.seed.map(|seed| format!("--seed={seed}"));
        Ok(["mystery", "start", case].map(str::to_owned).into_iter().chain(seed).collect())
    }
}

/// A case, as its patient would describe it.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its number, such as `01`.
    pub number: &'static str,
    /// What somebody complains about.
    pub title: &'static str,
}

pub const CASES: [Case; 7] = [
    Case { number: "01", title: "Half of the volume is slow" },
    Case { number: "02", title: "The disk gets many small I/Os" },
    Case { number: "03", title: "Reads became slow on the new machine" },
    Case { number: "04", title: "Saves take long, and the disk is quick" },
    Case { number: "05", title: "A small fsync takes long" },
    Case { number: "06", title: "Writes take long, and the disk is idle" },
    Case { number: "07", title: "The disk does no more than this" },
];

pub fn find(number: &str) -> Result<Case> {
    let bare = |number: &'_ str| number.trim_start_matches('0').to_owned();
    let case = CASES.into_iter().find(|case| bare(case.number) == bare(number));
    case.ok_or_else(|| {
        Error::new(format!("there is no case {number}"))
            .evidence(format!("there are {}", CASES.map(|case| case.number).join(", ")))
            .fix("see what they are about: cargo lab mystery list")
    })
}

/// What can be wrong, where to look for it, and which number proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The word for the answer.
    pub word: &'static str,
    pub what: &'static str,
    /// What the answer names as the place.
    pub place: &'static str,
    pub number: &'static str,
}

/// Each line of the file is a cause.
pub static CAUSES: LazyLock<Vec<Cause>> = LazyLock::new(|| {
    let cause = |line: &'static str| {
        let [word, what, place, number] = line.split('\t').collect::<Vec<_>>()[..] else { return None };
        Some(Cause { word, what, place, number })
    };
    include_str!("causes.tsv").lines().filter_map(cause).collect()
});

pub fn cause_of(word: &str) -> Option<&'static Cause> {
    CAUSES.iter().find(|cause| cause.word == word)
}

pub fn list() -> String {
    let cases: String = CASES.iter().map(|Case { number, title }| format!("  {number}  {title}\n")).collect();
    format!("{cases}\nThe causes, which are the same for every case:\n{}", causes())
}

/// The causes, each with its place and its number.
pub fn causes() -> String {
    let width = CAUSES.iter().map(|cause| cause.word.len()).max().unwrap_or_default();
    let line = |Cause { word, what, place, number }: &Cause| {
        format!("  {word:width$}  {what}\n  {:width$}    place: {place}; number: {number}\n", "")
    };
    CAUSES.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chapter_has_all_causes_and_no_other() {
        let chapter = std::fs::read_to_string("../../docs/src/slow-disk.md").unwrap();
        let (_, section) = chapter.split_once("## The causes\n").unwrap();
        let (_, table) = section.split_once("|---|---|---|\n").unwrap();
        let row = |line: &str| line.split('|').skip(1).take(2).map(|cell| cell.trim().to_owned()).collect();
        let rows: Vec<Vec<String>> =
            table.lines().take_while(|line| line.starts_with('|')).map(row).collect();
        let causes = CAUSES.iter().map(|cause| vec![cause.word.to_owned(), cause.what.to_owned()]);
        assert_eq!(rows, causes.collect::<Vec<_>>());
        let chart = std::fs::read_to_string("../../docs/src/slow-disk-flow.svg").unwrap();
        for Cause { word, .. } in &*CAUSES {
            assert!(chart.contains(word), "{word} is not in the flow chart");
            assert!(chapter.contains(&format!("*{word}*")), "no question leads to {word}");
        }
    }

    #[test]
    fn a_case_is_found_by_its_number() {
        assert_eq!(find("1").unwrap().number, "01");
        assert_eq!(find("01").unwrap().title, CASES[0].title);
        assert!(find("0").is_err() && find("99").is_err() && find("").is_err());
    }
}
