//! Putting many pairs at once: all pairs of a leaf in one new page.

use super::OrderedMap;
use super::build::{Fences, Leaf, Second};
use super::key::Target;
use super::page::LEAF_MAX;
use super::replacement::Replacement;
use super::write::{Content, Outcome};
use crate::error::Result;
use crate::index::common::outcome::{Put, When};
use crate::memory::Memory;

/// Pairs of 8-byte keys and values: heads, which are the keys, and values as they are in an entry.
type Pairs<'p> = &'p [(u64, u64)];

impl<M: Memory> OrderedMap<M> {
    /// Puts pairs, best in ascending order of their keys: pairs with 8-byte keys and values that belong to one leaf are
    /// put together. Returns how many keys were new.
    ///
    /// Each pair is put as by [`OrderedMap::put`]; concurrent readers may see some of them. Keys after all
    /// others fill leaves one by one, at the cost of two small writes and one page for each 28 of them.
    ///
    /// Cost: as of [`OrderedMap::put`] once for each leaf and for each pair of another size.
    pub fn put_all<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let mut new = 0;
        let mut batch = Vec::with_capacity(LEAF_MAX);
        for (key, value) in pairs {
            let (key, value) = (key.as_ref(), value.as_ref());
            let (Ok(head), Ok(word)) = (key.try_into(), value.try_into()) else {
                new += self.put_batch(&mut batch)?;
                new += u64::from(self.put(key, value)? == Put::Inserted);
                continue;
            };
            let pair = (u64::from_be_bytes(head), u64::from_le_bytes(word));
            if batch.len() == LEAF_MAX || batch.last().is_some_and(|(last, _)| *last >= pair.0) {
                new += self.put_batch(&mut batch)?;
            }
            batch.push(pair);
        }
        Ok(new + self.put_batch(&mut batch)?)
    }

    /// Puts pairs in ascending order, and clears them. Returns how many keys were new.
    fn put_batch(&self, batch: &mut Vec<(u64, u64)>) -> Result<u64> {
        let (mut done, mut new) = (0, 0);
        while done < batch.len() {
            let (put, inserted) = self.until_done(|| self.attempt_batch(&batch[done..]))?;
            done += put;
            new += inserted;
            self.post_all()?;
        }
        batch.clear();
        Ok(new)
    }

    /// One attempt to put the first of some pairs, at least one. Returns how many it put, and how many keys of them
    /// were new.
    fn attempt_batch(&self, pairs: Pairs<'_>) -> Result<Option<(usize, u64)>> {
        let first = pairs[0].0.to_be_bytes();
        let Some(visit) = self.descend(Target::at(&first), 0)? else {
            return self.attempt_one(pairs);
        };
        if !self.may_change(&visit, &first) {
            return Ok(None);
        }
        let page = &visit.page;
        let high = page.high()?;
        let mut leaf = Leaf::part(page, 0, page.count());
        let (mut put, mut new) = (0, 0);
        for &(head, value) in pairs {
            let key = head.to_be_bytes();
            let position = page.search(&self.worker, &key, head)?;
            let (n, is_there) = (position.smaller(), position.is_there());
            let is_full = !is_there && page.count() + new == LEAF_MAX;
            let is_record = is_there && page.is_record(n);
            if is_full || is_record || high.is_some_and(|high| &key[..] >= high) {
                break;
            }
            // The pairs put before are in front of it.
            if is_there {
                leaf.remove(n + new);
            }
            leaf.insert(n + new, head, Second::Value(value));
            put += 1;
            new += usize::from(!is_there);
        }
        if put == 0 {
            return self.attempt_one(pairs);
        }
        let replacement = Replacement {
            word: visit.word,
            current: page.at,
            page: &leaf.finish(&Fences::of(page)?)?,
            old_secondaries: [0; 2],
            count: new as i64,
        };
        Ok(self.replace_page(&replacement)?.then_some((put, new as u64)))
    }

    /// One attempt to put the first of some pairs by itself.
    fn attempt_one(&self, pairs: Pairs<'_>) -> Result<Option<(usize, u64)>> {
        let (head, value) = pairs[0];
        let outcome = self.attempt(
            &head.to_be_bytes(),
            Some(Content::Bytes(&value.to_le_bytes())),
            When::Always,
        )?;
        Ok(outcome.map(|outcome| (1, u64::from(matches!(outcome, Outcome::Inserted)))))
    }
}
