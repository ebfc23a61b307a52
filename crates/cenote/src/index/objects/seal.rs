//! Sealing: the object gets its name, by one insert, or gives way to one that has it.

use super::layout::{DELETED, SEALED, name_key};
use super::read::Holding;
use super::write::{Unsealed, has_expired};
use super::{ObjectStore, slots::held};
use crate::error::{Error, Result};
use crate::index::common::outcome::{Put, Replace};
use crate::memory::Memory;
use crate::memory::SyncWord;
use crate::memory::checked::sync_word;
use crate::mutant::{self, Mutant};
use crate::pod::format::superblock::seal_events;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::event_count::notify_waiting;

/// What sealing an object has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the object is gone if another one has its id"]
pub enum Sealed {
    /// Its id finds the object now.
    HasId,
    /// Another object has the id. This one is gone.
    IdTaken,
}

impl<M: Memory> ObjectStore<M> {
    /// Seals an object: gives it its name, unless another one has it.
    ///
    /// Cost: that of [`OrderedMap::insert`](crate::OrderedMap::insert), and a sync store or two; on incoherent memory
    /// the write-back of its data.
    ///
    /// # Errors
    ///
    /// If the pool is full. The object is gone.
    pub fn seal(&self, object: Unsealed) -> Result<Sealed> {
        self.complete(&object)?;
        let (key, value) = (name_key(&object.id), object.named.encode());
        let sealed = loop {
            match self.with_room(0, |_| self.map.insert(&key, &value)) {
                Ok(false) if self.has_way(&object.id, &key) => {}
                sealed => break sealed,
            }
        };
        crash_point(Point::ObjectNamed);
        match sealed {
            Ok(true) => {
                self.notify(&object.id);
                self.release(object.slot, object.named);
            }
            Ok(false) => self.abort(object),
            Err(_) => self.give_up(&key, object),
        }
        Ok(match sealed? {
            true => Sealed::HasId,
            false => Sealed::IdTaken,
        })
    }

    /// Whether the object that had the name has gone meanwhile, or its time was over and it is deleted now.
    fn has_way(&self, id: &[u8], key: &[u8]) -> bool {
        match self.find(key) {
            Ok(None) => true,
            Ok(Some(named)) => has_expired(self.mem(), named.expires) && self.expire(id).is_ok(),
            Err(_) => false,
        }
    }

    /// After a failure to name an object: gives it up, unless it has its name all the same. If that cannot be told, it
    /// stays in its slot, for as long as this process has the pool open. With its store it has lost its name.
    fn give_up(&self, key: &[u8], object: Unsealed) {
        match self.find(key) {
            Ok(Some(named)) if named.number == object.named.number => self.release(object.slot, object.named),
            Ok(_) | Err(Error::Dropped) => self.abort(object),
            Err(_) => {}
        }
    }

    /// Seals an object, in the place of the one that has its name if there is one. Views of the old object stay as they
    /// are.
    ///
    /// Cost: that of [`ObjectStore::seal`] and of [`ObjectStore::delete`].
    ///
    /// # Errors
    ///
    /// If the pool is full. The object is gone, and the other one is as it was.
    pub fn seal_over(&self, object: Unsealed) -> Result<Put> {
        self.complete(&object)?;
        let named = self.name_over(&object);
        match &named {
            Ok(_) => {
                self.notify(&object.id);
                self.release(object.slot, object.named);
            }
            Err(_) => self.give_up(&name_key(&object.id), object),
        }
        named
    }

    fn name_over(&self, object: &Unsealed) -> Result<Put> {
        let (key, value) = (name_key(&object.id), object.named.encode());
        loop {
            if self.with_room(0, |_| self.map.insert(&key, &value))? {
                return Ok(Put::Inserted);
            }
            let held = self.hold(&key, |_| true, |named| self.is_there(named))?;
            let Some(Holding::Held(old, slot)) = held else {
                continue;
            };
            let replaced = self.with_room(0, |_| self.map.replace(&key, &old.encode(), &value));
            crash_point(Point::ObjectUnnamed);
            let has_replaced = matches!(replaced, Ok(Replace::Replaced));
            if has_replaced && !mutant::is(Mutant::ReplacedKept) {
                // PAIRS WITH: index::objects::read::mark_viewed, index::objects::delete::begin_release
                sync_word(old.state).fetch_or(self.mem(), DELETED);
            }
            self.release(slot, old);
            replaced?;
            if has_replaced {
                return Ok(Put::Replaced);
            }
        }
    }

    /// Gives an object up that is not sealed.
    ///
    /// Cost: that of [`OrderedMap::remove`](crate::OrderedMap::remove), and two sync stores.
    pub fn abort(&self, object: Unsealed) {
        if self.worker().is_forked() {
            return;
        }
        let mem = self.mem();
        if !M::COHERENT && !mutant::is(Mutant::AbortedDataKept) {
            // Complete before the storage is retired: its memory may be reused when this process has left.
            mem.invalidate(object.named.data, object.named.size);
            mem.fence();
        }
        self.worker().pod().has_flushed(object.named.data);
        if !mutant::is(Mutant::LoserKept) {
            // PAIRS WITH: index::objects::read::mark_viewed, index::objects::delete::begin_release
            sync_word(object.named.state).fetch_or(mem, DELETED);
        }
        self.release(object.slot, object.named);
    }

    /// Completes an object's bytes before it gets a name.
    fn complete(&self, object: &Unsealed) -> Result<()> {
        if self.worker().is_forked() {
            return Err(Error::Forked);
        }
        let mem = self.mem();
        debug_assert_eq!(object.slot.load(mem), held(object.named.number));
        if !M::COHERENT && !mutant::is(Mutant::DataNotWrittenBack) {
            // Complete before the exchange that names the object; if there is none, `abort` completes it.
            mem.write_back(object.named.data, object.named.size);
            self.worker().pod().has_flushed(object.named.data);
        }
        // For eviction: what is not sealed is left alone.
        // NO PAIR: hint
        sync_word(object.named.state).store(mem, SEALED);
        Ok(())
    }

    /// Wakes threads that wait for an object.
    fn notify(&self, id: &[u8]) {
        // The name was ordered before by its exchange.
        notify_waiting(self.mem(), self.seal_events(id));
    }

    /// The event count of those who wait for an object.
    pub(super) fn seal_events(&self, id: &[u8]) -> SyncWord {
        seal_events(xxhash_rust::xxh3::xxh3_64_with_seed(id, self.identity().header()))
    }
}
