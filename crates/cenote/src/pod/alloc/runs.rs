//! Runs: adjacent free frames, wherever they begin. The buddy tree knows aligned free blocks; a run consists of several
//! of them side by side.
//!
//! A run of *n* frames holds an aligned block of 2^*o* of them if *n* ≥ 2^(*o*+1) − 1. So a search for a run walks from
//! one block of that order to the next, and finds out how far the free frames around it reach. Many such blocks may lie
//! in runs that are too short; so a search has an [`Effort`].
//!
//! The caller has the allocator's lock.

use super::buddy::Buddy;
use super::holes::Hole;
use super::slab::table_word;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::pod::format::block::Block;
use crate::pod::instance::worker::Worker;
use crate::pod::lock::redo::Transaction;

/// How many runs a search scans.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::pod) enum Effort {
    /// So few that no worker waits for long.
    Bounded,
    /// All of them: for the last search before a pool counts as full.
    Full,
}

/// Runs that a bounded search scans.
const RUNS_SCANNED: u32 = 64;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::pod) struct Want {
    /// Adjacent frames.
    pub frames: u64,
    /// The first is a multiple of this power of two.
    pub align: u64,
}

impl Want {
    /// The first frame within a run, if it fits there.
    pub fn within(self, begin: u64, end: u64) -> Option<u64> {
        let first = begin.next_multiple_of(self.align);
        (first + self.frames <= end).then_some(first)
    }

    /// The order of a block that every long enough run holds.
    fn order(self) -> u32 {
        match self.align {
            1 => (self.frames + 1).ilog2() - 1,
            align => align.ilog2(),
        }
    }
}

/// Adjacent frames that are free or in holes.
pub(in crate::pod) struct Stretch {
    /// The first one.
    pub begin: u64,
    /// The frame after the last one.
    pub end: u64,
    /// The holes among them, in ascending order.
    pub holes: Vec<Hole>,
}

impl Stretch {
    /// The holes that have frames of an extent.
    pub fn holes_in(&self, first: u64, frames: u64) -> Vec<u64> {
        let overlaps = |hole: &&Hole| hole.frame < first + frames && first < hole.frame + (1 << hole.order);
        self.holes
            .iter()
            .filter(overlaps)
            .map(|hole| hole.frame)
            .collect()
    }

    /// Where in it, if it ended at `end`, the frames fit with bytes for the fewest holes; and those holes.
    pub fn fewest_holes(&self, want: Want, end: u64) -> Option<(u64, Vec<u64>)> {
        let behind_holes = self.holes.iter().map(|hole| hole.frame + (1 << hole.order));
        let last = end
            .checked_sub(want.frames)
            .map(|last| last / want.align * want.align);
        std::iter::once(self.begin)
            .chain(behind_holes)
            .chain(last.filter(|&last| last >= self.begin))
            .filter_map(|from| want.within(from, end))
            .map(|first| (first, self.holes_in(first, want.frames)))
            .min_by_key(|(first, needed)| (needed.len(), *first))
    }
}

/// The free frames of a pool.
pub(in crate::pod) struct Runs<'w, M: Memory> {
    worker: &'w Worker<M>,
    tree: Buddy,
}

impl<'w, M: Memory> Runs<'w, M> {
    /// Those of a worker's pool.
    pub fn new(worker: &'w Worker<M>) -> Self {
        Self {
            worker,
            tree: Buddy::new(worker.geometry()),
        }
    }

    /// The first frame of the lowest run that is long enough.
    pub fn first_fit(&self, want: Want, effort: Effort) -> Result<Option<u64>> {
        let mut found = None;
        self.each(want.order(), effort, |begin, end| {
            found = want.within(begin, end);
            found.is_some()
        })?;
        Ok(found)
    }

    /// Frames of the longest run that a bounded search sees.
    pub fn longest(&self) -> Result<u64> {
        let Some(largest) = self.tree.largest(self.worker.mem())? else {
            return Ok(0);
        };
        let mut longest = 0;
        // A run may be longer than the largest block, and have only halves of it.
        self.each(largest.saturating_sub(1), Effort::Bounded, |begin, end| {
            longest = longest.max(end - begin);
            false
        })?;
        Ok(longest)
    }

