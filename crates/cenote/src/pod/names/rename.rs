//! Names of locks, which are removed and given again. The objects stay: nobody knows which workers still have a handle.
//!
//! **Words.** Each object counts its *incarnations* ([`COUNT_AT`]): even while it has a name, odd while it has none. An
//! entry keeps an object of each of [`KINDS`] kinds, in the words after its first two; such a word is set once. The
//! first word of an entry says which of these objects it names, if that object's count is even.
//!
//! **Removing.** By the worker that has the lock exclusively, under the directory's lock: the count, then the lock's
//! own words. **Making.** Under the directory's lock: an object for an entry that names nothing, if it has none of the
//! kind; the object is made ready, which fails for a moment if a living worker still changes it; the name, the first
//! word, the count. **Looking up.** The count, the name, the count again.
//!
//! **A crash** leaves the count as it is, which decides alone. While it is odd, the next maker does everything again.
//! Recovery frees an object that was not published, which it recognises by the entry's word for its kind, as that does
//! not change again.

use super::directory::{self, KIND_LOCK, Named};
use crate::error::{Error, Result};
use crate::memory::checked::sync_word;
use crate::memory::{LINE, Memory, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::commit::publish::{Auxiliary, publish_auxiliary};
use crate::pod::format::superblock::DIRECTORY_LOCK;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::worker::Worker;
use crate::pod::lock;
use crate::pod::reclaim::room::with_room;

/// Where an object counts its incarnations: in the line of the word that names the lock's owner.
pub const COUNT_AT: u64 = LINE + 24;
/// Bytes that every object has.
const LEAST_BYTES: u64 = 4 * LINE;
/// Forms of objects.
pub const KINDS: u64 = 6;
/// Where an entry says which objects it has.
const OBJECTS_AT: u64 = 16;
/// The count of a new object: it has no name yet.
pub const UNNAMED: u64 = 1;
/// Beyond this an object is not named again: the count shares a word with other bits.
const COUNT_MAX: u64 = 1 << 46;

/// Whether an object with this count has a name.
pub fn is_named(count: u64) -> bool {
    count.is_multiple_of(2)
}

/// The count of the object at an offset.
pub(in crate::pod) fn count_of<M: Memory>(worker: &Worker<M>, object: u64) -> Result<SyncWord> {
    if !object.is_multiple_of(LINE) {
        return Err(Error::corrupt("the offset of a lock", object));
    }
    worker.check("a lock", object, LEAST_BYTES)?;
    Ok(sync_word(object + COUNT_AT))
}

/// The word of an entry that says where its object of a kind is.
fn object_word(at: u64, kind: u64) -> SyncWord {
    sync_word(at + OBJECTS_AT + 8 * (kind % KINDS))
}

/// Whether an entry has objects, as far as this host knows: such a word is set once. Entries without are only
/// preferred.
pub(in crate::pod) fn has_objects<M: Memory>(worker: &Worker<M>, at: u64) -> bool {
    (0..KINDS).any(|kind| object_word(at, kind).load_speculative(worker.mem()) != 0)
}

/// All objects of entries, named or not.
pub fn objects<M: Memory>(worker: &Worker<M>) -> Vec<u64> {
    let words = (0..worker.geometry().parameters.entries)
        .map(|index| worker.geometry().entry(index))
        .flat_map(|at| (0..KINDS).map(move |kind| object_word(at, kind)));
    words
        .map(|word| word.load(worker.mem()))
        .filter(|object| *object != 0)
        .collect()
}

/// How objects of a kind are made.
pub struct Making<'a> {
    /// The kind, below [`KINDS`].
    pub kind: u64,
    /// Allocates an object, counted as [`UNNAMED`], as the worker's auxiliary object.
    pub build: &'a dyn Fn() -> Result<u64>,
    /// Makes an object ready for an incarnation; `false` if a living worker still keeps it from that.
    pub ready: &'a dyn Fn(u64, u64) -> Result<bool>,
}

/// Finds a name, or gives it to an object.
pub fn find_or_make<M: Memory>(worker: &Worker<M>, name: &str, making: &Making<'_>) -> Result<Named> {
    directory::check_name(name)?;
    if let Some(named) = directory::find(worker, name)? {
        return Ok(named);
    }
    with_room(worker, || make(worker, name, making))
}

