//! L1: the keys of a subrange, in a tree of [nodes](super::tree).
//!
//! Beyond the paper, which has a skiplist: of 4,096 keys a search there follows twelve pointers, here three, and a key
//! has 28 bytes there, here 16 to 24. A node that is full is parted in two, up to the root; a leaf that loses its last
//! key goes, and one with few is joined with a neighbour.
//!
//! *Without room nothing changes*: all blocks that an insert needs are taken before it changes a node.

use super::Skiplist;
use super::tree::{INNER, Kind, LEAF};
use super::walk::{LEVELS, Trail, Tree};

/// The arena has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// Blocks that were taken for an insert, in the order in which they are needed.
struct Blocks {
    nodes: [(u32, Kind); 2 * LEVELS + 1],
    taken: usize,
    used: usize,
}

impl Blocks {
    fn next(&mut self) -> u32 {
        let (node, _) = self.nodes[self.used];
        self.used += 1;
        node
    }
}

impl Skiplist {
    /// The value of a key.
    pub(super) fn get(&mut self, subrange: u32, key: u64) -> Option<u64> {
        let trail = self.descend(self.tree(subrange)?, key);
        let n = self.entry_with(&trail, key)?;
        self.accesses += 1;
        Some(self.value_at(trail.leaf(), n))
    }

    /// The greatest key that is no greater, with its value.
    pub(super) fn predecessor(&mut self, subrange: u32, key: u64) -> Option<[u64; 2]> {
        let mut trail = self.descend(self.tree(subrange)?, key);
        self.pair_before(&mut trail)
    }

    /// The first key of a subrange.
    pub(super) fn first_key(&mut self, subrange: u32) -> Option<u64> {
        let trail = self.first(self.tree(subrange)?);
        self.accesses += 1;
        Some(self.key_at(trail.leaf(), LEAF, 0))
    }

    /// Changes the value of a key that is bound. The value that it had.
    pub(super) fn change_bound(
        &mut self,
        subrange: u32,
        key: u64,
        change: impl FnOnce(u64) -> Option<u64>,
    ) -> Option<u64> {
        let trail = self.descend(self.tree(subrange)?, key);
        let n = self.entry_with(&trail, key)?;
        Some(self.change_at(trail.leaf(), n, change))
    }

    fn change_at(&mut self, leaf: u32, n: u32, change: impl FnOnce(u64) -> Option<u64>) -> u64 {
        self.accesses += 1;
        let before = self.value_at(leaf, n);
        if let Some(after) = change(before) {
            self.set_value_at(leaf, n, after);
        }
        before
    }

    /// Binds a key that is not bound; one that is bound gets the value that `change` makes of its own, if it makes one.
    /// The value that it had, if it was bound; an error if there is no room.
    pub(super) fn insert_or_change(
        &mut self,
        subrange: u32,
        key: u64,
        value: u64,
        change: impl FnOnce(u64) -> Option<u64>,
    ) -> Result<Option<u64>, Full> {
        match self.tree(subrange) {
            None => {
                let leaf = self.take_node(LEAF, LEAF.room(1, true)).ok_or(Full)?;
                self.put_entry(leaf, LEAF, 0, key, value);
                self.set_tree(subrange, Some(Tree { root: leaf, depth: 0 }));
            }
            Some(tree) => {
                let trail = self.descend(tree, key);
                if let Some(n) = self.entry_with(&trail, key) {
                    return Ok(Some(self.change_at(trail.leaf(), n, change)));
                }
                let blocks = self.blocks_for(&trail)?;
                self.insert_at(subrange, &trail, key, value, blocks);
            }
        }
        let keys = self.keys_in(subrange);
        self.set_keys_in(subrange, keys + 1);
        self.accesses += 1;
        Ok(None)
    }

    /// The blocks that an entry more in a leaf needs.
    fn blocks_for(&mut self, trail: &Trail) -> Result<Blocks, Full> {
        let mut blocks = Blocks {
            nodes: [(0, LEAF); 2 * LEVELS + 1],
            taken: 0,
            used: 0,
        };
        for level in 0..=trail.depth {
            let (node, kind) = (trail.nodes[usize::from(level)], Kind::of(level));
            let entries = self.entries(node);
            if entries < self.room(node) {
                return Ok(blocks);
            }
            if entries < kind.most {
                self.take_into(&mut blocks, kind, kind.room(entries + 1, true))?;
                return Ok(blocks);
            }
            let room = kind.room(kind.most / 2 + 1, true);
            self.take_into(&mut blocks, kind, room)?;
            if !self.appends(trail, level) {
                self.take_into(&mut blocks, kind, room)?;
            }
        }
        if usize::from(trail.depth) + 1 == LEVELS {
            self.give_all(&blocks);
            return Err(Full);
        }
        self.take_into(&mut blocks, INNER, INNER.room(2, true))?;
        Ok(blocks)
    }

    /// Whether an entry more is the last of its level: then a full node stays full, as keys that ascend fill all.
    fn appends(&self, trail: &Trail, level: u8) -> bool {
        let is_last = |level: u8| {
            let at = usize::from(level);
            trail.at[at] + u32::from(level > 0) == self.entries(trail.nodes[at])
        };
        (level..=trail.depth).all(is_last)
    }

    fn take_into(&mut self, blocks: &mut Blocks, kind: Kind, room: u32) -> Result<(), Full> {
        let Some(node) = self.take_node(kind, room) else {
            self.give_all(blocks);
            return Err(Full);
        };
        blocks.nodes[blocks.taken] = (node, kind);
        blocks.taken += 1;
        Ok(())
    }

    fn give_all(&mut self, blocks: &Blocks) {
        for (node, kind) in &blocks.nodes[..blocks.taken] {
            self.give_node(*node, *kind);
        }
    }

