//! The queue lock: first come, first served, as the MCS lock; whoever waits watches the slot in front of it, as in the lock of
//! Craig and of Landin and Hagersten, so that it knows whom to ask for when nothing moves (decision 0020).
//!
//! **Words.** The lock's word is the end of its queue: 0, the [`Place`] of the slot that stands there, or with [`DIRTY`] the
//! identity of an owner that died and had nobody behind it. A slot in the queue says in `before` what the word was when it
//! joined.
//!
//! **Joining.** `before`, then `turn` = queued with a new number, then the compare-exchange of the word. **Owning.** Whoever
//! stands behind nobody owns the lock: `before` is 0, dirty, or a slot that is at rest or in a later turn. So
//! **unlocking** is one store: at rest. Nothing refers to a turn that is over, so a slot can be used again at once.
//!
//! **A crash** leaves a slot that is queued, and its worker gone. Joined it has if the word is its place, or another slot
//! has it in `before`; else it has not. The slot behind it looks whether it is gone, and past it: in front of it somebody alive
//! waits or owns; or nobody does, then the dead one was the owner. Who finds that takes the lock, is told, and then puts
//! what it went past at rest, the foremost first: as long as it has not finished, it is found the same way by whoever comes
//! behind it, if it dies itself. If nobody is behind, [`settle`](super::settle) makes the word dirty.
//!
//! **Giving up.** `turn` = left. Whoever is behind goes past, and says so first (passed), by a compare-exchange: until
//! then the slot can come back, and then it owns the lock, if nobody is in front. When all that have left are passed, nobody
//! but the one who goes past them can own the lock.

use std::rc::Rc;
use std::time::Duration;

use super::Guard;
use super::guard::Release;
use super::held::{Handle, Ready};
use super::object::{Form, Object};
use super::wait::{Next, Patience, Waiting};
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::crash::{Point, crash_point};
use crate::pod::lock::is_gone;
use crate::pod::slots::{Place, SLOTS, Slot, Stand, Turn};

/// Marks the word of a lock whose last owner died or panicked, and has had no successor yet.
pub const DIRTY: u64 = 1 << 63;

/// The word that names an owner who has gone.
pub(super) fn dirty(identity: u64) -> u64 {
    DIRTY | identity & 0xffff | identity >> 32 << 16
}

/// The identity in such a word.
pub(super) fn former(word: u64) -> u64 {
    word & 0xffff | (word >> 16 & 0xffff_ffff) << 32
}

/// A queue lock, as one thread has it open.
pub struct QueueLock<M: Memory>(Handle<M>);

/// What is in front of somebody.
pub(super) struct Front {
    /// Whether somebody alive is: who waits, goes on waiting.
    pub(super) is_held: bool,
    /// The last owner, if it died or panicked.
    pub(super) from: Option<u64>,
    /// What must be gone past, the nearest first: slots of the dead, and of those who have left.
    pub(super) past: Vec<(Slot, Turn)>,
}

/// Looks along the queue, from a word or `before` to the front.
pub(super) fn look_along<M: Memory>(worker: &Worker<M>, object: Object, from: u64) -> Result<Front> {
    let mem = worker.mem();
    let mut front = Front {
        is_held: false,
        from: None,
        past: Vec::new(),
    };
    let mut at = from;
    let most = u64::from(worker.geometry().parameters.workers) * SLOTS as u64;
    for _ in 0..=2 * most {
        if at & DIRTY != 0 {
            front.from = front.from.or(Some(former(at)));
        }
        if at & DIRTY != 0 || at == 0 {
            return Ok(front);
        }
        let place = Place(at);
        let Some(slot) = place.slot(worker.geometry()) else {
            break;
        };
        let turn = Turn(slot.turn().load(mem));
        if turn.is_over(place.number()) {
            return Ok(front);
        }
        match turn.stand() {
            Stand::Left | Stand::Passed => front.past.push((slot, turn)),
            Stand::Abandoned => {
                front.from = front.from.or(Some(slot.owner().load(mem)));
                front.past.push((slot, turn));
                return Ok(front);
            }
            Stand::Queued => {
                let owner = slot.owner().load(mem);
                if !is_gone(worker, owner)? {
                    front.is_held = true;
                    return Ok(front);
                }
                // It may have unlocked before it died.
                if slot.turn().load(mem) != turn.0 && !mutant::is(Mutant::TurnNotReread) {
                    continue;
                }
                front.from = Some(owner);
                front.past.push((slot, turn));
                if mutant::is(Mutant::DeadTakenForOwner) {
                    return Ok(front);
                }
            }
            // The first three are over.
            Stand::Rest | Stand::Reading | Stand::Waiting | Stand::Damaged => break,
        }
        at = slot.before().load(mem);
    }
    Err(Error::corrupt("the queue of a lock", object.offset()))
}

