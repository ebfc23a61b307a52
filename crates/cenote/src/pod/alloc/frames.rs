//! Blocks of frames: allocated and freed under the allocator's lock, each in one transaction (Lupin, section
//! 3.6). The same transaction writes everything else that must change together with the block (a table word, a reserve,
//! a list's head), so that no crash comes between.

use super::buddy::Buddy;
use super::growth::make_room;
use super::hints::clear_hint;
use super::runs::{Effort, Want, find_free};
use super::slab::table_word;
use crate::causes::Shortage;
use crate::error::{Error, Result};
use crate::memory::{Memory, OwnedWord};
use crate::pod::format::block::Block;
use crate::pod::format::geometry::{FRAME, FRAME_SHIFT};
use crate::pod::format::superblock::{BLOCKS_FREED, HEAP_LOCK};
use crate::pod::instance::worker::Worker;
use crate::pod::lock;
use crate::pod::lock::redo::Transaction;

/// Returns a slab block to the buddy tree, changing owned words along with it.
pub(in crate::pod) fn free_slab<M: Memory>(
    worker: &Worker<M>,
    frame: u64,
    order: u32,
    owned: &[(OwnedWord, u64)],
) -> Result<()> {
    clear_hint(worker, frame);
    let _held = lock::acquire(worker, HEAP_LOCK)?;
    let mut txn = Transaction::new(worker.mem(), worker.record());
    Buddy::new(worker.geometry()).give(&mut txn, frame, 1 << order)?;
    for tail in 0..1 << order {
        txn.write(table_word(worker, frame + tail).offset(), Block::Free.encode());
    }
    for (word, value) in owned {
        txn.write_owned(*word, *value);
    }
    if !M::COHERENT {
        let freed = txn.read(BLOCKS_FREED.offset());
        txn.write(BLOCKS_FREED.offset(), freed.wrapping_add(1));
    }
    txn.commit()?;
    let at = worker.geometry().frame_offset(frame);
    worker.mem().must_not_be_cached(at, FRAME << order);
    Ok(())
}

/// Returns an extent to the buddy tree, changing owned words along with it.
pub(in crate::pod) fn free_extent<M: Memory>(
    worker: &Worker<M>,
    frame: u64,
    frames: u32,
    owned: &[(OwnedWord, u64)],
) -> Result<()> {
    if frames == 0 || frame + u64::from(frames) > worker.committed_frames()? {
        return Err(Error::corrupt(
            "an extent's length",
            worker.geometry().frame_offset(frame),
        ));
    }
    let _held = lock::acquire(worker, HEAP_LOCK)?;
    let mut txn = Transaction::new(worker.mem(), worker.record());
    Buddy::new(worker.geometry()).give(&mut txn, frame, u64::from(frames))?;
    txn.write(table_word(worker, frame).offset(), Block::Free.encode());
    for (word, value) in owned {
        txn.write_owned(*word, *value);
    }
    txn.commit()?;
    let at = worker.geometry().frame_offset(frame);
    worker.mem().must_not_be_cached(at, u64::from(frames) * FRAME);
    Ok(())
}

/// Allocates adjacent frames in one transaction, together with the writes of `also`; grows the pool if need be.
pub(in crate::pod) fn allocate_frames<M: Memory>(
    worker: &Worker<M>,
    want: Want,
    also: impl Fn(&mut Transaction<'_, M>, u64),
) -> Result<u64> {
    loop {
        if let Some(frame) = take_free(worker, want, Effort::Bounded, &also)? {
            return Ok(frame);
        }
        let made = make_room(worker, want);
        // The new frames may lie behind more runs than were scanned; so may frames that were free before.
        if let (Ok(()) | Err(Error::Full { .. }), Some(frame)) =
            (&made, take_free(worker, want, Effort::Full, &also)?)
        {
            return Ok(frame);
        }
        made?;
    }
}

/// Allocates adjacent frames that are free.
fn take_free<M: Memory>(
    worker: &Worker<M>,
    want: Want,
    effort: Effort,
    also: &impl Fn(&mut Transaction<'_, M>, u64),
) -> Result<Option<u64>> {
    let _held = lock::acquire(worker, HEAP_LOCK)?;
    let mut txn = Transaction::new(worker.mem(), worker.record());
    let Some(frame) = find_free(&mut txn, worker, want, effort)? else {
        return Ok(None);
    };
    let is_free = Buddy::new(worker.geometry()).take_at(&mut txn, frame, want.frames)?;
    let word = table_word(worker, frame).offset();
    let is_committed = frame + want.frames <= worker.committed_frames()?;
    if !is_free || !is_committed || txn.read(word) != Block::Free.encode() {
        return Err(Error::corrupt("a free frame that is in use, seen", word));
    }
    also(&mut txn, frame);
    txn.commit()?;
    Ok(Some(frame))
}

/// The error for an object that no pool of this size has room for.
pub(in crate::pod) fn too_large<M: Memory>(worker: &Worker<M>, len: u64) -> Error {
    Error::Full {
        needed: len,
        why: Shortage::LargerThanPool,
        largest: Some(worker.geometry().parameters.max_frames << FRAME_SHIFT),
    }
}

/// `fsck --repair`: frees a leaked extent. No other process has the pool open.
pub fn repair_extent<M: Memory>(worker: &Worker<M>, frame: u64, frames: u32) -> Result<()> {
    free_extent(worker, frame, frames, &[])
}
