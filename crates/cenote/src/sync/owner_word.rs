//! A word that names the exclusive owner of a lock. It is free in an incarnation, with zeroes where an identity has its
//! worker; or an identity; or with [`OWNER_DIED`] the identity of a former owner, which died or panicked and has had no
//! successor yet.
//!
//! | from | to | by |
//! |---|---|---|
//! | free | identity | a worker that wants the lock, with a handle of that incarnation |
//! | identity | free | the owner, by a store |
//! | identity | identity, *owner died* | the owner, in a panic; the recoverer of a dead owner |
//! | identity of a dead worker; or *owner died* | identity | a worker that wants the lock, and is told |
//! | identity | free in the next incarnation | the owner, when it has removed the lock's name |
//! | free; or identity of a dead worker; or *owner died* | free in the next incarnation | the worker that gives it a name again |
//!
//! All but the owner's are compare-exchanges of the whole word. Generations do not come twice, so neither does a word
//! that names a dead worker: the worker that exchanges it succeeds that very owner. A living owner that panics twice
//! may leave the same word under two names. So a worker that takes such a word checks after that whether the lock is
//! still what its handle is for.
//!
//! **A crash** leaves the word as it is, and every value has a way out.

use crate::memory::{Memory, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::Worker;

/// Marks the identity of a former owner, which died or panicked.
pub const OWNER_DIED: u64 = 1 << 31;

/// Bits that say which worker owns the lock; 0 if none does.
const WORKER: u64 = 0xffff;

/// The word of a lock that is free in an incarnation, below 2^47.
#[inline]
pub(super) fn free_in(incarnation: u64) -> u64 {
    incarnation << 16
}

/// Whether a word, also the end of a queue, names nobody, in any incarnation.
#[inline]
pub(super) fn is_nobody(word: u64) -> bool {
    word & WORKER == 0
}

/// Whether the lock is free, or marked [`OWNER_DIED`].
#[inline]
pub(super) fn is_free(word: u64) -> bool {
    is_nobody(word) || word & OWNER_DIED != 0
}

/// The former owner that the next one is told of, for a word that is [free](is_free).
#[inline]
pub(super) fn former(word: u64) -> Option<u64> {
    let is_told = !is_nobody(word) && !mutant::is(Mutant::DeathTakenClean);
    is_told.then_some(word & !OWNER_DIED)
}

/// Exchanges an available word for another. Returns what it was, or `None` if a rival was quicker. Recovery is no
/// rival: it may only have marked a dead owner as one meanwhile.
pub(super) fn take_word<M: Memory>(mem: &M, word: SyncWord, seen: u64, new: u64) -> Option<u64> {
    // PAIRS WITH: sync::held::Handle::store_and_notify, sync::held::Handle::store_and_notify_with_barrier, sync::spin::unlock, sync::spin::unlock_removed
    match word.compare_exchange_acquire(mem, seen, new) {
        Ok(_) => Some(seen),
        Err(found)
            if !is_free(seen) && found == seen | OWNER_DIED && !mutant::is(Mutant::RecoveryTakenForRival) =>
        {
            // NO PAIR: claim
            word.compare_exchange_acquire(mem, found, new).ok()
        }
        Err(_) => None,
    }
}

/// Marks a word's owner as a former one, if the word still names it.
pub(super) fn free_of<M: Memory>(worker: &Worker<M>, word: SyncWord, owner: u64) {
    let mem = worker.mem();
    mutant::also(Mutant::RecoveredBlindly, || word.store(mem, owner | OWNER_DIED));
    // If it fails, a successor was quicker.
    // NO PAIR: claim
    let _ = word.compare_exchange_acquire(mem, owner, owner | OWNER_DIED);
}
