//! The [pairs](crate::index::common::pair) that slots bind.

use super::slot::Slot;
use crate::error::Result;
use crate::index::common::pair::{self, Pair};
use crate::memory::Memory;
use crate::memory::checked::published;
use crate::pod::Worker;

/// The key of the pair that a slot binds.
#[inline]
pub fn key<M: Memory>(worker: &Worker<M>, slot: Slot) -> Result<&[u8]> {
    if slot.is_small() {
        worker.check("a map's object", slot.offset(), 16)?;
        // The value may be overwritten meanwhile: no slice may cover it.
        return Ok(published(slot.offset(), 8).bytes(worker.mem()));
    }
    Ok(read_long(worker, slot)?.key)
}

/// [`key`] without reading the value's bytes, for walks over all keys.
pub fn key_alone<M: Memory>(worker: &Worker<M>, slot: Slot) -> Result<&[u8]> {
    match slot.is_small() {
        true => key(worker, slot),
        false => pair::key_at(worker, slot.offset()),
    }
}

/// The pair of a slot's object that is not small.
#[inline]
pub fn read_long<M: Memory>(worker: &Worker<M>, slot: Slot) -> Result<Pair<'_>> {
    pair::read_at(worker, slot.offset())
}

/// The key of a slot's small object; `None` for every other kind of slot and for damage.
#[inline(always)]
pub fn small_key<M: Memory>(worker: &Worker<M>, slot: Slot) -> Option<[u8; 8]> {
    let is_there = slot.is_small() && worker.is_committed(slot.offset(), 16);
    is_there.then(|| published(slot.offset(), 8).read_word(worker.mem()).to_le_bytes())
}

/// Whether a slot is bound to `key`.
#[inline(always)]
pub fn has_key<M: Memory>(worker: &Worker<M>, slot: Slot, key: &[u8]) -> Result<bool> {
    if slot.is_small() {
        worker.check("a map's object", slot.offset(), 16)?;
        return Ok(pair::has_small_key(worker.mem(), slot.offset(), key));
    }
    has_long_key(worker, slot, key)
}

#[inline(never)]
fn has_long_key<M: Memory>(worker: &Worker<M>, slot: Slot, key: &[u8]) -> Result<bool> {
    Ok(read_long(worker, slot)?.key == key)
}
