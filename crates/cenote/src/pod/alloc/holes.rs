//! Holes: committed frames whose bytes were given back to the file system. They get bytes again before they are
//! allocated.
//!
//! A *hole* is an aligned block of frames that is free and not in the buddy tree: no allocation can come upon it. The
//! first frame's word of the block table says so. Holes are made and unmade in pieces of one size, which the process
//! that makes them chooses: two megabytes as a rule, so that huge pages stay whole.
//!
//! | state of a piece | word | tree | bytes | moved on by |
//! |---|---|---|---|---|
//! | free | free | free | reserved | [`mark`], one transaction |
//! | fresh hole | hole, epoch 0 | not | reserved | [`date`], under the trim lock |
//! | waiting hole | hole, the epoch after it was marked | not | reserved, or no longer | [`punch`], under the trim lock |
//! | punched hole | hole, punched | not | no longer | |
//! | any hole | | | reserved again | [`fill`], under the trim lock; then one transaction: free |
//!
//! So only a piece that says that it is a hole loses its bytes, and it says that it is free only when they are back.
//! The *trim lock* is recoverable; only its holder punches and fills, so the two never happen to one piece at a time.
//! It is taken before the allocator's lock, never under it.
//!
//! **Readers.** Some workers read frames that may be free: to look for an orphaned block's cells, to recover from a
//! record that is out of date, or to release what others may have freed. They read the block table first, under a pin.
//! A piece is punched when all pins have ended that may have begun before it was a hole: when its epoch, taken after it
//! was marked, is below the least announcement. Touching a page that is gone would allocate a new one, or raise a
//! signal where the file system is full.
//!
//! | a crash after | leaves | repaired by |
//! |---|---|---|
//! | the trim lock | the lock | a worker that takes it over, once all that the dead one had committed is done: filling ends under both locks |
//! | the mark (`trim.marked`) | a fresh hole, whose bytes are reserved | a worker that needs frames fills it; the next trim dates and punches it |
//! | punching (`trim.punched`) | a waiting hole without bytes | the same: it is punched again, which changes nothing |
//! | reserving (`trim.reserved`) | a hole with bytes | the same: they are reserved again, which changes nothing |
//!
//! Coherent memory only: elsewhere other hosts' caches may hold lines of memory that gets another owner.

use super::buddy::Buddy;
use super::slab::table_word;
use crate::error::{Error, Result};
use crate::memory::{MappingError, Memory};
use crate::mutant::{self, Mutant};
use crate::pod::format::block::Block;
use crate::pod::format::class::block_start;
use crate::pod::format::geometry::FRAME;
use crate::pod::format::superblock::{EPOCH, HEAP_LOCK, HOLES, HOLES_FROM, TRIM_LOCK};
use crate::pod::instance::advance::advance;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::lives::is_alone;
use crate::pod::instance::worker::Worker;
use crate::pod::lock;
use crate::pod::lock::redo::Transaction;

/// A hole, as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// Its first frame.
    pub frame: u64,
    /// The logarithm of its number of frames.
    pub order: u32,
    /// Whether its bytes are gone.
    pub is_punched: bool,
}

impl Hole {
    /// Its bytes.
    pub fn bytes(self) -> u64 {
        FRAME << self.order
    }
}

/// Frames that are in holes.
pub fn frames_in_holes<M: Memory>(mem: &M) -> u64 {
    if M::COHERENT { HOLES.load(mem) } else { 0 }
}

/// Whether the bytes of an object are there, whatever has become of it, as long as the caller's pin stands. `false`
/// only if the object is free. It begins in the first frame of its block.
///
/// Cost: a sync load; if there are holes, one or two more. Nothing on incoherent memory.
pub(crate) fn has_bytes<M: Memory>(worker: &Worker<M>, object: u64) -> bool {
    let mem = worker.mem();
    if frames_in_holes(mem) == 0 {
        return true;
    }
    let frame = worker.geometry().frame_of(object);
    let block_at = |frame| Block::decode(table_word(worker, frame).load(mem));
    let block = match block_at(frame) {
        Block::Tail => block_at(block_start(frame, 2)),
        block => block,
    };
    matches!(block, Block::Slab { .. } | Block::Extent { .. })
}

