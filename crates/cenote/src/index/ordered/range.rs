//! Scans, and neighbours of a key.
//!
//! **What a scan guarantees.** A scan reads each leaf at one moment, and the leaves one after the other. So it returns
//! a key that is there all the time exactly once, and never one that is not there at any time. A key that is inserted,
//! removed or changed meanwhile is seen as it was at some moment of the scan. Keys come in order. The pairs of one
//! leaf, see [`OrderedMap::step`], are the map's content at one moment.
//!
//! **Neighbours** are answers of one moment: if the search passed leaves without a neighbour, it reads them again, and
//! starts again if one has changed.

use super::OrderedMap;
use super::ahead::Ahead;
use super::find::Visit;
use super::key::{Target, compare, head_of};
use crate::error::{Error, Result};
use crate::memory::{Memory, SyncWord};
use crate::mutant::{self, Mutant};

/// Leaves that are read under one announcement.
const LEAVES_AT_ONCE: u32 = 64;

/// A key and its value, copied.
pub type Pair = (Vec<u8>, Vec<u8>);

/// A range of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range<'k> {
    /// The least key in it.
    pub from: &'k [u8],
    /// The least key after it; `None` if it has no end.
    pub to: Option<&'k [u8]>,
}

impl Range<'_> {
    /// All keys.
    pub const ALL: Self = Self { from: &[], to: None };
}

/// How one leaf's part of a walk ended.
enum Leaf {
    /// The caller ended the walk, or the range ended.
    Ended,
    /// The next leaf may have more.
    Through,
}

impl<M: Memory> OrderedMap<M> {
    /// Calls `each` for the pairs of a range in ascending order, until it returns `false`; see the
    /// [module documentation](self) for what it guarantees. The map is pinned meanwhile; `each` should be quick.
    ///
    /// Cost on incoherent memory: a search, and for each leaf one sync load and its lines.
    pub fn scan(&self, range: Range<'_>, mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let mut position = self.scan_some(range, LEAVES_AT_ONCE, &mut each)?;
        while let Some(from) = position {
            let range = Range { from: &from, ..range };
            position = self.scan_some(range, LEAVES_AT_ONCE, &mut each)?;
        }
        Ok(())
    }

    /// Calls `each` for the pairs of the first leaf of a range, all of one moment, and returns where the
    /// next leaf begins; `None` if the range ends before.
    ///
    /// Cost: that of a [`scan`](OrderedMap::scan) of one leaf.
    pub fn step(&self, range: Range<'_>, mut each: impl FnMut(&[u8], &[u8])) -> Result<Option<Vec<u8>>> {
        self.scan_some(range, 1, &mut |key, value| {
            each(key, value);
            true
        })
    }

