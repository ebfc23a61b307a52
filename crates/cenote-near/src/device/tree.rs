//! Nodes of a subrange's tree: arrays of entries in ascending order, each in a block as large as it is filled.
//!
//! | words | leaf | inner node |
//! |---|---|---|
//! | 0 | how many entries, in a byte, and for how many there is room, in the next; the [arena](super::arena)'s | the same |
//! | from 1 | entries of 4 words: key, value | entries of 3 words: a key, and a child |
//!
//! A child has no keys less than its entry's, but for the first one, which has them as well. A node has an entry at
//! least. A full node's block is exchanged for a larger one, up to [`Kind::most`] entries.

use super::Skiplist;

/// Words before the entries.
const HEADER: u32 = 1;

/// Leaf or inner node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// Words of an entry.
    words: u32,
    /// Entries at most.
    pub most: u32,
}

pub(super) const LEAF: Kind = Kind { words: 4, most: 16 };
pub(super) const INNER: Kind = Kind { words: 3, most: 22 };

impl Kind {
    /// Of a level of a tree, counted from the leaves.
    pub fn of(level: u8) -> Self {
        if level == 0 { LEAF } else { INNER }
    }

    /// Words of a node with room for so many entries.
    pub fn block(self, room: u32) -> u32 {
        HEADER + room * self.words
    }

    /// Entries for which a node gets room that is to have so many: some more, if it is to grow.
    pub fn room(self, entries: u32, grows: bool) -> u32 {
        let spare = if grows { entries / 4 + 1 } else { 0 };
        (entries + spare).next_multiple_of(2).min(self.most)
    }
}

impl Skiplist {
    pub(super) fn entries(&self, node: u32) -> u32 {
        self.arena.header(node) & 0xff
    }

    pub(super) fn room(&self, node: u32) -> u32 {
        self.arena.header(node) >> 8
    }

    fn set_entries(&mut self, node: u32, entries: u32) {
        let room = self.room(node);
        self.arena.set_header(node, room << 8 | entries);
    }

    fn entry(node: u32, kind: Kind, n: u32) -> u32 {
        node + HEADER + n * kind.words
    }

    pub(super) fn key_at(&self, node: u32, kind: Kind, n: u32) -> u64 {
        self.arena.get_long(Self::entry(node, kind, n))
    }

    /// Of an inner node.
    pub(super) fn child_at(&self, node: u32, n: u32) -> u32 {
        self.arena.get(Self::entry(node, INNER, n) + 2)
    }

    pub(super) fn set_child(&mut self, node: u32, n: u32, child: u32) {
        self.accesses += 1;
        self.arena.set(Self::entry(node, INNER, n) + 2, child);
    }

    /// Of a leaf.
    pub(super) fn value_at(&self, leaf: u32, n: u32) -> u64 {
        self.arena.get_long(Self::entry(leaf, LEAF, n) + 2)
    }

    pub(super) fn set_value_at(&mut self, leaf: u32, n: u32, value: u64) {
        self.accesses += 1;
        self.arena.set_long(Self::entry(leaf, LEAF, n) + 2, value);
    }

    /// How many entries have keys up to this one. Costs an access for each that is looked at.
    pub(super) fn rank(&mut self, node: u32, kind: Kind, key: u64) -> u32 {
        let (mut from, mut to) = (0, self.entries(node));
        self.accesses += 1;
        while from < to {
            let middle = u32::midpoint(from, to);
            self.accesses += 1;
            if self.key_at(node, kind, middle) <= key {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }

    /// A node without entries. None if there is no room.
    pub(super) fn take_node(&mut self, kind: Kind, room: u32) -> Option<u32> {
        let node = self.arena.take(kind.block(room))?;
        self.arena.set_header(node, room << 8);
        Some(node)
    }

    pub(super) fn give_node(&mut self, node: u32, kind: Kind) {
        let words = kind.block(self.room(node));
        self.arena.give(node, words);
    }

    /// Puts an entry in its place: a key with a value, or with a child. There is room.
    pub(super) fn put_entry(&mut self, node: u32, kind: Kind, n: u32, key: u64, of: u64) {
        let entries = self.entries(node);
        self.shift(node, kind, n, entries, 1);
        let at = Self::entry(node, kind, n);
        self.arena.set_long(at, key);
        match kind {
            LEAF => self.arena.set_long(at + 2, of),
            _ => self.arena.set(at + 2, of as u32),
        }
        self.set_entries(node, entries + 1);
        self.accesses += 2;
    }

    pub(super) fn remove_entry(&mut self, node: u32, kind: Kind, n: u32) {
        let entries = self.entries(node);
        self.shift(node, kind, n + 1, entries, -1);
        self.set_entries(node, entries - 1);
        self.accesses += 1;
    }

    /// Moves the entries from a place on by one.
    fn shift(&mut self, node: u32, kind: Kind, from: u32, entries: u32, by: i32) {
        let (first, end) = (Self::entry(node, kind, from), Self::entry(node, kind, entries));
        self.arena.shift(first, end, by * kind.words as i32);
        self.streamed += u64::from(end - first) * 8;
    }

    /// Appends the entries of a node from a place on to another one's.
    pub(super) fn move_entries(&mut self, from: u32, first: u32, to: u32, kind: Kind) {
        let (entries, has) = (self.entries(from), self.entries(to));
        let words = (entries - first) * kind.words;
        self.arena
            .copy(Self::entry(from, kind, first), Self::entry(to, kind, has), words);
        self.streamed += u64::from(words) * 8;
        self.set_entries(to, has + entries - first);
        self.set_entries(from, first);
    }
}
