//! Epochs (pcc-indexes, section 6.3 and appendix B): when is it certain that no reader holds an object?
//!
//! There is a global epoch, a replica of it in every worker's record, and every worker's announcement: the epoch
//! it read before it began to read, or `IDLE`. An object is unlinked first and then tagged with the unlinker's
//! replica of the epoch; it may be reused once its tag is below the least announcement *minus one*. The one is for
//! replicas: while they are being updated, two of them may differ by one, never by more, because the epoch is not
//! advanced again before all of them have caught up.
//!
//! **Words.** `EPOCH` = epoch << 1 | updating. Whoever finds the last bit set updates all replicas first and then
//! clears it, so that an advancer that dies in between stops nobody. A replica only ever grows.
//!
//! **Why a late announcement is harmless.** A reader announces, then loads, with a full barrier in between; an
//! unlinker unlinks, then looks at announcements, with one in between. (On coherent memory the reader's barrier is
//! executed for it by whoever looks: `membarrier(2)`.) Either the look sees the announcement, or the load sees that the
//! object is gone. An announcement that is older than the epoch only keeps memory longer.
//!
//! **Incoherent memory.** Announcing costs a round trip, so an announcement stands from one operation to the next.
//! A background thread of the process withdraws those of idle workers when the epoch has moved on, and asks busy
//! ones to announce anew.

use super::bell;
use super::crash::{Point, crash_point};
use super::geometry::Geometry;
use super::record::{IDLE, Phase, ProcessRecord, State, WorkerRecord};
use super::superblock::{EPOCH, HELD_BACK, ROUND_BELL};
use super::worker::Worker;
use crate::memory::Memory;
use crate::mutant::{self, Mutant};

/// The epoch to announce or to tag with.
#[inline]
pub fn current<M: Memory>(mem: &M, record: WorkerRecord, replicate: bool) -> u64 {
    if replicate {
        record.epoch().load(mem)
    } else {
        EPOCH.load(mem) >> 1
    }
}

/// Raises one replica to `epoch`.
fn raise<M: Memory>(mem: &M, record: WorkerRecord, epoch: u64) {
    let mut replica = record.epoch().load(mem);
    while replica < epoch {
        match record.epoch().compare_exchange_acquire(mem, replica, epoch) {
            Ok(_) => return,
            Err(found) => replica = found,
        }
    }
}

/// Brings the replica of a worker that attaches up to date: on return it is at most one behind, as all others are.
pub fn catch_up<M: Memory>(mem: &M, record: WorkerRecord) {
    loop {
        let epoch = EPOCH.load(mem) >> 1;
        if !mutant::is(Mutant::NotCaughtUp) {
            raise(mem, record, epoch);
        }
        if EPOCH.load(mem) >> 1 == epoch {
            return;
        }
    }
}

/// Finishes an advance that somebody began.
fn finish<M: Memory>(mem: &M, geometry: &Geometry, workers: u32, word: u64) {
    for index in (0..workers).filter(|_| !mutant::is(Mutant::ReplicasNotRaised)) {
        raise(mem, WorkerRecord::new(geometry, index), word >> 1);
    }
    let _ = EPOCH.compare_exchange_acquire(mem, word, word & !1);
}

/// The least announcement, or the epoch if nobody reads. What was unlinked before the call is held by nobody who is
/// not among the announced.
pub fn least<M: Memory>(worker: &Worker<M>) -> u64 {
    // PAIRS WITH: pod::worker::pin, pod::worker::announce
    let is_left_out = mutant::is(Mutant::BarrierLeftOut);
    if M::COHERENT && !is_left_out && !worker.mem().barrier_everywhere() && somebody_relies_on_it(worker) {
        return 0;
    }
    let epoch = EPOCH.load(worker.mem()) >> 1;
    (0..worker.pod().workers_high())
        .map(|index| {
            WorkerRecord::new(worker.geometry(), index)
                .announced()
                .load(worker.mem())
        })
        .filter(|&announced| announced != IDLE)
        .fold(epoch, u64::min)
}

/// What is ripe below, given a least announcement: that, or what it was before. An announcement that comes later is of a reader who loads later,
/// and cannot reach what was unlinked when a look found it ripe.
pub(super) fn ripe_below<M: Memory>(worker: &Worker<M>, least: u64) -> u64 {
    let below = worker.least_seen.get().max(least);
    worker.least_seen.set(below);
    below
}

pub(super) fn somebody_relies_on_it<M: Memory>(worker: &Worker<M>) -> bool {
    (0..worker.geometry().parameters.processes)
        .map(|index| ProcessRecord::new(worker.geometry(), index))
        .filter(|record| State::decode(record.state().load(worker.mem())).phase != Phase::Free)
        .any(|record| record.relies_on_barrier().peek(worker.mem()) != 0)
}

/// Advances the epoch by one, if all who read have announced it. Returns the least announcement.
pub fn advance<M: Memory>(worker: &Worker<M>) -> u64 {
    let mem = worker.mem();
    let word = EPOCH.load(mem);
    if word & 1 != 0 && !mutant::is(Mutant::EpochNotHelped) {
        finish(mem, worker.geometry(), worker.pod().workers_high(), word);
    }
    let least = least(worker);
    let settled = word & !1;
    if least >= settled >> 1 {
        let next = settled.wrapping_add(2) | 1;
        if EPOCH.compare_exchange_acquire(mem, settled, next).is_ok() {
            crash_point(Point::EpochHalf);
            finish(mem, worker.geometry(), worker.pod().workers_high(), next);
            if !M::COHERENT {
                bell::wake(mem, ROUND_BELL);
            }
        }
    } else {
        note_held_back(mem, settled >> 1);
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
        let _ = HELD_BACK.compare_exchange_acquire(mem, noted, seconds << 32 | u64::from(epoch as u32));
    }
}
