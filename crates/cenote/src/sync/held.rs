//! The held-locks log: which slot of its annex a worker uses for which lock, and the handles' common part.
//!
//! Before a worker touches a lock's word, a slot of its names the lock. So whoever recovers the worker finds every lock that it
//! may hold. The name stays when the lock is unlocked; the next use of the same lock then writes nothing, and whether the worker
//! holds the lock is asked of the lock.
//!
//! **Who writes.** The worker, its own slots, while they are at rest or it uses them. What it knows of them it keeps in
//! [`OwnSlots`](crate::pod::slots::OwnSlots), so that a slot in use is found without a look at the pool.
//!
//! **A crash** leaves a slot that names a lock, and perhaps stands in its queue. [`settle`](super::settle) ends that. What cannot
//! be ended yet, because somebody alive stands in front, the slot keeps until whoever comes next goes past it; until then nobody
//! uses the slot, also not the place's next worker.

use std::cell::Cell;
use std::rc::Rc;

use super::Acquired;
use super::object::{Form, Object};
use super::settle;
use crate::error::{Error, Result};
use crate::memory::{ForkWatch, Memory, SyncWord, forked};
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::contention::Contention;
use crate::pod::lock::identity;
use crate::pod::slots::{Place, SLOTS, Slot, Stand, Turn};

/// A thread's handle on a lock of any form.
pub struct Handle<M: Memory> {
    pub(super) worker: Rc<Worker<M>>,
    pub(super) object: Object,
    /// What the fast paths need of the worker and the lock, so that an exchange waits for one load of its address, not for two.
    mem: M,
    watch: ForkWatch,
    word: SyncWord,
    mine: u64,
    me: u16,
    first: Slot,
    /// The slot used last.
    slot: Cell<usize>,
    /// How often exchanges of the word were lost to others who joined its queue.
    pub(super) contention: Contention,
    /// What the last owner was told that took the lock from a dead one through this handle.
    pub(super) told: Cell<Acquired>,
}

/// A slot that is ready to be used for a lock.
pub(super) struct Ready {
    pub(super) slot: usize,
    /// Whether it stands in the lock's queue still, since its worker gave up last time.
    pub(super) stands: bool,
}

impl<M: Memory> Handle<M> {
    pub(super) fn open_or_create(worker: Rc<Worker<M>>, name: &str, form: Form) -> Result<Self> {
        let object = Object::open_or_create(&worker, name, form)?;
        Ok(Self::new(worker, object))
    }

    pub(super) fn open(worker: Rc<Worker<M>>, name: &str, form: Form) -> Result<Self> {
        let object = Object::open(&worker, name, form)?;
        Ok(Self::new(worker, object))
    }

    fn new(worker: Rc<Worker<M>>, object: Object) -> Self {
        Self {
            mem: worker.mem().clone(),
            watch: worker.pod().watch(),
            word: object.word(),
            mine: identity(&worker),
            me: worker.me(),
            contention: Contention::new(u64::from(worker.me())),
            first: Slot::new(worker.geometry(), u32::from(worker.me() - 1), 0),
            worker,
            object,
            slot: Cell::new(0),
            told: Cell::new(Acquired::Clean),
        }
    }

    #[inline]
    pub(super) fn mem(&self) -> &M {
        &self.mem
    }

    /// Whether this process is a child of the worker's.
    #[inline]
    pub(super) fn is_forked(&self) -> bool {
        forked(self.watch)
    }

    /// The word that decides who owns the lock.
    #[inline]
    pub(super) fn word(&self) -> SyncWord {
        self.word
    }

    /// What the words of locks and slots are while this worker has them.
    #[inline]
    pub(super) fn mine(&self) -> u64 {
        self.mine
    }

    /// One of this worker's slots in a turn, as others refer to it.
    #[inline]
    pub(super) fn place(&self, slot: usize, turn: Turn) -> Place {
        Place::new(self.me, slot, turn)
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
        self.own(slot).turn().store(self.mem(), turn.0);
    }

    /// The slot used last, if it names this lock. Where a word says who has the lock, that tells whether the slot is used.
    #[inline]
    pub(super) fn named(&self) -> Option<usize> {
        let slot = self.slot.get() % SLOTS;
        let is_named = self.worker.slots().locks[slot].get() == self.object.offset();
        (is_named && !self.is_forked()).then_some(slot)
    }

