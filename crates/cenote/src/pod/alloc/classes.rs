//! When a cached size class of a slab block may be believed, and what is found by it: on incoherent memory a read of
//! the block table is a round trip.
//!
//! A block has its class until it is given back to the buddy tree, which counts such blocks ([`BLOCKS_FREED`]) in the
//! same transaction: the block cannot be made anew before it is counted. So for an object that is not free, a cached
//! class holds if no block was counted between the read of the table and a read of the count that comes after the
//! object was seen.

use super::slab::{Cell, Location, locate};
use crate::error::Result;
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::format::class::{TABLE, block_start};
use crate::pod::format::superblock::BLOCKS_FREED;
use crate::pod::instance::worker::Worker;

/// Forgets the classes that may not hold for objects that the caller has seen before: all of them, if a block was given
/// back.
///
/// Cost: one sync load on incoherent memory.
pub(in crate::pod) fn renew_classes<M: Memory>(worker: &Worker<M>) {
    let classes = &worker.alloc.classes;
    if classes.classes.is_empty() || mutant::is(Mutant::ClassesKept) {
        return;
    }
    let freed = BLOCKS_FREED.load(worker.mem());
    if classes.as_of.replace(freed) != freed {
        classes.classes.iter().for_each(|entry| entry.set(0));
    }
}

/// The cell of an object by the cached class of its block: no round trip. For an object that was not free at the last
/// [`renew_classes`], nor since.
pub fn remembered_cell<M: Memory>(worker: &Worker<M>, object: u64) -> Option<Cell> {
    if !worker.is_committed(object, 16) {
        return None;
    }
    let frame = worker.geometry().frame_of(object);
    let class = worker.alloc.classes.get(frame)?;
    let layout = TABLE.get(class)?;
    let start = block_start(frame, layout.order);
    let index = layout.index_of(object - worker.geometry().frame_offset(start))?;
    Some(Cell::new(worker, start, class, index))
}

/// Where an object is, by the cached class if there is one; see [`remembered_cell`].
pub(in crate::pod) fn place_of<M: Memory>(worker: &Worker<M>, object: u64) -> Result<Location> {
    match remembered_cell(worker, object) {
        Some(cell) => Ok(Location::Slab(cell)),
        None => locate(worker, object),
    }
}
