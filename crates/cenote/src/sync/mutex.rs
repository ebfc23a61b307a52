//! The mutex: what most users want. Its word and its queue are described in [`exclusive`](super::exclusive), the slots
//! in [`held`](super::held).
//!
//! **A crash** of the owner leaves its identity in the word. The first waiter sees that it is gone and exchanges the
//! word; recovery may mark it *owner died* before. A crash of a waiter leaves its slot in the queue; the waiter behind
//! goes past it.

use std::rc::Rc;
use std::time::Duration;

use super::Guard;
use super::guard::Release;
use super::held::Handle;
use super::object::LockKind;
use super::owner_word::{OWNER_DIED, former, free_in};
use super::wait::Timeout;
use crate::error::Result;
use crate::memory::Memory;
use crate::pod::Worker;

/// A mutex, as one thread has it open.
pub struct Mutex<M: Memory>(pub(super) Handle<M>);

impl<M: Memory> Mutex<M> {
    /// Opens the mutex of a name, or creates it.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open_or_create(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        Handle::open_or_create(worker, name, LockKind::Mutex).map(Self)
    }

    /// Opens the mutex of a name, if there is one.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        Handle::open(worker, name, LockKind::Mutex).map(Self)
    }

    /// Waits for the mutex.
    ///
    /// Cost if nobody has it: a load, a compare-exchange; a store and a load for the unlock. Waiters sleep. Fails if
    /// this thread has the mutex already, holds too many locks, or is in a forked child.
    ///
    /// Errors: [`Error::Deadlock`](crate::Error::Deadlock), [`Error::TooManyLocks`](crate::Error::TooManyLocks),
    /// [`Error::LockRemoved`](crate::Error::LockRemoved).
    #[inline]
    pub fn lock(&self) -> Result<Guard<'_, M, Self>> {
        let handle = &self.0;
        if let Some(slot) = handle.named()
            && handle.take_at_once()
        {
            handle.enter(slot);
            return Ok(Guard::clean(self, slot));
        }
        self.lock_slowly()
    }

    #[cold]
    fn lock_slowly(&self) -> Result<Guard<'_, M, Self>> {
        loop {
            if let Some(guard) = self.lock_with(Timeout::Forever)? {
                return Ok(guard);
            }
        }
    }

    /// Takes the mutex if nobody alive has it, and the queue does not go first.
    ///
    /// Errors: [`Error::Deadlock`](crate::Error::Deadlock), [`Error::TooManyLocks`](crate::Error::TooManyLocks),
    /// [`Error::LockRemoved`](crate::Error::LockRemoved).
    #[inline]
    pub fn try_lock(&self) -> Result<Option<Guard<'_, M, Self>>> {
        self.lock_with(Timeout::None)
    }

    /// Waits for the mutex, for this long at most.
    ///
    /// Errors: [`Error::Deadlock`](crate::Error::Deadlock), [`Error::TooManyLocks`](crate::Error::TooManyLocks),
    /// [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn lock_for(&self, time: Duration) -> Result<Option<Guard<'_, M, Self>>> {
        self.lock_with(Timeout::during(time))
    }

    /// Waits for the mutex until a timeout ends.
    ///
    /// Errors: [`Error::Deadlock`](crate::Error::Deadlock), [`Error::TooManyLocks`](crate::Error::TooManyLocks),
    /// [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn lock_with(&self, timeout: Timeout) -> Result<Option<Guard<'_, M, Self>>> {
        let handle = &self.0;
        let slot = handle.claim()?;
        let mut waiting = handle.waiting(timeout);
        let taken = handle.take_waiting(slot, &mut waiting);
        handle.learn(&waiting);
        match taken {
            Ok(Some(before)) => Ok(Some(Guard::new(self, slot, former(before)))),
            other => {
                handle.release(slot);
                other.map(|_| None)
            }
        }
    }
}

impl<M: Memory> Release<M> for Mutex<M> {
    #[inline]
    fn handle(&self) -> &Handle<M> {
        &self.0
    }

    // In line it would have a guard go through memory, which takes longer than the call.
    #[inline(never)]
    fn unlock(&self, slot: usize, poisoned: bool) {
        let handle = &self.0;
        handle.give_back(
            slot,
            if poisoned {
                handle.mine() | OWNER_DIED
            } else {
                handle.free
            },
        );
    }

    fn lock_again(&self) -> Result<Guard<'_, M, Self>> {
        self.lock()
    }

    fn unlock_removed(&self, slot: usize, incarnation: u64) {
        self.0.give_back(slot, free_in(incarnation));
    }
}
