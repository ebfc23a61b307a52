//! The semaphore: so many permits, each of which one worker has at a time. When a permit's owner dies, the permit can
//! be taken again, and its next owner is told.
//!
//! A permit is a word that names its [owner](super::owner), 0 while nobody has it, with a note beside it. Before the
//! permits is a [queue](super::wait_queue), as before a mutex: a thread that finds a free permit takes it, even if
//! others wait; the first waiter sleeps until a permit is given back, or one of the owners dies. If it was woken
//! [`WAKES_BEFORE_HANDOFF`] times in vain, it sets *handoff*.
//!
//! **A waiter that gets a permit** leaves the queue at once: other permits may be free. So the next waiter is woken,
//! polls, and is first.
//!
//! **A thread** may have several permits, each with a slot of its own.
//!
//! **A crash** of an owner leaves its identity in the permit's word. A thread that asks for a permit sees that it is
//! gone and exchanges the word; recovery may mark it *owner died* before. A crash of a waiter leaves a slot in the
//! queue; the waiter behind goes past it.
//!
//! **Removal** waits for nobody: owners keep their permits. The count of [incarnations](super::removal) says that the
//! semaphore is gone; a thread checks it after each permit that it takes, and before each sleep.

use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;

use super::exclusive::WAKES_BEFORE_HANDOFF;
use super::held::Handle;
use super::object::{LockKind, Object, PERMITS_MAX};
use super::owner_word::{OWNER_DIED, former, is_free, take_word};
use super::queue_walk::walk_queue;
use super::sleep::sleep_for_owners;
use super::wait::{Next, Timeout, Waiting};
use super::{Acquired, Owner};
use crate::error::{Error, Result};
use crate::memory::{Memory, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::format::lock_slots::SlotState;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::lock::is_gone;
use crate::pod::{Worker, instance::event_count, names::rename};

/// A semaphore, as one thread has it open.
pub struct Semaphore<M: Memory> {
    handle: Handle<M>,
    permits: u32,
    /// The permit to try first.
    hint: Cell<u32>,
}

/// A permit that was taken, and what its word was.
type Taken = (u32, u64);

impl<M: Memory> Semaphore<M> {
    /// Opens the semaphore of a name, or creates it with so many permits, 1 to [`PERMITS_MAX`].
    ///
    /// # Errors
    ///
    /// [`Error::Permits`] if it has another number of them; [`Error::PermitsAsked`] if no semaphore can have that
    /// number.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open_or_create(worker: Rc<Worker<M>>, name: &str, permits: u32) -> Result<Self> {
        if !(1..=PERMITS_MAX).contains(&permits) {
            return Err(Error::PermitsAsked {
                asked: permits,
                most: PERMITS_MAX,
            });
        }
        let (object, incarnation) = Object::open_or_create_for(&worker, name, LockKind::Semaphore, permits)?;
        let semaphore = Self::new(Handle::new(worker, object, incarnation))?;
        match semaphore.permits == permits {
            true => Ok(semaphore),
            false => Err(Error::Permits {
                name: name.to_owned(),
                has: semaphore.permits,
                asked: permits,
            }),
        }
    }

    /// Opens the semaphore of a name, if there is one.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        Self::new(Handle::open(worker, name, LockKind::Semaphore)?)
    }

    fn new(handle: Handle<M>) -> Result<Self> {
        let word = handle.object.permits();
        let permits = word.load(handle.mem());
        // Others may have removed it, and made another one of it.
        handle.confirm()?;
        match u32::try_from(permits) {
            Ok(permits @ 1..=PERMITS_MAX) => Ok(Self {
                hint: Cell::new((handle.mine() as u32).wrapping_sub(1) % permits),
                handle,
                permits,
            }),
            _ => Err(Error::corrupt("a semaphore's number of permits", word.offset())),
        }
    }

    /// How many permits it has.
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// Waits for a permit.
    ///
    /// Cost if the permit that this handle had last is free: three loads and a compare-exchange; a store and a load to
    /// give it back. Each other permit that it tries costs a load. Waiters sleep. Fails if this thread holds too many
    /// locks and permits, or is in a forked child.
    ///
    /// Errors: [`Error::TooManyLocks`](crate::Error::TooManyLocks), [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn acquire(&self) -> Result<Permit<'_, M>> {
        loop {
            if let Some(permit) = self.acquire_with(Timeout::Forever)? {
                return Ok(permit);
            }
        }
    }

    /// Takes a permit if there is one that nobody alive has, and the queue does not go first.
    ///
    /// Errors: [`Error::TooManyLocks`](crate::Error::TooManyLocks), [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn try_acquire(&self) -> Result<Option<Permit<'_, M>>> {
        self.acquire_with(Timeout::None)
    }

    /// Waits for a permit, for this long at most.
    ///
    /// Errors: [`Error::TooManyLocks`](crate::Error::TooManyLocks), [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn acquire_for(&self, time: Duration) -> Result<Option<Permit<'_, M>>> {
        self.acquire_with(Timeout::during(time))
    }

    /// Waits for a permit until a timeout ends.
    ///
    /// Errors: [`Error::TooManyLocks`](crate::Error::TooManyLocks), [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn acquire_with(&self, timeout: Timeout) -> Result<Option<Permit<'_, M>>> {
        let handle = &self.handle;
        let slot = handle.claim_another()?;
        let mut waiting = handle.waiting(timeout);
        let taken = self.take_waiting(slot, &mut waiting);
        handle.learn(&waiting);
        match taken {
            Ok(Some(taken)) => Ok(Some(Permit::new(self, slot, taken))),
            other => {
                handle.release(slot);
                other.map(|_| None)
            }
        }
    }

    /// Removes the semaphore and its name. Waiters and later callers get [`Error::LockRemoved`]. Owners keep their
    /// permits.
    ///
    /// Errors: [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn remove(self) -> Result<()> {
        let handle = &self.handle;
        if handle.is_forked() {
            return Err(Error::Forked);
        }
        let (object, incarnation) = handle.identity();
        rename::remove(&handle.worker, object, incarnation, |_| {
            event_count::notify_all(handle.mem(), handle.object.event_count());
        })
    }

    fn words(&self) -> impl Iterator<Item = (u32, SyncWord)> {
        let first = self.hint.get();
        (0..self.permits).map(move |n| {
            let n = (first + n) % self.permits;
            (n, self.handle.object.permit(n).0)
        })
    }

    /// Takes a permit that nobody has; with `asks`, that nobody alive has.
    fn take_any(&self, asks: bool) -> Result<Option<Taken>> {
        let (handle, mem) = (&self.handle, self.handle.mem());
        for (n, word) in self.words() {
            let seen = word.load(mem);
            let is_left = is_free(seen) || asks && is_gone(&handle.worker, seen)?;
            if !is_left {
                continue;
            }
            let Some(seen) = take_word(mem, word, seen, handle.mine()) else {
                continue;
            };
            if let Err(removed) = handle.confirm()
                && !mutant::is(Mutant::StalePermitTaken)
            {
                handle.store_and_notify(
                    word,
                    if seen == 0 { 0 } else { seen | OWNER_DIED },
                    handle.object.event_count(),
                );
                return Err(removed);
            }
            self.hint.set(n);
            return Ok(Some((n, seen)));
        }
        Ok(None)
    }

    /// Takes a permit that nobody alive has, if the queue does not go first.
    fn try_take(&self) -> Result<Option<Taken>> {
        let handle = &self.handle;
        if handle.may_barge() {
            return self.take_any(true);
        }
        // The waiter that said *handoff* may have died since.
        let end = handle.end.load(handle.mem());
        if walk_queue(&handle.worker, handle.object, end)?.held.is_some() {
            return handle.confirm().map(|()| None);
        }
        let taken = self.take_any(true)?;
        if taken.is_some() {
            handle.take_back_first();
        }
        Ok(taken)
    }

    fn take_waiting(&self, slot: usize, waiting: &mut Waiting) -> Result<Option<Taken>> {
        let handle = &self.handle;
        if !waiting.is_immediate() {
            // Most holds are short. Until polling ends, nothing is written.
            loop {
                if handle.may_barge()
                    && let Some(taken) = self.take_any(false)?
                {
                    return Ok(Some(taken));
                }
                match waiting.lose(handle.mem()) {
                    Next::Sleep(_) => {
                        handle.confirm()?;
                        let taken = self.take_in_turn(slot, waiting);
                        if !matches!(taken, Ok(Some(_))) {
                            handle.give_up(slot);
                        }
                        return taken;
                    }
                    Next::Look => {}
                    Next::Question => {
                        if let Some(taken) = self.try_take()? {
                            return Ok(Some(taken));
                        }
                    }
                    Next::GiveUp => break,
                }
            }
        }
        // A last check: nobody fails because of a dead owner.
        match self.try_take()? {
            Some(taken) => Ok(Some(taken)),
            None => handle.confirm().map(|()| None),
        }
    }

    /// Joins the queue, takes a permit when first, and leaves the queue.
    fn take_in_turn(&self, slot: usize, waiting: &mut Waiting) -> Result<Option<Taken>> {
        let handle = &self.handle;
        if !handle.stand_first(slot, waiting)? {
            return Ok(None);
        }
        let (mut asks, mut in_vain) = (true, 0);
        loop {
            if let Some(taken) = self.take_any(asks)? {
                handle.take_back_first();
                handle.store_turn(slot, handle.turn(slot).to(SlotState::Rest));
                return Ok(Some(taken));
            }
            asks = match waiting.lose(handle.mem()) {
                Next::Look => false,
                Next::Question => true,
                // A last check: nobody fails because of a dead owner.
                Next::GiveUp if !asks && !mutant::is(Mutant::GivenUpUnasked) => true,
                Next::GiveUp => return Ok(None),
                Next::Sleep(longest) => {
                    if in_vain >= WAKES_BEFORE_HANDOFF {
                        // NO PAIR: hint
                        handle.object.handoff().store(handle.mem(), 1);
                        crash_point(Point::QueueHandoff);
                    }
                    in_vain += 1;
                    handle.confirm()?;
                    let words: Vec<SyncWord> = self.words().map(|(_, word)| word).collect();
                    // Again once the wait is prepared: a remover notifies after that, and a removal changes no permit's
                    // word.
                    let goes_on = || handle.confirm().is_ok();
                    sleep_for_owners(&handle.worker, handle.object, &words, longest, goes_on);
                    true
                }
            };
        }
    }
}

