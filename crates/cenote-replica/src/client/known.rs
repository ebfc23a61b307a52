//! The segments that a client knows: a hint, as every operation reads the label of the segment that it uses.

use std::collections::BTreeMap;

use super::{Client, Error, Step, bytes_read, read};
use crate::index::candidates::Segment;
use crate::index::layout::{DEPTH_MAX, Hash, Label};
use crate::verbs::{Address, Verbs};
use crate::view::{Control, View};

/// Segments by their prefixes, which are apart.
#[derive(Debug, Default)]
pub(super) struct Known {
    by_prefix: BTreeMap<u64, Segment>,
}

impl Known {
    /// The segment of a key.
    fn find(&self, hash: &Hash) -> Option<Segment> {
        let (_, segment) = self.by_prefix.range(..=hash.prefix).next_back()?;
        segment.label.covers(hash).then_some(*segment)
    }

    /// Takes a segment in, in the place of those that it covers or that cover it.
    pub fn insert(&mut self, segment: Segment) {
        let (first, last) = range(segment.label);
        while let Some((at, _)) = self.by_prefix.range(first..=last).next() {
            let at = *at;
            self.by_prefix.remove(&at);
        }
        let before = self
            .by_prefix
            .range(..first)
            .next_back()
            .map(|(at, before)| (*at, range(before.label).1));
        if let Some((at, end)) = before
            && end >= first
        {
            self.by_prefix.remove(&at);
        }
        self.by_prefix.insert(first, segment);
    }

    /// Forgets the segment of a key.
    pub fn forget(&mut self, hash: &Hash) {
        if let Some(segment) = self.find(hash) {
            self.by_prefix.remove(&range(segment.label).0);
        }
    }
}

/// The first and the last hash of a label.
fn range(label: Label) -> (u64, u64) {
    let first = label.prefix.checked_shl(64 - label.depth).unwrap_or(0);
    (first, first | u64::MAX.checked_shr(label.depth).unwrap_or(0))
}

/// The directory's word for a segment.
pub(crate) fn directory_word(segment: Segment) -> u64 {
    1 << 63 | u64::from(segment.label.depth) << 46 | segment.at.bits()
}

/// The depth of the segment that a word of the directory names.
pub(crate) fn depth_of(word: u64) -> u32 {
    (word >> 46 & 0x3f) as u32
}

/// The segment that a word of the directory names, for a hash. `None` if it names none.
pub(crate) fn segment_of(word: u64, hash: &Hash) -> Option<Segment> {
    let depth = depth_of(word);
    let at = Address::from_bits(word & ((1 << 46) - 1))?;
    let label = Label {
        depth,
        prefix: hash.prefix(depth),
    };
    (word >> 52 == 1 << 11 && depth <= DEPTH_MAX).then_some(Segment { at, label })
}

impl<N: Verbs + Control> Client<N> {
    /// The segment of a key, as far as the client or else the directory knows.
    ///
    /// Cost: nothing, or one round trip.
    pub(super) async fn segment(&self, view: &View, hash: &Hash) -> Step<Segment> {
        if let Some(segment) = self.known.borrow().find(hash) {
            return Ok(segment);
        }
        let at = self.directory_entry(hash);
        let request = read(view, at, 8)?;
        let completions = self.net.post(vec![request.clone()]).await;
        let bytes = bytes_read(&request, completions.first())?;
        let word = bytes.try_into().map_or(0, u64::from_le_bytes);
        let damaged = Error::Damaged {
            what: "an entry of the directory",
            at: at.bits(),
        };
        let segment = segment_of(word, hash).ok_or(damaged)?;
        self.known.borrow_mut().insert(segment);
        Ok(segment)
    }

    /// Where the directory's entry for a hash is.
    pub(super) fn directory_entry(&self, hash: &Hash) -> Address {
        self.layout
            .directory
            .plus(8 * hash.prefix(self.layout.depth) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::{Known, directory_word, segment_of};
    use crate::index::candidates::Segment;
    use crate::index::layout::{Hash, Label};
    use crate::verbs::Address;

    fn segment(depth: u32, prefix: u64) -> Segment {
        Segment {
            at: Address::new(1, depth * 64 + prefix as u32 * 4_096),
            label: Label { depth, prefix },
        }
    }

    /// Whatever is taken in, a key finds the last segment that was taken in for it, or none.
    #[test]
    fn the_last_one_is_found() {
        let hashes: Vec<Hash> = (0..200_u32).map(|key| Hash::of(&key.to_le_bytes())).collect();
        let mut known = Known::default();
        let mut model: Vec<Option<Segment>> = vec![None; hashes.len()];
        let order = [
            (0, 0),
            (1, 0),
            (1, 1),
            (3, 5),
            (2, 2),
            (3, 4),
            (2, 0),
            (1, 1),
            (3, 7),
            (0, 0),
            (3, 1),
        ];
        for (depth, prefix) in order {
            let taken = segment(depth, prefix);
            let overlaps = |other: Segment| {
                let depth = other.label.depth.min(taken.label.depth);
                other.label.prefix >> (other.label.depth - depth)
                    == taken.label.prefix >> (taken.label.depth - depth)
            };
            for (hash, expected) in hashes.iter().zip(&mut model) {
                if taken.label.covers(hash) {
                    *expected = Some(taken);
                } else if expected.is_some_and(overlaps) {
                    *expected = None;
                }
            }
            known.insert(taken);
            for (hash, expected) in hashes.iter().zip(&model) {
                assert_eq!(known.find(hash), *expected);
            }
        }
        known.forget(&hashes[0]);
        assert_eq!(known.find(&hashes[0]), None);
    }

    #[test]
    fn words_of_the_directory_come_back() {
        let hash = Hash::of(b"key");
        let label = Label {
            depth: 7,
            prefix: hash.prefix(7),
        };
        let segment = Segment {
            at: Address::new(9, 640),
            label,
        };
        assert_eq!(segment_of(directory_word(segment), &hash), Some(segment));
        assert_eq!(segment_of(0, &hash), None);
        assert_eq!(segment_of(u64::MAX, &hash), None);
    }
}