/// All holes. Without a lock: by the time they are returned, there may be others.
///
/// Cost: a sync load; if there are any, one for each frame from the first to the last. Nothing on incoherent memory.
pub fn list<M: Memory>(worker: &Worker<M>) -> Result<Vec<Hole>> {
    let mem = worker.mem();
    let mut missing = frames_in_holes(mem);
    if missing == 0 {
        return Ok(Vec::new());
    }
    let committed = worker.committed_frames()?;
    let mut frame = HOLES_FROM.load(mem).min(committed);
    let mut found = Vec::new();
    while frame < committed && missing > 0 {
        let Block::Hole {
            order, is_punched, ..
        } = Block::decode(table_word(worker, frame).load(mem))
        else {
            frame += 1;
            continue;
        };
        let order = u32::from(order);
        check(worker, frame, order)?;
        found.push(Hole {
            frame,
            order,
            is_punched,
        });
        frame += 1 << order;
        missing = missing.saturating_sub(1 << order);
    }
    Ok(found)
}

/// Checks that a hole in the block table lies in committed frames and begins at a multiple of its size.
fn check<M: Memory>(worker: &Worker<M>, frame: u64, order: u32) -> Result<()> {
    let frames = 1 << order;
    if !frame.is_multiple_of(frames) || frame + frames > worker.committed_frames()? {
        return Err(Error::corrupt("a hole", table_word(worker, frame).offset()));
    }
    Ok(())
}

/// Pieces that are free as a whole, in ascending order. Without a lock, as in [`list`].
pub fn free_pieces<M: Memory>(worker: &Worker<M>, order: u32) -> Result<Vec<u64>> {
    let tree = Buddy::new(worker.geometry());
    let committed = worker.committed_frames()?;
    let (mut frame, mut found) = (0, Vec::new());
    while frame < committed {
        let free = tree
            .free_around(worker.mem(), frame)?
            .filter(|&free| free >= order);
        let end = frame + (1 << free.unwrap_or(order));
        if free.is_some() {
            found.extend((frame..end).step_by(1 << order));
        }
        frame = end;
    }
    Ok(found)
}

/// Takes a free piece out of the tree, as a hole; returns whether all of it was free.
pub fn mark<M: Memory>(worker: &Worker<M>, frame: u64, order: u32) -> Result<bool> {
    let mem = worker.mem();
    let _trims = lock::acquire(worker, TRIM_LOCK)?;
    let is_early = mutant::is(Mutant::HoleMarkedLate);
    if is_early {
        // SAFETY: frames of the pool; a mutant gives them back before nobody uses them, in the simulator alone.
        unsafe { mem.punch(worker.geometry().frame_offset(frame), FRAME << order) }?;
    }
    let _held = lock::acquire(worker, HEAP_LOCK)?;
    if frame + (1 << order) > worker.committed_frames()? {
        return Ok(false);
    }
    let mut txn = Transaction::new(mem, worker.record());
    if !Buddy::new(worker.geometry()).take_at(&mut txn, frame, 1 << order)? {
        return Ok(false);
    }
    let hole = Block::Hole {
        order: order as u8,
        is_punched: false,
        epoch: 0,
    };
    txn.write(table_word(worker, frame).offset(), hole.encode());
    let (holes, from) = (txn.read(HOLES.offset()), txn.read(HOLES_FROM.offset()));
    txn.write(HOLES.offset(), holes.wrapping_add(1 << order));
    if holes == 0 || frame < from {
        txn.write(HOLES_FROM.offset(), frame);
    }
    txn.commit()?;
    crash_point(Point::TrimMarked);
    Ok(true)
}

/// Dates a hole that was just marked. Workers that pin from now on see that it is one.
pub fn date<M: Memory>(worker: &Worker<M>, frame: u64) -> Result<()> {
    let mem = worker.mem();
    let _trims = lock::acquire(worker, TRIM_LOCK)?;
    let word = table_word(worker, frame);
    if let Block::Hole {
        order,
        is_punched: false,
        epoch: 0,
    } = Block::decode(word.load(mem))
    {
        let hole = Block::Hole {
            order,
            is_punched: false,
            epoch: EPOCH.load(mem) >> 1,
        };
        // NO PAIR: locked
        word.store(mem, hole.encode());
    }
    Ok(())
}

