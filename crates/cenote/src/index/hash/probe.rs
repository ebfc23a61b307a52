//! Looking for a key in one level, and in all of them.
//!
//! **Order.** A key's home line, the other line of its group, the chain. An insertion takes the first empty slot in
//! this order, and slots never become empty again; so an empty slot ends the search: the key cannot be behind it.
//!
//! **Moved slots.** The key may have been here and may now be in the next level. If one was seen on the way, an
//! empty slot or the end of the chain only ends the search in *this* level. Frozen slots are bindings: nobody
//! changes the copy before the original is marked moved.

use super::level::{LINE_SLOTS, Level, home_line};
use super::object;
use super::slot::{Slot, fingerprint};
use super::{Bytes, HashMap, next_level};
use crate::error::{Error, Result};
use crate::memory::{LINE, Memory, SyncWord};

/// What a search in one level ended with.
#[derive(Clone, Copy, Debug)]
pub enum Probe<'m> {
    /// The key's binding.
    Bound {
        /// Where.
        at: SyncWord,
        /// What the slot held.
        slot: Slot,
        /// The key's value; in a map that overwrites in place, as it was when it was read.
        value: Bytes<'m>,
    },
    /// The key is not in this level nor in a later one; this slot is where it belongs.
    Vacant(SyncWord),
    /// The same, but all is full; here a further line may be linked.
    Full(SyncWord),
    /// The key is not in this level, but may be in the next.
    Moved,
}

/// More lines than any chain has: a damaged one may be a cycle.
pub(super) const CHAIN_MAX: u32 = 1 << 20;
/// More levels than there ever are at once.
const LEVELS_MAX: u32 = 64;

impl<M: Memory> HashMap<M> {
    /// The value of a key: the short way, which is nearly always enough, before the long one. The worker is pinned.
    #[inline]
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        let Some(level) = self.oldest()? else {
            return Ok(None);
        };
        let mem = self.worker.mem();
        let line = level.group(level.group_of(hash)) + home_line(hash) * LINE;
        mem.freshen(line);
        let wanted = fingerprint(hash);
        let mut moved = 0;
        for n in 0..LINE_SLOTS - home_line(hash) {
            let slot = Slot(mem.load_speculative(line + 8 * n));
            if slot.has_fingerprint(wanted) && slot.is_binding() {
                if let Some(value) = self.value_of(slot, key)? {
                    return Ok(Some(value));
                }
            } else if slot.is_empty() && moved == 0 {
                return Ok(None);
            }
            moved |= slot.0 & slot.0 >> 1 & 1;
        }
        self.lookup(hash, key)
    }

    /// The value of a key, in whatever level it is. The worker is pinned.
    #[cold]
    #[inline(never)]
    pub(super) fn lookup(&self, hash: u64, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        let Some(mut level) = self.oldest()? else {
            return Ok(None);
        };
        for _ in 0..LEVELS_MAX {
            match self.probe(&level, hash, key)? {
                Probe::Bound { value, .. } => return Ok(Some(value)),
                Probe::Vacant(_) | Probe::Full(_) => return Ok(None),
                Probe::Moved => level = next_level(&self.worker, &level)?,
            }
        }
        Err(Error::corrupt("a list of levels without end", level.offset))
    }

    /// Searches one level: the home line here, the rest elsewhere.
    #[inline(always)]
    pub(super) fn probe(&self, level: &Level, hash: u64, key: &[u8]) -> Result<Probe<'_>> {
        let group = level.group(level.group_of(hash));
        let home = home_line(hash);
        let mut moved = 0;
        match self.scan(group + home * LINE, LINE_SLOTS - home, hash, key, &mut moved)? {
            Some(probe) => Ok(probe),
            None => self.probe_rest(group, hash, key, moved),
        }
    }

    /// Searches what is behind the home line.
    #[inline(never)]
    fn probe_rest(&self, group: u64, hash: u64, key: &[u8], mut moved: u64) -> Result<Probe<'_>> {
        let other = 1 - home_line(hash);
        if let Some(probe) = self.scan(group + other * LINE, LINE_SLOTS - other, hash, key, &mut moved)? {
            return Ok(probe);
        }
        let at = group + 2 * LINE - 8;
        let link = Slot(self.worker.mem().load_speculative(at));
        self.probe_chain(at, link, hash, key, moved)
    }

    /// Searches the chain that begins with the link slot at `at`.
    fn probe_chain(
        &self,
        mut at: u64,
        mut link: Slot,
        hash: u64,
        key: &[u8],
        mut moved: u64,
    ) -> Result<Probe<'_>> {
        for _ in 0..CHAIN_MAX {
            if link.is_empty() {
                return Ok(if moved != 0 {
                    Probe::Moved
                } else {
                    Probe::Full(SyncWord::at(at))
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
                return Ok(probe);
            }
            at = line + 56;
            link = Slot(self.worker.mem().load_speculative(at));
        }
        Err(Error::corrupt("a chain without end", at))
    }

    /// Fetches a line and searches its first `slots` slots; `None` if the search goes on behind them.
    #[inline(always)]
    fn scan(
        &self,
        line: u64,
        slots: u64,
        hash: u64,
        key: &[u8],
        moved: &mut u64,
    ) -> Result<Option<Probe<'_>>> {
        let mem = self.worker.mem();
        mem.freshen(line);
        let wanted = fingerprint(hash);
        for n in 0..slots {
            let slot = Slot(mem.load_speculative(line + 8 * n));
            if slot.has_fingerprint(wanted) && slot.is_binding() {
                if let Some(value) = self.value_of(slot, key)? {
                    return Ok(Some(Probe::Bound {
                        at: SyncWord::at(line + 8 * n),
                        slot,
                        value,
                    }));
                }
            } else if slot.is_empty() {
                let here = SyncWord::at(line + 8 * n);
                return Ok(Some(if *moved != 0 {
                    Probe::Moved
                } else {
                    Probe::Vacant(here)
                }));
            }
            *moved |= slot.0 & slot.0 >> 1 & 1;
        }
        Ok(None)
    }

    /// The value that a slot binds, if it is bound to `key`.
    #[inline]
    pub(super) fn value_of(&self, slot: Slot, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        if self.is_in_place() && slot.is_small() {
            return self.overwritable_value(slot, key);
        }
        Ok(object::value_if_key(&self.worker, slot, key)?.map(Bytes::Shared))
    }

    /// The same in a map that overwrites in place: the value's word is a sync word.
    fn overwritable_value(&self, slot: Slot, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        let at = slot.offset();
        self.worker.check("a map's object", at, 16)?;
        let mem = self.worker.mem();
        if mem.bytes(at, 8) != key {
            return Ok(None);
        }
        Ok(Some(Bytes::Copied(mem.load(at + 8).to_le_bytes())))
    }
}

/// Checks the offset of a chain line.
pub(super) fn check_line<M: Memory>(map: &HashMap<M>, line: u64) -> Result<()> {
    if !line.is_multiple_of(LINE) {
        return Err(Error::corrupt("a chain line", line));
    }
    map.worker.check("a chain line", line, LINE)
}
