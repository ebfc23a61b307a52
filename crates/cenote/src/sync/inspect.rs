//! Who holds a lock and who waits for it, for people to read. Nothing depends on it: while others change the lock, the
//! parts of the answer may not fit together.

use super::Owner;
use super::object::{LockKind, Object};
use super::owner_word::{OWNER_DIED, is_nobody};
use super::queue_walk::{DIRTY, former, walk_queue};
use crate::error::Result;
use crate::memory::Memory;
use crate::pod::Worker;
use crate::pod::format::lock_slots::{SLOTS, Slot, SlotRef, SlotState, Turn};
use crate::pod::lock::is_gone;

/// The most walks along a queue that others change.
const WALKS: u32 = 16;

/// A worker that holds a lock or waits for it.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Holder {
    /// The worker.
    #[serde(flatten)]
    pub who: Owner,
    /// Whether it lives.
    pub is_alive: bool,
}

/// The state of a lock.
#[derive(Clone, Debug, serde::Serialize)]
pub struct LockState {
    /// Which kind of lock it is.
    pub kind: LockKind,
    /// Who owns it exclusively. If that worker is not alive, the next owner will be told.
    pub owner: Option<Holder>,
    /// Who holds it shared, or has permits of a semaphore.
    pub readers: Vec<Holder>,
    /// Who waits for it, in no particular order.
    pub waiting: Vec<Holder>,
    /// What the owner says it is doing.
    pub note: u64,
    /// Of a directory lock that processes cache: how often one of them got it to write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfers: Option<u32>,
}

/// Reads the state of a lock.
///
/// Cost: up to three loads for each slot of the pool's workers; for a queue lock some more for each waiter.
pub fn inspect<M: Memory>(worker: &Worker<M>, object: Object) -> Result<LockState> {
    let mem = worker.mem();
    let holder = |identity: u64| -> Result<Holder> {
        Ok(Holder {
            who: Owner::of(identity),
            is_alive: identity & OWNER_DIED == 0 && !is_gone(worker, identity)?,
        })
    };
    let word = object.word().load(mem);
    let owner = match object.kind() {
        LockKind::Queue => owner_of_queue(worker, object)?,
        LockKind::Semaphore | LockKind::Condvar => None,
        _ if is_nobody(word) => None,
        _ => Some(word),
    };
    let mut seen = LockState {
        kind: object.kind(),
        owner: owner.map(holder).transpose()?,
        readers: Vec::new(),
        waiting: Vec::new(),
        note: object.note().load(mem),
        transfers: None,
    };
    for (permit, _) in object.all_permits() {
        let word = permit.load(mem);
        if !is_nobody(word) {
            seen.readers.push(holder(word)?);
        }
    }
    for (place, n) in (0..worker.pod().workers_high()).flat_map(|place| (0..SLOTS).map(move |n| (place, n))) {
        let slot = Slot::new(worker.geometry(), place, n);
        let state = Turn(slot.turn().load(mem)).state();
        if state == SlotState::Rest || slot.lock().load(mem) != object.offset() {
            continue;
        }
        let who = slot.owner().load(mem);
        match state {
            SlotState::Reading => seen.readers.push(holder(who)?),
            SlotState::Waiting => seen.waiting.push(holder(who)?),
            SlotState::Queued if Some(who) != owner => seen.waiting.push(holder(who)?),
            _ => {}
        }
    }
    Ok(seen)
}

/// The identity of the first worker in a queue. Workers that join or leave meanwhile may lead the walk to a turn that
/// is over: then it walks again, [`WALKS`] times at most.
fn owner_of_queue<M: Memory>(worker: &Worker<M>, object: Object) -> Result<Option<u64>> {
    let mem = worker.mem();
    let now = || (object.unlinks().load(mem), object.word().load(mem));
    let mut before = now();
    for _ in 1..WALKS {
        let owner = walk_to_owner(worker, object, before.1)?;
        let after = now();
        if after == before {
            return Ok(owner);
        }
        before = after;
    }
    walk_to_owner(worker, object, before.1)
}

/// The same, from an end of the queue.
fn walk_to_owner<M: Memory>(worker: &Worker<M>, object: Object, end: u64) -> Result<Option<u64>> {
    let mem = worker.mem();
    let front = walk_queue(worker, object, end)?;
    if front.held.is_none() {
        return Ok(front.from.map(|from| from | OWNER_DIED));
    }
    let (mut at, mut owner) = (end, None);
    let most = u64::from(worker.geometry().parameters.workers) * SLOTS as u64;
    for _ in 0..most {
        if at & DIRTY != 0 {
            return Ok(owner.or(Some(former(at) | OWNER_DIED)));
        }
        let Some(slot) = SlotRef(at).slot(worker.geometry()) else {
            break;
        };
        let turn = Turn(slot.turn().load(mem));
        if turn.is_over(SlotRef(at).number()) {
            break;
        }
        if turn.state() == SlotState::Queued {
            owner = Some(slot.owner().load(mem));
        }
        at = slot.before().load(mem);
    }
    Ok(owner)
}
