//! Nodes of the radix tree and the words that refer to them.
//!
//! A reference is an offset with the kind in its lowest three bits and the node's depth in the next three: the byte of
//! a key by which its children differ. 0 refers to nothing.
//!
//! | kind | lines after the line of its [word](crate::index::baseline::version) |
//! |---|---|
//! | 4 | one: depth, path, the bytes of four children; then, from the fourth word on, the children |
//! | 16 | one: depth, path, the bytes of 16 children; two: the children |
//! | 48 | one: depth, path; four: for each byte of a key 0, or one more than its child's place; six: 48 children |
//! | 256 | one: depth, path; 32: the children |
//! | leaf | has no such word, and belongs to its node: one line with key, value, and 1 if it is there |
//!
//! The path is the bytes of a key before the byte at the depth, in their places: all keys below a node have them. It
//! never changes, and does not depend on the nodes above.
//!
//! A place has a child if the child's word is not 0. That word is stored last, after its byte is in memory, and is
//! never 0 again. So a crash leaves of a new child at most a byte whose place is still free.

use crate::index::baseline::{content, version};
use crate::memory::checked::{owned_word, sync_word, unpublished};
use crate::memory::{LINE, Memory, SyncWord};

/// How many children a node may have, or that it is a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One key.
    Leaf = 1,
    /// Up to four children.
    Four = 2,
    /// Up to 16.
    Sixteen = 3,
    /// Up to 48.
    FortyEight = 4,
    /// One for each byte.
    Full = 5,
}

impl Kind {
    /// Bytes of memory.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Leaf => LINE,
            Self::Four => 2 * LINE,
            Self::Sixteen => 4 * LINE,
            Self::FortyEight => 12 * LINE,
            Self::Full => 34 * LINE,
        }
    }

    /// Places for children.
    pub const fn places(self) -> u64 {
        match self {
            Self::Leaf => 0,
            Self::Four => 4,
            Self::Sixteen => 16,
            Self::FortyEight => 48,
            Self::Full => 256,
        }
    }

    /// What it becomes when it is full.
    pub const fn larger(self) -> Self {
        match self {
            Self::Leaf | Self::Four => Self::Sixteen,
            Self::Sixteen => Self::FortyEight,
            Self::FortyEight | Self::Full => Self::Full,
        }
    }

    /// Where its children begin.
    const fn children(self) -> u64 {
        match self {
            Self::Leaf | Self::Four => LINE + 32,
            Self::Sixteen | Self::Full => 2 * LINE,
            Self::FortyEight => 6 * LINE,
        }
    }

    /// Where its bytes, or places by byte, begin.
    const fn index(self) -> u64 {
        match self {
            Self::FortyEight => 2 * LINE,
            _ => LINE + 16,
        }
    }
}

/// What a reference says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Where the node is.
    pub at: u64,
    /// Its kind.
    pub kind: Kind,
    /// Its depth; 0 for leaves.
    pub depth: u32,
}

impl Reference {
    /// The word of a reference.
    pub fn encode(self) -> u64 {
        self.at | self.kind as u64 | u64::from(self.depth) << 3
    }

    /// Reads a reference; `None` if it is none.
    pub fn decode(word: u64) -> Option<Self> {
        let kind = match word & 7 {
            1 => Kind::Leaf,
            2 => Kind::Four,
            3 => Kind::Sixteen,
            4 => Kind::FortyEight,
            5 => Kind::Full,
            _ => return None,
        };
        Some(Self {
            at: word & !(LINE - 1),
            kind,
            depth: (word >> 3 & 7) as u32,
        })
    }
}

/// The byte of a key at a depth.
pub fn byte(key: u64, depth: u32) -> u8 {
    key.to_be_bytes()[depth as usize % 8]
}

/// The path of nodes of a depth above a key.
pub fn path(key: u64, depth: u32) -> u64 {
    key & !(u64::MAX >> (8 * depth.min(7)))
}

/// The first byte in which two keys differ; 8 if none.
pub fn first_difference(a: u64, b: u64) -> u32 {
    (a ^ b).leading_zeros() / 8
}

/// A node as it was when it had this word. Not a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The reference to it.
    pub is: Reference,
    /// Its word.
    pub word: u64,
}

impl Node {
    /// Where its word is.
    pub fn guard(self) -> SyncWord {
        sync_word(self.is.at)
    }

    /// Formats a node without children. Nobody else knows it yet, and nothing is written back.
    pub fn initialise<M: Memory>(is: Reference, mem: &M, path: u64) -> Self {
        unpublished(is.at + LINE, is.kind.bytes() - LINE).zero(mem);
        owned_word(is.at + LINE).set(mem, u64::from(is.depth));
        owned_word(is.at + LINE + 8).set(mem, path);
        let word = version::fresh(0);
        sync_word(is.at).store(mem, word);
        Self { is, word }
    }