/// Gives the bytes of a hole back, if no reader can be looking at it: `least` is the least announcement now. Returns
/// whether it did.
pub fn punch<M: Memory>(worker: &Worker<M>, frame: u64, least: u64) -> Result<bool> {
    let mem = worker.mem();
    let _trims = lock::acquire(worker, TRIM_LOCK)?;
    let word = table_word(worker, frame);
    let Block::Hole {
        order,
        is_punched: false,
        epoch,
    } = Block::decode(word.load(mem))
    else {
        return Ok(false);
    };
    check(worker, frame, u32::from(order))?;
    let is_reclaimable = epoch != 0 && epoch < least;
    if !is_reclaimable && !mutant::is(Mutant::HolePunchedUnreclaimable) {
        return Ok(false);
    }
    // SAFETY: free frames, which this worker has taken out of the free lists and nobody has mapped as a block.
    unsafe { mem.punch(worker.geometry().frame_offset(frame), FRAME << order) }?;
    crash_point(Point::TrimPunched);
    let hole = Block::Hole {
        order,
        is_punched: true,
        epoch,
    };
    // NO PAIR: locked
    word.store(mem, hole.encode());
    Ok(true)
}

/// Reserves the bytes of a hole again, and gives it to the tree. Returns whether it still was a hole.
pub fn fill<M: Memory>(worker: &Worker<M>, frame: u64) -> Result<bool> {
    let mem = worker.mem();
    let _trims = match mutant::is(Mutant::HoleFilledUnlocked) {
        true => None,
        false => Some(lock::acquire(worker, TRIM_LOCK)?),
    };
    let word = table_word(worker, frame);
    let Block::Hole { order, .. } = Block::decode(word.load(mem)) else {
        return Ok(false);
    };
    check(worker, frame, u32::from(order))?;
    if !mutant::is(Mutant::HoleNotReserved) {
        let at = worker.geometry().frame_offset(frame);
        mem.reserve(at, FRAME << order, is_alone(worker).then_some(at))?;
    }
    crash_point(Point::TrimReserved);
    let _held = lock::acquire(worker, HEAP_LOCK)?;
    let mut txn = Transaction::new(mem, worker.record());
    Buddy::new(worker.geometry()).give(&mut txn, frame, 1 << order)?;
    txn.write(word.offset(), Block::Free.encode());
    let (holes, from) = (txn.read(HOLES.offset()), txn.read(HOLES_FROM.offset()));
    txn.write(HOLES.offset(), holes.wrapping_sub(1 << order));
    if from == frame {
        txn.write(HOLES_FROM.offset(), frame + (1 << order));
    }
    txn.commit()?;
    Ok(true)
}

/// The result of a trim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Bytes that were given back.
    pub given_back: u64,
    /// Bytes of holes that a reader may be looking at: a later trim gives them back.
    pub waiting: u64,
}

/// After an advance of the epoch: dates the holes that have no date, and punches up to `most` of those that may be
/// punched.
pub fn punch_reclaimable<M: Memory>(worker: &Worker<M>, most: usize) -> Result<Trimmed> {
    let mut trimmed = Trimmed::default();
    let holes = list(worker)?;
    let waiting = holes.iter().filter(|hole| !hole.is_punched);
    for hole in waiting.clone() {
        date(worker, hole.frame)?;
    }
    let least = advance(worker);
    let mut left = most;
    for hole in waiting {
        if left > 0 && punch(worker, hole.frame, least)? {
            trimmed.given_back += hole.bytes();
            left -= 1;
        } else {
            trimmed.waiting += hole.bytes();
        }
    }
    Ok(trimmed)
}

/// Makes holes of all free pieces. Smaller free blocks stay.
pub fn mark_all<M: Memory>(worker: &Worker<M>, order: u32) -> Result<()> {
    for frame in (0..worker.committed_frames()?).step_by(1 << order) {
        mark(worker, frame, order)?;
    }
    Ok(())
}

/// Whether the memory can be trimmed at all; a hole made for nothing would show it too late.
pub fn check_support<M: Memory>() -> Result<()> {
    if !M::COHERENT {
        return Err(MappingError::Unsupported(
            "giving bytes of incoherent memory back: other hosts may have them in their caches",
        )
        .into());
    }
    Ok(())
}
