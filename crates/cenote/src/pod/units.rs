//! Blocks of units: allocated, freed and grown under the allocator's lock, each in one transaction (Lupin, section
//! 3.6). Whatever else a caller wants to change together with a block, a table word, a reserve, a list's head, is
//! written by the same transaction, so that no crash comes between.

use super::abandoned::clear_hint;
use super::block::Block;
use super::buddy::Buddy;
use super::crash::{Point, crash_point};
use super::geometry::{UNIT, UNIT_SHIFT};
use super::holes::{self, Hole};
use super::lock;
use super::record::{Phase, ProcessRecord, State};
use super::redo::Transaction;
use super::slab::table_word;
use super::superblock::{BLOCKS_FREED, COMMITTED, HEAP_LOCK};
use super::worker::Worker;
use crate::error::{Error, Result};
use crate::memory::{MapError, Memory, OwnedWord};

/// The pool grows by this many units at a time, if it can: 4 MiB. The first touch of a page is what takes long, most of
/// all in a virtual machine whose host has yet to find one: up to 2 ms a MiB.
const GROWTH_UNITS: u64 = 64;

/// Returns a slab block to the buddy tree, changing owned words along with it.
pub(super) fn free_slab<M: Memory>(
    worker: &Worker<M>,
    unit: u64,
    order: u32,
    owned: &[(OwnedWord, u64)],
) -> Result<()> {
    clear_hint(worker, unit);
    let _held = lock::acquire(worker, HEAP_LOCK)?;
    let mut txn = Transaction::new(worker.mem(), worker.record());
    Buddy::new(worker.geometry()).give(&mut txn, unit, 1 << order)?;
    for tail in 0..1 << order {
        txn.write(table_word(worker, unit + tail).offset(), Block::Free.encode());
    }
    for (word, value) in owned {
        txn.write_owned(*word, *value);
    }
    if !M::COHERENT {
        let freed = txn.read(BLOCKS_FREED.offset());
        txn.write(BLOCKS_FREED.offset(), freed.wrapping_add(1));
    }
    txn.commit()
}

/// Returns a range to the buddy tree, changing owned words along with it.
pub(super) fn free_range<M: Memory>(
    worker: &Worker<M>,
    unit: u64,
    units: u32,
    owned: &[(OwnedWord, u64)],
) -> Result<()> {
    if units == 0 || unit + u64::from(units) > worker.committed_units()? {
        return Err(Error::corrupt(
            "a range's length",
            worker.geometry().unit_offset(unit),
        ));
    }
    let _held = lock::acquire(worker, HEAP_LOCK)?;
    let mut txn = Transaction::new(worker.mem(), worker.record());
    Buddy::new(worker.geometry()).give(&mut txn, unit, u64::from(units))?;
    txn.write(table_word(worker, unit).offset(), Block::Free.encode());
    for (word, value) in owned {
        txn.write_owned(*word, *value);
    }
    txn.commit()
}