/// Somebody alive is in front of the dead, so they died waiting: nobody needs to be told of them.
pub(super) fn pass_the_dead<M: Memory>(worker: &Worker<M>, front: &Front) {
    for (slot, turn) in &front.past {
        if turn.stand() == Stand::Queued {
            let _ = slot
                .turn()
                .compare_exchange_acquire(worker.mem(), turn.0, turn.to(Stand::Passed).0);
        }
    }
}

/// Has nobody come back who has left; whether that could be done.
pub(super) fn pass<M: Memory>(worker: &Worker<M>, front: &mut Front) -> bool {
    if mutant::is(Mutant::LeftNotPassed) {
        return true;
    }
    for (slot, turn) in &mut front.past {
        let passed = turn.to(Stand::Passed);
        if turn.stand() == Stand::Left {
            if slot
                .turn()
                .compare_exchange_acquire(worker.mem(), turn.0, passed.0)
                .is_err()
            {
                return false;
            }
            *turn = passed;
        }
    }
    true
}

/// Puts what was gone past at rest, the foremost first.
pub(super) fn put_at_rest<M: Memory>(worker: &Worker<M>, front: &Front) {
    for (n, (slot, turn)) in front.past.iter().rev().enumerate() {
        if n > 0 {
            crash_point(Point::QueueHalfPassed);
        }
        rest(worker, *slot, *turn);
    }
}

