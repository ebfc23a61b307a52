//! The test-and-test-and-set lock that names its owner (Lupin, section 3.5): one compare-exchange to lock, one store to
//! unlock. Not fair: the first thread that sees it free gets it.
//!
//! Its word is described in [`owner`](super::owner), the slots in [`held`](super::held).
//!
//! **A crash** of the owner leaves its identity in the word. A waiter sees that it is gone and exchanges the word;
//! recovery may mark it *owner died* before. A crash of a waiter leaves nothing but its slot.

use std::rc::Rc;
use std::time::Duration;

use super::Guard;
use super::guard::Release;
use super::held::Handle;
use super::object::LockKind;
use super::owner_word::{OWNER_DIED, former, free_in};
use super::wait::{SPINS, Timeout, Waiting};
use crate::error::Result;
use crate::memory::Memory;
use crate::pod::Worker;
use crate::pod::format::lock_slots::SlotState;

/// A spin lock, as one thread has it open.
pub struct SpinLock<M: Memory>(pub(super) Handle<M>);

impl<M: Memory> SpinLock<M> {
    /// Opens the lock of a name, or creates it.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open_or_create(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        Handle::open_or_create(worker, name, LockKind::Spin).map(Self)
    }

    /// Opens the lock of a name, if there is one.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        Handle::open(worker, name, LockKind::Spin).map(Self)
    }

    /// Waits for the lock.
    ///
    /// Cost if nobody has it: a compare-exchange; a store for the unlock. Fails if this thread has the lock already,
    /// holds too many, or is in a forked child.
    ///
    /// Errors: [`Error::Deadlock`](crate::Error::Deadlock), [`Error::TooManyLocks`](crate::Error::TooManyLocks),
    /// [`Error::LockRemoved`](crate::Error::LockRemoved).
    #[inline]
    pub fn lock(&self) -> Result<Guard<'_, M, Self>> {
        match self.take_at_once() {
            Some(guard) => Ok(guard),
            None => self.lock_slowly(),
        }
    }

    /// Takes the lock in the common case: it is free, and this thread's last lock was this one.
    #[inline]
    fn take_at_once(&self) -> Option<Guard<'_, M, Self>> {
        let handle = &self.0;
        let slot = handle.named()?;
        let word = handle.word();
        // PAIRS WITH: sync::spin::unlock
        word.compare_exchange_acquire(handle.mem(), handle.free, handle.mine())
            .ok()?;
        handle.enter(slot);
        Some(Guard::clean(self, slot))
    }

    #[cold]
    fn lock_slowly(&self) -> Result<Guard<'_, M, Self>> {
        let (handle, mem) = (&self.0, self.0.mem());
        // A thread that used another lock last has not tried yet.
        if handle.ready().is_none()
            && let Some(guard) = self.wait(&mut Waiting::new(Timeout::Forever))?
        {
            return Ok(guard);
        }
        // Most holds are short. Until polling ends, nothing is written: neither the word, which the owner is about to
        // write, nor that this thread waits.
        for _ in 0..SPINS {
            if handle.ready().is_none() {
                break;
            }
            if handle.word().load(mem) == handle.free
                && let Some(guard) = self.take_at_once()
            {
                return Ok(guard);
            }
            mem.pause();
        }
        loop {
            if let Some(guard) = self.wait(&mut Waiting::after_spins())? {
                return Ok(guard);
            }
        }
    }

    /// Takes the lock if nobody alive has it.
    ///
    /// Errors: [`Error::Deadlock`](crate::Error::Deadlock), [`Error::TooManyLocks`](crate::Error::TooManyLocks),
    /// [`Error::LockRemoved`](crate::Error::LockRemoved).
    #[inline]
    pub fn try_lock(&self) -> Result<Option<Guard<'_, M, Self>>> {
        self.lock_with(Timeout::None)
    }

    /// Waits for the lock, for this long at most.
    ///
    /// Errors: [`Error::Deadlock`](crate::Error::Deadlock), [`Error::TooManyLocks`](crate::Error::TooManyLocks),
    /// [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn lock_for(&self, time: Duration) -> Result<Option<Guard<'_, M, Self>>> {
        self.lock_with(Timeout::during(time))
    }

    /// Waits for the lock until a timeout ends.
    ///
    /// Errors: [`Error::Deadlock`](crate::Error::Deadlock), [`Error::TooManyLocks`](crate::Error::TooManyLocks),
    /// [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn lock_with(&self, timeout: Timeout) -> Result<Option<Guard<'_, M, Self>>> {
        self.wait(&mut Waiting::new(timeout))
    }

    fn wait(&self, waiting: &mut Waiting) -> Result<Option<Guard<'_, M, Self>>> {
        let handle = &self.0;
        let slot = handle.claim()?;
        let mut waits = false;
        let taken = handle.take_unqueued(waiting, || {
            waits = true;
            handle.set_turn(slot, handle.turn(slot).to(SlotState::Waiting));
        });
        if waits {
            handle.set_turn(slot, handle.turn(slot).to(SlotState::Rest));
        }
        match taken {
            Ok(Some(before)) => Ok(Some(Guard::new(self, slot, former(before)))),
            other => {
                handle.release(slot);
                other.map(|_| None)
            }
        }
    }
}

impl<M: Memory> Release<M> for SpinLock<M> {
    #[inline]
    fn handle(&self) -> &Handle<M> {
        &self.0
    }

    #[inline]
    fn unlock(&self, slot: usize, poisoned: bool) {
        let handle = &self.0;
        let word = if poisoned {
            handle.mine() | OWNER_DIED
        } else {
            handle.free
        };
        // PAIRS WITH: sync::spin::take_at_once, sync::owner::take_unqueued, sync::owner_word::take_word
        handle.word().store(handle.mem(), word);
        handle.release(slot);
    }

    fn lock_again(&self) -> Result<Guard<'_, M, Self>> {
        self.lock()
    }

    fn unlock_removed(&self, slot: usize, incarnation: u64) {
        let handle = &self.0;
        // PAIRS WITH: sync::owner_word::take_word
        handle.word().store(handle.mem(), free_in(incarnation));
        handle.release(slot);
    }
}
