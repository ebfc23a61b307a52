//! A word that names the exclusive owner of a lock: 0, or an identity; with [`FREED`] the identity of an owner that is none any
//! more, but died or panicked, and has had no successor yet.
//!
//! | from | to | by |
//! |---|---|---|
//! | 0 | identity | whoever wants the lock |
//! | identity | 0 | the owner, by a store |
//! | identity | identity, freed | the owner, in a panic; whoever recovers the dead owner |
//! | identity of the dead; or freed | identity | whoever wants the lock, and is told |
//!
//! All but the owner's are compare-exchanges of the whole word. Generations do not come twice, so neither does a word that
//! names the dead: who exchanges it has succeeded that very owner.
//!
//! **A crash** leaves the word as it is, and every value has a way out.

use super::wait::{Next, Waiting};
use crate::error::Result;
use crate::memory::{Memory, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::lock::is_gone;

/// Marks the identity of a former owner.
pub const FREED: u64 = 1 << 31;

/// Whether nobody owns the lock, the dead aside.
#[inline]
pub(super) fn is_free(word: u64) -> bool {
    word == 0 || word & FREED != 0
}

/// Whom the next owner is told of, for a word that is [free](is_free).
#[inline]
pub(super) fn former(word: u64) -> Option<u64> {
    let is_told = word != 0 && !mutant::is(Mutant::FreedTakenClean);
    is_told.then_some(word & !FREED)
}

/// Waits until the word is free or its owner dead, and makes it `mine`: the word as it was, or `None` if patience ended before.
///
/// Cost of the first attempt: a compare-exchange; a load if one has looked in vain before, as an exchange in vain would take the line from its
/// owner and from all who watch it.
pub(super) fn take<M: Memory>(
    worker: &Worker<M>,
    word: SyncWord,
    mine: u64,
    waiting: &mut Waiting,
    on_wait: impl FnOnce(),
) -> Result<Option<u64>> {
    if !waiting.has_looked() && word.compare_exchange(worker.mem(), 0, mine).is_ok() {
        return Ok(Some(0));
    }
    on_wait();
    take_slowly(worker, word, mine, waiting)
}

fn take_slowly<M: Memory>(
    worker: &Worker<M>,
    word: SyncWord,
    mine: u64,
    waiting: &mut Waiting,
) -> Result<Option<u64>> {
    let mem = worker.mem();
    let mut questions = false;
    loop {
        let seen = word.load(mem);
        if (is_free(seen) || questions && is_gone(worker, seen)?)
            && word.compare_exchange(mem, seen, mine).is_ok()
        {
            return Ok(Some(seen));
        }
        match waiting.lose_unwoken(mem) {
            Next::Look => questions = false,
            Next::Question | Next::Sleep(_) => questions = true,
            // Whoever does not wait asks once all the same: the dead do not make it wait.
            Next::GiveUp if !questions && is_gone(worker, seen)? => questions = true,
            Next::GiveUp => return Ok(None),
        }
    }
}

/// Says that the owner of a word is none any more, if it is that one.
pub(super) fn free_of<M: Memory>(worker: &Worker<M>, word: SyncWord, owner: u64) {
    let mem = worker.mem();
    if mutant::is(Mutant::SettledBlindly) {
        word.store(mem, owner | FREED);
    }
    // Who fails has been preceded by a successor.
    let _ = word.compare_exchange_acquire(mem, owner, owner | FREED);
}
