//! The queue lock: first come, first served. The first worker in its [queue](super::wait_queue) owns it, so an unlock
//! is one store: at rest.
//!
//! **A removed lock.** The end of the queue does not say for which incarnation it is. So a worker that is first checks,
//! unless its own last turn was the one before. The remover, and workers that find at the front that the lock was
//! removed, leave instead of going to rest, so that the waiter behind them waits, and checks then.
//!
//! **A crash** of the owner, or of a waiter, is found by the waiter behind it. If there is none,
//! [recovery](super::recovery) makes the end of the queue dirty.

use std::rc::Rc;
use std::time::Duration;

use super::Guard;
use super::guard::Release;
use super::held::Handle;
use super::object::LockKind;
use super::queue_walk::{dirty, walk_queue};
use super::wait::Timeout;
use super::wait_queue::Wait;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::format::lock_slots::{SLOTS, SlotState};
use crate::pod::instance::crash::{Point, crash_point};

/// A queue lock, as one thread has it open.
pub struct QueueLock<M: Memory>(pub(super) Handle<M>);

impl<M: Memory> QueueLock<M> {
    /// Opens the lock of a name, or creates it.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open_or_create(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        Handle::open_or_create(worker, name, LockKind::Queue).map(Self)
    }

    /// Opens the lock of a name, if there is one.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        Handle::open(worker, name, LockKind::Queue).map(Self)
    }

    /// Waits for the lock.
    ///
    /// Cost if nobody has it: a load, two stores, a compare-exchange; a second load if another thread had it last, and
    /// a third of the line that the exchange has fetched; on incoherent memory that one is part of the first. A store
    /// and a load for the unlock. Fails if this thread has the lock already, holds too many, or is in a forked child.
    ///
    /// Errors: [`Error::Deadlock`](crate::Error::Deadlock), [`Error::TooManyLocks`](crate::Error::TooManyLocks),
    /// [`Error::LockRemoved`](crate::Error::LockRemoved).
    #[inline]
    pub fn lock(&self) -> Result<Guard<'_, M, Self>> {
        let handle = &self.0;
        let joined = handle.ready().map(|slot| {
            handle.enter(slot);
            let (before, incarnation) = handle.join(slot);
            crash_point(Point::QueueJoined);
            (slot, before, incarnation)
        });
        if let Some((slot, before, incarnation)) = joined
            && self.is_owner(slot, before, incarnation)
        {
            return Ok(Guard::clean(self, slot));
        }
        self.lock_slowly(joined.map(|(slot, before, _)| (slot, before)))
    }

    /// Whether a slot with this `before` owns the lock at once, with no dead owner to be told of. `incarnation` is the
    /// lock's, if it was read after `before`.
    #[inline]
    fn is_owner(&self, slot: usize, before: u64, incarnation: Option<u64>) -> bool {
        let handle = &self.0;
        let held = &handle.worker.slots().incarnations[slot % SLOTS];
        // Mostly the last owner was this thread. Then nobody has removed the lock since.
        if handle.place(slot, handle.turn(slot)).is_other_turn(before) && held.get() == handle.incarnation {
            return true;
        }
        if !handle.is_first(before) {
            return false;
        }
        let now = match incarnation {
            Some(now) => now,
            // It has lost an exchange. So rarely first, it asks where all do who have to wait.
            None if !M::COHERENT => return false,
            None => handle.count.load(handle.mem()),
        };
        let is_owner = now == handle.incarnation || mutant::is(Mutant::QueuedUnasked);
        if is_owner {
            held.set(handle.incarnation);
        }
        is_owner
    }

    #[cold]
    fn lock_slowly(&self, joined: Option<(usize, u64)>) -> Result<Guard<'_, M, Self>> {
        if let Some((slot, before)) = joined {
            if let Err(error) = self.0.refuse_twice(slot) {
                self.0.give_up(slot);
                return Err(error);
            }
            if let Some(guard) = self.wait_behind(slot, before, Timeout::Forever)? {
                return Ok(guard);
            }
        }
        loop {
            if let Some(guard) = self.lock_with(Timeout::Forever)? {
                return Ok(guard);
            }
        }
    }

    /// Takes the lock if nobody alive has it or waits for it.
    ///
    /// Cost if a worker does: two loads or more; nothing is written.
    ///
    /// Errors: [`Error::Deadlock`](crate::Error::Deadlock), [`Error::TooManyLocks`](crate::Error::TooManyLocks),
    /// [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn try_lock(&self) -> Result<Option<Guard<'_, M, Self>>> {
        let handle = &self.0;
        if handle.is_forked() {
            return Err(Error::Forked);
        }
        let end = handle.word().load(handle.mem());
        match walk_queue(&handle.worker, handle.object, end)?.held {
            Some(_) => handle.confirm().map(|()| None),
            None => self.lock_with(Timeout::None),
        }
    }

    /// Waits for the lock, for this long at most. A later attempt joins the queue at its end.
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
        let slot = self.0.claim()?;
        let (before, incarnation) = self.0.join(slot);
        crash_point(Point::QueueJoined);
        if self.is_owner(slot, before, incarnation) {
            return Ok(Some(Guard::clean(self, slot)));
        }
        self.wait_behind(slot, before, timeout)
    }

    fn wait_behind(&self, slot: usize, before: u64, timeout: Timeout) -> Result<Option<Guard<'_, M, Self>>> {
        let handle = &self.0;
        let mut waiting = handle.waiting(timeout);
        let waited = handle
            .confirm()
            .and_then(|()| handle.wait_in_front(slot, before, &mut waiting));
        handle.learn(&waiting);
        let Ok(Wait::First { from }) = waited else {
            handle.give_up(slot);
            return waited.map(|_| None);
        };
        if let Err(removed) = handle.confirm()
            && !mutant::is(Mutant::QueuedUnasked)
        {
            self.leave_removed(slot);
            return Err(removed);
        }
        handle.worker.slots().incarnations[slot % SLOTS].set(handle.incarnation);
        Ok(Some(Guard::new(self, slot, from)))
    }

    /// Leaves the front of the queue of a removed lock. The waiter behind does not find the slot at rest, and checks.
    fn leave_removed(&self, slot: usize) {
        // The end of the queue must not become what it was before.
        if !mutant::is(Mutant::RemovedEndRestored) {
            // PAIRS WITH: sync::queue_walk::walk_queue_by, sync::recovery::is_met
            self.0.own(slot).before().store(self.0.mem(), 0);
        }
        self.0.give_up(slot);
    }
}