    /// The slot used last, if it is free and names this lock. It is not used yet, and nobody has asked whether another of this worker's
    /// slots is used for the same lock: [`Handle::refuse_twice`].
    #[inline]
    pub(super) fn ready(&self) -> Option<usize> {
        self.named().filter(|&slot| !self.worker.slots().used[slot].get())
    }

    /// Uses a slot that is free.
    #[inline]
    pub(super) fn enter(&self, slot: usize) {
        self.worker.slots().used[slot % SLOTS].set(true);
    }

    /// Finds a slot that names this lock, and uses it.
    ///
    /// Cost: nothing if the last use of the slot was for this lock, else two stores and a load for each slot looked at.
    #[inline]
    pub(super) fn claim(&self) -> Result<Ready> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        self.refuse_twice(SLOTS)?;
        match self.ready() {
            Some(slot) => {
                self.enter(slot);
                Ok(Ready { slot, stands: false })
            }
            None => self.claim_slowly(),
        }
    }

    /// Whoever waits for what it has waits for ever: fails if another slot than one is used for this lock.
    pub(super) fn refuse_twice(&self, but: usize) -> Result<()> {
        let own = self.worker.slots();
        let holds = |slot: usize| own.used[slot].get() && own.locks[slot].get() == self.object.offset();
        match (0..own.most.get().min(SLOTS)).any(|slot| slot != but && holds(slot)) {
            true => Err(Error::Deadlock),
            false => Ok(()),
        }
    }

    #[cold]
    fn claim_slowly(&self) -> Result<Ready> {
        let free = || (0..SLOTS).filter(|&slot| !self.worker.slots().used[slot].get());
        if let Some(slot) = free().find(|&slot| self.come_back(slot)) {
            return Ok(self.take(slot, true));
        }
        let names = |slot: &usize| self.worker.slots().locks[*slot].get() == self.object.offset();
        let other = |slot: &usize| !names(slot);
        let mut order = free().filter(names).chain(free().filter(other));
        if let Some(slot) = order.find(|&slot| self.is_at_rest(slot)) {
            return Ok(self.take(slot, false));
        }
        // All stand in queues of locks. Where nobody alive is in front, they need not.
        for slot in free() {
            settle::settle_slot(&self.worker, self.own(slot))?;
            if self.is_at_rest(slot) {
                return Ok(self.take(slot, false));
            }
        }
        Err(Error::TooManyLocks { limit: SLOTS })
    }

    /// Has a slot that has left this lock's queue stand in it again, where it stood; whether it does.
    fn come_back(&self, slot: usize) -> bool {
        let (mem, own) = (self.mem(), self.own(slot));
        let turn = Turn(own.turn().load(mem));
        let is_ours = || own.lock().load(mem) == self.object.offset() && own.owner().load(mem) == self.mine();
        turn.stand() == Stand::Left
            && self.object.form() == Form::Queue
            && is_ours()
            && own
                .turn()
                .compare_exchange(mem, turn.0, turn.to(Stand::Queued).0)
                .is_ok()
    }

    fn is_at_rest(&self, slot: usize) -> bool {
        let stand = Turn(self.own(slot).turn().load(self.mem())).stand();
        stand == Stand::Rest || mutant::is(Mutant::SlotTakenStanding)
    }

    /// Names the lock in a slot that is nobody's.
    fn take(&self, slot: usize, stands: bool) -> Ready {
        let (mem, slots, own) = (self.mem(), self.worker.slots(), self.own(slot));
        slots.used[slot].set(true);
        slots.most.set(slots.most.get().max(slot + 1));
        slots.locks[slot].set(self.object.offset());
        slots.turns[slot].set(own.turn().load(mem));
        if !stands {
            own.owner().store(mem, self.mine());
            own.lock().store(mem, self.object.offset());
        }
        self.slot.set(slot);
        Ready { slot, stands }
    }

    /// Ends the use of a slot that is at rest.
    #[inline]
    pub(super) fn release(&self, slot: usize) {
        self.worker.slots().used[slot % SLOTS].set(false);
    }

    /// Ends the use of a slot that still stands in a queue: it must be looked at before it is used again.
    pub(super) fn leave(&self, slot: usize) {
        self.worker.slots().locks[slot % SLOTS].set(0);
        self.release(slot);
    }
}
