//! The buddy tree: which units are free (Lupin, section 3.6).
//!
//! A complete binary tree over the maximum number of units, in heap order: node 1 covers all, node `n` has the
//! children `2n` and `2n + 1`. Each node is a byte: one more than the order of the largest free block below it, 0
//! if there is none. A block of order *k* is therefore found by one walk from the root, however many there are,
//! and a change touches one path. (The paper keeps a bit a node; see `docs/decisions/0003-buddy-bytes.md`.)
//!
//! Invariants, for a node of order `o` (covering `2^o` units):
//! - its value is at most `o + 1`, and equal to it exactly if all its units are free;
//! - below a node that is wholly free or wholly allocated as one block, values mean nothing;
//! - any other node holds the larger of its children's values.
//!
//! Everything here happens in a [`Transaction`] under the allocator's lock.

use super::geometry::Geometry;
use super::redo::Transaction;
use crate::error::{Error, Result};
use crate::memory::Memory;

/// The tree of one pool.
#[derive(Clone, Copy)]
pub struct Buddy {
    base: u64,
    depth: u32,
}

impl Buddy {
    /// The tree of a pool with this geometry.
    pub fn new(geometry: &Geometry) -> Self {
        Self {
            base: geometry.tree,
            depth: geometry.depth,
        }
    }

    fn value<M: Memory>(&self, txn: &mut Transaction<'_, M>, node: u64, order: u32) -> Result<u32> {
        let at = self.base + node;
        let value = (txn.read(at & !7) >> ((at & 7) * 8)) as u32 & 0xff;
        if value > order + 1 {
            Err(Error::corrupt("a buddy tree node", at))
        } else {
            Ok(value)
        }
    }

    fn set<M: Memory>(&self, txn: &mut Transaction<'_, M>, node: u64, value: u32) {
        let at = self.base + node;
        let shift = (at & 7) * 8;
        let word = txn.read(at & !7) & !(0xff << shift);
        txn.write(at & !7, word | u64::from(value) << shift);
    }

    /// Whether `units` adjacent units could be allocated.
    pub fn has<M: Memory>(&self, txn: &mut Transaction<'_, M>, units: u64) -> Result<bool> {
        let want = units.next_power_of_two().trailing_zeros();
        Ok(want <= self.depth && self.value(txn, 1, self.depth)? > want)
    }

    /// Allocates `units` adjacent units that begin at a multiple of the next power of two; `None` if there are none.
    pub fn take<M: Memory>(&self, txn: &mut Transaction<'_, M>, units: u64) -> Result<Option<u64>> {
        if !self.has(txn, units)? {
            return Ok(None);
        }
        let want = units.next_power_of_two().trailing_zeros();
        let (mut node, mut order) = (1, self.depth);
        while order > want {
            let value = self.value(txn, node, order)?;
            self.split(txn, node, order, value);
            order -= 1;
            let left = self.value(txn, 2 * node, order)?;
            let right = self.value(txn, 2 * node + 1, order)?;
            // The tighter fit, the left one when equal: low addresses fill first and large blocks stay whole.
            node = match (left > want, right > want) {
                (true, true) if right < left => 2 * node + 1,
                (true, _) => 2 * node,
                (false, true) => 2 * node + 1,
                (false, false) => return Err(Error::corrupt("a buddy tree node", self.base + node)),
            };
        }
        let start = (node << order) - (1 << self.depth);
        self.mark(txn, node, order, units, false)?;
        self.lift(txn, node, order)?;
        Ok(Some(start))
    }