/// Allocates adjacent units in one transaction, together with the writes of `also`; grows the pool if need be.
pub(super) fn allocate_units<M: Memory>(
    worker: &Worker<M>,
    units: u64,
    also: impl Fn(&mut Transaction<'_, M>, u64),
) -> Result<u64> {
    loop {
        {
            let _held = lock::acquire(worker, HEAP_LOCK)?;
            let mut txn = Transaction::new(worker.mem(), worker.record());
            if let Some(unit) = Buddy::new(worker.geometry()).take(&mut txn, units)? {
                let word = table_word(worker, unit).offset();
                if unit + units > worker.committed_units()? || txn.read(word) != Block::Free.encode() {
                    return Err(Error::corrupt("a free unit that is in use, seen", word));
                }
                also(&mut txn, unit);
                txn.commit()?;
                return Ok(unit);
            }
        }
        make_room(worker, units)?;
    }
}

/// Whether `units` adjacent units are free, or never will be by this. If not, grows the pool by one step. For what can
/// be tried again later, so that nobody waits while the pool grows by much.
pub fn approach<M: Memory>(worker: &Worker<M>, units: u64) -> Result<bool> {
    let max = worker.geometry().parameters.max_units;
    if units <= GROWTH_UNITS {
        return Ok(true);
    }
    let (room, committed) = find_room(worker, units)?;
    let grown = match room {
        Room::Free | Room::Nowhere { .. } => return Ok(true),
        Room::Holes(holes) => fill_all(worker, &holes[..1]),
        Room::Tail(_) => grow_to_first(worker, committed, &[(committed + GROWTH_UNITS).min(max)]),
    };
    match grown {
        Err(Error::Full { .. }) => Ok(true),
        grown => grown.map(|()| false),
    }
}

/// Has room for `units` adjacent units made: holes get their bytes again, or the pool grows. If they cannot fit whatever it
/// grows by, it stays as it is.
///
/// The bytes are reserved outside the lock, as that may take long; reserving them twice does no harm. Then each
/// aligned piece is committed in a transaction of its own.
fn make_room<M: Memory>(worker: &Worker<M>, units: u64) -> Result<()> {
    let max = worker.geometry().parameters.max_units;
    let (room, committed) = find_room(worker, units)?;
    match room {
        Room::Free => Ok(()),
        Room::Holes(holes) => fill_all(worker, &holes),
        Room::Tail(needed) => grow_to_first(
            worker,
            committed,
            &[needed.max(committed + GROWTH_UNITS).min(max), needed],
        ),
        Room::Nowhere { largest } => Err(Error::Full {
            needed: units << UNIT_SHIFT,
            why: match committed {
                _ if units.next_power_of_two() > max => {
                    "in a block of a power of two it is larger than the pool may ever be"
                }
                _ if committed >= max => "the pool is at its maximum size",
                _ => "the pool may not grow by that much",
            },
            largest: Some(largest),
        }),
    }
}

/// Where an aligned block might come from that is not free now.
enum Room {
    /// It is free.
    Free,
    /// From these holes: all else in the block is free.
    Holes(Vec<u64>),
    /// From what is committed next, up to this number of units.
    Tail(u64),
    /// Nowhere.
    Nowhere {
        /// Bytes of the largest block that could be had.
        largest: u64,
    },
}

/// Finds room for `units` adjacent units, which need an aligned block of the next power of two. With the number of units that
/// were committed then.
fn find_room<M: Memory>(worker: &Worker<M>, units: u64) -> Result<(Room, u64)> {
    // What there may be; what there is shows under the lock.
    let holes = holes::list(worker)?;
    let _held = lock::acquire(worker, HEAP_LOCK)?;
    let committed = worker.committed_units()?;
    let order = units.next_power_of_two().trailing_zeros();
    let room = match room_of(worker, &holes, order)? {
        Some(room) => room,
        None => {
            let mut largest = 0;
            for smaller in 0..order.min(worker.geometry().depth + 1) {
                if room_of(worker, &holes, smaller)?.is_some() {
                    largest = UNIT << smaller;
                }
            }
            Room::Nowhere { largest }
        }
    };
    Ok((room, committed))
}

/// Where a block of an order might come from. The caller has the allocator's lock.
fn room_of<M: Memory>(worker: &Worker<M>, holes: &[Hole], order: u32) -> Result<Option<Room>> {
    let (committed, max) = (worker.committed_units()?, worker.geometry().parameters.max_units);
    let whole = 1 << order;
    if whole > max {
        return Ok(None);
    }
    let mut txn = Transaction::new(worker.mem(), worker.record());
    if Buddy::new(worker.geometry()).has(&mut txn, whole)? {
        return Ok(Some(Room::Free));
    }
    let mut looked_at = None;
    for hole in holes {
        let begin = hole.unit / whole * whole;
        if begin + whole > committed || looked_at.replace(begin) == Some(begin) {
            continue;
        }
        if hole.order >= order {
            return Ok(Some(Room::Holes(vec![hole.unit])));
        }
        match holes::among_free(worker, begin, begin + whole)? {
            Some(found) if !found.is_empty() => return Ok(Some(Room::Holes(found))),
            _ => {}
        }
    }
    // The block that the pool ends in becomes whole if nothing in it is in use; else the next one does.
    let last = committed / whole * whole;
    let room = match holes::among_free(worker, last, committed)? {
        Some(found) if last + whole <= max => match found.is_empty() {
            true => Some(Room::Tail(last + whole)),
            false => Some(Room::Holes(found)),
        },
        None if last + 2 * whole <= max => Some(Room::Tail(last + 2 * whole)),
        _ => None,
    };
    Ok(room)
}

/// Fills holes, as far as the file system has room.
fn fill_all<M: Memory>(worker: &Worker<M>, holes: &[u64]) -> Result<()> {
    for &unit in holes {
        match holes::fill(worker, unit) {
            Ok(_) => {}
            Err(Error::Map(MapError::NoSpace { bytes })) => return Err(no_space(worker, bytes)?),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The error for bytes that the file system does not have.
fn no_space<M: Memory>(worker: &Worker<M>, needed: u64) -> Result<Error> {
    let _held = lock::acquire(worker, HEAP_LOCK)?;
    let mut txn = Transaction::new(worker.mem(), worker.record());
    let free = Buddy::new(worker.geometry()).largest(&mut txn)?;
    Ok(Error::Full {
        needed,
        why: "its file system has no space left",
        largest: Some(free.map_or(0, |order| UNIT << order)),
    })
}

/// The error for an object that no pool of this size has room for.
pub(super) fn too_large<M: Memory>(worker: &Worker<M>, len: u64) -> Error {
    Error::Full {
        needed: len,
        why: "it is larger than the pool may ever be",
        largest: Some(UNIT << worker.geometry().parameters.max_units.ilog2()),
    }
}

/// Grows the pool from `committed` units to the first of the targets for which the file system has room.
fn grow_to_first<M: Memory>(worker: &Worker<M>, committed: u64, targets: &[u64]) -> Result<()> {
    let geometry = worker.geometry();
    let mut reserved = 0;
    for &target in targets {
        match reserve_units(worker, committed, target) {
            Ok(()) => {
                reserved = target;
                break;
            }
            Err(Error::Map(MapError::NoSpace { .. })) => continue,
            Err(error) => return Err(error),
        }
    }
    if reserved == 0 {
        let needed = (targets[targets.len() - 1] - committed) << UNIT_SHIFT;
        return Err(no_space(worker, needed)?);
    }
    crash_point(Point::GrowReserved);
    let mut from = committed;
    while from < reserved {
        let _held = lock::acquire(worker, HEAP_LOCK)?;
        if worker.committed_units()? != from {
            // Somebody else has grown the pool; the caller tries again with what there is now.
            return Ok(());
        }
        let aligned = if from == 0 { 63 } else { from.trailing_zeros() };
        let order = aligned.min((reserved - from).ilog2());
        let mut txn = Transaction::new(worker.mem(), worker.record());
        Buddy::new(geometry).give(&mut txn, from, 1 << order)?;
        from += 1 << order;
        txn.write(COMMITTED.offset(), from);
        txn.commit()?;
    }
    Ok(())
}

fn reserve_units<M: Memory>(worker: &Worker<M>, committed: u64, target: u64) -> Result<()> {
    let geometry = worker.geometry();
    let unshared = is_alone(worker);
    for (at, len) in geometry.ranges(target) {
        // The tables are reserved whole; of the data only what is new.
        let skip = if at == geometry.data { committed * UNIT } else { 0 };
        worker.mem().reserve(at + skip, len - skip, unshared)?;
    }
    Ok(())
}

/// Whether no other process has the pool open, nor is one dead in it.
pub(super) fn is_alone<M: Memory>(worker: &Worker<M>) -> bool {
    let geometry = worker.geometry();
    let taken = (0..geometry.parameters.processes)
        .map(|index| ProcessRecord::new(geometry, index).state().load(worker.mem()))
        .filter(|&state| State::decode(state).phase != Phase::Free);
    taken.take(2).count() < 2
}

/// Commits the first units of a pool that is being created.
pub fn commit_initial<M: Memory>(worker: &Worker<M>, units: u64) -> Result<()> {
    if units > 0 {
        grow_to_first(worker, 0, &[units])
    } else {
        Ok(())
    }
}

/// `fsck --repair`: frees a leaked range. Nobody else has the pool open.
pub fn repair_range<M: Memory>(worker: &Worker<M>, unit: u64, units: u32) -> Result<()> {
    free_range(worker, unit, units, &[])
}
