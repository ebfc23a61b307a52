//! Vacant records: what the last workers of free places left in them.
//!
//! | step | word | a crash after it leaves | repaired by |
//! |---|---|---|---|
//! | claim the record | *state* | a claim of a dead worker | recovery of that worker, which finishes this record as well |
//! | drop it and its list from the host's cache | | | |
//! | work on it | as in [`super::collect`], [`super::takeover`] | as there | as there |
//! | write it back | | a claim | |
//! | give it back | *state* | a vacant record | |
//!
//! A damaged list is left as it is, and [kept as a failure](crate::pod::instance::failures): it keeps no worker from
//! collecting.

use super::collect::{collect, make_way};
use super::retire::{refresh, spare};
use super::takeover::{adopt_list, finish_what_was_begun};
use crate::error::Result;
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::alloc::heap::return_reserves;
use crate::pod::format::actor::Actor;
use crate::pod::format::class::CLASSES;
use crate::pod::format::record::{Phase, State, WorkerRecord};
use crate::pod::format::reserve::Reserve;
use crate::pod::format::superblock::ORPHANS;
use crate::pod::instance::failures::Task;
use crate::pod::instance::worker::Worker;

/// Takes what vacant records still hold, from `most` at most: a record that another worker takes meanwhile counts, one
/// that cannot be emptied does not. On coherent memory their lists are moved to the caller's own, which it holds.
/// Elsewhere a list stays where it is, as its flush round does, for any worker to go on with: as much is freed as one
/// scan covers. Returns how many objects were freed.
pub fn adopt<M: Memory>(worker: &Worker<M>, least: u64, most: u32) -> Result<u64> {
    let mem = worker.mem();
    let (mut freed, mut taken) = (0, 0);
    let before = ORPHANS.load(mem);
    let mut left = false;
    let began = worker.pod().begin_task();
    // Not always those of the first places: workers that come and go there would keep others waiting.
    let (high, first) = (worker.pod().workers_high(), worker.reclaim.scans.get());
    for n in 0..high {
        let index = (first % high + n) % high;
        let record = WorkerRecord::new(worker.geometry(), index);
        let word = record.state().load(mem);
        let state = State::decode(word);
        if state.phase != Phase::Free || record.head().peek(mem) == record.tail().peek(mem) {
            continue;
        }
        if taken == most {
            left = true;
            break;
        }
        let mut is_left = false;
        let outcome = with_claim(worker, index, word, |actor| {
            let freed = refresh(worker, record).and_then(|()| empty(worker, actor, least));
            is_left = record.head().get(mem) != record.tail().get(mem);
            freed
        });
        match outcome {
            Ok(done) => freed += done.unwrap_or(0),
            Err(error) => {
                let what = format_args!("what the last worker {index} has left");
                worker.pod().note_failure(Task::Vacant, what, &error);
            }
        }
        left |= is_left;
        taken += u32::from(!is_left);
    }
    if taken < most {
        worker.pod().end_task(Task::Vacant, began);
    }
    match (left, before) {
        // NO PAIR: hint
        (false, 1..) => drop(ORPHANS.compare_exchange_acquire(mem, before, 0)),
        // A worker could not announce that there are lists.
        // NO PAIR: hint
        (true, 0) if taken == most => drop(ORPHANS.fetch_add(mem, 1)),
        _ => {}
    }
    Ok(freed)
}

/// Takes what a record that the caller has claimed, and that has no worker, still holds: on coherent memory moves its
/// list to the caller's own, which it holds; elsewhere frees as much as one scan covers. Returns how many objects were
/// freed.
pub(in crate::pod) fn empty<M: Memory>(worker: &Worker<M>, actor: Actor, least: u64) -> Result<u64> {
    match M::COHERENT {
        true => adopt_list(worker, actor),
        false => collect_in_place(worker, actor, least),
    }
}

/// Frees from the list of a vacant record, which the caller has claimed.
fn collect_in_place<M: Memory>(worker: &Worker<M>, actor: Actor, least: u64) -> Result<u64> {
    finish_what_was_begun(worker, actor)?;
    let freed = collect(worker, actor, least)?;
    make_way(worker, actor);
    return_reserves(worker, actor)?;
    Ok(freed)
}

/// `fsck --repair`: a vacant record forgets a spare chunk that cannot be one. Returns whether it has.
pub fn forget_damaged_spare<M: Memory>(worker: &Worker<M>, index: u32) -> Result<bool> {
    let mem = worker.mem();
    let word = WorkerRecord::new(worker.geometry(), index).state().load(mem);
    if State::decode(word).phase != Phase::Free {
        return Ok(false);
    }
    let forgot = with_claim(worker, index, word, |actor| {
        let is_damaged = spare(worker, actor.record).is_err();
        if is_damaged {
            actor.record.spare().set(mem, 0);
        }
        Ok(is_damaged)
    })?;
    Ok(forgot.unwrap_or(false))
}

/// `fsck --repair`: a vacant record forgets reserves that cannot be any. Returns whether it has.
pub fn forget_damaged_reserves<M: Memory>(worker: &Worker<M>, index: u32) -> Result<bool> {
    let mem = worker.mem();
    let word = WorkerRecord::new(worker.geometry(), index).state().load(mem);
    if State::decode(word).phase != Phase::Free {
        return Ok(false);
    }
    let forgot = with_claim(worker, index, word, |actor| {
        let mut has_any = false;
        for class in 0..CLASSES {
            let word = actor.record.reserve(class);
            if !Reserve(word.get(mem)).is_sound() {
                word.set(mem, Reserve::NONE.0);
                has_any = true;
            }
        }
        Ok(has_any)
    })?;
    Ok(forgot.unwrap_or(false))
}

/// Calls `act` with a vacant record under a claim; `None` if another worker has taken it since its state was `word`.
fn with_claim<M: Memory, T>(
    worker: &Worker<M>,
    index: u32,
    word: u64,
    act: impl FnOnce(Actor) -> Result<T>,
) -> Result<Option<T>> {
    let mem = worker.mem();
    let record = WorkerRecord::new(worker.geometry(), index);
    let state = record.state();
    let claimed = worker.claim(State::decode(word).generation).encode();
    // PAIRS WITH: pod::commit::attach::drop, pod::commit::recovery::recover, pod::reclaim::vacant::with_claim
    if state.compare_exchange_acquire(mem, word, claimed).is_err() && !mutant::is(Mutant::AdopterWithoutClaim)
    {
        return Ok(None);
    }
    if !mutant::is(Mutant::AdopterNotInvalidated) {
        record.invalidate(mem);
    }
    let actor = Actor {
        record,
        me: index as u16 + 1,
    };
    let done = act(actor);
    record.write_back(mem);
    // The work is visible by now: on coherent memory a list was moved under a lock, elsewhere the record's lines were
    // waited for. Not so work left in the middle.
    // PAIRS WITH: pod::commit::attach::attach_at, pod::reclaim::vacant::with_claim
    let _ = match done {
        Ok(_) => state.compare_exchange_acquire(mem, claimed, word),
        Err(_) => state.compare_exchange(mem, claimed, word),
    };
    done.map(Some)
}
