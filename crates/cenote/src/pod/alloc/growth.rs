//! Where adjacent frames come from when none are free: holes get their bytes again, or the pool grows. If no growth
//! could make them fit, the pool stays as it is.

use super::buddy::Buddy;
use super::holes::{self, Hole};
use super::runs::{Effort, Runs, Want, find_free};
use crate::causes::Shortage;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::pod::format::geometry::{FRAME, FRAME_SHIFT};
use crate::pod::format::shortage::lacking_room;
use crate::pod::format::superblock::{COMMITTED, HEAP_LOCK};
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::lives::is_alone;
use crate::pod::instance::worker::Worker;
use crate::pod::lock;
use crate::pod::lock::redo::Transaction;

/// The pool grows by this many frames at a time, if it can: 4 MiB. Most of the time goes into the first touch of a
/// page, above all in a virtual machine whose host has yet to find one: up to 2 ms a MiB.
const GROWTH_FRAMES: u64 = 64;

/// Whether `frames` adjacent frames are free, or growing cannot make them so. If not, grows the pool by one step. For
/// callers that can try again later, so that they do not wait while the pool grows by much, and whose words will be
/// read at random: each step asks for huge pages.
pub fn approach<M: Memory>(worker: &Worker<M>, frames: u64) -> Result<bool> {
    let max = worker.geometry().parameters.max_frames;
    if frames <= GROWTH_FRAMES {
        return Ok(true);
    }
    let (room, committed) = find_room(worker, Want { frames, align: 1 })?;
    let grown = match room {
        Room::Free | Room::Nowhere { .. } => return Ok(true),
        Room::Holes(holes) => fill_all(worker, &holes[..1]),
        Room::Tail(_) => grow_to_first(
            worker,
            committed,
            HugePages::EachStep,
            &[(committed + GROWTH_FRAMES).min(max)],
        ),
    };
    match grown {
        Err(Error::Full { .. }) => Ok(true),
        grown => grown.map(|()| false),
    }
}

/// Makes room for adjacent frames.
///
/// The bytes are reserved outside the lock, as that may take long; reserving them twice does no harm. Then each
/// aligned piece is committed in a transaction of its own.
pub(in crate::pod) fn make_room<M: Memory>(worker: &Worker<M>, want: Want) -> Result<()> {
    let max = worker.geometry().parameters.max_frames;
    let (room, committed) = find_room(worker, want)?;
    match room {
        Room::Free => Ok(()),
        Room::Holes(holes) => match fill_all(worker, &holes) {
            // What is free at the pool's end may need less.
            Err(full @ Error::Full { .. }) => match grow_tail(worker, want)? {
                true => Ok(()),
                false => Err(full),
            },
            filled => filled,
        },
        Room::Tail(needed) => {
            let best = aligned_end(want, needed).max(committed + GROWTH_FRAMES).min(max);
            grow_to_first(
                worker,
                committed,
                HugePages::for_frames(want.frames),
                &[best, needed],
            )
        }
        Room::Nowhere { longest } => Err(Error::Full {
            needed: want.frames << FRAME_SHIFT,
            why: match committed {
                _ if want.frames > max => Shortage::LargerThanPool,
                _ if committed >= max => Shortage::AtMaximum,
                _ => Shortage::NearMaximum,
            },
            largest: Some(longest << FRAME_SHIFT),
        }),
    }
}

/// Where frames end that begin at a multiple of their number, if that is a power of two; else just `end`. Such a block
/// is one node of the tree, and taken and freed faster than a run that has parts of many.
fn aligned_end(want: Want, end: u64) -> u64 {
    match want.frames.is_power_of_two() {
        true => end.next_multiple_of(want.frames),
        false => end,
    }
}

