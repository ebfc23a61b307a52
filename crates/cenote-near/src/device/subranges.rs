//! L2: the skiplist of subranges. A subrange's height there is adjustable: the higher, the fewer pointers lead to it.
//!
//! A height is an array's length, so another height is another block: [`Skiplist::reshape`] copies the node and has the
//! links to it lead to the copy.

use super::Skiplist;
use super::node::{MAX_HEIGHT, SUBRANGE_HEADER, Shape};

/// The towers from which a search came down, by levels.
pub type Path = [u32; MAX_HEIGHT as usize];

impl Skiplist {
    /// The subrange that has the key between its ends.
    pub(super) fn subrange_of(&mut self, key: u64) -> Option<u32> {
        let at = self.outer_search(key, true, None);
        self.real(at).filter(|&subrange| self.covers(subrange, key))
    }

    /// The last subrange that starts at or before the key.
    pub(super) fn subrange_before(&mut self, key: u64) -> Option<u32> {
        let at = self.outer_search(key, true, None);
        self.real(at)
    }

    /// The towers before the first subrange that starts at or after a key.
    pub(super) fn outer_path(&mut self, start: u64) -> Path {
        let mut path = [0; MAX_HEIGHT as usize];
        self.outer_search(start, false, Some(&mut path));
        path
    }

    /// Of a tower the subrange, unless it is the beginning of the list.
    pub(super) fn real(&self, tower: u32) -> Option<u32> {
        let node = tower - SUBRANGE_HEADER;
        (node != self.head).then_some(node)
    }

    /// Goes to the last subrange that starts before the key, or at it, if that counts: and then it stops at the one
    /// that has the key wherever it meets it, so the higher a subrange is, the sooner it is found.
    fn outer_search(&mut self, key: u64, at_counts: bool, mut path: Option<&mut Path>) -> u32 {
        let mut tower = self.head + SUBRANGE_HEADER;
        let mut beyond = 0;
        for level in (0..MAX_HEIGHT).rev() {
            loop {
                let next = self.link(tower, level);
                // Empty levels at the top, and a node that a level above has led to, cost nothing.
                if next == 0 || next == beyond {
                    break;
                }
                self.accesses += 1;
                let ends = self.chase(next);
                let start = ends.start();
                if start > key || (start == key && !at_counts) {
                    beyond = next;
                    break;
                }
                tower = next + SUBRANGE_HEADER;
                if at_counts && ends.cover(key) {
                    return tower;
                }
            }
            if let Some(path) = path.as_deref_mut() {
                path[usize::from(level)] = tower;
            }
        }
        tower
    }

    /// A new subrange without keys. None if there is no room.
    pub(super) fn add_subrange(&mut self, start: u64, shape: Shape) -> Option<u32> {
        let subrange = self.arena.take(shape.words())?;
        self.set_subrange(subrange, start, shape);
        let path = self.outer_path(start);
        let tower = subrange + SUBRANGE_HEADER;
        for level in 0..shape.outer {
            let before = path[usize::from(level)];
            let next = self.link(before, level);
            self.set_link(tower, level, next);
            self.set_link(before, level, subrange);
            self.accesses += 3;
        }
        Some(subrange)
    }

    /// Takes a subrange out of the list, and gives its block back.
    pub(super) fn remove_subrange(&mut self, subrange: u32) {
        let path = self.outer_path(self.start(subrange));
        let shape = self.shape(subrange);
        let tower = subrange + SUBRANGE_HEADER;
        for level in 0..shape.outer {
            let next = self.link(tower, level);
            self.set_link(path[usize::from(level)], level, next);
            self.accesses += 2;
        }
        self.arena.give(subrange, shape.words());
    }

    /// Gives a subrange another height, in a block of its own. If there is no room, nothing changes.
    pub(super) fn reshape(&mut self, old: u32, outer: u8) {
        let was = self.shape(old);
        let shape = Shape { outer, ..was };
        if shape == was {
            return;
        }
        let Some(new) = self.arena.take(shape.words()) else {
            return;
        };
        let (start, tree) = (self.start(old), self.tree(old));
        self.set_subrange(new, start, shape);
        self.set_keys_in(new, self.keys_in(old));
        self.set_tree(new, tree);
        let path = self.outer_path(start);
        let (from, to) = (old + SUBRANGE_HEADER, new + SUBRANGE_HEADER);
        for level in 0..outer.max(was.outer) {
            let before = path[usize::from(level)];
            let next = if level < was.outer {
                self.link(from, level)
            } else {
                self.link(before, level)
            };
            if level < outer {
                self.set_link(to, level, next);
                self.set_link(before, level, new);
            } else {
                self.set_link(before, level, next);
            }
            self.accesses += 3;
        }
        self.arena.give(old, was.words());
    }
}
