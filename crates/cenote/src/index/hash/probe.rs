//! Looking for a key in one level, and in all of them.
//!
//! **Order.** A key's home line, the other line of its group, the chain. An insertion takes the first empty slot in
//! this order, and slots never become empty again; so an empty slot ends the search: the key cannot be behind it. Slots
//! of removed keys are reused when no slot is empty ([`super::claim`]).
//!
//! **Moved slots.** The key may have been here and may now be in the next level. If the search has passed a moved slot,
//! an empty slot or the end of the chain ends it only in *this* level. Frozen slots are bindings: nobody changes the
//! copy before the original is marked moved.

use super::level::{LINE_SLOTS, Level, home_line, home_of};
use super::line::Line;
use super::object;
use super::slot::{Slot, fingerprint};
use super::{HashMap, next_level};
use crate::error::{Error, Result};
use crate::index::common::pair;
use crate::index::common::value::Bytes;
use crate::memory::checked::{published, sync_word, word_line};
use crate::memory::{LINE, Memory, SyncWord};
use crate::pod::Worker;

use crate::mutant::{self, Mutant};

/// The result of a search in one level.
#[derive(Clone, Copy, Debug)]
pub enum Probe {
    /// The key's binding: where, and what the slot held.
    Bound(SyncWord, Slot),
    /// The key is neither in this level nor in a later one; it belongs in this slot.
    Vacant(SyncWord),
    /// The same, in a line of the chain: claims may have been made before it was linked.
    VacantInChain(SyncWord),
    /// The same, but all slots are full; a further line may be linked here.
    Full(SyncWord),
    /// The key is not in this level, but may be in the next.
    Moved,
}

/// More lines than any chain has: a damaged chain may be a cycle.
pub(super) const CHAIN_MAX: u32 = 1 << 20;
/// More levels than there ever are at once.
const LEVELS_MAX: u32 = 64;

impl<M: Memory> HashMap<M> {
    /// The fast path to a key: the small object that is bound by the first slot of its home line with its fingerprint,
    /// if nothing is unusual. `None` says nothing about the key; [`HashMap::find`] does. The worker is pinned.
    ///
    /// Small enough to be inlined as a whole, so that nothing passes through memory and a processor reaches the next
    /// lookup's misses before this one's are over. On incoherent memory that does not help: every line is fetched after
    /// a fence, and to fetch one twice would be expensive. The caller passes the handle's worker: a few instructions
    /// fewer to find it again show there.
    #[inline(always)]
    pub(super) fn likely_object(&self, worker: &Worker<M>, hash: u64) -> Option<u64> {
        let mem = worker.mem();
        if !M::COHERENT || self.replica.load(mem) != self.current.get() {
            return None;
        }
        let at = home_of(&self.cached_level.get(), hash);
        // PAIRS WITH: pod::commit::publish::exchange, pod::commit::publish::publish_claimed
        let candidates = word_line(at).tagged(mem, fingerprint(hash));
        if candidates == 0 {
            return None;
        }
        // It may bind another key by now: the caller checks.
        let slot = Slot(sync_word(at + 8 * u64::from(candidates.trailing_zeros())).load_speculative(mem));
        let is_there = slot.is_small_binding() && worker.is_in_committed(slot.offset());
        is_there.then(|| slot.offset())
    }

