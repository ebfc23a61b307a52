//! Finding the node of a level that holds a place in the order.
//!
//! A search goes from the root down, and right where a node was split and its parent does not know yet. A node's lower
//! bound never changes, and its upper bound only moves left: so a page of an inner node may be out of date by any
//! amount, and still leads to the right node or to one left of it. Only the pages that answer a question are read
//! afresh.
//!
//! A node that was merged into the one before it is frozen for ever. A search that comes to a frozen node from its
//! parent goes to the node before it, and right from there: if it meets the frozen node again, that is not merged yet,
//! and has what it had when it was frozen. The only child of a root may be frozen too: it takes the root's place, and
//! has what it had until the root has changed.

use super::key::Target;
use super::page::{LEVEL_MAX, Page};
use super::{FROZEN, OrderedMap, Unposted};
use crate::error::{Error, Result};
use crate::memory::checked::sync_word;
use crate::memory::{LINE, Memory, SyncWord};
use crate::mutant::{self, Mutant};

/// Lines of a leaf that are prefetched at once.
const LEAF_LINES: u64 = 7;
/// Of so many steps right, in searches that were led too far left, one makes the page that led there be read afresh.
const DETOURS: u32 = 16;
/// Restarts of a search, because a merge was faster, before the map counts as damaged.
const LOST_MAX: u32 = 10_000;

/// A node, as it was found.
#[derive(Clone, Copy, Debug)]
pub struct Visit<'m> {
    /// Its word.
    pub word: SyncWord,
    /// The page that the word referred to.
    pub page: Page<'m>,
    /// If the node is being merged into the one before it: the nearest node before it that is not, and what that node's
    /// word held. If it takes the root's place: the root, and what the root held. While the anchor still holds that,
    /// the merge is not done, and the page is valid.
    pub anchor: Option<(SyncWord, u64)>,
}

impl Visit<'_> {
    /// What the word held.
    pub fn seen(&self) -> u64 {
        match self.anchor {
            Some(_) => self.page.at | FROZEN,
            None => self.page.at,
        }
    }

    /// The anchor for the node behind this one.
    pub fn anchor_of_next(&self) -> (SyncWord, u64) {
        self.anchor.unwrap_or((self.word, self.page.at))
    }
}

/// Where a descent to a level has come to; the node is not opened yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descent {
    /// A node's word.
    pub word: SyncWord,
    /// What it held.
    pub at: u64,
    /// See [`Visit`].
    pub anchor: Option<(SyncWord, u64)>,
    /// The page that led here and which of its children this is, if the search took the fast path.
    pub parent: Option<(u64, usize)>,
    /// The node whose page led here, if that page may be cached.
    pub above: Option<SyncWord>,
}

impl Descent {
    /// A node without anchor and parent.
    fn new(word: SyncWord, at: u64) -> Self {
        Self {
            word,
            at,
            anchor: None,
            parent: None,
            above: None,
        }
    }
}

/// Where a search from the root down has come to.
struct Search<'m> {
    /// The node that it reads next.
    word: SyncWord,
    /// That node's level; none at the root.
    expected: Option<u8>,
    /// The high fence of the last node that it went right from, on this level.
    passed: Option<&'m [u8]>,
    /// The node whose page led here, if that page may be cached.
    above: Option<SyncWord>,
    /// The page and the child that led here; none if the node before led here.
    way: Option<(Page<'m>, usize)>,
    /// Whether this search read that page's word afresh, not from the cache.
    is_way_fresh: bool,
    /// How often it has begun again because a merge was faster.
    lost: u32,
    /// The time before the words that it has read.
    began: u64,
}

impl Search<'_> {
    fn at(root: SyncWord, began: u64) -> Self {
        Self {
            word: root,
            expected: None,
            passed: None,
            above: None,
            way: None,
            is_way_fresh: false,
            lost: 0,
            began,
        }
    }

    fn begin_again(&mut self, root: SyncWord, began: u64) {
        (self.word, self.expected, self.passed, self.way) = (root, None, None, None);
        self.began = began;
    }
}