/// Grows the pool by what the free frames at its end lack. Returns whether the file system had that many bytes.
fn grow_tail<M: Memory>(worker: &Worker<M>, want: Want) -> Result<bool> {
    let (needed, committed) = {
        let _held = lock::acquire(worker, HEAP_LOCK)?;
        let committed = worker.committed_frames()?;
        let tail = Runs::new(worker).around(committed, &[])?;
        let first = want.within(tail.begin, worker.geometry().parameters.max_frames);
        (first.map(|first| first + want.frames), committed)
    };
    let Some(needed) = needed.filter(|&needed| needed > committed) else {
        return Ok(false);
    };
    match grow_to_first(worker, committed, HugePages::for_frames(want.frames), &[needed]) {
        Err(Error::Full { .. }) => Ok(false),
        grown => grown.map(|()| true),
    }
}

/// Where adjacent frames might come from, if they are not free.
enum Room {
    /// They are free.
    Free,
    /// From these holes: all else that they need is free.
    Holes(Vec<u64>),
    /// From what is committed next, up to this number of frames.
    Tail(u64),
    /// Nowhere.
    Nowhere {
        /// Frames of the longest run that could be made.
        longest: u64,
    },
}

/// Finds room for adjacent frames; also returns the number of frames committed then.
fn find_room<M: Memory>(worker: &Worker<M>, want: Want) -> Result<(Room, u64)> {
    // A first guess; what is really there shows under the lock.
    let holes = holes::list(worker)?;
    let _held = lock::acquire(worker, HEAP_LOCK)?;
    let committed = worker.committed_frames()?;
    Ok((room_of(worker, &holes, want, committed)?, committed))
}

/// Where frames might come from. The caller has the allocator's lock.
fn room_of<M: Memory>(worker: &Worker<M>, holes: &[Hole], want: Want, committed: u64) -> Result<Room> {
    let mut looks = Transaction::new(worker.mem(), worker.record());
    if find_free(&mut looks, worker, want, Effort::Bounded)?.is_some() {
        return Ok(Room::Free);
    }
    let runs = Runs::new(worker);
    let mut longest = runs.longest()?;
    let mut seen = 0;
    for hole in holes {
        if hole.frame < seen {
            continue;
        }
        let stretch = runs.around(hole.frame, holes)?;
        if let Some((_, needed)) = stretch.fewest_holes(want, stretch.end) {
            return match needed.is_empty() {
                true => behind_others(worker, want),
                false => Ok(Room::Holes(needed)),
            };
        }
        longest = longest.max(stretch.end - stretch.begin);
        seen = stretch.end.max(hole.frame + 1);
    }
    // A free run at the pool's end continues into what the pool grows by.
    let max = worker.geometry().parameters.max_frames;
    let tail = runs.around(committed, holes)?;
    if let Some(first) = want.within(tail.begin, max) {
        let needed = tail.holes_in(first, want.frames);
        return Ok(match needed.is_empty() {
            true if first + want.frames <= committed => behind_others(worker, want)?,
            true => Room::Tail(first + want.frames),
            false => Room::Holes(needed),
        });
    }
    Ok(Room::Nowhere {
        longest: longest.max(max.saturating_sub(tail.begin)),
    })
}

/// For frames that are free, but behind more runs than a bounded search scans. If nothing finds them, the tree is
/// damaged.
fn behind_others<M: Memory>(worker: &Worker<M>, want: Want) -> Result<Room> {
    let mut looks = Transaction::new(worker.mem(), worker.record());
    match find_free(&mut looks, worker, want, Effort::Full)? {
        Some(_) => Ok(Room::Free),
        None => Err(Error::corrupt(
            "a buddy tree that hides what is free, seen",
            worker.geometry().tree,
        )),
    }
}

