//! Taking a map apart that nobody else uses any more: all its keys are removed, then the root, which has no child by
//! then. A crash leaves a smaller map.

use super::OrderedMap;
use super::page::Page;
use super::range::Range;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::pod::commit::publish::{Change, publish};
use crate::pod::format::record::operation;
use crate::pod::reclaim::collect;
use crate::pod::reclaim::room::with_room;

/// Walks in a row that merge no leaf, after which the rest is left for another time.
const STALLS_MAX: u32 = 16;

impl<M: Memory> OrderedMap<M> {
    /// Removes everything but the header. No other worker uses the map. `false` if nodes are left, as there is no room
    /// to merge them.
    ///
    /// Cost: that of [`OrderedMap::remove`] for each key.
    pub(in crate::index) fn clear(&self) -> Result<bool> {
        let (mut leaves, mut stalls) = (u64::MAX, 0);
        while stalls < STALLS_MAX {
            let now = self.clear_leaves()?;
            if with_room(&self.worker, || self.unlink_root())? {
                return Ok(true);
            }
            // What there was no room to merge may have room now that others are merged.
            stalls = if now < leaves { 0 } else { stalls + 1 };
            leaves = now;
        }
        Ok(false)
    }

    /// Removes all keys, leaf by leaf, and merges the leaves as far as there is room. Returns how many there were.
    fn clear_leaves(&self) -> Result<u64> {
        let (mut from, mut leaves) = (Some(Vec::new()), 0);
        while let Some(at) = from {
            let mut keys = Vec::new();
            let range = Range { from: &at, to: None };
            from = {
                let _pin = self.pin()?;
                self.step_keys(range, |key| keys.push(key.to_vec()))?
            };
            // A leaf that a worker emptied which died before it merged it, or that there was no room to merge.
            if keys.is_empty() {
                self.merge_thin(&at)?;
            }
            for key in keys {
                self.remove(&key)?;
            }
            leaves += 1;
        }
        Ok(leaves)
    }

    /// Unlinks the root's page. `false` if it has children.
    fn unlink_root(&self) -> Result<bool> {
        let worker = &*self.worker;
        let _hold = collect::begin_write(worker)?;
        let _pin = self.pin()?;
        let root = self.root().load(worker.mem());
        if root == 0 {
            return Ok(true);
        }
        let page = Page::open(worker, root)?;
        if page.level() != 0 {
            return Ok(false);
        }
        let change = Change {
            slot: self.root(),
            current: root,
            next: 0,
            operation: operation::REMOVE,
            old: root,
            count: None,
        };
        self.forget_cached();
        match publish(worker, &change)?.is_made() {
            true => Ok(true),
            false => Err(Error::corrupt(
                "the root of a map that nobody uses, which changed, at",
                self.header,
            )),
        }
    }
}
