//! L1: the skiplist of a subrange's keys.
//!
//! A search that meets its key on an upper level has found it: a node is one block, with its value. A node that one
//! level has shown to be beyond the key is not read again on the next.

use super::Skiplist;
use super::node::{KEY_HEADER, MARK, MAX_HEIGHT, levels_for};
use super::subranges::Path;

/// Where a search for a key has ended.
pub(super) enum Found {
    /// At its node.
    At(u32),
    /// Behind this tower, which may be the beginning of the list.
    Behind(u32),
}

impl Skiplist {
    /// Searches from the top.
    pub(super) fn search(&mut self, subrange: u32, key: u64) -> Found {
        let mut tower = self.inner_tower(subrange);
        let mut beyond = 0;
        for level in (0..self.shape(subrange).inner).rev() {
            loop {
                let next = self.read_link(tower, level);
                if next == 0 || next & MARK != 0 || next == beyond {
                    break;
                }
                let found = self.chase(next);
                if found == key {
                    return Found::At(next);
                }
                if found > key {
                    beyond = next;
                    break;
                }
                tower = next + KEY_HEADER;
            }
        }
        Found::Behind(tower)
    }

    /// The towers before the key, on all levels of the subrange, and the key's node.
    fn path(&mut self, subrange: u32, key: u64) -> (Path, Option<u32>) {
        let mut path = [0; MAX_HEIGHT as usize];
        let mut tower = self.inner_tower(subrange);
        let (mut beyond, mut at) = (0, None);
        for level in (0..self.shape(subrange).inner).rev() {
            loop {
                let next = self.read_link(tower, level);
                if next == 0 || next & MARK != 0 || next == beyond {
                    break;
                }
                let found = self.chase(next);
                if found >= key {
                    beyond = next;
                    if found == key {
                        at = Some(next);
                    }
                    break;
                }
                tower = next + KEY_HEADER;
            }
            path[usize::from(level)] = tower;
        }
        (path, at)
    }

    /// The last key node at a tower; none for the beginning of the list.
    pub(super) fn node_of(&self, subrange: u32, tower: u32) -> Option<u32> {
        (tower != self.inner_tower(subrange)).then(|| tower - KEY_HEADER)
    }

    /// The tower of the last key.
    pub(super) fn last_tower(&mut self, subrange: u32) -> u32 {
        let mut tower = self.inner_tower(subrange);
        for level in (0..self.shape(subrange).inner).rev() {
            loop {
                let next = self.read_link(tower, level);
                if next == 0 || next & MARK != 0 {
                    break;
                }
                self.chases += 1;
                tower = next + KEY_HEADER;
            }
        }
        tower
    }

    /// Binds a key that is not bound. The value that it has, if it is; an error if there is no room.
    pub(super) fn insert(&mut self, subrange: u32, key: u64, value: u64) -> Result<Option<u64>, Full> {
        self.insert_or_change(subrange, key, value, |_| None)
    }

    /// The same; one that is bound gets the value that `change` makes of its own, if it makes one.
    pub(super) fn insert_or_change(
        &mut self,
        mut subrange: u32,
        key: u64,
        value: u64,
        change: impl FnOnce(u64) -> Option<u64>,
    ) -> Result<Option<u64>, Full> {
        let (mut path, at) = self.path(subrange, key);
        if let Some(node) = at {
            self.accesses += 1;
            let before = self.value(node);
            if let Some(after) = change(before) {
                self.set_value(node, after);
            }
            return Ok(Some(before));
        }
        let keys = self.keys_in(subrange);
        let shape = self.shape(subrange);
        // More levels once there are four times the keys that they suit; without room it goes on with those that it
        // has.
        let wanted = levels_for(u64::from(keys) + 1);
        if wanted >= shape.inner + 2
            && let Some(other) = self.reshape(subrange, shape.outer, wanted)
        {
            subrange = other;
            path = self.path(subrange, key).0;
        }
        let height = self.height(self.shape(subrange).inner);
        let node = self.take_key(key, value, height).ok_or(Full)?;
        for level in 0..height {
            let before = path[usize::from(level)];
            let next = self.link(before, level);
            self.set_link(node + KEY_HEADER, level, next);
            self.set_link(before, level, node);
            self.accesses += 2;
        }
        self.set_keys_in(subrange, keys + 1);
        self.accesses += 3;
        Ok(None)
    }

    /// Unbinds a key. The value that it had, if it was bound.
    pub(super) fn delete(&mut self, subrange: u32, key: u64) -> Option<u64> {
        let (path, at) = self.path(subrange, key);
        let node = at?;
        let value = self.value(node);
        for level in 0..self.key_height(node).min(self.shape(subrange).inner) {
            // A node may be higher than the levels in which it was linked, after a split.
            let before = path[usize::from(level)];
            if self.link(before, level) == node {
                let next = self.link(node + KEY_HEADER, level);
                self.set_link(before, level, next);
                self.accesses += 2;
            }
        }
        self.give_key(node);
        let keys = self.keys_in(subrange);
        self.set_keys_in(subrange, keys.saturating_sub(1));
        self.accesses += 3;
        Some(value)
    }

    /// The first key of a subrange.
    pub(super) fn first_key(&mut self, subrange: u32) -> Option<u64> {
        let first = self.read_link(self.inner_tower(subrange), 0);
        (first != 0 && first & MARK == 0).then(|| self.chase(first))
    }

    pub(super) fn take_key(&mut self, key: u64, value: u64, height: u8) -> Option<u32> {
        let node = self.arena.take(KEY_HEADER + u32::from(height))?;
        self.arena.set_long(node, key);
        self.arena.set_long(node + 2, value);
        self.arena.set(node + 4, u32::from(height));
        Some(node)
    }

    pub(super) fn give_key(&mut self, node: u32) {
        let height = self.key_height(node);
        self.arena.give(node, KEY_HEADER + u32::from(height));
    }
}

/// The arena has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;