/// What a search does at a node that is frozen.
enum AtFrozen {
    /// It reads what the node had, with this anchor.
    Reads(Option<(SyncWord, u64)>),
    /// It goes to the node of the child before.
    GoesTo(SyncWord),
    /// It begins again at the root.
    BeginsAgain,
}

impl<M: Memory> OrderedMap<M> {
    /// The node of a level that holds a place; `None` if the map is empty, or has no such level. The worker is pinned.
    pub(super) fn descend(&self, target: Target<'_>, level: u8) -> Result<Option<Visit<'_>>> {
        match self.descend_unopened(target, level)? {
            Some(descent) => self.move_right(descent, target, level, true).map(Some),
            None => Ok(None),
        }
    }

    /// The leaf that holds a place, unopened: the place may be in a leaf behind it.
    #[inline]
    pub(super) fn descend_to_leaf(&self, target: Target<'_>) -> Result<Option<Descent>> {
        self.descend_unopened(target, 0)
    }

    /// The leaf that holds a place: this one, or one behind it.
    pub(super) fn move_right_from_leaf(&self, leaf: Descent, target: Target<'_>) -> Result<Visit<'_>> {
        self.move_right(leaf, target, 0, true)
    }

    /// The node that holds a place, from a child of a page rightwards; `None` if that child is being merged.
    pub(super) fn move_right_below(
        &self,
        page: &Page<'_>,
        child: usize,
        target: Target<'_>,
    ) -> Result<Option<Visit<'_>>> {
        let word = self.node(page.child(child))?;
        let at = word.load(self.worker.mem());
        if at & FROZEN != 0 {
            return Ok(None);
        }
        self.move_right(Descent::new(word, at), target, page.level() - 1, false)
            .map(Some)
    }

    /// Goes down to a level, and right on the levels above it.
    #[inline]
    fn descend_unopened(&self, target: Target<'_>, level: u8) -> Result<Option<Descent>> {
        if M::COHERENT
            && level == 0
            && let Target::At(key, head) = target
            && let Some(descent) = self.descend_by_fast_path(head, key.len() == 8)
        {
            self.expect_soon(descent.at);
            return Ok(Some(descent));
        }
        self.descend_by_slow_path(target, level)
    }

    fn descend_by_slow_path(&self, target: Target<'_>, level: u8) -> Result<Option<Descent>> {
        let worker = &*self.worker;
        // The time is taken before any word is read.
        let mut search = Search::at(self.root(), worker.pod().words().now());
        loop {
            let is_above = search.expected != Some(level);
            let may_be_old = is_above || mutant::is(Mutant::LeafCached);
            let cached = if may_be_old { self.cached(search.word) } else { 0 };
            let mut at = if cached == 0 {
                // PAIRS WITH: pod::commit::publish::exchange
                search.word.load(worker.mem())
            } else {
                cached
            };
            let mut anchor = None;
            // A node that is merged may be freed before the announcement of a thread that would use the cached word.
            let may_keep = cached == 0 && (at & FROZEN == 0 || mutant::is(Mutant::FrozenCached));
            if at & FROZEN != 0 {
                match self.at_frozen(&mut search)? {
                    AtFrozen::Reads(found) => (anchor, at) = (found, at & !FROZEN),
                    AtFrozen::GoesTo(before) => {
                        search.word = before;
                        continue;
                    }
                    AtFrozen::BeginsAgain => {
                        search.begin_again(self.root(), self.forget_cached());
                        continue;
                    }
                }
            }
            if !is_above {
                self.end_descent(level, search.word, at, may_keep.then_some(search.began));
                return Ok(Some(Descent {
                    above: search.above,
                    anchor,
                    ..Descent::new(search.word, at)
                }));
            }
            if at == 0 && search.expected.is_none() {
                return Ok(None);
            }
            let page = Page::open_to_search(worker, at)?;
            if search.expected.is_some_and(|expected| expected != page.level()) {
                return Err(Error::corrupt("the level of a page", at));
            }
            if page.level() <= level {
                // Only the root can be here: it may have been replaced by a higher one since it was cached.
                if cached == 0 {
                    return Ok((page.level() == level).then_some(Descent::new(search.word, at)));
                }
                search.began = self.forget_cached();
                continue;
            }
            if may_keep {
                self.cache(search.word, at, search.began);
            }
            self.go_on(&mut search, page, target, cached == 0)?;
        }
    }

    /// Goes on from a page above the level that a search is for: down, or right if the place is in a node behind.
    #[inline]
    fn go_on<'m>(
        &'m self,
        search: &mut Search<'m>,
        page: Page<'m>,
        target: Target<'_>,
        is_fresh: bool,
    ) -> Result<()> {
        let mem = self.worker.mem();
        let child = page.child_for(mem, target)?;
        // Only behind the last child there may be a node that this page does not know.
        if child + 1 == page.count() && page.is_beyond_its_last(mem, target)? {
            self.forget_way(search.above);
            search.word = self.right_of(&page, &mut search.passed)?;
            self.note(&page, search.word)?;
            (search.expected, search.way) = (Some(page.level()), None);
        } else {
            search.above = Some(search.word);
            search.word = self.node(page.child(child))?;
            (search.expected, search.passed) = (Some(page.level() - 1), None);
            search.way = Some((page, child));
            search.is_way_fresh = is_fresh || mutant::is(Mutant::LoweringCached);
        }
        Ok(())
    }

