//! Where the parts of a node are. A node is one block: a header, and an array of links over its levels.
//!
//! | key node | | subrange node | |
//! |---|---|---|---|
//! | 0, 1 | key | 0, 1 | start and shift |
//! | 2, 3 | value | 2 | how many keys |
//! | 4 | height | 3 | height in L2, height of L1: a byte each |
//! | 5 … | links of L1 | 4 … | links of L2, then links to the first keys, of each level of L1 |
//!
//! A *tower* is the index of the link of level 0; a search keeps towers, so that the beginning of a list is like any
//! node. A link at level 0 of L1 that leads to the next subrange has [`MARK`] set. A subrange of shift s, at least 1,
//! has 2^s keys at most: those that are its start in all bits from s on. So its start's low bits are free, and bit s -
//! 1 is set for the shift: the one word that a search reads says whether the key it looks for is in the subrange.

use super::Skiplist;

/// Levels of L2, and of L1.
pub const MAX_HEIGHT: u8 = 24;
/// Words before a key node's links.
pub const KEY_HEADER: u32 = 5;
/// Words before a subrange node's links.
pub const SUBRANGE_HEADER: u32 = 4;
/// Marks a link to a subrange.
pub const MARK: u32 = 1 << 31;

/// A subrange node's measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bits of a key in which its keys differ; 64 for all.
    pub shift: u8,
    /// Levels of L2 that it is in.
    pub outer: u8,
    /// Levels of L1 that it has.
    pub inner: u8,
}

impl Shape {
    /// Words of such a node.
    pub fn words(self) -> u32 {
        SUBRANGE_HEADER + u32::from(self.outer) + u32::from(self.inner)
    }
}

/// A subrange's start and shift in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends(pub u64);

impl Ends {
    /// Of a start whose bits below the shift, 1 to 64, are 0.
    pub fn new(start: u64, shift: u8) -> Self {
        Self(start | 1u64.checked_shl(u32::from(shift).wrapping_sub(1)).unwrap_or(0))
    }

    pub fn start(self) -> u64 {
        self.0 & self.0.wrapping_sub(1)
    }

    pub fn shift(self) -> u8 {
        self.0.trailing_zeros() as u8 + 1
    }

    /// Whether the subrange has this key between its ends.
    pub fn cover(self, key: u64) -> bool {
        (self.0 ^ key).checked_shr(self.shift().into()).unwrap_or(0) == 0
    }

    pub fn last(self) -> u64 {
        self.0 | (self.0 - 1)
    }
}

/// Levels that suit so many keys.
pub fn levels_for(keys: u64) -> u8 {
    ((u64::BITS - keys.leading_zeros()) as u8).clamp(1, MAX_HEIGHT)
}

impl Skiplist {
    /// A node's key, or a subrange's [`Ends`].
    pub(super) fn key(&self, node: u32) -> u64 {
        self.arena.get_long(node)
    }

    pub(super) fn value(&self, node: u32) -> u64 {
        self.arena.get_long(node + 2)
    }

    pub(super) fn set_value(&mut self, node: u32, value: u64) {
        self.accesses += 1;
        self.arena.set_long(node + 2, value);
    }

    pub(super) fn key_height(&self, node: u32) -> u8 {
        self.arena.get(node + 4) as u8
    }

    pub(super) fn shape(&self, subrange: u32) -> Shape {
        let [outer, inner, _, _] = self.arena.get(subrange + 3).to_le_bytes();
        let shift = Ends(self.key(subrange)).shift();
        Shape { shift, outer, inner }
    }

    pub(super) fn set_subrange(&mut self, subrange: u32, start: u64, shape: Shape) {
        self.arena.set_long(subrange, Ends::new(start, shape.shift).0);
        let word = u32::from_le_bytes([shape.outer, shape.inner, 0, 0]);
        self.arena.set(subrange + 3, word);
    }

    pub(super) fn start(&self, subrange: u32) -> u64 {
        Ends(self.key(subrange)).start()
    }

    pub(super) fn keys_in(&self, subrange: u32) -> u32 {
        self.arena.get(subrange + 2)
    }

    pub(super) fn set_keys_in(&mut self, subrange: u32, keys: u32) {
        self.arena.set(subrange + 2, keys);
    }

    /// The tower of L1 at which a subrange's search begins.
    pub(super) fn inner_tower(&self, subrange: u32) -> u32 {
        subrange + SUBRANGE_HEADER + u32::from(self.shape(subrange).outer)
    }

    /// Whether a subrange has this key between its ends.
    pub(super) fn covers(&self, subrange: u32, key: u64) -> bool {
        Ends(self.key(subrange)).cover(key)
    }

    pub(super) fn link(&self, tower: u32, level: u8) -> u32 {
        self.arena.get(tower + u32::from(level))
    }

    pub(super) fn set_link(&mut self, tower: u32, level: u8, to: u32) {
        self.arena.set(tower + u32::from(level), to);
    }

    /// Reads a link, at the cost of an access.
    pub(super) fn read_link(&mut self, tower: u32, level: u8) -> u32 {
        self.accesses += 1;
        self.link(tower, level)
    }

    /// Follows a link to a node whose key it reads.
    pub(super) fn chase(&mut self, node: u32) -> u64 {
        self.chases += 1;
        self.accesses += 1;
        self.key(node)
    }
}
