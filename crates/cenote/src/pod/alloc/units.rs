//! Blocks of units: allocated and freed under the allocator's lock, each in one transaction (Lupin, section
//! 3.6). Whatever else a caller wants to change together with a block, a table word, a reserve, a list's head, is
//! written by the same transaction, so that no crash comes between.

use super::buddy::Buddy;
use super::growth::make_room;
use super::hints::clear_hint;
use super::runs::{Effort, Want, find_free};
use super::slab::table_word;
use crate::error::{Error, Result};
use crate::memory::{Memory, OwnedWord};
use crate::pod::format::block::Block;
use crate::pod::format::geometry::{UNIT, UNIT_SHIFT};
use crate::pod::format::superblock::{BLOCKS_FREED, HEAP_LOCK};
use crate::pod::instance::worker::Worker;
use crate::pod::lock;
use crate::pod::lock::redo::Transaction;

/// Returns a slab block to the buddy tree, changing owned words along with it.
pub(in crate::pod) fn free_slab<M: Memory>(
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
    txn.commit()?;
    let at = worker.geometry().unit_offset(unit);
    worker.mem().must_not_be_cached(at, UNIT << order);
    Ok(())
}

/// Returns a range to the buddy tree, changing owned words along with it.
pub(in crate::pod) fn free_range<M: Memory>(
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
    txn.commit()?;
    let at = worker.geometry().unit_offset(unit);
    worker.mem().must_not_be_cached(at, u64::from(units) * UNIT);
    Ok(())
}

/// Allocates adjacent units in one transaction, together with the writes of `also`; grows the pool if need be.
pub(in crate::pod) fn allocate_units<M: Memory>(
    worker: &Worker<M>,
    want: Want,
    also: impl Fn(&mut Transaction<'_, M>, u64),
) -> Result<u64> {
    loop {
        if let Some(unit) = take_free(worker, want, Effort::Bounded, &also)? {
            return Ok(unit);
        }
        let made = make_room(worker, want);
        // What was made may lie behind more runs than were looked at; so may something that was free before.
        if let (Ok(()) | Err(Error::Full { .. }), Some(unit)) =
            (&made, take_free(worker, want, Effort::Full, &also)?)
        {
            return Ok(unit);
        }
        made?;
    }
}

/// Allocates adjacent units that are free.
fn take_free<M: Memory>(
    worker: &Worker<M>,
    want: Want,
    effort: Effort,
    also: &impl Fn(&mut Transaction<'_, M>, u64),
) -> Result<Option<u64>> {
    let _held = lock::acquire(worker, HEAP_LOCK)?;
    let mut txn = Transaction::new(worker.mem(), worker.record());
    let Some(unit) = find_free(&mut txn, worker, want, effort)? else {
        return Ok(None);
    };
    let is_free = Buddy::new(worker.geometry()).take_at(&mut txn, unit, want.units)?;
    let word = table_word(worker, unit).offset();
    let is_committed = unit + want.units <= worker.committed_units()?;
    if !is_free || !is_committed || txn.read(word) != Block::Free.encode() {
        return Err(Error::corrupt("a free unit that is in use, seen", word));
    }
    also(&mut txn, unit);
    txn.commit()?;
    Ok(Some(unit))
}

/// The error for an object that no pool of this size has room for.
pub(in crate::pod) fn too_large<M: Memory>(worker: &Worker<M>, len: u64) -> Error {
    Error::Full {
        needed: len,
        why: "it is larger than the pool may ever be",
        largest: Some(worker.geometry().parameters.max_units << UNIT_SHIFT),
    }
}

/// `fsck --repair`: frees a leaked range. Nobody else has the pool open.
pub fn repair_range<M: Memory>(worker: &Worker<M>, unit: u64, units: u32) -> Result<()> {
    free_range(worker, unit, units, &[])
}
