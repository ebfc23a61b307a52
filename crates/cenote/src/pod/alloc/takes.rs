//! What a worker has allocated for its present operation, and where it came from: so that it leaves its source late, and
//! goes back without being looked for.
//!
//! **Takes.** On incoherent memory each *before* is a wait for a write-back. So what is allocated for an operation stays in
//! the reserve or the list, and the worker remembers that it is taken, until the operation's record has been written back with
//! the names, which the operation's exchange waits for anyway; then it leaves ([`settle_takes`]). Whatever else changes a reserve or frees entries
//! settles first.

use crate::memory::{Memory, OwnedWord};
use crate::mutant::{self, Mutant};
use crate::pod::format::chunk::{GONE, entry};
use crate::pod::format::reserve::Reserve;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::recycle::Kept;
use crate::pod::instance::taken::{Source, TAKES, Taken, Takes};
use crate::pod::instance::worker::Worker;

/// Has room for one take more.
pub(in crate::pod) fn make_room_for_take<M: Memory>(worker: &Worker<M>) {
    let takes = worker.takes.get();
    if takes.has_left {
        worker.takes.set(Takes::default());
    } else if takes.count == TAKES {
        settle_takes(worker);
        worker.takes.set(Takes::default());
    }
}

/// A reserve of the worker's without what it has taken.
pub(in crate::pod) fn untaken<M: Memory>(worker: &Worker<M>, class: usize) -> Reserve {
    let reserve = Reserve(worker.record().reserve(class).get(worker.mem()));
    let Takes {
        taken,
        count,
        has_left,
    } = worker.takes.get();
    taken[..count]
        .iter()
        .filter(|taken| taken.class as usize == class && !has_left)
        .fold(reserve, |reserve, taken| match taken.source {
            Source::Reserve { index, .. } => reserve.without(index),
            Source::List { .. } => reserve,
        })
}

/// Names what leaves its source when the takes are settled.
pub(in crate::pod) fn take_later<M: Memory>(worker: &Worker<M>, taken: Taken, destination: OwnedWord) -> u64 {
    destination.set_lazily(worker.mem(), taken.object);
    let mut takes = worker.takes.get();
    takes.taken[takes.count] = taken;
    takes.count += 1;
    worker.takes.set(takes);
    crash_point(Point::AllocNew);
    taken.object
}

/// Has what was taken leave its source; its names are written back first. Complete with the next fence, which comes before it is
/// published: until then recovery finds it where it was, and forgets its name.
pub(in crate::pod) fn settle_takes<M: Memory>(worker: &Worker<M>) {
    let takes = worker.takes.get();
    if !M::COHERENT && takes.count > 0 && !takes.has_left {
        worker.record().write_back_operation(worker.mem());
        worker.mem().fence();
        leave_sources(worker);
    }
}

/// The same once the names have been written back. Complete with the next fence.
#[inline]
pub(in crate::pod) fn leave_sources<M: Memory>(worker: &Worker<M>) {
    let takes = worker.takes.get();
    if takes.has_left {
        return;
    }
    for taken in &takes.taken[..takes.count] {
        leave_source(worker, taken);
        crash_point(Point::AllocTaken);
    }
    let has_left = true;
    worker.takes.set(Takes { has_left, ..takes });
}

/// Has an object leave the reserve or the list that it was taken from. Complete with the next fence.
#[inline]
pub(in crate::pod) fn leave_source<M: Memory>(worker: &Worker<M>, taken: &Taken) {
    let mem = worker.mem();
    let word = match taken.source {
        Source::Reserve { index, .. } => {
            let word = worker.record().reserve(taken.class as usize);
            let reserve = Reserve(word.get(mem));
            word.set_lazily(mem, reserve.without(index).0);
            word
        }
        Source::List { chunk, index, .. } => {
            let (word, _) = entry(chunk, index);
            if !mutant::is(Mutant::RecycledEntryKept) {
                word.set_lazily(mem, taken.object | GONE);
            }
            word
        }
    };
    if !M::COHERENT {
        mem.write_back(word.offset(), 8);
    }
}

/// What was taken for an object of the present operation, and whether it has left its source; forgets that.
pub(in crate::pod) fn forget_take<M: Memory>(worker: &Worker<M>, object: u64) -> Option<(Taken, bool)> {
    let mut takes = worker.takes.get();
    let n = takes.taken[..takes.count]
        .iter()
        .position(|taken| taken.object == object)?;
    let taken = takes.taken[n];
    takes.taken.copy_within(n + 1..takes.count, n);
    takes.count -= 1;
    worker.takes.set(takes);
    Some((taken, takes.has_left))
}

/// Puts the object that a word of the worker's record names back where it came from: into the reserve, if that is of
/// its cells now; into the list, if that has not moved on.
#[inline]
pub(in crate::pod) fn put_back<M: Memory>(worker: &Worker<M>, taken: &Taken, named: OwnedWord) -> bool {
    let (mem, record) = (worker.mem(), worker.record());
    match taken.source {
        Source::Reserve { unit, index } => {
            let word = record.reserve(taken.class as usize);
            let reserve = Reserve(word.get(mem));
            if reserve.unit() != Some(unit) || reserve.word() != index / 4 {
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
            word.set(mem, taken.object);
            mem.persist(word.offset(), 8);
            shelve_again(worker, taken);
        }
    }
    clear(worker, named);
    true
}

/// Puts an entry that was taken back on its shelf.
pub(in crate::pod) fn shelve_again<M: Memory>(worker: &Worker<M>, taken: &Taken) {
    if let Source::List { chunk, index, round } = taken.source
        && worker.recycler.round() == round
    {
        let object = taken.object;
        // Behind the others if the shelf is full meanwhile, which it cannot be: then it waits in the list.
        worker.recycler.put(
            taken.class as usize,
            Kept { object, chunk, index },
            worker.limits().shelf_bytes,
        );
    }
}

#[inline]
pub(in crate::pod) fn clear<M: Memory>(worker: &Worker<M>, word: OwnedWord) {
    word.set(worker.mem(), 0);
    worker.mem().persist(word.offset(), 8);
}