impl<M: Memory> Release<M> for QueueLock<M> {
    #[inline]
    fn handle(&self) -> &Handle<M> {
        &self.0
    }

    // In line it would have a guard go through memory, which takes longer than the call.
    #[inline(never)]
    fn unlock(&self, slot: usize, poisoned: bool) {
        if poisoned {
            return self.poison(slot);
        }
        let handle = &self.0;
        handle.store_turn(slot, handle.turn(slot).to(SlotState::Rest));
        handle.release(slot);
    }

    fn lock_again(&self) -> Result<Guard<'_, M, Self>> {
        self.lock()
    }

    fn unlock_removed(&self, slot: usize, _incarnation: u64) {
        match mutant::is(Mutant::RemovedAtRest) {
            true => self.unlock(slot, false),
            false => self.leave_removed(slot),
        }
    }
}

impl<M: Memory> QueueLock<M> {
    /// Gives up the lock in a panic: the next owner is told.
    #[cold]
    fn poison(&self, slot: usize) {
        let handle = &self.0;
        let turn = handle.turn(slot);
        let place = handle.place(slot, turn);
        // PAIRS WITH: sync::wait_queue::peek_end
        let is_last = handle
            .word()
            .compare_exchange(handle.mem(), place.0, dirty(handle.mine()))
            .is_ok();
        let state = if is_last {
            SlotState::Rest
        } else {
            SlotState::Poisoned
        };
        handle.store_turn(slot, turn.to(state));
        handle.leave(slot);
    }
}
