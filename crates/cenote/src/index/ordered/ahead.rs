//! Prefetching for scans, by the parent of the leaves; on coherent memory only.
//!
//! Each step to the next leaf costs two misses, one after the other: the word of the next node, and its page. The
//! parent has the nodes of many leaves side by side. So a scan prefetches their words some leaves ahead, and their
//! pages when the words are there, while it reads other leaves. The parent's page may be out of date: then the scan
//! prefetches what it does not read, and nothing else happens. The page stays readable as long as the pin under which
//! it was reached.

use super::find::Descent;
use super::page::Page;
use super::{FROZEN, OrderedMap};
use crate::memory::{Memory, SyncWord};

/// How many leaves ahead a scan prefetches words, and pages.
const WORD_AHEAD: usize = 3;
const PAGE_AHEAD: usize = 2;

/// The place of the present leaf in its parent.
pub(super) struct Ahead<'m> {
    parent: Option<(Page<'m>, usize)>,
}

impl<'m> Ahead<'m> {
    /// Begins at the leaf that a search came to, for a scan of so many leaves: prefetches the words of the next leaves.
    #[inline]
    pub(super) fn of<M: Memory>(map: &'m OrderedMap<M>, descent: &Descent, leaves: u32) -> Self {
        let parent = match descent.parent {
            Some((at, child)) if M::COHERENT && leaves > 1 => {
                Page::open(&map.worker, at).ok().map(|page| (page, child))
            }
            _ => None,
        };
        let ahead = Self { parent };
        (1..WORD_AHEAD).for_each(|n| ahead.expect_word(map, n));
        ahead
    }

    /// Prefetches the pages of the next leaves, except the one that [`Ahead::advance`] will prefetch.
    #[inline]
    pub(super) fn begin<M: Memory>(&self, map: &OrderedMap<M>) {
        (1..PAGE_AHEAD).for_each(|n| self.expect_page(map, n));
    }

    /// Prefetches the next word and the next page.
    #[inline]
    pub(super) fn advance<M: Memory>(&self, map: &OrderedMap<M>) {
        self.expect_word(map, WORD_AHEAD);
        self.expect_page(map, PAGE_AHEAD);
    }

    /// Moves to the leaf of a word. A leaf that the parent does not know changes nothing.
    #[inline]
    pub(super) fn move_to<M: Memory>(&mut self, map: &'m OrderedMap<M>, word: SyncWord) {
        let Some((page, child)) = &mut self.parent else {
            return;
        };
        if *child + 1 == page.count() {
            self.parent = next_parent(map, page).map(|page| (page, 0));
        } else if page.child(*child + 1) == word.offset() {
            *child += 1;
        }
    }

    #[inline]
    fn node(&self, n: usize) -> Option<u64> {
        let (page, child) = self.parent.as_ref()?;
        (child + n < page.count()).then(|| page.child(child + n))
    }

    #[inline]
    fn expect_word<M: Memory>(&self, map: &OrderedMap<M>, n: usize) {
        if let Some(node) = self.node(n)
            && map.worker.is_in_committed(node)
        {
            map.worker.mem().prefetch(node);
        }
    }

    #[inline]
    fn expect_page<M: Memory>(&self, map: &OrderedMap<M>, n: usize) {
        if let Some(node) = self.node(n)
            && let Ok(word) = map.node(node)
        {
            map.expect_soon(word.load(map.worker.mem()) & !FROZEN);
        }
    }
}

/// The node behind a parent, if there is one on the same level.
#[cold]
fn next_parent<'m, M: Memory>(map: &'m OrderedMap<M>, page: &Page<'m>) -> Option<Page<'m>> {
    let word = map.node(page.next()).ok()?;
    let next = Page::open(&map.worker, word.load(map.worker.mem()) & !FROZEN).ok()?;
    (next.level() == page.level()).then_some(next)
}
