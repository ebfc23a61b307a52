//! The buddy tree: which frames are free (Lupin, section 3.6).
//!
//! A complete binary tree over the maximum number of frames, in heap order: node 1 covers all, node `n` has the
//! children `2n` and `2n + 1`. Each node is a byte: one more than the order of the largest free block below it, 0
//! if there is none. A block of order *k* is therefore found by one walk from the root, however many there are,
//! and a change touches one path. (The paper keeps a bit a node; see `docs/decisions/0003-buddy-bytes.md`.)
//!
//! Invariants, for a node of order `o` (covering `2^o` frames):
//! - its value is at most `o + 1`, and equal to it exactly if all its frames are free;
//! - below a node that is wholly free, or wholly taken by one allocation, values mean nothing;
//! - any other node holds the larger of its children's values.
//!
//! Changes to the tree happen in a [`Transaction`] under the allocator's lock. Other readers read memory; on incoherent
//! memory the walk to a block that is about to be taken is part of the transaction, so that it fetches each word once.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::memory::checked::sync_word;
use crate::pod::format::geometry::Geometry;
use crate::pod::lock::redo::Transaction;

/// The tree of one pool.
#[derive(Clone, Copy)]
pub struct Buddy {
    base: u64,
    depth: u32,
}

/// What frames are marked as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Free,
    Taken,
}

impl Buddy {
    /// The tree of a pool with this geometry.
    pub fn new(geometry: &Geometry) -> Self {
        Self {
            base: geometry.tree,
            depth: geometry.depth,
        }
    }

    /// A node's value for a search whose path is taken next. Where a read costs a round trip, the transaction keeps it.
    fn searched<M: Memory>(&self, txn: &mut Transaction<'_, M>, node: u64, order: u32) -> Result<u32> {
        match M::COHERENT {
            true => self.read(txn.mem(), node, order),
            false => self.value(txn, node, order),
        }
    }

    fn value<M: Memory>(&self, txn: &mut Transaction<'_, M>, node: u64, order: u32) -> Result<u32> {
        let at = self.base + node;
        let word = txn.read(at & !7);
        self.check(word, at, order)
    }

    fn set<M: Memory>(&self, txn: &mut Transaction<'_, M>, node: u64, value: u32) {
        let at = self.base + node;
        let shift = (at & 7) * 8;
        txn.update(at & !7, |word| {
            word & !(0xff << shift) | u64::from(value) << shift
        });
    }

    /// The first frame of an aligned block of an order. Where both halves of a block have one, takes the half whose
    /// largest free block is smaller. `None` if there is none.
    pub fn tightest<M: Memory>(&self, txn: &mut Transaction<'_, M>, want: u32) -> Result<Option<u64>> {
        if want > self.depth {
            return Ok(None);
        }
        let (mut node, mut order) = (1, self.depth);
        let mut value = self.searched(txn, node, order)?;
        if value <= want {
            return Ok(None);
        }
        // All of a wholly free block is free: its first part is as good as any.
        while order > want && value != order + 1 {
            order -= 1;
            let left = self.searched(txn, 2 * node, order)?;
            let right = self.searched(txn, 2 * node + 1, order)?;
            // The left one when equal: low addresses fill first and large blocks stay whole.
            let is_right = right > want && (left <= want || right < left);
            (node, value) = match is_right {
                true => (2 * node + 1, right),
                false => (2 * node, left),
            };
            if value <= want {
                return Err(Error::corrupt("a buddy tree node", self.base + node));
            }
        }
        Ok(Some((node << order) - (1 << self.depth)))
    }

    /// Allocates given frames; `false` if they are not all free, and then this transaction must not be committed.
    pub fn take_at<M: Memory>(&self, txn: &mut Transaction<'_, M>, start: u64, frames: u64) -> Result<bool> {
        let Some((target, order)) = self.around(start, frames) else {
            return Ok(false);
        };
        let (mut node, mut at) = (1, self.depth);
        while at > order {
            let value = self.value(txn, node, at)?;
            if value == 0 {
                return Ok(false);
            }
            self.split(txn, node, at, value);
            at -= 1;
            node = target >> (at - order);
        }
        let from = start & ((1 << order) - 1);
        if !self.mark(txn, (node, order), from..from + frames, Mark::Taken)? {
            return Ok(false);
        }
        self.lift(txn, node, order)?;
        Ok(true)
    }

    /// Frees what was taken, or what the pool has grown by.
    pub fn give<M: Memory>(&self, txn: &mut Transaction<'_, M>, start: u64, frames: u64) -> Result<()> {
        let Some((node, order)) = self.around(start, frames) else {
            return Err(Error::corrupt("a block's position", start));
        };
        let from = start & ((1 << order) - 1);
        if !self.mark(txn, (node, order), from..from + frames, Mark::Free)? {
            return Err(Error::corrupt(
                "a block that is free already, seen",
                self.base + node,
            ));
        }
        self.lift(txn, node, order)
    }

    /// The smallest block that holds given frames: its node, and its order. `None` if the tree does not cover them all.
    fn around(&self, start: u64, frames: u64) -> Option<(u64, u32)> {
        let last = start.checked_add(frames.checked_sub(1)?)?;
        if last >= 1 << self.depth {
            return None;
        }
        let order = u64::BITS - (start ^ last).leading_zeros();
        Some(((start + (1 << self.depth)) >> order, order))
    }