    /// The value of a key. The worker is pinned.
    #[inline(never)]
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        let Some(level) = self.oldest()? else {
            return Ok(None);
        };
        let (mem, at) = (self.worker.mem(), home_of(&level, hash));
        // PAIRS WITH: pod::commit::publish::exchange, pod::commit::publish::publish_claimed, index::hash::resize::copy_key, index::hash::resize::move_group
        let line = Line(word_line(at).fetch(mem));
        let within = (1 << (LINE_SLOTS - home_line(hash))) - 1;
        let mut candidates = word_line(at).tagged(mem, fingerprint(hash)) & within;
        let mut moved = line.has_moved();
        while candidates != 0 {
            let slot = Slot(sync_word(at + 8 * u64::from(candidates.trailing_zeros())).load_speculative(mem));
            if slot.is_binding()
                && let Some(value) = self.value_if_key(slot, key)?
            {
                return Ok(Some(value));
            }
            // It may have moved after the line was read.
            moved |= slot.is_moved() && !mutant::is(Mutant::MovedForgotten);
            candidates &= candidates - 1;
        }
        if line.empty() & within != 0 && !moved {
            return Ok(None);
        }
        self.lookup(hash, key)
    }

    /// The value of the small object at a committed offset, if the object has `key`.
    #[inline(always)]
    pub(super) fn small_value(&self, at: u64, key: &[u8]) -> Option<Bytes<'_>> {
        let mem = self.worker.mem();
        if self.is_in_place() {
            return pair::has_small_key(mem, at, key).then(|| self.value_at(at));
        }
        let (found, value) = published(at, 16).bytes(mem).split_at(8);
        (found == key).then_some(Bytes::Shared(value))
    }

    /// The value of the small object at a committed offset; a copy of its present value if the map overwrites in place.
    #[inline(always)]
    fn value_at(&self, at: u64) -> Bytes<'_> {
        let mem = self.worker.mem();
        if self.is_in_place() {
            // PAIRS WITH: index::hash::update::overwrite_likely, index::hash::update::overwrite
            Bytes::Copied(sync_word(at + 8).load(mem).to_le_bytes())
        } else {
            Bytes::Shared(published(at + 8, 8).bytes(mem))
        }
    }

    /// The value that a slot binds, if it is bound to `key`: the object is read once.
    #[inline]
    pub(super) fn value_if_key(&self, slot: Slot, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        if slot.is_small() {
            self.worker.check("a map's object", slot.offset(), 16)?;
            return Ok(self.small_value(slot.offset(), key));
        }
        let pair = object::read_long(&self.worker, slot)?;
        Ok((pair.key == key).then_some(Bytes::Shared(pair.value)))
    }

    /// The value of a key, whatever level it is in. The worker is pinned.
    #[cold]
    #[inline(never)]
    pub(super) fn lookup(&self, hash: u64, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        match self.slot_of(hash, key)? {
            Some(slot) => self.value_of(slot).map(Some),
            None => Ok(None),
        }
    }

    /// The slot that binds a key, whatever level it is in. The worker is pinned.
    pub(super) fn slot_of(&self, hash: u64, key: &[u8]) -> Result<Option<Slot>> {
        let Some(mut level) = self.oldest()? else {
            return Ok(None);
        };
        for _ in 0..LEVELS_MAX {
            match self.probe(&level, hash, key)? {
                Probe::Bound(_, slot) => return Ok(Some(slot)),
                Probe::Vacant(_) | Probe::VacantInChain(_) | Probe::Full(_) => return Ok(None),
                Probe::Moved => level = next_level(&self.worker, &level, self.guidelines.speculate)?,
            }
        }
        Err(Error::corrupt("a list of levels without end", level.offset))
    }

    /// Searches one level: the home line in line, the rest by a call.
    #[inline(always)]
    pub(super) fn probe(&self, level: &Level, hash: u64, key: &[u8]) -> Result<Probe> {
        let mut moved = false;
        match self.scan(
            home_of(level, hash),
            LINE_SLOTS - home_line(hash),
            hash,
            key,
            &mut moved,
        )? {
            Some(probe) => Ok(probe),
            None => self.probe_rest(level.group(level.group_of(hash)), hash, key, moved),
        }
    }

    /// Searches what comes after the home line.
    #[inline(never)]
    fn probe_rest(&self, group: u64, hash: u64, key: &[u8], mut moved: bool) -> Result<Probe> {
        let other = 1 - home_line(hash);
        if let Some(probe) = self.scan(group + other * LINE, LINE_SLOTS - other, hash, key, &mut moved)? {
            return Ok(probe);
        }
        let at = group + 2 * LINE - 8;
        // PAIRS WITH: pod::commit::publish::publish_auxiliary, index::hash::update::append_spare
        let link = Slot(sync_word(at).load_speculative(self.worker.mem()));
        self.probe_chain(at, link, hash, key, moved)
    }

    /// Searches the chain that begins with the link slot at `at`.
    fn probe_chain(
        &self,
        mut at: u64,
        mut link: Slot,
        hash: u64,
        key: &[u8],
        mut moved: bool,
    ) -> Result<Probe> {
        for _ in 0..CHAIN_MAX {
            if link.is_empty() {
                return Ok(if moved {
                    Probe::Moved
                } else {
                    Probe::Full(sync_word(at))
                });
            }
            if link.is_moved() {
                return Ok(Probe::Moved);
            }
            let Some(line) = link.as_link() else {
                return Err(Error::corrupt("a chain's link", at));
            };
            check_line(self, line)?;
            if let Some(probe) = self.scan(line, 7, hash, key, &mut moved)? {
                return Ok(match probe {
                    Probe::Vacant(at) => Probe::VacantInChain(at),
                    probe => probe,
                });
            }
            at = line + 56;
            // PAIRS WITH: pod::commit::publish::publish_auxiliary, index::hash::update::append_spare
            link = Slot(sync_word(at).load_speculative(self.worker.mem()));
        }
        Err(Error::corrupt("a chain without end", at))
    }

    /// Fetches a line and searches its first `slots` slots; `None` if the search goes on after them.
    #[inline(always)]
    fn scan(&self, at: u64, slots: u64, hash: u64, key: &[u8], moved: &mut bool) -> Result<Option<Probe>> {
        let mem = self.worker.mem();
        // PAIRS WITH: pod::commit::publish::exchange, pod::commit::publish::publish_claimed, index::hash::resize::copy_key, index::hash::resize::move_group
        let line = Line(word_line(at).fetch(mem));
        let within = (1 << slots) - 1;
        let mut candidates = word_line(at).tagged(mem, fingerprint(hash)) & within;
        while candidates != 0 {
            let at = at + 8 * u64::from(candidates.trailing_zeros());
            let slot = Slot(sync_word(at).load_speculative(mem));
            if slot.is_binding() && object::has_key(&self.worker, slot, key)? {
                return Ok(Some(Probe::Bound(sync_word(at), slot)));
            }
            *moved |= slot.is_moved() && !mutant::is(Mutant::MovedForgotten);
            candidates &= candidates - 1;
        }
        // Slots fill in order: what has moved is before the first empty slot.
        *moved |= line.has_moved();
        let empty = line.empty() & within;
        if empty == 0 {
            return Ok(None);
        }
        Ok(Some(if *moved {
            Probe::Moved
        } else {
            let last = 31 - empty.leading_zeros();
            let takes_last = mutant::is(Mutant::AnyEmpty) && self.worker.me() & 1 == 0;
            let n = if takes_last { last } else { empty.trailing_zeros() };
            Probe::Vacant(sync_word(at + 8 * u64::from(n)))
        }))
    }

    /// The value that a slot binds.
    pub(super) fn value_of(&self, slot: Slot) -> Result<Bytes<'_>> {
        if slot.is_small() {
            self.worker.check("a map's object", slot.offset(), 16)?;
            return Ok(self.value_at(slot.offset()));
        }
        Ok(Bytes::Shared(object::read_long(&self.worker, slot)?.value))
    }

    /// A copy of the value that a slot binds; no reference to its bytes is made.
    pub(super) fn copy_of(&self, slot: Slot) -> Result<Vec<u8>> {
        if slot.is_small() {
            self.worker.check("a map's object", slot.offset(), 16)?;
            let mem = self.worker.mem();
            return Ok(match self.is_in_place() {
                true => self.value_at(slot.offset()).as_bytes().to_vec(),
                false => published(slot.offset() + 8, 8).copied(mem),
            });
        }
        pair::copy_value(&self.worker, slot.offset())
    }
}

/// Checks the offset of a chain line.
pub(super) fn check_line<M: Memory>(map: &HashMap<M>, line: u64) -> Result<()> {
    if !line.is_multiple_of(LINE) {
        return Err(Error::corrupt("a chain line", line));
    }
    map.worker.check("a chain line", line, LINE)
}
