//! Where the words of a segment are, and which of them a key may use.
//!
//! | bytes of a segment | |
//! |---|---|
//! | 0 to 7 | label: which prefix of hashes it is for |
//! | 8 to 15 | successor: none, or where its two parts are, once it is split |
//! | 16 to 23 | the other part of the segment that this is a part of |
//! | 24 to 63 | 0 |
//! | from 64 | groups of 192 bytes: main bucket, overflow bucket, main bucket; a bucket has 8 slots |
//!
//! A key has two choices: a group and one of its main buckets, which shares the overflow bucket. Both lie side by side.

use xxhash_rust::xxh3::xxh3_128;

use crate::verbs::Address;

/// Bytes before the first group.
pub const HEADER: u32 = 64;
/// Bytes of a bucket.
const BUCKET: u32 = 64;
const GROUP: u32 = 3 * BUCKET;
/// Bytes of a choice: a main bucket and the overflow bucket.
pub const CHOICE: u32 = 2 * BUCKET;
/// Slots of a choice.
pub const SLOTS: usize = (CHOICE / 8) as usize;
/// Where the successor is in a segment.
pub const SUCCESSOR_AT: u32 = 8;
/// Bits of a prefix at most.
pub const DEPTH_MAX: u32 = 40;

/// What is made of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hash {
    /// Its prefix decides the segment.
    pub prefix: u64,
    /// Both choices.
    choices: u64,
    /// Eight bits that a slot remembers.
    pub fingerprint: u8,
}

impl Hash {
    /// Of a key.
    pub fn of(key: &[u8]) -> Self {
        let hash = xxh3_128(key);
        Self::of_words([hash as u64, (hash >> 64) as u64])
    }

    /// Of its two words.
    pub fn of_words([choices, prefix]: [u64; 2]) -> Self {
        Self {
            prefix,
            choices,
            fingerprint: prefix as u8,
        }
    }

    /// Its two words.
    pub fn words(&self) -> [u64; 2] {
        [self.choices, self.prefix]
    }

    /// Its first bits.
    pub fn prefix(&self, depth: u32) -> u64 {
        self.prefix.checked_shr(64 - depth).unwrap_or(0)
    }
}

/// A segment's prefix of hashes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Label {
    /// Bits of the prefix, at most [`DEPTH_MAX`].
    pub depth: u32,
    /// The bits.
    pub prefix: u64,
}

impl Label {
    /// The word in the segment. No label is 0.
    pub fn word(&self) -> u64 {
        1 << 62 | u64::from(self.depth) << DEPTH_MAX | self.prefix
    }

    /// The label of a word; `None` if it is none.
    pub fn of(word: u64) -> Option<Self> {
        let depth = (word >> DEPTH_MAX & 0x3f) as u32;
        let label = Self {
            depth,
            prefix: word & ((1 << DEPTH_MAX) - 1),
        };
        let is_label = depth <= DEPTH_MAX && label.prefix >> depth == 0 && label.word() == word;
        is_label.then_some(label)
    }

    /// Whether a key belongs there.
    pub fn covers(&self, hash: &Hash) -> bool {
        hash.prefix(self.depth) == self.prefix
    }

    /// The labels of its two parts; `None` if it has the deepest.
    pub fn parts(&self) -> Option<[Label; 2]> {
        let part = |bit| Label {
            depth: self.depth + 1,
            prefix: self.prefix << 1 | bit,
        };
        (self.depth < DEPTH_MAX).then(|| [part(0), part(1)])
    }
}

/// How large segments are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segments {
    groups: u32,
}

impl Segments {
    /// Segments of so many groups, 2 at least and 2^20 at most.
    pub fn new(groups: u32) -> Option<Self> {
        (2..=1 << 20).contains(&groups).then_some(Self { groups })
    }

    /// Bytes of a segment.
    pub fn bytes(&self) -> u32 {
        HEADER + self.groups * GROUP
    }

    /// Slots of a segment.
    pub fn slots(&self) -> u32 {
        self.groups * (GROUP / 8)
    }

    /// Where a slot is in its segment.
    pub fn slot_at(&self, slot: u32) -> u32 {
        HEADER + 8 * slot
    }

    /// Where the two choices of a key begin in its segment. They are in two groups.
    pub fn choices(&self, hash: &Hash) -> [u32; 2] {
        let (first, second) = (hash.choices as u32, (hash.choices >> 32) as u32);
        let group = |bits: u32, groups: u32| ((u64::from(bits >> 1) * u64::from(groups)) >> 31) as u32;
        let one = group(first, self.groups);
        // Of the others.
        let other = group(second, self.groups - 1);
        let other = other + u32::from(other >= one);
        let at = |group: u32, side: u32| HEADER + group * GROUP + (side & 1) * BUCKET;
        [at(one, first), at(other, second)]
    }

    /// Whether a slot of a segment is an overflow slot.
    pub fn is_overflow(&self, at: u32) -> bool {
        (at.wrapping_sub(HEADER) % GROUP) / BUCKET == 1
    }
}

/// Where the sibling is in a segment.
pub const SIBLING_AT: u32 = 16;

/// The successor word of a segment that was split: its first part is at this address, and names the second one.
pub fn successor_word(part: Address) -> u64 {
    1 << 63 | part.bits()
}

/// The part that a successor word names; `None` if it names none.
pub fn successor(word: u64) -> Option<Address> {
    (word >> 63 == 1)
        .then(|| Address::from_bits(word & !(1 << 63)))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::{CHOICE, DEPTH_MAX, HEADER, Hash, Label, Segments, successor, successor_word};
    use crate::verbs::Address;

    #[test]
    fn choices_are_apart_and_inside() {
        for groups in [2, 3, 5, 85] {
            let segments = Segments::new(groups).unwrap();
            let mut used = vec![0; groups as usize];
            for key in 0..10_000_u64 {
                let choices = segments.choices(&Hash::of(&key.to_le_bytes()));
                let group = |at: u32| (at - HEADER) / 192;
                assert_ne!(group(choices[0]), group(choices[1]));
                for at in choices {
                    assert!(at >= HEADER && at + CHOICE <= segments.bytes());
                    assert!(matches!((at - HEADER) % 192, 0 | 64));
                    used[group(at) as usize] += 1;
                }
            }
            let least = 20_000 / groups * 3 / 4;
            assert!(used.iter().all(|count| *count > least), "{used:?}");
        }
        assert!(Segments::new(1).is_none());
    }

    #[test]
    fn labels_come_back_and_cover_their_parts() {
        let hash = Hash::of(b"a key");
        let mut label = Label { depth: 0, prefix: 0 };
        loop {
            assert!(label.covers(&hash));
            assert_eq!(Label::of(label.word()), Some(label));
            let Some(parts) = label.parts() else { break };
            assert_ne!(parts[0].covers(&hash), parts[1].covers(&hash));
            label = if parts[0].covers(&hash) {
                parts[0]
            } else {
                parts[1]
            };
        }
        assert_eq!(label.depth, DEPTH_MAX);
        for word in [0, 1, 1 << 62 | 1, u64::MAX] {
            assert_eq!(Label::of(word), None, "{word:x}");
        }
    }

    #[test]
    fn successors_come_back() {
        let at = Address::new(7, 4_096);
        assert_eq!(successor(successor_word(at)), Some(at));
        assert_eq!(successor(0), None);
    }
}
