//! How a handle takes the word of a lock that has an owner: see [`owner_word`](super::owner_word).

use super::held::Handle;
use super::owner_word::{OWNER_DIED, is_nobody, take_word};
use super::wait::{Next, Waiting};
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::lock::is_gone;

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
