//! Entries of a node that is being made, in a thread's own memory.
//!
//! An entry's *way* is its partial key with each bit in its place in the key: the bits that are 1 on the path to it.
//! Two entries part at the highest bit in which their ways differ. So exactly the entries below a place of the binary
//! trie have the same bits above the bit that is tested there; they are adjacent.

use std::ops::Range;

use super::bits;
use super::node::{ENTRIES_MAX, Node, Reference};
use crate::memory::Memory;

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    way: u64,
    child: u64,
}

/// The entries of a node, in ascending order. While it grows it may have one too many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft(Vec<Entry>);

/// The entries below the place where a bit would be tested on the path to one of them.
pub fn below(ways: &[u64], place: usize, bit: u64) -> Range<usize> {
    let way = ways.get(place).copied().unwrap_or(0);
    let is_below = |other: &u64| (other ^ way) & bits::above(bit) == 0;
    let from = ways.iter().position(is_below).unwrap_or(place);
    let to = ways.iter().rposition(is_below).unwrap_or(place) + 1;
    from..to
}

impl Draft {
    /// Two entries that differ in one bit.
    pub fn pair(bit: u64, children: [u64; 2]) -> Self {
        let entries = [0, bit].into_iter().zip(children);
        Self(entries.map(|(way, child)| Entry { way, child }).collect())
    }

    /// The entries of a node. It is locked, so that they do not change.
    pub fn of<M: Memory>(mem: &M, node: Node) -> Self {
        let entries = node.ways(mem).into_iter().zip(node.children(mem));
        let mut draft = Vec::with_capacity(ENTRIES_MAX + 1);
        draft.extend(entries.take(node.count).map(|(way, child)| Entry { way, child }));
        Self(draft)
    }

    /// How many entries it has.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The only entry's child, if there is one alone.
    pub fn single(&self) -> Option<u64> {
        match self.0[..] {
            [entry] => Some(entry.child),
            _ => None,
        }
    }

    /// The bits in which the entries differ.
    pub fn mask(&self) -> u64 {
        self.0.iter().fold(0, |mask, entry| mask | entry.way)
    }

    /// The height of a node of these entries.
    pub fn height(&self) -> u32 {
        let heights = self.0.iter().filter_map(|entry| Reference::decode(entry.child));
        heights.map(|child| child.height).max().unwrap_or(0) + 1
    }

    /// The partial keys.
    pub fn parts(&self) -> Vec<u32> {
        let mask = self.mask();
        let parts = self.0.iter().map(|entry| bits::extract(entry.way, mask) as u32);
        parts.collect()
    }

    /// The references.
    pub fn children(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|entry| entry.child)
    }

    /// Adds a child whose keys differ from those below an entry at a bit, and at none above it.
    pub fn add(&mut self, place: usize, bit: u64, is_right: bool, child: u64) {
        let ways: Vec<u64> = self.0.iter().map(|entry| entry.way).collect();
        let others = below(&ways, place, bit);
        let way = ways.get(place).copied().unwrap_or(0) & bits::above(bit);
        if is_right {
            let way = way | bit;
            self.0.insert(others.end.min(self.0.len()), Entry { way, child });
        } else {
            for entry in self.0.iter_mut().take(others.end).skip(others.start) {
                entry.way |= bit;
            }
            self.0
                .insert(others.start.min(self.0.len()), Entry { way, child });
        }
    }

    /// Replaces a child by two that differ in a bit.
    pub fn part(&mut self, place: usize, bit: u64, [left, right]: [u64; 2]) {
        if let Some(entry) = self.0.get_mut(place) {
            entry.child = left;
            let way = entry.way | bit;
            self.0.insert(place + 1, Entry { way, child: right });
        }
    }

    /// The first bit, and the entries that have it and those that do not.
    pub fn split(self) -> (u64, [Self; 2]) {
        let bit = bits::highest(self.mask());
        let (right, left): (Vec<_>, Vec<_>) = self.0.into_iter().partition(|entry| entry.way & bit != 0);
        let right = right.into_iter().map(|Entry { way, child }| Entry {
            way: way & !bit,
            child,
        });
        (bit, [Self(left), Self(right.collect())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A draft of keys, each the child of itself.
    fn draft(keys: &[u64]) -> Draft {
        let mut draft = Draft(vec![Entry {
            way: 0,
            child: keys[0],
        }]);
        for &key in &keys[1..] {
            let place = find(&draft, key);
            let bit = bits::highest(key ^ draft.0[place].child);
            draft.add(place, bit, key & bit != 0, key);
        }
        draft
    }

    fn find(draft: &Draft, key: u64) -> usize {
        let found = draft.0.iter().rposition(|entry| entry.way & !key == 0);
        found.unwrap()
    }

    #[test]
    fn each_key_has_its_entry_in_order() {
        let mut keys: Vec<u64> = (1..=33u64)
            .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        let draft = draft(&keys);
        keys.sort_unstable();
        assert_eq!(draft.children().collect::<Vec<_>>(), keys);
        assert!(keys.iter().enumerate().all(|(n, &key)| find(&draft, key) == n));
        assert!((draft.mask().count_ones() as usize) < keys.len());
        let (bit, [left, right]) = draft.clone().split();
        assert_eq!(bit, 1 << 63);
        assert_eq!(left.count() + right.count(), 33);
        assert!(
            left.children()
                .all(|key| key & bit == 0 && keys[find(&left, key)] != 0)
        );
        for half in [&left, &right] {
            assert!(half.children().enumerate().all(|(n, key)| find(half, key) == n));
        }
        assert_eq!(left.0[0].way, 0);
        assert_eq!(right.0[0].way, 0);
    }

    #[test]
    fn a_part_takes_the_place_of_its_child() {
        let mut some = draft(&[0b0000, 0b1000, 0b1100]);
        some.part(1, 0b10, [0b1000, 0b1010]);
        assert_eq!(some, draft(&[0b0000, 0b1000, 0b1100, 0b1010]));
        let ways = [0, 0b1000, 0b1010, 0b1100];
        assert_eq!((below(&ways, 1, 0b100), below(&ways, 1, 0b1)), (1..4, 1..2));
        assert_eq!(below(&ways, 1, 0b1_0000), 0..4);
    }
}
