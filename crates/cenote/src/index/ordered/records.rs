//! Records by their keys alone: for structures that keep words of their own in values, which nobody may read as
//! protected data. Nothing here reads a value.

use super::OrderedMap;
use super::key::{Target, head_of};
use super::page::{Page, Position};
use super::range::Range;
use crate::error::Result;
use crate::memory::Memory;

impl<M: Memory> OrderedMap<M> {
    /// Where the record of a key is, if it has one. The caller has a pin, which keeps the record in place.
    ///
    /// Cost: that of [`OrderedMap::get`].
    pub(in crate::index) fn record_of(&self, key: &[u8]) -> Result<Option<u64>> {
        let target = Target::at(key);
        let Some(leaf) = self.descend_to_leaf(target)? else {
            return Ok(None);
        };
        let page = self.move_right_from_leaf(leaf, target)?.page;
        match page.search(&self.worker, key, head_of(key))? {
            Position::At(n) if page.is_record(n) => Ok(Some(page.entry(n).1)),
            _ => Ok(None),
        }
    }

    /// Calls `each` for the key and the record of each pair of the first leaf of a range that has one, all of one
    /// moment. Returns where the next leaf begins; `None` if the range ends before. The caller has a pin, which keeps
    /// the records in place.
    ///
    /// Cost: that of [`OrderedMap::step`], without the values.
    pub(in crate::index) fn step_records(
        &self,
        range: Range<'_>,
        mut each: impl FnMut(&[u8], u64) -> Result<()>,
    ) -> Result<Option<Vec<u8>>> {
        self.step_entries(range, |page, n, key| match page.is_record(n) {
            true => each(key, page.entry(n).1),
            false => Ok(()),
        })
    }

    /// The same for all keys, whose values are not looked at: others may change them.
    pub(super) fn step_keys(&self, range: Range<'_>, mut each: impl FnMut(&[u8])) -> Result<Option<Vec<u8>>> {
        self.step_entries(range, |_, _, key| {
            each(key);
            Ok(())
        })
    }

    fn step_entries(
        &self,
        range: Range<'_>,
        mut each: impl FnMut(&Page<'_>, usize, &[u8]) -> Result<()>,
    ) -> Result<Option<Vec<u8>>> {
        let Some(visit) = self.descend(Target::at(range.from), 0)? else {
            return Ok(None);
        };
        let page = &visit.page;
        for n in page.place_of(&self.worker, range.from)?..page.count() {
            let key = page.key_alone(&self.worker, n)?;
            if range.to.is_some_and(|to| &key[..] >= to) {
                return Ok(None);
            }
            each(page, n, &key)?;
        }
        Ok(page
            .high()?
            .filter(|high| range.to.is_none_or(|to| *high < to))
            .map(<[u8]>::to_vec))
    }
}
