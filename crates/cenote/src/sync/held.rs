//! The held-locks log: which slot of its worker area a worker uses for which lock, and the handles' common part.
//!
//! Before a worker touches a lock's word, one of its slots names the lock. So recovery finds every lock that the worker
//! may hold. The name stays when the lock is unlocked: the next use of the same lock then writes nothing. Whether the
//! worker holds the lock, the lock's own words say.
//!
//! **Writers.** A worker writes its own slots, while they are at rest or it uses them. It caches what it knows of them
//! in [`OwnSlots`](crate::pod::format::lock_slots::OwnSlots), so that it finds a slot in use without reading the pool.
//!
//! **A crash** leaves a slot that names a lock, and perhaps stands in its queue. [Recovery](super::recovery) ends that.
//! A slot that it cannot end yet, because a living worker stands in front, stays until the waiter behind goes past it.
//! Until then nobody uses the slot, not even the place's next worker.

use std::cell::Cell;
use std::rc::Rc;

use super::object::{LockKind, Object};
use super::owner_word::free_in;
use super::wait::{Timeout, Waiting, Worth};
use super::{Acquired, recovery};
use crate::error::{Error, Result};
use crate::memory::{ForkWatch, Memory, SyncWord, compiler_barrier, forked};
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::format::lock_slots::{SLOTS, Slot, SlotRef, SlotState, Turn};
use crate::pod::instance::back_off::BackOff;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::event_count;

/// A thread's handle on a lock of any form.
pub struct Handle<M: Memory> {
    pub(super) worker: Rc<Worker<M>>,
    pub(super) object: Object,
    /// What the fast paths need of the worker and the lock: an exchange waits for one load of its address, not for two.
    mem: M,
    watch: ForkWatch,
    word: SyncWord,
    pub(super) end: SyncWord,
    mine: u64,
    /// The lock's word while the lock is free and has the name by which this handle was opened.
    pub(super) free: u64,
    /// The end of its queue when the queue is empty; 0 unless it is a queue lock.
    pub(super) end_free: u64,
    /// What the lock counts while it has that name, and where.
    pub(super) incarnation: u64,
    pub(super) count: SyncWord,
    me: u16,
    /// Whether threads about to sleep have a barrier executed that orders this thread's stores before its later loads.
    is_lazy: bool,
    first: Slot,
    /// The slot used last.
    slot: Cell<usize>,
    /// How often the lock was taken without checking whether handoff is set.
    pub(super) unasked: Cell<u32>,
    /// How many polls a wait is worth.
    worth: Worth,
    /// When it took the lock from the queue last, as the kernel's clock has it.
    pub(super) taken_at: Cell<u64>,
    /// How often exchanges were lost to others that joined the queue.
    pub(super) back_off: BackOff,
    /// What the last successor of a dead owner was told through this handle.
    pub(super) notified: Cell<Acquired>,
}

impl<M: Memory> Handle<M> {
    pub(super) fn open_or_create(worker: Rc<Worker<M>>, name: &str, form: LockKind) -> Result<Self> {
        let (object, incarnation) = Object::open_or_create(&worker, name, form)?;
        Ok(Self::new(worker, object, incarnation))
    }

    pub(super) fn open(worker: Rc<Worker<M>>, name: &str, form: LockKind) -> Result<Self> {
        let (object, incarnation) = Object::open(&worker, name, form)?;
        Ok(Self::new(worker, object, incarnation))
    }

    pub(super) fn new(worker: Rc<Worker<M>>, object: Object, incarnation: u64) -> Self {
        let free = free_in(incarnation);
        Self {
            free,
            end_free: if object.kind() == LockKind::Queue { free } else { 0 },
            incarnation,
            count: object.count(),
            mem: worker.mem().clone(),
            watch: worker.pod().watch(),
            word: object.word(),
            end: object.end(),
            mine: worker.identity(),
            me: worker.me(),
            is_lazy: worker.pod().relies_on_barrier(),
            unasked: Cell::new(0),
            worth: Worth::new(worker.limits().spins),
            taken_at: Cell::new(0),
            back_off: BackOff::new(u64::from(worker.me())),
            first: Slot::new(worker.geometry(), u32::from(worker.me() - 1), 0),
            worker,
            object,
            slot: Cell::new(0),
            notified: Cell::new(Acquired::Clean),
        }
    }

    #[inline]
    pub(super) fn mem(&self) -> &M {
        &self.mem
    }

    /// Where the lock is, and the incarnation that this handle is for.
    #[doc(hidden)]
    pub fn identity(&self) -> (u64, u64) {
        (self.object.offset(), self.incarnation)
    }

    /// Whether this process was forked from the worker's.
    #[inline]
    pub(super) fn is_forked(&self) -> bool {
        forked(self.watch)
    }

