//! The exclusive hold of a mutex and of a reader-writer lock: a word that names its [owner](super::owner), with a
//! [queue](super::wait_queue) before it.
//!
//! **Taking it.** A thread that finds the word free may take it, even if others wait: they are asleep, and to wake one
//! of them for each hold takes longer than most holds. A thread that does not find it free joins the queue. The first
//! waiter sleeps on the lock's event count until the owner has unlocked. If it was woken [`WAKES_BEFORE_HANDOFF`] times
//! and another thread was quicker, it sets *handoff*: from then on newcomers join the queue, and the first waiter has
//! the lock next, except for threads that had read before: once each, or [`BARGES_UNCHECKED`] times where caches are
//! incoherent. A thread that takes the lock from the queue withdraws *handoff*.
//!
//! Where holds are long, newcomers would have the first waiter woken in vain for each of them. So an owner that took
//! the lock from the queue, and has had it for longer than it takes to wake a thread, says *handoff* itself before it
//! unlocks, if anybody stands behind it.
//!
//! Taking the word publishes nothing but the owner's identity, so it is an acquiring exchange, as in all locks here.
//!
//! **Giving it back.** The word, then the event count. An owner that came through the queue stands first in it until
//! then: the next waiter is woken when the lock is free, not before.
//!
//! **A removed lock** cannot be taken through an older handle ([`owner`](super::owner)): a thread that asks for it, or
//! is about to sleep for its owner, checks whether it was removed. The remover wakes the first waiter; each waiter, as
//! it leaves, wakes the one behind it.
//!
//! **A crash** of the owner is found by the first waiter, which sleeps on the owner's death slot; a crash of the first
//! waiter by the one behind it. A crash of a worker that said *handoff* leaves that as it is; the next owner that comes
//! through the queue withdraws it. The queue passes no news of deaths on: the word names the dead owner that the next
//! one is told of.

use super::held::Handle;
use super::owner_word::{is_free, take_word};
use super::queue_walk::walk_queue;
use super::sleep::sleep_for_owner;
use super::wait::{Next, Waiting};
use super::wait_queue::Wait;
use crate::error::Result;
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::format::lock_slots::{SlotState, Turn};
use crate::pod::instance::crash::{Point, crash_point};

/// How often the first waiter is woken in vain before it sets *handoff*.
pub(super) const WAKES_BEFORE_HANDOFF: u32 = 4;
/// Where caches are incoherent, how often a handle takes the word for each time that it checks whether handoff is set.
const BARGES_UNCHECKED: u32 = 16;

impl<M: Memory> Handle<M> {
    /// Whether a newcomer may take the word. Where caches are incoherent the check is another round trip: there it is
    /// made once in [`BARGES_UNCHECKED`] times.
    #[inline]
    pub(super) fn may_barge(&self) -> bool {
        if !M::COHERENT && !self.asks_now() {
            return true;
        }
        self.object.handoff().load(self.mem()) == 0
    }

    fn asks_now(&self) -> bool {
        let unasked = self.unasked.get() + 1;
        self.unasked.set(unasked % BARGES_UNCHECKED);
        unasked == BARGES_UNCHECKED
    }

    /// Takes the word if it is free and the queue does not go first. Returns whether it did.
    #[inline]
    pub(super) fn take_at_once(&self) -> bool {
        // PAIRS WITH: sync::held::Handle::store_and_notify, sync::held::Handle::store_and_notify_with_barrier
        self.may_barge()
            && self
                .word()
                .compare_exchange_acquire(self.mem(), self.free, self.mine())
                .is_ok()
    }

    /// Takes the word if nobody alive has it and the queue does not go first. Returns what it was.
    pub(super) fn try_take(&self) -> Result<Option<u64>> {
        let (mem, word) = (self.mem(), self.word());
        let may_barge = self.may_barge();
        // The waiter that said *handoff* may have died since.
        if !may_barge
            && walk_queue(&self.worker, self.object, self.end.load(mem))?
                .held
                .is_some()
        {
            return self.confirm().map(|()| None);
        }
        let seen = word.load(mem);
        if !self.is_to_be_had(seen, true)? {
            return Ok(None);
        }
        let Some(before) = take_word(mem, word, seen, self.mine()) else {
            return Ok(None);
        };
        self.confirm_taken(before)?;
        if !may_barge {
            self.take_back_first();
        }
        Ok(Some(before))
    }

