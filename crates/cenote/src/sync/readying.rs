//! A lock without a name is made ready for its next one: see [`removal`](super::removal).

use super::object::{LockKind, Object};
use super::owner_word::{free_in, is_free, take_word};
use super::queue_walk::{put_at_rest, walk_queue};
use crate::error::Result;
use crate::memory::{Memory, SyncWord};
use crate::pod::Worker;
use crate::pod::lock::is_gone;

/// Makes a lock without a name ready for an incarnation; `false` if a living worker has it for a moment, by an old
/// handle. The caller has the directory's lock, so nobody alive is removing it.
pub(super) fn ready<M: Memory>(worker: &Worker<M>, offset: u64, incarnation: u64) -> Result<bool> {
    let (mem, object, free) = (worker.mem(), Object::at(worker, offset)?, free_in(incarnation));
    if object.kind() == LockKind::Queue {
        end_queue(worker, object, free)?;
    } else {
        let seen = object.word().load(mem);
        let is_to_be_had = is_free(seen) || is_gone(worker, seen)?;
        if !is_to_be_had || take_word(mem, object.word(), seen, free).is_none() {
            return Ok(false);
        }
        for (permit, note) in object.all_permits() {
            if !take_permit(worker, permit)? {
                return Ok(false);
            }
            // The next name's owners get no note of the last owner. A worker that takes the permit by an old handle
            // writes none.
            // NO PAIR: unshared
            note.store(mem, 0);
        }
        // NO PAIR: hint
        object.handoff().store(mem, 0);
    }
    // NO PAIR: unshared
    object.note().store(mem, 0);
    Ok(true)
}

/// Sets a permit free that nobody alive has; `false` if somebody has it. Most are free.
fn take_permit<M: Memory>(worker: &Worker<M>, permit: SyncWord) -> Result<bool> {
    let mut seen = 0;
    // NO PAIR: claim
    while let Err(found) = permit.compare_exchange_acquire(worker.mem(), seen, 0) {
        if !is_free(found) && !is_gone(worker, found)? {
            return Ok(false);
        }
        seen = found;
    }
    Ok(true)
}

/// Ends the queue of a queue lock in which nobody alive stands.
fn end_queue<M: Memory>(worker: &Worker<M>, object: Object, free: u64) -> Result<()> {
    let (mem, word) = (worker.mem(), object.end());
    loop {
        let end = word.load(mem);
        let front = walk_queue(worker, object, end)?;
        if front.held.is_some() {
            return Ok(());
        }
        // NO PAIR: claim
        if word.compare_exchange_acquire(mem, end, free).is_ok() {
            put_at_rest(worker, &front);
            return Ok(());
        }
    }
}