    /// The word that decides who owns the lock.
    #[inline]
    pub(super) fn word(&self) -> SyncWord {
        self.word
    }

    /// This worker's identity, as the words of locks and slots have it.
    #[inline]
    pub(super) fn mine(&self) -> u64 {
        self.mine
    }

    /// One of this worker's slots in a turn, as others refer to it.
    #[inline]
    pub(super) fn place(&self, slot: usize, turn: Turn) -> SlotRef {
        SlotRef::new(self.me, slot, turn)
    }

    /// One of this worker's slots.
    #[inline]
    pub(super) fn own(&self, slot: usize) -> Slot {
        self.first.nth(slot)
    }

    /// The turn that one of this worker's slots is in, as it wrote it last.
    #[inline]
    pub(super) fn turn(&self, slot: usize) -> Turn {
        Turn(self.worker.slots().turns[slot % SLOTS].get())
    }

    /// Writes the turn of one of this worker's slots.
    #[inline]
    pub(super) fn set_turn(&self, slot: usize, turn: Turn) {
        self.worker.slots().turns[slot % SLOTS].set(turn.0);
        // PAIRS WITH: sync::queue_walk::walk_queue_by, sync::recovery::is_met
        self.own(slot).turn().store(self.mem(), turn.0);
    }

    /// The slot used last, if it names this lock. Where the lock's word names its owner, the word tells whether the
    /// slot is in use.
    #[inline]
    pub(super) fn named(&self) -> Option<usize> {
        let slot = self.slot.get() % SLOTS;
        let is_named = self.worker.slots().locks[slot].get() == self.object.offset();
        (is_named && !self.is_forked()).then_some(slot)
    }

    /// The slot used last, if it is free and names this lock. Does not mark it used, nor check that no other slot of
    /// this worker is used for the same lock: see [`Handle::refuse_twice`].
    #[inline]
    pub(super) fn ready(&self) -> Option<usize> {
        self.named().filter(|&slot| !self.worker.slots().used[slot].get())
    }

    /// A wait for this lock.
    pub(super) fn waiting(&self, timeout: Timeout) -> Waiting {
        self.worth.wait(timeout)
    }

    /// Learns from a wait that is over.
    pub(super) fn learn(&self, waiting: &Waiting) {
        self.worth
            .learn(self.mem(), waiting, self.worker.limits().long_hold_ns);
    }

    /// Marks a free slot used.
    #[inline]
    pub(super) fn enter(&self, slot: usize) {
        self.worker.slots().used[slot % SLOTS].set(true);
    }

    /// Stores a value that others may wait for, and wakes them.
    ///
    /// Cost: a store and a load; a swap instead of the store where processes of other hosts may sleep. An exchange and
    /// a system call if a thread sleeps.
    #[inline(always)]
    pub(super) fn store_and_notify(&self, word: SyncWord, value: u64, event_count: SyncWord) {
        if !self.is_lazy {
            return self.store_and_notify_with_barrier(word, value, event_count);
        }
        // PAIRS WITH: sync::wait_queue::is_first, sync::rw::announce, sync::rw::read_by, sync::sleep::sleep
        // PAIRS WITH: sync::exclusive::take_at_once, sync::owner::take_unqueued, sync::owner_word::take_word
        word.store(&self.mem, value);
        compiler_barrier();
        crash_point(Point::HeldNotNotified);
        event_count::notify_waiting(&self.mem, event_count);
    }

    /// [`Handle::store_and_notify`] where nobody has a barrier executed for this thread.
    #[cold]
    #[inline(never)]
    fn store_and_notify_with_barrier(&self, word: SyncWord, value: u64, event_count: SyncWord) {
        // PAIRS WITH: sync::wait_queue::is_first, sync::rw::announce, sync::rw::read_by, sync::sleep::sleep
        // PAIRS WITH: sync::exclusive::take_at_once, sync::owner::take_unqueued, sync::owner_word::take_word
        word.store_seq_cst(&self.mem, value);
        crash_point(Point::HeldNotNotified);
        event_count::notify_waiting(&self.mem, event_count);
    }

    /// Writes the turn of one of this worker's slots, and wakes the threads that sleep on that slot.
    #[inline]
    pub(super) fn store_turn(&self, slot: usize, turn: Turn) {
        let slots = self.worker.slots();
        slots.turns[slot % SLOTS].set(turn.0);
        let own = self.own(slot);
        if slots.announced[slot % SLOTS].get() == turn.number() && !mutant::is(Mutant::PromisedNotAnnounced) {
            return self.store_and_notify_with_barrier(own.turn(), turn.0, own.event_count());
        }
        self.store_and_notify(own.turn(), turn.0, own.event_count());
    }

