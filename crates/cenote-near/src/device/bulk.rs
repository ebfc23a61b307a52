//! Whole subranges: import, export, split.
//!
//! An import links keys in order, each at the height that a perfect skiplist has there, so searches take the fewest
//! pointers. A split parts a subrange where it lies: key nodes stay, their links do not.

use super::Skiplist;
use super::command::Pairs;
use super::node::{KEY_HEADER, MARK, MAX_HEIGHT, Shape, levels_for};

/// What a split has made of a part of a subrange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its least key.
    pub least: u64,
    /// Its keys.
    pub keys: u32,
}

impl Skiplist {
    /// Makes a subrange of pairs, which ascend and belong to it. False if there is no room, and then nothing changes.
    pub(super) fn import(&mut self, start: u64, shift: u8, pairs: Pairs<'_>) -> bool {
        let inner = levels_for(pairs.len() as u64);
        let outer = self.height(MAX_HEIGHT);
        let Some(subrange) = self.add_subrange(start, Shape { shift, outer, inner }) else {
            return false;
        };
        let mut tails = [self.inner_tower(subrange); MAX_HEIGHT as usize];
        let end = self.link(tails[0], 0);
        let mut linked = 0;
        for (number, (key, value)) in (1u32..).zip(pairs) {
            let height = (number.trailing_zeros() as u8 + 1).min(inner);
            let Some(node) = self.take_key(key, value, height) else {
                self.set_link(tails[0], 0, end);
                self.drop_subrange(subrange);
                return false;
            };
            self.append(&mut tails, node, height);
            linked = number;
        }
        self.set_link(tails[0], 0, end);
        self.set_keys_in(subrange, linked);
        // Neighbours are written one after another: in sequence.
        self.streamed += u64::from(linked) * 32;
        true
    }

    /// Links a node behind the last one of each of its levels.
    fn append(&mut self, tails: &mut [u32; MAX_HEIGHT as usize], node: u32, height: u8) {
        for level in 0..height {
            let tail = tails[usize::from(level)];
            self.set_link(tail, level, node);
            self.set_link(node + KEY_HEADER, level, 0);
            tails[usize::from(level)] = node + KEY_HEADER;
        }
    }

    /// Calls for each pair of a subrange, in order.
    pub(super) fn each_pair(&mut self, subrange: u32, mut call: impl FnMut(u64, u64)) {
        let mut next = self.link(self.inner_tower(subrange), 0);
        while next != 0 && next & MARK == 0 {
            let key = self.chase(next);
            self.accesses += 1;
            call(key, self.value(next));
            next = self.read_link(next + KEY_HEADER, 0);
        }
    }

    /// Takes a subrange away with its keys.
    pub(super) fn drop_subrange(&mut self, subrange: u32) {
        let tower = self.inner_tower(subrange);
        let mut next = self.link(tower, 0);
        while next != 0 && next & MARK == 0 {
            let node = next;
            next = self.link(node + KEY_HEADER, 0);
            self.give_key(node);
            self.accesses += 2;
        }
        self.set_link(tower, 0, next);
        for level in 1..self.shape(subrange).inner {
            self.set_link(tower, level, 0);
        }
        self.set_keys_in(subrange, 0);
        self.remove_subrange(subrange);
    }

    /// Parts a subrange into those of a smaller shift that have keys, and calls for each. False if there is no room for
    /// their nodes; then what was not parted is in the subrange still, and the call for it has not been made.
    pub(super) fn split(&mut self, subrange: u32, shift: u8, mut call: impl FnMut(Piece)) -> bool {
        let shape = self.shape(subrange);
        let (first, start) = (self.link(self.inner_tower(subrange), 0), self.start(subrange));
        // Its beginning is forgotten, and its keys are linked anew, part by part.
        let mut next = first;
        let mut needed = 0;
        let mut parts = 0u64;
        while next != 0 && next & MARK == 0 {
            let (_, keys, after) = self.part(next, shift);
            let inner = levels_for(keys.into());
            needed += u64::from(
                Shape {
                    shift,
                    outer: MAX_HEIGHT,
                    inner,
                }
                .words(),
            );
            parts += 1;
            next = after;
        }
        if needed > self.arena.untouched() {
            return false;
        }
        let tower = self.inner_tower(subrange);
        let end = next;
        self.set_link(tower, 0, end);
        for level in 1..shape.inner {
            self.set_link(tower, level, 0);
        }
        self.set_keys_in(subrange, 0);
        self.remove_subrange(subrange);
        let mut next = first;
        for _ in 0..parts {
            let (least, keys, after) = self.part(next, shift);
            let mask = u64::MAX.checked_shl(shift.into()).unwrap_or(0);
            let start = if shift >= 64 { start } else { least & mask };
            let outer = self.height(MAX_HEIGHT);
            let inner = levels_for(keys.into());
            // There is room: it was counted.
            let Some(made) = self.add_subrange(start, Shape { shift, outer, inner }) else {
                return false;
            };
            let mut tails = [self.inner_tower(made); MAX_HEIGHT as usize];
            let end = self.link(tails[0], 0);
            let mut node = next;
            for _ in 0..keys {
                let following = self.link(node + KEY_HEADER, 0);
                let height = self.key_height(node).min(inner);
                self.append(&mut tails, node, height);
                node = following;
            }
            self.set_link(tails[0], 0, end);
            self.set_keys_in(made, keys);
            call(Piece { least, keys });
            next = after;
        }
        true
    }

    /// The keys from a node on that lie in one subrange of a shift: the first, how many, and what comes after them.
    fn part(&mut self, from: u32, shift: u8) -> (u64, u32, u32) {
        let least = self.chase(from);
        let (mut keys, mut next) = (1, self.read_link(from + KEY_HEADER, 0));
        while next != 0 && next & MARK == 0 {
            let key = self.chase(next);
            if (key ^ least).checked_shr(shift.into()).unwrap_or(0) != 0 {
                break;
            }
            keys += 1;
            next = self.read_link(next + KEY_HEADER, 0);
        }
        (least, keys, next)
    }
}
