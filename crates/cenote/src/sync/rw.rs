//! The reader-writer lock, whose dead readers hold nobody up.
//!
//! **Words.** The lock's word names the writer, as [`owner`](super::owner) says. A reader announces itself in its own slot, so that
//! readers write no line of each other. For each place whose worker has ever read there is a bit in the lock that stays: a
//! writer looks into the slots of these places alone.
//!
//! **Reading.** The bit, if this handle has not set it; the slot's `turn` = reading, by an announcement; then a look at the word. If
//! a writer is named that lives, the slot is put at rest again, and the reader waits. **Writing.** The word is taken; then
//! the writer waits for each reader that it finds. So of a reader and a writer one sees the other: the reader's announcement and
//! look, and the writer's exchange and look, are each in this order for all.
//!
//! **A crash** of a reader leaves its slot. Writers see that its worker is gone, and put it at rest; so does recovery. The next
//! writer is not told: a reader changes nothing. A crash of a writer, also of one that still waits for readers, is
//! told to all who come, by the word: to readers too, until a writer has unlocked.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::guard::{Guard, ReadGuard, Release};
use super::held::Handle;
use super::object::{Form, Object};
use super::owner::{FREED, former, free_of, is_free, take};
use super::wait::{Next, Patience, Waiting};
use crate::error::Result;
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::crash::{Point, crash_point};
use crate::pod::lock::is_gone;
use crate::pod::slots::{SLOTS, Slot, Stand, Turn};

/// A reader-writer lock, as one thread has it open.
pub struct ReadWriteLock<M: Memory> {
    handle: Handle<M>,
    /// Whether the bit of this worker's place is set.
    marked: Cell<bool>,
}

impl<M: Memory> ReadWriteLock<M> {
    /// Opens the lock of a name, or creates it.
    pub fn open_or_create(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        Handle::open_or_create(worker, name, Form::Rw).map(Self::new)
    }

    /// Opens the lock of a name, if there is one.
    pub fn open(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        Handle::open(worker, name, Form::Rw).map(Self::new)
    }

    fn new(handle: Handle<M>) -> Self {
        Self {
            handle,
            marked: Cell::new(false),
        }
    }