    /// At the end of a search: prefetches a leaf; caches the page of another node, if the time before it was read is
    /// given.
    #[inline]
    fn end_descent(&self, level: u8, word: SyncWord, at: u64, since: Option<u64>) {
        match (level, since) {
            (0, _) if !mutant::is(Mutant::LeafCached) => self.expect_soon(at),
            (_, Some(since)) => self.cache(word, at, since),
            _ => {}
        }
    }

    /// What a search does at a node that is frozen.
    fn at_frozen(&self, search: &mut Search<'_>) -> Result<AtFrozen> {
        if search.expected.is_none() {
            // The root is never frozen: a write to it would be retried for ever.
            return Err(Error::corrupt("a root that is frozen", search.word.offset()));
        }
        match &mut search.way {
            None => Ok(AtFrozen::Reads(None)),
            Some(_) if mutant::is(Mutant::FrozenRead) => Ok(AtFrozen::Reads(None)),
            Some((page, child)) if *child > 0 => {
                *child -= 1;
                self.node(page.child(*child)).map(AtFrozen::GoesTo)
            }
            // It is to take the root's place.
            Some((page, _)) if page.meta.is_lowering() && search.is_way_fresh => {
                Ok(AtFrozen::Reads(Some((self.root(), page.at))))
            }
            // The page is out of date: a first child is not merged while it is the first.
            Some(_) => {
                search.lost += 1;
                match search.lost > LOST_MAX {
                    true => Err(Error::corrupt(
                        "a node that is merged and has a parent",
                        search.word.offset(),
                    )),
                    false => Ok(AtFrozen::BeginsAgain),
                }
            }
        }
    }