    /// Whether the end of a turn needs no barrier of this thread's.
    #[inline(always)]
    pub(super) fn ends_turn_lazily(&self, slot: usize, turn: Turn) -> bool {
        self.is_lazy && self.worker.slots().announced[slot % SLOTS].get() != turn.number()
    }

    /// [`Handle::store_turn`] where that [is so](Handle::ends_turn_lazily).
    #[inline(always)]
    pub(super) fn end_turn_lazily(&self, slot: usize, turn: Turn) {
        self.worker.slots().turns[slot % SLOTS].set(turn.0);
        let own = self.own(slot);
        self.store_and_notify(own.turn(), turn.0, own.event_count());
    }

    /// Promises that this worker will announce the end of a queued slot's turn: its waiters then need no barrier.
    pub(super) fn promise_to_announce(&self, slot: usize) {
        if self.is_lazy {
            let number = self.turn(slot).number();
            self.worker.slots().announced[slot % SLOTS].set(number);
            // PAIRS WITH: sync::wait_queue::wait_in_front
            self.own(slot).announced().store(self.mem(), number);
        }
    }

    /// Finds a slot for this lock, and marks it used.
    ///
    /// Cost: nothing if the last use of the slot was for this lock, else two stores, and a load for each slot that is
    /// read.
    #[inline]
    pub(super) fn claim(&self) -> Result<usize> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        self.refuse_twice(SLOTS)?;
        self.claim_another()
    }

    /// [`Handle::claim`] for locks that a thread may have several times.
    #[inline]
    pub(super) fn claim_another(&self) -> Result<usize> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        match self.ready() {
            Some(slot) => {
                self.enter(slot);
                Ok(slot)
            }
            None => self.claim_slowly(),
        }
    }

    /// Whether none of this worker's slots is used, so none for this lock.
    #[inline]
    pub(super) fn is_only_use(&self) -> bool {
        let own = self.worker.slots();
        (0..own.most.get().min(SLOTS)).all(|slot| !own.used[slot].get())
    }

    /// Fails if a slot other than `but` is used for this lock: a thread that waits for its own lock waits for ever.
    pub(super) fn refuse_twice(&self, but: usize) -> Result<()> {
        let own = self.worker.slots();
        let holds = |slot: usize| own.used[slot].get() && own.locks[slot].get() == self.object.offset();
        match (0..own.most.get().min(SLOTS)).any(|slot| slot != but && holds(slot)) {
            true => Err(Error::Deadlock),
            false => Ok(()),
        }
    }

    #[cold]
    fn claim_slowly(&self) -> Result<usize> {
        let free = || (0..SLOTS).filter(|&slot| !self.worker.slots().used[slot].get());
        let names = |slot: &usize| self.worker.slots().locks[*slot].get() == self.object.offset();
        let other = |slot: &usize| !names(slot);
        let mut order = free().filter(names).chain(free().filter(other));
        if let Some(slot) = order.find(|&slot| self.is_at_rest(slot)) {
            return Ok(self.take(slot));
        }
        // All stand in queues. Those with nobody alive in front of them can be recovered.
        let mut error = Error::TooManyLocks { limit: SLOTS };
        for slot in free() {
            if let Err(damage) = recovery::recover_slot(&self.worker, self.own(slot)) {
                error = damage;
            }
            if self.is_at_rest(slot) {
                return Ok(self.take(slot));
            }
        }
        Err(error)
    }

    fn is_at_rest(&self, slot: usize) -> bool {
        let state = Turn(self.own(slot).turn().load(self.mem())).state();
        state == SlotState::Rest || mutant::is(Mutant::SlotTakenStanding)
    }

    /// Names the lock in a slot that is not used.
    fn take(&self, slot: usize) -> usize {
        let (mem, slots, own) = (self.mem(), self.worker.slots(), self.own(slot));
        slots.used[slot].set(true);
        slots.most.set(slots.most.get().max(slot + 1));
        slots.locks[slot].set(self.object.offset());
        slots.incarnations[slot].set(u64::MAX);
        slots.turns[slot].set(own.turn().load(mem));
        // PAIRS WITH: sync::queue_walk::walk_queue_by, sync::rw::read_by, sync::recovery::recover_in
        own.owner().store(mem, self.mine());
        // PAIRS WITH: sync::recovery::recover_and_notify, sync::rw::read_by
        own.lock().store(mem, self.object.offset());
        self.slot.set(slot);
        slot
    }

    /// Ends the use of a slot that is at rest.
    #[inline]
    pub(super) fn release(&self, slot: usize) {
        self.worker.slots().used[slot % SLOTS].set(false);
    }

    /// Ends the use of a slot that still stands in a queue: its next use reads it first.
    pub(super) fn leave(&self, slot: usize) {
        self.worker.slots().locks[slot % SLOTS].set(0);
        self.release(slot);
    }
}