    /// Writes back all of a new node.
    pub fn finish<M: Memory>(self, mem: &M) {
        mem.persist(self.is.at + LINE, self.is.kind.bytes() - LINE);
    }

    /// Makes the next reads of the node come from memory.
    pub fn refresh<M: Memory>(self, mem: &M) {
        content::refresh(mem, self.is.at + LINE, self.is.kind.bytes() - LINE);
    }

    /// Makes the next reads by [`Node::path`] and [`Node::find`] come from memory.
    pub fn refresh_for<M: Memory>(self, mem: &M, byte: u8) {
        if M::COHERENT {
            return;
        }
        match self.is.kind {
            Kind::Leaf | Kind::Four | Kind::Sixteen => return self.refresh(mem),
            Kind::FortyEight => mem.invalidate(self.index_at(byte) & !7, 8),
            Kind::Full => mem.invalidate(self.child_at(u64::from(byte)), 8),
        }
        mem.invalidate(self.is.at + LINE, LINE);
        mem.fence();
    }

    /// The depth that the node itself says.
    pub fn depth<M: Memory>(self, mem: &M) -> u64 {
        content::get(mem, self.is.at + LINE)
    }

    /// Its path.
    pub fn path<M: Memory>(self, mem: &M) -> u64 {
        content::get(mem, self.is.at + LINE + 8)
    }

    /// Where the child of a place is stored.
    fn child_at(self, place: u64) -> u64 {
        self.is.at + self.is.kind.children() + 8 * place
    }

    fn index_at(self, n: u8) -> u64 {
        self.is.at + self.is.kind.index() + u64::from(n)
    }

    /// A byte of the index.
    fn index<M: Memory>(self, mem: &M, n: u8) -> u8 {
        let at = self.index_at(n);
        content::get(mem, at & !7).to_le_bytes()[(at % 8) as usize]
    }

    fn set_index<M: Memory>(self, mem: &M, n: u8, value: u8) {
        let at = self.index_at(n);
        let mut bytes = content::get(mem, at & !7).to_le_bytes();
        bytes[(at % 8) as usize] = value;
        owned_word(at & !7).set(mem, u64::from_le_bytes(bytes));
    }

    /// Where the child of a byte is stored, and the child; 0 if there is none. After [`Node::refresh`] if `is_whole`,
    /// else after [`Node::refresh_for`].
    pub fn find<M: Memory>(self, mem: &M, byte: u8, is_whole: bool) -> Option<(u64, u64)> {
        let child = |place: u64| {
            let at = self.child_at(place);
            (at, content::get(mem, at))
        };
        match self.is.kind {
            Kind::Leaf => None,
            Kind::Four | Kind::Sixteen => (0..self.is.kind.places())
                .filter(|&place| self.index(mem, place as u8) == byte)
                .map(child)
                .find(|&(_, child)| child != 0),
            Kind::FortyEight => {
                let place = u64::from(self.index(mem, byte)).checked_sub(1)?;
                if place >= self.is.kind.places() {
                    return None;
                }
                if !is_whole {
                    content::refresh(mem, self.child_at(place), 8);
                }
                Some(child(place))
            }
            Kind::Full => Some(child(u64::from(byte))),
        }
        .filter(|&(_, child)| child != 0)
    }

    /// The first child of a byte from one on. After [`Node::refresh`].
    pub fn following<M: Memory>(self, mem: &M, from: u8) -> Option<(u8, u64)> {
        match self.is.kind {
            Kind::Leaf => None,
            Kind::Four | Kind::Sixteen => (0..self.is.kind.places())
                .map(|place| {
                    let child = content::get(mem, self.child_at(place));
                    (self.index(mem, place as u8), child)
                })
                .filter(|&(byte, child)| child != 0 && byte >= from)
                .min_by_key(|&(byte, _)| byte),
            Kind::FortyEight | Kind::Full => {
                (from..=u8::MAX).find_map(|byte| self.find(mem, byte, true).map(|(_, child)| (byte, child)))
            }
        }
    }

    /// A place for the child of a byte that has none. After [`Node::refresh`].
    fn free_place<M: Memory>(self, mem: &M, byte: u8) -> Option<u64> {
        let places = self.is.kind.places();
        match self.is.kind {
            Kind::Leaf => None,
            Kind::Four | Kind::Sixteen => {
                (0..places).find(|&place| content::get(mem, self.child_at(place)) == 0)
            }
            Kind::FortyEight => {
                let place = match self.index(mem, byte) {
                    0 => (0..32)
                        .map(|n| content::get(mem, self.index_at(8 * n)))
                        .map(|word| word.to_le_bytes().iter().filter(|&&byte| byte != 0).count() as u64)
                        .sum(),
                    // Left by a writer that died before it had stored the child.
                    known => u64::from(known) - 1,
                };
                Some(place).filter(|&place| place < places)
            }
            Kind::Full => Some(u64::from(byte)),
        }
    }

