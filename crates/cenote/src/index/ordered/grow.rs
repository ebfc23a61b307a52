//! Splits, separators, and higher roots. Each is one new page of one node, and leaves a consistent tree.
//!
//! | step | word | by | a crash leaves |
//! |---|---|---|---|
//! | split | the node's: page to lower part, which refers to a new node | its writer, if it is full | a node that its parent does not know |
//! | post | the parent's: page to page with one separator more | the same, or any writer that came by the new node | nothing |
//! | raise | the root's: page to page with one child, which has what the root had | its writer, if it is full | nothing |

use super::build::{self, Fences, Inner, Leaf};
use super::find::Visit;
use super::key::{Target, separator};
use super::page::{INNER_MAX, LEVEL_MAX, Page};
use super::replacement::Replacement;
use super::{OrderedMap, Unposted};
use crate::error::{Error, Result};
use crate::memory::checked::sync_word;
use crate::memory::{Memory, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::{alloc::heap, format::class};

/// A page of this many bytes counts as full if it has [`LONG_MIN`] entries: its separators are long.
pub(super) const LONG_BYTES: usize = 16 << 10;
/// See [`LONG_BYTES`].
pub(super) const LONG_MIN: usize = 4;

/// The most posts that one write makes before it splits nodes: others may merge and split the nodes that it reads.
const POSTS_MAX: u32 = 64;

/// Bytes of a node: the word that refers to its page, and padding.
const NODE_BYTES: u64 = 16;

/// The high fence of a split page's lower part.
fn high_of_lower<'f>(whole: &Fences<'f>, separator: &'f [u8]) -> &'f [u8] {
    match mutant::is(Mutant::SplitWithoutFence) {
        true => whole.high,
        false => separator,
    }
}

impl<M: Memory> OrderedMap<M> {
    /// Splits a full node, or makes a higher root if the node is the root. The caller searches again in any case.
    pub(super) fn split(&self, visit: &Visit<'_>, key: &[u8]) -> Result<()> {
        if visit.word == self.root() {
            return self.raise(visit);
        }
        let page = &visit.page;
        let (fences, count) = (Fences::of(page)?, page.count());
        let (middle, separator) = self.where_to_split(visit, key)?;
        let right_fences = Fences {
            low: &separator,
            ..fences
        };
        let right = match page.level() {
            0 => Leaf::part(page, middle, count).finish(&right_fences)?,
            level => Inner::part(page, middle, count)?.finish(level, &right_fences)?,
        };
        let node = self.new_node(&right)?;
        let left_fences = Fences {
            next: node.offset(),
            high: high_of_lower(&fences, &separator),
            ..fences
        };
        let left = match page.level() {
            0 => Leaf::part(page, 0, middle).finish(&left_fences)?,
            level => Inner::part(page, 0, middle)?.finish(level, &left_fences)?,
        };
        let replacement = Replacement {
            word: visit.word,
            current: page.at,
            page: &left,
            old_secondaries: [0; 2],
            count: 0,
        };
        if self.replace_page(&replacement)? {
            crash_point(Point::OrderedSplit);
            self.note_own(Unposted {
                level: page.level() + 1,
                separator,
                was_at: node.offset(),
            });
        }
        Ok(())
    }

    /// The first entry that goes to the new node, and its low fence. Keys that come in ascending order leave full
    /// leaves.
    fn where_to_split(&self, visit: &Visit<'_>, key: &[u8]) -> Result<(usize, Vec<u8>)> {
        let (worker, page) = (&*self.worker, &visit.page);
        let count = page.count();
        if page.level() != 0 {
            let middle = count / 2;
            return Ok((middle, page.separator(middle)?.1.bytes().to_vec()));
        }
        let key_of = |n: usize| page.key_alone(worker, n);
        let last = key_of(count - 1)?;
        if page.next() == 0 && key > &last[..] {
            return Ok((count, separator(&last, key).to_vec()));
        }
        let middle = count / 2;
        Ok((middle, separator(&key_of(middle - 1)?, &key_of(middle)?).to_vec()))
    }

    /// A node with a page, both secondary objects of the operation.
    pub(super) fn new_node(&self, page: &[u8]) -> Result<SyncWord> {
        let worker = &*self.worker;
        let at = build::place(worker.mem(), page, |len| heap::allocate_secondary(worker, 0, len))?;
        let node = sync_word(heap::allocate_secondary(worker, 1, NODE_BYTES)?);
        // NO PAIR: unshared
        node.store(worker.mem(), at);
        Ok(node)
    }

    /// [`Self::new_node`] for changes that make pages fewer: both objects may be larger than needed.
    pub(super) fn new_node_at_any_size(&self, page: &[u8]) -> Result<SyncWord> {
        let worker = &*self.worker;
        let at = build::at_any_size(page, |page| {
            build::place(worker.mem(), page, |len| heap::allocate_secondary(worker, 0, len))
        })?;
        let node = class::at_any_size(NODE_BYTES, |len| heap::allocate_secondary(worker, 1, len))?;
        let node = sync_word(node);
        // NO PAIR: unshared
        node.store(worker.mem(), at);
        Ok(node)
    }

    /// Makes a higher root: its one child is a new node with what the root had.
    fn raise(&self, root: &Visit<'_>) -> Result<()> {
        let page = &root.page;
        let fences = Fences::of(page)?;
        if page.level() >= LEVEL_MAX {
            return Err(Error::corrupt("the level of a page", page.at));
        }
        let node = self.new_node_like(page, &fences)?;
        let replacement = Replacement {
            word: root.word,
            current: page.at,
            page: &Inner::over(node.offset()).finish(page.level() + 1, &fences)?,
            old_secondaries: [0; 2],
            count: 0,
        };
        self.replace_page(&replacement)?;
        Ok(())
    }

    /// A node with a copy of a page.
    fn new_node_like(&self, page: &Page<'_>, fences: &Fences<'_>) -> Result<SyncWord> {
        let node = self.new_node(&build::copy(page, fences)?)?;
        mutant::also(Mutant::PageOfRootKept, || node.store(self.worker.mem(), page.at));
        Ok(node)
    }

    /// Posts the nodes that this handle has noted to their parents. If the pool is full, the next writer that comes by
    /// posts a node, or a writer does so before it splits a node beside it.
    pub(super) fn post_all(&self) -> Result<()> {
        loop {
            let Some(unposted) = self.unposted.borrow_mut().pop() else {
                return Ok(());
            };
            match self.until_done_or_full(|| self.post(&unposted)) {
                Ok(()) => {}
                Err(Error::Full { .. }) => {
                    self.unposted.borrow_mut().clear();
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether a full node may be split now: not while its parent does not know it, or the node behind it. Else in a
    /// pool with room for leaves, and none for their parents' pages, the tree would become a list. If not, this attempt
    /// has posted the node, or has come a step nearer to that.
    pub(super) fn may_split(&self, visit: &Visit<'_>, key: &[u8]) -> Result<bool> {
        if self.posts.get() < POSTS_MAX
            && let Some(unposted) = self.unknown_at(visit, key)?
        {
            if self.post(&unposted)?.is_some() {
                self.posts.set(self.posts.get() + 1);
            }
            return Ok(false);
        }
        Ok(true)
    }

    /// A node that its parent does not know: the one that was found to hold a key, or the one behind it.
    fn unknown_at(&self, visit: &Visit<'_>, key: &[u8]) -> Result<Option<Unposted>> {
        let (page, target) = (&visit.page, Target::at(key));
        if visit.word == self.root() {
            return Ok(None);
        }
        let Some(parent) = self.descend(target, page.level() + 1)? else {
            return Ok(None);
        };
        let parent = &parent.page;
        let child = parent.child_for(self.worker.mem(), target)?;
        let (own, of_parent) = (page.fences()?, parent.fences()?);
        let is_known = match child {
            0 => own.0 == of_parent.0,
            _ => own.0 == parent.separator(child)?.1.bytes(),
        };
        let is_next_known = match child + 1 == parent.count() {
            true => own.1 == of_parent.1,
            false => own.1 == parent.separator(child + 1)?.1.bytes(),
        };
        let separator = match (is_known, is_next_known) {
            (false, _) => own.0,
            (true, false) => own.1,
            (true, true) => return Ok(None),
        };
        Ok(Some(Unposted {
            level: page.level() + 1,
            separator: separator.to_vec(),
            was_at: 0,
        }))
    }

    /// One attempt to post the node that a note is about, if there is one: the node of the level below that has
    /// the separator as its low fence. It is searched now, under this pin, and not taken from the note.
    fn post(&self, unposted: &Unposted) -> Result<Option<()>> {
        let separator = &unposted.separator[..];
        let target = Target::at(separator);
        let Some(visit) = self.descend(target, unposted.level)? else {
            return self.forget_above_root();
        };
        if !self.may_change(&visit, separator) {
            return Ok(None);
        }
        let page = &visit.page;
        let child = page.child_for(self.worker.mem(), target)?;
        if child > 0 && page.separator(child)?.1.bytes() == separator {
            return Ok(Some(()));
        }
        let found = match self.move_right_below(page, child, target)? {
            Some(found) => found,
            // A child that is being merged is named by its parent's page, or no longer in it.
            None if visit.word.load(self.worker.mem()) == page.at => {
                return Err(Error::corrupt("a node that is merged and has a parent", page.at));
            }
            None => return Ok(None),
        };
        let is_known = found.word.offset() == page.child(child);
        if is_known || !unposted.is_about(&found)? {
            return Ok(Some(()));
        }
        let is_long = page.count() >= LONG_MIN && page.built_len()? >= LONG_BYTES;
        if page.count() == INNER_MAX || is_long {
            if self.may_split(&visit, separator)? {
                self.split(&visit, separator)?;
            }
            return Ok(None);
        }
        let mut inner = Inner::part(page, 0, page.count())?;
        inner.insert(child + 1, separator, found.word.offset());
        let replacement = Replacement {
            word: visit.word,
            current: page.at,
            page: &inner.finish(page.level(), &Fences::of(page)?)?,
            old_secondaries: [0; 2],
            count: 0,
        };
        Ok(self.replace_page(&replacement)?.then_some(()))
    }
}

impl<M: Memory> OrderedMap<M> {
    /// The level of the parent is gone, and its nodes with it.
    fn forget_above_root(&self) -> Result<Option<()>> {
        let at = self.root().load(self.worker.mem());
        match Page::open(&self.worker, at)?.next() {
            0 => Ok(Some(())),
            _ => Err(Error::corrupt("a root with a node behind it", self.header)),
        }
    }
}

impl Unposted {
    /// Whether it is about the node that was found.
    fn is_about(&self, found: &Visit<'_>) -> Result<bool> {
        match () {
            () if mutant::is(Mutant::PostUnchecked) => Ok(true),
            () if mutant::is(Mutant::NoteByOffset) => Ok(found.word.offset() == self.was_at),
            () => Ok(found.page.fences()?.0 == self.separator),
        }
    }
}
