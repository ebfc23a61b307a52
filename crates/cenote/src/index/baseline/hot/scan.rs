//! Scans: from the place where the first key is, or would be, rightwards.
//!
//! The references of a node are fetched when the scan comes to it. Keys that were there all the time are found, as the
//! references in a node that is replaced stay.

use super::node::{Leaf, Node};
use super::{Below, Hot, Shape, bits};
use crate::error::{Error, Result};
use crate::memory::checked::sync_word;
use crate::memory::{Memory, SyncWord};

/// The callback of a scan, and how far it has come.
struct Visitor<F> {
    /// The last key that was passed.
    passed: Option<u64>,
    each: F,
}

impl<M: Memory, const ENTRIES: usize> Hot<M, ENTRIES> {
    pub(super) fn scan(&self, from: u64, each: impl FnMut(u64, u64) -> bool) -> Result<()> {
        let (path, Some(leaf)) = self.path(from)? else {
            return Ok(());
        };
        let passed = from.checked_sub(1);
        let mut visitor = Visitor { passed, each };
        // The step where the first key belongs, and the entry there.
        let (mut n, mut place) = match bits::highest(leaf.key ^ from) {
            0 => (path.len() - 1, path[path.len() - 1].place),
            bit => {
                let (n, others) = self.parts_at(&path, bit);
                let is_behind = from & bit != 0;
                (n, if is_behind { others.end } else { others.start })
            }
        };
        loop {
            let step = &path[n];
            let goes_on = match step.node {
                Some(node) => self.walk_from(node, place, &mut visitor)?,
                None if place == 0 => self.walk(step.below, step.slot, None, &mut visitor)?,
                None => true,
            };
            if !goes_on || n == 0 {
                return Ok(());
            }
            n -= 1;
            place = path[n].place + 1;
        }
    }

    /// Visits what is below a node, from an entry on. Returns whether to go on.
    fn walk_from(
        &self,
        node: Node,
        place: usize,
        visitor: &mut Visitor<impl FnMut(u64, u64) -> bool>,
    ) -> Result<bool> {
        let children = node.children(self.mem());
        for (place, &child) in children.iter().enumerate().take(node.count).skip(place) {
            if !self.walk(child, node.slot(place), Some(node.is.height), visitor)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Visits what a word refers to that was read in a place of this height. Returns whether to go on.
    fn walk(
        &self,
        word: u64,
        slot: SyncWord,
        height: Option<u32>,
        visitor: &mut Visitor<impl FnMut(u64, u64) -> bool>,
    ) -> Result<bool> {
        let at = match self.refers(word, slot, height)? {
            Below::Nothing => return Ok(true),
            Below::Node(node) => return self.walk_from(node, 0, visitor),
            Below::Leaf(at) => at,
        };
        let leaf = Leaf::read(self.mem(), at);
        // No leaf is visited twice, so this ends.
        if visitor.passed.is_some_and(|passed| passed >= leaf.key) {
            return Err(Error::corrupt("the order of a trie's keys, at", at));
        }
        visitor.passed = Some(leaf.key);
        Ok(!leaf.lives || (visitor.each)(leaf.key, leaf.value))
    }

    /// The shape of the trie, if nobody changes it.
    pub fn shape(&self) -> Result<Shape> {
        let slot = sync_word(self.anchor + 8);
        let mut shape = Shape::default();
        self.measure(slot.load(self.mem()), slot, None, &mut shape)?;
        Ok(shape)
    }

    fn measure(&self, word: u64, slot: SyncWord, height: Option<u32>, shape: &mut Shape) -> Result<()> {
        match self.refers(word, slot, height)? {
            Below::Nothing => {}
            Below::Leaf(_) => shape.leaves += 1,
            Below::Node(node) => {
                shape.nodes += 1;
                shape.height = shape.height.max(node.is.height);
                let children = node.children(self.mem());
                for (place, &child) in children.iter().enumerate().take(node.count) {
                    self.measure(child, node.slot(place), Some(node.is.height), shape)?;
                }
            }
        }
        Ok(())
    }
}
