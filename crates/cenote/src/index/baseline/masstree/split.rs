//! Splits: of a node under its parent, of the root, and the second half of a split that a dead writer had begun.
//!
//! | store, in this order | what is seen after it |
//! |---|---|
//! | the new node, with the upper half of the pairs | nothing |
//! | the link of the old node that is not its own | nothing |
//! | the old node's word, with the other mark, still locked | the upper half's keys belong to the new node; the path there is the link |
//! | the old node's permutation | nothing: it loses the places that are not the node's |
//! | the old node's word, released | from here on the places of the upper half may be written |
//! | the parent: separator, child | nothing |
//! | the parent's permutation | the path to the new node leads through the parent |
//!
//! Each is in memory before the next. The old node and its parent are both locked until their part is done, by
//! exchanges of words as they were seen, so nobody waits for a lock while holding one. A root that is split gets its
//! parent afterwards, as in the second half of a split whose writer died.

use super::node::{self, Content, Node};
use super::{LEVELS_MAX, Masstree, ROOT};
use crate::error::{Error, Result};
use crate::index::baseline::version::Held;
use crate::memory::Memory;

impl<M: Memory, const WIDTH: u64> Masstree<M, WIDTH> {
    /// Splits a full node. The caller searches again.
    pub(super) fn split(&self, above: Option<Node>, node: Node) -> Result<()> {
        let upper = match above {
            None => None,
            Some(above) => match self.lock(&above)? {
                None => return Ok(()),
                Some(held) => Some((above, held)),
            },
        };
        let Some(mut held) = self.lock(&node)? else {
            return Ok(());
        };
        let mem = self.mem();
        let pairs: Vec<(u64, u64)> = node.pairs(mem).collect();
        let middle = pairs.len() / 2;
        let Some((&(separator, child), rest)) = pairs.get(middle..).and_then(<[_]>::split_first) else {
            return Ok(());
        };
        // In a border node the middle pair goes to the right; elsewhere its key goes up, and its child is the right
        // one's first.
        let (first, pairs) = match node.level() {
            0 => (0, &pairs[middle..]),
            _ => (child, rest),
        };
        let right = self.arena.take(node::BYTES)?;
        let content = Content {
            level: node.level(),
            first,
            link: node.link(),
            pairs,
        };
        content.write(mem, right);
        held.mark(node.store_link(mem, separator, right));
        node.shorten(mem, middle as u64)?;
        drop(held);
        match upper {
            None => Ok(()),
            Some((above, held)) => self.tell(held, above, separator, right),
        }
    }

    /// Frees the places of a full node that belong to the next node: the worker that split it died before that.
    pub(super) fn free_places(&self, node: Node, count: u64) -> Result<()> {
        match self.lock(&node)? {
            Some(_held) => node.shorten(self.mem(), count),
            None => Ok(()),
        }
    }

    /// Tells the parent of the node that a link leads to.
    pub(super) fn finish_split(&self, above: Option<Node>, node: Node, high: u64, next: u64) -> Result<()> {
        let Some(above) = above else {
            return self.raise_root(node, high, next);
        };
        let Some(held) = self.lock(&above)? else {
            return Ok(());
        };
        if !self.is_still(&node) {
            return Ok(());
        }
        let mem = self.mem();
        let n = above.up_to(mem, high);
        let is_new = n == 0 || above.key(mem, n - 1) < high;
        if !is_new || above.child(mem, n) != node.at {
            return Err(Error::corrupt("a separator of a tree's node", above.at));
        }
        self.tell(held, above, high, next)
    }

    /// Inserts a child into a parent that is locked and has room.
    fn tell(&self, _held: Held<'_, M>, above: Node, separator: u64, right: u64) -> Result<()> {
        let n = above.up_to(self.mem(), separator);
        // If there is no room after all, the path stays the link.
        above.insert(self.mem(), n, separator, right).map(|_| ())
    }

    /// Gives a root that was split a parent, which is the root from then on.
    fn raise_root(&self, node: Node, high: u64, next: u64) -> Result<()> {
        let (mem, root) = (self.mem(), self.arena.root(ROOT));
        // One at a time.
        let Some(_held) = self.lock(&node)? else {
            return Ok(());
        };
        if root.load(mem) != node.at {
            return Ok(());
        }
        let level = node.level() + 1;
        if level >= LEVELS_MAX {
            return Err(Error::corrupt("the level of a tree's root", node.at));
        }
        let at = self.arena.take(node::BYTES)?;
        let content = Content {
            level,
            first: node.at,
            link: None,
            pairs: &[(high, next)],
        };
        content.write(mem, at);
        root.store(mem, at);
        Ok(())
    }
}