    /// Allocates a certain block; `false` if it is not wholly free, and then this transaction must not be committed.
    pub fn take_at<M: Memory>(&self, txn: &mut Transaction<'_, M>, start: u64, order: u32) -> Result<bool> {
        if order > self.depth || !start.is_multiple_of(1 << order) || start + (1 << order) > 1 << self.depth {
            return Ok(false);
        }
        let target = (start + (1 << self.depth)) >> order;
        let (mut node, mut at) = (1, self.depth);
        while at > order {
            let value = self.value(txn, node, at)?;
            if value <= order {
                return Ok(false);
            }
            self.split(txn, node, at, value);
            at -= 1;
            node = target >> (at - order);
        }
        if self.value(txn, node, order)? != order + 1 {
            return Ok(false);
        }
        self.mark(txn, node, order, 1 << order, false)?;
        self.lift(txn, node, order)?;
        Ok(true)
    }

    /// Frees what `take` gave, or what the pool has grown by.
    pub fn give<M: Memory>(&self, txn: &mut Transaction<'_, M>, start: u64, units: u64) -> Result<()> {
        let order = units.next_power_of_two().trailing_zeros();
        if order > self.depth || !start.is_multiple_of(1 << order) || start + units > 1 << self.depth {
            return Err(Error::corrupt("a block's position", start));
        }
        let node = (start + (1 << self.depth)) >> order;
        self.mark(txn, node, order, units, true)?;
        self.lift(txn, node, order)
    }

    /// Whether a unit is free.
    pub fn is_free<M: Memory>(&self, txn: &mut Transaction<'_, M>, unit: u64) -> Result<bool> {
        Ok(self.free_around(txn, unit)?.is_some())
    }

    /// The order of the largest wholly free block around a unit; `None` if the unit is not free.
    pub fn free_around<M: Memory>(&self, txn: &mut Transaction<'_, M>, unit: u64) -> Result<Option<u32>> {
        let (mut node, mut order) = (1, self.depth);
        loop {
            let value = self.value(txn, node, order)?;
            if value == order + 1 || value == 0 {
                return Ok((value != 0).then_some(order));
            }
            order -= 1;
            node = 2 * node + (unit >> order & 1);
        }
    }

    /// The order of the largest free block, if there is any.
    pub fn largest<M: Memory>(&self, txn: &mut Transaction<'_, M>) -> Result<Option<u32>> {
        Ok(self.value(txn, 1, self.depth)?.checked_sub(1))
    }

    /// Gives the children of a wholly free node their values; they meant nothing until now.
    fn split<M: Memory>(&self, txn: &mut Transaction<'_, M>, node: u64, order: u32, value: u32) {
        if value == order + 1 {
            self.set(txn, 2 * node, order);
            self.set(txn, 2 * node + 1, order);
        }
    }

    /// Marks the first `units` units below `node` as free or not.
    fn mark<M: Memory>(
        &self,
        txn: &mut Transaction<'_, M>,
        node: u64,
        order: u32,
        units: u64,
        free: bool,
    ) -> Result<()> {
        if units == 1 << order {
            if free && self.value(txn, node, order)? == order + 1 {
                return Err(Error::corrupt(
                    "a block that is free already, seen",
                    self.base + node,
                ));
            }
            self.set(txn, node, if free { order + 1 } else { 0 });
            return Ok(());
        }
        let value = self.value(txn, node, order)?;
        self.split(txn, node, order, value);
        let half = 1 << (order - 1);
        if units <= half {
            self.mark(txn, 2 * node, order - 1, units, free)?;
        } else {
            self.mark(txn, 2 * node, order - 1, half, free)?;
            self.mark(txn, 2 * node + 1, order - 1, units - half, free)?;
        }
        self.combine(txn, node, order)?;
        Ok(())
    }

    /// Gives a node the value that follows from its children's; whether it had another.
    fn combine<M: Memory>(&self, txn: &mut Transaction<'_, M>, node: u64, order: u32) -> Result<bool> {
        let before = self.value(txn, node, order)?;
        let left = self.value(txn, 2 * node, order - 1)?;
        let right = self.value(txn, 2 * node + 1, order - 1)?;
        let whole = left == order && right == order;
        let value = if whole { order + 1 } else { left.max(right) };
        self.set(txn, node, value);
        Ok(value != before)
    }

    /// Carries a change up, to the root or to a node whose value stays as it is: nothing changes above that.
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