    /// Puts a pair in its place, and what that needs into the nodes above.
    fn insert_at(&mut self, subrange: u32, trail: &Trail, key: u64, value: u64, mut blocks: Blocks) {
        let mut entry = (trail.at[0], key, value);
        for level in 0..=trail.depth {
            let (node, kind) = (trail.nodes[usize::from(level)], Kind::of(level));
            let (n, key, of) = entry;
            let entries = self.entries(node);
            if entries < self.room(node) {
                return self.put_entry(node, kind, n, key, of);
            }
            if entries < kind.most {
                let larger = blocks.next();
                self.move_entries(node, 0, larger, kind);
                self.give_node(node, kind);
                self.put_entry(larger, kind, n, key, of);
                return self.replace(subrange, trail, level, larger);
            }
            let right = blocks.next();
            let left = match self.appends(trail, level) {
                true => {
                    self.put_entry(right, kind, 0, key, of);
                    node
                }
                false => {
                    let left = blocks.next();
                    self.part_full(node, [left, right], kind, entry);
                    self.replace(subrange, trail, level, left);
                    left
                }
            };
            let least = self.key_at(right, kind, 0);
            if level == trail.depth {
                let root = blocks.next();
                let first = self.key_at(left, kind, 0);
                self.put_entry(root, INNER, 0, first, left.into());
                self.put_entry(root, INNER, 1, least, right.into());
                let depth = trail.depth + 1;
                return self.set_tree(subrange, Some(Tree { root, depth }));
            }
            entry = (trail.at[usize::from(level) + 1] + 1, least, right.into());
        }
    }

    /// Has two nodes have what a full one has, and an entry more.
    fn part_full(&mut self, node: u32, [left, right]: [u32; 2], kind: Kind, (n, key, of): (u32, u64, u64)) {
        let half = self.entries(node) / 2;
        self.move_entries(node, half, right, kind);
        self.move_entries(node, 0, left, kind);
        self.give_node(node, kind);
        match n.checked_sub(half) {
            None | Some(0) => self.put_entry(left, kind, n, key, of),
            Some(n) => self.put_entry(right, kind, n, key, of),
        }
    }

    /// Another node stands in the place of a trail's on a level.
    fn replace(&mut self, subrange: u32, trail: &Trail, level: u8, node: u32) {
        let above = usize::from(level) + 1;
        match level == trail.depth {
            true => {
                let depth = trail.depth;
                self.set_tree(subrange, Some(Tree { root: node, depth }));
            }
            false => self.set_child(trail.nodes[above], trail.at[above], node),
        }
    }

    /// Unbinds a key. The value that it had, if it was bound.
    pub(super) fn delete(&mut self, subrange: u32, key: u64) -> Option<u64> {
        let trail = self.descend(self.tree(subrange)?, key);
        let n = self.entry_with(&trail, key)?;
        self.accesses += 1;
        let value = self.value_at(trail.leaf(), n);
        self.remove_at(subrange, &trail, n);
        let keys = self.keys_in(subrange);
        self.set_keys_in(subrange, keys.saturating_sub(1));
        self.accesses += 1;
        Some(value)
    }

    fn remove_at(&mut self, subrange: u32, trail: &Trail, n: u32) {
        let leaf = trail.leaf();
        self.remove_entry(leaf, LEAF, n);
        let left = self.entries(leaf);
        if left > 0 {
            if left <= LEAF.most / 4 {
                self.join(subrange, trail);
            }
            return;
        }
        self.give_node(leaf, LEAF);
        for level in 1..=usize::from(trail.depth) {
            let node = trail.nodes[level];
            self.remove_entry(node, INNER, trail.at[level]);
            if self.entries(node) > 0 {
                return self.lower(subrange);
            }
            self.give_node(node, INNER);
        }
        self.set_tree(subrange, None);
    }

    /// Has a leaf with few entries share a block with a neighbour, or have a smaller one. Without room nothing changes.
    fn join(&mut self, subrange: u32, trail: &Trail) {
        let (leaf, entries) = (trail.leaf(), self.entries(trail.leaf()));
        let (parent, at) = (trail.nodes[1], trail.at[1]);
        let last = match trail.depth {
            0 => 0,
            _ => self.entries(parent) - 1,
        };
        let pairs = [(at, at + 1), (at.wrapping_sub(1), at)];
        for (first, second) in pairs {
            if trail.depth == 0 || first > last || second > last {
                continue;
            }
            let both = [self.child_at(parent, first), self.child_at(parent, second)];
            let together = self.entries(both[0]) + self.entries(both[1]);
            self.accesses += 2;
            if together > LEAF.most / 2 {
                continue;
            }
            let Some(joined) = self.take_node(LEAF, LEAF.room(together, true)) else {
                return;
            };
            for one in both {
                self.move_entries(one, 0, joined, LEAF);
                self.give_node(one, LEAF);
            }
            self.set_child(parent, first, joined);
            self.remove_entry(parent, INNER, second);
            return self.lower(subrange);
        }
        let room = LEAF.room(entries, true);
        if room < self.room(leaf)
            && let Some(smaller) = self.take_node(LEAF, room)
        {
            self.move_entries(leaf, 0, smaller, LEAF);
            self.give_node(leaf, LEAF);
            self.replace(subrange, trail, 0, smaller);
        }
    }

    /// A root with one child goes.
    fn lower(&mut self, subrange: u32) {
        while let Some(Tree { root, depth }) = self.tree(subrange) {
            if depth == 0 || self.entries(root) > 1 {
                return;
            }
            let child = self.child_at(root, 0);
            self.accesses += 1;
            self.give_node(root, INNER);
            self.set_tree(
                subrange,
                Some(Tree {
                    root: child,
                    depth: depth - 1,
                }),
            );
        }
    }
}
