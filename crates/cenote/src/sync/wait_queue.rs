//! The queue of waiters: a list of slots in the order in which they joined, as in the lock of Craig and of Landin and
//! Hagersten. Each waiter watches the slot in front of it, so it knows whose life to check when nothing moves (decision
//! 0020).
//!
//! **Words.** The end of the queue: 0; of a queue lock the word that is free in its incarnation; the [`SlotRef`] of the
//! slot that stands there; or with [`DIRTY`] the identity of an owner that died and had nobody behind it. A slot in the
//! queue says in `before` what the end was when it joined; later, what it stands behind since others in front of it
//! have gone.
//!
//! **Joining.** `before`, then `turn` = queued with a new number, then the compare-exchange of the end. **First** is a
//! slot that stands behind nobody: `before` is 0, free, dirty, or a slot that is at rest or in a later turn. **Leaving
//! the front** is one store: at rest. Nothing refers to a turn that is over, so a slot can be used again at once.
//!
//! **A crash** leaves a slot that is queued, and its worker gone. It is in the queue if the end is its place, or
//! another slot has it in `before`; else it has not joined. The waiter behind it checks whether it is gone, and looks
//! past it. Either a living worker stands further in front; or none does, and the dead one was first. The waiter that
//! finds that is first now, is told, and puts the slots it went past at rest, from the front on: until it has finished,
//! if it dies itself, the next waiter behind it finds them the same way. If nobody is behind,
//! [recovery](super::recovery) makes the end dirty.
//!
//! **Giving up.** `turn` = left, for good. If nobody stands behind, the end becomes what the slot stood behind, and the
//! slot is at rest; if what it stood behind has left too, it is taken off the end. Else the waiter behind goes past.
//!
//! **Going past** a slot that has left or died, while a living worker stands further in front: `before` names the
//! living worker's slot, then the slots between are put at rest.
//!
//! So a reference to a slot can move, from a slot that is about to be put at rest to the one behind it, or to the end.
//! Between the two steps `unlinks` is incremented: a search for a reference that finds none is repeated if `unlinks`
//! has changed meanwhile.

use super::held::Handle;
use super::owner_word::is_nobody;
use super::queue_walk::{DIRTY, Front, LiveSlot, count_unlink, put_at_rest, walk_queue_by};
use super::recovery::recover_end;
use super::sleep::{death_slot_of, sleep};
use super::wait::{Next, Waiting};
use crate::error::Result;
use crate::memory::checked::word_line;
use crate::memory::{LINE, Memory};
use crate::mutant::{self, Mutant};
use crate::pod::format::lock_slots::{SlotRef, SlotState, Turn};
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::lock::is_gone;
use crate::pod::names::rename::COUNT_AT;

/// How a slot's wait to become first ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// Nobody alive is in front.
    First {
        /// The former owner to be told of, if there is one.
        from: Option<u64>,
    },
    /// The timeout ended first.
    TimedOut,
}

impl<M: Memory> Handle<M> {
    /// The end of the queue. On incoherent memory, for a queue lock, also its incarnation, read after it from the same
    /// line.
    #[inline]
    fn peek_end(&self) -> (u64, Option<u64>) {
        if M::COHERENT || self.end != self.word() {
            // PAIRS WITH: sync::wait_queue::Handle::join, sync::queue::poison
            return (self.end.load(self.mem()), None);
        }
        let line = word_line(self.end.offset()).fetch(self.mem());
        (line[0], Some(line[(COUNT_AT - LINE) as usize / 8]))
    }

    /// Joins the queue with a slot. Returns what the slot stands behind, and the incarnation of the lock if it was read
    /// after that.
    #[inline]
    pub(super) fn join(&self, slot: usize) -> (u64, Option<u64>) {
        let (mem, word, own) = (self.mem(), self.end, self.own(slot));
        let turn = self.turn(slot).next(SlotState::Queued);
        let place = self.place(slot, turn);
        let (mut end, mut incarnation) = self.peek_end();
        // PAIRS WITH: sync::queue_walk::walk_queue_by, sync::recovery::is_met
        own.before().store(mem, end);
        self.set_turn_queued(slot, turn);
        crash_point(Point::QueueIntent);
        // If all that join tried again at once, each success would make all others fail once more, one after another.
        // PAIRS WITH: sync::wait_queue::Handle::peek_end, sync::recovery::is_met
        while let Err(found) = word.compare_exchange(mem, end, place.0) {
            (end, incarnation) = match self.back_off.lost(mem) {
                true => self.peek_end(),
                false => (found, None),
            };
            if !mutant::is(Mutant::BeforeKept) {
                // PAIRS WITH: sync::queue_walk::walk_queue_by, sync::recovery::is_met
                own.before().store(mem, end);
            }
        }
        self.has_joined(slot, turn);
        (end, incarnation)
    }