    /// Whether a frame is free.
    pub fn is_free<M: Memory>(&self, mem: &M, frame: u64) -> Result<bool> {
        Ok(self.free_around(mem, frame)?.is_some())
    }

    /// The order of the largest wholly free block around a frame; `None` if the frame is not free.
    pub fn free_around<M: Memory>(&self, mem: &M, frame: u64) -> Result<Option<u32>> {
        let (mut node, mut order) = (1, self.depth);
        loop {
            let value = self.read(mem, node, order)?;
            if value == order + 1 || value == 0 {
                return Ok((value != 0).then_some(order));
            }
            order -= 1;
            node = 2 * node + (frame >> order & 1);
        }
    }

    /// The order of the largest free block, if there is any.
    pub fn largest<M: Memory>(&self, mem: &M) -> Result<Option<u32>> {
        Ok(self.read(mem, 1, self.depth)?.checked_sub(1))
    }

    /// The first aligned block of an order that is wholly free and begins at `from` or later.
    pub fn next_free<M: Memory>(&self, mem: &M, from: u64, order: u32) -> Result<Option<u64>> {
        self.next_below(mem, (1, self.depth), from, order)
    }

    /// The same below a node; frames are counted from its first one.
    fn next_below<M: Memory>(
        &self,
        mem: &M,
        (node, order): (u64, u32),
        from: u64,
        wanted: u32,
    ) -> Result<Option<u64>> {
        let value = self.read(mem, node, order)?;
        if value <= wanted || from >= 1 << order {
            return Ok(None);
        }
        if value == order + 1 {
            let first = from.next_multiple_of(1 << wanted);
            return Ok((first < 1 << order).then_some(first));
        }
        let half = 1 << (order - 1);
        if let Some(found) = self.next_below(mem, (2 * node, order - 1), from, wanted)? {
            return Ok(Some(found));
        }
        let right = (2 * node + 1, order - 1);
        let found = self.next_below(mem, right, from.saturating_sub(half), wanted)?;
        Ok(found.map(|frame| frame + half))
    }

    /// A node's value as it is in memory.
    fn read<M: Memory>(&self, mem: &M, node: u64, order: u32) -> Result<u32> {
        let at = self.base + node;
        self.check(sync_word(at & !7).load(mem), at, order)
    }

    /// A node's value out of its word.
    fn check(&self, word: u64, at: u64, order: u32) -> Result<u32> {
        let value = (word >> ((at & 7) * 8)) as u32 & 0xff;
        if value > order + 1 {
            Err(Error::corrupt("a buddy tree node", at))
        } else {
            Ok(value)
        }
    }

    /// Gives the children of a wholly free node their values; they meant nothing until now.
    fn split<M: Memory>(&self, txn: &mut Transaction<'_, M>, node: u64, order: u32, value: u32) {
        if value == order + 1 {
            self.set(txn, 2 * node, order);
            self.set(txn, 2 * node + 1, order);
        }
    }

    /// Marks frames below a node, counted from its first one; `false` if some were marked so already.
    fn mark<M: Memory>(
        &self,
        txn: &mut Transaction<'_, M>,
        (node, order): (u64, u32),
        frames: Range<u64>,
        mark: Mark,
    ) -> Result<bool> {
        let value = self.value(txn, node, order)?;
        let whole = order + 1;
        if frames == (0..1 << order) {
            let (before, after) = match mark {
                Mark::Free => (0, whole),
                Mark::Taken => (whole, 0),
            };
            self.set(txn, node, after);
            return Ok(value == before);
        }
        if value == 0 && mark == Mark::Taken {
            return Ok(false);
        }
        self.split(txn, node, order, value);
        let half = 1 << (order - 1);
        let mut is_done = true;
        if frames.start < half {
            let left = frames.start..frames.end.min(half);
            is_done &= self.mark(txn, (2 * node, order - 1), left, mark)?;
        }
        if frames.end > half {
            let right = frames.start.max(half) - half..frames.end - half;
            is_done &= self.mark(txn, (2 * node + 1, order - 1), right, mark)?;
        }
        self.combine(txn, node, order)?;
        Ok(is_done)
    }

    /// Gives a node the value that follows from its children's; returns whether it changed.
    fn combine<M: Memory>(&self, txn: &mut Transaction<'_, M>, node: u64, order: u32) -> Result<bool> {
        let before = self.value(txn, node, order)?;
        let left = self.value(txn, 2 * node, order - 1)?;
        let right = self.value(txn, 2 * node + 1, order - 1)?;
        let whole = left == order && right == order;
        let value = if whole { order + 1 } else { left.max(right) };
        self.set(txn, node, value);
        Ok(value != before)
    }

    /// Carries a change up, to the root or to a node whose value does not change: nothing changes above that.
    fn lift<M: Memory>(&self, txn: &mut Transaction<'_, M>, mut node: u64, mut order: u32) -> Result<()> {
        while node > 1 {
            node /= 2;
            order += 1;
            if !self.combine(txn, node, order)? {
                break;
            }
        }
        Ok(())
    }
}
