//! Point lookups.

use std::hint::select_unpredictable;

use super::OrderedMap;
use super::fast_path::{FastPath, up_to, word};
use super::find::Descent;
use super::key::{Target, head_of};
use super::page::{LEAF_MAX, LINE_ENTRIES, Meta, Position};
use crate::error::Result;
use crate::index::common::value::{Bytes, Value};
use crate::memory::{LINE, Memory};

/// What the fast path found.
enum Found<'m> {
    /// The key has this value.
    Hit(&'m [u8]),
    /// The key is not in the map: it belongs in the leaf, and is not there.
    Miss,
    /// The fast path cannot tell.
    Unknown,
}

impl<M: Memory> OrderedMap<M> {
    /// The value of a key. Nothing is copied: the bytes stay in place while the [`Value`] lives.
    ///
    /// Cost on incoherent memory, with all guidelines: one sync load, of the leaf's word; at most two misses for the
    /// leaf if key and value have 8 bytes, else some more and the record's. Without speculation one sync load more for
    /// each level above the leaves, without replication one for the root.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Value<'_, M>>> {
        let pin = self.pin()?;
        let found = self.find(key)?;
        Ok(found.map(|bytes| Value::new(Bytes::Shared(bytes), pin)))
    }

    /// A copy of the value of a key, made by atomic loads: no reference to its bytes exists. For programs that do not
    /// trust every process that may write to the pool: if one of them changes the value meanwhile, the copy is torn,
    /// and nothing else happens. Keys are compared in place.
    ///
    /// Cost: that of [`OrderedMap::get`] without its fast path, and the copy.
    pub fn get_copied(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let _pin = self.pin()?;
        let (worker, target) = (&*self.worker, Target::at(key));
        let Some(leaf) = self.descend_to_leaf(target)? else {
            return Ok(None);
        };
        let page = self.move_right_from_leaf(leaf, target)?.page;
        match page.search(worker, key, head_of(key))? {
            Position::At(n) => page.copy_value(worker, n).map(Some),
            Position::Before(_) => Ok(None),
        }
    }

    /// The value of an 8-byte key, if it has 8 bytes. Keys are ordered by their bytes, so numbers must be stored with
    /// the highest byte first: the key is `key.to_be_bytes()`.
    ///
    /// Cost: as of [`OrderedMap::get`].
    #[inline(always)]
    pub fn get_u64(&self, key: u64) -> Result<Option<u64>> {
        let worker = &*self.worker;
        let quickly = worker.briefly(|| {
            if !M::COHERENT || !self.check.is_fresh(worker) {
                return None;
            }
            let at = self.fast_path_to(key, true)?.at;
            self.expect_soon(at);
            match self.get_by_fast_path(at, key) {
                Found::Hit(value) => Some(value.try_into().ok().map(u64::from_le_bytes)),
                Found::Miss => Some(None),
                Found::Unknown => None,
            }
        });
        match quickly {
            Some(value) => Ok(value),
            None => self.get_u64_slowly(key),
        }
    }

    #[inline(never)]
    fn get_u64_slowly(&self, key: u64) -> Result<Option<u64>> {
        let _pin = self.pin()?;
        let found = self.find(&key.to_be_bytes())?;
        Ok(found.and_then(|bytes| bytes.try_into().ok().map(u64::from_le_bytes)))
    }

    #[inline]
    fn find(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        let target = Target::at(key);
        let Ok(short) = <[u8; 8]>::try_from(key) else {
            return self.find_from(self.descend_to_leaf(target)?, key);
        };
        let short = u64::from_be_bytes(short);
        // What a hit needs of the fast path stays in registers; the rest is built where it is used.
        let way = if M::COHERENT {
            self.fast_path_to(short, true)
        } else {
            None
        };
        let (at, descent) = match way {
            Some(FastPath { at, .. }) => {
                self.expect_soon(at);
                (at, None)
            }
            None => match self.descend_to_leaf(target)? {
                Some(leaf) => (leaf.at, Some(leaf)),
                None => return Ok(None),
            },
        };
        match self.get_by_fast_path(at, short) {
            Found::Hit(value) => Ok(Some(value)),
            Found::Miss => Ok(None),
            Found::Unknown => self.find_from(descent.or_else(|| way.map(Descent::from)), key),
        }
    }

    /// [`OrderedMap::find`] for all keys, from a leaf on; without a leaf, there are no keys.
    #[inline(never)]
    fn find_from(&self, leaf: Option<Descent>, key: &[u8]) -> Result<Option<&[u8]>> {
        let (worker, target) = (&*self.worker, Target::at(key));
        let Some(leaf) = leaf else {
            return Ok(None);
        };
        let page = self.move_right_from_leaf(leaf, target)?.page;
        match page.search(worker, key, head_of(key))? {
            Position::At(n) => page.value(worker, n).map(Some),
            Position::Before(_) => Ok(None),
        }
    }

    /// Searches the page of a leaf for an 8-byte key: the first line says in which other line the key is. A hit is
    /// certain whatever part of the order the leaf holds; a miss is certain only between two keys.
    #[inline(always)]
    fn get_by_fast_path(&self, at: u64, key: u64) -> Found<'_> {
        let Some(first) = self.lines_at::<{ LINE as usize }>(at) else {
            return Found::Unknown;
        };
        let meta = Meta(word(first, 0));
        let lines = meta.count().div_ceil(LINE_ENTRIES);
        if meta.level() != 0 || lines == 0 || lines > LEAF_MAX / LINE_ENTRIES || meta.records() != 0 {
            return Found::Unknown;
        }
        // Fixed numbers of comparisons: no branch has to be guessed.
        let line = up_to(first, 2, key).min(lines - 1);
        let Some(entries) = self.lines_at::<{ LINE as usize }>(at + LINE * (1 + line as u64)) else {
            return Found::Unknown;
        };
        let count = (meta.count() - line * LINE_ENTRIES).min(LINE_ENTRIES);
        let mut smaller = 0;
        for n in 0..LINE_ENTRIES {
            smaller = select_unpredictable(n < count && word(entries, 2 * n) < key, n + 1, smaller);
        }
        if smaller < count && word(entries, 2 * smaller) == key {
            return Found::Hit(&entries[16 * smaller + 8..16 * smaller + 16]);
        }
        match smaller < count || line + 1 < lines {
            true => Found::Miss,
            false => Found::Unknown,
        }
    }
}