    /// Stores the byte of a place. Returns what must be written back before the child is stored.
    fn set_byte<M: Memory>(self, mem: &M, place: u64, byte: u8) -> Option<u64> {
        match self.is.kind {
            Kind::Four => {
                self.set_index(mem, place as u8, byte);
                // On the child's line.
                None
            }
            Kind::Sixteen => {
                self.set_index(mem, place as u8, byte);
                Some(self.index_at(place as u8))
            }
            Kind::FortyEight => {
                self.set_index(mem, byte, place as u8 + 1);
                Some(self.index_at(byte))
            }
            Kind::Leaf | Kind::Full => None,
        }
    }

    /// Puts a child into a free place. Returns whether there was one. The node is locked. After [`Node::refresh`].
    pub fn add<M: Memory>(self, mem: &M, byte: u8, child: u64) -> bool {
        let Some(place) = self.free_place(mem, byte) else {
            return false;
        };
        if let Some(at) = self.set_byte(mem, place, byte) {
            mem.persist(at, 1);
        }
        set_child(mem, self.child_at(place), child);
        true
    }

    /// Puts the `n`th child into a node that nobody knows and that has room.
    pub fn add_unseen<M: Memory>(self, mem: &M, n: u64, byte: u8, child: u64) {
        let place = match self.is.kind {
            Kind::Full => u64::from(byte),
            _ => n,
        };
        self.set_byte(mem, place, byte);
        owned_word(self.child_at(place)).set(mem, child);
    }

    /// Copies the children of a smaller node, which is locked and was refreshed, into one that nobody knows. Returns
    /// how many.
    pub fn copy<M: Memory>(self, mem: &M, other: Self) -> u64 {
        let (mut from, mut count) = (Some(0), 0);
        while let Some((byte, child)) = from.and_then(|from| other.following(mem, from)) {
            self.add_unseen(mem, count, byte, child);
            count += 1;
            from = byte.checked_add(1);
        }
        count
    }
}

/// Stores a child, and writes it back.
pub fn set_child<M: Memory>(mem: &M, at: u64, child: u64) {
    owned_word(at).set(mem, child);
    mem.persist(at, 8);
}

/// A leaf's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The key.
    pub key: u64,
    /// Its value.
    pub value: u64,
    /// Whether it is there.
    pub lives: bool,
}

impl Leaf {
    /// Reads a leaf afresh.
    pub fn read<M: Memory>(mem: &M, at: u64) -> Self {
        content::refresh(mem, at, LINE);
        Self {
            key: content::get(mem, at),
            value: content::get(mem, at + 8),
            lives: content::get(mem, at + 16) == 1,
        }
    }

    /// Writes a leaf that is there. Either nobody knows it, or it was removed and its node is locked.
    pub fn write<M: Memory>(mem: &M, at: u64, key: u64, value: u64) {
        owned_word(at).set(mem, key);
        owned_word(at + 8).set(mem, value);
        Self::set_lives(mem, at, true);
    }

    /// Marks a leaf as there, or as removed. Its node is locked.
    pub fn set_lives<M: Memory>(mem: &M, at: u64, lives: bool) {
        owned_word(at + 16).set(mem, u64::from(lives));
        mem.persist(at, LINE);
    }

    /// Replaces the value. Its node is held.
    pub fn replace<M: Memory>(mem: &M, at: u64, value: u64) {
        owned_word(at + 8).set(mem, value);
        mem.persist(at + 8, 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_and_bytes() {
        for kind in [
            Kind::Leaf,
            Kind::Four,
            Kind::Sixteen,
            Kind::FortyEight,
            Kind::Full,
        ] {
            let is = Reference {
                at: 0x1240,
                kind,
                depth: 7,
            };
            assert_eq!(Reference::decode(is.encode()), Some(is));
            assert!(kind.children() + 8 * kind.places() <= kind.bytes() || kind == Kind::Leaf);
        }
        assert_eq!(Reference::decode(0), None);
        let key = 0x0102_0304_0506_0708;
        assert_eq!((byte(key, 0), byte(key, 7)), (1, 8));
        assert_eq!((path(key, 0), path(key, 2)), (0, 0x0102 << 48));
        assert_eq!(first_difference(key, key ^ 0x100), 6);
    }
}
