//! What recovery does with the locks of a dead worker, before its place is used again.
//!
//! For each slot of the place, by the lock that it names: a word that names the dead worker is marked *owner died*; a
//! shared hold ends. In a queue, the waiter behind a dead slot must see it. If there is none, and nobody alive is in
//! front, recovery makes the end of the queue dirty, which takes the slot's place. If nobody refers to the slot at all,
//! it never joined, or its end was not written down: recovery puts it at rest. The threads that sleep for the dead
//! worker are woken: the kernel wakes only one of those that sleep on a death slot, and that may be the recoverer. So
//! are those that the dead worker may have notified without a call that wakes.
//!
//! *Why it is certain that a slot is in no queue.* From the end of the queue `before` leads to each slot that stands in
//! it, up to one whose turn is over, with which all in front of it are over. A slot joins behind the end, so this path
//! stays as it was. A worker that goes past a slot, or leaves the end, changes the path, increments `unlinks`, and then
//! ends a turn that was on the path. So if a slot that is not at rest is not met, and `unlinks` is after that what it
//! was before, the slot is not in the queue. Others may still have it in their `before`: they tried to join behind it
//! and failed.
//!
//! **A crash** anywhere here leaves slots that the next recovery of the place finds again. All steps are
//! compare-exchanges of values that come once.

