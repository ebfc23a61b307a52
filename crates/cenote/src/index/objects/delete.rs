//! Deleting an object, and releasing a storage: a thread takes it out of a slot, and checks whether it can be freed.

use std::cell::Cell;
use std::rc::Rc;

use super::ObjectStore;
use super::layout::{DELETED, EVICTED, Named, Storage, VIEWED, name_key, storage_key};
use super::read::{Holding, Viewed};
use super::slots::{Deferred, Slots, releasing};
use super::write::{check_id, has_expired};
use crate::error::{Error, Result};
use crate::memory::checked::sync_word;
use crate::memory::{Memory, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::alloc::holes::has_bytes;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::names::dropping::Identity;

impl<M: Memory> ObjectStore<M> {
    /// Deletes the object of an id. Returns whether there was one. Its bytes stay until the last view of it ends; its
    /// id is free at once.
    ///
    /// Cost: that of two [`OrderedMap::remove`](crate::OrderedMap::remove), an exchange, and two sync stores; if it was
    /// ever viewed, a scan of the slots of all processes.
    pub fn delete(&self, id: &[u8]) -> Result<bool> {
        check_id(id)?;
        self.finish_deferred();
        // One whose time is over is deleted too, and was none any more.
        let was_there = Cell::new(false);
        let wants = |named: &Named| {
            was_there.set(!has_expired(self.mem(), named.expires));
            true
        };
        Ok(self.delete_if(id, wants)? && was_there.get())
    }

    /// Deletes the object of an id if it is wanted. Returns whether it was there, and was wanted.
    pub(super) fn delete_if(&self, id: &[u8], wants: impl Fn(&Named) -> bool) -> Result<bool> {
        let key = name_key(id);
        loop {
            let (named, slot) = match self.hold(&key, &wants, |named| self.is_there(named))? {
                None => return Ok(false),
                Some(Holding::Deleted) => continue,
                Some(Holding::Held(named, slot)) => (named, slot),
            };
            let unnamed = self.unname(&key, named);
            self.release(slot, named);
            if unnamed? {
                return Ok(true);
            }
        }
    }

    /// Takes an object's name away, if it still has it, and marks its storage. The caller holds the storage.
    fn unname(&self, key: &[u8], named: Named) -> Result<bool> {
        let unnamed = self.map.remove_if(key, &named.encode())?;
        crash_point(Point::ObjectUnnamed);
        if unnamed && !mutant::is(Mutant::DeletedUnmarked) {
            // PAIRS WITH: index::objects::read::mark_viewed, index::objects::delete::begin_release
            sync_word(named.state).fetch_or(self.mem(), DELETED);
        }
        Ok(unnamed)
    }

    /// Releases a storage that a slot holds, and removes it if it is deleted and nobody else holds it. If that fails,
    /// it is done later.
    pub(super) fn release(&self, slot: SyncWord, named: Named) {
        match begin_release(self.worker(), &self.slots, slot, named) {
            Ok(None) => {}
            Ok(Some(state)) => {
                self.finish_release(slot, named.number, may_be_held(state));
            }
            Err(_) => self.slots.defer_held(slot, named.number),
        }
    }

    /// Removes the storage that a slot is releasing, unless somebody holds it. Whether that is done, and not deferred.
    fn finish_release(&self, slot: SyncWord, number: u64, may_be_held: bool) -> bool {
        let done = (|| {
            if may_be_held && self.is_held(number, None)? && !mutant::is(Mutant::HeldRemoved) {
                return Ok(());
            }
            self.remove_storage(number).map(drop)
        })();
        match done {
            Ok(()) => free_slot(&self.slots, slot),
            Err(_) => self.slots.defer(slot, number),
        }
        done.is_ok()
    }

    /// Finishes releases that have failed, because there was no room for them. One that fails again is left for later,
    /// with those behind it.
    pub(super) fn finish_deferred(&self) {
        if self.worker().is_forked() {
            return;
        }
        while let Some(deferred) = self.slots.deferred() {
            if !self.finish(deferred) {
                return;
            }
        }
    }

    /// Finishes a release. Whether it is done, and not deferred once more.
    fn finish(&self, deferred: Deferred) -> bool {
        let Deferred {
            slot,
            number,
            is_held,
        } = deferred;
        let is_deleted: Result<bool> = (|| {
            let _pin = match self.map.pin() {
                // The object goes with the store, which stays as long as the slot holds something.
                Err(Error::Dropped) if is_held => {
                    // PAIRS WITH: index::objects::slots::for_each_table
                    slot.store_seq_cst(self.mem(), releasing(number));
                    return Ok(false);
                }
                Err(Error::Dropped) => return Ok(false),
                pin => pin?,
            };
            // PAIRS WITH: index::objects::slots::for_each_table
            slot.store_seq_cst(self.mem(), releasing(number));
            let Some(record) = self.map.record_of(&storage_key(number))? else {
                return Ok(false);
            };
            let storage = Storage::of_record(self.worker(), record)?;
            Ok(storage.state().load(self.mem()) & DELETED != 0)
        })();
        match is_deleted {
            Ok(true) => self.finish_release(slot, number, true),
            Ok(false) => {
                free_slot(&self.slots, slot);
                true
            }
            Err(_) => {
                match is_held {
                    true => self.slots.defer_held(slot, number),
                    false => self.slots.defer(slot, number),
                }
                false
            }
        }
    }

    /// Whether a living process holds any storage.
    pub(in crate::index) fn is_any_held(&self) -> Result<bool> {
        let mut holders = Vec::new();
        self.for_each_table(None, |table| {
            if table.held().next().is_some() {
                holders.push(table.process);
            }
        })?;
        let pod = self.worker().pod();
        for holder in holders {
            if holder == pod.process_identity() || !pod.process_is_gone(holder)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a living process holds a storage. The slots of one process may be left out, which is dead.
    pub(super) fn is_held(&self, number: u64, besides: Option<u64>) -> Result<bool> {
        let mut holders = Vec::new();
        self.for_each_table(None, |table| {
            if table.referred.contains(&(number, true)) && Some(table.process) != besides {
                holders.push(table.process);
            }
        })?;
        let pod = self.worker().pod();
        let own = pod.process_identity();
        for holder in holders {
            if holder == own || !pod.process_is_gone(holder)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes a storage, if it is there. Several may do so at the same time. Returns whether this one did. The name of
    /// an evicted object is taken away before, if it still has it: its evictor may have died.
    pub(super) fn remove_storage(&self, number: u64) -> Result<bool> {
        let (mem, key) = (self.mem(), storage_key(number));
        let (len, evicted) = {
            let _pin = self.map.pin()?;
            let Some(record) = self.map.record_of(&key)? else {
                return Ok(false);
            };
            let storage = Storage::of_record(self.worker(), record)?;
            let is_evicted = storage.state().load(mem) & EVICTED != 0;
            (storage.len, is_evicted.then(|| name_key(&storage.id(mem))))
        };
        if let Some(name) = evicted
            && let Some(named) = self.find(&name)?.filter(|named| named.number == number)
        {
            self.map.remove_if(&name, &named.encode())?;
        }
        let removed = self.map.remove(&key)?;
        if removed {
            crash_point(Point::ObjectRemoved);
            self.count(|meta| meta.bytes(), len.wrapping_neg());
        }
        Ok(removed)
    }
}

/// Ends a view by any worker of the process that viewed. What cannot be done now is done later.
///
/// Cost: two sync stores and a sync load; if the object is deleted, and this was its last view, a handle on the store,
/// and a removal.
pub(crate) fn end_view_at<M: Memory>(
    worker: &Rc<Worker<M>>,
    identity: Identity,
    slots: &Slots,
    object: Viewed,
) {
    let (slot, number) = (object.slot, object.named.number);
    match begin_release(worker, slots, slot, object.named) {
        Ok(None) => {}
        Ok(Some(state)) => match ObjectStore::again(worker.clone(), identity) {
            // A failure is deferred.
            Ok(Some(store)) => drop(store.finish_release(slot, number, may_be_held(state))),
            // The object goes with the store.
            Ok(None) => {}
            Err(_) => slots.defer(slot, number),
        },
        Err(_) => slots.defer_view(object),
    }
}

/// Has a slot say that it releases its storage. Returns the storage's state if it is deleted; else the slot is free.
fn begin_release<M: Memory>(
    worker: &Worker<M>,
    slots: &Slots,
    slot: SyncWord,
    named: Named,
) -> Result<Option<u64>> {
    let mem = worker.mem();
    let state = {
        // What was viewed is in place at least until the slot says releasing, and then until the pin ends. What was not
        // may be gone, as a thread that removes it does not ask whether others who hold it were about to delete it, or
        // had just sealed it. Then the word may be anything; its number finds nothing any more, and nothing is removed.
        // It may even be the file system's again.
        let _pin = worker.pin()?;
        match mutant::is(Mutant::ReleasedAtOnce) {
            // PAIRS WITH: index::objects::slots::for_each_table
            true => slot.store_seq_cst(mem, 0),
            // PAIRS WITH: index::objects::slots::for_each_table
            false => slot.store_seq_cst(mem, releasing(named.number)),
        }
        match has_bytes(worker, named.state) {
            // PAIRS WITH: index::objects::delete::unname, index::objects::seal::name_over, index::objects::seal::abort, index::objects::evict::evict_one, index::objects::recover::recover_storage, index::objects::read::mark_viewed
            true => sync_word(named.state).peek_speculative(mem),
            false => 0,
        }
    };
    crash_point(Point::ObjectReleasing);
    if state & DELETED != 0 && !mutant::is(Mutant::ReleasedUnchecked) {
        return Ok(Some(state));
    }
    free_slot(slots, slot);
    Ok(None)
}

/// Whether others may hold a storage of this state: they view it, or take the name of an evicted one away.
fn may_be_held(state: u64) -> bool {
    state & (VIEWED | EVICTED) != 0
}

/// Gives back a slot that does not hold anything. It keeps what it says: that it releases a storage. A store of 0 would
/// have to be complete before another thread takes the slot.
fn free_slot(slots: &Slots, slot: SyncWord) {
    crash_point(Point::ObjectReleased);
    slots.give(slot);
}