    /// Waits for the word, with a slot that is used for it. Returns what it was, or `None` if the timeout ended first.
    #[cold]
    pub(super) fn take_waiting(&self, slot: usize, waiting: &mut Waiting) -> Result<Option<u64>> {
        if waiting.is_immediate() {
            return self.try_take();
        }
        // Most holds are short. Until polling ends, nothing is written.
        loop {
            if is_free(self.word().load(self.mem()))
                && let Some(seen) = self.try_take()?
            {
                return Ok(Some(seen));
            }
            match waiting.lose(self.mem()) {
                Next::Sleep(_) => break,
                Next::Look => {}
                // A last check: nobody fails because of a dead owner.
                Next::GiveUp => return self.try_take(),
                Next::Question => {
                    if let Some(seen) = self.try_take()? {
                        return Ok(Some(seen));
                    }
                }
            }
        }
        self.confirm()?;
        let taken = self.take_in_turn(slot, waiting);
        if !matches!(taken, Ok(Some(_))) {
            self.give_up(slot);
        }
        taken
    }

    /// Joins the queue, and takes the word when first. The slot stays in the queue if it has taken the word.
    fn take_in_turn(&self, slot: usize, waiting: &mut Waiting) -> Result<Option<u64>> {
        if !self.stand_first(slot, waiting)? {
            return Ok(None);
        }
        let seen = self.await_owner(waiting, |seen| {
            take_word(self.mem(), self.word(), seen, self.mine())
        })?;
        if let Some(seen) = seen {
            self.confirm_taken(seen)?;
            self.take_back_first();
            self.taken_at.set(self.mem().kernel().now());
        }
        Ok(seen)
    }

    /// Joins the queue, and waits until the slot is first; `false` if the timeout ended first.
    pub(super) fn stand_first(&self, slot: usize, waiting: &mut Waiting) -> Result<bool> {
        let (before, _) = self.join(slot);
        crash_point(Point::QueueJoined);
        let is_first = self.is_first(before) || self.wait_in_front(slot, before, waiting)? != Wait::TimedOut;
        waiting.begin_anew();
        Ok(is_first)
    }

    /// Waits, first in the queue, until nobody alive owns the word and `take` takes it. Returns what `take` returned.
    pub(super) fn await_owner(
        &self,
        waiting: &mut Waiting,
        take: impl Fn(u64) -> Option<u64>,
    ) -> Result<Option<u64>> {
        let (mem, word) = (self.mem(), self.word());
        let (mut asks, mut in_vain) = (true, 0);
        loop {
            let seen = word.load(mem);
            if self.is_to_be_had(seen, asks)?
                && let Some(taken) = take(seen)
            {
                return Ok(Some(taken));
            }
            asks = match waiting.lose(mem) {
                Next::Look => false,
                Next::Question => true,
                // A last check: nobody fails because of a dead owner.
                Next::GiveUp if !asks && !mutant::is(Mutant::GivenUpUnasked) => true,
                Next::GiveUp => return Ok(None),
                Next::Sleep(longest) => {
                    if in_vain >= WAKES_BEFORE_HANDOFF {
                        // NO PAIR: hint
                        self.object.handoff().store(mem, 1);
                        crash_point(Point::QueueHandoff);
                    }
                    in_vain += 1;
                    let seen = word.load(mem);
                    if !is_free(seen) {
                        // A remover notifies after that.
                        self.confirm()?;
                        sleep_for_owner(&self.worker, self.object, seen, longest);
                    }
                    true
                }
            };
        }
    }

    /// Withdraws *handoff*: newcomers may take the word again.
    pub(super) fn take_back_first(&self) {
        let first = self.object.handoff();
        if first.load(self.mem()) != 0 {
            // NO PAIR: hint
            first.store(self.mem(), 0);
        }
    }

    /// Sets the word free, or to the former owner of which the next one is told, and leaves the queue.
    #[inline]
    pub(super) fn give_back(&self, slot: usize, word: u64) {
        let turn = self.turn(slot);
        if turn.state() == SlotState::Queued {
            return self.give_back_queued(slot, turn, word);
        }
        self.store_and_notify(self.word(), word, self.object.event_count());
        self.release(slot);
    }

    /// The same for an owner that stands first in the queue.
    #[cold]
    #[inline(never)]
    fn give_back_queued(&self, slot: usize, turn: Turn, word: u64) {
        let mem = self.mem();
        let had = mem.kernel().now().saturating_sub(self.taken_at.get());
        if had >= self.worker.limits().long_hold_ns && self.end.load(mem) != self.place(slot, turn).0 {
            // NO PAIR: hint
            self.object.handoff().store(mem, 1);
            crash_point(Point::QueueHandoff);
        }
        self.store_and_notify(self.word(), word, self.object.event_count());
        self.store_turn(slot, turn.to(SlotState::Rest));
        self.release(slot);
    }
}
