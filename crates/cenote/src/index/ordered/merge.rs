//! Merges: a node that has few entries left is joined to the one before it.
//!
//! | step | word | by | a crash leaves |
//! |---|---|---|---|
//! | begin | the parent's: page to page that says which child is merged | the remover that made it thin | what follows, to the next writer |
//! | freeze | the child's: its page, frozen | the first worker there | the same |
//! | join | that of the node before it: page to page with both their entries | the same | the same |
//! | end | the parent's: page to page without the child | the same | nothing |
//!
//! The child is never its parent's first, and the parent is neither split nor merged meanwhile. Readers wait for
//! nothing. If the root is left with one child, the child takes its place ([`super::lower`]).

use super::build::{self, Fences, Inner, Leaf};
use super::find::Visit;
use super::grow::{LONG_BYTES, LONG_MIN};
use super::key::Target;
use super::page::{INNER_MAX, LEAF_MAX, LEVEL_MAX, Page};
use super::replacement::{Replacement, unless_kept};
use super::{FROZEN, OrderedMap, Unposted};
use crate::error::{Error, Result};
use crate::memory::{Memory, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::instance::crash::{Point, crash_point};

/// An inner node: its level, and a key that it is responsible for.
#[derive(Clone, Debug)]
pub(super) struct InnerNode {
    pub level: u8,
    pub key: Vec<u8>,
}

/// Whether to try to merge a leaf that has just lost a key and has so many left. Not true at every number: the
/// neighbours may be too full.
pub(super) fn is_thin(count: usize) -> bool {
    const QUARTER: usize = LEAF_MAX / 4;
    const EIGHTH: usize = LEAF_MAX / 8;
    matches!(count, 0 | EIGHTH | QUARTER)
}

/// Whether two neighbours may be joined: only if room is left, or the next insertion would split them again.
fn may_join(left: &Page<'_>, right: &Page<'_>) -> Result<bool> {
    let count = left.count() + right.count();
    Ok(match left.level() {
        0 => count <= LEAF_MAX * 3 / 4 || left.count() == 0 || right.count() == 0,
        // A node with a single child can be merged nowhere else: its neighbour may be nearly full.
        _ if left.count().min(right.count()) == 1 => count <= INNER_MAX && is_short(left, right)?,
        _ => count <= INNER_MAX * 3 / 4 && is_short(left, right)?,
    })
}

/// Whether two inner nodes, joined, would not count as full for their length. Their padding is not joined.
fn is_short(left: &Page<'_>, right: &Page<'_>) -> Result<bool> {
    Ok(left.count() + right.count() < LONG_MIN
        || left.built_len()? + right.built_len()? <= LONG_BYTES * 3 / 4)
}

/// The result of an attempt to begin a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// It has begun.
    Yes,
    /// There is nothing to merge.
    Nothing,
    /// The node has one child, which gets a neighbour once this node has been merged itself.
    OnlyChild,
}

/// What is left to do after a merge has ended, or after the root was replaced by its only child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Nothing.
    Enough,
    /// The parent is thin itself.
    Thin,
    /// The root has one child left.
    OnlyChild,
    /// The root is one level lower.
    Lowered,
}

/// The most merges, and attempts, that one emptied leaf may lead to.
const STEPS_MAX: u32 = 4 * LEVEL_MAX as u32;

/// The high fence of a page that gets the entries of the page behind it.
fn high_of_joined<'f>(before: &Fences<'f>, behind: &Fences<'f>) -> &'f [u8] {
    match mutant::is(Mutant::JoinWithoutNext) {
        true => before.high,
        false => behind.high,
    }
}

/// What is retired when a node gets the entries of the node behind it: that one's page. The node itself goes with its
/// parent's entry.
fn old_of_join(left: &Visit<'_>, right: &Page<'_>) -> u64 {
    match () {
        () if mutant::is(Mutant::JoinedPageKept) => 0,
        () if mutant::is(Mutant::JoinedNodeEarly) => left.page.next(),
        () => right.at,
    }
}

