//! What a worker has allocated for its present operation, and where it came from: so that it leaves its source late, and
//! goes back without being looked for.
//!
//! **Pending allocations.** On incoherent memory each *before* is a wait for a write-back. So what is allocated for an operation stays in
//! the reserve or the list, and the worker remembers that it is taken, until the operation's record has been written back with
//! the names, which the operation's exchange waits for anyway; then it leaves ([`commit_pending`]). Whatever else changes a reserve or frees entries
//! settles first.

use crate::memory::{Memory, OwnedWord};
use crate::mutant::{self, Mutant};
use crate::pod::format::chunk::{GONE, entry};
use crate::pod::format::reserve::Reserve;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::pending::{PENDING_MAX, Pending, PendingAllocations, Source};
use crate::pod::instance::recycle::CachedEntry;
use crate::pod::instance::worker::Worker;

/// Has room for one take more.
pub(in crate::pod) fn make_room_for_pending<M: Memory>(worker: &Worker<M>) {
    let pending = worker.pending.get();
    if pending.has_left {
        worker.pending.set(PendingAllocations::default());
    } else if pending.count == PENDING_MAX {
        commit_pending(worker);
        worker.pending.set(PendingAllocations::default());
    }
}

/// A reserve of the worker's without what it has taken.
pub(in crate::pod) fn without_pending<M: Memory>(worker: &Worker<M>, class: usize) -> Reserve {
    let reserve = Reserve(worker.record().reserve(class).get(worker.mem()));
    let PendingAllocations {
        allocations,
        count,
        has_left,
    } = worker.pending.get();
    allocations[..count]
        .iter()
        .filter(|allocation| allocation.class as usize == class && !has_left)
        .fold(reserve, |reserve, allocation| match allocation.source {
            Source::Reserve { index, .. } => reserve.without(index),
            Source::List { .. } => reserve,
        })
}

/// Names what leaves its source when the pending allocations are committed.
pub(in crate::pod) fn allocate_pending<M: Memory>(
    worker: &Worker<M>,
    allocation: Pending,
    destination: OwnedWord,
) -> u64 {
    destination.set_lazily(worker.mem(), allocation.object);
    let mut pending = worker.pending.get();
    pending.allocations[pending.count] = allocation;
    pending.count += 1;
    worker.pending.set(pending);
    crash_point(Point::AllocNew);
    allocation.object
}

/// Has what was taken leave its source; its names are written back first. Complete with the next fence, which comes before it is
/// published: until then recovery finds it where it was, and forgets its name.
pub(in crate::pod) fn commit_pending<M: Memory>(worker: &Worker<M>) {
    let pending = worker.pending.get();
    if !M::COHERENT && pending.count > 0 && !pending.has_left {
        worker.record().write_back_operation(worker.mem());
        worker.mem().fence();
        leave_sources(worker);
    }
}

/// The same once the names have been written back. Complete with the next fence.
#[inline]
pub(in crate::pod) fn leave_sources<M: Memory>(worker: &Worker<M>) {
    let pending = worker.pending.get();
    if pending.has_left {
        return;
    }
    for allocation in &pending.allocations[..pending.count] {
        leave_source(worker, allocation);
        crash_point(Point::AllocTaken);
    }
    let has_left = true;
    worker.pending.set(PendingAllocations { has_left, ..pending });
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

/// What was taken for an object of the present operation, and whether it has left its source; forgets that.
pub(in crate::pod) fn forget_pending<M: Memory>(worker: &Worker<M>, object: u64) -> Option<(Pending, bool)> {
    let mut pending = worker.pending.get();
    let n = pending.allocations[..pending.count]
        .iter()
        .position(|allocation| allocation.object == object)?;
    let allocation = pending.allocations[n];
    pending.allocations.copy_within(n + 1..pending.count, n);
    pending.count -= 1;
    worker.pending.set(pending);
    Some((allocation, pending.has_left))
}

/// Puts the object that a word of the worker's record names back where it came from: into the reserve, if that is of
/// its cells now; into the list, if that has not moved on.
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
            if worker.recycler.round() != round {
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

/// Puts an entry that was taken back on its magazine.
pub(in crate::pod) fn return_to_magazine<M: Memory>(worker: &Worker<M>, allocation: &Pending) {
    if let Source::List { chunk, index, round } = allocation.source
        && worker.recycler.round() == round
    {
        let object = allocation.object;
        // Behind the others if the magazine is full meanwhile, which it cannot be: then it waits in the list.
        worker.recycler.put(
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
