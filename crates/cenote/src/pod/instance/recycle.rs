//! Recycling: a worker's next objects come from its own retired list, without a word that others write.
//!
//! A reclaimable entry of the list, flushed where that is needed, is put into the *magazine* of its object's class.
//! Magazines are this process's memory: in the pool the entry stays as it is. An allocation takes the entry that was
//! put there last: the object is named in the operation's record, then the entry is *gone* (its last bit is set). So
//!
//! | a crash | leaves | recovery |
//! |---|---|---|
//! | before the name | an entry like any other | nothing |
//! | after the name (`alloc.new`) | an object that is named, and retired | it happened: the entry goes; else the name does |
//! | after the entry is gone (`alloc.taken`) | an object that is named only | as for one from a reserve |
//!
//! An object that is given back unpublished gets its entry back, unless the list has moved on meanwhile.
//!
//! **How much is cached.** Of the entries not needed from one round of filling to the next, the older half is really
//! freed, and so are entries for which a magazine has no room. So magazines soon hold no more than is needed now and
//! then.

use std::cell::Cell;

use crate::pod::format::chunk::Position;
use crate::pod::format::class::{CLASSES, TABLE};

/// An entry whose object may be taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct CachedEntry {
    /// The object.
    pub object: u64,
    /// The chunk of its entry.
    pub chunk: u64,
    /// The entry in it.
    pub index: u64,
}

#[derive(Default)]
struct Magazine {
    cached: Cell<Vec<CachedEntry>>,
    /// The fewest entries that it had since the last round.
    least: Cell<usize>,
}

/// A worker's magazines.
pub struct Recycler {
    magazines: Box<[Magazine]>,
    /// Entries before it in the list are in a magazine, or gone; 0 for the list's head.
    frontier: Cell<u64>,
    /// If filling the magazines has stopped at the frontier: up to where entries may be freed; else 0.
    until: Cell<u64>,
    /// Grows when the list's head moves.
    round: Cell<u32>,
}

impl Magazine {
    fn with<R>(&self, change: impl FnOnce(&mut Vec<CachedEntry>) -> R) -> R {
        let mut cached = self.cached.take();
        let result = change(&mut cached);
        self.least.set(self.least.get().min(cached.len()));
        self.cached.set(cached);
        result
    }
}

impl Default for Recycler {
    /// Empty magazines.
    fn default() -> Self {
        Self {
            magazines: (0..CLASSES).map(|_| Magazine::default()).collect(),
            frontier: Cell::new(0),
            until: Cell::new(0),
            round: Cell::new(0),
        }
    }
}

impl Recycler {
    /// Takes the entry that was put into a magazine last.
    #[inline]
    pub(in crate::pod) fn take(&self, class: usize) -> Option<CachedEntry> {
        self.magazines.get(class)?.with(Vec::pop)
    }

    /// Puts an entry into a magazine of `bytes_max` bytes at most; `false` if that is full.
    pub(in crate::pod) fn put(&self, class: usize, cached: CachedEntry, bytes_max: u64) -> bool {
        let Some(magazine) = self.magazines.get(class) else {
            return false;
        };
        magazine.with(|all| {
            let has_room = (all.len() as u64 + 1) * u64::from(TABLE[class].size) <= bytes_max;
            if has_room {
                all.push(cached);
            }
            has_room
        })
    }

    /// Takes out of the magazines the older half of the entries not needed since the last round.
    pub(in crate::pod) fn take_idle(&self) -> Vec<CachedEntry> {
        let mut idle = Vec::new();
        for magazine in &self.magazines {
            magazine.with(|all| {
                let unneeded = magazine.least.get().min(all.len());
                idle.extend(all.drain(..unneeded.div_ceil(2)));
            });
        }
        idle
    }

    /// A round of filling is over.
    pub(in crate::pod) fn end_round(&self) {
        for magazine in &self.magazines {
            magazine.least.set(usize::MAX);
            magazine.with(|_| ());
        }
    }

    /// Empties the magazines: their entries are like any other.
    pub(in crate::pod) fn clear(&self) {
        self.magazines
            .iter()
            .for_each(|magazine| magazine.with(Vec::clear));
    }

    /// The list has another owner now: everything about it is forgotten.
    pub(in crate::pod) fn forget(&self) {
        self.clear();
        self.passed(0, Position::decode(0));
        self.set_frontier(Position::decode(0));
    }

    /// The first entry that is neither in a magazine nor gone; `head` if none was put into magazines yet.
    pub(in crate::pod) fn frontier(&self, head: Position) -> Position {
        match self.frontier.get() {
            0 => head,
            word => Position::decode(word),
        }
    }

    /// Moves the frontier.
    pub(in crate::pod) fn set_frontier(&self, position: Position) {
        self.frontier.set(position.encode());
        self.until.set(0);
    }

    /// Filling the magazines stops at the frontier, where an extent is to be freed part by part, though entries before
    /// `until` may be freed.
    pub(in crate::pod) fn stop_before(&self, until: Position) {
        self.until.set(until.encode());
    }

    /// Up to where entries after the frontier may be freed, if filling the magazines has stopped there.
    pub(in crate::pod) fn stopped_before(&self) -> Option<Position> {
        Some(self.until.get())
            .filter(|&word| word != 0)
            .map(Position::decode)
    }

    /// The list's head has moved from a chunk to the next, or within one.
    pub(in crate::pod) fn passed(&self, chunk: u64, next: Position) {
        self.round.set(self.round.get().wrapping_add(1));
        if Position::decode(self.frontier.get()).chunk == chunk {
            self.set_frontier(next);
        }
    }

    /// The list's last chunk has been taken back to its beginning: none of its entries was in a magazine.
    pub(in crate::pod) fn begin_anew(&self, start: Position) {
        self.passed(start.chunk, start);
        if Position::decode(self.until.get()).chunk == start.chunk {
            self.until.set(start.encode());
        }
    }

    /// A number that changes once an entry that is gone cannot come back.
    pub(in crate::pod) fn round(&self) -> u32 {
        self.round.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_freed_ends_where_the_last_chunk_begins_anew() {
        let at = |chunk, index| Position { chunk, index };
        let recycler = Recycler::default();
        recycler.set_frontier(at(0x1000, 3));
        recycler.stop_before(at(0x2000, 5));
        recycler.begin_anew(at(0x2000, 0));
        assert_eq!(recycler.stopped_before(), Some(at(0x2000, 0)));
        assert_eq!(recycler.frontier(at(0x1000, 0)), at(0x1000, 3));
        recycler.begin_anew(at(0x1000, 0));
        assert_eq!(recycler.stopped_before(), None);
    }
}
