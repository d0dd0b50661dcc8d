//! Log2 histograms. A BPF program counts in slots, each twice as wide as the one before. User space reads the counts,
//! subtracts the previous reading, and prints the difference as a table.
//!
//! Nobody ever clears the counts in the kernel, because events would get lost between reading and clearing. An interval
//! is the difference of two readings.
//!
//! ```
//! use common::histogram::Histogram;
//!
//! let before: Histogram = [0, 3].into_iter().collect();
//! let now: Histogram = [1, 3, 7].into_iter().collect();
//! assert_eq!(now.since(&before), [1, 0, 7].into_iter().collect());
//! ```

use std::fmt;
use std::iter::Sum;
use std::ops::AddAssign;

use crate::report::columns;
use serde::ser::{Serialize, SerializeSeq, Serializer};

/// The count of each slot. Slot 0 is for the values 0 and 1, slot 1 for 2 and 3, slot 2 for 4 to 7, and so on. It is
/// the same rule as `log2_slot()` in `log2.bpf.h`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram(Vec<u64>);

impl<const N: usize> From<[u64; N]> for Histogram {
    /// From the slots of a program's record.
    fn from(slots: [u64; N]) -> Self {
        slots.into_iter().collect()
    }
}

impl Histogram {
    /// The slot of a value.
    pub fn slot(value: u64) -> usize {
        value.max(1).ilog2() as usize
    }

    /// The smallest and the largest value of a slot.
    pub fn range(slot: usize) -> (u64, u64) {
        let first = 1_u64.checked_shl(slot as u32).unwrap_or(u64::MAX);
        (if slot == 0 { 0 } else { first }, first.wrapping_mul(2).wrapping_sub(1).max(first))
    }

    /// The values that were counted between an earlier reading and this one.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let earlier = before.0.iter().chain(std::iter::repeat(&0));
        self.0.iter().zip(earlier).map(|(now, before)| now.saturating_sub(*before)).collect()
    }

    /// The count of each slot, up to the last slot that is not empty.
    pub fn counts(&self) -> &[u64] {
        &self.0
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The slots from the first to the last one that is not empty: smallest value, largest value, count.
    pub fn rows(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let first = self.0.iter().position(|count| *count > 0).unwrap_or(self.0.len());
        let slots = self.0.iter().enumerate().skip(first);
        slots.map(|(slot, count)| (Self::range(slot).0, Self::range(slot).1, *count))
    }

    /// A table as wide as the terminal. `unit` is the unit of the values, such as `kbytes`.
    pub fn table<'a>(&'a self, unit: &'a str) -> Table<'a> {
        self.table_of(unit, columns())
    }

    /// Like [`Histogram::table`], with a given width.
    pub fn table_of<'a>(&'a self, unit: &'a str, columns: usize) -> Table<'a> {
        Table { histogram: self, unit, columns }
    }
}

impl FromIterator<u64> for Histogram {
    /// From the count of each slot. Drops empty slots at the end.
    fn from_iter<I: IntoIterator<Item = u64>>(counts: I) -> Self {
        let mut slots: Vec<_> = counts.into_iter().collect();
        slots.truncate(slots.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1));
        Self(slots)
    }
}

impl AddAssign<&Self> for Histogram {
    fn add_assign(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(sum, count)| *sum += count);
    }
}

impl Sum for Histogram {
    /// Adds the counts of all CPUs.
    fn sum<I: Iterator<Item = Self>>(cpus: I) -> Self {
        cpus.fold(Self::default(), |mut sum, cpu| {
            sum += &cpu;
            sum
        })
    }
}

/// The rows of the table in JSON: `[{"from":4,"to":7,"count":37},...]`.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Row {
            from: u64,
            to: u64,
            count: u64,
        }
        let mut rows = serializer.serialize_seq(None)?;
        self.rows().try_for_each(|(from, to, count)| rows.serialize_element(&Row { from, to, count }))?;
        rows.end()
    }
}

/// A histogram as a table, without a newline at the end; see [`Histogram::table`].
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    histogram: &'a Histogram,
    unit: &'a str,
    columns: usize,
}

