//! Eviction, quotas, and times to live.
//!
//! **Policy:** SIEVE (Zhang et al., NSDI '24). Storages are in the order in which they were made. A *hand* goes from
//! the oldest to the newest, and begins again. A storage that was viewed since the hand came by last loses its mark,
//! and stays; the next one without a mark is evicted, whatever its age. A scan of objects that nobody views again is
//! evicted behind the hand, and flushes nothing else. A view costs a mark, if the object has none.
//!
//! The hand is a word. Several that evict move it together; that two come to the same storage does no harm.

use std::collections::BTreeSet;

use super::ObjectStore;
use super::layout::{
    DELETED, EVICTED, NAMES, Named, SEALED, SLOTS, STORAGES, Storage, VISITED, name_key, now_ms, number_of,
    storage_key,
};
use super::recount::Recount;
use super::recover::recover_objects;
use super::write::has_expired;
use crate::error::{Error, Result};
use crate::index::ordered::range::Range;
use crate::memory::Memory;
use crate::pod::format::geometry::FRAME;
use crate::pod::instance::crash::{Point, crash_point};

/// How often objects are counted before a quota refuses, if others change the figure all the time.
const COUNTS_MAX: u32 = 4;

/// Rounds of the hand in one call, at most: one that takes marks away, one that evicts, and what was left of the first.
const ROUNDS_MAX: u32 = 3;

/// What was evicted since the store was created. A process that dies may leave some uncounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Evictions {
    /// Objects.
    pub objects: u64,
    /// Their bytes, with what surrounds them.
    pub bytes: u64,
    /// The sum of their ages when they were evicted, in milliseconds.
    pub ages_ms: u64,
    /// Objects that were deleted because their time was over; they are not among the others.
    pub expired: u64,
}

/// What the hand has found.
struct Candidate {
    number: u64,
    has_expired: bool,
}

impl<M: Memory> ObjectStore<M> {
    /// What was evicted; nothing of a store that was dropped.
    ///
    /// Cost: four sync loads.
    pub fn evictions(&self) -> Evictions {
        let mem = self.mem();
        let Ok(_pin) = self.map.pin() else {
            return Evictions::default();
        };
        Evictions {
            objects: self.meta.evicted().load(mem),
            bytes: self.meta.evicted_bytes().load(mem),
            ages_ms: self.meta.evicted_ages().load(mem),
            expired: self.meta.expired().load(mem),
        }
    }

    /// Tries what needs so many bytes until it succeeds, as long as objects can be evicted for it, or dead processes'
    /// be removed. The attempt is told whether it should wait for room.
    pub(super) fn with_room<T>(&self, needed: u64, mut attempt: impl FnMut(bool) -> Result<T>) -> Result<T> {
        let full = match attempt(!self.settings.evict) {
            Err(error @ Error::Full { .. }) => error,
            done => return done,
        };
        let most = self.worker().geometry().parameters.max_frames * FRAME;
        if !self.settings.evict {
            // Other stores of the pool have room, too, of processes that are gone.
            recover_objects(self.map.worker());
            self.finish_deferred();
            if needed > most {
                return Err(full);
            }
            return match self.evict_expired() {
                Ok(_) | Err(Error::Full { .. }) => attempt(true),
                Err(error) => Err(error),
            };
        }
        let _ = self.sweep_gone();
        self.finish_deferred();
        if needed > most {
            return Err(full);
        }
        // Only when this store has no more to give: a full cache comes here with each object, and other stores may have
        // many slots.
        let mut may_recover = true;
        loop {
            let evicted = match self.evict(needed) {
                // There is no room for a removal either.
                Err(Error::Full { .. }) => 0,
                evicted => evicted?,
            };
            match attempt(true) {
                Err(Error::Full { .. }) if evicted > 0 => {}
                Err(Error::Full { .. }) if std::mem::take(&mut may_recover) => {
                    recover_objects(self.map.worker())
                }
                done => return done,
            }
        }
    }

