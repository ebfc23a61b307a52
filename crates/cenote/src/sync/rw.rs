//! The reader-writer lock. Dead readers delay nobody.
//!
//! **Words.** The lock's word names the writer; it is taken as [`exclusive`](super::exclusive) says. A reader announces
//! itself in its own slot, so that readers write no line of each other. For each place whose worker may be reading
//! there is a bit in the lock: a writer reads the slots of these places alone.
//!
//! **Reading.** The slot's `turn` = reading, by an announcement; a load of the word; a load of the bit of the own
//! place. If the word names a living writer, the slot says that it waits, and the reader waits. If the bit is not set,
//! the reader sets it and loads the word once more. **Writing.** The word is taken; then the writer waits for each
//! reader that it finds, place by place, and clears the place's bit when none of its slots reads. So of a reader and a
//! writer at least one sees the other: the reader's announcement and load of the word, and the writer's exchange and
//! load of the slot, are each in this order for all. And a reader whose bit was cleared after its announcement, by a
//! writer that unlocked before the reader loaded the word, sees the cleared bit.
//!
//! **Waiting.** Readers sleep on the lock's event count, a writer on the event count of the slot that reads. A reader
//! that was woken [`WAKES_BEFORE_HANDOFF`] times and found another writer each time joins the queue, and reads when it
//! is first. So neither keeps the other out for ever.
//!
//! **A crash** of a reader leaves its slot. Writers see that its worker is gone, and put it at rest; so does recovery.
//! The next writer is not told: a reader changes nothing. Of a crash of a writer, also of one that still waits for
//! readers, the word tells all later owners, readers too, until a writer has unlocked.

use std::rc::Rc;
use std::time::Duration;

