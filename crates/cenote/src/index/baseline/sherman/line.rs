//! Lines with a version at both ends. A line is the unit that is read, changed and written back.
//!
//! Words 0 and 7 are the version, with a mask of the present entries in the low bits: word 7 is written before any
//! other change, word 0 after all. Words are written in descending order and read in ascending order; so if both
//! versions that were read are equal, what was read between them is of that version. On incoherent memory the line
//! reaches memory as a whole, and an early state of it that does so shows two versions.
//!
//! **Crash.** A writer that dies leaves a prefix of its stores, in descending order. The next holder of the line's lock
//! repairs it: an entry is there if both masks say so. That undoes the insertion of an entry, and completes its
//! removal. A value that was changed in place is one word, the old one or the new one.

use crate::memory::checked::{owned_word, word_line};
use crate::memory::{LINE, Memory};

/// Entries of a line.
pub const ENTRIES: usize = 3;
const MASK_BITS: u32 = 8;

/// A line's words, as they were read together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line(pub [u64; 8]);

impl Line {
    /// Fetches a line; `None` if it is being changed, or a writer died while it changed it.
    ///
    /// Cost: one round trip.
    pub fn fetch<M: Memory>(mem: &M, at: u64) -> Option<Self> {
        let line = Self::fetch_torn(mem, at);
        (!line.is_torn()).then_some(line)
    }

    /// Fetches a line, whole or not.
    pub fn fetch_torn<M: Memory>(mem: &M, at: u64) -> Self {
        Self(word_line(at).fetch(mem))
    }

    /// Fetches adjacent lines, whole or not.
    ///
    /// Cost: one round trip for all.
    pub fn fetch_all_torn<M: Memory>(mem: &M, at: u64, count: u64) -> Vec<Self> {
        let mut lines = vec![[0; 8]; count as usize];
        // SAFETY: lines of a node, whose offset the tree has checked.
        unsafe { mem.fetch_lines(at, &mut lines) };
        lines.into_iter().map(Self).collect()
    }

    /// Whether its ends differ.
    pub fn is_torn(&self) -> bool {
        self.0[0] != self.0[7]
    }

    /// The entry in a place, if there is one.
    pub fn entry(&self, place: usize) -> Option<(u64, u64)> {
        let is_there = place < ENTRIES && self.0[0] >> place & 1 == 1;
        is_there.then(|| (self.0[1 + 2 * place], self.0[2 + 2 * place]))
    }

    /// Its entries.
    pub fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        (0..ENTRIES).filter_map(|place| self.entry(place))
    }

    /// The place of a key.
    pub fn place_of(&self, key: u64) -> Option<usize> {
        (0..ENTRIES).find(|&place| self.entry(place).is_some_and(|(found, _)| found == key))
    }

    /// The line with another entry in a place.
    pub fn with(mut self, place: usize, entry: (u64, u64)) -> Self {
        if place < ENTRIES {
            self.0[0] |= 1 << place;
            (self.0[1 + 2 * place], self.0[2 + 2 * place]) = entry;
        }
        self
    }

    /// The line without the entry in a place.
    pub fn without(mut self, place: usize) -> Self {
        self.0[0] &= !(1 << place);
        self
    }

    /// The line as repaired, except its version.
    pub fn mended(mut self) -> Self {
        self.0[0] &= self.0[7] | !mask();
        self
    }

    /// Writes this over what is there, and writes it back. The line's lock is held, and `old` was fetched under it.
    ///
    /// Cost: one round trip on incoherent memory.
    pub fn replace<M: Memory>(mut self, old: &Self, mem: &M, at: u64) -> Self {
        let version = (old.0[0] >> MASK_BITS).max(old.0[7] >> MASK_BITS) + 1;
        self.seal(version);
        for n in (0..8).rev().filter(|&n| self.0[n] != old.0[n]) {
            owned_word(at + 8 * n as u64).set(mem, self.0[n]);
        }
        mem.persist(at, LINE);
        self
    }

    /// Writes a line that nobody knows of yet. It is not written back.
    pub fn write_first<M: Memory>(mut self, mem: &M, at: u64) {
        self.seal(1);
        for (n, word) in self.0.into_iter().enumerate() {
            owned_word(at + 8 * n as u64).set(mem, word);
        }
    }

    fn seal(&mut self, version: u64) {
        self.0[0] = version << MASK_BITS | self.0[0] & mask();
        self.0[7] = self.0[0];
    }
}

const fn mask() -> u64 {
    (1 << MASK_BITS) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words after so many of a change's stores.
    fn torn(old: Line, mut new: Line, stores: usize) -> Line {
        new.seal((old.0[0] >> MASK_BITS) + 1);
        let mut line = old;
        let changed = (0..8).rev().filter(|&n| new.0[n] != old.0[n]);
        for n in changed.take(stores) {
            line.0[n] = new.0[n];
        }
        line
    }

    #[test]
    fn a_change_that_was_not_completed_is_undone_or_completed() {
        let mut old = Line::default().with(0, (1, 10)).with(2, (3, 30));
        old.seal(7);
        for new in [
            old.with(1, (2, 20)),
            old.with(0, (1, 11)),
            old.without(2),
            // The place of an entry that was split off is reused.
            old.with(2, (4, 40)),
        ] {
            for stores in 1..6 {
                let left = torn(old, new, stores);
                if left.is_torn() {
                    let mended: Vec<_> = left.mended().entries().collect();
                    let is = |line: Line| mended == line.entries().collect::<Vec<_>>();
                    let half = old.with(2, (3, 40));
                    assert!(is(old) || is(new) || is(half), "{left:?}");
                }
            }
        }
    }
}
