//! Iteration by ascending hash, one group at a time.
//!
//! A position is a hash. A step collects the bindings of the group that the position falls into, with hashes from the
//! position to the group's end, and moves on to that end. If the group has begun to move, the step collects the same
//! interval of hashes from the next level too, however large that is. So a key that is there all the time is seen
//! exactly once, whatever the map does meanwhile; a key that is inserted or removed meanwhile may be seen or not.

use super::HashMap;
use super::level::Level;
use super::next_level;
use super::object;
use super::slot::Slot;
use crate::error::{Error, Result};
use crate::memory::{Memory, SyncWord};

/// The most levels that are collected for an interval.
const DEPTH_MAX: u32 = 64;
/// One more than the largest hash.
const END: u128 = 1 << 64;

/// A binding that was collected.
struct Seen<'m> {
    hash: u64,
    slot: Slot,
    key: &'m [u8],
}

/// A position in an iteration. It refers to nothing in the pool, and may be kept for any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor(u128);

impl<M: Memory> HashMap<M> {
    /// Calls `each` for the pairs of the next group that has any, and returns where to go on; `None` at the end.
    ///
    /// The map is pinned meanwhile; `each` should be quick.
    ///
    /// Cost: a load for each slot of the groups that it reads and of their chains, and one to a few misses for each
    /// pair.
    pub fn step(&self, from: Cursor, mut each: impl FnMut(&[u8], &[u8])) -> Result<Option<Cursor>> {
        let mut position = from.0;
        while position < END {
            let _pin = self.pin()?;
            let Some(level) = self.oldest()? else {
                return Ok(None);
            };
            let group = level.group_of(position as u64);
            let end = level.first_hash(group + 1);
            let mut seen = Vec::new();
            self.collect(&level, position..end, DEPTH_MAX, &mut seen)?;
            for Seen { slot, key, .. } in &seen {
                each(key, self.value_of(*slot)?.as_bytes());
            }
            position = end;
            if !seen.is_empty() {
                break;
            }
        }
        Ok((position < END).then_some(Cursor(position)))
    }

    /// Calls `each` for every pair.
    ///
    /// Cost: as of [`HashMap::step`], for all groups.
    pub fn for_each(&self, mut each: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let mut cursor = Some(Cursor::default());
        while let Some(from) = cursor {
            cursor = self.step(from, &mut each)?;
        }
        Ok(())
    }

    /// Collects the bindings of `level`, and of the levels after it, with hashes in an interval.
    fn collect<'m>(
        &'m self,
        level: &Level,
        hashes: std::ops::Range<u128>,
        depth: u32,
        seen: &mut Vec<Seen<'m>>,
    ) -> Result<()> {
        let worker = &*self.worker;
        let mut moved = false;
        let mut words = Vec::new();
        for group in level.group_of(hashes.start as u64)..=level.group_of((hashes.end - 1) as u64) {
            self.each_slot(level, group, |at: SyncWord| {
                words.push(Slot(at.load(worker.mem())))
            })?;
        }
        for slot in words {
            moved |= slot.is_moved();
            if slot.is_binding() {
                let key = object::key(worker, slot)?;
                let hash = self.hash(key);
                if hashes.contains(&u128::from(hash)) {
                    add(
                        seen,
                        Seen {
                            hash,
                            slot: slot.unfrozen(),
                            key,
                        },
                    );
                }
            }
        }
        if moved {
            if depth == 0 {
                return Err(Error::corrupt("a list of levels without end", level.offset));
            }
            self.collect(&next_level(worker, level, false)?, hashes, depth - 1, seen)?;
        }
        Ok(())
    }
}

/// Adds a binding. It replaces one of the same key from an earlier level.
fn add<'m>(seen: &mut Vec<Seen<'m>>, new: Seen<'m>) {
    match seen
        .iter_mut()
        .find(|old| old.hash == new.hash && old.key == new.key)
    {
        Some(old) => *old = new,
        None => seen.push(new),
    }
}

/// An owned iteration over a map: pairs are copied out, group by group, and nothing is pinned in between.
pub struct Iter<'a, M: Memory> {
    map: &'a HashMap<M>,
    cursor: Option<Cursor>,
    ready: std::vec::IntoIter<(Vec<u8>, Vec<u8>)>,
}

impl<M: Memory> HashMap<M> {
    /// Iterates over copies of all pairs; see the [module documentation](self) for what it guarantees.
    ///
    /// Cost: as of [`HashMap::step`], for each group, and the copies.
    pub fn iter(&self) -> Iter<'_, M> {
        Iter {
            map: self,
            cursor: Some(Cursor::default()),
            ready: Vec::new().into_iter(),
        }
    }
}

impl<M: Memory> Iterator for Iter<'_, M> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(pair) = self.ready.next() {
                return Some(Ok(pair));
            }
            let mut pairs = Vec::new();
            match self.map.step(self.cursor?, |key, value| {
                pairs.push((key.to_vec(), value.to_vec()))
            }) {
                Ok(cursor) => self.cursor = cursor,
                Err(error) => {
                    self.cursor = None;
                    return Some(Err(error));
                }
            }
            self.ready = pairs.into_iter();
        }
    }
}
