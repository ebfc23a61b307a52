//! Viewing an object where it is.
//!
//! The slot is a hazard pointer, whose storage is read again once the slot is stored. The thread that deletes the
//! object marks the storage first, and reads slots then: one of the two sees the other.

use super::ObjectStore;
use super::layout::{DELETED, Named, Storage, VIEWED, VISITED, name_key};
use super::settings::unless_0;
use super::slots::held;
use super::write::{check_id, has_expired};
use crate::error::{Error, Result};
use crate::memory::checked::{published, sync_word};
use crate::memory::{Memory, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::event_count::prepare_wait;

/// An object that is viewed. It must be released, by any thread of the process.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub struct Viewed {
    pub(super) named: Named,
    pub(super) slot: SyncWord,
}

impl Viewed {
    /// Bytes of its data.
    pub fn size(&self) -> u64 {
        self.named.size
    }

    /// Where its data begins: a multiple of 64.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn data(&self) -> u64 {
        self.named.data
    }

    /// When its time is over, in milliseconds since 1970; 0 for never.
    pub fn expires_ms(&self) -> Option<u64> {
        unless_0(self.named.expires)
    }

    /// Its metadata.
    pub(crate) fn metadata<M: Memory>(&self, worker: &Worker<M>) -> Result<Vec<u8>> {
        Ok(Storage::at(worker, self.named.state)?.metadata(worker.mem()))
    }

    /// Its bytes. They are what they were when it was sealed, until it is released.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn bytes<'m, M: Memory>(&self, mem: &'m M) -> &'m [u8] {
        published(self.named.data, self.named.size).bytes(mem)
    }

    /// A copy of its bytes.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn copied<M: Memory>(&self, mem: &M) -> Vec<u8> {
        published(self.named.data, self.named.size).copied(mem)
    }
}

/// What [`ObjectStore::hold`] has come to.
pub(super) enum Holding {
    /// A slot holds the object.
    Held(Named, SyncWord),
    /// It was deleted before.
    Deleted,
}

impl<M: Memory> ObjectStore<M> {
    /// Views the object of an id.
    ///
    /// Cost: that of [`OrderedMap::get`](crate::OrderedMap::get), a sequentially consistent store, and a sync load; the
    /// first time since eviction came by, an exchange.
    pub fn view(&self, id: &[u8]) -> Result<Option<Viewed>> {
        check_id(id)?;
        let key = name_key(id);
        loop {
            let mut has_passed = false;
            let wants = |named: &Named| {
                has_passed = has_expired(self.mem(), named.expires);
                !has_passed
            };
            let found = self.hold(&key, wants, |named| self.mark_viewed(named))?;
            if has_passed {
                self.expire(id)?;
                return Ok(None);
            }
            match found {
                None => return Ok(None),
                Some(Holding::Deleted) => {}
                Some(Holding::Held(named, slot)) => return Ok(Some(Viewed { named, slot })),
            }
        }
    }

    /// Marks an object in the slot of this thread as viewed. `false` if it was deleted before.
    fn mark_viewed(&self, named: Named) -> bool {
        const MARKS: u64 = VIEWED | VISITED;
        let (mem, state) = (self.mem(), sync_word(named.state));
        let seen = state.load(mem);
        if seen & MARKS == MARKS || mutant::is(Mutant::ViewNotMarked) {
            return seen & DELETED == 0 || mutant::is(Mutant::ViewNotChecked);
        }
        // PAIRS WITH: index::objects::delete::unname, index::objects::seal::name_over, index::objects::seal::abort, index::objects::evict::evict_one, index::objects::recover::recover_storage, index::objects::delete::begin_release
        state.fetch_or(mem, MARKS) & DELETED == 0 || mutant::is(Mutant::ViewNotChecked)
    }

    /// Whether an object in the slot of this thread was deleted before.
    pub(super) fn is_there(&self, named: Named) -> bool {
        sync_word(named.state).load(self.mem()) & DELETED == 0
    }

    /// Finds what a name refers to, if `wants` it, and has a slot hold it. If `is_there` says that it is not deleted,
    /// it stays in place. Else its name is gone once this has returned.
    pub(super) fn hold(
        &self,
        key: &[u8],
        wants: impl FnOnce(&Named) -> bool,
        is_there: impl FnOnce(Named) -> bool,
    ) -> Result<Option<Holding>> {
        let (worker, mem) = (self.worker(), self.mem());
        if worker.is_forked() {
            return Err(Error::Forked);
        }
        let slot = self.take_slot()?;
        let held = (|| {
            // The name was there under the pin, so the storage stays until the pin ends.
            let _pin = self.map.pin()?;
            let Some(named) = self.find(key)?.filter(wants) else {
                return Ok(None);
            };
            if !mutant::is(Mutant::HeldLate) {
                // PAIRS WITH: index::objects::slots::for_each_table
                slot.store_seq_cst(mem, held(named.number));
            }
            crash_point(Point::ObjectHeld);
            let is_there = is_there(named);
            mutant::also(Mutant::HeldLate, || {
                // PAIRS WITH: index::objects::slots::for_each_table
                slot.store_seq_cst(mem, held(named.number))
            });
            Ok(Some((named, is_there)))
        })();
        match held {
            Ok(Some((named, true))) => Ok(Some(Holding::Held(named, slot))),
            Ok(Some((named, false))) => {
                // It was evicted, by a thread that may have died since.
                let unnamed = self.map.remove_if(key, &named.encode());
                self.release(slot, named);
                unnamed.map(|_| Some(Holding::Deleted))
            }
            Ok(None) => {
                self.slots.give(slot);
                Ok(None)
            }
            Err(error) => {
                self.slots.give(slot);
                Err(error)
            }
        }
    }

    /// The metadata of an object that is viewed.
    ///
    /// Cost: two misses, and those of the metadata.
    pub fn metadata(&self, object: &Viewed) -> Result<Vec<u8>> {
        object.metadata(self.worker())
    }

    /// Ends a view.
    ///
    /// Cost: two sync stores and a sync load; if the object is deleted, and this was its last view, that of its
    /// removal.
    pub fn end_view(&self, object: Viewed) {
        self.release(object.slot, object.named);
    }

    /// The caller is about to wait until an object is sealed, and looks once more before it does. Returns what
    /// [`Kernel::wait`](crate::memory::Kernel::wait) needs.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn prepare_wait(&self, id: &[u8]) -> Result<(u64, u32)> {
        // Before the look: a drop is told before it is notified.
        let prepared = prepare_wait(self.mem(), self.seal_events(id));
        let _pin = self.map.pin_to_wait()?;
        Ok(prepared)
    }
}