    /// Makes room for so many bytes in the store's quota.
    pub(super) fn keep_quota(&self, needed: u64) -> Result<()> {
        let Some(limit) = self.settings.quota else {
            return Ok(());
        };
        let has_room = || self.bytes().saturating_add(needed) <= limit;
        if has_room() {
            return Ok(());
        }
        let refused = || {
            Err(Error::Quota {
                needed,
                used: self.bytes(),
                limit,
            })
        };
        if needed > limit {
            return refused();
        }
        let _ = self.sweep_gone();
        let mut counts = 0;
        while !has_room() {
            let too_many = self.bytes().saturating_add(needed).saturating_sub(limit);
            let made = match self.settings.evict {
                true => self.evict(too_many)?,
                false => self.evict_expired()?,
            };
            if made > 0 {
                continue;
            }
            // It may be too high, as processes have died; and others may have made room.
            let counted = self.recount()?;
            counts += 1;
            if !has_room() && (counted == Recount::Exact || counts == COUNTS_MAX) {
                return refused();
            }
        }
        Ok(())
    }

    /// Evicts objects of so many bytes at least, if there are as many that are not viewed just now. Returns how many
    /// bytes they had.
    ///
    /// Cost: a scan of all slots; a search for each leaf of storages that the hand passes; for each object that of
    /// [`ObjectStore::delete`].
    pub fn evict(&self, wanted: u64) -> Result<u64> {
        let mut held = BTreeSet::new();
        self.for_each_table(None, |table| held.extend(table.held()))?;
        let (mut evicted, mut rounds) = (0, 0);
        while evicted < wanted.max(1) && rounds < ROUNDS_MAX {
            match self.advance_hand(&held)? {
                Some(candidate) => evicted += self.evict_one(&candidate)?,
                None => rounds += 1,
            }
        }
        Ok(evicted)
    }

    /// Deletes all objects whose time is over. Returns how many.
    ///
    /// Cost: a scan of all names, and for each object that of [`ObjectStore::delete`].
    pub fn expire_all(&self) -> Result<u64> {
        let mut expired = Vec::new();
        self.for_each_name(|id, named| {
            if has_expired(self.mem(), named.expires) {
                expired.push(id.to_vec());
            }
        })?;
        let mut count = 0;
        for id in expired {
            count += u64::from(self.expire(&id)?);
        }
        Ok(count)
    }

    /// Evicts the objects whose time is over, before something is refused. Returns how many bytes they had. It needs no
    /// slot, as eviction does not.
    ///
    /// Cost: a scan of all names, unless this handle has found when the next object's time is over, and as many bytes
    /// are in use as then; for each object that of [`ObjectStore::delete`].
    fn evict_expired(&self) -> Result<u64> {
        let (mem, in_use) = (self.mem(), self.bytes());
        let known = self.next_expiry.get();
        if known.is_some_and(|(then, next)| then == in_use && now_ms(mem) < next) {
            return Ok(0);
        }
        let (mut expired, mut next) = (Vec::new(), u64::MAX);
        self.for_each_name(|_, named| match has_expired(mem, named.expires) {
            true => expired.push(named.number),
            false if named.expires != 0 => next = next.min(named.expires),
            false => {}
        })?;
        self.next_expiry.set(expired.is_empty().then_some((in_use, next)));
        let mut bytes = 0;
        for number in expired {
            bytes += self.evict_one(&Candidate {
                number,
                has_expired: true,
            })?;
        }
        Ok(bytes)
    }

    /// Calls `each` for all ids and what they refer to.
    fn for_each_name(&self, mut each: impl FnMut(&[u8], Named)) -> Result<()> {
        let mut outcome = Ok(());
        let range = Range {
            from: &[NAMES],
            to: Some(&[STORAGES]),
        };
        self.map.scan(range, |key, value| {
            outcome = Named::decode(self.worker(), value).map(|named| each(&key[1..], named));
            outcome.is_ok()
        })?;
        outcome
    }

    /// Deletes an object if its time is over. Returns whether it did.
    pub(super) fn expire(&self, id: &[u8]) -> Result<bool> {
        let expired = self.delete_if(id, |named| has_expired(self.mem(), named.expires))?;
        if expired {
            self.count(|meta| meta.expired(), 1);
        }
        Ok(expired)
    }

