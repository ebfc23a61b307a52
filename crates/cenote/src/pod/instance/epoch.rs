//! Epochs (pcc-indexes, section 6.3 and appendix B): when is it certain that no reader holds an object?
//!
//! There is a global epoch, a replica of it in every worker's record, and every worker's announcement: the epoch
//! it read before it began to read, or `IDLE`. An object is unlinked first and then tagged with the unlinker's
//! replica of the epoch; it may be reused once its tag is below the least announcement *minus one*. The one is for
//! replicas: while they are being updated, two of them may differ by one, never by more, because the epoch is not
//! advanced again before all of them have caught up.
//!
//! **Words.** `EPOCH` = epoch << 1 | updating. A worker that finds the last bit set updates all replicas first and then
//! clears it, so that an advancer that dies in between stops nobody. A replica only ever grows.
//!
//! **Why a late announcement is harmless.** A reader announces, then loads, with a full barrier in between; an unlinker
//! unlinks, then reads announcements, with one in between. (On coherent memory the thread that reads announcements
//! executes the readers' barriers for them: `membarrier(2)`.) Either it sees the announcement, or the reader's load
//! sees that the object is gone. An announcement that is older than the epoch only keeps memory longer.
//!
//! **Incoherent memory.** Announcing costs a round trip, so an announcement stands from one operation to the next.
//! A background thread of the process withdraws those of idle workers when the epoch has moved on, and asks busy
//! ones to announce anew.

use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::format::geometry::Geometry;
use crate::pod::format::record::WorkerRecord;
use crate::pod::format::superblock::EPOCH;

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
        // NO PAIR: claim
        match record.epoch().compare_exchange_acquire(mem, replica, epoch) {
            Ok(_) => return,
            Err(found) => replica = found,
        }
    }
}

/// Brings the replica of an attaching worker up to date: on return it is at most one behind, like all others.
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

/// Finishes an advance that another worker began.
pub(crate) fn finish<M: Memory>(mem: &M, geometry: &Geometry, workers: u32, word: u64) {
    for index in (0..workers).filter(|_| !mutant::is(Mutant::ReplicasNotRaised)) {
        raise(mem, WorkerRecord::new(geometry, index), word >> 1);
    }
    // NO PAIR: claim
    let _ = EPOCH.compare_exchange_acquire(mem, word, word & !1);
}

#[cfg(test)]
#[path = "epoch_tests.rs"]
mod tests;
