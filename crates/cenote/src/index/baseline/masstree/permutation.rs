//! The permutation word of a node: which of its 15 places are in use, and in which order their keys are.
//!
//! | bits | |
//! |---|---|
//! | 0 to 3 | how many places are in use |
//! | 4 to 63 | 15 places of four bits each: those in use, with keys in ascending order; after them the free ones |
//!
//! One store of it adds a pair to a node or removes one. A place that becomes free goes to the end, so that it is
//! reused as late as possible.

/// Places of a node.
pub const CAPACITY: u64 = 15;

const COUNT: u64 = 0xf;
/// All places in order; none in use.
const IN_ORDER: u64 = 0xedcb_a987_6543_2100;

/// A decoded permutation word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permutation(u64);

impl Permutation {
    /// The permutation of a node whose first `count` places are in use, in order.
    pub const fn first(count: u64) -> Self {
        Self(IN_ORDER | count & COUNT)
    }

    /// Decodes a word.
    pub const fn decode(word: u64) -> Self {
        Self(word)
    }

    /// The word.
    pub const fn encode(self) -> u64 {
        self.0
    }

    /// How many places are in use.
    pub const fn count(self) -> u64 {
        self.0 & COUNT
    }

    /// The `n`th place.
    pub const fn place(self, n: u64) -> u64 {
        self.0 >> (4 + 4 * (n % CAPACITY)) & 0xf
    }

    /// Whether it has each place once. A damaged word may not.
    pub fn is_whole(self) -> bool {
        (0..CAPACITY).fold(0, |seen, n| seen | 1 << self.place(n)) == (1 << CAPACITY) - 1
    }

    /// The same with only the first `count` places in use.
    pub const fn shortened(self, count: u64) -> Self {
        Self(self.0 & !COUNT | count & COUNT)
    }

    /// The first free place, and the permutation that has it in use as the `n`th. `None` if there is none.
    pub fn insert(self, n: u64) -> Option<(u64, Self)> {
        let count = self.count();
        if count == CAPACITY || n > count {
            return None;
        }
        let place = self.place(count);
        // Those from the `n`th to before the free one move up by one.
        let (kept, moved) = (below(n) | !below(count + 1), below(count) & !below(n));
        let word = self.0 & kept | (self.0 & moved) << 4 | place << (4 + 4 * n);
        Some((place, Self(word + 1)))
    }

    /// The permutation that has the `n`th place free. `None` if that is not in use.
    pub fn remove(self, n: u64) -> Option<Self> {
        if n >= self.count() {
            return None;
        }
        let word = self.0 & below(n) | (self.0 & !below(n + 1)) >> 4 | self.place(n) << 60;
        Some(Self(word - 1))
    }
}

/// The bits of the count and of the first `n` places.
const fn below(n: u64) -> u64 {
    match n < CAPACITY {
        true => (1 << (4 + 4 * n)) - 1,
        false => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaves_like_a_list_of_places() {
        let mut word = Permutation::first(0);
        let (mut used, mut free): (Vec<u64>, Vec<u64>) = (Vec::new(), (0..CAPACITY).collect());
        let mut random = 1u64;
        for _ in 0..10_000 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let n = (random >> 33) as usize;
            if random >> 63 == 0 {
                let n = n % (used.len() + 1);
                match word.insert(n as u64) {
                    Some((place, next)) => {
                        assert_eq!(place, free.remove(0));
                        used.insert(n, place);
                        word = next;
                    }
                    None => assert!(free.is_empty()),
                }
            } else if used.is_empty() {
                assert_eq!(word.remove(0), None);
            } else {
                let n = n % used.len();
                free.push(used.remove(n));
                word = word.remove(n as u64).unwrap();
            }
            let places: Vec<u64> = (0..CAPACITY).map(|n| word.place(n)).collect();
            assert_eq!(places, [&used[..], &free[..]].concat());
            assert_eq!(word.count(), used.len() as u64);
            assert!(word.is_whole());
        }
    }

    #[test]
    fn damage_is_seen_and_asked_nothing_of() {
        for word in [0, u64::MAX, IN_ORDER ^ 1 << 40, IN_ORDER | 0xf0] {
            assert!(!Permutation::decode(word).is_whole());
        }
        let full = Permutation::first(CAPACITY);
        assert_eq!(
            (full.insert(15), full.insert(3), full.remove(15)),
            (None, None, None)
        );
        assert_eq!(full.shortened(7), Permutation::first(7));
        assert_eq!(Permutation::first(2).insert(3), None);
    }
}
