//! Taking a map apart that nobody else uses any more: all its keys are removed, then its levels are unlinked, the
//! oldest first. A crash leaves a smaller map.

use super::HashMap;
use super::iter::Cursor;
use super::level::{Level, UPDATING};
use super::share;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::memory::checked::sync_word;
use crate::pod::commit::publish::{Change, publish};
use crate::pod::format::record::operation;
use crate::pod::reclaim::collect;
use crate::pod::reclaim::room::with_room;

impl<M: Memory> HashMap<M> {
    /// Removes everything but the header. No other worker uses the map.
    ///
    /// Cost: that of [`HashMap::remove`] for each key.
    pub(in crate::index) fn clear(&self) -> Result<()> {
        let mut cursor = Some(Cursor::default());
        while let Some(from) = cursor {
            let mut keys = Vec::new();
            cursor = self.step(from, |key, _| keys.push(key.to_vec()))?;
            for key in keys {
                self.remove(&key)?;
            }
        }
        self.forget_replicas()?;
        while with_room(&self.worker, || self.unlink_level())? {}
        Ok(())
    }

    /// Replicas of a root that is about to be none: nobody reads them any more, but `fsck` compares them with the root.
    fn forget_replicas(&self) -> Result<()> {
        let _pin = self.pin()?;
        for worker in 0..u64::from(self.worker.geometry().parameters.workers) {
            // NO PAIR: hint
            sync_word(share(self.header, worker)).store(self.worker.mem(), 0);
        }
        Ok(())
    }

    /// Unlinks the oldest level. Returns whether there was one.
    fn unlink_level(&self) -> Result<bool> {
        let worker = &*self.worker;
        let _hold = collect::begin_write(worker)?;
        let _pin = self.pin()?;
        let root = self.root().load(worker.mem());
        let Some(level) = Level::decode(worker, root & !UPDATING)? else {
            return Ok(false);
        };
        // Of the keys that it may still show as moved none is left.
        let change = Change {
            slot: self.root(),
            current: root,
            next: level.next().load(worker.mem()),
            operation: operation::REMOVE,
            old: level.offset,
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
