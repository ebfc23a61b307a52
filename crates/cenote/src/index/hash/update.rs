//! Writing: insert, replace, compare-and-replace, remove.
//!
//! Each write is one compare-exchange on the slot that the search found (see `pod::commit::publish` for what surrounds
//! it). If the slot has changed meanwhile, the writer searches again: another one made progress. A slot that is frozen
//! or moved means that the group is moving to the next level: the writer moves the whole group itself and goes on
//! there. An insertion that finds its group full takes a removed key's slot ([`super::claim`]) before it links a
//! further line; only once, so that writers do not clear each other's claims for ever.

use super::claim::Destination;
use super::level::{LINE_SLOTS, Level, home_of};
use super::probe::Probe;
use super::slot::Slot;
use super::{HashMap, Root};
use crate::causes::Shortage;
use crate::error::{Error, Result};
use crate::index::common::outcome::{Put, Replace, When};
use crate::index::common::pair::{self, KEY_MAX, word};
use crate::memory::checked::{sync_word, unpublished};
use crate::memory::{LINE, Memory, OwnedWord, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::alloc::heap;
use crate::pod::commit::publish::{Auxiliary, Change, publish, publish_auxiliary};
use crate::pod::format::record::operation;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::reclaim::collect;
use crate::pod::reclaim::room::Room;

/// How a write ended.
enum Outcome {
    Inserted,
    Replaced,
    Exists,
    Differs(Vec<u8>),
    Missing,
}

impl<M: Memory> HashMap<M> {
    /// Sets a key's value, whether it had one or not.
    ///
    /// Cost: a search, one compare-exchange, one object; for a key that had a value, the retirement of the old object:
    /// on incoherent memory one write-back.
    ///
    /// Errors: [`Error::KeyTooLong`](crate::Error::KeyTooLong), [`Error::Full`](crate::Error::Full).
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<Put> {
        match self.write(key, value, When::Always)? {
            Outcome::Inserted => Ok(Put::Inserted),
            _ => Ok(Put::Replaced),
        }
    }

    /// [`HashMap::put`] for an 8-byte key and value.
    ///
    /// Cost: as of [`HashMap::put`].
    ///
    /// Errors: [`Error::KeyTooLong`](crate::Error::KeyTooLong), [`Error::Full`](crate::Error::Full).
    #[inline]
    pub fn put_u64(&self, key: u64, value: u64) -> Result<Put> {
        self.put(&key.to_le_bytes(), &value.to_le_bytes())
    }

    /// Sets a key's value if it has none. Returns whether it did.
    ///
    /// Cost: as of [`HashMap::put`] if the key has no value; else a search.
    ///
    /// Errors: [`Error::KeyTooLong`](crate::Error::KeyTooLong), [`Error::Full`](crate::Error::Full).
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(matches!(
            self.write(key, value, When::IfAbsent)?,
            Outcome::Inserted
        ))
    }

    /// Replaces a key's value if it is `expected`. In a map that overwrites in place, an 8-byte value of an 8-byte
    /// key can only be replaced by another of 8 bytes ([`Error::InPlace`]).
    ///
    /// Cost: as of [`HashMap::put`], and a read of the value that is there; without the write if that is another.
    ///
    /// Errors: [`Error::KeyTooLong`](crate::Error::KeyTooLong), [`Error::Full`](crate::Error::Full),
    /// [`Error::InPlace`](crate::Error::InPlace).
    pub fn replace(&self, key: &[u8], expected: &[u8], value: &[u8]) -> Result<Replace> {
        Ok(match self.write(key, value, When::IfEqual(expected))? {
            Outcome::Differs(found) => Replace::Differs(found),
            Outcome::Missing => Replace::Missing,
            _ => Replace::Replaced,
        })
    }

    fn write(&self, key: &[u8], value: &[u8], when: When<'_>) -> Result<Outcome> {
        if key.len() > KEY_MAX {
            return Err(Error::KeyTooLong {
                len: key.len(),
                max: KEY_MAX,
            });
        }
        let hash = self.hash(key);
        self.prefetch_home(hash);
        let mut room = Room::new(&self.worker);
        loop {
            match self.attempt(hash, key, value, when) {
                Err(error) => room.make_after(error)?,
                outcome => return outcome,
            }
        }
    }

    /// One attempt at a write, which fails as a whole if the pool is full.
    #[inline]
    fn attempt(&self, hash: u64, key: &[u8], value: &[u8], when: When<'_>) -> Result<Outcome> {
        let worker = &*self.worker;
        if M::COHERENT && self.is_in_place() && matches!(when, When::Always) {
            // Nothing is retired: the list needs no hold.
            let _pin = self.pin()?;
            if self.overwrite_likely(hash, key, value) {
                return Ok(Outcome::Replaced);
            }
        }
        let _hold = collect::begin_write(worker)?;
        let _pin = self.pin()?;
        match self.write_pinned(hash, key, value, when) {
            Ok(Outcome::Inserted) => Ok(Outcome::Inserted),
            Ok(Outcome::Replaced) => Ok(Outcome::Replaced),
            other => {
                heap::discard(worker)?;
                other
            }
        }
    }

    /// Prefetches a key's home line. Needs no pin: the level may be gone, but its addresses are still the pool's.
    #[inline]
    fn prefetch_home(&self, hash: u64) {
        if M::COHERENT && self.cached.get() != 0 {
            self.worker
                .mem()
                .prefetch(home_of(&self.cached_level.get(), hash));
        }
    }

    fn write_pinned(&self, hash: u64, key: &[u8], value: &[u8], when: When<'_>) -> Result<Outcome> {
        let mut level = self.level_for_writing()?;
        let mut new = Slot::EMPTY;
        let mut may_claim = true;
        if M::COHERENT && matches!(when, When::Always) {
            if self.has_replaced.get()
                && let Some(object) = self.likely_object(&self.worker, hash)
            {
                self.worker.mem().prefetch(object);
            }
            // The object will be needed whatever is found: write it while lines are being fetched.
            new = self.build(hash, key, value)?;
        }
        loop {
            let (at, current, old) = match self.probe(&level, hash, key)? {
                Probe::Bound(_, slot) if slot.is_frozen() && !mutant::is(Mutant::FrozenChanged) => {
                    level = self.move_on(&level, hash)?;
                    continue;
                }
                Probe::Bound(_, slot) if self.is_in_place() && slot.is_small() && value.len() == 8 => {
                    match self.overwrite(slot, value, when)? {
                        Some(outcome) => return Ok(outcome),
                        None => continue,
                    }
                }
                Probe::Bound(at, slot) => {
                    if let Some(outcome) = self.refusal(slot, value, when)? {
                        return Ok(outcome);
                    }
                    (at, slot, slot.offset())
                }
                Probe::Vacant(_) | Probe::VacantInChain(_) | Probe::Full(_)
                    if matches!(when, When::IfEqual(_)) =>
                {
                    return Ok(Outcome::Missing);
                }
                Probe::Vacant(at) => (at, Slot::EMPTY, 0),
                Probe::VacantInChain(at) => {
                    if !self.is_sole(&level, hash, key, Destination::Empty(at))? {
                        continue;
                    }
                    (at, Slot::EMPTY, 0)
                }
                Probe::Full(at) => {
                    let removed = match may_claim {
                        true => self.reusable(&level, hash)?,
                        false => None,
                    };
                    let Some((removed, tombstone)) = removed else {
                        self.append_line(&level, at)?;
                        continue;
                    };
                    may_claim = false;
                    if new == Slot::EMPTY {
                        new = self.build(hash, key, value)?;
                    }
                    if self.insert_claimed(&level, hash, key, new, removed, tombstone)? {
                        self.has_replaced.set(false);
                        return Ok(Outcome::Inserted);
                    }
                    continue;
                }
                Probe::Moved => {
                    level = self.move_on(&level, hash)?;
                    continue;
                }
            };
            if new == Slot::EMPTY {
                new = self.build(hash, key, value)?;
            }
            if let Some(outcome) = self.bind(at, current, old, new)? {
                return Ok(outcome);
            }
        }
    }

    /// What a write that is not to replace a key's binding comes to; `None` if it is to.
    #[inline]
    fn refusal(&self, slot: Slot, value: &[u8], when: When<'_>) -> Result<Option<Outcome>> {
        match when {
            When::Always => {}
            When::IfAbsent => return Ok(Some(Outcome::Exists)),
            When::IfEqual(expected) => {
                let found = self.value_of(slot)?;
                if found.as_bytes() != expected {
                    return Ok(Some(Outcome::Differs(found.as_bytes().to_vec())));
                }
                if self.is_in_place() && slot.is_small() {
                    // It may be overwritten between the comparison and the exchange of the slot.
                    return Err(Error::InPlace { len: value.len() });
                }
            }
        }
        Ok(None)
    }

    /// Binds a key in a slot that held `current`, instead of the object `old` if that is not 0; `None` if the slot has
    /// changed.
    #[inline]
    fn bind(&self, at: SyncWord, current: Slot, old: u64, new: Slot) -> Result<Option<Outcome>> {
        let inserted = old == 0;
        let change = Change {
            slot: at,
            current: current.0,
            next: new.0,
            operation: operation::PUT,
            old,
            count: inserted.then(|| self.counted(1)),
        };
        if !publish(&self.worker, &change)?.is_made() {
            return Ok(None);
        }
        self.has_replaced.set(!inserted);
        Ok(Some(match inserted {
            true => Outcome::Inserted,
            false => Outcome::Replaced,
        }))
    }

    /// Allocates and writes a pair's object; returns the slot that binds it.
    fn build(&self, hash: u64, key: &[u8], value: &[u8]) -> Result<Slot> {
        let object = heap::allocate(&self.worker, pair::size(key, value))?;
        pair::write(self.worker.mem(), object, key, value);
        Ok(Slot::object(object, pair::is_small(key, value), hash))
    }

    /// Overwrites a small value in place by the fast path. Returns whether it did. The binding that led to it may be
    /// frozen: its copy binds the same object.
    #[inline(always)]
    fn overwrite_likely(&self, hash: u64, key: &[u8], value: &[u8]) -> bool {
        if !M::COHERENT || !self.is_in_place() || value.len() != 8 {
            return false;
        }
        let mem = self.worker.mem();
        match self.likely_object(&self.worker, hash) {
            Some(at) if pair::has_small_key(mem, at, key) => {
                // Ordered before this thread's later reads, as every write's compare-exchange is.
                // PAIRS WITH: index::hash::probe::value_at, index::hash::get_u64
                sync_word(at + 8).store_seq_cst(mem, word(value));
                true
            }
            _ => false,
        }
    }

    /// Overwrites a small value in place; `None` if the caller must search again.
    fn overwrite(&self, slot: Slot, value: &[u8], when: When<'_>) -> Result<Option<Outcome>> {
        let at = sync_word(slot.offset() + 8);
        let mem = self.worker.mem();
        match when {
            When::IfAbsent => return Ok(Some(Outcome::Exists)),
            // PAIRS WITH: index::hash::probe::value_at, index::hash::get_u64
            When::Always => at.store_seq_cst(mem, word(value)),
            When::IfEqual(expected) => {
                let found = self.value_of(slot)?;
                if found.as_bytes() != expected {
                    return Ok(Some(Outcome::Differs(found.as_bytes().to_vec())));
                }
                // PAIRS WITH: index::hash::probe::value_at, index::hash::get_u64
                if at.compare_exchange(mem, word(expected), word(value)).is_err() {
                    return Ok(None);
                }
            }
        }
        heap::discard(&self.worker)?;
        Ok(Some(Outcome::Replaced))
    }

    /// The counter after one more or one less.
    #[inline]
    pub(super) fn counted(&self, change: i64) -> (OwnedWord, u64) {
        (
            self.count,
            self.count.get(self.worker.mem()).wrapping_add_signed(change),
        )
    }

    /// Removes a key. Returns whether it was there.
    ///
    /// Cost: a search, one compare-exchange, the retirement of the object: on incoherent memory one write-back.
    ///
    /// Errors: [`Error::KeyTooLong`](crate::Error::KeyTooLong), [`Error::Full`](crate::Error::Full).
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        let hash = self.hash(key);
        self.prefetch_home(hash);
        let mut room = Room::new(&self.worker);
        loop {
            match self.attempt_remove(hash, key) {
                Err(error) => room.make_after(error)?,
                outcome => return outcome,
            }
        }
    }

    /// One attempt at [`HashMap::remove`].
    fn attempt_remove(&self, hash: u64, key: &[u8]) -> Result<bool> {
        let worker = &*self.worker;
        let _hold = collect::begin_write(worker)?;
        let _pin = self.pin()?;
        if self.check_root() == Root::None {
            return Ok(false);
        }
        let mut level = self.level_for_writing()?;
        loop {
            match self.probe(&level, hash, key)? {
                Probe::Bound(at, slot) if !slot.is_frozen() => {
                    let number = worker.next_removal();
                    let change = Change {
                        slot: at,
                        current: slot.0,
                        next: Slot::tombstone(worker.me(), number).0,
                        operation: operation::REMOVE,
                        old: slot.offset(),
                        count: Some(self.counted(-1)),
                    };
                    if publish(worker, &change)?.is_made() {
                        self.shrink_sometimes(&level, hash ^ number);
                        return Ok(true);
                    }
                }
                Probe::Bound(..) | Probe::Moved => level = self.move_on(&level, hash)?,
                Probe::Vacant(_) | Probe::VacantInChain(_) | Probe::Full(_) => return Ok(false),
            }
        }
    }

    /// Links a further line behind a full group.
    pub(super) fn append_line(&self, level: &Level, link: SyncWord) -> Result<()> {
        let worker = &*self.worker;
        let mem = worker.mem();
        let line = heap::allocate_for(worker, worker.actor(), LINE, worker.record().aux_object(), 0)?;
        if line % LINE != 0 {
            return Err(Error::corrupt("an object that should be a line", line));
        }
        unpublished(line, LINE).zero(mem);
        if !mutant::is(Mutant::LineNotWrittenBack) {
            // Complete before it is published, with its name.
            mem.write_back(line, LINE);
        }
        let points = [Point::LinkIntent, Point::LinkDone];
        if publish_auxiliary(worker, link, 0, Slot::link(line).0, line, points)? == Auxiliary::Published {
            // NO PAIR: count
            let links = level.links().fetch_add(mem, 1) + 1;
            self.consider_growth(level, links)?;
        }
        Ok(())
    }
}

impl<M: Memory> HashMap<M> {
    /// Links one of a level's spare lines: for copies, when the pool is full. The spare line is lost for as long as the
    /// level lasts if another line is linked first, or if this process dies between the two steps.
    pub(super) fn append_spare(&self, level: &Level, link: SyncWord) -> Result<()> {
        let mem = self.worker.mem();
        let taken = level.spares_taken();
        let full = || Error::Full {
            needed: LINE,
            why: Shortage::SpareLines,
            largest: None,
        };
        level.spare(taken.load(mem)).ok_or_else(full)?;
        // NO PAIR: count
        let line = level.spare(taken.fetch_add(mem, 1)).ok_or_else(full)?;
        crash_point(Point::LinkIntent);
        // After the addition, which orders all that is before it.
        // PAIRS WITH: index::hash::probe::probe_rest, index::hash::probe::probe_chain
        if link.compare_exchange_acquire(mem, 0, Slot::link(line).0).is_ok() {
            crash_point(Point::LinkDone);
            // NO PAIR: count
            level.links().fetch_add(mem, 1);
        }
        Ok(())
    }
}

const _: () = assert!(LINE_SLOTS * 8 == LINE, "a line is full of slots");