    /// Visits the runs that hold a block of an order, from the lowest on, until `last` returns true.
    fn each(&self, order: u32, effort: Effort, mut last: impl FnMut(u64, u64) -> bool) -> Result<()> {
        let mem = self.worker.mem();
        let (mut from, mut looks) = (0, 0);
        while effort == Effort::Full || looks < RUNS_SCANNED {
            let Some(block) = self.tree.next_free(mem, from, order)? else {
                break;
            };
            let (begin, end) = (self.begin_of(block)?, self.end_of(block)?);
            if end == block {
                return Err(Error::corrupt("a free frame beyond the last one, seen", block));
            }
            if last(begin, end) {
                break;
            }
            from = end;
            looks += 1;
        }
        Ok(())
    }

    /// The first of the free frames that end before a frame, with none in use between; that frame itself if there are
    /// none.
    fn begin_of(&self, mut frame: u64) -> Result<u64> {
        while let Some(before) = frame.checked_sub(1) {
            let Some(order) = self.tree.free_around(self.worker.mem(), before)? else {
                break;
            };
            frame = before >> order << order;
        }
        Ok(frame)
    }

    /// The frame after the last of the free frames that begin with one; that frame itself if it is in use.
    fn end_of(&self, mut frame: u64) -> Result<u64> {
        let all = self.worker.geometry().parameters.max_frames;
        while frame < all {
            let Some(order) = self.tree.free_around(self.worker.mem(), frame)? else {
                break;
            };
            frame = ((frame >> order) + 1) << order;
        }
        Ok(frame)
    }

    /// What lies around a frame and is free or in one of `holes`, which are in ascending order.
    pub fn around(&self, frame: u64, holes: &[Hole]) -> Result<Stretch> {
        let mut found = Stretch {
            begin: frame,
            end: frame,
            holes: Vec::new(),
        };
        let after = holes.partition_point(|hole| hole.frame < frame);
        for &hole in holes[..after].iter().rev() {
            found.begin = self.begin_of(found.begin)?;
            if hole.frame >= found.begin {
                // It was filled since the list was made.
                continue;
            }
            if hole.frame + (1 << hole.order) != found.begin || !self.is_hole(hole) {
                break;
            }
            found.begin = hole.frame;
            found.holes.push(hole);
        }
        found.holes.reverse();
        found.begin = self.begin_of(found.begin)?;
        for &hole in &holes[after..] {
            found.end = self.end_of(found.end)?;
            if hole.frame + (1 << hole.order) <= found.end {
                continue;
            }
            if hole.frame != found.end || !self.is_hole(hole) {
                break;
            }
            found.end = hole.frame + (1 << hole.order);
            found.holes.push(hole);
        }
        found.end = self.end_of(found.end)?;
        Ok(found)
    }

    /// Whether what was one when the holes were listed still is.
    fn is_hole(&self, hole: Hole) -> bool {
        let word = table_word(self.worker, hole.frame).load(self.worker.mem());
        matches!(Block::decode(word), Block::Hole { order, .. } if u32::from(order) == hole.order)
    }
}

/// Finds adjacent frames that are free. The caller has the allocator's lock.
///
/// A power of two of them comes from the tightest block of the tree, so that large blocks stay whole; other numbers
/// from the lowest run, so that they lie side by side. Where one search finds nothing the other may.
pub(in crate::pod) fn find_free<M: Memory>(
    txn: &mut Transaction<'_, M>,
    worker: &Worker<M>,
    want: Want,
    effort: Effort,
) -> Result<Option<u64>> {
    let (tree, runs) = (Buddy::new(worker.geometry()), Runs::new(worker));
    let order = want.frames.next_power_of_two().trailing_zeros();
    if want.frames.is_power_of_two() {
        let block = tree.tightest(txn, order)?;
        return match block {
            None if want.align == 1 => runs.first_fit(want, effort),
            block => Ok(block),
        };
    }
    match runs.first_fit(want, effort)? {
        None => tree.tightest(txn, order),
        run => Ok(run),
    }
}