    /// Says that a slot is about to join the queue.
    #[inline]
    fn set_turn_queued(&self, slot: usize, turn: Turn) {
        if !mutant::is(Mutant::QueuedLate) {
            self.set_turn(slot, turn);
        }
    }

    /// After a slot has joined the queue.
    #[inline]
    fn has_joined(&self, slot: usize, turn: Turn) {
        self.back_off.won();
        mutant::also(Mutant::QueuedLate, || self.set_turn(slot, turn));
    }

    /// Whether a slot with this `before` is first, and there is no dead owner to be told of.
    #[inline]
    pub(super) fn is_first(&self, before: u64) -> bool {
        if before == self.end_free || before & DIRTY != 0 {
            return before == self.end_free;
        }
        let Some(slot) = SlotRef(before).slot(self.worker.geometry()) else {
            return false;
        };
        // PAIRS WITH: sync::held::Handle::store_and_notify, sync::held::Handle::store_and_notify_with_barrier
        Turn(slot.turn().load(self.mem())).is_over(SlotRef(before).number())
    }

    /// Waits until nobody alive is in front.
    #[cold]
    pub(super) fn wait_in_front(&self, slot: usize, mut before: u64, waiting: &mut Waiting) -> Result<Wait> {
        self.promise_to_announce(slot);
        let mut asks = before & DIRTY != 0 || is_nobody(before) || waiting.is_immediate();
        let (mut is_last, mut is_hasty) = (false, false);
        loop {
            let mut held = None;
            if asks {
                let worker = &*self.worker;
                // Before the first sleep, a death slot is proof enough that a worker lives, without a system call: this
                // one is about to sleep on it.
                let gone = |owner| match is_hasty && death_slot_of(worker, owner).is_some() {
                    true => Ok(false),
                    false => is_gone(worker, owner),
                };
                let front = walk_queue_by(worker, self.object, before, gone)?;
                let Some(standing) = front.held else {
                    crash_point(Point::QueuePassed);
                    put_at_rest(&self.worker, &front);
                    return Ok(Wait::First { from: front.from });
                };
                if !front.past.is_empty() {
                    self.go_past(slot, &front, standing);
                    before = standing.place.0;
                }
                held = Some(standing);
            }
            asks = match waiting.lose(self.mem()) {
                Next::Look => false,
                Next::Question => true,
                Next::Sleep(longest) => {
                    is_hasty = held.is_none();
                    if let Some(of) = held {
                        let goes_on = || of.slot.turn().load(self.mem()) == of.turn.0;
                        // PAIRS WITH: sync::held::Handle::promise_to_announce
                        let is_announced =
                            M::COHERENT && of.slot.announced().load(self.mem()) == of.turn.number();
                        sleep(
                            &self.worker,
                            of.slot.event_count(),
                            of.owner,
                            is_announced,
                            longest,
                            goes_on,
                        );
                    }
                    true
                }
                // A last check: nobody fails because of a dead worker.
                Next::GiveUp if (!asks || is_hasty) && !is_last => {
                    (is_last, is_hasty) = (true, false);
                    true
                }
                Next::GiveUp => return Ok(Wait::TimedOut),
            };
            if self.is_first(before) {
                return Ok(Wait::First { from: None });
            }
        }
    }

    /// Makes a slot stand behind a living worker, not behind the slots between, whose workers are dead or have left.
    fn go_past(&self, slot: usize, front: &Front, behind: LiveSlot) {
        let own = self.own(slot);
        if !mutant::is(Mutant::PastNotUnlinked) {
            // PAIRS WITH: sync::queue_walk::walk_queue_by, sync::recovery::is_met
            own.before().store(self.mem(), behind.place.0);
            crash_point(Point::QueueRelinked);
            count_unlink(self.mem(), self.object);
        }
        put_at_rest(&self.worker, front);
    }

    /// Leaves the queue.
    pub(super) fn give_up(&self, slot: usize) {
        let (turn, mem) = (self.turn(slot), self.mem());
        self.store_turn(slot, turn.to(SlotState::Left));
        crash_point(Point::QueueLeft);
        let before = self.own(slot).before().load(mem);
        let place = self.place(slot, turn);
        // NO PAIR: claim
        if self.end.compare_exchange_acquire(mem, place.0, before).is_err() {
            return self.leave(slot);
        }
        crash_point(Point::QueueUnlinked);
        count_unlink(mem, self.object);
        // A slot in front that has left meanwhile relies on being gone past. Damage is for others to report.
        let has_left = SlotRef(before).slot(self.worker.geometry()).is_some_and(|front| {
            let turn = Turn(front.turn().load(mem));
            turn.state() == SlotState::Left && turn.number() == SlotRef(before).number()
        });
        if has_left && !mutant::is(Mutant::LeftInFrontKept) {
            let _ = recover_end(&self.worker, self.object);
        }
        self.set_turn(slot, turn.to(SlotState::Rest));
        self.release(slot);
    }
}