impl<M: Memory> OrderedMap<M> {
    /// After a leaf has become thin: merges it, and the nodes above it that become thin by that; a root with one child
    /// gives way to it. If the pool is full, that is left for another time.
    pub(super) fn merge_thin(&self, key: &[u8]) -> Result<()> {
        let mut level = 1;
        // The lowest level where a node had one child, and whether anything above has changed since.
        let (mut only_child, mut has_changed) = (None, false);
        for _ in 0..STEPS_MAX {
            let place = InnerNode {
                level,
                key: key.to_vec(),
            };
            let begun = match self.until_done_or_full(|| self.begin_merge(&place)) {
                Err(Error::Full { .. }) => break,
                begun => begun?,
            };
            let ended = match begun {
                Begun::Yes => match self.until_done_or_full(|| self.merge_step(&place)) {
                    Err(Error::Full { .. }) => break,
                    ended => Some(ended?),
                },
                Begun::OnlyChild => {
                    only_child.get_or_insert(level);
                    level += 1;
                    continue;
                }
                Begun::Nothing => None,
            };
            has_changed |= ended.is_some();
            level = match (ended, only_child.take()) {
                (Some(Ended::OnlyChild), below) => {
                    only_child = below;
                    level
                }
                (Some(Ended::Lowered), below) => {
                    only_child = below;
                    (level - 1).max(1)
                }
                (Some(Ended::Thin), below) => {
                    only_child = below;
                    level + 1
                }
                (Some(Ended::Enough) | None, Some(below)) if has_changed => below,
                _ => break,
            };
            has_changed &= only_child.is_some();
            if level > LEVEL_MAX {
                break;
            }
        }
        self.post_all()
    }

    /// Says in a page that one of its children is merged: the child that holds the key into the one before it, or the
    /// one behind it into that child.
    fn begin_merge(&self, place: &InnerNode) -> Result<Option<Begun>> {
        let target = Target::at(&place.key);
        let Some(visit) = self.descend(target, place.level)? else {
            return Ok(Some(Begun::Nothing));
        };
        if !self.may_change(&visit, &place.key) {
            return Ok(None);
        }
        let page = &visit.page;
        if page.count() < 2 {
            return match visit.word == self.root() {
                true => self.begin_lowering(&visit),
                false => Ok(Some(Begun::OnlyChild)),
            };
        }
        let at = page.child_for(self.worker.mem(), target)?;
        for child in [at, at + 1] {
            if child == 0 || child >= page.count() {
                continue;
            }
            let (Some(left), Some(right)) = (self.child(page, child - 1)?, self.child(page, child)?) else {
                continue;
            };
            if may_join(&left, &right)? {
                return self.begin_merge_of(&visit, child);
            }
        }
        Ok(Some(Begun::Nothing))
    }

    fn begin_merge_of(&self, visit: &Visit<'_>, child: usize) -> Result<Option<Begun>> {
        let page = &visit.page;
        let mut inner = Inner::part(page, 0, page.count())?;
        inner.merge(child);
        let has_begun = self.replace_page_at_any_size(&Replacement {
            word: visit.word,
            current: page.at,
            page: &inner.finish(page.level(), &Fences::of(page)?)?,
            old_secondaries: [0; 2],
            count: 0,
        })?;
        if has_begun {
            crash_point(Point::MergeBegun);
        }
        Ok(has_begun.then_some(Begun::Yes))
    }

