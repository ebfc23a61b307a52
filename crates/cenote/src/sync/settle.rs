//! What recovery does with the locks of a dead worker, before its place is used again.
//!
//! For each slot of the place, by the lock that it names: a spin lock or reader-writer lock that names the dead one says from then
//! on that its owner has gone; a shared hold ends. In a queue a slot of the dead must be seen by whoever stands behind it. If
//! nobody does, and nobody alive is in front, the lock's word is made dirty and takes the slot's place. If nobody refers to the
//! slot at all it never joined, or its end was not written down: it is put at rest.
//!
//! *Why that is certain.* A slot that joined is the word, until the word becomes the place of the next one, which refers to it, or
//! dirty. The next one refers to it until it has been put at rest. So a slot that is not at rest, before and after a look at the word and
//! then at all slots that finds nothing which refers to it, is not in the queue. Slots never leave a queue otherwise: not
//! by giving up either.
//!
//! **A crash** anywhere here leaves slots that the next recovery of the place finds again. All steps are compare-exchanges of
//! values that come once.

use super::object::{Form, Object};
use super::owner::free_of;
use super::queue::{DIRTY, dirty, look_along, pass, pass_the_dead, put_at_rest, rest};
use crate::error::Result;
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::crash::{Point, crash_point};
use crate::pod::lock::is_gone;
use crate::pod::slots::{Place, SLOTS, Slot, Stand, Turn};

/// Ends what the dead worker of a place holds and waits for, as far as that can be ended now. The hook of
/// [`Hooks::settle_held`](crate::pod::process::Hooks::settle_held).
///
/// Cost: a load for each slot that was never used; some for each lock; for a slot that stands in a queue a look at all slots.
pub fn settle_held<M: Memory>(worker: &Worker<M>, place: u32) -> Result<()> {
    if mutant::is(Mutant::HeldNotSettled) {
        return Ok(());
    }
    for n in 0..SLOTS {
        settle_slot(worker, Slot::new(worker.geometry(), place, n))?;
    }
    crash_point(Point::RecoverHeld);
    Ok(())
}

/// The same for one slot, whose worker is gone, or this one and does not use it.
pub(super) fn settle_slot<M: Memory>(worker: &Worker<M>, slot: Slot) -> Result<()> {
    let mem = worker.mem();
    let lock = slot.lock().load(mem);
    if lock == 0 {
        return Ok(());
    }
    let object = Object::at(worker, lock)?;
    let turn = Turn(slot.turn().load(mem));
    if object.form() == Form::Queue {
        if turn.stand() == Stand::Rest {
            return Ok(());
        }
        settle_end(worker, object)?;
        return settle_unseen(worker, object, slot);
    }
    if turn.stand() != Stand::Rest {
        let _ = slot
            .turn()
            .compare_exchange_acquire(mem, turn.0, turn.to(Stand::Rest).0);
    }
    let owner = slot.owner().load(mem);
    if is_gone(worker, owner)? {
        free_of(worker, object.word(), owner);
    }
    Ok(())
}

/// If all who stand in a queue are gone or have left, ends it.
fn settle_end<M: Memory>(worker: &Worker<M>, object: Object) -> Result<()> {
    let mem = worker.mem();
    let end = object.word().load(mem);
    let mut front = look_along(worker, object, end)?;
    if front.is_held {
        pass_the_dead(worker, &front);
        return Ok(());
    }
    if front.past.is_empty() || !pass(worker, &mut front) {
        return Ok(());
    }
    let word = front.from.map_or(0, dirty);
    if object.word().compare_exchange_acquire(mem, end, word).is_ok() {
        crash_point(Point::QueueEnded);
        put_at_rest(worker, &front);
    }
    Ok(())
}

/// Puts a slot at rest that nothing refers to, and those in front of it to which then nothing does. The foremost first: else a
/// crash would leave one whose worker has been recovered before.
fn settle_unseen<M: Memory>(worker: &Worker<M>, object: Object, slot: Slot) -> Result<()> {
    let mem = worker.mem();
    let mut unseen: Vec<(Slot, Turn)> = Vec::new();
    let mut next = Some((slot, Turn(slot.turn().load(mem))));
    while let Some((slot, turn)) = next.take() {
        let is_standing = !turn.is_over(turn.number());
        if !is_standing || is_seen(worker, object, slot, turn, &unseen) {
            break;
        }
        unseen.push((slot, turn));
        let before = slot.before().load(mem);
        let Some(front) = place_of(before).and_then(|place| place.slot(worker.geometry())) else {
            break;
        };
        let turn = Turn(front.turn().load(mem));
        if !turn.is_over(Place(before).number()) && is_gone(worker, front.owner().load(mem))? {
            next = Some((front, turn));
        }
    }
    for (slot, turn) in unseen.iter().rev() {
        rest(worker, *slot, *turn);
    }
    Ok(())
}

/// The place that a word of a queue is, if it is one.
fn place_of(word: u64) -> Option<Place> {
    (word != 0 && word & DIRTY == 0).then_some(Place(word))
}

/// Whether the lock's word or a slot, other than those that are known to be in no queue, refers to a slot in a turn.
fn is_seen<M: Memory>(
    worker: &Worker<M>,
    object: Object,
    slot: Slot,
    turn: Turn,
    unseen: &[(Slot, Turn)],
) -> bool {
    let mem = worker.mem();
    let is_it = |word: u64| {
        place_of(word).is_some_and(|place| {
            place.slot(worker.geometry()) == Some(slot) && place.number() == turn.number()
        })
    };
    if is_it(object.word().load(mem)) {
        return true;
    }
    (0..worker.pod().workers_high())
        .flat_map(|place| (0..SLOTS).map(move |n| (place, n)))
        .map(|(place, n)| Slot::new(worker.geometry(), place, n))
        .filter(|other| *other != slot && !unseen.iter().any(|(known, _)| known == other))
        .any(|other| {
            let turn = Turn(other.turn().load(mem));
            !turn.is_over(turn.number())
                && is_it(other.before().load(mem))
                && !mutant::is(Mutant::SeenPutAtRest)
        })
}
