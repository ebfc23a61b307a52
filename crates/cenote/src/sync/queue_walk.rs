//! Walks through the queue of a lock, from its end to the front, and what is done with the slots that are met: see
//! [`wait_queue`](super::wait_queue).

use super::object::Object;
use super::owner_word::is_nobody;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::format::lock_slots::{SLOTS, Slot, SlotRef, SlotState, Turn};
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::lock::is_gone;

/// Marks the end of a queue whose first worker died or panicked, and has had no successor yet.
pub const DIRTY: u64 = 1 << 63;

/// The end of a queue that names a worker that has gone.
pub(super) fn dirty(identity: u64) -> u64 {
    DIRTY | identity & 0xffff | identity >> 32 << 16
}

/// The identity in such a word.
pub(super) fn former(word: u64) -> u64 {
    word & 0xffff | (word >> 16 & 0xffff_ffff) << 32
}

/// A slot whose worker lives.
#[derive(Clone, Copy)]
pub(super) struct LiveSlot {
    pub(super) place: SlotRef,
    pub(super) slot: Slot,
    pub(super) turn: Turn,
    pub(super) owner: u64,
}

/// What is in front of a slot.
pub(super) struct Front {
    /// The nearest living worker, if there is one: then the waiter goes on waiting.
    pub(super) held: Option<LiveSlot>,
    /// The last first worker, if it died or panicked.
    pub(super) from: Option<u64>,
    /// The slots to go past, the nearest first: of dead workers, and of workers that have left.
    pub(super) past: Vec<(Slot, Turn)>,
}

/// Walks a queue from its end, or a `before`, to the front.
pub(super) fn walk_queue<M: Memory>(worker: &Worker<M>, object: Object, from: u64) -> Result<Front> {
    walk_queue_by(worker, object, from, |owner| is_gone(worker, owner))
}

/// The same; the caller decides whether the owner of a slot `is_gone`.
pub(super) fn walk_queue_by<M: Memory>(
    worker: &Worker<M>,
    object: Object,
    from: u64,
    is_gone: impl Fn(u64) -> Result<bool>,
) -> Result<Front> {
    let mem = worker.mem();
    let mut front = Front {
        held: None,
        from: None,
        past: Vec::new(),
    };
    let mut at = from;
    let most = u64::from(worker.geometry().parameters.workers) * SLOTS as u64;
    for _ in 0..=2 * most {
        if at & DIRTY != 0 {
            front.from = front.from.or(Some(former(at)));
        }
        if at & DIRTY != 0 || is_nobody(at) {
            return Ok(front);
        }
        let place = SlotRef(at);
        let Some(slot) = place.slot(worker.geometry()) else {
            break;
        };
        // PAIRS WITH: sync::held::Handle::set_turn
        let turn = Turn(slot.turn().load(mem));
        if turn.is_over(place.number()) {
            return Ok(front);
        }
        match turn.state() {
            SlotState::Left => front.past.push((slot, turn)),
            SlotState::Poisoned => {
                front.from = front.from.or(Some(slot.owner().load(mem)));
                front.past.push((slot, turn));
                return Ok(front);
            }
            SlotState::Queued => {
                // PAIRS WITH: sync::held::Handle::take
                let owner = slot.owner().load(mem);
                if !is_gone(owner)? {
                    front.held = Some(LiveSlot {
                        place,
                        slot,
                        turn,
                        owner,
                    });
                    return Ok(front);
                }
                // It may have ended its turn before it died.
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
            SlotState::Rest | SlotState::Reading | SlotState::Waiting | SlotState::Damaged => break,
        }
        // PAIRS WITH: sync::wait_queue::Handle::join, sync::wait_queue::Handle::go_past, sync::queue::leave_removed
        at = slot.before().load(mem);
    }
    Err(Error::corrupt("the queue of a lock", object.offset()))
}

/// Puts the slots gone past at rest, from the front on.
pub(super) fn put_at_rest<M: Memory>(worker: &Worker<M>, front: &Front) {
    for (n, (slot, turn)) in front.past.iter().rev().enumerate() {
        if n > 0 {
            crash_point(Point::QueueHalfPassed);
        }
        rest(worker, *slot, *turn);
    }
}

/// Ends the turn of a slot whose worker is gone or has left. If it fails, another worker has done so.
pub(super) fn rest<M: Memory>(worker: &Worker<M>, slot: Slot, turn: Turn) {
    // PAIRS WITH: sync::recovery::is_met
    let _ = slot
        .turn()
        .compare_exchange_acquire(worker.mem(), turn.0, turn.to(SlotState::Rest).0);
}

/// Counts a reference that has moved, before the slot that it was in is put at rest.
pub(super) fn count_unlink<M: Memory>(mem: &M, object: Object) {
    if !mutant::is(Mutant::UnlinkNotCounted) {
        // PAIRS WITH: sync::recovery::is_queued
        object.unlinks().fetch_add(mem, 1);
    }
}
