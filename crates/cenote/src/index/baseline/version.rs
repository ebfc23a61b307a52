//! The word that guards a node of a baseline: lock, owner and version in one (pcc-indexes, section 4.2 and appendix A).
//!
//! | bits | |
//! |---|---|
//! | 0 | locked |
//! | 1 to 3 | marks, whose meaning is the structure's |
//! | 4 to 31 | version, one more with every release |
//! | 32 to 47 | the worker that holds it, or held it last: the low half of its generation |
//! | 48 to 63 | the worker's index plus one |
//!
//! It is a sync word. A writer takes the lock by a compare-exchange from the word as it was seen, so that what was
//! read under that word still holds, and releases it by a store. A reader loads the word before and after.
//!
//! **Crash.** A waiter that has waited for long checks whether the holder lives, and if not, releases in its place,
//! with the marks as they were. Nothing else is repaired here: the structures order their stores so that a node is
//! valid after each of them.
//!
//! A worker whose place was taken exactly 65,536 times since a dead worker took a lock there would be mistaken for the
//! dead one; the lock is then free when that worker leaves. A reader that sleeps through 2^28 changes of a node by one
//! worker would miss them.

use crate::error::{Error, Result};
use crate::memory::{Memory, SyncWord};
use crate::pod::Worker;
use crate::pod::lock::is_owner_gone;

const LOCKED: u64 = 1;
const MARKS_SHIFT: u32 = 1;
const MARKS: u64 = 0b111 << MARKS_SHIFT;
const ONE_VERSION: u64 = 1 << 4;
const LOW_HALF: u64 = 0xffff_ffff;

/// Waits before a waiter yields its processor.
const SPINS: u32 = 64;
/// Yields between two checks whether the owner lives.
const YIELDS_PER_CHECK: u32 = 8;

/// The marks of a word.
#[inline]
pub fn marks(word: u64) -> u64 {
    (word & MARKS) >> MARKS_SHIFT
}

/// Whether a word says that it is held.
#[inline]
pub fn is_locked(word: u64) -> bool {
    word & LOCKED != 0
}

/// The word of a node that nobody has held.
pub const fn fresh(marks: u64) -> u64 {
    marks << MARKS_SHIFT & MARKS
}

fn locked<M: Memory>(worker: &Worker<M>, word: u64) -> u64 {
    let owner = u64::from(worker.me()) << 48 | u64::from(worker.generation() & 0xffff) << 32;
    owner | (word & LOW_HALF) | LOCKED
}

/// The word after a change, with nobody holding it.
pub fn released(word: u64, marks: u64) -> u64 {
    let version = (word & LOW_HALF & !(MARKS | LOCKED)).wrapping_add(ONE_VERSION) & LOW_HALF;
    (word & !LOW_HALF) | version | fresh(marks)
}

/// The word when nobody holds it. Waits for a living holder; releases for a dead one.
///
/// Cost: one sync load, if nobody holds it.
#[inline]
pub fn read<M: Memory>(worker: &Worker<M>, at: SyncWord) -> Result<u64> {
    match at.load(worker.mem()) {
        word if is_locked(word) => wait(worker, at, word),
        word => Ok(word),
    }
}

/// Whether the word is as it was seen.
///
/// Cost: one sync load.
#[inline]
pub fn is_still<M: Memory>(worker: &Worker<M>, at: SyncWord, seen: u64) -> bool {
    at.load(worker.mem()) == seen
}

#[cold]
fn wait<M: Memory>(worker: &Worker<M>, at: SyncWord, mut word: u64) -> Result<u64> {
    let mem = worker.mem();
    let mut waited = 0u32;
    while is_locked(word) {
        if word == locked(worker, word) {
            // Nobody waits while it holds a lock.
            return Err(Error::corrupt(
                "a node that its own reader holds, seen",
                at.offset(),
            ));
        }
        waited = waited.wrapping_add(1);
        if waited < SPINS {
            mem.pause();
        } else {
            if waited.is_multiple_of(YIELDS_PER_CHECK)
                && is_owner_gone(worker, (word >> 48) as u16, |found| {
                    u64::from(found & 0xffff) == word >> 32 & 0xffff
                })?
            {
                // The next load shows whether this exchange or another's has released it.
                let _ = at.compare_exchange(mem, word, released(word, marks(word)));
            }
            mem.relax();
        }
        word = at.load(mem);
    }
    Ok(word)
}

/// A lock that is held. Dropping it releases with the marks as they were.
pub struct Held<'w, M: Memory> {
    worker: &'w Worker<M>,
    at: SyncWord,
    word: u64,
    marks: u64,
}

/// Takes the lock, if the word is as it was seen.
///
/// Cost: one compare-exchange, and a sync store to release.
#[inline]
pub fn lock<M: Memory>(worker: &Worker<M>, at: SyncWord, seen: u64) -> Option<Held<'_, M>> {
    let word = locked(worker, seen);
    at.compare_exchange(worker.mem(), seen, word).ok()?;
    let marks = marks(word);
    Some(Held {
        worker,
        at,
        word,
        marks,
    })
}

impl<M: Memory> Held<'_, M> {
    /// Changes the marks and goes on holding. Readers that see them see what was written before.
    #[inline]
    pub fn mark(&mut self, marks: u64) {
        self.marks = marks;
        self.word = self.word & !MARKS | fresh(marks);
        self.at.store(self.worker.mem(), self.word);
    }

    /// Releases with other marks. Readers that see them see what was written before.
    #[inline]
    pub fn release(mut self, marks: u64) {
        self.marks = marks;
    }
}

impl<M: Memory> Drop for Held<'_, M> {
    #[inline]
    fn drop(&mut self) {
        self.at.store(self.worker.mem(), released(self.word, self.marks));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_changes_the_version_alone() {
        let word = 7 << 48 | 9 << 32 | 0xffff_fff0 | fresh(0b101) | LOCKED;
        let after = released(word, 0b010);
        assert_eq!((after >> 32, marks(after)), (word >> 32, 0b010));
        assert!(!is_locked(after) && after & LOW_HALF & !MARKS == 0);
        assert_ne!(released(after, 0b010), after);
    }
}
