//! The exclusive hold of a mutex and of a reader-writer lock: a word that names its [owner](super::owner), with a
//! [queue](super::wait_queue) before it.
//!
//! **Taking it.** Whoever finds the word free may have it, also if others wait: they are asleep, and to wake one of them for each hold
//! takes longer than most holds. Who does not find it free joins the queue. Who stands foremost there sleeps by the lock's event count until the owner has
//! unlocked. If it was woken [`IN_VAIN`] times and somebody else was quicker, it says *queue first*: from then on whoever comes by joins the
//! queue, and the foremost has the lock next, but for those who had looked before: once each,
//! or [`UNASKED`] times where caches are incoherent. Who has the lock from the queue takes that back.
//!
//! Where holds last, those who come by would have the foremost woken in vain for each of them. So who has had the lock from the queue, and for longer than it takes to wake
//! somebody, says *queue first* itself before it unlocks, if anybody stands behind it.
//!
//! Who takes the word has nothing to say but who it is: an acquiring exchange, as in all locks here.
//!
//! **Giving it back.** The word, then the event count. Who had come through the queue stands foremost in it until then: the next one is woken when there is
//! something to be had, not before.
//!
//! **A removed lock** is had by nobody whose handle is older ([`owner`](super::owner)): who asks for it, or is about to sleep for its owner, asks
//! whether it was removed. The foremost is woken by the remover, and those behind it by each other, as each leaves.
//!
//! **A crash** of the owner is found by the foremost, who sleeps by the owner's death slot; one of the foremost by the one behind it; one of whoever
//! said *queue first* leaves that as it is, and the next one that has the lock from the queue takes it back. The queue passes no news on: who is told
//! of whom is said by the word.

use super::held::Handle;
use super::owner::{is_free, take_word};
use super::sleep::sleep_for_owner;
use super::wait::{Next, Waiting};
use super::wait_queue::walk_queue;
use crate::error::Result;
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::format::slots::{Stand, Turn};
use crate::pod::instance::crash::{Point, crash_point};

/// So often the foremost of a queue is woken for a lock that somebody else then has, before it says that it is to have it.
pub(super) const IN_VAIN: u32 = 4;
/// Where caches are incoherent, how often a handle takes the word for each time that it looks whether the queue goes first.
const UNASKED: u32 = 16;

impl<M: Memory> Handle<M> {
    /// Whether whoever comes by may take the word. Where caches are incoherent the question is another round trip: there it is asked once in
    /// [`UNASKED`] times.
    #[inline]
    pub(super) fn may_barge(&self) -> bool {
        if !M::COHERENT && !self.asks_now() {
            return true;
        }
        self.object.queue_first().load(self.mem()) == 0
    }

    fn asks_now(&self) -> bool {
        let unasked = self.unasked.get() + 1;
        self.unasked.set(unasked % UNASKED);
        unasked == UNASKED
    }

    /// Takes the word if nobody has it and nobody is to have it before; whether it did.
    #[inline]
    pub(super) fn take_at_once(&self) -> bool {
        // PAIRS WITH: sync::held::Handle::tell, sync::held::Handle::tell_apart
        self.may_barge()
            && self
                .word()
                .compare_exchange_acquire(self.mem(), self.free, self.mine())
                .is_ok()
    }

    /// Takes the word if nobody alive has it and nobody is to have it before; what it was.
    pub(super) fn try_take(&self) -> Result<Option<u64>> {
        let (mem, word) = (self.mem(), self.word());
        let may_barge = self.may_barge();
        // Who has said that the queue goes first may have died there since.
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

    /// Waits for the word with a slot that is used for it: what it was, or `None` if timeout ended before.
    #[cold]
    pub(super) fn take_patiently(&self, slot: usize, waiting: &mut Waiting) -> Result<Option<u64>> {
        if waiting.is_impatient() {
            return self.try_take();
        }
        // Most holds last for a moment. Until that is over, nothing is written.
        loop {
            if is_free(self.word().load(self.mem()))
                && let Some(seen) = self.try_take()?
            {
                return Ok(Some(seen));
            }
            match waiting.lose(self.mem()) {
                Next::Sleep(_) => break,
                Next::Look => {}
                // The dead do not make anybody wait.
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

    /// Joins the queue, and takes the word when it stands foremost. It stands there still if it has taken it.
    fn take_in_turn(&self, slot: usize, waiting: &mut Waiting) -> Result<Option<u64>> {
        if !self.stand_foremost(slot, waiting)? {
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

    /// Joins the queue; whether it stands foremost now, or timeout ended before.
    pub(super) fn stand_foremost(&self, slot: usize, waiting: &mut Waiting) -> Result<bool> {
        let (before, _) = self.join(slot);
        crash_point(Point::QueueJoined);
        let is_foremost = self.is_first(before) || self.wait_in_front(slot, before, waiting)?.is_some();
        waiting.begin_anew();
        Ok(is_foremost)
    }

    /// Waits, foremost in the queue, until nobody alive owns the word and `take` does; what that returns.
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
                // The dead do not make anybody wait.
                Next::GiveUp if !asks && !mutant::is(Mutant::GivenUpUnasked) => true,
                Next::GiveUp => return Ok(None),
                Next::Sleep(longest) => {
                    if in_vain >= IN_VAIN {
                        // NO PAIR: hint
                        self.object.queue_first().store(mem, 1);
                        crash_point(Point::QueueFirst);
                    }
                    in_vain += 1;
                    let seen = word.load(mem);
                    if !is_free(seen) {
                        // Who removes the lock notifies after that.
                        self.confirm()?;
                        sleep_for_owner(&self.worker, self.object, seen, longest);
                    }
                    true
                }
            };
        }
    }

    /// Whoever comes by may take the word again.
    pub(super) fn take_back_first(&self) {
        let first = self.object.queue_first();
        if first.load(self.mem()) != 0 {
            // NO PAIR: hint
            first.store(self.mem(), 0);
        }
    }

    /// Sets the word free, or to say of whom the next owner is told, and leaves the queue.
    #[inline]
    pub(super) fn give_back(&self, slot: usize, word: u64) {
        let turn = self.turn(slot);
        if turn.stand() == Stand::Queued {
            return self.give_back_queued(slot, turn, word);
        }
        self.tell(self.word(), word, self.object.event_count());
        self.release(slot);
    }

    /// The same by one who stands foremost in the queue.
    #[cold]
    #[inline(never)]
    fn give_back_queued(&self, slot: usize, turn: Turn, word: u64) {
        let mem = self.mem();
        let had = mem.kernel().now().saturating_sub(self.taken_at.get());
        if had >= self.worker.limits().long_hold_ns && self.end.load(mem) != self.place(slot, turn).0 {
            // NO PAIR: hint
            self.object.queue_first().store(mem, 1);
            crash_point(Point::QueueFirst);
        }
        self.tell(self.word(), word, self.object.event_count());
        self.tell_turn(slot, turn.to(Stand::Rest));
        self.release(slot);
    }
}
