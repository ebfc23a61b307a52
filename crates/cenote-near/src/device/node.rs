//! Where the parts of a subrange's node are. A node is one block: a header, and an array of links over its levels.
//!
//! | words | |
//! |---|---|
//! | 0 | height in L2, levels of its keys' tree above the leaves: a byte each; the [arena](super::arena)'s |
//! | 1, 2 | start and shift |
//! | 3 | how many keys |
//! | 4 | root of that tree, 0 without keys |
//! | 5 … | links of L2 |
//!
//! A *tower* is the index of the link of level 0; a search keeps towers, so that the beginning of the list is like any
//! node. A subrange of shift s, at least 1, has 2^s keys at most: those that are its start in all bits from s on. So
//! its start's low bits are free, and bit s - 1 is set for the shift: the one word that a search reads says whether the
//! key it looks for is in the subrange.

use super::Skiplist;
use super::walk::Tree;

/// Levels of L2.
pub const MAX_HEIGHT: u8 = 24;
/// Words before a subrange node's links.
pub const SUBRANGE_HEADER: u32 = 5;

/// A subrange node's measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bits of a key in which its keys differ; 64 for all.
    pub shift: u8,
    /// Levels of L2 that it is in.
    pub outer: u8,
}

impl Shape {
    /// Words of the largest node.
    pub const WORDS_MAX: u32 = SUBRANGE_HEADER + MAX_HEIGHT as u32;

    /// Words of such a node.
    pub fn words(self) -> u32 {
        SUBRANGE_HEADER + u32::from(self.outer)
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

impl Skiplist {
    /// A subrange's [`Ends`].
    pub(super) fn ends(&self, subrange: u32) -> Ends {
        Ends(self.arena.get_long(subrange + 1))
    }

    pub(super) fn shape(&self, subrange: u32) -> Shape {
        let [outer, ..] = self.arena.header(subrange).to_le_bytes();
        let shift = self.ends(subrange).shift();
        Shape { shift, outer }
    }

    /// The tree of a subrange's keys, if it has any.
    pub(super) fn tree(&self, subrange: u32) -> Option<Tree> {
        let [_, depth, ..] = self.arena.header(subrange).to_le_bytes();
        let root = self.arena.get(subrange + 4);
        (root != 0).then_some(Tree { root, depth })
    }

    pub(super) fn set_tree(&mut self, subrange: u32, tree: Option<Tree>) {
        self.accesses += 2;
        let Tree { root, depth } = tree.unwrap_or(Tree { root: 0, depth: 0 });
        let outer = self.shape(subrange).outer;
        self.arena
            .set_header(subrange, u32::from_le_bytes([outer, depth, 0, 0]));
        self.arena.set(subrange + 4, root);
    }

    pub(super) fn set_subrange(&mut self, subrange: u32, start: u64, shape: Shape) {
        self.arena.set_long(subrange + 1, Ends::new(start, shape.shift).0);
        let heights = u32::from_le_bytes([shape.outer, 0, 0, 0]);
        self.arena.set_header(subrange, heights);
    }

    pub(super) fn start(&self, subrange: u32) -> u64 {
        self.ends(subrange).start()
    }

    pub(super) fn keys_in(&self, subrange: u32) -> u32 {
        self.arena.get(subrange + 3)
    }

    pub(super) fn set_keys_in(&mut self, subrange: u32, keys: u32) {
        self.arena.set(subrange + 3, keys);
    }

    /// Whether a subrange has this key between its ends.
    pub(super) fn covers(&self, subrange: u32, key: u64) -> bool {
        self.ends(subrange).cover(key)
    }

    pub(super) fn link(&self, tower: u32, level: u8) -> u32 {
        self.arena.get(tower + u32::from(level))
    }

    pub(super) fn set_link(&mut self, tower: u32, level: u8, to: u32) {
        self.arena.set(tower + u32::from(level), to);
    }

    /// Follows a link to a subrange whose ends it reads.
    pub(super) fn chase(&mut self, subrange: u32) -> Ends {
        self.chases += 1;
        self.accesses += 1;
        self.ends(subrange)
    }
}