    /// Evicts a candidate, if it is still there, or goes on where another evictor died. Returns its bytes. It needs no
    /// slot: there may be none, and no room for one.
    fn evict_one(&self, candidate: &Candidate) -> Result<u64> {
        let (mem, number) = (self.mem(), candidate.number);
        let (storage, key, named) = {
            let _pin = self.map.pin()?;
            let Some(record) = self.map.record_of(&storage_key(number))? else {
                return Ok(0);
            };
            let storage = Storage::of_record(self.worker(), record)?;
            let key = name_key(&storage.id(mem));
            let named = self.find(&key)?.filter(|named| named.number == number);
            let is_evicted = storage.state().load(mem) & EVICTED != 0;
            match named {
                // PAIRS WITH: index::objects::read::mark_viewed, index::objects::delete::begin_release
                Some(_) => drop(storage.state().fetch_or(mem, DELETED | EVICTED)),
                // The thread that has taken the name away is answerable for it.
                None if !is_evicted => return Ok(0),
                None => {}
            }
            crash_point(Point::ObjectEvicted);
            (storage, key, named)
        };
        // Not under the pin: a removal may wait for memory that pins hold back.
        if let Some(named) = named {
            self.map.remove_if(&key, &named.encode())?;
            crash_point(Point::ObjectEvicted);
        }
        if self.is_held(number, None)? || !self.remove_storage(number)? {
            return Ok(0);
        }
        let age = now_ms(mem).saturating_sub(storage.created);
        match candidate.has_expired {
            true => self.count(|meta| meta.expired(), 1),
            false => {
                self.count(|meta| meta.evicted(), 1);
                self.count(|meta| meta.evicted_bytes(), storage.len);
                self.count(|meta| meta.evicted_ages(), age);
            }
        }
        Ok(storage.len)
    }

    /// Moves the hand to the next storage that may be evicted, and is not held; `None` if it has come to the end.
    fn advance_hand(&self, held: &BTreeSet<u64>) -> Result<Option<Candidate>> {
        let (worker, mem, hand) = (self.worker(), self.mem(), self.meta.hand());
        loop {
            let _pin = self.map.pin()?;
            let passed = hand.load(mem);
            let from = storage_key(passed.saturating_add(1));
            let range = Range {
                from: &from,
                to: Some(&[SLOTS]),
            };
            let (mut candidate, mut last) = (None, passed);
            let next = self.map.step_records(range, |key, record| {
                if candidate.is_some() {
                    return Ok(());
                }
                let Some(number) = number_of(key) else {
                    return Err(Error::corrupt("the key of a storage at", record));
                };
                last = number;
                let storage = Storage::of_record(worker, record)?;
                if self.may_evict(&storage, held) {
                    candidate = Some(Candidate {
                        number,
                        has_expired: has_expired(self.mem(), storage.expires),
                    });
                }
                Ok(())
            })?;
            let is_through = candidate.is_none() && next.is_none();
            // NO PAIR: hint
            hand.store(mem, if is_through { 0 } else { last });
            crash_point(Point::ObjectHand);
            if candidate.is_some() || is_through {
                return Ok(candidate);
            }
            // A leaf without a storage: the next one begins where it ends.
            if last == passed {
                let beyond = next.as_deref().and_then(number_beyond);
                // NO PAIR: hint
                hand.store(mem, beyond.unwrap_or(0));
                if beyond.is_none() {
                    return Ok(None);
                }
            }
        }
    }

    /// Whether the hand stops at a storage. Takes its mark away if not.
    fn may_evict(&self, storage: &Storage, held: &BTreeSet<u64>) -> bool {
        let (mem, state) = (self.mem(), storage.state());
        let seen = state.load(mem);
        if held.contains(&storage.number) {
            return false;
        }
        if seen & EVICTED != 0 {
            return true;
        }
        if seen & (SEALED | DELETED) != SEALED {
            return false;
        }
        if has_expired(self.mem(), storage.expires) || seen & VISITED == 0 {
            return true;
        }
        // NO PAIR: hint
        state.fetch_and(mem, !VISITED);
        false
    }
}

/// The number before the first storage that a fence does not exclude. Fences are keys, or begin one.
fn number_beyond(fence: &[u8]) -> Option<u64> {
    let (&STORAGES, rest) = fence.split_first()? else {
        return None;
    };
    let mut number = [0; 8];
    let len = rest.len().min(8);
    number[..len].copy_from_slice(&rest[..len]);
    u64::from_be_bytes(number).checked_sub(1)
}
