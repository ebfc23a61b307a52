//! Finding a border node.
//!
//! A node's first line is fetched, its keys are dropped from the cache and searched, and the node's word is loaded once
//! more: two round trips a level, one fence, one sync load of the child, and the lines that a binary search touches.
//! The child is read for itself: if it has been split since, its link leads on.
//!
//! A word of the arena refers to the root. A handle caches that word, and loads it again if the cached node has a link:
//! the root is the only node of its level.

use super::node::{self, Node};
use super::{LEVELS_MAX, Masstree, ROOT};
use crate::error::{Error, Result};
use crate::index::baseline::version::{self, Held};
use crate::memory::{LINE, Memory};

impl<M: Memory, const WIDTH: u64> Masstree<M, WIDTH> {
    /// Whether the node is as it was fetched, so that what was read of it counts.
    pub(super) fn is_still(&self, node: &Node) -> bool {
        version::is_still(self.worker(), node.guard(), node.word())
    }

    /// Locks a node as it was fetched; what was read of it then still holds. Waits if the lock is held.
    pub(super) fn lock(&self, node: &Node) -> Result<Option<Held<'_, M>>> {
        if version::is_locked(node.word()) {
            return version::read(self.worker(), node.guard()).map(|_| None);
        }
        Ok(version::lock(self.worker(), node.guard(), node.word()))
    }

    /// The node at an offset, which must be of this level, if one is given.
    pub(super) fn enter(&self, at: u64, level: Option<u64>) -> Result<Node> {
        if !at.is_multiple_of(LINE) || !self.arena.has(at, node::BYTES) {
            return Err(Error::corrupt("the offset of a tree's node", at));
        }
        let node = Node::fetch(self.mem(), at);
        match level.map_or(node.level() < LEVELS_MAX, |level| node.level() == level) {
            true => Ok(node),
            false => Err(Error::corrupt("the level of a tree's node", at)),
        }
    }

    /// The root, or a node of the root's level after a split.
    fn top(&self) -> Result<Node> {
        let known = self.root.get();
        let node = self.enter(known, None)?;
        if node.link().is_none() {
            return Ok(node);
        }
        let at = self.arena.root(ROOT).load(self.mem());
        if at == known {
            return Ok(node);
        }
        let node = self.enter(at, None)?;
        self.root.set(at);
        Ok(node)
    }

    /// The border node that a key belongs to. With `makes_room` it has a free place: full nodes on the path are split
    /// and splits are finished, one at a time, and each such step returns `None`. On `None`, search again.
    pub(super) fn leaf(&self, key: u64, makes_room: bool) -> Result<Option<Node>> {
        self.leaf_from(self.top()?, key, makes_room)
    }

    /// The same, from a node that is not right of the border node.
    pub(super) fn leaf_from(&self, mut node: Node, key: u64, makes_room: bool) -> Result<Option<Node>> {
        let mem = self.mem();
        let mut above = None;
        // Each step leads right or down, to nodes that were not visited.
        for _ in 0..self.arena.bytes() / node::BYTES {
            if makes_room && version::is_locked(node.word()) {
                return version::read(self.worker(), node.guard()).map(|_| None);
            }
            node.refresh(mem);
            let (next, level) = match node.link() {
                Some((high, next)) if key >= high => {
                    if makes_room {
                        self.finish_split(above, node, high, next)?;
                        return Ok(None);
                    }
                    (next, node.level())
                }
                _ if makes_room && node.uses(WIDTH) => {
                    match node.count(mem) {
                        count if count < WIDTH => self.free_places(node, count)?,
                        _ => self.split(above, node)?,
                    }
                    return Ok(None);
                }
                _ => {
                    let Some(level) = node.level().checked_sub(1) else {
                        return Ok(Some(node));
                    };
                    above = Some(node);
                    (node.child(mem, node.up_to(mem, key)), level)
                }
            };
            if !self.is_still(&node) {
                return Ok(None);
            }
            node = self.enter(next, Some(level))?;
        }
        Err(Error::corrupt("a tree without end, at a node", node.at))
    }

    /// The border node of a key, reached from the one before it if there is one; and its pairs from the key on.
    pub(super) fn pairs_from(
        &self,
        before: Option<Node>,
        key: u64,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<Option<Node>> {
        let leaf = match before.and_then(|before| before.link()) {
            Some((_, next)) => self.leaf_from(self.enter(next, Some(0))?, key, false)?,
            None => self.leaf(key, false)?,
        };
        let Some(leaf) = leaf else { return Ok(None) };
        pairs.clear();
        pairs.extend(leaf.pairs(self.mem()).filter(|&(found, _)| found >= key));
        Ok(self.is_still(&leaf).then_some(leaf))
    }
}