fn make<M: Memory>(worker: &Worker<M>, name: &str, making: &Making<'_>) -> Result<Named> {
    let mem = worker.mem();
    // In this order, for the reasons that the directory's `create` has.
    let _held = lock::acquire(worker, DIRECTORY_LOCK)?;
    let _hold = worker.hold_list()?;
    if let Some(named) = directory::find(worker, name)? {
        return Ok(named);
    }
    let (at, offset, count) = unnamed(worker, making)?;
    crash_point(Point::NamingReadied);
    directory::write_name(mem, at, name);
    mem.fence();
    let (entry, counts) = (sync_word(at), sync_word(offset + COUNT_AT));
    let seen = entry.load(mem);
    let is_changed = || Error::corrupt("a directory entry that changed under its lock, seen", at);
    // All that was stored is ordered by the fence.
    if seen != offset | KIND_LOCK {
        // PAIRS WITH: pod::names::directory::read
        entry
            .compare_exchange_acquire(mem, seen, offset | KIND_LOCK)
            .map_err(|_| is_changed())?;
    }
    crash_point(Point::NamingWritten);
    // PAIRS WITH: pod::names::directory::read, sync::owner::Handle::confirm
    counts
        .compare_exchange_acquire(mem, count, count + 1)
        .map_err(|_| is_changed())?;
    Ok(Named {
        name: name.to_owned(),
        kind: KIND_LOCK,
        offset,
        incarnation: count + 1,
        entry: at,
    })
}

/// An entry that names nothing, with an object that is ready for the next incarnation, and its count now.
fn unnamed<M: Memory>(worker: &Worker<M>, making: &Making<'_>) -> Result<(u64, u64, u64)> {
    let mem = worker.mem();
    let mut entries: Vec<(u8, u64)> = Vec::new();
    for at in (0..worker.geometry().parameters.entries).map(|index| worker.geometry().entry(index)) {
        let first = sync_word(at).load(mem);
        if !directory::is_unnamed(worker, first) {
            continue;
        }
        let rank = match (object_word(at, making.kind).load(mem), first) {
            (0, 0) if !has_objects(worker, at) => 1,
            (0, _) => 2,
            _ => 0,
        };
        entries.push((rank, at));
    }
    entries.sort_unstable();
    for (_, at) in entries {
        let word = object_word(at, making.kind);
        let mut offset = word.load(mem);
        if offset == 0 {
            offset = (making.build)()?;
            let points = [Point::NameIntent, Point::NameDone];
            if publish_auxiliary(worker, word, 0, offset, offset, points)? == Auxiliary::Freed {
                return Err(Error::corrupt(
                    "a directory entry that changed under its lock, seen",
                    at,
                ));
            }
        }
        let count = count_of(worker, offset)?.load(mem);
        if is_named(count) {
            return Err(Error::corrupt(
                "an object that is named and not by its entry, seen",
                offset,
            ));
        }
        if count < COUNT_MAX && (making.ready)(offset, count + 1)? {
            return Ok((at, offset, count));
        }
    }
    Err(directory::all_in_use(worker))
}

/// Removes the name of an object with this count. If the lock can be held exclusively, the caller holds it so, and
/// gives it up in `release`, which gets the new count. Fails if another worker was quicker.
pub fn remove<M: Memory>(
    worker: &Worker<M>,
    object: u64,
    incarnation: u64,
    release: impl FnOnce(u64),
) -> Result<()> {
    let _held = lock::acquire(worker, DIRECTORY_LOCK)?;
    let (mem, count) = (worker.mem(), count_of(worker, object)?);
    if mutant::is(Mutant::FreedBeforeVacated) {
        release(incarnation + 1);
        let _ = count.compare_exchange(mem, incarnation, incarnation + 1);
        return Ok(());
    }
    // PAIRS WITH: pod::names::directory::read, sync::owner::Handle::confirm
    if count
        .compare_exchange_acquire(mem, incarnation, incarnation + 1)
        .is_err()
    {
        return Err(Error::LockRemoved);
    }
    crash_point(Point::NamingVacated);
    release(incarnation + 1);
    Ok(())
}
