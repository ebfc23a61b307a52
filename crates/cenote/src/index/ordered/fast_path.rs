//! The fast path down to a leaf, on coherent memory.
//!
//! The slow path ([`find`](super::find)) is prepared for everything. The fast path goes where nearly all searches go:
//! the heads of separators decide, no child on the path is being merged, and each parent knows the nodes that its
//! children were split into. It reads and checks only what it needs of each page: the first word, the heads of the
//! lines of heads, one of those lines, one child. Whatever else it finds, also damage, it leaves to the slow path,
//! which starts again from the root and reports what is wrong. It relies on nothing that the slow path does not rely
//! on, and writes nothing.

use std::hint::select_unpredictable;

use super::find::Descent;
use super::page::{HEADS_AT, INNER_MAX, LINE_WORDS, Meta, stride};
use super::{FROZEN, OrderedMap};
use crate::memory::checked::{published, sync_word};
use crate::memory::{LINE, Memory, SyncWord};

/// Bytes of the heads of the lines of heads, with the page's first words.
const FIRST: usize = HEADS_AT;
/// Bytes up to the end of the children in the fullest page.
const UP_TO_CHILDREN: u64 = (HEADS_AT + 16 * INNER_MAX) as u64;
/// The longest separator that fits into its head.
const HEAD_BYTES: u64 = 8;

/// Where the fast path leads.
#[derive(Clone, Copy)]
pub(super) struct FastPath {
    /// The leaf's node, and its page.
    pub node: SyncWord,
    pub at: u64,
    /// The page that led there, and which of its children this is.
    pub parent: (u64, usize),
}

impl From<FastPath> for Descent {
    fn from(way: FastPath) -> Self {
        Self {
            word: way.node,
            at: way.at,
            anchor: None,
            above: None,
            parent: Some(way.parent),
        }
    }
}

/// A word of a line or two.
#[inline(always)]
pub(super) fn word<const BYTES: usize>(bytes: &[u8; BYTES], n: usize) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    u64::from_le_bytes(words[n])
}

/// How many of the ascending words of a line or two, from word `from` on, are not above a number. All are compared, so
/// that no branch has to be guessed. The comparisons are chains of selections, as compilers make slow code of a sum of
/// comparisons; the chains are short, so that the processor executes them side by side.
#[inline(always)]
pub(super) fn up_to<const BYTES: usize>(bytes: &[u8; BYTES], from: usize, own: u64) -> usize {
    let (words, _) = bytes.as_chunks::<8>();
    let mut count = 0;
    for part in words[from..].chunks(CHAIN) {
        let mut of_part = 0;
        for (n, word) in part.iter().enumerate() {
            of_part = select_unpredictable(u64::from_le_bytes(*word) <= own, n + 1, of_part);
        }
        count += of_part;
    }
    count
}

/// Selections in a chain, each of which waits for the one before.
const CHAIN: usize = 4;

impl<M: Memory> OrderedMap<M> {
    /// A fixed number of bytes from the start of a line on, if they are committed.
    #[inline(always)]
    pub(super) fn lines_at<const BYTES: usize>(&self, at: u64) -> Option<&[u8; BYTES]> {
        let is_there = at & (LINE - 1) == 0 && self.worker.is_committed(at, BYTES as u64);
        is_there.then(|| {
            published(at, BYTES as u64)
                .bytes(self.worker.mem())
                .try_into()
                .ok()
        })?
    }

    /// The leaf below which the key of a head belongs, unopened, if the fast path leads there. `is_head` says that the
    /// key is its head.
    #[inline(always)]
    pub(super) fn descend_by_fast_path(&self, head: u64, is_head: bool) -> Option<Descent> {
        self.fast_path_to(head, is_head).map(Descent::from)
    }

    /// [`descend_by_fast_path`](Self::descend_by_fast_path) for callers that need no more.
    #[inline(always)]
    pub(super) fn fast_path_to(&self, head: u64, is_head: bool) -> Option<FastPath> {
        let (worker, mem) = (&*self.worker, self.worker.mem());
        let mut at = self.root().load(mem);
        let mut expected = None;
        loop {
            let first: &[u8; FIRST] = self.lines_at(at)?;
            let meta = Meta(word(first, 0));
            let (count, level) = (meta.count(), meta.level());
            let is_as_expected = expected.is_none_or(|expected| expected == level);
            if level == 0 || count > INNER_MAX || !is_as_expected || !worker.is_committed(at, UP_TO_CHILDREN)
            {
                return None;
            }
            let line = up_to(first, 2, head);
            if LINE_WORDS * line >= count {
                return None;
            }
            let heads_at = at + (FIRST + 64 * line) as u64;
            let children_at = heads_at + 8 * stride(count) as u64;
            mem.prefetch(children_at);
            let heads: &[u8; LINE as usize] = self.lines_at(heads_at)?;
            let in_line = up_to(heads, 0, head).checked_sub(1)?;
            let child = LINE_WORDS * line + in_line;
            // Only behind the last child there may be a node that the page does not know.
            if child + 1 >= count && (child >= count || word(first, 1) != 0) {
                return None;
            }
            if child > 0 && word(heads, in_line) == head {
                let separator_at = children_at + 8 * (stride(count) + in_line) as u64;
                let is_short = is_head
                    && worker.is_committed(separator_at, 8)
                    && published(separator_at, 8).read_word(mem) >> 32 <= HEAD_BYTES;
                if !is_short {
                    return None;
                }
            }
            let children: &[u8; LINE as usize] = self.lines_at(children_at)?;
            let node = word(children, in_line);
            if node & 15 != 0 || !worker.is_committed(node, 16) {
                return None;
            }
            let node = sync_word(node);
            let parent = (at, child);
            // PAIRS WITH: pod::commit::publish::exchange
            at = node.load(mem);
            if level == 1 {
                let is_frozen = at & FROZEN != 0;
                return (!is_frozen).then_some(FastPath { node, at, parent });
            }
            expected = Some(level - 1);
        }
    }
}