/// A permit. Dropping it gives it back.
#[must_use = "a permit is given back when it is dropped"]
pub struct Permit<'s, M: Memory> {
    semaphore: &'s Semaphore<M>,
    slot: usize,
    n: u32,
    acquired: Acquired,
    /// Whether the note may not be 0.
    noted: Cell<bool>,
    of: PhantomData<M>,
}

impl<'s, M: Memory> Permit<'s, M> {
    fn new(semaphore: &'s Semaphore<M>, slot: usize, (n, before): Taken) -> Self {
        crash_point(Point::HeldTaken);
        let handle = &semaphore.handle;
        let acquired = former(before).map_or(Acquired::Clean, |from| Acquired::Recovered {
            from: Owner::of(from),
            // PAIRS WITH: sync::semaphore::Permit::set_note, sync::semaphore::Permit::drop
            note: handle.object.permit(n).1.load(handle.mem()),
        });
        Self {
            semaphore,
            slot,
            n,
            noted: Cell::new(acquired != Acquired::Clean),
            acquired,
            of: PhantomData,
        }
    }

    /// The number of this permit, from 0 on. Nobody else has it, so it may stand for one of as many things.
    pub fn number(&self) -> u32 {
        self.n
    }

    /// How this owner acquired the permit.
    pub fn acquired(&self) -> Acquired {
        self.acquired
    }

    /// Leaves a note: one word, of the caller's choice, about what it is doing. If this owner dies, the permit's next
    /// owner gets the note.
    ///
    /// Cost: a store; a second one when the permit is given back.
    pub fn set_note(&self, note: u64) {
        let handle = &self.semaphore.handle;
        if !handle.is_forked() {
            self.noted.set(true);
            // PAIRS WITH: sync::semaphore::Permit::new
            handle.object.permit(self.n).1.store(handle.mem(), note);
            crash_point(Point::HeldNoted);
        }
    }
}

impl<M: Memory> Drop for Permit<'_, M> {
    fn drop(&mut self) {
        let handle = &self.semaphore.handle;
        if handle.is_forked() {
            return;
        }
        let (word, note) = handle.object.permit(self.n);
        let poisoned = std::thread::panicking();
        if self.noted.get() && !poisoned {
            // PAIRS WITH: sync::semaphore::Permit::new
            note.store(handle.mem(), 0);
            crash_point(Point::HeldForgotten);
        }
        let after = if poisoned { handle.mine() | OWNER_DIED } else { 0 };
        handle.store_and_notify(word, after, handle.object.event_count());
        handle.release(self.slot);
    }
}
