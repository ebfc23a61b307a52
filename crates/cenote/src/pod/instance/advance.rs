//! Advancing the epoch: the least announcement, and the bound below which tags are reclaimable; see
//! [`epoch`](super::epoch).

use super::crash::{Point, crash_point};
use super::epoch::finish;
use super::event_count;
use super::worker::Worker;
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::format::record::{IDLE, Phase, ProcessRecord, State, WorkerRecord};
use crate::pod::format::superblock::{EPOCH, HELD_BACK, ROUND_EVENTS};

/// The least announcement, or the epoch if no worker reads. What was unlinked before the call is held only by workers
/// that have announced.
pub fn least<M: Memory>(worker: &Worker<M>) -> u64 {
    // PAIRS WITH: pod::instance::worker::pin, pod::instance::worker::announce
    let is_left_out = mutant::is(Mutant::BarrierLeftOut);
    if M::COHERENT && !is_left_out && !worker.mem().barrier_everywhere() && somebody_relies_on_it(worker) {
        return 0;
    }
    let epoch = EPOCH.load(worker.mem()) >> 1;
    // PAIRS WITH: pod::commit::attach::attach_at, pod::commit::attach::drop
    // PAIRS WITH: pod::instance::worker::briefly, pod::instance::worker::unpin, pod::reclaim::flush::withdraw_idle, pod::commit::recovery::leave
    (0..worker.pod().workers_high())
        .map(|index| {
            WorkerRecord::new(worker.geometry(), index)
                .announced()
                .load(worker.mem())
        })
        .filter(|&announced| announced != IDLE)
        .fold(epoch, u64::min)
}

/// The bound below which tags are reclaimable: `least`, or an earlier greater one. A later announcement is of a reader
/// that loads later, and cannot reach what was unlinked when it was found reclaimable.
pub(in crate::pod) fn reclaimable_below<M: Memory>(worker: &Worker<M>, least: u64) -> u64 {
    let below = worker.reclaim.least_seen.get().max(least);
    worker.reclaim.least_seen.set(below);
    below
}

pub(in crate::pod) fn somebody_relies_on_it<M: Memory>(worker: &Worker<M>) -> bool {
    // PAIRS WITH: pod::instance::join::claim_entry
    (0..worker.geometry().parameters.processes)
        .map(|index| ProcessRecord::new(worker.geometry(), index))
        .filter(|record| State::decode(record.state().load(worker.mem())).phase != Phase::Free)
        .any(|record| record.relies_on_barrier().peek(worker.mem()) != 0)
}

/// Advances the epoch by one, if all workers that read have announced it. Returns the least announcement.
pub fn advance<M: Memory>(worker: &Worker<M>) -> u64 {
    let mem = worker.mem();
    let word = EPOCH.load(mem);
    if word & 1 != 0 && !mutant::is(Mutant::EpochNotHelped) {
        finish(mem, worker.geometry(), worker.pod().workers_high(), word);
    }
    let least = least(worker);
    let even = word & !1;
    if least >= even >> 1 {
        let next = even.wrapping_add(2) | 1;
        // NO PAIR: claim
        if EPOCH.compare_exchange_acquire(mem, even, next).is_ok() {
            crash_point(Point::EpochHalf);
            finish(mem, worker.geometry(), worker.pod().workers_high(), next);
            if !M::COHERENT {
                event_count::notify_waiting(mem, ROUND_EVENTS);
            }
        }
    } else {
        note_held_back(mem, even >> 1);
    }
    least
}

/// The present epoch cannot be advanced.
///
/// Cost: a sync load, and once for each epoch that is held back a compare-exchange.
fn note_held_back<M: Memory>(mem: &M, epoch: u64) {
    let noted = HELD_BACK.load(mem);
    if noted as u32 != epoch as u32 {
        let seconds = mem.kernel().now() / 1_000_000_000;
        // NO PAIR: count
        let _ = HELD_BACK.compare_exchange_acquire(mem, noted, seconds << 32 | u64::from(epoch as u32));
    }
}

#[cfg(test)]
#[path = "advance_tests.rs"]
mod tests;
