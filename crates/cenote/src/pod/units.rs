//! Blocks of units: allocated, freed and grown under the allocator's lock, each in one transaction (Lupin, section
//! 3.6). Whatever else a caller wants to change together with a block, a table word, a reserve, a list's head, is
//! written by the same transaction, so that no crash comes between.

use super::abandoned::clear_hint;
use super::block::Block;
use super::buddy::Buddy;
use super::crash::{Point, crash_point};
use super::geometry::{UNIT, UNIT_SHIFT};
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
        let committed = worker.committed_units()?;
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
        grow(worker, committed, units)?;
    }
}

/// Whether `units` adjacent units are free, or never will be by this. If not, grows the pool by one step. For what can
/// be tried again later, so that nobody waits while the pool grows by much.
pub fn approach<M: Memory>(worker: &Worker<M>, units: u64) -> Result<bool> {
    let committed = worker.committed_units()?;
    let max = worker.geometry().parameters.max_units;
    if units <= GROWTH_UNITS || committed >= max {
        return Ok(true);
    }
    {
        let _held = lock::acquire(worker, HEAP_LOCK)?;
        let mut txn = Transaction::new(worker.mem(), worker.record());
        if Buddy::new(worker.geometry()).has(&mut txn, units)? {
            return Ok(true);
        }
    }
    match grow_to_first(worker, committed, &[(committed + GROWTH_UNITS).min(max)]) {
        Err(Error::Full { .. }) => Ok(true),
        grown => grown.map(|()| false),
    }
}

/// Grows the pool beyond `committed` units so that `units` adjacent ones may fit.
///
/// The bytes are reserved outside the lock, as that may take long; reserving them twice does no harm. Then each
/// aligned piece is committed in a transaction of its own.
fn grow<M: Memory>(worker: &Worker<M>, committed: u64, units: u64) -> Result<()> {
    let geometry = worker.geometry();
    let max = geometry.parameters.max_units;
    // An aligned block of that size may have to begin behind the next multiple of its size.
    let whole = units.next_power_of_two();
    let needed = (committed.next_multiple_of(whole) + units)
        .max(committed + 1)
        .min(max);
    if committed >= max {
        return Err(Error::Full {
            needed: units << UNIT_SHIFT,
            why: "the pool is at its maximum size",
        });
    }
    grow_to_first(
        worker,
        committed,
        &[needed.max(committed + GROWTH_UNITS).min(max), needed],
    )
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
        return Err(Error::Full {
            needed,
            why: "its file system has no space left",
        });
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
fn is_alone<M: Memory>(worker: &Worker<M>) -> bool {
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