/// Ends the turn of a slot whose worker is gone or has left. Who saw somebody alive in front of it may say so late, when that one has
/// unlocked: the slot has become passed since it was read. It becomes that once, so a second exchange ends the turn, or
/// somebody else has.
pub(super) fn rest<M: Memory>(worker: &Worker<M>, slot: Slot, turn: Turn) {
    let (mem, word) = (worker.mem(), slot.turn());
    let (passed, rest) = (turn.to(Stand::Passed).0, turn.to(Stand::Rest).0);
    let found = word.compare_exchange_acquire(mem, turn.0, rest);
    if found == Err(passed) {
        let _ = word.compare_exchange_acquire(mem, passed, rest);
    }
}

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
    /// Cost if nobody has it: a load, two stores, a compare-exchange; a second load if another thread had it last; a store for the unlock.
    /// It fails if this thread has the lock already, holds too many, or is in a forked child.
    #[inline]
    pub fn lock(&self) -> Result<Guard<'_, M, Self>> {
        if let Some(slot) = self.0.ready() {
            self.0.enter(slot);
            let before = self.join(slot);
            crash_point(Point::QueueJoined);
            // Mostly this thread was the last one, too.
            if self.0.place(slot, self.0.turn(slot)).is_other_turn(before) || self.is_first(before) {
                return Ok(Guard::clean(self, slot));
            }
            return self.lock_slowly(Some((slot, before)));
        }
        self.lock_slowly(None)
    }

    #[cold]
    fn lock_slowly(&self, joined: Option<(usize, u64)>) -> Result<Guard<'_, M, Self>> {
        if let Some((slot, before)) = joined {
            if let Err(error) = self.0.refuse_twice(slot) {
                self.give_up(slot);
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
        match look_along(&handle.worker, handle.object, end)?.is_held {
            true => Ok(None),
            false => self.lock_with(Patience::None),
        }
    }

    /// Waits for the lock, but not longer than this. Who tries again stands where it stood, if nobody has gone past it.
    pub fn lock_for(&self, time: Duration) -> Result<Option<Guard<'_, M, Self>>> {
        self.lock_with(Patience::during(time))
    }

    /// Waits for the lock as patiently as told.
    pub fn lock_with(&self, patience: Patience) -> Result<Option<Guard<'_, M, Self>>> {
        let Ready { slot, stands } = self.0.claim()?;
        let before = match stands {
            true => self.0.own(slot).before().load(self.0.mem()),
            false => self.join(slot),
        };
        crash_point(Point::QueueJoined);
        if self.is_first(before) {
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
        match self.wait(before, patience) {
            Ok(Some(from)) => Ok(Some(Guard::new(self, slot, from))),
            other => {
                self.give_up(slot);
                other.map(|_| None)
            }
        }
    }

    /// Stands at the end of the queue, behind what is returned.
    #[inline]
    fn join(&self, slot: usize) -> u64 {
        let handle = &self.0;
        let (mem, word, own) = (handle.mem(), handle.word(), handle.own(slot));
        let turn = handle.turn(slot).next(Stand::Queued);
        let place = handle.place(slot, turn);
        let late = mutant::is(Mutant::QueuedLate);
        let mut end = word.load(mem);
        own.before().store(mem, end);
        if !late {
            handle.set_turn(slot, turn);
        }
        crash_point(Point::QueueIntent);
        // If all who join tried again at once, each success would have all others fail once more, one after another.
        while let Err(found) = word.compare_exchange(mem, end, place.0) {
            end = match handle.contention.lost(mem) {
                true => word.load(mem),
                false => found,
            };
            if !mutant::is(Mutant::BeforeKept) {
                own.before().store(mem, end);
            }
        }
        handle.contention.won();
        if late {
            handle.set_turn(slot, turn);
        }
        end
    }

    /// Whether nobody is in front of whoever stands behind this, and there is nobody to be told of.
    #[inline]
    fn is_first(&self, before: u64) -> bool {
        if before == 0 || before & DIRTY != 0 {
            return before == 0;
        }
        let Some(slot) = Place(before).slot(self.0.worker.geometry()) else {
            return false;
        };
        Turn(slot.turn().load(self.0.mem())).is_over(Place(before).number())
    }

    /// Waits until nobody alive is in front: whether the last owner is to be told of; `None` if patience ended before.
    #[cold]
    fn wait(&self, before: u64, patience: Patience) -> Result<Option<Option<u64>>> {
        let handle = &self.0;
        let mut waiting = Waiting::new(patience);
        let mut asks = before & DIRTY != 0 || patience == Patience::None;
        loop {
            if asks {
                let mut front = look_along(&handle.worker, handle.object, before)?;
                if front.is_held {
                    pass_the_dead(&handle.worker, &front);
                } else if pass(&handle.worker, &mut front) {
                    crash_point(Point::QueuePassed);
                    put_at_rest(&handle.worker, &front);
                    return Ok(Some(front.from));
                }
            }
            asks = match waiting.lose(handle.mem()) {
                Next::Look => false,
                Next::Question => true,
                Next::GiveUp => return Ok(None),
            };
            if self.is_first(before) {
                return Ok(Some(None));
            }
        }
    }

    /// Leaves the queue without having had the lock.
    fn give_up(&self, slot: usize) {
        let handle = &self.0;
        handle.set_turn(slot, handle.turn(slot).to(Stand::Left));
        crash_point(Point::QueueLeft);
        handle.leave(slot);
    }
}

impl<M: Memory> Release<M> for QueueLock<M> {
    #[inline]
    fn handle(&self) -> &Handle<M> {
        &self.0
    }

    #[inline]
    fn unlock(&self, slot: usize, abandoned: bool) {
        if abandoned {
            return self.abandon(slot);
        }
        let handle = &self.0;
        handle.set_turn(slot, handle.turn(slot).to(Stand::Rest));
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
        handle.set_turn(slot, turn.to(stand));
        handle.leave(slot);
    }
}