use super::guard::{Guard, ReadGuard, Release};
use super::held::Handle;
use super::object::{LockKind, Object};
use super::owner_word::{OWNER_DIED, former, free_in, free_of, is_free, is_nobody};
use super::sleep::{sleep, sleep_for_owner};
use super::wait::{Next, Timeout, Waiting};
use crate::error::{Error, Result};
use crate::memory::{Memory, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::format::lock_slots::{SLOTS, Slot, SlotState, Turn};
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::event_count;
use crate::pod::lock::is_gone;

/// How often a reader is woken in vain before it joins the queue.
const WAKES_BEFORE_HANDOFF: u32 = 4;

/// A reader-writer lock, as one thread has it open.
pub struct ReadWriteLock<M: Memory> {
    handle: Handle<M>,
    /// The word with the bit of this worker's place, and the bit.
    own_bit: (SyncWord, u64),
    /// Words of such bits.
    words: u32,
}

/// How a reader waited for a writer.
enum Awaited {
    /// Nobody alive writes any more; it has not slept.
    Awake,
    /// The same, and it has slept.
    Asleep,
    /// The timeout ended first.
    TimedOut,
}

impl<M: Memory> ReadWriteLock<M> {
    /// Opens the lock of a name, or creates it.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open_or_create(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        Self::new(Handle::open_or_create(worker, name, LockKind::Rw)?)
    }

    /// Opens the lock of a name, if there is one.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        Self::new(Handle::open(worker, name, LockKind::Rw)?)
    }

    pub(super) fn new(handle: Handle<M>) -> Result<Self> {
        let place = u32::from(handle.worker.me() - 1);
        let bits = handle.object.readers(place / 64);
        Ok(Self {
            own_bit: (
                bits.ok_or_else(|| Error::corrupt("a reader-writer lock", handle.object.offset()))?,
                1 << (place % 64),
            ),
            words: handle.worker.geometry().parameters.workers.div_ceil(64),
            handle,
        })
    }

    /// Waits for an exclusive hold.
    ///
    /// Cost if nobody has the lock: a load, a compare-exchange, a load for each 64 places of the pool, eight lines and
    /// an exchange for each place that has read since the last writer; a store and a load for the unlock. Fails if this
    /// thread has the lock already, holds too many, or is in a forked child.
    ///
    /// Errors: [`Error::Deadlock`](crate::Error::Deadlock), [`Error::TooManyLocks`](crate::Error::TooManyLocks),
    /// [`Error::LockRemoved`](crate::Error::LockRemoved).
    #[inline]
    pub fn write(&self) -> Result<Guard<'_, M, Self>> {
        let handle = &self.handle;
        if let Some(slot) = handle.ready()
            && handle.is_only_use()
            && handle.take_at_once()
        {
            handle.enter(slot);
            crash_point(Point::WriterWaits);
            if self.nobody_reads() {
                return Ok(Guard::clean(self, slot));
            }
            let waiting = &mut handle.waiting(Timeout::Forever);
            let alone = self.write_alone(slot, handle.free, waiting);
            handle.learn(waiting);
            if let Some(guard) = alone? {
                return Ok(guard);
            }
        }
        self.write_slowly()
    }

    /// An exclusive hold, if it can be taken without waiting, and without asking for who has died.
    #[inline]
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn write_at_once(&self) -> Option<Guard<'_, M, Self>> {
        let handle = &self.handle;
        let slot = handle.ready()?;
        if !handle.is_only_use() || !handle.take_at_once() {
            return None;
        }
        handle.enter(slot);
        crash_point(Point::WriterWaits);
        if self.nobody_reads() {
            return Some(Guard::clean(self, slot));
        }
        let waiting = &mut handle.waiting(Timeout::None);
        // If it fails, the lock is given back, and the caller's next try finds why.
        self.write_alone(slot, handle.free, waiting).ok()?
    }

    #[cold]
    fn write_slowly(&self) -> Result<Guard<'_, M, Self>> {
        loop {
            if let Some(guard) = self.write_with(Timeout::Forever)? {
                return Ok(guard);
            }
        }
    }

    /// Whether no bit is set but that of this worker's place, which cannot be reading.
    #[inline]
    fn nobody_reads(&self) -> bool {
        let (own, bit) = self.own_bit;
        (0..self.words).all(|n| {
            self.handle.object.readers(n).is_some_and(|word| {
                // PAIRS WITH: sync::rw::mark
                let bits = word.load(self.handle.mem());
                bits == 0 || bits == bit && word == own
            })
        })
    }

    /// Takes an exclusive hold if nobody alive has the lock.
    ///
    /// Errors: [`Error::Deadlock`](crate::Error::Deadlock), [`Error::TooManyLocks`](crate::Error::TooManyLocks),
    /// [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn try_write(&self) -> Result<Option<Guard<'_, M, Self>>> {
        self.write_with(Timeout::None)
    }

    /// Waits for an exclusive hold, for this long at most.
    ///
    /// Errors: [`Error::Deadlock`](crate::Error::Deadlock), [`Error::TooManyLocks`](crate::Error::TooManyLocks),
    /// [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn write_for(&self, time: Duration) -> Result<Option<Guard<'_, M, Self>>> {
        self.write_with(Timeout::during(time))
    }

    /// Waits for an exclusive hold until a timeout ends.
    ///
    /// Errors: [`Error::Deadlock`](crate::Error::Deadlock), [`Error::TooManyLocks`](crate::Error::TooManyLocks),
    /// [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn write_with(&self, timeout: Timeout) -> Result<Option<Guard<'_, M, Self>>> {
        let handle = &self.handle;
        let mut waiting = self.handle.waiting(timeout);
        let slot = handle.claim()?;
        let taken = match handle.take_at_once() {
            true => Ok(Some(handle.free)),
            false => handle.take_waiting(slot, &mut waiting),
        };
        let Ok(Some(before)) = taken else {
            handle.release(slot);
            return taken.map(|_| None);
        };
        crash_point(Point::WriterWaits);
        let alone = self.write_alone(slot, before, &mut waiting);
        handle.learn(&waiting);
        alone
    }

    /// Waits until no reader is left, and makes the guard; `None` if the timeout ended first.
    #[cold]
    fn write_alone(
        &self,
        slot: usize,
        before: u64,
        waiting: &mut Waiting,
    ) -> Result<Option<Guard<'_, M, Self>>> {
        let alone = self.outlast(waiting);
        if !matches!(alone, Ok(true)) {
            // The next owner is still to be told of the dead one that this one took the lock from.
            let word = if is_nobody(before) {
                before
            } else {
                before | OWNER_DIED
            };
            self.handle.give_back(slot, word);
        }
        Ok(alone?.then(|| Guard::new(self, slot, former(before))))
    }

    /// Waits until no reader is left; `false` if the timeout ended first.
    fn outlast(&self, waiting: &mut Waiting) -> Result<bool> {
        if mutant::is(Mutant::ReadersNotAwaited) {
            return Ok(true);
        }
        let handle = &self.handle;
        let places = handle.worker.geometry().parameters.workers;
        let me = u32::from(handle.worker.me() - 1);
        for (n, word) in (0..self.words).filter_map(|n| Some((n, handle.object.readers(n)?))) {
            // PAIRS WITH: sync::rw::mark
            let mut bits = word.load(handle.mem());
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                let place = 64 * n + bit.trailing_zeros();
                bits &= !bit;
                // This worker writes, so it does not read.
                if place >= places || place == me {
                    continue;
                }
                if !self.outlast_place(place, waiting)? {
                    return Ok(false);
                }
                // PAIRS WITH: sync::rw::mark
                word.fetch_and(handle.mem(), !bit);
            }
        }
        Ok(true)
    }

    /// The same for the worker at one place.
    fn outlast_place(&self, place: u32, waiting: &mut Waiting) -> Result<bool> {
        let handle = &self.handle;
        for n in 0..SLOTS {
            let slot = Slot::new(handle.worker.geometry(), place, n);
            while let Some((turn, owner)) = read_by(&handle.worker, slot, handle.object)? {
                match waiting.lose(handle.mem()) {
                    Next::GiveUp => return Ok(false),
                    Next::Look | Next::Question => {}
                    Next::Sleep(longest) => {
                        let goes_on = || slot.turn().load(handle.mem()) == turn.0;
                        sleep(&handle.worker, slot.event_count(), owner, false, longest, goes_on);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Waits for a shared hold.
    ///
    /// Cost if nobody writes: an announcement and two loads; a store and a load for the unlock; an exchange and a load
    /// if a writer has come since the last time. Fails if this thread has the lock already, holds too many, or is in a
    /// forked child.
    ///
    /// Errors: [`Error::Deadlock`](crate::Error::Deadlock), [`Error::TooManyLocks`](crate::Error::TooManyLocks),
    /// [`Error::LockRemoved`](crate::Error::LockRemoved).
    #[inline(always)]
    pub fn read(&self) -> Result<ReadGuard<'_, M>> {
        match self.enter_at_once() {
            Some(slot) => Ok(ReadGuard::clean(self, slot)),
            None => self.read_slowly(),
        }
    }

    /// A shared hold, if it can be taken without waiting, and without asking for who has died.
    #[inline]
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn read_at_once(&self) -> Option<ReadGuard<'_, M>> {
        let slot = self.enter_at_once()?;
        Some(ReadGuard::clean(self, slot))
    }

    /// The slot of a shared hold that was taken without waiting.
    #[inline(always)]
    fn enter_at_once(&self) -> Option<usize> {
        let handle = &self.handle;
        let slot = handle.ready()?;
        handle.enter(slot);
        if self.announce(slot) == Some(handle.free) {
            return Some(slot);
        }
        self.unlock_shared_slowly(slot);
        None
    }

    #[cold]
    fn read_slowly(&self) -> Result<ReadGuard<'_, M>> {
        loop {
            if let Some(guard) = self.read_with(Timeout::Forever)? {
                return Ok(guard);
            }
        }
    }

    /// Takes a shared hold if nobody alive has an exclusive one.
    ///
    /// Errors: [`Error::Deadlock`](crate::Error::Deadlock), [`Error::TooManyLocks`](crate::Error::TooManyLocks),
    /// [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn try_read(&self) -> Result<Option<ReadGuard<'_, M>>> {
        self.read_with(Timeout::None)
    }

    /// Waits for a shared hold, for this long at most.
    ///
    /// Errors: [`Error::Deadlock`](crate::Error::Deadlock), [`Error::TooManyLocks`](crate::Error::TooManyLocks),
    /// [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn read_for(&self, time: Duration) -> Result<Option<ReadGuard<'_, M>>> {
        self.read_with(Timeout::during(time))
    }

    /// Waits for a shared hold until a timeout ends.
    ///
    /// Errors: [`Error::Deadlock`](crate::Error::Deadlock), [`Error::TooManyLocks`](crate::Error::TooManyLocks),
    /// [`Error::LockRemoved`](crate::Error::LockRemoved).
    pub fn read_with(&self, timeout: Timeout) -> Result<Option<ReadGuard<'_, M>>> {
        let slot = self.handle.claim()?;
        let mut waiting = self.handle.waiting(timeout);
        let shared = self.share(slot, &mut waiting);
        self.handle.learn(&waiting);
        match shared {
            Ok(Some(before)) => Ok(Some(ReadGuard::new(self, slot, former(before)))),
            other => {
                self.unlock_shared(slot);
                other.map(|_| None)
            }
        }
    }

    fn share(&self, slot: usize, waiting: &mut Waiting) -> Result<Option<u64>> {
        let mut in_vain = 0;
        loop {
            if let Some(before) = self.announce(slot) {
                return self.confirm_read(before);
            }
            if in_vain == WAKES_BEFORE_HANDOFF {
                return self.share_in_turn(slot, waiting);
            }
            match self.await_writer(waiting)? {
                Awaited::TimedOut => return Ok(None),
                Awaited::Asleep => in_vain += 1,
                Awaited::Awake => {}
            }
        }
    }

    /// Announces a reader. Returns what the word was if nobody writes; else makes the slot say that it waits.
    #[inline(always)]
    fn announce(&self, slot: usize) -> Option<u64> {
        let handle = &self.handle;
        let (mem, word, own) = (handle.mem(), handle.word(), handle.own(slot));
        let early = mutant::is(Mutant::WriterCheckedFirst).then(|| word.load(mem));
        // A turn of its own: a writer that finds the reader dead ends that turn, not a turn of the place's next worker.
        let before = handle.turn(slot);
        let turn = reading_after(before);
        handle.worker.slots().turns[slot % SLOTS].set(turn.0);
        show_turn(mem, own, turn);
        if before.state() == SlotState::Queued {
            // The waiter behind it is first now.
            event_count::notify_waiting(mem, own.event_count());
        }
        crash_point(Point::ReaderAnnounced);
        let marked = mutant::is(Mutant::BitReadFirst) && !self.mark();
        // A word that is free in another incarnation counts as a writer's.
        let may_read = |seen: u64| seen == handle.free || is_free(seen) && !is_nobody(seen);
        // PAIRS WITH: sync::held::Handle::store_and_notify, sync::held::Handle::store_and_notify_with_barrier
        let mut seen = early.unwrap_or_else(|| word.load(mem));
        if may_read(seen) && marked {
            return Some(seen);
        }
        while may_read(seen) {
            if !self.mark() {
                return Some(seen);
            }
            seen = word.load(mem);
        }
        handle.store_turn(slot, turn.to(SlotState::Waiting));
        None
    }

    /// Reads, if the lock was not removed before the word was loaded: a later remover has seen this reader.
    fn confirm_read(&self, before: u64) -> Result<Option<u64>> {
        if before != self.handle.free && !mutant::is(Mutant::SeizedUnasked) {
            self.handle.confirm()?;
        }
        Ok(Some(before))
    }

    /// Sets the bit of this worker's place, if it is not set. Returns whether it was not.
    #[inline]
    fn mark(&self) -> bool {
        let (bits, bit) = self.own_bit;
        let mem = self.handle.mem();
        // PAIRS WITH: sync::rw::outlast
        let sets = bits.load(mem) & bit == 0 && !mutant::is(Mutant::ReaderNotMarked);
        if sets {
            // PAIRS WITH: sync::rw::outlast, sync::rw::nobody_reads
            bits.fetch_or(mem, bit);
        }
        sets
    }

    /// Waits until nobody alive writes.
    fn await_writer(&self, waiting: &mut Waiting) -> Result<Awaited> {
        let handle = &self.handle;
        let (mem, word) = (handle.mem(), handle.word());
        let mut awaited = Awaited::Awake;
        loop {
            let seen = word.load(mem);
            if is_free(seen) {
                return handle.is_to_be_had(seen, false).map(|_| awaited);
            }
            let next = waiting.lose(mem);
            if next != Next::Look && is_gone(&handle.worker, seen)? {
                free_of(&handle.worker, word, seen);
                event_count::notify_waiting(mem, handle.object.event_count());
                continue;
            }
            match next {
                Next::Look | Next::Question => {}
                Next::GiveUp => return handle.confirm().map(|()| Awaited::TimedOut),
                Next::Sleep(longest) => {
                    awaited = Awaited::Asleep;
                    // A remover notifies after that.
                    handle.confirm()?;
                    sleep_for_owner(&handle.worker, handle.object, seen, longest);
                }
            }
        }
    }

    /// Joins the queue, and reads when the slot is first and nobody writes.
    fn share_in_turn(&self, slot: usize, waiting: &mut Waiting) -> Result<Option<u64>> {
        let handle = &self.handle;
        loop {
            let free = match handle.stand_first(slot, waiting) {
                Ok(true) => handle.await_owner(waiting, Some),
                Ok(false) => Ok(None),
                Err(error) => Err(error),
            };
            let Ok(Some(seen)) = free else {
                handle.give_up(slot);
                return free;
            };
            if !is_free(seen) {
                free_of(&handle.worker, handle.word(), seen);
            }
            if let Some(before) = self.announce(slot) {
                handle.take_back_first();
                return self.confirm_read(before);
            }
        }
    }

    /// Gives up a shared hold, or the wait for one.
    #[inline(always)]
    pub(super) fn unlock_shared(&self, slot: usize) {
        let handle = &self.handle;
        let turn = handle.turn(slot);
        if !handle.is_forked() && turn.state() == SlotState::Reading && handle.ends_turn_lazily(slot, turn) {
            handle.end_turn_lazily(slot, turn.to(SlotState::Rest));
            handle.release(slot);
        } else {
            self.unlock_shared_slowly(slot);
        }
    }

    #[cold]
    #[inline(never)]
    fn unlock_shared_slowly(&self, slot: usize) {
        let handle = &self.handle;
        if handle.is_forked() {
            return;
        }
        // A slot that has given up in the queue may stand there still.
        let turn = handle.turn(slot);
        if matches!(turn.state(), SlotState::Reading | SlotState::Waiting) {
            handle.store_turn(slot, turn.to(SlotState::Rest));
        }
        handle.release(slot);
    }
}

