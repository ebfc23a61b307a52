//! Writing: upsert, insert, compare-and-replace, remove.
//!
//! Each write is a new page of one leaf, published by one compare-exchange of the leaf's word. If the word has changed,
//! another writer made progress: this one frees what it allocated, and starts again.

use super::build::{self, Fences, Leaf, Second};
use super::find::Visit;
use super::key::{Target, head_of};
use super::merge::{InnerNode, is_thin};
use super::page::LEAF_MAX;
use super::replacement::Replacement;
use super::{OrderedMap, Scratch};
use crate::error::{Error, Result};
use crate::index::common::outcome::{Put, Replace, When};
use crate::index::common::pair::{self, KEY_MAX};
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::reclaim::room::Room;
use crate::pod::{alloc::heap, reclaim::collect};

/// Merges that one write finishes first before the map counts as damaged.
const HELPED_MAX: u32 = 100_000;

/// A value to be written.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    Bytes(&'a [u8]),
    Made(Made<'a>),
}

/// A value that is made in place, in a record of its own. Every attempt at the write makes it anew.
#[derive(Clone, Copy)]
pub(in crate::index) struct Made<'a> {
    /// Its bytes.
    pub len: u64,
    /// Writes as much of it as others may read before it is complete, and begins the write-back of that. It is given
    /// where the value begins.
    pub make: &'a dyn Fn(u64),
}

/// How a write ended.
pub(super) enum Outcome {
    Inserted,
    Replaced,
    Removed,
    /// Removed, and the leaf has so few keys left that it may be merged.
    RemovedFromThin,
    Exists,
    Differs(Vec<u8>),
    Missing,
}

impl<M: Memory> OrderedMap<M> {
    /// Sets a key's value, whether it had one or not.
    ///
    /// Cost: a search, a copy of the leaf's page, one compare-exchange, the retirement of the old page. A pair whose
    /// key or value does not have 8 bytes is one object more.
    ///
    /// Errors: [`Error::KeyTooLong`](crate::Error::KeyTooLong), [`Error::Full`](crate::Error::Full).
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<Put> {
        match self.write(key, Some(value), When::Always)? {
            Outcome::Inserted => Ok(Put::Inserted),
            _ => Ok(Put::Replaced),
        }
    }

    /// [`OrderedMap::put`] for an 8-byte key and value; the key as in [`OrderedMap::get_u64`].
    ///
    /// Cost: as of [`OrderedMap::put`].
    ///
    /// Errors: [`Error::KeyTooLong`](crate::Error::KeyTooLong), [`Error::Full`](crate::Error::Full).
    pub fn put_u64(&self, key: u64, value: u64) -> Result<Put> {
        self.put(&key.to_be_bytes(), &value.to_le_bytes())
    }