use super::object::{LockKind, Object};
use super::owner_word::{free_of, is_nobody};
use super::queue_walk::{DIRTY, count_unlink, dirty, put_at_rest, rest, walk_queue};
use crate::error::Result;
use crate::memory::{Memory, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::format::lock_slots::{SLOTS, Slot, SlotRef, SlotState, Turn};
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::event_count;
use crate::pod::lock::is_gone;

/// Ends what the dead worker of a place holds and waits for, as far as that can be ended now. The hook of
/// [`Hooks::recover_held`](crate::pod::instance::hooks::Hooks::recover_held).
///
/// Cost: a load for each slot that was never used; for each lock that has a queue a scan of all slots and, for those
/// that stand in it, a walk of the queue.
pub fn recover_held<M: Memory>(worker: &Worker<M>, place: u32) -> Result<()> {
    if mutant::is(Mutant::HeldNotRecovered) {
        return Ok(());
    }
    // A damaged lock does not keep the others from being recovered.
    let mut outcome = Ok(());
    let mut locks = [0; SLOTS];
    for n in 0..SLOTS {
        let slot = Slot::new(worker.geometry(), place, n);
        outcome = outcome.and(recover_dead_slot(worker, slot));
        // Whatever state the slot is in: its worker may have died while it went past others.
        let lock = slot.lock().load(worker.mem());
        if lock != 0 && !locks.contains(&lock) {
            locks[n] = lock;
            let passed = Object::at(worker, lock).and_then(|object| recover_passed(worker, object));
            outcome = outcome.and(passed);
        }
    }
    crash_point(Point::RecoverHeld);
    outcome
}

/// The same for one slot.
fn recover_dead_slot<M: Memory>(worker: &Worker<M>, slot: Slot) -> Result<()> {
    recover_and_notify(worker, slot, event_count::notify_for_the_dead)
}

/// The same for a slot of this worker's own that it does not use.
pub(super) fn recover_slot<M: Memory>(worker: &Worker<M>, slot: Slot) -> Result<()> {
    recover_and_notify(worker, slot, event_count::notify_waiting)
}

fn recover_and_notify<M: Memory>(
    worker: &Worker<M>,
    slot: Slot,
    notify: impl Fn(&M, SyncWord),
) -> Result<()> {
    let mem = worker.mem();
    // PAIRS WITH: sync::held::Handle::take
    let lock = slot.lock().load(mem);
    if lock == 0 {
        return Ok(());
    }
    let object = Object::at(worker, lock)?;
    let outcome = recover_in(worker, object, slot);
    notify(mem, slot.event_count());
    notify(mem, object.event_count());
    outcome
}

/// The same, without waking anybody.
fn recover_in<M: Memory>(worker: &Worker<M>, object: Object, slot: Slot) -> Result<()> {
    let mem = worker.mem();
    let turn = Turn(slot.turn().load(mem));
    match turn.state() {
        SlotState::Rest => {}
        SlotState::Queued | SlotState::Left | SlotState::Poisoned | SlotState::Damaged => {
            recover_end(worker, object)?;
            recover_unseen(worker, object, slot, turn);
        }
        SlotState::Reading | SlotState::Waiting => rest(worker, slot, turn),
    }
    if object.kind() != LockKind::Queue {
        // PAIRS WITH: sync::held::Handle::take
        let owner = slot.owner().load(mem);
        if is_gone(worker, owner)? {
            free_of(worker, object.word(), owner);
            for (permit, _) in object.all_permits() {
                if permit.load(mem) == owner {
                    free_of(worker, permit, owner);
                }
            }
        }
    }
    Ok(())
}

/// Takes slots off the end of a queue whose workers are gone or have left. If all are, ends the queue.
pub(super) fn recover_end<M: Memory>(worker: &Worker<M>, object: Object) -> Result<()> {
    let (mem, word) = (worker.mem(), object.end());
    let mut end = word.load(mem);
    loop {
        let front = walk_queue(worker, object, end)?;
        let now = word.load(mem);
        if now != end {
            // The slot that stood there may have left meanwhile.
            end = now;
            continue;
        }
        if front.past.is_empty() {
            return Ok(());
        }
        // With a living worker in front, the dead ones behind it were never first: nobody is told of them.
        let next = match front.held {
            Some(behind) => behind.place.0,
            None => front
                .from
                .filter(|_| object.kind() == LockKind::Queue)
                .map_or(0, dirty),
        };
        // NO PAIR: claim
        match word.compare_exchange_acquire(mem, end, next) {
            Ok(_) => {
                crash_point(Point::QueueEnded);
                let Some(behind) = front.held else {
                    put_at_rest(worker, &front);
                    return Ok(());
                };
                count_unlink(mem, object);
                put_at_rest(worker, &front);
                if mutant::is(Mutant::LeftAtEndKept) {
                    return Ok(());
                }
                // It may have left before it stood at the end, and relies on being gone past.
                end = behind.place.0;
            }
            Err(found) => end = found,
        }
    }
}

/// Puts slots at rest whose workers have left or are gone, if nothing refers to them: the dead worker may have gone
/// past them. Also those at the end of the queue, which nobody stands behind. In any order, as all of the lock's are
/// looked at: those that a crash leaves are found when the place is recovered again.
fn recover_passed<M: Memory>(worker: &Worker<M>, object: Object) -> Result<()> {
    let mem = worker.mem();
    if object.kind() == LockKind::Spin {
        return Ok(());
    }
    let mut is_end_recovered = false;
    for slot in slots(worker) {
        let turn = Turn(slot.turn().load(mem));
        let state = turn.state();
        let may_be_passed = matches!(state, SlotState::Left | SlotState::Queued | SlotState::Poisoned);
        if !may_be_passed || slot.lock().load(mem) != object.offset() {
            continue;
        }
        if state == SlotState::Left && !is_end_recovered && !mutant::is(Mutant::LeftAtEndKept) {
            // The dead worker may have made it the end, as the slots behind it were of the dead.
            recover_end(worker, object)?;
            is_end_recovered = true;
        }
        if state == SlotState::Left || is_gone(worker, slot.owner().load(mem))? {
            recover_unseen(worker, object, slot, turn);
        }
    }
    Ok(())
}

/// The slots of all places that were ever used.
fn slots<M: Memory>(worker: &Worker<M>) -> impl Iterator<Item = Slot> {
    (0..worker.pod().workers_high())
        .flat_map(|place| (0..SLOTS).map(move |n| (place, n)))
        .map(|(place, n)| Slot::new(worker.geometry(), place, n))
}

/// Puts a slot at rest that is in no queue. In this turn alone, whose worker is gone or has left: in the next turn a
/// living worker may be about to join, and is not met either.
fn recover_unseen<M: Memory>(worker: &Worker<M>, object: Object, slot: Slot, seen: Turn) {
    let turn = turn_to_recover(worker.mem(), slot, seen);
    if !turn.is_over(turn.number()) && !is_queued(worker, object, slot, turn) {
        rest(worker, slot, turn);
    }
}

/// The turn in which a slot is put at rest: the one in which it was seen.
fn turn_to_recover<M: Memory>(mem: &M, slot: Slot, seen: Turn) -> Turn {
    match mutant::is(Mutant::NextTurnRecovered) {
        true => Turn(slot.turn().load(mem)),
        false => seen,
    }
}

/// The place that a word of a queue is, if it is one.
fn place_of(word: u64) -> Option<SlotRef> {
    (!is_nobody(word) && word & DIRTY == 0).then_some(SlotRef(word))
}

/// Whether a slot stands in the queue in a turn. It must not be joining in that turn now.
fn is_queued<M: Memory>(worker: &Worker<M>, object: Object, slot: Slot, turn: Turn) -> bool {
    let mut unlinks = object.unlinks().load(worker.mem());
    loop {
        if is_met(worker, object, slot, turn) {
            return !mutant::is(Mutant::SeenPutAtRest);
        }
        // PAIRS WITH: sync::queue_walk::count_unlink
        let now = object.unlinks().load(worker.mem());
        if now == unlinks || mutant::is(Mutant::UnlinkOverlooked) {
            return false;
        }
        unlinks = now;
    }
}

/// Whether a walk from the end of the queue to the front meets a slot in a turn. Also true if the queue is damaged and
/// has no front.
fn is_met<M: Memory>(worker: &Worker<M>, object: Object, slot: Slot, turn: Turn) -> bool {
    let mem = worker.mem();
    // PAIRS WITH: sync::wait_queue::Handle::join
    let mut at = object.end().load(mem);
    let most = u64::from(worker.geometry().parameters.workers) * SLOTS as u64;
    for _ in 0..=2 * most {
        let Some(place) = place_of(at) else {
            return false;
        };
        let Some(met) = place.slot(worker.geometry()) else {
            return true;
        };
        if met == slot && place.number() == turn.number() {
            return true;
        }
        // PAIRS WITH: sync::held::Handle::set_turn, sync::queue_walk::rest
        if Turn(met.turn().load(mem)).is_over(place.number()) {
            return false;
        }
        // PAIRS WITH: sync::wait_queue::Handle::go_past, sync::wait_queue::Handle::join, sync::queue::leave_removed
        at = met.before().load(mem);
    }
    true
}