    /// The page of a child, unless the child is being merged.
    pub(super) fn child(&self, page: &Page<'_>, child: usize) -> Result<Option<Page<'_>>> {
        let at = self.node(page.child(child))?.load(self.worker.mem());
        match at & FROZEN {
            0 => self.page_of(at, page.level() - 1).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) fn page_of(&self, at: u64, level: u8) -> Result<Page<'_>> {
        let page = Page::open(&self.worker, at)?;
        match page.level() == level {
            true => Ok(page),
            false => Err(Error::corrupt("the level of a page", at)),
        }
    }

    /// Finishes the merge that is under way below a node, or the root's replacement, if there is one. Waits for room as
    /// the caller does.
    pub(super) fn finish_merge(
        &self,
        place: &InnerNode,
        make_room_after: &mut dyn FnMut(Error) -> Result<()>,
    ) -> Result<Ended> {
        self.until_done_with(|| self.merge_step(place), make_room_after)
    }

    /// The next step of a merge: `None` if there may be another.
    fn merge_step(&self, place: &InnerNode) -> Result<Option<Ended>> {
        let Some(parent) = self.descend(Target::at(&place.key), place.level)? else {
            return Ok(Some(Ended::Enough));
        };
        if parent.anchor.is_some() {
            self.may_change(&parent, &place.key);
            return Ok(None);
        }
        let page = &parent.page;
        if page.meta.is_lowering() {
            return self.lowering_step(&parent);
        }
        let Some(child) = page.meta.merging() else {
            return Ok(Some(self.after_merge(&parent, page.count())));
        };
        let node = self.node(page.child(child))?;
        let (head, separator) = page.separator(child)?;
        let end = Target::Before(separator.bytes(), head);
        // The child before it, or a node behind that child, which the parent does not know. None of them is merged now.
        let left = match self.move_right_below(page, child - 1, end)? {
            Some(left) if left.anchor.is_none() => left,
            _ if parent.word.load(self.worker.mem()) == page.at => {
                return Err(Error::corrupt("a merge in an ordered map", page.at));
            }
            _ => return Ok(None),
        };
        if left.page.next() != node.offset() {
            return self.end_merge(&parent, child, node);
        }
        // The child was not joined when the node before it was read, so its page is still there.
        let seen = node.load(self.worker.mem());
        let right = self.page_of(seen & !FROZEN, page.level() - 1)?;
        let busy = [&right, &left.page]
            .into_iter()
            .find(|page| page.meta.is_changing());
        if let Some(busy) = busy {
            self.merging.replace(Some(InnerNode {
                level: busy.level(),
                key: busy.fences()?.0.to_vec(),
            }));
        } else if seen & FROZEN == 0 && !mutant::is(Mutant::JoinedUnfrozen) {
            // NO PAIR: claim
            let frozen = node.compare_exchange_acquire(self.worker.mem(), seen, seen | FROZEN);
            if frozen.is_ok() {
                crash_point(Point::MergeFrozen);
            }
        } else if self.join(&left, &right)? {
            crash_point(Point::MergeJoined);
        }
        Ok(None)
    }

    /// Gives a frozen node's entries to the node before it. If that has no room, as it has got more entries since, they
    /// go to a new node in the frozen one's place.
    fn join(&self, left: &Visit<'_>, right: &Page<'_>) -> Result<bool> {
        let page = &left.page;
        let (fences, behind) = (Fences::of(page)?, Fences::of(right)?);
        let joined = Fences {
            next: behind.next,
            high: high_of_joined(&fences, &behind),
            ..fences
        };
        let has_room = match page.level() {
            0 => page.count() + right.count() <= LEAF_MAX,
            _ => page.count() + right.count() <= INNER_MAX && is_short(page, right)?,
        };
        if has_room {
            let bytes = match page.level() {
                0 => {
                    let mut leaf = Leaf::part(page, 0, page.count());
                    leaf.append(right);
                    leaf.finish(&joined)?
                }
                level => {
                    let mut inner = Inner::part(page, 0, page.count())?;
                    inner.append(right)?;
                    inner.finish(level, &joined)?
                }
            };
            return self.replace_two(left, right, &bytes);
        }
        let node = self.new_node_at_any_size(&build::copy(right, &behind)?)?;
        let fences = Fences {
            next: node.offset(),
            ..fences
        };
        let is_joined = self.replace_two(left, right, &build::copy(page, &fences)?)?;
        if is_joined {
            self.note_own(Unposted {
                level: page.level() + 1,
                separator: behind.low.to_vec(),
                was_at: node.offset(),
            });
        }
        Ok(is_joined)
    }

    /// Publishes a new page for a node, which replaces its page and that of the node behind it.
    fn replace_two(&self, left: &Visit<'_>, right: &Page<'_>, bytes: &[u8]) -> Result<bool> {
        self.replace_page_at_any_size(&Replacement {
            word: left.word,
            current: left.page.at,
            page: bytes,
            old_secondaries: [old_of_join(left, right), 0],
            count: 0,
        })
    }

    /// What is left to do if a parent has so many children after a merge.
    fn after_merge(&self, parent: &Visit<'_>, count: usize) -> Ended {
        match parent.word == self.root() {
            true if count == 1 => Ended::OnlyChild,
            false if count <= INNER_MAX / 4 => Ended::Thin,
            _ => Ended::Enough,
        }
    }

    /// Removes a child that was joined from its parent, and retires it.
    fn end_merge(&self, parent: &Visit<'_>, child: usize, node: SyncWord) -> Result<Option<Ended>> {
        let page = &parent.page;
        let mut inner = Inner::part(page, 0, page.count())?;
        inner.remove(child);
        let has_ended = self.replace_page_at_any_size(&Replacement {
            word: parent.word,
            current: page.at,
            page: &inner.finish(page.level(), &Fences::of(page)?)?,
            old_secondaries: [unless_kept(Mutant::JoinedNodeKept, node.offset()), 0],
            count: 0,
        })?;
        Ok(has_ended.then(|| self.after_merge(parent, page.count() - 1)))
    }
}