/// Fills holes, as far as the file system has room.
fn fill_all<M: Memory>(worker: &Worker<M>, holes: &[u64]) -> Result<()> {
    for &frame in holes {
        match holes::fill(worker, frame) {
            Ok(_) => {}
            Err(Error::Mapping(error)) => {
                return Err(match lacking_room(&error) {
                    Some((why, bytes)) => no_space(worker, bytes, why)?,
                    None => error.into(),
                });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The error for bytes that the file system does not have, or that this process may not have.
fn no_space<M: Memory>(worker: &Worker<M>, needed: u64, why: Shortage) -> Result<Error> {
    let _held = lock::acquire(worker, HEAP_LOCK)?;
    Ok(Error::Full {
        needed,
        why,
        largest: match worker.committed_frames()? {
            // Of a pool that is being created, not even the tables are there.
            0 => None,
            _ => Some(Runs::new(worker).longest()? << FRAME_SHIFT),
        },
    })
}

/// Grows the pool from `committed` frames to the first of the targets for which the file system has room.
fn grow_to_first<M: Memory>(
    worker: &Worker<M>,
    committed: u64,
    pages: HugePages,
    targets: &[u64],
) -> Result<()> {
    let geometry = worker.geometry();
    let (mut reserved, mut lacks) = (0, Shortage::FileSystem);
    for &target in targets {
        match reserve_frames(worker, committed, pages, target) {
            Ok(()) => {
                reserved = target;
                break;
            }
            Err(Error::Mapping(error)) => (lacks, _) = lacking_room(&error).ok_or(error)?,
            Err(error) => return Err(error),
        }
    }
    if reserved == 0 {
        let needed = (targets[targets.len() - 1] - committed) << FRAME_SHIFT;
        return Err(no_space(worker, needed, lacks)?);
    }
    crash_point(Point::GrowReserved);
    let mut from = committed;
    while from < reserved {
        let _held = lock::acquire(worker, HEAP_LOCK)?;
        if worker.committed_frames()? != from {
            // Another worker has grown the pool; the caller tries again with what there is now.
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

/// When growth asks for huge pages: the kernel takes some ten milliseconds for that, however few they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HugePages {
    /// At each step: it serves many small objects, or what will be read at random.
    EachStep,
    /// Once for several steps, of which each may serve one large object.
    Seldom,
}

impl HugePages {
    /// For a step that is made for so many adjacent frames.
    fn for_frames(frames: u64) -> Self {
        match frames <= GROWTH_FRAMES / 16 {
            true => Self::EachStep,
            false => Self::Seldom,
        }
    }

    /// Whether to ask for those from one frame to another.
    fn are_worth_it(self, from: u64, target: u64) -> bool {
        let frames = target.saturating_sub(from);
        self == Self::EachStep || frames >= from / 4 || frames >= MANY
    }
}

/// Frames that are many in any pool.
const MANY: u64 = (32 << 20) / FRAME;

/// From where on to ask for huge pages, if it is worth that: behind all that is committed, or where this process grew
/// the pool without them, but not so far back that the kernel would copy for long. A hole must stay one, so where there
/// are any, not from what is committed. One that comes while the kernel is at it may get its bytes again: nothing waits
/// for that, and it counts as a hole until it is filled.
fn huge_from<M: Memory>(worker: &Worker<M>, committed: u64, small_from: u64) -> u64 {
    match holes::frames_in_holes(worker.mem()) {
        0 => small_from.max(committed.saturating_sub(MANY)),
        _ => committed,
    }
}

fn reserve_frames<M: Memory>(
    worker: &Worker<M>,
    committed: u64,
    pages: HugePages,
    target: u64,
) -> Result<()> {
    let (geometry, hint) = (worker.geometry(), &worker.pod().small_pages_from);
    let small_from = hint.load().min(committed);
    let from = huge_from(worker, committed, small_from);
    let asks = pages.are_worth_it(from, target) && is_alone(worker);
    for (at, len) in geometry.ranges(target) {
        // The tables are reserved whole; of the data only what is new.
        let (skip, back) = match at == geometry.data {
            true => (committed * FRAME, (committed - from) * FRAME),
            false => (0, 0),
        };
        let (at, len) = (at + skip, len - skip);
        worker.mem().reserve(at, len, asks.then_some(at - back))?;
    }
    let goes_back = from < committed || small_from == committed;
    // NO PAIR: hint. Threads that grow the pool at the same time may ask twice, or not for all.
    hint.store(if asks && goes_back { target } else { small_from });
    Ok(())
}

/// Commits the first frames of a pool that is being created.
pub fn commit_initial<M: Memory>(worker: &Worker<M>, frames: u64) -> Result<()> {
    if frames > 0 {
        grow_to_first(worker, 0, HugePages::EachStep, &[frames])
    } else {
        Ok(())
    }
}

#[cfg(test)]
#[path = "growth_tests.rs"]
mod tests;
