//! The number from which everything that varies in a case follows.

/// A source of numbers that look random. The same seed gives the same numbers on every machine (splitmix64).
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Seed {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.between(0, all.len() as u64 - 1) as usize]
    }

    /// So many of these, each at most once, in any order.
    pub fn some<const N: usize, T: Copy>(&mut self, all: &[T]) -> [T; N] {
        let mut left = all.to_vec();
        [(); N].map(|()| left.swap_remove(self.between(0, left.len() as u64 - 1) as usize))
    }
}