/// The turn of a reader.
#[inline]
fn reading_after(before: Turn) -> Turn {
    match mutant::is(Mutant::ReadInOneTurn) {
        true => before.to(SlotState::Reading),
        false => before.next(SlotState::Reading),
    }
}

/// Shows a reader's turn to writers, before the reader looks for one.
#[inline]
fn show_turn<M: Memory>(mem: &M, own: Slot, turn: Turn) {
    // PAIRS WITH: sync::rw::read_by
    match mutant::is(Mutant::ReaderWithoutFence) {
        true => own.turn().store(mem, turn.0),
        false => own.turn().store_seq_cst(mem, turn.0),
    }
}

/// If a living worker reads under a lock in a slot: its turn, and its identity. Puts a dead reader's slot at rest.
fn read_by<M: Memory>(worker: &Worker<M>, slot: Slot, object: Object) -> Result<Option<(Turn, u64)>> {
    let mem = worker.mem();
    // PAIRS WITH: sync::rw::show_turn, sync::held::Handle::store_and_notify, sync::held::Handle::store_and_notify_with_barrier
    let turn = Turn(slot.turn().load(mem));
    // PAIRS WITH: sync::held::Handle::take
    if turn.state() != SlotState::Reading || slot.lock().load(mem) != object.offset() {
        return Ok(None);
    }
    let owner = slot.owner().load(mem);
    if mutant::is(Mutant::DeadReaderAwaited) || !is_gone(worker, owner)? {
        return Ok(Some((turn, owner)));
    }
    // If it fails, recovery was quicker; then another worker may have the slot, and has seen this writer.
    // NO PAIR: claim
    let _ = slot
        .turn()
        .compare_exchange_acquire(mem, turn.0, turn.to(SlotState::Rest).0);
    Ok(None)
}

impl<M: Memory> Release<M> for ReadWriteLock<M> {
    #[inline]
    fn handle(&self) -> &Handle<M> {
        &self.handle
    }

    // In line it would have a guard go through memory, which takes longer than the call.
    #[inline(never)]
    fn unlock(&self, slot: usize, poisoned: bool) {
        let handle = &self.handle;
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
        self.write()
    }

    fn unlock_removed(&self, slot: usize, incarnation: u64) {
        self.handle.give_back(slot, free_in(incarnation));
    }
}
