//! A worker's pending allocations: what it has allocated for its present operation, and where from. So an object leaves
//! its source late, and can go back without a search.
//!
//! On incoherent memory each *before* of [`heap`](super::heap) is a wait for a write-back. So what is allocated for an
//! operation stays in the reserve or the list, and the worker remembers that it is taken, until the operation's record
//! has been written back with the names. The operation's exchange waits for that anyway. Then the objects leave their
//! sources ([`commit_pending`]). A worker that changes a reserve or frees entries in any other way commits its pending
//! allocations first.

use crate::memory::{Memory, OwnedWord};
use crate::mutant::{self, Mutant};
use crate::pod::format::chunk::{GONE, entry};
use crate::pod::format::reserve::Reserve;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::pending::{PENDING_MAX, Pending, PendingAllocations, Source};
use crate::pod::instance::recycle::CachedEntry;
use crate::pod::instance::worker::Worker;

/// Makes room for one more pending allocation.
pub(in crate::pod) fn make_room_for_pending<M: Memory>(worker: &Worker<M>) {
    let pending = worker.alloc.pending.get();
    if pending.has_left {
        worker.alloc.pending.set(PendingAllocations::default());
    } else if pending.count == PENDING_MAX {
        commit_pending(worker);
        worker.alloc.pending.set(PendingAllocations::default());
    }
}

/// A reserve of the worker's, without its pending allocations.
pub(in crate::pod) fn without_pending<M: Memory>(worker: &Worker<M>, class: usize) -> Reserve {
    let reserve = Reserve(worker.record().reserve(class).get(worker.mem()));
    let PendingAllocations {
        allocations,
        count,
        has_left,
    } = worker.alloc.pending.get();
    allocations[..count]
        .iter()
        .filter(|allocation| allocation.class as usize == class && !has_left)
        .fold(reserve, |reserve, allocation| match allocation.source {
            Source::Reserve { index, .. } => reserve.without(index),
            Source::List { .. } => reserve,
        })
}

/// Adds a pending allocation and names it in `destination`; it leaves its source when the pending allocations are
/// committed.
pub(in crate::pod) fn allocate_pending<M: Memory>(
    worker: &Worker<M>,
    allocation: Pending,
    destination: OwnedWord,
) -> u64 {
    destination.set_lazily(worker.mem(), allocation.object);
    let mut pending = worker.alloc.pending.get();
    pending.allocations[pending.count] = allocation;
    pending.count += 1;
    worker.alloc.pending.set(pending);
    crash_point(Point::AllocNew);
    allocation.object
}

/// Has pending allocations leave their sources; writes their names back first. Complete with the next fence, which
/// comes before they are published: until then recovery finds them where they were, and forgets their names.
pub(in crate::pod) fn commit_pending<M: Memory>(worker: &Worker<M>) {
    let pending = worker.alloc.pending.get();
    if !M::COHERENT && pending.count > 0 && !pending.has_left {
        worker.record().write_back_operation(worker.mem());
        worker.mem().fence();
        leave_sources(worker);
    }
}

/// The same once the names have been written back. Complete with the next fence.
#[inline]
pub(in crate::pod) fn leave_sources<M: Memory>(worker: &Worker<M>) {
    let pending = worker.alloc.pending.get();
    if pending.has_left {
        return;
    }
    for allocation in &pending.allocations[..pending.count] {
        leave_source(worker, allocation);
        crash_point(Point::AllocTaken);
    }
    let has_left = true;
    worker
        .alloc
        .pending
        .set(PendingAllocations { has_left, ..pending });
}

/// Has an object leave the reserve or the list that it was taken from. Complete with the next fence.
#[inline]
pub(in crate::pod) fn leave_source<M: Memory>(worker: &Worker<M>, allocation: &Pending) {
    let mem = worker.mem();
    let word = match allocation.source {
        Source::Reserve { index, .. } => {
            let word = worker.record().reserve(allocation.class as usize);
            let reserve = Reserve(word.get(mem));
            word.set_lazily(mem, reserve.without(index).0);
            word
        }
        Source::List { chunk, index, .. } => {
            let (word, _) = entry(chunk, index);
            if !mutant::is(Mutant::RecycledEntryKept) {
                word.set_lazily(mem, allocation.object | GONE);
            }
            word
        }
    };
    if !M::COHERENT {
        mem.write_back(word.offset(), 8);
    }
}

/// A pending allocation that its worker has forgotten.
pub(in crate::pod) enum Forgotten {
    /// It is still in the reserve or the list that it was taken from.
    InSource(Pending),
    /// It has left that.
    Left(Pending),
}

/// Forgets the pending allocation of an object.
pub(in crate::pod) fn forget_pending<M: Memory>(worker: &Worker<M>, object: u64) -> Option<Forgotten> {
    let mut pending = worker.alloc.pending.get();
    let n = pending.allocations[..pending.count]
        .iter()
        .position(|allocation| allocation.object == object)?;
    let allocation = pending.allocations[n];
    pending.allocations.copy_within(n + 1..pending.count, n);
    pending.count -= 1;
    worker.alloc.pending.set(pending);
    Some(match pending.has_left {
        true => Forgotten::Left(allocation),
        false => Forgotten::InSource(allocation),
    })
}

/// Puts the object that a word of the worker's record names back where it came from: into the reserve, if the reserve
/// is still of its cells; into the list, if that has not moved on.
#[inline]
pub(in crate::pod) fn put_back<M: Memory>(
    worker: &Worker<M>,
    allocation: &Pending,
    named: OwnedWord,
) -> bool {
    let (mem, record) = (worker.mem(), worker.record());
    match allocation.source {
        Source::Reserve { frame, index } => {
            let word = record.reserve(allocation.class as usize);
            let reserve = Reserve(word.get(mem));
            if reserve.frame() != Some(frame) || reserve.word() != index / 4 {
                return false;
            }
            word.set(mem, reserve.0 | 1 << (index % 4));
            mem.persist(word.offset(), 8);
        }
        Source::List { chunk, index, round } => {
            if worker.reclaim.recycler.round() != round {
                return false;
            }
            let (word, _) = entry(chunk, index);
            word.set(mem, allocation.object);
            mem.persist(word.offset(), 8);
            return_to_magazine(worker, allocation);
        }
    }
    clear(worker, named);
    true
}

/// Puts an allocated entry back on its magazine.
pub(in crate::pod) fn return_to_magazine<M: Memory>(worker: &Worker<M>, allocation: &Pending) {
    if let Source::List { chunk, index, round } = allocation.source
        && worker.reclaim.recycler.round() == round
    {
        let object = allocation.object;
        // If the magazine is full meanwhile, which cannot be, it waits in the list behind the others.
        worker.reclaim.recycler.put(
            allocation.class as usize,
            CachedEntry { object, chunk, index },
            worker.limits().magazine_bytes,
        );
    }
}

#[inline]
pub(in crate::pod) fn clear<M: Memory>(worker: &Worker<M>, word: OwnedWord) {
    word.set(worker.mem(), 0);
    worker.mem().persist(word.offset(), 8);
}
