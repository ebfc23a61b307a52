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

use super::held::Handle;
use super::wait::{Next, Waiting};
use crate::error::{Error, Result};
use crate::memory::{Memory, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::lock::is_gone;

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

/// Whether a worker that found a lock left by its owner, or asked whether it is, checks that the lock was not removed.
#[inline]
fn is_to_be_confirmed(is_left: bool, asks: bool) -> bool {
    match is_left {
        true => !mutant::is(Mutant::SeizedUnasked),
        false => asks,
    }
}

impl<M: Memory> Handle<M> {
    /// Fails if the lock's name was removed since this handle was opened.
    pub(super) fn confirm(&self) -> Result<()> {
        // PAIRS WITH: pod::names::rename::make, pod::names::rename::remove
        match self.count.load(self.mem()) == self.incarnation {
            true => Ok(()),
            false => Err(Error::LockRemoved),
        }
    }

    /// Whether a word says that nobody owns the lock; with `asks`, that nobody alive does. If so, the lock was not
    /// removed before.
    pub(super) fn is_to_be_had(&self, seen: u64, asks: bool) -> Result<bool> {
        if seen == self.free {
            return Ok(true);
        }
        if is_nobody(seen) {
            return self.is_stale_to_be_had();
        }
        let is_left = seen & OWNER_DIED != 0 || asks && is_gone(&self.worker, seen)?;
        if is_to_be_confirmed(is_left, asks) {
            self.confirm()?;
        }
        Ok(is_left)
    }

    /// [`Self::is_to_be_had`] for the word of another incarnation.
    fn is_stale_to_be_had(&self) -> Result<bool> {
        if mutant::is(Mutant::StaleWordTaken) {
            return Ok(true);
        }
        self.confirm()?;
        Err(Error::corrupt("the word of a lock", self.word().offset()))
    }

    /// After the word was taken: fails if the lock had been removed, and restores the word.
    pub(super) fn confirm_taken(&self, before: u64) -> Result<()> {
        if before == self.free || mutant::is(Mutant::StaleWordTaken) || mutant::is(Mutant::SeizedUnasked) {
            return Ok(());
        }
        self.confirm().inspect_err(|_| {
            self.store_and_notify(self.word(), before | OWNER_DIED, self.object.event_count());
        })
    }

    /// Waits until the word is free or its owner dead, and takes it. Returns the word as it was, or `None` if the
    /// timeout ended first. Calls `on_wait` before the first wait.
    ///
    /// Cost of the first attempt: a compare-exchange; a load if an earlier poll failed, as a failing exchange would
    /// take the line from its owner and from all that watch it.
    pub(super) fn take_unqueued(&self, waiting: &mut Waiting, on_wait: impl FnOnce()) -> Result<Option<u64>> {
        let word = self.word();
        // PAIRS WITH: sync::held::Handle::store_and_notify, sync::held::Handle::store_and_notify_with_barrier, sync::spin::unlock
        if !waiting.has_checked()
            && word
                .compare_exchange_acquire(self.mem(), self.free, self.mine())
                .is_ok()
        {
            return Ok(Some(self.free));
        }
        on_wait();
        let taken = self.take_slowly(waiting)?;
        if let Some(before) = taken {
            self.confirm_taken(before)?;
        }
        Ok(taken)
    }

    fn take_slowly(&self, waiting: &mut Waiting) -> Result<Option<u64>> {
        let (mem, word) = (self.mem(), self.word());
        let mut questions = false;
        loop {
            let seen = word.load(mem);
            if self.is_to_be_had(seen, questions)?
                && let Some(before) = take_word(mem, word, seen, self.mine())
            {
                return Ok(Some(before));
            }
            match waiting.lose_unwoken(mem) {
                Next::Look => questions = false,
                Next::Question | Next::Sleep(_) => questions = true,
                // A caller that does not wait asks once all the same: a dead owner is no reason to fail.
                Next::GiveUp if !questions => {
                    if !is_gone(&self.worker, seen)? {
                        return self.confirm().map(|()| None);
                    }
                    questions = true;
                }
                Next::GiveUp => return Ok(None),
            }
        }
    }
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