    /// Scans at most so many leaves. Returns where to go on.
    fn scan_some(
        &self,
        mut range: Range<'_>,
        leaves: u32,
        each: &mut impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>> {
        let _pin = self.pin()?;
        let target = Target::at(range.from);
        let Some(reached) = self.descend_to_leaf(target)? else {
            return Ok(None);
        };
        let mut ahead = Ahead::of(self, &reached, leaves);
        let mut visit = self.move_right_from_leaf(reached, target)?;
        ahead.begin(self);
        for left in (0..leaves).rev() {
            ahead.advance(self);
            if let Leaf::Ended = self.scan_leaf(&visit, range, each)? {
                return Ok(None);
            }
            let Some(high) = visit.page.high()? else {
                return Ok(None);
            };
            if range.to.is_some_and(|to| compare(high, to).is_ge()) {
                return Ok(None);
            }
            if compare(high, range.from).is_le() {
                return Err(Error::corrupt("a leaf's high fence", visit.page.at));
            }
            if left == 0 {
                return Ok(Some(high.to_vec()));
            }
            visit = self.leaf_behind(&visit, high)?;
            ahead.move_to(self, visit.word);
            // All keys of the next leaf are after the start of the range: its low fence is this one's high fence.
            range.from = &[];
        }
        Ok(None)
    }

    /// The leaf behind one that ends at `high`.
    fn leaf_behind(&self, visit: &Visit<'_>, high: &[u8]) -> Result<Visit<'_>> {
        let next = self.behind(visit)?;
        // A damaged level may be a cycle.
        match next.page.high()? {
            Some(next_high) if compare(next_high, high).is_le() => {
                Err(Error::corrupt("a leaf's high fence", next.page.at))
            }
            _ => Ok(next),
        }
    }

    fn scan_leaf(
        &self,
        visit: &Visit<'_>,
        range: Range<'_>,
        each: &mut impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<Leaf> {
        let (worker, page) = (&*self.worker, &visit.page);
        let first = match range.from {
            [] => 0,
            from => page.place_of(worker, from)?,
        };
        let (end, ending) = match (range.to, page.high()?) {
            (None, _) => (page.count(), Leaf::Through),
            (Some(to), Some(high)) if compare(high, to).is_lt() => (page.count(), Leaf::Through),
            (Some(to), _) => (page.place_of(worker, to)?, Leaf::Ended),
        };
        match page.with_pairs(worker, first, end, each)? {
            true => Ok(ending),
            false => Ok(Leaf::Ended),
        }
    }

    /// [`OrderedMap::scan`] in descending order. Costs a search for each leaf.
    pub fn scan_reverse(&self, range: Range<'_>, mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let mut end = range.to.map(<[u8]>::to_vec);
        loop {
            let _pin = self.pin()?;
            let Some(visit) = self.descend(Target::before(end.as_deref()), 0)? else {
                return Ok(());
            };
            let page = &visit.page;
            for n in (0..self.below(&visit, end.as_deref())?).rev() {
                let goes_on = page.with_pair(&self.worker, n, |key, value| {
                    key >= range.from && each(key, value)
                })?;
                if !goes_on {
                    return Ok(());
                }
            }
            let (low, _) = page.fences()?;
            if low <= range.from {
                return Ok(());
            }
            end = Some(self.before(&visit, low, end)?);
        }
    }

    /// The low fence of a leaf, checked to be below `end`.
    fn before(&self, visit: &Visit<'_>, low: &[u8], end: Option<Vec<u8>>) -> Result<Vec<u8>> {
        match end {
            Some(end) if low >= &end[..] => Err(Error::corrupt("a leaf's low fence", visit.page.at)),
            _ => Ok(low.to_vec()),
        }
    }

    /// How many keys of a leaf are smaller than `end`.
    fn below(&self, visit: &Visit<'_>, end: Option<&[u8]>) -> Result<usize> {
        match end {
            Some(end) => Ok(visit.page.search(&self.worker, end, head_of(end))?.smaller()),
            None => Ok(visit.page.count()),
        }
    }

    /// The number of keys in a range, with the guarantees of a scan.
    ///
    /// Cost: that of a [`scan`](OrderedMap::scan).
    pub fn count(&self, range: Range<'_>) -> Result<u64> {
        let mut count = 0;
        self.scan(range, |_, _| {
            count += 1;
            true
        })?;
        Ok(count)
    }

    /// Calls `each` for every pair, in ascending order.
    ///
    /// Cost: that of a [`scan`](OrderedMap::scan) of all.
    pub fn for_each(&self, mut each: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.scan(Range::ALL, |key, value| {
            each(key, value);
            true
        })
    }

    /// The pair with the least key.
    ///
    /// Cost: as of [`OrderedMap::least_from`].
    pub fn first(&self) -> Result<Option<Pair>> {
        self.least_from(&[])
    }

    /// The pair with the greatest key.
    ///
    /// Cost: as of [`OrderedMap::greatest_before`].
    pub fn last(&self) -> Result<Option<Pair>> {
        self.greatest_before(None)
    }

    /// The pair with the least key above a key.
    ///
    /// Cost: as of [`OrderedMap::least_from`].
    pub fn successor(&self, key: &[u8]) -> Result<Option<Pair>> {
        let mut from = key.to_vec();
        from.push(0);
        self.least_from(&from)
    }

    /// The pair with the greatest key below a key.
    ///
    /// Cost: as of [`OrderedMap::greatest_before`].
    pub fn predecessor(&self, key: &[u8]) -> Result<Option<Pair>> {
        self.greatest_before(Some(key))
    }

    /// The pair with the least key that is not below `from`.
    ///
    /// Cost: as of [`OrderedMap::get_copied`], and a sync load and the lines of each empty leaf behind.
    pub fn least_from(&self, from: &[u8]) -> Result<Option<Pair>> {
        loop {
            let _pin = self.pin()?;
            let mut passed = Passed::default();
            let Some(mut visit) = self.descend(Target::at(from), 0)? else {
                return Ok(None);
            };
            let found = loop {
                let n = visit.page.search(&self.worker, from, head_of(from))?.smaller();
                if n < visit.page.count() {
                    break Some(self.pair(&visit, n)?);
                }
                passed.add(&visit);
                self.note_empty(&visit)?;
                match visit.page.high()? {
                    None => break None,
                    Some(high) => visit = self.leaf_behind(&visit, high)?,
                }
            };
            if passed.is_as_it_was(self.worker.mem()) {
                return Ok(found);
            }
        }
    }

    /// The pair with the greatest key below `end`, or with the greatest of all.
    ///
    /// Cost: as of [`OrderedMap::get_copied`], and a search for each empty leaf before.
    pub fn greatest_before(&self, end: Option<&[u8]>) -> Result<Option<Pair>> {
        loop {
            let _pin = self.pin()?;
            let mut passed = Passed::default();
            let mut before = end.map(<[u8]>::to_vec);
            let found = loop {
                let Some(visit) = self.descend(Target::before(before.as_deref()), 0)? else {
                    return Ok(None);
                };
                let n = self.below(&visit, before.as_deref())?;
                if n > 0 {
                    break Some(self.pair(&visit, n - 1)?);
                }
                passed.add(&visit);
                self.note_empty(&visit)?;
                match visit.page.fences()?.0 {
                    [] => break None,
                    low => before = Some(self.before(&visit, low, before)?),
                }
            };
            if passed.is_as_it_was(self.worker.mem()) {
                return Ok(found);
            }
        }
    }

    /// Notes an empty leaf for the next write, unless it is the only leaf.
    fn note_empty(&self, visit: &Visit<'_>) -> Result<()> {
        let page = &visit.page;
        if page.count() == 0 && visit.word != self.root() && self.notes_max > 0 {
            self.empty.replace(Some(page.fences()?.0.to_vec()));
        }
        Ok(())
    }

    fn pair(&self, visit: &Visit<'_>, n: usize) -> Result<Pair> {
        visit
            .page
            .with_pair(&self.worker, n, |key, value| (key.to_vec(), value.to_vec()))
    }
}

/// Leaves that had no neighbour, and the anchors of those that are being merged: words, and what they held. While the
/// pin lasts, no page comes back.
#[derive(Default)]
struct Passed(Vec<(SyncWord, u64)>);

impl Passed {
    fn add(&mut self, visit: &Visit<'_>) {
        self.0.extend(visit.anchor);
        self.0.push((visit.word, visit.seen()));
    }

    fn is_as_it_was<M: Memory>(&self, mem: &M) -> bool {
        mutant::is(Mutant::NeighboursOnce) || self.0.iter().all(|(word, at)| word.load(mem) == *at)
    }
}
