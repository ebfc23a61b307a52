//! Sleeping until another worker has done something: on an event count that it notifies, and on the death slot that
//! shows its death.
//!
//! **The worker waited for** changes a word (its slot's turn, or the lock's word), then checks the event count beside
//! it for sleepers, and notifies. **The waiter** prepares to wait on the event count, has a barrier executed for the
//! other, reads the word once more, and sleeps. So at least one of the two sees the other
//! ([`Handle::store_and_notify`](super::held::Handle::store_and_notify)). A worker that has waited in a queue announces the end of its turn,
//! and its slot says so: where everybody waits, nobody pays for barriers.
//!
//! **A crash** of the worker waited for, before it has notified, wakes the sleeper through the death slot. So a waiter
//! sleeps only for a worker that it has seen, since it prepared to wait, own what it waits for or stand in front of it:
//! a worker that takes its place has been seen, or notifies. A crash of a sleeper leaves a bit in the event count,
//! which costs a needless system call.
//!
//! The kernel wakes one of the threads that sleep on a death slot. If it wakes a waiter here, that one wakes the
//! others: some of them watch for deaths.
//!
//! A notifier that dies between the event count's change and the system call leaves sleepers. By then they sleep for
//! another worker; they poll by themselves within a second.
//!
//! Death slots and event counts work within one kernel. A sleeper that waits for a thread of another kernel, or for one
//! whose death does not show in its death slot, polls by itself after [`LONGEST_REST`].

use std::time::Duration;

use super::object::Object;
use super::owner_word::is_free;
use super::wait::LONGEST_REST;
use crate::memory::{DeathSlot, Memory, SLEEPS_BY_MAX, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::format::record::{Phase, State, WorkerRecord};
use crate::pod::instance::event_count;

/// The time between two polls of a thread that sleeps on an event count which other hosts notify: a notifier wakes the
/// sleepers of its own host, and clears the event count for all.
pub(super) const APART: Duration = Duration::from_millis(10);

/// [`sleep`] on a lock's event count, which the lock's owner notifies.
pub(super) fn sleep_for_owner<M: Memory>(worker: &Worker<M>, object: Object, owner: u64, longest: Duration) {
    let longest = match worker.pod().is_in_pod() {
        true if !mutant::is(Mutant::SleptApart) => longest.min(APART),
        _ => longest,
    };
    let goes_on = || object.word().load(worker.mem()) == owner;
    sleep(worker, object.event_count(), owner, false, longest, goes_on);
}

/// Sleeps until the lock's event count is notified, one of the workers that `words` name dies, or the time is over.
/// Does not sleep if one of the words names nobody alive, or `goes_on`, called once the wait is prepared, is false. May
/// return at any time.
///
/// Cost: as [`sleep`], and some loads for each word.
pub(super) fn sleep_for_owners<M: Memory>(
    worker: &Worker<M>,
    object: Object,
    words: &[SyncWord],
    longest: Duration,
    goes_on: impl FnOnce() -> bool,
) {
    let (mem, kernel) = (worker.mem(), worker.mem().kernel());
    let prepared = event_count::prepare_wait(mem, object.event_count());
    let owners: Vec<u64> = words.iter().map(|word| word.load(mem)).collect();
    // Loaded after that, as in `sleep`.
    let death_slots: Vec<Option<DeathSlot>> =
        owners.iter().map(|&owner| death_slot_of(worker, owner)).collect();
    let is_seen = !M::COHERENT || worker.pod().is_in_pod() || mem.barrier_everywhere();
    let is_held = |(word, owner): (&SyncWord, &u64)| !is_free(*owner) && word.load(mem) == *owner;
    if !words.iter().zip(&owners).all(is_held) || !goes_on() {
        return;
    }
    let shown: Vec<DeathSlot> = death_slots.iter().flatten().copied().collect();
    if shown.len() < owners.len() || !is_seen {
        return mem.rest(longest.min(LONGEST_REST));
    }
    let is_crowded = shown.len() >= SLEEPS_BY_MAX;
    let longest = match worker.pod().is_in_pod() || is_crowded {
        true => longest.min(APART),
        false => longest,
    };
    kernel.wait(&shown, &[prepared], longest);
    for (death_slot, owner) in shown.iter().zip(&owners) {
        if kernel.has_died(*death_slot, (owner >> 32) as u32) {
            kernel.wake(death_slot.offset());
        }
    }
}

/// Sleeps until the event count is notified, the worker of an identity dies, or the time is over. Does not sleep if
/// `goes_on` is false. May return at any time. If that worker is known to announce the change that is waited for, it
/// needs no barrier from here.
///
/// Cost: some loads, an exchange, and two system calls; one if the change is announced.
pub(super) fn sleep<M: Memory>(
    worker: &Worker<M>,
    event_count: SyncWord,
    identity: u64,
    is_announced: bool,
    longest: Duration,
    goes_on: impl FnOnce() -> bool,
) {
    let (mem, kernel) = (worker.mem(), worker.mem().kernel());
    let prepared = event_count::prepare_wait(mem, event_count);
    // After that: the recoverer of the other worker claims it before it reads the event count, and notifies if it reads
    // later.
    let death_slot = death_slot_of(worker, identity);
    // In a pod each worker waits for its own stores.
    let is_seen = !M::COHERENT
        || worker.pod().is_in_pod()
        || is_announced
        || mutant::is(Mutant::SleeperWithoutBarrier)
        || mem.barrier_everywhere();
    // PAIRS WITH: sync::held::Handle::store_and_notify, sync::held::Handle::store_and_notify_with_barrier
    if !goes_on() {
        return;
    }
    match death_slot {
        Some(death_slot) if is_seen => {
            kernel.wait(watched(&[death_slot]), &[prepared], longest);
            if kernel.has_died(death_slot, (identity >> 32) as u32) {
                kernel.wake(death_slot.offset());
            }
        }
        _ => mem.rest(longest.min(LONGEST_REST)),
    }
}

/// The death slot that will show the death of a worker to this one; `None` if none will, or it has shown already.
pub(super) fn death_slot_of<M: Memory>(worker: &Worker<M>, identity: u64) -> Option<DeathSlot> {
    let index = u32::from((identity as u16).checked_sub(1)?);
    if index >= worker.geometry().parameters.workers {
        return None;
    }
    let (mem, death_slot) = (worker.mem(), worker.geometry().death_slot(index));
    let generation = (identity >> 32) as u32;
    let state = State::decode(WorkerRecord::new(worker.geometry(), index).state().load(mem));
    let lives = state.phase == Phase::Alive && state.generation == generation;
    (lives
        && worker.pod().shares_kernel(state)
        && mem.kernel().is_shown(death_slot, generation)
        && !mem.kernel().has_died(death_slot, generation))
    .then_some(death_slot)
}

/// The death slots by which a thread sleeps.
fn watched(death_slots: &[DeathSlot]) -> &[DeathSlot] {
    match mutant::is(Mutant::DeathSleptThrough) {
        true => &[],
        false => death_slots,
    }
}