    /// Opens the page of a node, and goes right on its level.
    fn move_right(
        &self,
        mut descent: Descent,
        target: Target<'_>,
        level: u8,
        takes_notes: bool,
    ) -> Result<Visit<'_>> {
        let mut passed = None;
        let above = descent.above;
        loop {
            let page = Page::open(&self.worker, descent.at)?;
            if page.level() != level {
                return Err(Error::corrupt("the level of a page", page.at));
            }
            let (word, anchor) = (descent.word, descent.anchor);
            let visit = Visit { word, page, anchor };
            if !page.is_beyond(target)? || level == 0 && mutant::is(Mutant::FenceIgnored) {
                return Ok(visit);
            }
            self.forget_way(above);
            let word = self.right_of(&page, &mut passed)?;
            if takes_notes {
                self.note(&page, word)?;
            }
            descent = self.load_behind(&visit, word);
        }
    }

    /// Loads the word of the node behind another.
    fn load_behind(&self, before: &Visit<'_>, word: SyncWord) -> Descent {
        // PAIRS WITH: pod::commit::publish::exchange
        let at = word.load(self.worker.mem());
        Descent {
            anchor: (at & FROZEN != 0).then(|| before.anchor_of_next()),
            ..Descent::new(word, at & !FROZEN)
        }
    }

    /// The node behind another, as it is now.
    pub(super) fn behind(&self, before: &Visit<'_>) -> Result<Visit<'_>> {
        let Descent { word, at, anchor, .. } = self.load_behind(before, self.node(before.page.next())?);
        let page = Page::open(&self.worker, at)?;
        match page.level() == before.page.level() {
            true => Ok(Visit { word, page, anchor }),
            false => Err(Error::corrupt("the level of a page", page.at)),
        }
    }

    /// The word of the node behind a page. `passed` is the high fence of the page before on the same level: fences must
    /// ascend, as a damaged level may be a cycle.
    fn right_of<'m>(&self, page: &Page<'m>, passed: &mut Option<&'m [u8]>) -> Result<SyncWord> {
        let word = self.node(page.next())?;
        let (_, high) = page.fences()?;
        if passed.is_some_and(|passed| high <= passed) {
            return Err(Error::corrupt("a node's high fence", page.at));
        }
        *passed = Some(high);
        Ok(word)
    }

    /// Notes that the parent may not know the node behind a page.
    fn note(&self, page: &Page<'_>, node: SyncWord) -> Result<()> {
        let mut unposted = self.unposted.borrow_mut();
        if unposted.len() < self.notes_max && page.level() < LEVEL_MAX {
            unposted.push(Unposted {
                level: page.level() + 1,
                separator: page.fences()?.1.to_vec(),
                was_at: node.offset(),
            });
        }
        Ok(())
    }

    /// The word of a node at an offset that was read.
    #[inline(always)]
    pub(super) fn node(&self, at: u64) -> Result<SyncWord> {
        if at & 15 != 0 {
            return Err(Error::corrupt("a node of an ordered map", at));
        }
        self.worker.check("a node of an ordered map", at, 16)?;
        Ok(sync_word(at))
    }

    /// Prefetches all lines of a leaf. On incoherent memory a hint would drop them. The offset is not validated yet.
    #[inline(always)]
    pub(super) fn expect_soon(&self, at: u64) {
        if M::COHERENT {
            for line in 0..LEAF_LINES {
                self.worker.mem().prefetch(at.wrapping_add(line * LINE));
            }
        }
    }

    // ---------------------------------------------------------------------------------------------- the cache

    /// The cached page of an inner node, or 0. It was read under an announcement that still stands.
    #[inline(always)]
    fn cached(&self, word: SyncWord) -> u64 {
        if M::COHERENT || !self.may_cache(word) {
            return 0;
        }
        let announced = match mutant::is(Mutant::CacheWithoutStamp) {
            true => 0,
            false => self.worker.stamp(),
        };
        let since = announced.max(self.read_since.get());
        self.worker.mem().reads_private(1);
        self.worker.pod().words().find(word, since).unwrap_or(0)
    }

    /// Caches a page that a node had after a time, for all threads of the process.
    fn cache(&self, word: SyncWord, at: u64, time: u64) {
        if !M::COHERENT && self.may_cache(word) {
            let words = self.worker.pod().words();
            let time = match mutant::is(Mutant::CachedLate) {
                true => words.now(),
                false => time,
            };
            words.keep(word, at, time);
        }
    }

    /// Whether a node may be cached: with replication the root, with speculation all nodes.
    #[inline(always)]
    fn may_cache(&self, word: SyncWord) -> bool {
        self.guidelines.speculate || self.guidelines.replicate && word == self.root()
    }

    /// Called for a step right. Makes the node above, whose page may be out of date, be read afresh; not at each step:
    /// the cached page may be current, if nobody has posted the node behind, and nobody will while all only read. Then
    /// each of these would be a sync load of a contended word. It counts steps, not searches: a path that costs a
    /// search so many steps is not taken again.
    fn forget_way(&self, above: Option<SyncWord>) {
        if !M::COHERENT
            && let Some(word) = above
        {
            let detours = self.detours.get();
            self.detours.set(detours.wrapping_add(1));
            if detours.is_multiple_of(DETOURS) {
                self.worker.pod().words().forget(word);
            }
        }
    }

    /// Makes this handle read all nodes afresh. Returns the time from which on it does.
    pub(super) fn forget_cached(&self) -> u64 {
        if !M::COHERENT {
            self.read_since.set(self.worker.pod().words().tick());
        }
        self.read_since.get()
    }
}
