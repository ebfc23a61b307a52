//! Splits: of a node under its parent, of the root, and the second half of a split that a dead writer had begun.
//!
//! The stores that others see, in order: the new node; the old node, with the link to it; the parent. After the second
//! the tree is correct without the third.

use super::node::{Head, Image, Node};
use super::{BTree, LEVELS_MAX, Seen};
use crate::error::{Error, Result};
use crate::index::baseline::version::{self, Held};
use crate::memory::Memory;

impl<M: Memory, const LINES: u64> BTree<M, LINES> {
    /// Splits a full node. The caller searches again.
    pub(super) fn split(&self, above: Option<Seen<LINES>>, seen: Seen<LINES>) -> Result<()> {
        let Some(above) = above else {
            return self.raise_root(seen);
        };
        let (Some(upper), Some(lower)) = (self.lock(above), self.lock(seen)) else {
            return Ok(());
        };
        let (middle, separator, right) = self.right_half(seen)?;
        let (other, mark) = seen.node.other();
        self.left_half(seen, other, middle, separator, right);
        lower.release(mark);
        self.link(upper, above, separator, right);
        Ok(())
    }

    /// Tells the parent of the next node, which it does not know because a writer died.
    pub(super) fn finish_split(&self, above: Option<Seen<LINES>>, seen: Seen<LINES>) -> Result<()> {
        let (separator, right) = (seen.head.high, seen.head.next);
        let Some(above) = above else {
            return self
                .doubt(seen.node, "a root with a neighbour, seen")
                .map(|_: Option<()>| ());
        };
        let Some(upper) = self.lock(above) else {
            return Ok(());
        };
        if !version::is_still(self.worker(), seen.node.guard(), seen.node.word) {
            return Ok(());
        }
        let (image, count) = (above.node.image(), above.head.count);
        let place = image.up_to(self.mem(), count, separator);
        let is_new = place == 0 || image.key(self.mem(), place - 1) < separator;
        if !is_new || image.child(self.mem(), above.head, place) != seen.node.at {
            return Err(Error::corrupt("a separator of a tree's node", above.node.at));
        }
        self.link(upper, above, separator, right);
        Ok(())
    }

    /// Inserts a child into a parent that is locked and has room.
    fn link(&self, upper: Held<'_, M>, above: Seen<LINES>, separator: u64, right: u64) {
        let (mem, head, image) = (self.mem(), above.head, above.node.image());
        let (other, mark) = above.node.other();
        let place = image.up_to(mem, head.count, separator);
        image.copy(mem, 0..place, other, 0);
        other.set(mem, place, separator, right);
        image.copy(mem, place..head.count, other, place + 1);
        let count = head.count + 1;
        other.finish(mem, Head { count, ..head });
        upper.release(mark);
    }

    /// Splits the root's pairs into two new nodes, and makes the root their parent.
    fn raise_root(&self, seen: Seen<LINES>) -> Result<()> {
        if seen.head.level + 1 >= LEVELS_MAX {
            return self
                .doubt(seen.node, "the level of a tree's root")
                .map(|_: Option<()>| ());
        }
        let Some(held) = self.lock(seen) else {
            return Ok(());
        };
        let left = self.arena.take(Self::NODE_BYTES)?;
        let (middle, separator, right) = self.right_half(seen)?;
        Node::initialise(left, self.mem(), |image| {
            self.left_half(seen, image, middle, separator, right)
        });
        let (other, mark) = seen.node.other();
        other.set(self.mem(), 0, separator, right);
        let head = Head {
            level: seen.head.level + 1,
            count: 1,
            first: left,
            ..seen.head
        };
        other.finish(self.mem(), head);
        held.release(mark);
        Ok(())
    }

    /// Makes a node of the upper half of a locked node's pairs. Returns how many pairs stay, the new node's least key,
    /// and its offset.
    fn right_half(&self, seen: Seen<LINES>) -> Result<(u64, u64, u64)> {
        let (mem, head, image) = (self.mem(), seen.head, seen.node.image());
        let middle = head.count / 2;
        let separator = image.key(mem, middle);
        // In a leaf the middle pair goes to the right; elsewhere its key goes up, and its child is the right one's
        // first.
        let (first, from) = match head.level {
            0 => (0, middle),
            _ => (image.value(mem, middle), middle + 1),
        };
        let right = self.arena.take(Self::NODE_BYTES)?;
        Node::initialise(right, mem, |into| {
            image.copy(mem, from..head.count, into, 0);
            let count = head.count - from;
            into.finish(mem, Head { count, first, ..head });
        });
        Ok((middle, separator, right))
    }

    /// Writes the lower half of a locked node's pairs, and the link to the upper half.
    fn left_half(&self, seen: Seen<LINES>, into: Image<LINES>, middle: u64, separator: u64, right: u64) {
        seen.node.image().copy(self.mem(), 0..middle, into, 0);
        let head = Head {
            count: middle,
            next: right,
            high: separator,
            ..seen.head
        };
        into.finish(self.mem(), head);
    }
}