/// Digits of a value and of a count in a terminal of at least `ROOMY` columns.
const DIGITS: (usize, usize) = (10, 8);
const ROOMY: usize = 60;
/// The longest bar has at least this many columns, however narrow the terminal is.
const SHORTEST: usize = 4;

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { histogram, unit, columns } = *self;
        let rows: Vec<_> = histogram.rows().collect();
        let (Some((_, last, _)), Some(most)) = (rows.last(), rows.iter().map(|row| row.2).max()) else {
            return f.write_str("Nothing was counted.");
        };
        let digits = |number: u64| number.max(1).ilog10() as usize + 1;
        let least = if columns < ROOMY { (digits(*last), "count".len()) } else { DIGITS };
        let (value, count) = (digits(*last).max(least.0), digits(most).max(least.1));
        // The 12 are " -> ", " : ", " |", "|", and two columns that stay free.
        let bar = columns.saturating_sub(2 * value + count + 12).max(SHORTEST);

        let indent = if columns < ROOMY { "" } else { "     " };
        write!(f, "{:1$} : {2:count$}  distribution", format!("{indent}{unit}"), 2 * value + 4, "count")?;
        for (from, to, counted) in rows {
            // The largest count gets the longest bar, the others a proportional one.
            let stars = (u128::from(counted) * bar as u128 / u128::from(most)) as usize;
            write!(f, "\n{from:>value$} -> {to:<value$} : {counted:<count$} |{:<bar$}|", "*".repeat(stars))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(counts: &[u64]) -> Histogram {
        counts.iter().copied().collect()
    }

    #[test]
    fn each_value_is_in_the_range_of_its_slot_and_of_no_other() {
        let slots = [0, 1, 2, 3, 4, 7, 8, 1023, 1024, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX];
        let found = slots.map(|value| {
            let (from, to) = Histogram::range(Histogram::slot(value));
            assert!((from..=to).contains(&value), "{value} in {from} -> {to}");
            Histogram::slot(value)
        });
        assert_eq!(found, [0, 0, 1, 1, 2, 2, 3, 9, 10, 62, 63, 63]);
        for slot in 0..63 {
            assert_eq!(Histogram::range(slot).1 + 1, Histogram::range(slot + 1).0);
        }
        assert_eq!(Histogram::range(63).1, u64::MAX);
    }

    #[test]
    fn readings_of_cpus_are_added_and_readings_in_time_are_subtracted() {
        let cpus = [Histogram::from([1, 0, 5]), histogram(&[]), histogram(&[2, 1])];
        let now: Histogram = cpus.into_iter().sum();
        assert_eq!(now, histogram(&[3, 1, 5]));
        assert_eq!(now.since(&histogram(&[3, 1])), histogram(&[0, 0, 5]));
        assert_eq!(now.since(&Histogram::default()), now);
        assert_eq!(now.since(&now), Histogram::default());
        // Two intervals in a row: no value may be lost between them, and none may be counted twice.
        let later = histogram(&[3, 4, 5, 1]);
        let mut both = now.since(&Histogram::default());
        both += &later.since(&now);
        assert_eq!((both, later.count()), (later.clone(), 13));
    }

    /// The counts in bcc's `bitehist` example of 2015.
    const SEED: [u64; 8] = [3, 0, 3395, 1, 2, 738, 3, 1];

    #[test]
    fn a_table() {
        insta::assert_snapshot!(histogram(&SEED).table_of("kbytes", 80), @r"
             kbytes              : count     distribution
                 0 -> 1          : 3        |                                        |
                 2 -> 3          : 0        |                                        |
                 4 -> 7          : 3395     |****************************************|
                 8 -> 15         : 1        |                                        |
                16 -> 31         : 2        |                                        |
                32 -> 63         : 738      |********                                |
                64 -> 127        : 3        |                                        |
               128 -> 255        : 1        |                                        |
        ");
    }

    #[test]
    fn a_table_in_a_narrow_terminal_and_in_a_wide_one() {
        insta::assert_snapshot!(histogram(&SEED).table_of("kbytes", 40), @r"
        kbytes     : count  distribution
          0 -> 1   : 3     |                 |
          2 -> 3   : 0     |                 |
          4 -> 7   : 3395  |*****************|
          8 -> 15  : 1     |                 |
         16 -> 31  : 2     |                 |
         32 -> 63  : 738   |***              |
         64 -> 127 : 3     |                 |
        128 -> 255 : 1     |                 |
        ");
        insta::assert_snapshot!(histogram(&[0, 1, 2]).table_of("kbytes", 100), @r"
             kbytes              : count     distribution
                 2 -> 3          : 1        |******************************                              |
                 4 -> 7          : 2        |************************************************************|
        ");
        for columns in [0, 1, 10, 40, 59, 60, 80, 200] {
            let text = histogram(&SEED).table_of("kbytes", columns).to_string();
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= columns.max(32), "{widest} of {columns}\n{text}");
        }
    }

    #[test]
    fn large_numbers_stay_in_their_columns() {
        let mut counts = vec![0; 64];
        (counts[62], counts[63]) = (u64::MAX / 2, 1_234_567_890);
        insta::assert_snapshot!(histogram(&counts).table_of("nsecs", 80), @r"
            nsecs                                   : count                distribution
        4611686018427387904 -> 9223372036854775807  : 9223372036854775807 |*********|
        9223372036854775808 -> 18446744073709551615 : 1234567890          |         |
        ");
        assert_eq!(histogram(&[]).table_of("kbytes", 80).to_string(), "Nothing was counted.");
    }

    #[test]
    fn json() {
        let json = serde_json::to_string(&histogram(&[0, 1, 0, 7])).unwrap();
        let rows = [r#"{"from":2,"to":3,"count":1}"#, r#"{"from":4,"to":7,"count":0}"#];
        assert_eq!(json, format!("[{},{},{}]", rows[0], rows[1], r#"{"from":8,"to":15,"count":7}"#));
        assert_eq!(serde_json::to_string(&Histogram::default()).unwrap(), "[]");
    }
}
