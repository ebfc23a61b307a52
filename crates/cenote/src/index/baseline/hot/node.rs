//! Nodes and leaves of the height optimised trie, and the words that refer to them.
//!
//! A reference is an offset with the node's height in its lowest six bits; leaves have height 0. 0 refers to nothing.
//!
//! | lines of a node | words |
//! |---|---|
//! | the first ones | protected, never changed: number of entries and height; the mask; partial keys of 1, 2 or 4 bytes |
//! | the others | sync: the node's [word](crate::index::baseline::version), then a reference for each entry |
//!
//! The mask has the bits of a key in which the node's entries differ, the highest first. A partial key has a bit for
//! each of them: 1 for the bits that are 1 on the path to the entry through the binary trie that the node stands for; 0
//! where the path does not test the bit. Of the entries whose partial key has no bit that a key lacks, the last one is
//! the key's. Entries are in ascending order.
//!
//! | word of a leaf | |
//! |---|---|
//! | 0 | the key; never changed |
//! | 1 | sync: 1 if it is there; 0 from its removal on, for ever |
//! | 2 | sync: its value |
//!
//! As a removed leaf does not come back, a value and a 1 that were read one after the other belong together.

use super::bits;
use crate::memory::checked::{published, sync_word, unpublished, word_line};
use crate::memory::{LINE, Memory, SyncWord};

/// The most entries that a node may have.
pub const ENTRIES_MAX: usize = 32;
/// Higher than any trie.
pub const HEIGHT_MAX: u32 = (LINE - 1) as u32;

const HEAD_BYTES: u64 = 16;

/// A decoded reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Where the node or the leaf is.
    pub at: u64,
    /// Its height: 0 if it is a leaf, else more than that of all below it.
    pub height: u32,
}

impl Reference {
    /// The word of a reference.
    pub fn encode(self) -> u64 {
        self.at | u64::from(self.height)
    }

    /// Reads a reference; `None` if it refers to nothing.
    pub fn decode(word: u64) -> Option<Self> {
        let at = word & !(LINE - 1);
        let height = (word & (LINE - 1)) as u32;
        (at != 0).then_some(Self { at, height })
    }
}

/// The words of a node that never change, without the partial keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The reference to it.
    pub is: Reference,
    /// How many entries it has.
    pub count: usize,
    /// The bits in which its entries differ.
    pub mask: u64,
}

impl Node {
    /// Bytes of a partial key.
    fn width(self) -> u64 {
        match self.mask.count_ones() {
            0..=8 => 1,
            9..=16 => 2,
            _ => 4,
        }
    }

    fn parts_bytes(self) -> u64 {
        self.width() * self.count as u64
    }

    /// Bytes that never change, in whole lines.
    fn fixed_bytes(self) -> u64 {
        (HEAD_BYTES + self.parts_bytes()).next_multiple_of(LINE)
    }

    /// Bytes of memory.
    pub fn bytes(self) -> u64 {
        self.fixed_bytes() + (8 * (1 + self.count as u64)).next_multiple_of(LINE)
    }

    /// Reads what a reference refers to; `None` if it is not a valid node of up to so many entries. Its first line must
    /// be within the arena.
    pub fn read<M: Memory>(mem: &M, is: Reference, entries_max: usize) -> Option<Self> {
        let [head, mask] = words(published(is.at, HEAD_BYTES).bytes(mem));
        let count = (head & 0xff) as usize;
        let node = Self { is, count, mask };
        (node.is_one(entries_max) && head >> 8 == u64::from(is.height)).then_some(node)
    }

    /// Whether it is a valid node of up to so many entries.
    pub fn is_one(self, entries_max: usize) -> bool {
        let bits = self.mask.count_ones() as usize;
        (2..=entries_max).contains(&self.count) && (1..self.count).contains(&bits)
    }

    /// Where its word is.
    pub fn guard(self) -> SyncWord {
        sync_word(self.is.at + self.fixed_bytes())
    }

    /// Where the reference of an entry is.
    pub fn slot(self, place: usize) -> SyncWord {
        sync_word(self.guard().offset() + 8 * (1 + place as u64))
    }

    /// The highest of its bits: all paths through the node test it.
    pub fn first_bit(self) -> u64 {
        bits::highest(self.mask)
    }

    /// The entry of a key.
    pub fn find<M: Memory>(self, mem: &M, key: u64) -> Option<usize> {
        let parts = published(self.is.at + HEAD_BYTES, self.parts_bytes()).bytes(mem);
        let asked = bits::extract(key, self.mask) as u32;
        match self.width() {
            1 => parts.iter().rposition(|&part| part & !(asked as u8) == 0),
            2 => {
                let mut parts = parts.as_chunks().0.iter();
                parts.rposition(|&part| u16::from_le_bytes(part) & !(asked as u16) == 0)
            }
            _ => {
                let mut parts = parts.as_chunks().0.iter();
                parts.rposition(|&part| u32::from_le_bytes(part) & !asked == 0)
            }
        }
    }

