//! The code of a passed exercise. A learner's screen shows it, and the instructor's window counts it, without a network.
//!
//! The window decodes it in `docs/present/passed.ts`. The tests of both read `passed.tsv`.

/// Letters and digits that nobody mixes up, as in Crockford's base 32.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// How many characters a code has before its check character.
const DIGITS: u32 = 7;

/// The bits of each part of a code.
const NUMBER: u32 = 3;
const MINUTE: u32 = 11;
/// How many seats there are. Of 40 that are drawn by chance, two are the same in one class of 170.
pub const SEATS: u32 = 1 << 17;

/// What a code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The exercise's stage, up to 15.
    pub stage: u32,
    /// The exercise's number in it, up to 7.
    pub number: u32,
    /// The minute of the day, in UTC.
    pub minute: u32,
    /// Whose exercise it is, less than [`SEATS`].
    pub seat: u32,
}

impl Passed {
    /// Eight characters and a hyphen. With one wrong character, or with two that have changed places, it is no code.
    /// `None` if a number is too large.
    pub fn code(&self) -> Option<String> {
        let limits =
            [(self.stage, 16), (self.number, 1 << NUMBER), (self.minute, 1 << MINUTE), (self.seat, SEATS)];
        if limits.iter().any(|(value, limit)| value >= limit) {
            return None;
        }
        let exercise = u64::from(self.stage << NUMBER | self.number);
        let value = (exercise << MINUTE | u64::from(self.minute)) * u64::from(SEATS) + u64::from(self.seat);
        let mut digits: Vec<_> = (0..DIGITS).rev().map(|nth| (value >> (5 * nth)) as usize % 32).collect();
        digits.push(double(digits.iter().fold(0, |sum, digit| double(sum) ^ digit)));
        let mut code: String = digits.iter().map(|digit| char::from(ALPHABET[*digit])).collect();
        code.insert(4, '-');
        Some(code)
    }
}

/// Twice this, in the field of 32 elements, in which 31 doublings come back to the start: so each place has its weight.
fn double(digit: usize) -> usize {
    if digit < 16 { digit << 1 } else { digit << 1 ^ 0b10_0101 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_table() {
        for line in include_str!("passed.tsv").lines().skip(1) {
            let (code, numbers) = line.split_once('\t').unwrap();
            let numbers: Vec<u32> = numbers.split('\t').map(|number| number.parse().unwrap()).collect();
            let &[stage, number, minute, seat] = &numbers[..] else { panic!("{line}") };
            assert_eq!(Passed { stage, number, minute, seat }.code().as_deref(), Some(code));
        }
    }
}
