//! Lowering the root: its only child takes its place.
//!
//! | step | word | by | a crash leaves |
//! |---|---|---|---|
//! | begin | the root's: page to page that says so | the merger of the last but one child | what follows, to the next writer |
//! | freeze | the child's: its page, frozen, if no node is behind it | the first worker there | the same |
//! | end | the root's: page to a copy of the child's page | the same | nothing |
//!
//! If the child was split after the first step, the lowering is called off, and the new node is posted. Once the child
//! is frozen it stays alone on its level: so the root, with a copy of the child's page, has all of that level.
//!
//! The root gets a copy: if it got the page itself, several helpers could all take the root's new word for their own
//! success.

use super::OrderedMap;
use super::build::{self, Fences, Inner};
use super::find::Visit;
use super::grow::LONG_BYTES;
use super::merge::{Begun, Ended, InnerNode};
use super::page::{INNER_MAX, LEAF_MAX, Page};
use super::replacement::{Replacement, unless_kept};
use crate::error::Result;
use crate::index::ordered::FROZEN;
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::instance::crash::{Point, crash_point};

/// Whether the only child of a root is alone on its level, and has room left: a root that was just raised has one child
/// too, which is about to be split.
fn may_replace_root(child: &Page<'_>) -> Result<bool> {
    let is_alone = child.next() == 0 || mutant::is(Mutant::LoweredWithNext);
    Ok(is_alone
        && match child.level() {
            0 => child.count() <= LEAF_MAX * 3 / 4,
            _ => child.count() <= INNER_MAX * 3 / 4 && child.built_len()? <= LONG_BYTES * 3 / 4,
        })
}

impl<M: Memory> OrderedMap<M> {
    /// Says in the root's page that its only child is to take its place.
    pub(super) fn begin_lowering(&self, root: &Visit<'_>) -> Result<Option<Begun>> {
        let page = &root.page;
        match self.child(page, 0)? {
            Some(child) if may_replace_root(&child)? => {}
            _ => return Ok(Some(Begun::Nothing)),
        }
        let mut inner = Inner::part(page, 0, 1)?;
        inner.lower();
        let has_begun = self.replace_root(root, &inner)?;
        if has_begun {
            crash_point(Point::LowerBegun);
        }
        Ok(has_begun.then_some(Begun::Yes))
    }

    /// The next step of a lowering; `None` if there may be another.
    pub(super) fn lowering_step(&self, root: &Visit<'_>) -> Result<Option<Ended>> {
        let (worker, page) = (&*self.worker, &root.page);
        let node = self.node(page.child(0))?;
        let seen = node.load(worker.mem());
        let child = self.page_of(seen & !FROZEN, page.level() - 1)?;
        if seen & FROZEN == 0 {
            if child.meta.is_changing() {
                self.merging.replace(Some(InnerNode {
                    level: child.level(),
                    key: Vec::new(),
                }));
                return Ok(None);
            }
            if child.next() != 0 && !mutant::is(Mutant::LoweredWithNext) {
                let is_called_off = self.replace_root(root, &Inner::part(page, 0, 1)?)?;
                return Ok(is_called_off.then_some(Ended::Enough));
            }
            if !mutant::is(Mutant::LoweredUnfrozen) {
                // NO PAIR: claim
                if node
                    .compare_exchange_acquire(worker.mem(), seen, seen | FROZEN)
                    .is_ok()
                {
                    crash_point(Point::LowerFrozen);
                }
                return Ok(None);
            }
        }
        let is_done = self.replace_page_at_any_size(&Replacement {
            word: root.word,
            current: page.at,
            page: &build::copy(&child, &Fences::of(&child)?)?,
            old_secondaries: [
                unless_kept(Mutant::LoweredPageKept, child.at),
                unless_kept(Mutant::LoweredNodeKept, node.offset()),
            ],
            count: 0,
        })?;
        Ok(is_done.then_some(Ended::Lowered))
    }

    fn replace_root(&self, root: &Visit<'_>, inner: &Inner) -> Result<bool> {
        let page = &root.page;
        self.replace_page_at_any_size(&Replacement {
            word: root.word,
            current: page.at,
            page: &inner.finish(page.level(), &Fences::of(page)?)?,
            old_secondaries: [0; 2],
            count: 0,
        })
    }
}