    /// Waits for an exclusive hold.
    ///
    /// Cost if nobody has the lock: a compare-exchange, a load for each 64 places of the pool, and eight lines for each
    /// place that has read; a store for the unlock. It fails if this thread has the lock already, holds too many, or is in a forked
    /// child.
    pub fn write(&self) -> Result<Guard<'_, M, Self>> {
        loop {
            if let Some(guard) = self.write_with(Patience::Forever)? {
                return Ok(guard);
            }
        }
    }

    /// Takes an exclusive hold if nobody alive has the lock.
    pub fn try_write(&self) -> Result<Option<Guard<'_, M, Self>>> {
        self.write_with(Patience::None)
    }

    /// Waits for an exclusive hold, but not longer than this.
    pub fn write_for(&self, time: Duration) -> Result<Option<Guard<'_, M, Self>>> {
        self.write_with(Patience::during(time))
    }

    /// Waits for an exclusive hold as patiently as told.
    pub fn write_with(&self, patience: Patience) -> Result<Option<Guard<'_, M, Self>>> {
        let handle = &self.handle;
        let slot = handle.claim()?.slot;
        let mut waits = false;
        let taken = self.exclude(&mut Waiting::new(patience), || {
            waits = true;
            handle.set_turn(slot, handle.turn(slot).to(Stand::Waiting));
        });
        if waits {
            handle.set_turn(slot, handle.turn(slot).to(Stand::Rest));
        }
        match taken {
            Ok(Some(before)) => Ok(Some(Guard::new(self, slot, former(before)))),
            other => {
                handle.release(slot);
                other.map(|_| None)
            }
        }
    }

    /// Takes the word, then waits for the readers; what the word was.
    fn exclude(&self, waiting: &mut Waiting, on_wait: impl FnOnce()) -> Result<Option<u64>> {
        let handle = &self.handle;
        let (word, mine) = (handle.word(), handle.mine());
        let Some(before) = take(&handle.worker, word, mine, waiting, on_wait)? else {
            return Ok(None);
        };
        crash_point(Point::WriterWaits);
        let alone = self.outlast(waiting);
        if !matches!(alone, Ok(true)) {
            // Whom it took the lock from is still to be told of.
            let former = if before == 0 { 0 } else { before | FREED };
            word.store(handle.mem(), former);
        }
        Ok(alone?.then_some(before))
    }

    /// Waits until no reader is left; `false` if patience ended before.
    fn outlast(&self, waiting: &mut Waiting) -> Result<bool> {
        if mutant::is(Mutant::ReadersNotAwaited) {
            return Ok(true);
        }
        let handle = &self.handle;
        let places = handle.worker.geometry().parameters.workers;
        for n in 0..places.div_ceil(64) {
            let Some(word) = handle.object.readers(n) else {
                break;
            };
            let mut bits = word.load(handle.mem());
            while bits != 0 {
                let place = 64 * n + bits.trailing_zeros();
                bits &= bits - 1;
                if place < places && !self.outlast_place(place, waiting)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The same of the worker at one place.
    fn outlast_place(&self, place: u32, waiting: &mut Waiting) -> Result<bool> {
        let handle = &self.handle;
        for n in 0..SLOTS {
            let slot = Slot::new(handle.worker.geometry(), place, n);
            while is_reading(&handle.worker, slot, handle.object)? {
                if waiting.lose(handle.mem()) == Next::GiveUp {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Waits for a shared hold.
    ///
    /// Cost if nobody writes: an announcement and a load; a store for the unlock; an or for the handle's first. It fails if this
    /// thread has the lock already, holds too many, or is in a forked child.
    pub fn read(&self) -> Result<ReadGuard<'_, M>> {
        loop {
            if let Some(guard) = self.read_with(Patience::Forever)? {
                return Ok(guard);
            }
        }
    }

    /// Takes a shared hold if nobody alive has an exclusive one.
    pub fn try_read(&self) -> Result<Option<ReadGuard<'_, M>>> {
        self.read_with(Patience::None)
    }

    /// Waits for a shared hold, but not longer than this.
    pub fn read_for(&self, time: Duration) -> Result<Option<ReadGuard<'_, M>>> {
        self.read_with(Patience::during(time))
    }

    /// Waits for a shared hold as patiently as told.
    pub fn read_with(&self, patience: Patience) -> Result<Option<ReadGuard<'_, M>>> {
        let slot = self.handle.claim()?.slot;
        match self.share(slot, &mut Waiting::new(patience)) {
            Ok(Some(before)) => Ok(Some(ReadGuard::new(self, slot, former(before)))),
            other => {
                self.unlock_shared(slot);
                other.map(|_| None)
            }
        }
    }

    fn share(&self, slot: usize, waiting: &mut Waiting) -> Result<Option<u64>> {
        let handle = &self.handle;
        let (mem, word) = (handle.mem(), handle.word());
        let early = mutant::is(Mutant::WriterLookedAtFirst).then(|| word.load(mem));
        self.mark();
        loop {
            // A turn of its own: a writer that finds it dead ends that turn, and no other one of whoever has the place next.
            let turn = match mutant::is(Mutant::ReadInOneTurn) {
                true => handle.turn(slot).to(Stand::Reading),
                false => handle.turn(slot).next(Stand::Reading),
            };
            handle.worker.slots().turns[slot % SLOTS].set(turn.0);
            match mutant::is(Mutant::ReaderWithoutFence) {
                true => handle.own(slot).turn().store(mem, turn.0),
                false => handle.own(slot).turn().announce(mem, turn.0),
            }
            crash_point(Point::ReaderAnnounced);
            let seen = early.unwrap_or_else(|| word.load(mem));
            if is_free(seen) {
                return Ok(Some(seen));
            }
            handle.set_turn(slot, turn.to(Stand::Waiting));
            loop {
                let seen = word.load(mem);
                if is_free(seen) {
                    break;
                }
                let next = waiting.lose(mem);
                if next != Next::Look && is_gone(&handle.worker, seen)? {
                    free_of(&handle.worker, word, seen);
                } else if next == Next::GiveUp {
                    return Ok(None);
                }
            }
        }
    }

    /// Sets the bit of this worker's place.
    fn mark(&self) {
        let place = u32::from(self.handle.worker.me() - 1);
        if !self.marked.get()
            && !mutant::is(Mutant::ReaderNotMarked)
            && let Some(bits) = self.handle.object.readers(place / 64)
        {
            self.handle.mem().fetch_or(bits.offset(), 1 << (place % 64));
            self.marked.set(true);
        }
    }

    /// Gives a shared hold up, or the wish for one.
    pub(super) fn unlock_shared(&self, slot: usize) {
        if !self.handle.is_forked() {
            self.handle.set_turn(slot, self.handle.turn(slot).to(Stand::Rest));
            self.handle.release(slot);
        }
    }
}

/// Whether somebody alive reads under a lock in a slot. What the dead have left there is put at rest.
fn is_reading<M: Memory>(worker: &Worker<M>, slot: Slot, object: Object) -> Result<bool> {
    let mem = worker.mem();
    let turn = Turn(slot.turn().load(mem));
    if turn.stand() != Stand::Reading || slot.lock().load(mem) != object.offset() {
        return Ok(false);
    }
    if mutant::is(Mutant::DeadReaderAwaited) || !is_gone(worker, slot.owner().load(mem))? {
        return Ok(true);
    }
    // Who fails has been preceded by recovery; then somebody else may have the slot, and has seen this writer.
    let _ = slot
        .turn()
        .compare_exchange_acquire(mem, turn.0, turn.to(Stand::Rest).0);
    Ok(false)
}

impl<M: Memory> Release<M> for ReadWriteLock<M> {
    fn handle(&self) -> &Handle<M> {
        &self.handle
    }

    fn unlock(&self, slot: usize, abandoned: bool) {
        let handle = &self.handle;
        let word = if abandoned { handle.mine() | FREED } else { 0 };
        handle.word().store(handle.mem(), word);
        handle.release(slot);
    }
}