    /// Sets a key's value if it has none. Returns whether it did.
    ///
    /// Cost: as of [`OrderedMap::put`] if the key has no value; else a search.
    ///
    /// Errors: [`Error::KeyTooLong`](crate::Error::KeyTooLong), [`Error::Full`](crate::Error::Full).
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let outcome = self.write(key, Some(value), When::IfAbsent)?;
        Ok(matches!(outcome, Outcome::Inserted))
    }

    /// Replaces a key's value if it is `expected`.
    ///
    /// Cost: as of [`OrderedMap::put`] if the value is the expected one; else a search.
    ///
    /// Errors: [`Error::KeyTooLong`](crate::Error::KeyTooLong), [`Error::Full`](crate::Error::Full).
    pub fn replace(&self, key: &[u8], expected: &[u8], value: &[u8]) -> Result<Replace> {
        Ok(match self.write(key, Some(value), When::IfEqual(expected))? {
            Outcome::Differs(found) => Replace::Differs(found),
            Outcome::Missing => Replace::Missing,
            _ => Replace::Replaced,
        })
    }

    /// Removes a key. Returns whether it was there. Cost: as [`OrderedMap::put`].
    ///
    /// Errors: [`Error::KeyTooLong`](crate::Error::KeyTooLong), [`Error::Full`](crate::Error::Full).
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        let outcome = self.write(key, None, When::Always)?;
        Ok(matches!(outcome, Outcome::Removed | Outcome::RemovedFromThin))
    }

    /// Removes a key if its value is `expected`. Returns whether it did. Cost: as [`OrderedMap::put`].
    ///
    /// Errors: [`Error::KeyTooLong`](crate::Error::KeyTooLong), [`Error::Full`](crate::Error::Full).
    pub fn remove_if(&self, key: &[u8], expected: &[u8]) -> Result<bool> {
        let outcome = self.write(key, None, When::IfEqual(expected))?;
        Ok(matches!(outcome, Outcome::Removed | Outcome::RemovedFromThin))
    }

    /// Gives a key a record whose value is made in place, if it has none. Returns whether it did. If there is no
    /// memory for it, it waits for room only if `waits`.
    pub(in crate::index) fn insert_made(&self, key: &[u8], made: Made<'_>, waits: bool) -> Result<bool> {
        let write = || self.attempt(key, Some(Content::Made(made)), When::IfAbsent);
        let outcome = match waits {
            true => self.until_done(write)?,
            false => self.until_done_or_full(write)?,
        };
        self.after_write(key, &outcome)?;
        Ok(matches!(outcome, Outcome::Inserted))
    }

    /// Removes a key as a worker does that dies before it merges the leaf.
    #[cfg(test)]
    pub(crate) fn remove_without_merging(&self, key: &[u8]) -> Result<()> {
        self.until_done(|| self.attempt(key, None, When::Always))
            .map(drop)
    }

    fn write(&self, key: &[u8], value: Option<&[u8]>, when: When<'_>) -> Result<Outcome> {
        if key.len() > KEY_MAX {
            return Err(Error::KeyTooLong {
                len: key.len(),
                max: KEY_MAX,
            });
        }
        let value = value.map(Content::Bytes);
        let outcome = self.until_done(|| self.attempt(key, value, when))?;
        self.after_write(key, &outcome)?;
        Ok(outcome)
    }

    /// What a write does for the tree once it is done.
    fn after_write(&self, key: &[u8], outcome: &Outcome) -> Result<()> {
        self.post_all()?;
        if let Outcome::RemovedFromThin = outcome {
            self.merge_thin(key)?;
        }
        if let Some(passed) = self.empty.take() {
            self.merge_thin(&passed)?;
        }
        Ok(())
    }

    /// Repeats an attempt until it has an outcome. Frees what the other attempts allocated.
    pub(super) fn until_done<R>(&self, attempt: impl FnMut() -> Result<Option<R>>) -> Result<R> {
        let mut room = Room::new(&self.worker);
        self.posts.set(0);
        self.until_done_with(attempt, &mut |error| room.make_after(error))
    }

    /// [`Self::until_done`] for changes that can be left for another time: it does not wait for room.
    pub(super) fn until_done_or_full<R>(&self, attempt: impl FnMut() -> Result<Option<R>>) -> Result<R> {
        self.until_done_with(attempt, &mut Err)
    }

    pub(super) fn until_done_with<R>(
        &self,
        mut attempt: impl FnMut() -> Result<Option<R>>,
        make_room_after: &mut dyn FnMut(Error) -> Result<()>,
    ) -> Result<R> {
        let worker = &*self.worker;
        let mut helped = 0;
        loop {
            let outcome = (|| {
                let _hold = collect::begin_write(worker)?;
                let _pin = self.pin()?;
                let outcome = attempt();
                heap::discard_with_secondaries(worker)?;
                outcome
            })();
            match outcome {
                Err(error) => {
                    make_room_after(error)?;
                    continue;
                }
                Ok(Some(outcome)) => return Ok(outcome),
                Ok(None) => {}
            }
            if let Some(place) = self.merging.take() {
                helped += 1;
                if helped > HELPED_MAX {
                    return Err(Error::corrupt(
                        "a merge without end in an ordered map",
                        self.header,
                    ));
                }
                self.finish_merge(&place, make_room_after)?;
            }
        }
    }

    /// Whether a node may be changed now: neither it nor one of its children is being merged, or takes the root's
    /// place. If not, the merge will be finished before the next attempt.
    pub(super) fn may_change(&self, visit: &Visit<'_>, key: &[u8]) -> bool {
        let page = &visit.page;
        let is_frozen = visit.anchor.is_some() && !mutant::is(Mutant::FrozenNotHelped);
        let is_merging = page.meta.is_changing() && !mutant::is(Mutant::MergingChanged);
        let level = match (is_frozen, is_merging) {
            (true, _) => page.level() + 1,
            (false, true) => page.level(),
            (false, false) => return true,
        };
        self.merging.replace(Some(InnerNode {
            level,
            key: key.to_vec(),
        }));
        false
    }

    /// One attempt at a write; `None` if the leaf was split, or changed meanwhile.
    pub(super) fn attempt(
        &self,
        key: &[u8],
        value: Option<Content<'_>>,
        when: When<'_>,
    ) -> Result<Option<Outcome>> {
        let worker = &*self.worker;
        let head = head_of(key);
        let Some(visit) = self.descend(Target::At(key, head), 0)? else {
            return self.attempt_first(key, value, when);
        };
        let Visit { word, page, .. } = visit;
        let position = page.search(worker, key, head)?;
        let (n, is_there) = (position.smaller(), position.is_there());
        if is_there {
            match when {
                When::IfAbsent => return Ok(Some(Outcome::Exists)),
                When::IfEqual(expected) if page.value(worker, n)? != expected => {
                    return Ok(Some(Outcome::Differs(page.value(worker, n)?.to_vec())));
                }
                _ => {}
            }
        } else if value.is_none() || matches!(when, When::IfEqual(_)) {
            return Ok(Some(Outcome::Missing));
        }
        if !self.may_change(&visit, key) {
            return Ok(None);
        }
        if !is_there && page.count() == LEAF_MAX {
            if self.may_split(&visit, key)? {
                self.split(&visit, key)?;
            }
            return Ok(None);
        }
        let Scratch { entries, page: bytes } = self.scratch.take();
        let old_record = match is_there && page.is_record(n) && !mutant::is(Mutant::RecordKept) {
            true => page.entry(n).1,
            false => 0,
        };
        let (bytes, entries) = match value {
            Some(value) if is_there => {
                let second = self.second_word(key, value)?;
                (build::replaced(&page, n, second, bytes)?, entries)
            }
            _ => {
                let mut leaf = Leaf::all_of(&page, entries);
                match value {
                    Some(value) => self.add_entry(&mut leaf, n, key, value)?,
                    None => leaf.remove(n),
                }
                (leaf.finish_in(&Fences::of(&page)?, bytes)?, leaf.into_memory())
            }
        };
        let replacement = Replacement {
            word,
            current: page.at,
            page: &bytes,
            old_secondaries: [old_record, 0],
            count: i64::from(value.is_some()) - i64::from(is_there),
        };
        let is_done = match value {
            Some(_) => self.replace_page(&replacement)?,
            // Keys can be removed from a full pool as long as it has any object that is large enough.
            None => self.replace_page_at_any_size(&replacement)?,
        };
        self.scratch.set(Scratch { entries, page: bytes });
        Ok(is_done.then_some(match (value, is_there) {
            (None, _) if is_thin(page.count() - 1) => Outcome::RemovedFromThin,
            (None, _) => Outcome::Removed,
            (Some(_), true) => Outcome::Replaced,
            (Some(_), false) => Outcome::Inserted,
        }))
    }

    /// The first write to a map that has no page yet.
    fn attempt_first(
        &self,
        key: &[u8],
        value: Option<Content<'_>>,
        when: When<'_>,
    ) -> Result<Option<Outcome>> {
        let (Some(value), When::Always | When::IfAbsent) = (value, when) else {
            return Ok(Some(Outcome::Missing));
        };
        let mut leaf = Leaf::default();
        self.add_entry(&mut leaf, 0, key, value)?;
        let fences = Fences {
            next: 0,
            low: &[],
            high: &[],
        };
        let replacement = Replacement {
            word: self.root(),
            current: 0,
            page: &leaf.finish(&fences)?,
            old_secondaries: [0; 2],
            count: 1,
        };
        Ok(self.replace_page(&replacement)?.then_some(Outcome::Inserted))
    }

    /// Adds an entry to a leaf that is being built, and its record, if it needs one.
    fn add_entry(&self, leaf: &mut Leaf, n: usize, key: &[u8], value: Content<'_>) -> Result<()> {
        leaf.insert(n, head_of(key), self.second_word(key, value)?);
        Ok(())
    }

    /// An entry's second word: the value, or the offset of a new record.
    fn second_word(&self, key: &[u8], value: Content<'_>) -> Result<Second> {
        let value = match value {
            Content::Bytes(value) => value,
            Content::Made(made) => return self.made_record(key, made).map(Second::Record),
        };
        if let (8, Ok(value)) = (key.len(), value.try_into()) {
            return Ok(Second::Value(u64::from_le_bytes(value)));
        }
        let record = heap::allocate_secondary(&self.worker, 0, pair::size(key, value))?;
        pair::write(self.worker.mem(), record, key, value);
        Ok(Second::Record(record))
    }

    /// A new record whose value is made in place.
    fn made_record(&self, key: &[u8], made: Made<'_>) -> Result<u64> {
        let record = heap::allocate_secondary(&self.worker, 0, pair::size_of(key.len() as u64, made.len))?;
        let value = pair::write_key(self.worker.mem(), record, key, made.len);
        (made.make)(value);
        Ok(record)
    }
}
