//! How one sleeps until somebody else has done something: by an event count that this one notifies, and by the death slot in which its death shows.
//!
//! **Who is waited for** changes a word (its slot's turn, or the lock's word), then looks whether somebody sleeps by the event count beside it, and
//! notifies. **Who waits** says at the event count that it sleeps, has a barrier executed for the other, looks at the word once more, and sleeps.
//! So of the two one sees the other ([`Handle::tell`](super::held::Handle::tell)). Who has stood behind somebody in a queue announces that it leaves, and has said so
//! in its slot: where all wait, nobody pays for barriers.
//!
//! **A crash** of the one that is waited for, before it has notified, wakes the sleeper by the death slot. So nobody sleeps for anybody but one
//! whom it has seen own what it waits for, or stand in front of it, since it says that it sleeps: whoever takes that one's place has been seen, or notifies.
//! A crash of a sleeper leaves a bit at the event count: a system call for nobody.
//!
//! The kernel wakes one of those who sleep by a death slot. If that is one who waits here, it wakes the others: some of them watch for deaths.
//!
//! A notifier that dies between the event count's change and the system call leaves sleepers, who sleep for somebody else by then: they look again by themselves,
//! within a second.
//!
//! Death slots and event counts work where one kernel runs both. For the threads of another one, or one whose death does not show in its death slot, the sleeper looks again
//! by itself after [`LONGEST_REST`].

use std::time::Duration;

use super::object::Object;
use super::owner::is_free;
use super::wait::LONGEST_REST;
use crate::memory::{Memory, SLEEPS_BY_MAX, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::format::record::{Phase, State, WorkerRecord};
use crate::pod::instance::event_count;

/// Between two polls of one that sleeps by an event count that other hosts ring: who notifies wakes those of its own host, and clears the event count for all.
pub(super) const APART: Duration = Duration::from_millis(10);

/// [`sleep`] by a lock's event count, which whoever has the lock notifies.
pub(super) fn sleep_for_owner<M: Memory>(worker: &Worker<M>, object: Object, owner: u64, longest: Duration) {
    let longest = match worker.pod().is_in_pod() {
        true if !mutant::is(Mutant::SleptApart) => longest.min(APART),
        _ => longest,
    };
    let goes_on = || object.word().load(worker.mem()) == owner;
    sleep(worker, object.event_count(), owner, false, longest, goes_on);
}

/// Sleeps until the lock's event count notifies, one of the workers that words name dies, or the time is over; not at all if one of the words names nobody alive, or `goes_on` is
/// false, which is asked once this says that it sleeps. May return at any time.
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
    let attended = event_count::prepare_wait(mem, object.event_count());
    let owners: Vec<u64> = words.iter().map(|word| word.load(mem)).collect();
    // After that, as in `sleep`.
    let death_slots: Vec<Option<u64>> = owners.iter().map(|&owner| death_slot_of(worker, owner)).collect();
    let is_seen = !M::COHERENT || worker.pod().is_in_pod() || mem.barrier_everywhere();
    let is_held = |(word, owner): (&SyncWord, &u64)| !is_free(*owner) && word.load(mem) == *owner;
    if !words.iter().zip(&owners).all(is_held) || !goes_on() {
        return;
    }
    let shown: Vec<u64> = death_slots.iter().flatten().copied().collect();
    if shown.len() < owners.len() || !is_seen {
        return mem.rest(longest.min(LONGEST_REST));
    }
    let is_crowded = shown.len() >= SLEEPS_BY_MAX;
    let longest = match worker.pod().is_in_pod() || is_crowded {
        true => longest.min(APART),
        false => longest,
    };
    kernel.wait(&shown, &[attended], longest);
    for (death_slot, owner) in shown.iter().zip(&owners) {
        if kernel.has_died(*death_slot, (owner >> 32) as u32) {
            kernel.wake(*death_slot);
        }
    }
}

/// Sleeps until the event count notifies, the worker of an identity dies, or the time is over; not at all if `goes_on` is false. May return at
/// any time. If that worker is known to announce the change that is waited for, it needs no barrier from here.
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
    let attended = event_count::prepare_wait(mem, event_count);
    // After that: who recovers the other one has claimed it before it looks at the event count, and has it ring if it looks later.
    let death_slot = death_slot_of(worker, identity);
    // In a pod everybody waits for its own stores.
    let is_seen = !M::COHERENT
        || worker.pod().is_in_pod()
        || is_announced
        || mutant::is(Mutant::SleeperWithoutBarrier)
        || mem.barrier_everywhere();
    // PAIRS WITH: sync::held::Handle::tell, sync::held::Handle::tell_apart
    if !goes_on() {
        return;
    }
    match death_slot {
        Some(death_slot) if is_seen => {
            let death_slots = [death_slot];
            let death_slots = if mutant::is(Mutant::DeathSleptThrough) {
                &[]
            } else {
                &death_slots[..]
            };
            kernel.wait(death_slots, &[attended], longest);
            if kernel.has_died(death_slot, (identity >> 32) as u32) {
                kernel.wake(death_slot);
            }
        }
        _ => mem.rest(longest.min(LONGEST_REST)),
    }
}

/// The death slot in which the death of a worker will show to this one; `None` if it will not, or has been seen there already.
pub(super) fn death_slot_of<M: Memory>(worker: &Worker<M>, identity: u64) -> Option<u64> {
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
