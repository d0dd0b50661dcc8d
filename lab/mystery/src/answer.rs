//! An answer, and what is right about it. Nothing here looks at the guest.

use std::ops::RangeInclusive;

use wire::mystery::Cause;

/// What is really wrong.
#[derive(Clone, Debug)]
pub struct Truth {
    pub cause: &'static Cause,
    /// The names of the place, any of which is right.
    pub places: Vec<String>,
    /// The numbers that prove it.
    pub numbers: RangeInclusive<f64>,
}

/// What a player says.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The word for the cause.
    pub cause: String,
    /// The place, if there is one.
    pub place: Option<String>,
    /// The number, if there is one, perhaps with its unit.
    pub number: Option<String>,
}

/// Which parts of an answer are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grade {
    pub cause: bool,
    pub place: bool,
    /// The number. It is evidence for the cause, so it can't be right if that is wrong.
    pub number: bool,
}

impl Grade {
    /// Whether everything is right.
    pub fn is_right(self) -> bool {
        self.cause && self.place && self.number
    }
}

impl Truth {
    /// Grades an answer.
    pub fn grade(&self, answer: &Answer) -> Grade {
        let cause = answer.cause == self.cause.word;
        let place = answer.place.as_deref().map(bare);
        let number = answer.number.as_deref().and_then(number);
        Grade {
            cause,
            place: place.is_some_and(|place| self.places.iter().any(|name| name == place)),
            number: cause && number.is_some_and(|number| self.numbers.contains(&number)),
        }
    }
}

/// The name of a disk, a process or a cgroup, without the folder that it is in.
fn bare(place: &str) -> &str {
    let place = place.trim_end_matches('/');
    place.rsplit_once('/').map_or(place, |(_, name)| name)
}

/// The number at the start of `40ms`, `75 %` or `1.5`.
pub fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use wire::mystery::{CAUSES, cause_of};

    use super::*;

    fn truth() -> Truth {
        Truth { cause: cause_of("slow-disk").unwrap(), places: vec!["vdc".to_owned()], numbers: 68.0..=128.0 }
    }

    fn grade(cause: &str, place: &str, number: &str) -> [bool; 3] {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let answer = Answer { cause: cause.to_owned(), place: some(place), number: some(number) };
        let Grade { cause, place, number } = truth().grade(&answer);
        [cause, place, number]
    }

    #[test]
    fn each_part_is_graded() {
        for number in ["80", "80ms", "80 ms", "80.5"] {
            assert_eq!(grade("slow-disk", "/dev/vdc", number), [true; 3], "{number}");
        }
        assert_eq!(grade("slow-disk", "vdb", "80"), [true, false, true]);
        assert_eq!(grade("slow-disk", "vdc", "20"), [true, true, false]);
        // The number is evidence for a cause, and the cause is another one.
        assert_eq!(grade("busy-neighbor", "vdc", "80"), [false, true, false]);
        assert_eq!(grade("", "", ""), [false; 3]);
        assert_eq!(grade("slow-disk", "vdc", ""), [true, true, false]);
        for number in ["long", "-80", "NaN", "inf", "ms 80", "8000"] {
            assert_eq!(grade("slow-disk", "vdc", number), [true, true, false], "{number}");
        }
    }

    #[test]
    fn no_wrong_answer_passes() {
        let mut seed = fastrand::Rng::with_seed(1);
        let mut wrong = 0;
        while wrong < 1000 {
            let cause = seed.choice(CAUSES.iter()).unwrap().word;
            let place = seed.choice(["vda", "vdb", "vdc", "orders", "dm-0", "vd", ""]).unwrap();
            let number = seed.u64(..=400);
            let is_true = (cause, place) == ("slow-disk", "vdc") && (68..=128).contains(&number);
            assert_eq!(grade(cause, place, &number.to_string()) == [true; 3], is_true);
            wrong += u32::from(!is_true);
        }
    }
}
