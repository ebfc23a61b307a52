//! Finding the node of a level that holds a place in the order.
//!
//! From the root down, and to the right where a node has been split and its parent does not know yet. The part of the
//! order that a node holds begins where it always began, and its end only moves to the left: so a page of a node that is
//! not a leaf may be out of date by any amount, and leads to the right node or to one left of it. Only the pages that
//! answer a question are read afresh.

use std::cell::Cell;

use super::key::Target;
use super::page::{LEVEL_MAX, Page};
use super::{OrderedMap, Unposted};
use crate::error::{Error, Result};
use crate::memory::{LINE, Memory, SyncWord};

/// Lines of a leaf that are asked for at once.
const LEAF_LINES: u64 = 7;

/// A node, as it was found.
#[derive(Clone, Copy, Debug)]
pub struct Visit<'m> {
    /// Its word.
    pub word: SyncWord,
    /// The page that the word referred to.
    pub page: Page<'m>,
}

/// Where a search for a level has come to: a node's word, and the page that it refers to.
#[derive(Clone, Copy, Debug)]
struct Reached {
    word: SyncWord,
    at: u64,
}

impl<M: Memory> OrderedMap<M> {
    /// The node of a level that holds a place; `None` if the map is empty, or lower than that. The worker is pinned.
    pub(super) fn descend(&self, target: Target<'_>, level: u8) -> Result<Option<Visit<'_>>> {
        match self.reach(target, level)? {
            Some(reached) => self.settle(reached, target, level).map(Some),
            None => Ok(None),
        }
    }

    /// The leaf that holds a place, unopened: perhaps the place is in one behind it.
    #[inline]
    pub(super) fn reach_leaf(&self, target: Target<'_>) -> Result<Option<(SyncWord, u64)>> {
        Ok(self.reach(target, 0)?.map(|reached| (reached.word, reached.at)))
    }

    /// The page of a leaf, or of the one behind it that holds a place.
    pub(super) fn settle_leaf(&self, leaf: (SyncWord, u64), target: Target<'_>) -> Result<Visit<'_>> {
        let (word, at) = leaf;
        self.settle(Reached { word, at }, target, 0)
    }

    /// Goes down to a level, and right above it.
    #[inline]
    fn reach(&self, target: Target<'_>, level: u8) -> Result<Option<Reached>> {
        let worker = &*self.worker;
        let mut word = self.root();
        let (mut expected, mut passed) = (None, None);
        loop {
            let is_above = expected != Some(level);
            let cached = if is_above { self.cached(word) } else { 0 };
            let at = if cached == 0 {
                word.load(worker.mem())
            } else {
                cached
            };
            if !is_above {
                match level {
                    0 => self.expect_soon(at),
                    _ => self.cache(word, at),
                }
                return Ok(Some(Reached { word, at }));
            }
            if at == 0 && expected.is_none() {
                return Ok(None);
            }
            let page = Page::open(worker, at)?;
            if expected.is_some_and(|expected| expected != page.level()) {
                return Err(Error::corrupt("the level of a page", at));
            }
            if page.level() <= level {
                // Only the root: it may have been replaced by a higher one since it was cached.
                if cached == 0 {
                    return Ok((page.level() == level).then_some(Reached { word, at }));
                }
                self.forget_cached();
                continue;
            }
            if cached == 0 {
                self.cache(word, at);
            }
            let child = page.child_for(target)?;
            // Only behind the last child there may be a node that the page does not know.
            if child + 1 == page.count() && page.is_beyond(target)? {
                word = self.right_of(&page, &mut passed)?;
                expected = Some(page.level());
            } else {
                word = self.node(page.child(child))?;
                (expected, passed) = (Some(page.level() - 1), None);
            }
        }
    }

    /// Opens the page of a node, and goes right on its level.
    fn settle(&self, mut reached: Reached, target: Target<'_>, level: u8) -> Result<Visit<'_>> {
        let worker = &*self.worker;
        let mut passed = None;
        loop {
            let page = Page::open(worker, reached.at)?;
            if page.level() != level {
                return Err(Error::corrupt("the level of a page", page.at));
            }
            if !page.is_beyond(target)? {
                let word = reached.word;
                return Ok(Visit { word, page });
            }
            let word = self.right_of(&page, &mut passed)?;
            let at = word.load(worker.mem());
            reached = Reached { word, at };
        }
    }

    /// The node behind a page. Its parent does not know it, or did not when it was read. `passed` is the high fence of the
    /// page before on the same level: fences ascend, or a damaged level might be a cycle.
    fn right_of<'m>(&self, page: &Page<'m>, passed: &mut Option<&'m [u8]>) -> Result<SyncWord> {
        let word = self.node(page.next())?;
        let (_, high) = page.fences()?;
        if passed.is_some_and(|passed| high <= passed) {
            return Err(Error::corrupt("a node's high fence", page.at));
        }
        *passed = Some(high);
        let mut unposted = self.unposted.borrow_mut();
        if unposted.len() < UNPOSTED_MAX && page.level() < LEVEL_MAX {
            unposted.push(Unposted {
                level: page.level() + 1,
                separator: high.to_vec(),
                node: word.offset(),
            });
        }
        Ok(word)
    }

    /// The word of a node at an offset that was read.
    #[inline(always)]
    pub(super) fn node(&self, at: u64) -> Result<SyncWord> {
        if at & 15 != 0 {
            return Err(Error::corrupt("a node of an ordered map", at));
        }
        self.worker.check("a node of an ordered map", at, 16)?;
        Ok(SyncWord::at(at))
    }

    /// The page of a node.
    pub(super) fn visit(&self, word: SyncWord, level: u8) -> Result<Visit<'_>> {
        let page = Page::open(&self.worker, word.load(self.worker.mem()))?;
        match page.level() == level {
            true => Ok(Visit { word, page }),
            false => Err(Error::corrupt("the level of a page", page.at)),
        }
    }

    /// Brings all lines of a leaf near at once. On incoherent memory a hint would drop them.
    #[inline(always)]
    fn expect_soon(&self, at: u64) {
        if M::COHERENT {
            for line in 0..LEAF_LINES {
                self.worker.mem().prefetch(at + line * LINE);
            }
        }
    }

    // ---------------------------------------------------------------------------------------------- the cache

    /// The page that a node that is no leaf had lately, or 0. It was read under an announcement that still stands.
    #[inline(always)]
    fn cached(&self, word: SyncWord) -> u64 {
        if M::COHERENT || !self.may_cache(word) {
            return 0;
        }
        let (node, at, stamp) = self.cache[place_of(word)].get();
        match node == word.offset() && stamp == self.worker.stamp() {
            true => at,
            false => 0,
        }
    }

    fn cache(&self, word: SyncWord, at: u64) {
        if !M::COHERENT && self.may_cache(word) {
            self.cache[place_of(word)].set((word.offset(), at, self.worker.stamp()));
        }
    }

    /// The root by replication, all nodes by speculation.
    #[inline(always)]
    fn may_cache(&self, word: SyncWord) -> bool {
        self.guidelines.speculate || self.guidelines.replicate && word == self.root()
    }

    /// Has all nodes read afresh.
    pub(super) fn forget_cached(&self) {
        if !M::COHERENT {
            self.cache.iter().for_each(|entry| entry.set((0, 0, 0)));
        }
    }
}

/// Entries of the cache.
const CACHE_ENTRIES: usize = 1 << 10;
/// Nodes kept in mind that their parents may not know.
const UNPOSTED_MAX: usize = 4;

/// A node's word, the page it had, and the stamp under which that was read.
pub(super) type Cached = Cell<(u64, u64, u64)>;

/// An empty cache; none where hardware keeps caches coherent.
pub(super) fn empty_cache<M: Memory>() -> Box<[Cached]> {
    let entries = if M::COHERENT { 0 } else { CACHE_ENTRIES };
    (0..entries).map(|_| Cell::new((0, 0, 0))).collect()
}

fn place_of(word: SyncWord) -> usize {
    (word.offset() >> 6) as usize % CACHE_ENTRIES
}
