//! Replacing a node's page by a new one: the step that writes, splits, separators and merges have in common.

use super::OrderedMap;
use super::build;
use crate::error::Result;
use crate::memory::{Memory, OwnedWord, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::alloc::heap;
use crate::pod::commit::publish::{Change, publish_with_secondaries};
use crate::pod::format::record::operation;

/// A new page for a node, as it goes to `pod::commit::publish`.
pub(super) struct Replacement<'b> {
    /// The node's word.
    pub word: SyncWord,
    /// The page that it must refer to; 0 if there is none yet.
    pub current: u64,
    /// The new page.
    pub page: &'b [u8],
    /// What is retired with the old page (a record, another node's page, a node), or zeroes.
    pub old_secondaries: [u64; 2],
    /// The change of the number of keys.
    pub count: i64,
}

impl<M: Memory> OrderedMap<M> {
    /// Publishes a new page. Returns whether the node was unchanged.
    pub(super) fn replace_page(&self, replacement: &Replacement<'_>) -> Result<bool> {
        let worker = &*self.worker;
        let at = build::place(worker.mem(), replacement.page, |len| heap::allocate(worker, len))?;
        let change = Change {
            slot: replacement.word,
            current: replacement.current,
            next: at,
            operation: operation::PUT,
            old: replacement.current,
            count: (replacement.count != 0).then(|| self.counted(replacement.count)),
        };
        Ok(publish_with_secondaries(worker, &change, replacement.old_secondaries)?.is_made())
    }

    /// [`Self::replace_page`] for changes that make pages fewer or shorter: if no object of the page's size is
    /// available, the page takes a larger one, and is padded to its size.
    pub(super) fn replace_page_at_any_size(&self, replacement: &Replacement<'_>) -> Result<bool> {
        build::at_any_size(replacement.page, |page| {
            self.replace_page(&Replacement { page, ..*replacement })
        })
    }

    /// The counter after one more or one less.
    fn counted(&self, change: i64) -> (OwnedWord, u64) {
        let now = self.count.get(self.worker.mem());
        (self.count, now.wrapping_add_signed(change))
    }
}

/// An object that is retired with an old page.
pub(super) fn unless_kept(mutant: Mutant, object: u64) -> u64 {
    if mutant::is(mutant) { 0 } else { object }
}