    /// The partial keys of its entries, each bit in its place in the key.
    pub fn ways<M: Memory>(self, mem: &M) -> Vec<u64> {
        let parts = published(self.is.at + HEAD_BYTES, self.parts_bytes()).bytes(mem);
        let parts = parts.chunks_exact(self.width() as usize).map(|part| {
            let bytes = part.iter().rev();
            bytes.fold(0, |all, &byte| all << 8 | u64::from(byte))
        });
        parts.map(|part| bits::deposit(part, self.mask)).collect()
    }

    /// The references of its entries, each at least as new as this call. Cost: a fetch for each line of them.
    pub fn children<M: Memory>(self, mem: &M) -> [u64; ENTRIES_MAX] {
        let mut children = [0; ENTRIES_MAX];
        let first = self.guard().offset();
        let mut fetched = word_line(first).fetch(mem);
        for (n, child) in (1..).zip(children.iter_mut().take(self.count)) {
            if n % 8 == 0 {
                fetched = word_line(first + 8 * n as u64).fetch(mem);
            }
            *child = fetched[n % 8];
        }
        children
    }

    /// Writes this node, and begins to write it back. Nobody else knows it yet.
    pub fn write<M: Memory>(self, mem: &M, word: u64, parts: &[u32], children: impl Iterator<Item = u64>) {
        unpublished(self.is.at, 8).write_word(mem, self.count as u64 | u64::from(self.is.height) << 8);
        unpublished(self.is.at + 8, 8).write_word(mem, self.mask);
        let width = self.width();
        let per_word = (8 / width) as usize;
        for (parts, at) in parts.chunks(per_word).zip((self.is.at + HEAD_BYTES..).step_by(8)) {
            let word = parts
                .iter()
                .rev()
                .fold(0, |all, &part| all << (8 * width) | u64::from(part));
            unpublished(at, 8).write_word(mem, word);
        }
        unpublished(self.guard().offset(), 8).write_word(mem, word);
        for (place, child) in children.enumerate() {
            unpublished(self.slot(place).offset(), 8).write_word(mem, child);
        }
        mem.write_back(self.is.at, self.bytes());
    }
}

/// The first words of some bytes, padded with zeroes.
fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

/// A leaf, as it was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Where it is.
    pub at: u64,
    /// The key.
    pub key: u64,
    /// Whether it is there.
    pub lives: bool,
    /// Its value.
    pub value: u64,
}

impl Leaf {
    /// Reads a leaf afresh. Cost: one fetch.
    pub fn read<M: Memory>(mem: &M, at: u64) -> Self {
        let [key, lives, value, ..] = word_line(at).fetch(mem);
        Self {
            at,
            key,
            lives: lives == 1,
            value,
        }
    }

    /// Writes a leaf that is there, and begins to write it back. Nobody else knows it yet.
    pub fn write<M: Memory>(mem: &M, at: u64, key: u64, value: u64) {
        for (at, word) in (at..).step_by(8).zip([key, 1, value]) {
            unpublished(at, 8).write_word(mem, word);
        }
        mem.write_back(at, LINE);
    }

    /// Marks a leaf as removed. Returns whether it was there. Cost: one compare-exchange.
    pub fn remove<M: Memory>(self, mem: &M) -> bool {
        sync_word(self.at + 8).compare_exchange(mem, 1, 0).is_ok()
    }

    /// Replaces the value. Cost: one sync store.
    pub fn replace<M: Memory>(self, mem: &M, value: u64) {
        sync_word(self.at + 16).store(mem, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_and_sizes() {
        let is = Reference {
            at: 0x1240,
            height: 5,
        };
        assert_eq!(Reference::decode(is.encode()), Some(is));
        assert_eq!(Reference::decode(0), None);
        let node = |count, mask| Node { is, count, mask };
        // As many lines as docs/protocols/baselines.md says.
        for (count, mask, lines) in [(2, 1, 2), (7, 0xff, 2), (8, 0xff, 3), (32, 0x3ff << 40, 7)] {
            assert_eq!(node(count, mask).bytes(), lines * LINE, "{count} {mask:#x}");
        }
        assert_eq!(node(32, 0x7fff_ffff).bytes(), 8 * LINE);
        assert_eq!(node(32, 0x7fff_ffff).first_bit(), 1 << 30);
    }
}
