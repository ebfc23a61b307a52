//! The queue lock: first come, first served. Whoever stands foremost in its [queue](super::wait_queue) owns it, so an unlock is one store:
//! at rest.
//!
//! **A crash** of the owner, or of one who waits, is found by whoever stands behind it. If nobody does,
//! [`settle`](super::settle) makes the end of the queue dirty.

use std::rc::Rc;
use std::time::Duration;

use super::Guard;
use super::guard::Release;
use super::held::Handle;
use super::object::Form;
use super::wait::Patience;
use super::wait_queue::{dirty, look_along};
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::pod::Worker;
use crate::pod::crash::{Point, crash_point};
use crate::pod::slots::Stand;

/// A queue lock, as one thread has it open.
pub struct QueueLock<M: Memory>(Handle<M>);

impl<M: Memory> QueueLock<M> {
    /// Opens the lock of a name, or creates it.
    pub fn open_or_create(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        Handle::open_or_create(worker, name, Form::Queue).map(Self)
    }

    /// Opens the lock of a name, if there is one.
    pub fn open(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        Handle::open(worker, name, Form::Queue).map(Self)
    }

    /// Waits for the lock.
    ///
    /// Cost if nobody has it: a load, two stores, a compare-exchange; a second load if another thread had it last; a store and a load for
    /// the unlock.
    /// It fails if this thread has the lock already, holds too many, or is in a forked child.
    #[inline]
    pub fn lock(&self) -> Result<Guard<'_, M, Self>> {
        let handle = &self.0;
        let joined = handle.ready().map(|slot| {
            handle.enter(slot);
            let before = handle.join(slot);
            crash_point(Point::QueueJoined);
            (slot, before)
        });
        // Mostly this thread was the last one, too.
        if let Some((slot, before)) = joined
            && (handle.place(slot, handle.turn(slot)).is_other_turn(before) || handle.is_first(before))
        {
            return Ok(Guard::clean(self, slot));
        }
        self.lock_slowly(joined)
    }

    #[cold]
    fn lock_slowly(&self, joined: Option<(usize, u64)>) -> Result<Guard<'_, M, Self>> {
        if let Some((slot, before)) = joined {
            if let Err(error) = self.0.refuse_twice(slot) {
                self.0.give_up(slot);
                return Err(error);
            }
            if let Some(guard) = self.wait_behind(slot, before, Patience::Forever)? {
                return Ok(guard);
            }
        }
        loop {
            if let Some(guard) = self.lock_with(Patience::Forever)? {
                return Ok(guard);
            }
        }
    }

    /// Takes the lock if nobody alive has it or waits for it.
    ///
    /// Cost if somebody does: two loads or more, and nothing is written.
    pub fn try_lock(&self) -> Result<Option<Guard<'_, M, Self>>> {
        let handle = &self.0;
        if handle.is_forked() {
            return Err(Error::Forked);
        }
        let end = handle.word().load(handle.mem());
        match look_along(&handle.worker, handle.object, end)?.held {
            Some(_) => Ok(None),
            None => self.lock_with(Patience::None),
        }
    }

    /// Waits for the lock, but not longer than this. Who tries again stands at the end.
    pub fn lock_for(&self, time: Duration) -> Result<Option<Guard<'_, M, Self>>> {
        self.lock_with(Patience::during(time))
    }

    /// Waits for the lock as patiently as told.
    pub fn lock_with(&self, patience: Patience) -> Result<Option<Guard<'_, M, Self>>> {
        let slot = self.0.claim()?;
        let before = self.0.join(slot);
        crash_point(Point::QueueJoined);
        if self.0.is_first(before) {
            return Ok(Some(Guard::clean(self, slot)));
        }
        self.wait_behind(slot, before, patience)
    }

    fn wait_behind(
        &self,
        slot: usize,
        before: u64,
        patience: Patience,
    ) -> Result<Option<Guard<'_, M, Self>>> {
        match self.0.wait_in_front(slot, before, &mut self.0.waiting(patience)) {
            Ok(Some(from)) => Ok(Some(Guard::new(self, slot, from))),
            other => {
                self.0.give_up(slot);
                other.map(|_| None)
            }
        }
    }
}

impl<M: Memory> Release<M> for QueueLock<M> {
    #[inline]
    fn handle(&self) -> &Handle<M> {
        &self.0
    }

    // In line it would have a guard go through memory, which takes longer than the call.
    #[inline(never)]
    fn unlock(&self, slot: usize, abandoned: bool) {
        if abandoned {
            return self.abandon(slot);
        }
        let handle = &self.0;
        handle.tell_turn(slot, handle.turn(slot).to(Stand::Rest));
        handle.release(slot);
    }
}

impl<M: Memory> QueueLock<M> {
    /// Gives the lock up in a panic: the next one is told.
    #[cold]
    fn abandon(&self, slot: usize) {
        let handle = &self.0;
        let turn = handle.turn(slot);
        let place = handle.place(slot, turn);
        let is_last = handle
            .word()
            .compare_exchange(handle.mem(), place.0, dirty(handle.mine()))
            .is_ok();
        let stand = if is_last { Stand::Rest } else { Stand::Abandoned };
        handle.tell_turn(slot, turn.to(stand));
        handle.leave(slot);
    }
}
